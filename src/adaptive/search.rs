//! Which variation to run next, when what is wanted is the best one: pure choices from results.
//!
//! [`KneeSearch`] finds the highest value of one thing that is within limits: it doubles until one is not, then
//! halves the gap. [`PatternSearch`] is for all else: it spreads a few points over the space, then goes from the
//! best one in ever smaller steps. Neither runs anything.

use std::collections::HashSet;

/// A gap this small, as a share of the value below it, is not halved again.
const GAP_MIN: f64 = 0.05;

/// Steps below this share of the range end a search.
const STEP_MIN: f64 = 0.02;

/// First step beside the best of the points spread out, as a share of the range.
const STEP_FIRST: f64 = 0.25;

/// Primes for the points spread out: one per dimension.
const PRIMES: [u32; 8] = [2, 3, 5, 7, 11, 13, 17, 19];

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The greatest value is within the limits.
    HighestHolds,
    /// As many variations as were allowed have been run.
    Iterations,
    /// Not even the least value is within the limits.
    LowestFails,
    /// What is left to look at is too little to matter.
    Narrow,
    /// Ended by a signal.
    Interrupted,
}

impl Stopped {
    /// For files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighestHolds => "highest_value_holds",
            Self::Interrupted => "interrupted",
            Self::Iterations => "max_iterations",
            Self::LowestFails => "lowest_value_fails",
            Self::Narrow => "narrow_enough",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::HighestHolds => "the greatest value is within the limits: raise `hi` to learn more",
            Self::Interrupted => "it was interrupted",
            Self::Iterations => "`max_iterations` variations have been run",
            Self::LowestFails => "not even the least value is within the limits: lower `lo`",
            Self::Narrow => "the gap that is left is too small to matter",
        }
    }
}

/// One thing that is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Its least value.
    pub low: f64,
    /// Its greatest value, above the least.
    pub high: f64,
    /// Whether only whole values are tried.
    pub whole: bool,
}

impl Axis {
    /// Values above zero are looked at by their ratios, all others by their differences.
    fn by_ratio(&self) -> bool {
        self.low > 0.0
    }

    /// The value at `share` (0 to 1) of the way.
    fn at(&self, share: f64) -> f64 {
        let value = if self.by_ratio() {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.low + (self.high - self.low) * share
        };
        self.fitting(value)
    }

    fn fitting(&self, value: f64) -> f64 {
        let value = if self.whole { value.round() } else { value };
        value.clamp(self.low, self.high)
    }

    fn between(&self, low: f64, high: f64) -> f64 {
        let middle = if self.by_ratio() { (low * high).sqrt() } else { f64::midpoint(low, high) };
        self.fitting(middle)
    }
}

/// The highest value of one thing that is within limits, if all below it are.
#[derive(Clone, Debug)]
pub struct KneeSearch {
    axis: Axis,
    left: u32,
    holds: Option<f64>,
    fails: Option<f64>,
}

impl KneeSearch {
    /// A search on `axis` by at most `iterations` variations.
    pub fn new(axis: Axis, iterations: u32) -> Self {
        Self { axis, left: iterations, holds: None, fails: None }
    }

    /// The value to try next, or why there is none.
    pub fn propose(&self) -> Result<f64, Stopped> {
        let Axis { low, high, .. } = self.axis;
        let (holds, fails) = match (self.holds, self.fails) {
            (None, None) => (low, None),
            (None, Some(_)) => return Err(Stopped::LowestFails),
            (Some(holds), _) if holds >= high => return Err(Stopped::HighestHolds),
            (Some(holds), fails) => (holds, fails),
        };
        if self.left == 0 {
            return Err(Stopped::Iterations);
        }
        if self.holds.is_none() {
            return Ok(low);
        }
        let Some(fails) = fails else {
            let doubled = if self.axis.by_ratio() { holds * 2.0 } else { holds + (high - low) / 8.0 };
            return Ok(self.axis.fitting(doubled));
        };
        let next = self.axis.between(holds, fails);
        let narrow = (fails - holds) / holds.abs().max((high - low) * 1e-3) <= GAP_MIN;
        // Of two whole neighbours there is none between.
        if narrow || next <= holds || next >= fails { Err(Stopped::Narrow) } else { Ok(next) }
    }

    /// What the variation with `value` came to.
    pub fn take_in(&mut self, value: f64, within: bool) {
        self.left = self.left.saturating_sub(1);
        if within {
            self.holds = Some(self.holds.map_or(value, |holds| holds.max(value)));
        } else {
            self.fails = Some(self.fails.map_or(value, |fails| fails.min(value)));
        }
    }

    /// The highest value known to be within the limits, and the lowest one known not to be.
    pub fn bracket(&self) -> (Option<f64>, Option<f64>) {
        (self.holds, self.fails)
    }
}

/// The best point of a space, as far as going downhill in it finds it.
#[derive(Clone, Debug)]
pub struct PatternSearch {
    axes: Vec<Axis>,
    left: u32,
    /// Points that are still to be tried before the search goes on from the best, as shares of the way; last
    /// first.
    waiting: Vec<Vec<f64>>,
    best: Option<(Vec<f64>, f64)>,
    /// The point being tried.
    trying: Vec<f64>,
    step: f64,
    /// The best one has changed since its neighbours were looked at.
    moved: bool,
    seen: HashSet<Vec<u64>>,
}

impl PatternSearch {
    /// A search on `axes` by at most `iterations` variations, the first `spread` of which are spread over the
    /// whole space as `seed` says.
    pub fn new(axes: Vec<Axis>, iterations: u32, spread: u32, seed: u64) -> Self {
        let mut shift = fastrand::Rng::with_seed(seed);
        let shifts: Vec<f64> = axes.iter().map(|_| shift.f64()).collect();
        // Van der Corput's sequences in different bases, shifted (Cranley and Patterson).
        let point = |index: u32| -> Vec<f64> {
            let places = axes.iter().zip(&shifts).zip(PRIMES.iter().cycle());
            places.map(|((_, shift), base)| (van_der_corput(index, *base) + shift).fract()).collect()
        };
        let mut waiting: Vec<Vec<f64>> = (1..=spread.max(1)).map(point).collect();
        waiting.reverse();
        Self {
            axes,
            left: iterations,
            waiting,
            best: None,
            trying: Vec::new(),
            step: STEP_FIRST,
            moved: true,
            seen: HashSet::new(),
        }
    }

    /// The values to try next, one per axis, or why there are none. No point is tried twice.
    pub fn propose(&mut self) -> Result<Vec<f64>, Stopped> {
        loop {
            if self.left == 0 {
                return Err(Stopped::Iterations);
            }
            if let Some(point) = self.waiting.pop() {
                let values = self.values(&point);
                if self.seen.insert(values.iter().map(|value| value.to_bits()).collect()) {
                    self.trying = point;
                    return Ok(values);
                }
                continue;
            }
            if !std::mem::take(&mut self.moved) {
                self.step /= 2.0;
            }
            if self.step < STEP_MIN {
                return Err(Stopped::Narrow);
            }
            let Some((best, _)) = &self.best else { return Err(Stopped::LowestFails) };
            for axis in (0..self.axes.len()).rev() {
                for way in [-1.0, 1.0] {
                    let mut beside = best.clone();
                    if let Some(share) = beside.get_mut(axis) {
                        *share = (*share + way * self.step).clamp(0.0, 1.0);
                    }
                    self.waiting.push(beside);
                }
            }
        }
    }

    fn values(&self, point: &[f64]) -> Vec<f64> {
        self.axes.iter().zip(point).map(|(axis, share)| axis.at(*share)).collect()
    }

    /// What the point that was given last came to: more is better; absent where it counts for nothing.
    pub fn take_in(&mut self, worth: Option<f64>) {
        self.left = self.left.saturating_sub(1);
        let Some(worth) = worth else { return };
        if self.best.as_ref().is_none_or(|(_, best)| worth > *best) {
            self.best = Some((self.trying.clone(), worth));
            self.moved = true;
        }
    }
}

fn van_der_corput(mut index: u32, base: u32) -> f64 {
    let (mut value, mut place) = (0.0, 1.0 / f64::from(base));
    while index > 0 {
        value += f64::from(index % base) * place;
        index /= base;
        place /= f64::from(base);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee_of(axis: Axis, iterations: u32, knee: f64) -> (Stopped, u32, Option<f64>) {
        let mut search = KneeSearch::new(axis, iterations);
        let mut runs = 0;
        loop {
            match search.propose() {
                Err(stopped) => return (stopped, runs, search.bracket().0),
                Ok(value) => {
                    runs += 1;
                    search.take_in(value, value <= knee);
                }
            }
        }
    }

    #[test]
    fn any_knee_is_found_within_a_twentieth_by_few_runs() {
        let axis = Axis { low: 1.0, high: 1_000.0, whole: true };
        for knee in 1..1_000_u32 {
            let (stopped, runs, found) = knee_of(axis, 200, f64::from(knee));
            let found = found.unwrap_or(0.0);
            assert_eq!(stopped, Stopped::Narrow, "{knee}");
            assert!(found <= f64::from(knee) && found >= (f64::from(knee) / 1.06).floor(), "{knee}: {found}");
            assert!(runs <= 17, "{knee}: {runs} runs");
        }
    }

    #[test]
    fn both_ends_and_the_number_of_runs_stop_a_search() {
        let axis = Axis { low: 2.0, high: 64.0, whole: true };
        assert_eq!(knee_of(axis, 50, 1.0), (Stopped::LowestFails, 1, None));
        assert_eq!(knee_of(axis, 50, 64.0), (Stopped::HighestHolds, 6, Some(64.0)));
        assert_eq!(knee_of(axis, 3, 64.0), (Stopped::Iterations, 3, Some(8.0)));
        let fine = Axis { low: 0.0, high: 1.0, whole: false };
        let (stopped, runs, found) = knee_of(fine, 50, 0.3);
        assert_eq!(stopped, Stopped::Narrow);
        assert!(found.is_some_and(|found| found <= 0.3 && found > 0.28) && runs < 12, "{runs} {found:?}");
    }

    #[test]
    fn a_hill_is_climbed_in_two_dimensions() {
        for seed in 0..5 {
            let axes = vec![
                Axis { low: 1.0, high: 1_000.0, whole: true },
                Axis { low: 1.0, high: 100.0, whole: false },
            ];
            let mut search = PatternSearch::new(axes, 200, 8, seed);
            let mut best = (f64::NEG_INFINITY, Vec::new());
            while let Ok(values) = search.propose() {
                let worth = -((values[0] / 50.0).ln().powi(2) + (values[1] / 20.0).ln().powi(2));
                if worth > best.0 {
                    best = (worth, values);
                }
                search.take_in(Some(worth));
            }
            assert!(
                (best.1[0] / 50.0 - 1.0).abs() < 0.15 && (best.1[1] / 20.0 - 1.0).abs() < 0.15,
                "{best:?}"
            );
        }
    }

    #[test]
    fn a_space_in_which_nothing_counts_is_given_up() {
        let mut search = PatternSearch::new(vec![Axis { low: 1.0, high: 9.0, whole: true }], 50, 3, 1);
        let mut runs = 0;
        let stopped = loop {
            match search.propose() {
                Ok(_) => search.take_in(None),
                Err(stopped) => break stopped,
            }
            runs += 1;
        };
        assert_eq!((stopped, runs), (Stopped::LowestFails, 3));
    }
}
