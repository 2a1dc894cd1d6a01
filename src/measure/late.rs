//! How late requests were sent: counted in a histogram while their phase goes on, kept as the few steps of
//! it that occurred once the phase is over.

use crate::measure::samples::new_histogram;
use crate::time::Nanos;
use hdrhistogram::Histogram;

/// The lateness of a phase's requests.
#[derive(Debug)]
pub(crate) struct LatenessCounts {
    /// Absent once the counts are settled.
    histogram: Option<Box<Histogram<u64>>>,
    /// Value and how often, while there is no histogram.
    steps: Vec<(u64, u64)>,
    max: Option<Nanos>,
}

impl LatenessCounts {
    /// None yet. Recording allocates nothing until [`Self::settle`].
    pub(crate) fn new() -> Self {
        Self { histogram: Some(Box::new(new_histogram())), steps: Vec::new(), max: None }
    }

    /// A request was sent this late.
    pub(crate) fn record(&mut self, late: Nanos) {
        self.counting().saturating_record(late.0);
        self.max = self.max.max(Some(late));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.add_to(self.counting());
        self.max = self.max.max(other.max);
    }

    /// Adds the counts to `all`, which is a histogram of [`new_histogram`]'s bounds.
    pub(crate) fn add_to(&self, all: &mut Histogram<u64>) {
        if let Some(histogram) = &self.histogram {
            // Both have the same bounds, so adding cannot fail.
            let added = all.add(histogram.as_ref());
            debug_assert!(added.is_ok());
        }
        for (value, count) in &self.steps {
            all.saturating_record_n(*value, *count);
        }
    }

    /// The largest, exact.
    pub(crate) fn max(&self) -> Option<Nanos> {
        self.max
    }

    /// Gives the histogram back; what was counted stays, step by step.
    pub(crate) fn settle(&mut self) {
        if let Some(histogram) = self.histogram.take() {
            self.steps = histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect();
        }
    }

    fn counting(&mut self) -> &mut Histogram<u64> {
        let steps = &mut self.steps;
        self.histogram.get_or_insert_with(|| {
            let mut histogram = Box::new(new_histogram());
            for (value, count) in steps.drain(..) {
                histogram.saturating_record_n(value, count);
            }
            histogram
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(values: &[u64]) -> LatenessCounts {
        let mut counts = LatenessCounts::new();
        for value in values {
            counts.record(Nanos(*value));
        }
        counts
    }

    fn summed(counts: &LatenessCounts) -> Histogram<u64> {
        let mut all = new_histogram();
        counts.add_to(&mut all);
        all
    }

    proptest! {
        #[test]
        fn settling_loses_nothing_before_or_after_a_merge(
            left in prop::collection::vec(any::<u64>(), 0..50),
            right in prop::collection::vec(0_u64..5_000_000, 0..50),
            late in any::<u64>(),
        ) {
            let mut plain = counted(&left);
            plain.merge(&counted(&right));
            plain.record(Nanos(late));

            let mut settled = counted(&left);
            settled.settle();
            let mut other = counted(&right);
            other.settle();
            settled.merge(&other);
            settled.record(Nanos(late));
            settled.settle();

            prop_assert_eq!(summed(&settled), summed(&plain));
            prop_assert_eq!(settled.max(), plain.max());
        }
    }
}
