//! How a limit rises from 1 to its target, one by one.

use crate::config::Ramp;
use crate::config::RampStrategy;
use crate::rng::Mt;
use crate::rng::RAMP_POISSON;
use crate::time::Nanos;

/// `count` ordered random times that end at `span_s`: a Poisson process, given that its last event comes
/// then.
#[derive(Debug)]
pub(crate) struct RandomTimes {
    stream: Mt,
    left: u32,
    sum: f64,
    scale: f64,
}

impl RandomTimes {
    /// The times of the stream `timing.ramp.poisson` under `seed`.
    pub(crate) fn new(seed: u64, count: u32, span_s: f64) -> Self {
        let mut whole = Mt::for_stream(seed, RAMP_POISSON);
        let total: f64 = (0..count).map(|_| whole.exponential(1.0)).sum();
        Self { stream: Mt::for_stream(seed, RAMP_POISSON), left: count, sum: 0.0, scale: span_s / total }
    }
}

impl Iterator for RandomTimes {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.left = self.left.checked_sub(1)?;
        self.sum += self.stream.exponential(1.0);
        Some(self.sum * self.scale)
    }
}

/// A limit on its way from 1 to its target. It is the same on every shard.
#[derive(Debug)]
pub struct CountRamp {
    target: u32,
    span_s: f64,
    value: u32,
    next: Option<Nanos>,
    times: Times,
}

#[derive(Debug)]
enum Times {
    Exponential,
    Linear,
    Random(Box<RandomTimes>),
}

impl CountRamp {
    /// A ramp to `target` (at least 1); it stands at 1.
    pub fn new(ramp: Ramp, target: u32, seed: u64) -> Self {
        let span_s = ramp.duration.as_secs_f64();
        let times = match ramp.strategy {
            RampStrategy::Exponential => Times::Exponential,
            RampStrategy::Linear => Times::Linear,
            RampStrategy::Poisson => {
                Times::Random(Box::new(RandomTimes::new(seed, target.saturating_sub(1), span_s)))
            }
        };
        let mut ramp = Self { target, span_s, value: target.min(1), next: None, times };
        ramp.next = ramp.time_of_next();
        ramp
    }

    /// The limit now.
    pub const fn value(&self) -> u32 {
        self.value
    }

    /// When it rises next, from the phase's start.
    pub const fn next(&self) -> Option<Nanos> {
        self.next
    }

    /// Takes one step if it is due `elapsed` after the phase's start, and tells when it was due.
    pub fn step(&mut self, elapsed: Nanos) -> Option<Nanos> {
        let due = self.next.filter(|due| *due <= elapsed)?;
        self.value += 1;
        self.next = self.time_of_next();
        Some(due)
    }

    /// When the value after the present one holds.
    fn time_of_next(&mut self) -> Option<Nanos> {
        if self.value >= self.target {
            return None;
        }
        let (value, target) = (f64::from(self.value), f64::from(self.target));
        let time_s = match &mut self.times {
            Times::Exponential => self.span_s * (value + 1.0).ln() / target.ln(),
            Times::Linear => self.span_s * value / (target - 1.0),
            Times::Random(times) => times.next()?,
        };
        Some(Nanos::from_secs_f64(time_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(strategy: RampStrategy, target: u32) -> Vec<Nanos> {
        let mut ramp = CountRamp::new(Ramp { duration: Nanos::from_millis(1_000), strategy }, target, 42);
        assert_eq!(ramp.value(), 1);
        let steps: Vec<Nanos> = std::iter::from_fn(|| ramp.step(Nanos::from_millis(2_000))).collect();
        assert_eq!(ramp.value(), target);
        assert_eq!(ramp.next(), None);
        steps
    }

    #[test]
    fn a_linear_ramp_rises_by_one_in_equal_steps() {
        let expected = [250, 500, 750, 1_000].map(Nanos::from_millis);
        assert_eq!(steps(RampStrategy::Linear, 5), expected);
    }

    #[test]
    fn an_exponential_ramp_doubles_in_equal_spans() {
        let steps = steps(RampStrategy::Exponential, 16);
        for (value, millis) in [(2_usize, 250), (4, 500), (8, 750), (16, 1_000)] {
            let off = steps[value - 2].0.abs_diff(Nanos::from_millis(millis).0);
            assert!(off <= 1, "{value}: {:?}", steps[value - 2]);
        }
    }

    #[test]
    fn a_random_ramp_ends_where_it_should_and_has_the_mean_of_an_even_one() {
        let steps = steps(RampStrategy::Poisson, 10_001);
        assert_eq!(steps.len(), 10_000);
        assert!(steps.is_sorted());
        let last = steps.last().map_or(0, |last| last.0);
        assert!(last.abs_diff(1_000_000_000) <= 1, "{last}");
        let mean = steps.iter().map(|step| step.0 as f64).sum::<f64>() / 10_000.0 / 1e9;
        // The mean of n uniform times scatters by 1 / sqrt(12 n).
        assert!((mean - 0.5).abs() < 4.0 / (12.0 * 10_000.0_f64).sqrt(), "{mean}");
    }

    #[test]
    fn a_target_of_one_has_no_steps() {
        for strategy in [RampStrategy::Exponential, RampStrategy::Linear, RampStrategy::Poisson] {
            assert!(steps(strategy, 1).is_empty());
        }
    }
}
