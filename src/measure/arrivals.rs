//! Were the arrivals those of the law that was planned?
//!
//! An open loop promises a process, not only a rate: a client that sends in bursts, or evenly, where
//! independent gaps were planned, makes another queue in the server and other latencies. So the times at
//! which requests were really handed to the kernel are kept, and their gaps held against the law.

use crate::measure::samples::trim;
use crate::time::Nanos;

/// Fewest gaps that say anything.
const GAPS_MIN: usize = 100;

/// Fewest windows that a dispersion is computed over.
const WINDOWS_MIN: u64 = 20;

/// The Kolmogorov-Smirnov distance that gaps of the planned law exceed in one of a hundred runs is this
/// over the square root of their number.
const DISTANCE_AT_1_PERCENT: f64 = 1.628;

/// A smaller distance makes no other queue in the server, however many gaps show it: handing a request over
/// takes microseconds, so of two that are due at once the second follows the first.
const DISTANCE_MATERIAL: f64 = 0.02;

/// When requests were handed to the kernel, from the start of their phase.
#[derive(Debug, Default)]
pub struct Arrivals {
    offsets_ns: Vec<u64>,
    max: usize,
    beyond: u64,
}

/// How realised arrivals compare with a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonTest {
    /// Gaps compared.
    pub gaps: usize,
    /// Arrivals per second, realised.
    pub rate_per_s: f64,
    /// Largest distance between the distribution of the gaps and the exponential one of the planned rate.
    pub distance: f64,
    /// The distance that a true Poisson process exceeds in one of a hundred runs, and 0.02 at least.
    pub distance_limit: f64,
    /// Variance over mean of the number of arrivals in windows of 100 ms: 1 for a Poisson process, 0 for an
    /// even one. Absent with fewer than 20 windows.
    pub dispersion_100ms: Option<f64>,
}

impl PoissonTest {
    /// Whether the arrivals are as a Poisson process of the planned rate would make them.
    pub fn passes(&self) -> bool {
        self.distance <= self.distance_limit
    }
}

impl Arrivals {
    /// Keeps at most `max` arrivals; reserves their room.
    pub fn new(max: usize) -> Self {
        Self { offsets_ns: Vec::with_capacity(max), max, beyond: 0 }
    }

    /// A request was handed to the kernel.
    pub fn push(&mut self, offset: Nanos) {
        if self.offsets_ns.len() < self.max {
            self.offsets_ns.push(offset.0);
        } else {
            self.beyond += 1;
        }
    }

    /// Takes in another shard's.
    pub fn merge(&mut self, other: Self) {
        self.max += other.max;
        self.beyond += other.beyond;
        if self.offsets_ns.is_empty() {
            self.offsets_ns = other.offsets_ns;
        } else {
            self.offsets_ns.extend_from_slice(&other.offsets_ns);
        }
    }

    /// No request is handed over any more: gives back the memory that was reserved.
    pub(crate) fn settle(&mut self) {
        trim(&mut self.offsets_ns);
    }

    /// Holds the arrivals against a Poisson process of `rate_per_s`. Absent with too few of them, or with
    /// more than were kept.
    pub fn poisson_test(&self, rate_per_s: f64) -> Option<PoissonTest> {
        if self.beyond > 0 || self.offsets_ns.len() <= GAPS_MIN || rate_per_s <= 0.0 {
            return None;
        }
        let mut offsets = self.offsets_ns.clone();
        offsets.sort_unstable();
        let mut gaps: Vec<u64> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        let count = gaps.len() as f64;
        let distance = gaps.iter().enumerate().fold(0.0_f64, |distance, (rank, gap)| {
            let expected = 1.0 - (-rate_per_s * *gap as f64 / 1e9).exp();
            let (below, above) = (rank as f64 / count, (rank + 1) as f64 / count);
            distance.max((expected - below).abs()).max((above - expected).abs())
        });
        let span_ns = offsets.last().zip(offsets.first()).map_or(0, |(last, first)| last - first);
        Some(PoissonTest {
            gaps: gaps.len(),
            rate_per_s: if span_ns > 0 { count / (span_ns as f64 / 1e9) } else { 0.0 },
            distance,
            distance_limit: (DISTANCE_AT_1_PERCENT / count.sqrt()).max(DISTANCE_MATERIAL),
            dispersion_100ms: dispersion(&offsets, Nanos::from_millis(100)),
        })
    }
}

/// Variance over mean of the counts per window; the last, partial window is left out.
fn dispersion(sorted_ns: &[u64], window: Nanos) -> Option<f64> {
    let windows = sorted_ns.last()? / window.0;
    if windows < WINDOWS_MIN {
        return None;
    }
    let mut counts = vec![0_u32; usize::try_from(windows).ok()?];
    for offset in sorted_ns {
        if let Some(count) = usize::try_from(offset / window.0).ok().and_then(|index| counts.get_mut(index)) {
            *count += 1;
        }
    }
    let number = counts.len() as f64;
    let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / number;
    let variance = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / number;
    (mean > 0.0).then(|| variance / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(offsets: impl Iterator<Item = f64>) -> Arrivals {
        let mut arrivals = Arrivals::new(100_000);
        offsets.for_each(|seconds| arrivals.push(Nanos::from_secs_f64(seconds)));
        arrivals
    }

    /// Uniform numbers of a small generator.
    fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn exponential_gaps_pass_and_scatter_by_one() {
        let mut uniform = uniforms(7);
        let mut at = 0.0;
        let test = arrivals((0..20_000).map(|_| {
            at += -(1.0 - uniform()).ln() / 1_000.0;
            at
        }))
        .poisson_test(1_000.0)
        .unwrap_or_else(|| panic!("enough arrivals"));
        assert!(test.passes(), "{test:?}");
        assert!(
            test.dispersion_100ms.is_some_and(|dispersion| (0.7..1.35).contains(&dispersion)),
            "{test:?}"
        );
        assert!((test.rate_per_s / 1_000.0 - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_grid_with_jitter_keeps_the_rate_and_fails() {
        let mut uniform = uniforms(9);
        let test =
            arrivals((0..20_000).map(|index| f64::from(index) / 1_000.0 + -(1.0 - uniform()).ln() / 1_000.0))
                .poisson_test(1_000.0)
                .unwrap_or_else(|| panic!("enough arrivals"));
        assert!(!test.passes(), "{test:?}");
        assert!(test.dispersion_100ms.is_some_and(|dispersion| dispersion < 0.1), "{test:?}");
    }

    #[test]
    fn shards_merge_to_one_process_and_too_few_arrivals_say_nothing() {
        let mut uniform = uniforms(3);
        let mut at = 0.0;
        let all: Vec<f64> = (0..4_000)
            .map(|_| {
                at += -(1.0 - uniform()).ln() / 500.0;
                at
            })
            .collect();
        let whole = arrivals(all.iter().copied()).poisson_test(500.0);
        let mut merged = arrivals(all.iter().copied().step_by(2));
        merged.merge(arrivals(all.iter().copied().skip(1).step_by(2)));
        assert_eq!(merged.poisson_test(500.0), whole);
        assert_eq!(arrivals(all.iter().copied().take(50)).poisson_test(500.0), None);
    }
}
