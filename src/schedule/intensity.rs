//! The planned rate of arrivals over time, and when a number of arrivals has been reached.
//!
//! Arrivals of a rate that changes are drawn from its integral: the *n*-th arrival is due when the integral
//! reaches the sum of *n* unit gaps. So exactly as many are planned as the rate promises, however it changes.

use crate::config::Ramp;
use crate::config::RampStrategy;
use crate::config::RatePoint;
use crate::schedule::ramp::RandomTimes;
use crate::time::Nanos;

/// Most steps of a rate ramp whose steps come at random times.
const RANDOM_STEPS_MAX: u32 = 10_000;

/// What the rate of a phase is made of.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    /// Arrivals per second that the ramp leads to, above 0.
    pub target_per_s: f64,
    /// How the rate rises to its target.
    pub ramp: Option<Ramp>,
    /// The granularity of AIPerf's ramps: the rate starts where its first step would have led.
    pub ramp_step: Nanos,
    /// Rates from the end of the ramp on, in place of the target; empty without.
    pub series: &'a [RatePoint],
    /// Root of the stream that gives steps their random times.
    pub seed: u64,
}

/// A rate over time with its integral, walked forward only.
#[derive(Clone, Debug)]
pub struct Intensity {
    pieces: Vec<Piece>,
    at: usize,
}

/// A stretch of time on which the rate follows one form.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin_s: f64,
    /// Arrivals planned before it begins.
    before: f64,
    /// Arrivals per second at its begin.
    rate_per_s: f64,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// The rate is multiplied by e every `1 / growth` seconds.
    Exponential { growth_per_s: f64 },
    /// The rate changes by this much per second.
    Linear { slope_per_s2: f64 },
}

impl Piece {
    /// Seconds from its begin until `count` arrivals (above 0) are planned in it.
    fn time_of(&self, count: f64) -> f64 {
        match self.form {
            Form::Exponential { growth_per_s } => {
                (growth_per_s * count / self.rate_per_s).ln_1p() / growth_per_s
            }
            Form::Linear { slope_per_s2 } => {
                // The root of the quadratic that does not cancel when the slope is small.
                let root = (self.rate_per_s * self.rate_per_s + 2.0 * slope_per_s2 * count).max(0.0).sqrt();
                2.0 * count / (self.rate_per_s + root)
            }
        }
    }

    /// Arrivals planned in its first `span_s` seconds.
    fn count(&self, span_s: f64) -> f64 {
        match self.form {
            Form::Exponential { growth_per_s } => {
                self.rate_per_s * (growth_per_s * span_s).exp_m1() / growth_per_s
            }
            Form::Linear { slope_per_s2 } => (self.rate_per_s + slope_per_s2 * span_s / 2.0) * span_s,
        }
    }
}

impl Intensity {
    /// The intensity of `rates`; `None` when it is the same at all times.
    pub fn new(rates: &Rates<'_>) -> Option<Self> {
        if rates.ramp.is_none() && rates.series.is_empty() {
            return None;
        }
        let level = Form::Linear { slope_per_s2: 0.0 };
        let mut intensity = Self { pieces: Vec::new(), at: 0 };
        let first = rates.series.first().map_or(rates.target_per_s, |point| point.rate_per_s);
        let mut ramp_s = 0.0;
        if let Some(ramp) = rates.ramp {
            ramp_s = ramp.duration.as_secs_f64();
            intensity.rise(ramp, first, rates);
        }
        intensity.push(ramp_s, first, level);
        for pair in rates.series.windows(2) {
            let [from, to] = pair else { continue };
            let slope_per_s2 = (to.rate_per_s - from.rate_per_s) / (to.time_s - from.time_s);
            intensity.push(ramp_s + from.time_s, from.rate_per_s, Form::Linear { slope_per_s2 });
        }
        if let Some(last) = rates.series.last() {
            intensity.push(ramp_s + last.time_s, last.rate_per_s, level);
        }
        Some(intensity)
    }

    /// An intensity that is the same until it is told otherwise: see [`Intensity::turn`].
    pub fn steady(rate_per_s: f64) -> Self {
        let mut intensity = Self { pieces: Vec::with_capacity(64), at: 0 };
        intensity.push(0.0, rate_per_s, Form::Linear { slope_per_s2: 0.0 });
        intensity
    }

    /// From `begin_s` on, which does not lie before the last turn, `rate_per_s` arrivals (above 0) are planned per
    /// second. Arrivals due before that keep their times.
    pub fn turn(&mut self, begin_s: f64, rate_per_s: f64) {
        self.push(begin_s, rate_per_s, Form::Linear { slope_per_s2: 0.0 });
    }

    /// The pieces of a ramp to `target_per_s`.
    fn rise(&mut self, ramp: Ramp, target_per_s: f64, rates: &Rates<'_>) {
        let span_s = ramp.duration.as_secs_f64();
        let step_s = rates.ramp_step.as_secs_f64();
        let start = (target_per_s * step_s / span_s).min(target_per_s);
        match ramp.strategy {
            // A ramp no longer than its first step is at its target at once.
            RampStrategy::Exponential | RampStrategy::Linear | RampStrategy::Poisson if step_s >= span_s => {
                self.push(0.0, target_per_s, Form::Linear { slope_per_s2: 0.0 });
            }
            RampStrategy::Exponential => {
                let growth_per_s = (target_per_s / start).ln() / span_s;
                self.push(0.0, start, Form::Exponential { growth_per_s });
            }
            RampStrategy::Linear => {
                let slope_per_s2 = (target_per_s - start) / span_s;
                self.push(0.0, start, Form::Linear { slope_per_s2 });
            }
            RampStrategy::Poisson => {
                let wanted = (span_s / step_s).ceil().min(f64::from(RANDOM_STEPS_MAX));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "bounded by RANDOM_STEPS_MAX and above zero"
                )]
                let steps = (wanted as u32).max(1);
                let level = Form::Linear { slope_per_s2: 0.0 };
                self.push(0.0, start, level);
                for (step, time_s) in (1..=steps).zip(RandomTimes::new(rates.seed, steps, span_s)) {
                    let share = f64::from(step) / f64::from(steps);
                    self.push(time_s, start + (target_per_s - start) * share, level);
                }
            }
        }
    }

    fn push(&mut self, begin_s: f64, rate_per_s: f64, form: Form) {
        let before = self
            .pieces
            .last()
            .map_or(0.0, |last| last.before + last.count((begin_s - last.begin_s).max(0.0)));
        self.pieces.push(Piece { begin_s, before, rate_per_s, form });
    }

    /// Seconds from the phase's start until `count` arrivals are planned; counts must not fall from call to
    /// call.
    pub fn time_of(&mut self, count: f64) -> f64 {
        while self.pieces.get(self.at + 1).is_some_and(|next| next.before <= count) {
            self.at += 1;
        }
        self.pieces.get(self.at).map_or(0.0, |piece| piece.begin_s + piece.time_of(count - piece.before))
    }

    /// Arrivals planned in the first `span_s` seconds.
    pub fn count(&self, span_s: f64) -> f64 {
        let piece = self.pieces.iter().rev().find(|piece| piece.begin_s <= span_s);
        piece.map_or(0.0, |piece| piece.before + piece.count(span_s - piece.begin_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(target_per_s: f64, ramp: Option<(u64, RampStrategy)>, series: &[RatePoint]) -> Rates<'_> {
        Rates {
            target_per_s,
            ramp: ramp.map(|(millis, strategy)| Ramp { duration: Nanos::from_millis(millis), strategy }),
            ramp_step: Nanos::from_millis(100),
            series,
            seed: 42,
        }
    }

    #[test]
    fn a_rate_that_never_changes_needs_no_integral() {
        assert!(Intensity::new(&rates(10.0, None, &[])).is_none());
    }

    #[test]
    fn a_linear_ramp_plans_half_of_what_its_target_would() {
        let ramp = Intensity::new(&rates(10.0, Some((8_000, RampStrategy::Linear)), &[]));
        let planned = ramp.as_ref().map_or(0.0, |ramp| ramp.count(8.0));
        // The rate starts at a tenth of a second's worth of the ramp: 0.125 per second.
        assert!((planned - 40.5).abs() < 1e-9, "{planned}");
        let later = ramp.map_or(0.0, |ramp| ramp.count(9.0));
        assert!((later - planned - 10.0).abs() < 1e-9, "the target holds after the ramp");
    }

    #[test]
    fn an_exponential_ramp_is_slow_first() {
        let planned = |strategy| {
            Intensity::new(&rates(100.0, Some((10_000, strategy)), &[])).map_or(0.0, |ramp| ramp.count(5.0))
        };
        assert!(planned(RampStrategy::Exponential) < planned(RampStrategy::Linear) / 4.0);
    }

    #[test]
    fn a_random_ramp_is_even_on_average() {
        let sum: f64 = (0..200)
            .map(|seed| {
                let rates = Rates { seed, ..rates(100.0, Some((10_000, RampStrategy::Poisson)), &[]) };
                Intensity::new(&rates).map_or(0.0, |ramp| ramp.count(10.0))
            })
            .sum();
        let mean = sum / 200.0;
        assert!((mean / 500.0 - 1.0).abs() < 0.03, "{mean} arrivals in place of 500");
    }

    #[test]
    fn a_series_is_followed_after_the_ramp_and_holds_at_both_ends() {
        let series = [
            RatePoint { time_s: 2.0, rate_per_s: 10.0 },
            RatePoint { time_s: 4.0, rate_per_s: 30.0 },
            RatePoint { time_s: 5.0, rate_per_s: 0.5 },
        ];
        let plain = Intensity::new(&rates(10.0, None, &series));
        let count = |span_s: f64| plain.as_ref().map_or(0.0, |series| series.count(span_s));
        assert!((count(2.0) - 20.0).abs() < 1e-9);
        assert!((count(4.0) - 60.0).abs() < 1e-9);
        assert!((count(5.0) - 75.25).abs() < 1e-9);
        assert!((count(7.0) - 76.25).abs() < 1e-9);
        let ramped = Intensity::new(&rates(10.0, Some((1_000, RampStrategy::Linear)), &series));
        let ramped_count = |span_s: f64| ramped.as_ref().map_or(0.0, |series| series.count(span_s));
        let ramp = ramped_count(1.0);
        assert!((ramp - 5.5).abs() < 1e-9, "{ramp}");
        assert!((ramped_count(8.0) - ramp - 76.25).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_time_of_a_count_is_when_the_integral_reaches_it(
            target in 0.5_f64..5_000.0,
            millis in 1_u64..60_000,
            strategy in prop::sample::select(vec![
                RampStrategy::Exponential, RampStrategy::Linear, RampStrategy::Poisson,
            ]),
            points in prop::collection::vec((0.01_f64..5.0, 0.1_f64..2_000.0), 0..5),
            counts in prop::collection::vec(0.001_f64..500.0, 1..50),
        ) {
            let mut time_s = 0.0;
            let mut series: Vec<RatePoint> = points
                .iter()
                .map(|(gap, rate_per_s)| {
                    let point = RatePoint { time_s, rate_per_s: *rate_per_s };
                    time_s += gap;
                    point
                })
                .collect();
            if series.len() < 2 {
                series.clear();
            }
            let rates = rates(target, Some((millis, strategy)), &series);
            let mut intensity = Intensity::new(&rates).ok_or_else(|| TestCaseError::fail("no ramp"))?;
            let integral = intensity.clone();
            let (mut sum, mut last_s) = (0.0, 0.0);
            for count in counts {
                sum += count;
                let at_s = intensity.time_of(sum);
                prop_assert!(at_s >= last_s, "time runs back from {last_s} to {at_s}");
                let reached = integral.count(at_s);
                prop_assert!((reached - sum).abs() < 1e-6 * sum.max(1.0), "{reached} in place of {sum}");
                last_s = at_s;
            }
        }
    }
}
