//! Arrivals of an open loop: absolute due times, the same on every shard.

use crate::rng::GAMMA_INTERVAL;
use crate::rng::Mt;
use crate::rng::POISSON_INTERVAL;
use crate::schedule::Intensity;
use crate::schedule::Share;
use crate::schedule::UserArrivals;
use crate::time::Nanos;
use std::sync::Arc;

/// One planned arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Position in the phase's sequence, from 0.
    pub index: u64,
    /// When it is due, from the phase's start.
    pub offset: Nanos,
    /// The session that the plan wants begun; absent where the order of the dataset decides.
    pub session: Option<PlannedSession>,
}

/// A session that the plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSession {
    /// Which conversation.
    pub conversation: u32,
    /// Most turns of it that are played, at least 1.
    pub turns_max: u32,
}

/// The law of the gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// All equal.
    Constant,
    /// Independent and exponential: a Poisson process.
    Exponential,
    /// Independent, of a gamma distribution with this shape (above 0).
    Gamma(f64),
}

/// Arrivals at a rate: gaps summed from the phase's start.
///
/// The first arrival is due one gap after the start. At a rate that does not change, sums are kept in seconds
/// as AIPerf keeps them, so that the same seed plans the same due times (streams
/// `timing.request.poisson_interval` and `timing.request.gamma_interval`). At a rate that changes, unit gaps
/// are held against its integral.
#[derive(Debug)]
pub struct PacedArrivals {
    gaps: Draws,
    course: Course,
    share: Share,
    /// Seconds at a steady rate, unit gaps at a changing one.
    sum: f64,
    index: u64,
}

#[derive(Debug)]
enum Draws {
    Constant,
    Exponential(Box<Mt>),
    Gamma(Box<Mt>, f64),
}

#[derive(Debug)]
enum Course {
    Changing(Intensity),
    Steady(f64),
}

impl PacedArrivals {
    /// The arrivals of `share` in the sequence that `seed` plans at a steady `rate_per_s` (above 0).
    pub fn steady(seed: u64, gaps: Gaps, rate_per_s: f64, share: Share) -> Self {
        assert!(rate_per_s > 0.0, "a rate is above zero");
        Self { gaps: Draws::new(seed, gaps), course: Course::Steady(rate_per_s), share, sum: 0.0, index: 0 }
    }

    /// The arrivals of `share` in the sequence that `seed` plans for `intensity`.
    pub fn changing(seed: u64, gaps: Gaps, intensity: Intensity, share: Share) -> Self {
        Self { gaps: Draws::new(seed, gaps), course: Course::Changing(intensity), share, sum: 0.0, index: 0 }
    }

    /// From `begin_s` on arrivals come at `rate_per_s`. Gives the last arrival that was drawn, due when it is now;
    /// absent at a steady rate, which cannot be turned.
    pub fn turn(&mut self, begin_s: f64, rate_per_s: f64) -> Option<Arrival> {
        match &mut self.course {
            Course::Changing(intensity) => {
                intensity.turn(begin_s, rate_per_s);
                let offset = Nanos::from_secs_f64(intensity.time_of(self.sum));
                Some(Arrival { index: self.index.checked_sub(1)?, offset, session: None })
            }
            Course::Steady(_) => None,
        }
    }

    /// When the next arrival of any share is due, in seconds.
    fn due_s(&mut self) -> f64 {
        match &mut self.course {
            Course::Changing(intensity) => {
                self.sum += self.gaps.unit();
                intensity.time_of(self.sum)
            }
            Course::Steady(rate_per_s) => match &mut self.gaps {
                // Not summed: the n-th of r per second is due after n / r seconds to the last digit.
                Draws::Constant => (self.index + 1) as f64 / *rate_per_s,
                Draws::Exponential(stream) => {
                    self.sum += stream.exponential(*rate_per_s);
                    self.sum
                }
                Draws::Gamma(stream, shape) => {
                    self.sum += stream.gamma(*shape, 1.0 / (*rate_per_s * *shape));
                    self.sum
                }
            },
        }
    }
}

impl Draws {
    fn new(seed: u64, gaps: Gaps) -> Self {
        match gaps {
            Gaps::Constant => Self::Constant,
            Gaps::Exponential => Self::Exponential(Box::new(Mt::for_stream(seed, POISSON_INTERVAL))),
            Gaps::Gamma(shape) => Self::Gamma(Box::new(Mt::for_stream(seed, GAMMA_INTERVAL)), shape),
        }
    }

    /// A gap with a mean of 1.
    fn unit(&mut self) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Exponential(stream) => stream.exponential(1.0),
            Self::Gamma(stream, shape) => stream.gamma(*shape, 1.0 / *shape),
        }
    }
}

impl Iterator for PacedArrivals {
    type Item = Arrival;

    /// The next arrival of this share; draws those of the other shards on the way. Never ends.
    fn next(&mut self) -> Option<Arrival> {
        loop {
            let due_s = self.due_s();
            let index = self.index;
            self.index += 1;
            if self.share.owns(index) {
                return Some(Arrival { index, offset: Nanos::from_secs_f64(due_s), session: None });
            }
        }
    }
}

/// One entry of a fixed schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When its first turn is due, from the phase's start.
    pub offset: Nanos,
    /// Which conversation.
    pub conversation: u32,
}

/// Entries of a trace at their own times.
#[derive(Debug)]
pub struct ScheduledArrivals {
    entries: Arc<[Entry]>,
    share: Share,
    index: u64,
}

impl ScheduledArrivals {
    /// The arrivals of `share` among `entries`, which are ordered by time.
    pub fn new(entries: Arc<[Entry]>, share: Share) -> Self {
        Self { entries, share, index: share.shard().into() }
    }
}

impl Iterator for ScheduledArrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let index = self.index;
        let entry = self.entries.get(usize::try_from(index).ok()?)?;
        self.index += u64::from(self.share.shards());
        let session = PlannedSession { conversation: entry.conversation, turns_max: u32::MAX };
        Some(Arrival { index, offset: entry.offset, session: Some(session) })
    }
}

/// The arrivals of any open loop.
#[derive(Debug)]
pub enum Arrivals {
    /// At a rate.
    Paced(PacedArrivals),
    /// At the times of a trace.
    Scheduled(ScheduledArrivals),
    /// Of users who come and go.
    Users(UserArrivals),
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match self {
            Self::Paced(arrivals) => arrivals.next(),
            Self::Scheduled(arrivals) => arrivals.next(),
            Self::Users(arrivals) => arrivals.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Ramp;
    use crate::config::RampStrategy;
    use crate::schedule::Rates;

    fn poisson(seed: u64, rate_per_s: f64, share: Share) -> PacedArrivals {
        PacedArrivals::steady(seed, Gaps::Exponential, rate_per_s, share)
    }

    /// AIPerf's own intervals for seed 42 at 50 per second (spec/runtime 8.3).
    const INTERVALS_S: [f64; 5] = [
        0.014_631_722_264_377_665,
        0.007_155_214_974_321_352,
        0.009_375_248_242_571_261,
        0.011_801_551_443_303_486,
        0.004_113_618_880_044_286,
    ];

    #[test]
    fn seed_42_plans_the_due_times_that_aiperf_plans() {
        let planned: Vec<Nanos> =
            poisson(42, 50.0, Share::new(0, 1)).take(5).map(|arrival| arrival.offset).collect();
        let mut sum = 0.0;
        let expected: Vec<Nanos> = INTERVALS_S
            .iter()
            .map(|interval| {
                sum += interval;
                Nanos::from_secs_f64(sum)
            })
            .collect();
        assert_eq!(planned, expected);
    }

    #[test]
    fn any_number_of_shards_plans_the_same_sequence() {
        let whole: Vec<Arrival> = poisson(7, 1_000.0, Share::new(0, 1)).take(1_000).collect();
        for shards in [2_u16, 5, 64] {
            let mut merged: Vec<Arrival> = (0..shards)
                .flat_map(|shard| {
                    poisson(7, 1_000.0, Share::new(shard, shards))
                        .take_while(|arrival| arrival.index < 1_000)
                        .collect::<Vec<_>>()
                })
                .collect();
            merged.sort_by_key(|arrival| arrival.index);
            assert_eq!(merged, whole);
        }
    }

    #[test]
    fn gaps_follow_the_exponential_law() {
        let rate = 5_000.0;
        let count = 200_000;
        let mut last = 0;
        let mut gaps: Vec<f64> = poisson(3, rate, Share::new(0, 1))
            .take(count)
            .map(|arrival| {
                let gap = (arrival.offset.0 - last) as f64 / 1e9;
                last = arrival.offset.0;
                gap
            })
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        assert!((mean * rate - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "variation {}", variance.sqrt() / mean);
        gaps.sort_by(f64::total_cmp);
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(rank, gap)| ((-gap * rate).exp() - (1.0 - (rank as f64 + 0.5) / n)).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.63 / n.sqrt(), "Kolmogorov-Smirnov distance {distance}");
    }

    #[test]
    fn counts_per_window_scatter_as_a_poisson_process_does() {
        let rate = 10_000.0;
        for window_ns in [10_000_000_u64, 100_000_000] {
            let windows = 200;
            let mut counts = vec![0_u32; windows];
            for arrival in poisson(11, rate, Share::new(0, 1)) {
                let window = usize::try_from(arrival.offset.0 / window_ns).unwrap_or(usize::MAX);
                match counts.get_mut(window) {
                    Some(count) => *count += 1,
                    None => break,
                }
            }
            let n = windows as f64;
            let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / n;
            let variance = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / n;
            let dispersion = variance / mean;
            assert!((0.7..1.35).contains(&dispersion), "dispersion {dispersion} at {window_ns} ns");
        }
    }

    #[test]
    fn seed_42_plans_the_gamma_gaps_that_aiperf_plans() {
        let vectors: [(f64, &[f64]); 3] = [
            (
                4.0,
                &[
                    0.022_809_691_772_610_403,
                    0.033_454_603_254_119_59,
                    0.014_738_974_246_814_843,
                    0.014_878_724_716_874_821,
                    0.010_195_509_184_347_624,
                ],
            ),
            (
                0.5,
                &[
                    0.035_520_792_468_599_176,
                    0.005_332_923_059_542_581,
                    0.001_162_217_578_457_61,
                    7.997_210_824_311_075e-5,
                    0.000_837_392_725_643_512_5,
                ],
            ),
            (1.0, &[0.017_641_757_027_775_155, 0.048_627_637_594_637_6, 0.031_787_076_696_573_345]),
        ];
        for (shape, gaps_s) in vectors {
            let mut sum_s = 0.0;
            let arrivals = PacedArrivals::steady(42, Gaps::Gamma(shape), 50.0, Share::new(0, 1));
            for (arrival, gap_s) in arrivals.zip(gaps_s) {
                sum_s += gap_s;
                assert!(
                    arrival.offset.0.abs_diff(Nanos::from_secs_f64(sum_s).0) <= 1,
                    "{shape}: {arrival:?}"
                );
            }
        }
    }

    #[test]
    fn a_constant_rate_plans_exactly_its_count() {
        for (rate_per_s, seconds) in [(30_u32, 30), (3, 100), (7, 11), (1_000, 30)] {
            let end = Nanos::from_millis(u64::from(seconds) * 1_000);
            let planned = PacedArrivals::steady(1, Gaps::Constant, rate_per_s.into(), Share::new(0, 1))
                .take_while(|arrival| arrival.offset <= end)
                .count();
            assert_eq!(planned as u64, u64::from(rate_per_s * seconds), "{rate_per_s} per second");
        }
    }

    #[test]
    fn gamma_gaps_have_the_mean_and_the_spread_of_their_shape() {
        for shape in [0.25_f64, 0.5, 1.0, 4.0, 50.0] {
            let count = 100_000;
            let mut last = 0;
            let gaps: Vec<f64> = PacedArrivals::steady(9, Gaps::Gamma(shape), 1_000.0, Share::new(0, 1))
                .take(count)
                .map(|arrival| {
                    let gap = (arrival.offset.0 - last) as f64 / 1e9;
                    last = arrival.offset.0;
                    gap
                })
                .collect();
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let spread = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt() / mean;
            assert!((mean * 1_000.0 - 1.0).abs() < 0.03, "shape {shape}: mean {mean}");
            assert!((spread * shape.sqrt() - 1.0).abs() < 0.03, "shape {shape}: variation {spread}");
        }
    }

    #[test]
    fn a_ramp_delivers_its_integral_within_statistics_for_any_law_and_strategy() {
        for strategy in [RampStrategy::Exponential, RampStrategy::Linear, RampStrategy::Poisson] {
            for (gaps, spread) in [
                (Gaps::Constant, 0.0),
                (Gaps::Exponential, 1.0),
                (Gaps::Gamma(4.0), 0.5),
                (Gaps::Gamma(0.5), 1.42),
            ] {
                for seed in 0..5 {
                    let ramp = Ramp { duration: Nanos::from_millis(60_000), strategy };
                    let step = Nanos::from_millis(100);
                    let rates =
                        Rates { target_per_s: 100.0, ramp: Some(ramp), ramp_step: step, series: &[], seed };
                    let Some(intensity) = Intensity::new(&rates) else { panic!("no ramp") };
                    let intended = intensity.count(60.0);
                    let arrivals = PacedArrivals::changing(seed, gaps, intensity, Share::new(0, 1));
                    let delivered =
                        arrivals.take_while(|arrival| arrival.offset <= Nanos::from_millis(60_000)).count();
                    let off = (delivered as f64 - intended).abs();
                    let allowed = 1.0 + 4.0 * spread * intended.sqrt();
                    assert!(off <= allowed, "{strategy:?} {gaps:?} seed {seed}: {delivered} of {intended}");
                }
            }
        }
    }

    #[test]
    fn a_changing_rate_is_shared_out_as_a_steady_one() {
        let ramp = Ramp { duration: Nanos::from_millis(2_000), strategy: RampStrategy::Poisson };
        let step = Nanos::from_millis(100);
        let rates = Rates { target_per_s: 500.0, ramp: Some(ramp), ramp_step: step, series: &[], seed: 5 };
        let of = |share| {
            let Some(intensity) = Intensity::new(&rates) else { panic!("no ramp") };
            PacedArrivals::changing(5, Gaps::Exponential, intensity, share)
                .take_while(|arrival| arrival.index < 800)
        };
        let whole: Vec<Arrival> = of(Share::new(0, 1)).collect();
        let mut merged: Vec<Arrival> = (0..7).flat_map(|shard| of(Share::new(shard, 7))).collect();
        merged.sort_by_key(|arrival| arrival.index);
        assert_eq!(merged, whole);
    }
}
