//! Draws for datasets: AIPerf's normal numbers, and distributions as they are written.
//!
//! Where AIPerf draws, the draws are the same for the same seed. Distributions that AIPerf accepts and then
//! flattens to a fixed value are drawn as they are written.

use crate::rng::Mt;

/// Normal draws below zero are repeated at most so often.
const REDRAWS_MAX: u32 = 10_000;

/// A seeded stream with `CPython`'s `gauss`, which makes two numbers at a time.
#[derive(Clone, Debug)]
pub struct Draws {
    stream: Mt,
    kept: Option<f64>,
}

impl Draws {
    /// The stream `identifier` under the run's seed.
    pub fn new(seed: u64, identifier: &str) -> Self {
        Self { stream: Mt::for_stream(seed, identifier), kept: None }
    }

    /// A number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        self.stream.uniform()
    }

    /// A whole number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.stream.choice_index(n)
    }

    /// As `random.choices` takes one of `n` with equal weights.
    pub fn choices_index(&mut self, n: usize) -> usize {
        let place = (self.stream.uniform() * n as f64).floor();
        usize::try_from(to_count(place)).unwrap_or(usize::MAX).min(n.saturating_sub(1))
    }

    /// A normal number.
    pub fn gauss(&mut self, mean: f64, stddev: f64) -> f64 {
        let unit = self.kept.take().unwrap_or_else(|| {
            let angle = self.stream.uniform() * std::f64::consts::TAU;
            let radius = (-2.0 * (1.0 - self.stream.uniform()).ln()).sqrt();
            self.kept = Some(angle.sin() * radius);
            angle.cos() * radius
        });
        mean + unit * stddev
    }

    /// A whole number of at least 1: a fixed one rounded to even, a normal one not below zero and rounded up.
    pub fn positive(&mut self, mean: f64, stddev: f64) -> u64 {
        if stddev <= 0.0 {
            return to_count(mean.round_ties_even()).max(1);
        }
        let mut drawn = self.gauss(mean, stddev);
        for _ in 1..REDRAWS_MAX {
            if drawn >= 0.0 {
                break;
            }
            drawn = self.gauss(mean, stddev);
        }
        if drawn < 0.0 {
            drawn = mean.max(0.0);
        }
        to_count(drawn.ceil()).max(1)
    }
}

/// A float as a count: below zero and not a number are 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is what is meant")]
pub(in crate::dataset) const fn to_count(value: f64) -> u64 {
    value as u64
}

/// How a number varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The law.
    pub law: Law,
    /// Draws below are this.
    pub min: Option<f64>,
    /// Draws above are this.
    pub max: Option<f64>,
}

/// The law of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// Values with their weights; at least one, weights above 0.
    Empirical(Vec<(f64, f64)>),
    /// Always the same.
    Fixed(f64),
    /// The logarithm is normal; `0 < median <= mean`.
    Lognormal {
        /// The mean.
        mean: f64,
        /// The median.
        median: f64,
    },
    /// One of several laws, by weight; weights above 0.
    Multimodal(Vec<(Distribution, f64)>),
    /// Normal, not below 0.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
}

impl Distribution {
    /// Always `value`.
    pub const fn fixed(value: f64) -> Self {
        Self { law: Law::Fixed(value), min: None, max: None }
    }

    /// Normal.
    pub const fn normal(mean: f64, stddev: f64) -> Self {
        Self { law: Law::Normal { mean, stddev }, min: None, max: None }
    }

    /// The mean, bounds left out of account but for a fixed value.
    pub fn mean(&self) -> f64 {
        let weighted = |parts: &mut dyn Iterator<Item = (f64, f64)>| {
            let (sum, weights) = parts
                .fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        match &self.law {
            Law::Empirical(points) => weighted(&mut points.iter().copied()),
            Law::Fixed(value) => self.clamped(*value),
            Law::Lognormal { mean, .. } | Law::Normal { mean, .. } => *mean,
            Law::Multimodal(peaks) => {
                weighted(&mut peaks.iter().map(|(peak, weight)| (peak.mean(), *weight)))
            }
        }
    }

    /// A whole number of at least 1, `less` subtracted from the mean first (as AIPerf takes special tokens off).
    ///
    /// A fixed or normal one is AIPerf's to the bit: mean and deviation are whole numbers there. A deviation
    /// below 1, which that would flatten, and every other law are drawn as written.
    pub fn positive(&self, draws: &mut Draws, less: f64, floor: u64) -> u64 {
        let drawn = match &self.law {
            Law::Fixed(value) => to_count((value.trunc() - less).max(floor as f64).round_ties_even()),
            Law::Normal { mean, stddev } if self.min.is_none() && self.max.is_none() => {
                let whole = *stddev >= 1.0 || *stddev <= 0.0;
                let (mean, stddev) = if whole { (mean.trunc(), stddev.trunc()) } else { (*mean, *stddev) };
                let mean = (mean - less).max(floor as f64);
                if mean < 0.5 && stddev <= 0.0 { 0 } else { draws.positive(mean, stddev) }
            }
            Law::Empirical(_) | Law::Lognormal { .. } | Law::Multimodal(_) | Law::Normal { .. } => {
                to_count((self.draw(draws) - less).ceil())
            }
        };
        let (low, high) = (self.min.unwrap_or(0.0) - less, self.max.unwrap_or(f64::INFINITY) - less);
        drawn.max(to_count(low.ceil())).min(to_count(high.floor())).max(floor)
    }

    /// A number as written, within the bounds.
    pub fn draw(&self, draws: &mut Draws) -> f64 {
        let value = match &self.law {
            Law::Empirical(points) => {
                let place = chosen(points.iter().map(|(_, weight)| *weight), draws);
                points.get(place).map_or(0.0, |(value, _)| *value)
            }
            Law::Fixed(value) => *value,
            Law::Lognormal { mean, median } => {
                let spread = (2.0 * (mean / median).ln()).max(0.0).sqrt();
                draws.gauss(median.ln(), spread).exp()
            }
            Law::Multimodal(peaks) => {
                let place = chosen(peaks.iter().map(|(_, weight)| *weight), draws);
                peaks.get(place).map_or(0.0, |(peak, _)| peak.draw(draws))
            }
            Law::Normal { mean, stddev } => {
                let mut drawn = draws.gauss(*mean, *stddev);
                for _ in 1..REDRAWS_MAX {
                    if drawn >= 0.0 {
                        break;
                    }
                    drawn = draws.gauss(*mean, *stddev);
                }
                drawn.max(0.0)
            }
        };
        self.clamped(value)
    }

    fn clamped(&self, value: f64) -> f64 {
        value.max(self.min.unwrap_or(f64::NEG_INFINITY)).min(self.max.unwrap_or(f64::INFINITY))
    }
}

/// One of the weights, each as likely as it is heavy.
pub(in crate::dataset) fn chosen(weights: impl Iterator<Item = f64> + Clone, draws: &mut Draws) -> usize {
    let whole: f64 = weights.clone().sum();
    let place = draws.uniform() * whole;
    let mut sum = 0.0;
    let mut last = 0;
    for (index, weight) in weights.enumerate() {
        sum += weight;
        last = index;
        if place < sum {
            break;
        }
    }
    last
}
