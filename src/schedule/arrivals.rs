//! Arrivals of an open loop: absolute due times drawn from one seeded stream.

use crate::rng::Mt;
use crate::rng::POISSON_INTERVAL;
use crate::schedule::Share;
use crate::time::Nanos;

/// One planned arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Position in the phase's sequence, from 0.
    pub index: u64,
    /// When it is due, from the phase's start.
    pub offset: Nanos,
}

/// A Poisson process of a fixed rate: independent exponential gaps, summed from the phase's start.
///
/// The first arrival is due one gap after the start. The sum is kept in seconds as AIPerf keeps it, so
/// that the same seed plans the same due times (spec: interval stream `timing.request.poisson_interval`).
#[derive(Debug)]
pub struct PoissonArrivals {
    stream: Mt,
    rate_per_s: f64,
    share: Share,
    elapsed_s: f64,
    index: u64,
}

impl PoissonArrivals {
    /// The arrivals of `share` in the sequence that `seed` plans at `rate_per_s` (above 0).
    pub fn new(seed: u64, rate_per_s: f64, share: Share) -> Self {
        assert!(rate_per_s > 0.0, "a rate is above zero");
        Self { stream: Mt::for_stream(seed, POISSON_INTERVAL), rate_per_s, share, elapsed_s: 0.0, index: 0 }
    }
}

impl Iterator for PoissonArrivals {
    type Item = Arrival;

    /// The next arrival of this share; draws those of the other shards on the way. Never ends.
    fn next(&mut self) -> Option<Arrival> {
        loop {
            self.elapsed_s += self.stream.exponential(self.rate_per_s);
            let index = self.index;
            self.index += 1;
            if self.share.owns(index) {
                return Some(Arrival { index, offset: Nanos::from_secs_f64(self.elapsed_s) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            PoissonArrivals::new(42, 50.0, Share::new(0, 1)).take(5).map(|arrival| arrival.offset).collect();
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
        let whole: Vec<Arrival> = PoissonArrivals::new(7, 1_000.0, Share::new(0, 1)).take(1_000).collect();
        for shards in [2_u16, 5, 64] {
            let mut merged: Vec<Arrival> = (0..shards)
                .flat_map(|shard| {
                    PoissonArrivals::new(7, 1_000.0, Share::new(shard, shards))
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
        let mut gaps: Vec<f64> = PoissonArrivals::new(3, rate, Share::new(0, 1))
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
            for arrival in PoissonArrivals::new(11, rate, Share::new(0, 1)) {
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
}
