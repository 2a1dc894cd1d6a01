//! A bounded set of values: exact up to a budget, counted in a histogram beyond it.
//!
//! Exact values are kept as they come and sorted only when statistics are asked for, so that the order in
//! which shards recorded or merged does not show. It computes no statistics itself: see
//! [`crate::measure::statistics`].

use crate::measure::runs::Runs;
use hdrhistogram::Histogram;

/// Largest value that the histogram tells apart, in its own units: 39 hours in nanoseconds. Larger ones
/// count as this one; minimum, maximum and sum stay exact.
pub const HISTOGRAM_MAX: u64 = 1 << 47;

/// Significant decimal digits of the histogram: a value read from it is at most 0.1 % off.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// How values become the whole numbers that the histogram counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Steps of a thousandth, from -100 on: differences in per cent.
    SignedThousandths,
    /// Steps of a thousandth: rates.
    Thousandths,
    /// Steps of one: nanoseconds, tokens, bytes, counts.
    Whole,
}

impl Resolution {
    const fn per_unit(self) -> f64 {
        match self {
            Self::SignedThousandths | Self::Thousandths => 1_000.0,
            Self::Whole => 1.0,
        }
    }

    /// The smallest value that is told apart.
    const fn least(self) -> f64 {
        match self {
            Self::SignedThousandths => -100.0,
            Self::Thousandths | Self::Whole => 0.0,
        }
    }
}

/// A bounded set of values.
///
/// Invariant: values are beyond the budget only while `exact` is full.
#[derive(Debug)]
pub struct Samples {
    resolution: Resolution,
    budget: usize,
    /// The histogram is made when this many exact values are there, one request before the budget is used
    /// up or earlier, so that the metrics of one tally do not all make theirs in the same request.
    histogram_at: usize,
    exact: Runs,
    /// Exact values of sets that were merged in, as they came.
    merged: Vec<Runs>,
    histogram: Option<Box<Histogram<u64>>>,
    beyond: Moments,
}

/// What is kept of the values beyond the budget besides the histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) sum: Exactly,
    pub(crate) sum_of_squares: Exactly,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Moments {
    pub(crate) const EMPTY: Self = Self {
        count: 0,
        sum: Exactly::ZERO,
        sum_of_squares: Exactly::ZERO,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    pub(crate) fn push(&mut self, value: f64, times: u64) {
        self.count += times;
        // Most gaps of a reply that came at once are zero, and add nothing.
        if value != 0.0 {
            let times = times as f64;
            self.sum.add_product(value, times);
            self.sum_of_squares.add_squares(value, times);
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.add_exactly(other.sum);
        self.sum_of_squares.add_exactly(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// A sum carried in two floats: the second holds what the first could not, so that even a sum of squares of
/// nanoseconds over billions of values loses nothing that a 64-bit result could show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exactly {
    high: f64,
    low: f64,
}

impl Exactly {
    pub(crate) const ZERO: Self = Self { high: 0.0, low: 0.0 };

    pub(crate) fn add(&mut self, value: f64) {
        self.add_exactly(Self { high: value, low: 0.0 });
    }

    pub(crate) fn add_product(&mut self, left: f64, right: f64) {
        let high = left * right;
        let low = left.mul_add(right, -high);
        self.add_exactly(Self { high, low });
    }

    /// Adds the square of `value` so many times.
    fn add_squares(&mut self, value: f64, times: f64) {
        let high = value * value;
        let low = value.mul_add(value, -high);
        self.add_product(high, times);
        self.add_product(low, times);
    }

    pub(crate) fn add_exactly(&mut self, other: Self) {
        let sum = self.high + other.high;
        let part = sum - self.high;
        let lost = (self.high - (sum - part)) + (other.high - part);
        let low = lost + self.low + other.low;
        self.high = sum + low;
        self.low = low - (self.high - sum);
    }

    pub(crate) fn value(self) -> f64 {
        self.high + self.low
    }

    /// `self - square / count`, in both floats: the sum of squared deviations from the mean.
    pub(crate) fn minus_square_over(self, sum: Self, count: f64) -> f64 {
        let mean = sum.value() / count;
        // sum^2 / count = mean * sum, and sum - mean * count is what rounding the mean left over.
        let mut rest = self;
        rest.add_product(-mean, sum.high);
        rest.add_product(-mean, sum.low);
        rest.value().max(0.0)
    }
}

impl Samples {
    /// An empty set that keeps at most `budget` exact values. Address space for them is taken now and
    /// memory as they come, so [`Self::push`] allocates only the one histogram.
    pub fn new(resolution: Resolution, budget: usize) -> Self {
        Self::staggered(resolution, budget, 0)
    }

    /// As [`Self::new`]; the histogram is made `ahead` values before the budget is used up.
    pub(crate) fn staggered(resolution: Resolution, budget: usize, ahead: usize) -> Self {
        Self {
            resolution,
            budget,
            histogram_at: budget.saturating_sub(1 + ahead),
            exact: Runs::with_capacity(budget),
            merged: Vec::new(),
            histogram: None,
            beyond: Moments::EMPTY,
        }
    }

    /// Takes a value in. Values are finite and not negative, or not below -100 where they are signed.
    #[inline]
    pub fn push(&mut self, value: f64) {
        self.push_times(value, 1);
    }

    /// Takes in one value after the other.
    #[inline]
    pub fn push_all(&mut self, values: impl IntoIterator<Item = f64>) {
        let mut values = values.into_iter();
        let Some(mut value) = values.next() else { return };
        let mut times = 1;
        for next in values {
            if next.to_bits() == value.to_bits() {
                times += 1;
            } else {
                self.push_times(value, times);
                (value, times) = (next, 1);
            }
        }
        self.push_times(value, times);
    }

    /// Takes in a value that came so many times in a row.
    #[inline]
    fn push_times(&mut self, value: f64, times: usize) {
        debug_assert!(
            value.is_finite() && value >= self.resolution.least(),
            "a sample must be finite and large enough"
        );
        // Far from the budget nothing else is to be looked at.
        if self.exact.len() + times <= self.histogram_at {
            self.exact.push(value, times);
        } else {
            self.push_near_budget(value, times);
        }
    }

    #[inline(never)]
    fn push_near_budget(&mut self, value: f64, times: usize) {
        self.ready_histogram();
        let fitting = times.min(self.budget.saturating_sub(self.exact.len()));
        self.exact.push(value, fitting);
        if times > fitting {
            self.push_beyond(value, (times - fitting) as u64);
        }
    }

    #[inline(never)]
    fn push_beyond(&mut self, value: f64, times: u64) {
        let steps = self.steps(value);
        self.ready_histogram();
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record_n(steps, times);
        }
        self.beyond.push(value, times);
    }

    #[cold]
    fn ready_histogram(&mut self) {
        if self.histogram.is_none() {
            self.histogram = Some(Box::new(new_histogram()));
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate and the histogram saturates again"
    )]
    fn steps(&self, value: f64) -> u64 {
        ((value - self.resolution.least()) * self.resolution.per_unit()).round() as u64
    }

    /// Takes in another set of the same resolution; budgets add up, so nothing exact is lost.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.resolution, other.resolution, "sets of different metrics do not merge");
        self.budget += other.budget;
        self.histogram_at = self.budget;
        // Values move, they are not copied; their order is that of the sets, and statistics sort.
        self.merged.push(other.exact);
        self.merged.extend(other.merged);
        match (&mut self.histogram, other.histogram) {
            (Some(mine), Some(theirs)) => {
                // Both have the same bounds, so adding cannot fail.
                let added = mine.add(theirs.as_ref());
                debug_assert!(added.is_ok());
            }
            (mine @ None, theirs @ Some(_)) => *mine = theirs,
            (_, None) => {}
        }
        self.beyond.merge(&other.beyond);
    }

    /// No value is pushed any more: gives back the memory that was reserved for those that did not come.
    pub(crate) fn settle(&mut self) {
        self.exact.settle();
        self.merged.iter_mut().for_each(Runs::settle);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.exact_parts().map(|part| part.len() as u64).sum::<u64>() + self.beyond.count
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Whether every value is still known exactly.
    pub fn is_exact(&self) -> bool {
        self.beyond.count == 0
    }

    /// The values known exactly: its own in the order in which they came, then those of the sets merged in.
    pub(crate) fn exact_parts(&self) -> impl Iterator<Item = &Runs> {
        std::iter::once(&self.exact).chain(&self.merged)
    }

    /// The values known exactly, one by one in the same order.
    pub(crate) fn exact_values(&self) -> impl Iterator<Item = f64> {
        self.exact_parts().flat_map(Runs::iter)
    }

    /// What is known of the others.
    pub(crate) fn beyond(&self) -> &Moments {
        &self.beyond
    }

    /// The others as the histogram has them: value and how often, rising.
    pub(crate) fn beyond_values(&self) -> impl Iterator<Item = (f64, u64)> {
        let (per_unit, least) = (self.resolution.per_unit(), self.resolution.least());
        self.histogram.iter().flat_map(move |histogram| {
            histogram.iter_recorded().map(move |step| {
                let value = histogram.median_equivalent(step.value_iterated_to()) as f64 / per_unit + least;
                (value, step.count_at_value())
            })
        })
    }
}

/// Moves values that use less than half of their memory to memory of their size. Shrinking in place would
/// leave each set on a page, and in a mapping, of its own; moving more would cost more than it gives back.
pub(crate) fn trim<T: Copy>(values: &mut Vec<T>) {
    if values.len() < values.capacity() / 2 {
        *values = values.as_slice().to_vec();
    }
}

/// The histogram used everywhere in this module's neighbourhood: three digits, no growth.
pub fn new_histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "constant bounds that the crate's rules allow; a test makes one")]
    Histogram::new_with_bounds(1, HISTOGRAM_MAX, HISTOGRAM_DIGITS).expect("constant bounds are valid")
}
