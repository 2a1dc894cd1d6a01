//! Statistics of sets of values: AIPerf's fifteen, and its error-adjusted ones.
//!
//! Everything is computed from the values in rising order, whatever order they came in. It owns no values
//! and knows no units.

use crate::measure::confidence;
use crate::measure::runs::Runs;
use crate::measure::samples::{Exactly, Moments, Samples};

/// Where the true quantile `q` (0 to 1) of what `sorted` was drawn from lies with 95 % confidence: the values
/// of two ranks, whatever the distribution. Absent when there are too few values to say.
pub fn confidence(sorted: &[f64], q: f64) -> Option<(f64, f64)> {
    let (low, high) = confidence::ranks(sorted.len() as u64, q)?;
    let at = |rank: u64| usize::try_from(rank).ok().and_then(|rank| sorted.get(rank)).copied();
    at(low).zip(at(high))
}

/// The percentiles that AIPerf reports, in its order.
pub const PERCENTILES: [u8; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 99];

/// What is said about one metric, in the unit of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Sum over count.
    pub avg: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Sum of all values.
    pub sum: f64,
    /// Number of values, at least 1.
    pub count: u64,
    /// Standard deviation of the population: divided by the count.
    pub std: f64,
    /// One value for each of [`PERCENTILES`], interpolated linearly between neighbouring ranks.
    pub percentiles: [f64; PERCENTILES.len()],
}

/// Error-adjusted statistics: every failed request counts as an infinite value.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjusted {
    /// Number of values, failed requests included.
    pub count: u64,
    /// Smallest value.
    pub min: f64,
    /// One value for each of [`PERCENTILES`] by nearest rank; absent where it is infinite.
    pub percentiles: [Option<f64>; PERCENTILES.len()],
}

impl Statistics {
    /// The same with every value divided by `divisor`.
    pub fn divided_by(&self, divisor: f64) -> Self {
        Self {
            avg: self.avg / divisor,
            min: self.min / divisor,
            max: self.max / divisor,
            sum: self.sum / divisor,
            count: self.count,
            std: self.std / divisor,
            percentiles: self.percentiles.map(|value| value / divisor),
        }
    }

    /// The value at one of [`PERCENTILES`]; absent for any other.
    pub fn percentile(&self, percent: u8) -> Option<f64> {
        let at = PERCENTILES.iter().position(|known| *known == percent)?;
        self.percentiles.get(at).copied()
    }
}

impl Adjusted {
    /// The same with every value divided by `divisor`.
    pub fn divided_by(&self, divisor: f64) -> Self {
        Self {
            count: self.count,
            min: self.min / divisor,
            percentiles: self.percentiles.map(|value| value.map(|value| value / divisor)),
        }
    }
}

/// Values in rising order, gathered from any number of sets.
#[derive(Debug)]
pub struct Ordered {
    /// Known exactly, rising.
    exact: Vec<f64>,
    /// From histograms: value, and how many values there are up to and including it among these.
    /// Rising in both; empty when everything is exact.
    counted: Vec<(f64, u64)>,
    beyond: Moments,
}

impl Ordered {
    /// Gathers and sorts; the order of the sets makes no difference.
    pub fn of(sets: &[&Samples]) -> Self {
        let mut exact =
            Vec::with_capacity(sets.iter().flat_map(|set| set.exact_parts()).map(Runs::len).sum());
        let mut counted: Vec<(f64, u64)> = Vec::new();
        let mut beyond = Moments::EMPTY;
        for set in sets {
            for (value, times) in set.exact_parts().flat_map(Runs::runs) {
                exact.resize(exact.len() + times, value);
            }
            counted.extend(set.beyond_values());
            beyond.merge(set.beyond());
        }
        exact.sort_unstable_by(f64::total_cmp);
        counted.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        let mut total = 0;
        for (_, count) in &mut counted {
            total += *count;
            *count = total;
        }
        Self { exact, counted, beyond }
    }

    /// Sorts values that are all known exactly.
    pub fn of_values(mut exact: Vec<f64>) -> Self {
        exact.sort_unstable_by(f64::total_cmp);
        Self { exact, counted: Vec::new(), beyond: Moments::EMPTY }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.exact.len() as u64 + self.counted_len()
    }

    fn counted_len(&self) -> u64 {
        self.counted.last().map_or(0, |(_, total)| *total)
    }

    /// The value at `rank`, from 0; the largest one beyond the end.
    fn at(&self, rank: u64) -> f64 {
        let rank = rank.min(self.count().saturating_sub(1));
        if self.counted.is_empty() {
            return usize::try_from(rank)
                .ok()
                .and_then(|rank| self.exact.get(rank))
                .copied()
                .unwrap_or(f64::NAN);
        }
        // How many exact values stand before the wanted one: the fewest for which they and the histogram's
        // values up to them reach the rank.
        let before = |exact: f64| {
            let below = self.counted.partition_point(|(value, _)| *value <= exact);
            below.checked_sub(1).and_then(|last| self.counted.get(last)).map_or(0, |(_, total)| *total)
        };
        let (mut low, mut high) = (0, self.exact.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let exact = self.exact.get(middle).copied().unwrap_or(f64::INFINITY);
            if middle as u64 + before(exact) < rank {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // The exact value at `low` stands at or behind the rank; if it stands exactly there it is the one.
        if let Some(exact) = self.exact.get(low)
            && low as u64 + before(*exact) == rank
        {
            return *exact;
        }
        let wanted = rank - low as u64;
        let step = self.counted.partition_point(|(_, total)| *total <= wanted);
        self.counted.get(step).map_or(f64::NAN, |(value, _)| *value)
    }

    /// The value at the quantile `q` (0 to 1), interpolated linearly; absent when there is no value.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (rank, share) = place(q, self.count().checked_sub(1)?);
        let low = self.at(rank);
        let value = if share > 0.0 { low + share * (self.at(rank + 1) - low) } else { low };
        let (min, max) = self.bounds();
        Some(value.clamp(min, max))
    }

    /// As [`confidence()`], over all values.
    pub fn confidence(&self, q: f64) -> Option<(f64, f64)> {
        let (low, high) = confidence::ranks(self.count(), q)?;
        let (min, max) = self.bounds();
        Some((self.at(low).clamp(min, max), self.at(high).clamp(min, max)))
    }

    /// The smallest and the largest value, both exact; infinite the wrong way round when there is none.
    fn bounds(&self) -> (f64, f64) {
        let min = self.exact.first().copied().unwrap_or(f64::INFINITY).min(self.beyond.min);
        let max = self.exact.last().copied().unwrap_or(f64::NEG_INFINITY).max(self.beyond.max);
        (min, max)
    }

    /// The fifteen statistics; absent when there is no value.
    pub fn statistics(&self) -> Option<Statistics> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let mut moments = self.beyond;
        let (min, max, sum, std);
        if self.beyond.count == 0 {
            let mut total = Exactly::ZERO;
            for value in &self.exact {
                total.add(*value);
            }
            sum = total.value();
            min = self.exact.first().copied()?;
            max = self.exact.last().copied()?;
            let mean = sum / count as f64;
            let mut squares = Exactly::ZERO;
            for value in &self.exact {
                squares.add_product(*value - mean, *value - mean);
            }
            std = (squares.value() / count as f64).sqrt();
        } else {
            for value in &self.exact {
                moments.push(*value, 1);
            }
            sum = moments.sum.value();
            min = moments.min;
            max = moments.max;
            std = (moments.sum_of_squares.minus_square_over(moments.sum, count as f64) / count as f64).sqrt();
        }
        let percentiles = PERCENTILES.map(|percent| {
            let (rank, share) = position(percent, count);
            let low = self.at(rank);
            let value = if share > 0.0 { low + share * (self.at(rank + 1) - low) } else { low };
            value.clamp(min, max)
        });
        Some(Statistics { avg: sum / count as f64, min, max, sum, count, std, percentiles })
    }

    /// The error-adjusted statistics with `errors` infinite values; absent when there is no error or no
    /// value.
    pub fn adjusted(&self, errors: u64) -> Option<Adjusted> {
        let finite = self.count();
        if errors == 0 || finite == 0 {
            return None;
        }
        let count = finite + errors;
        let (min, max) = self.bounds();
        let percentiles = PERCENTILES.map(|percent| {
            let (rank, share) = position(percent, count);
            let up = share > 0.5 || (share.total_cmp(&0.5).is_eq() && rank % 2 == 1);
            let rank = if up { rank + 1 } else { rank };
            (rank < finite).then(|| self.at(rank).clamp(min, max))
        });
        Some(Adjusted { count, min, percentiles })
    }
}

/// Where a percentile stands among `count` values: the rank below it and the share of the way to the next.
fn position(percent: u8, count: u64) -> (u64, f64) {
    place(f64::from(percent) / 100.0, count - 1)
}

/// Where a quantile stands among ranks from 0 to `last`: the rank below it and the share of the way to the
/// next.
fn place(q: f64, last: u64) -> (u64, f64) {
    let position = q * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and rounding down is meant"
    )]
    let rank = position as u64;
    (rank, position - rank as f64)
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "the oracle rounds down on purpose, and bits are compared on purpose"
)]
mod tests {
    use super::*;
    use crate::measure::samples::Resolution;
    use proptest::prelude::*;

    fn set(values: &[f64], budget: usize) -> Samples {
        let mut set = Samples::new(Resolution::Whole, budget);
        for value in values {
            set.push(*value);
        }
        set
    }

    fn statistics(sets: &[&Samples]) -> Statistics {
        Ordered::of(sets).statistics().unwrap_or_else(|| panic!("there are values"))
    }

    fn near(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance * left.abs().max(right.abs()) + 1e-9
    }

    /// The textbook, as slowly as it likes.
    fn oracle(values: &[f64]) -> Statistics {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let sum: f64 = sorted.iter().sum();
        let avg = sum / n as f64;
        let std = (sorted.iter().map(|value| (value - avg).powi(2)).sum::<f64>() / n as f64).sqrt();
        let percentiles = PERCENTILES.map(|percent| {
            let h = f64::from(percent) / 100.0 * (n - 1) as f64;
            let low = h.floor() as usize;
            let high = (low + 1).min(n - 1);
            sorted[low] + (h - h.floor()) * (sorted[high] - sorted[low])
        });
        Statistics { avg, min: sorted[0], max: sorted[n - 1], sum, count: n as u64, std, percentiles }
    }

    #[test]
    fn five_values_have_the_statistics_that_numpy_gives() {
        let five = statistics(&[&set(&[5.0, 1.0, 4.0, 2.0, 3.0], 16)]);
        assert_eq!((five.count, five.min, five.max, five.sum, five.avg), (5, 1.0, 5.0, 15.0, 3.0));
        assert!(near(five.std, 2.0_f64.sqrt(), 1e-15));
        assert_eq!(five.percentile(50), Some(3.0));
        assert_eq!(five.percentile(25), Some(2.0));
        assert!(near(five.percentile(99).unwrap_or(0.0), 4.96, 1e-12));
        assert_eq!(five.percentile(42), None);
    }

    #[test]
    fn one_value_is_every_percentile_and_does_not_deviate() {
        let one = statistics(&[&set(&[7.5], 4)]);
        assert_eq!(one.percentiles, [7.5; 9]);
        assert_eq!(one.std, 0.0);
    }

    #[test]
    fn no_value_has_no_statistics() {
        assert_eq!(Ordered::of(&[&set(&[], 4)]).statistics(), None);
        assert_eq!(Ordered::of(&[]).statistics(), None);
    }

    #[test]
    fn failed_requests_push_the_upper_percentiles_to_infinity() {
        let ordered = Ordered::of(&[&set(&[10.0, 20.0, 30.0], 4)]);
        assert_eq!(ordered.adjusted(0), None);
        let adjusted = ordered.adjusted(2).unwrap_or_else(|| panic!("there are errors"));
        assert_eq!((adjusted.count, adjusted.min), (5, 10.0));
        // Positions 0.04, 0.2, 0.4, 1, 2, 3, 3.6, 3.8, 3.96 among 10, 20, 30, inf, inf.
        let expected = [Some(10.0), Some(10.0), Some(10.0), Some(20.0), Some(30.0), None, None, None, None];
        assert_eq!(adjusted.percentiles, expected);
        // A position halfway between two ranks goes to the even one: 0.5 -> 0, 1.5 -> 2.
        let four = Ordered::of(&[&set(&[1.0, 2.0, 3.0], 4)]).adjusted(4);
        assert_eq!(four.map(|four| four.percentiles[3]), Some(Some(3.0)), "25 % of 6 is 1.5");
        let two = Ordered::of(&[&set(&[1.0, 2.0], 4)]).adjusted(1);
        assert_eq!(two.map(|two| two.percentiles[3]), Some(Some(1.0)), "25 % of 2 is 0.5");
    }

    proptest! {
        #[test]
        fn exact_statistics_are_those_of_the_textbook(
            values in prop::collection::vec(0.0..1e12_f64, 1..300),
            cut in 0_usize..300,
        ) {
            let cut = cut.min(values.len());
            let expected = oracle(&values);
            let one = statistics(&[&set(&values, 1_000)]);
            let two = statistics(&[&set(&values[cut..], 1_000), &set(&values[..cut], 1_000)]);
            // The split over sets does not show in a single bit.
            prop_assert_eq!(&one, &two);
            prop_assert_eq!((one.min, one.max, one.count), (expected.min, expected.max, expected.count));
            prop_assert!(near(one.avg, expected.avg, 1e-12));
            prop_assert!(near(one.sum, expected.sum, 1e-12));
            prop_assert!(near(one.std, expected.std, 1e-9));
            for (mine, theirs) in one.percentiles.iter().zip(expected.percentiles) {
                prop_assert!(near(*mine, theirs, 1e-12));
            }
        }

        #[test]
        fn beyond_the_budget_nothing_is_off_by_more_than_a_thousandth(
            values in prop::collection::vec(1.0..1e12_f64, 2..400),
            budget in 0_usize..100,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::round).collect();
            let expected = oracle(&values);
            let bounded = statistics(&[&set(&values, budget)]);
            prop_assert_eq!((bounded.min, bounded.max, bounded.count),
                (expected.min, expected.max, expected.count));
            prop_assert!(near(bounded.sum, expected.sum, 1e-12));
            prop_assert!(near(bounded.std, expected.std, 1e-9));
            for (mine, theirs) in bounded.percentiles.iter().zip(expected.percentiles) {
                prop_assert!(near(*mine, theirs, 1e-3), "{} instead of {}", mine, theirs);
            }
        }

        #[test]
        fn merging_in_any_order_and_grouping_gives_one_result(
            first in prop::collection::vec(0.0..1e10_f64, 0..60),
            second in prop::collection::vec(0.0..1e10_f64, 0..60),
            third in prop::collection::vec(0.0..1e10_f64, 1..60),
            budget in 0_usize..80,
        ) {
            let make = |values: &[f64]| set(values, budget);
            let mut left = make(&first);
            left.merge(make(&second));
            left.merge(make(&third));
            let mut inner = make(&third);
            inner.merge(make(&second));
            inner.merge(make(&first));
            let mut right = make(&second);
            right.merge(make(&third));
            let mut outer = make(&first);
            outer.merge(right);
            let views = statistics(&[&make(&second), &make(&third), &make(&first)]);
            for other in [statistics(&[&inner]), statistics(&[&outer]), views] {
                let this = statistics(&[&left]);
                prop_assert_eq!(&this.percentiles, &other.percentiles);
                prop_assert_eq!((this.min, this.max, this.count), (other.min, other.max, other.count));
                prop_assert!(near(this.sum, other.sum, 1e-15));
                prop_assert!(near(this.std, other.std, 1e-9));
            }
        }
    }
}
