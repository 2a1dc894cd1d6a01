//! How long a curve held each value, and the statistics of that.
//!
//! Values are kept one by one up to a fixed number; beyond it neighbours closer than 0.05 % count as one, so
//! that memory stays bounded. Mean, deviation, minimum and maximum are always exact.

use crate::measure::samples::Exactly;
use crate::measure::weighted::TimeWeighted;

/// Values kept one by one.
const VALUES_MAX: usize = 1 << 18;

/// Bits of a float that are dropped when neighbours count as one: 11 of 52 bits of the fraction stay.
const DROPPED_BITS: u32 = 41;

/// Values and how long each held.
#[derive(Debug)]
pub(super) struct Segments {
    /// One by one, in the order of time; or sorted and each once after a squeeze.
    exact: Vec<(f64, f64)>,
    /// By the leading bits of the value, once there are too many; none before.
    coarse: Option<Coarse>,
    /// Whole nanoseconds, so that this sum is exact.
    length: f64,
    sum: Exactly,
    squares: Exactly,
    min: f64,
    max: f64,
}

impl Default for Segments {
    fn default() -> Self {
        Self {
            exact: Vec::new(),
            coarse: None,
            length: 0.0,
            sum: Exactly::ZERO,
            squares: Exactly::ZERO,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl Segments {
    /// `value` held for `length`, which is above zero.
    pub(super) fn push(&mut self, value: f64, length: f64) {
        self.length += length;
        self.sum.add_product(value, length);
        self.squares.add_product(value * value, length);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if let Some(coarse) = &mut self.coarse {
            coarse.add(value, length);
            return;
        }
        match self.exact.last_mut() {
            Some((last, held)) if last.total_cmp(&value).is_eq() => *held += length,
            Some(_) | None => self.exact.push((value, length)),
        }
        if self.exact.len() >= VALUES_MAX {
            self.squeeze();
        }
    }

    /// Makes one of equal values; if that frees less than half, of close ones too.
    fn squeeze(&mut self) {
        self.exact = gathered(&self.exact);
        if self.exact.len() > VALUES_MAX / 2 {
            let coarse = self.coarse.get_or_insert_with(Coarse::default);
            for (value, length) in std::mem::take(&mut self.exact) {
                coarse.add(value, length);
            }
        }
    }

    /// The statistics, values times `scale`; zeros when there was nothing.
    pub(super) fn statistics(self, scale: f64) -> TimeWeighted {
        let total = self.length;
        if total <= 0.0 {
            return TimeWeighted::default();
        }
        let variance = self.squares.minus_square_over(self.sum, total) / total;
        let (min, max) = (self.min, self.max);
        let values: Vec<(f64, f64)> = match self.coarse {
            None => once(self.exact),
            Some(coarse) => coarse.values().map(|(value, length)| (value.clamp(min, max), length)).collect(),
        };
        let mut cumulated = Vec::with_capacity(values.len());
        let mut sum = 0.0;
        for (_, length) in &values {
            sum += length;
            cumulated.push(sum);
        }
        let at = |share: f64| {
            let found = cumulated.partition_point(|until| until / sum < share).min(values.len() - 1);
            values.get(found).map_or(max, |(value, _)| *value) * scale
        };
        TimeWeighted {
            avg: self.sum.value() / total * scale,
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            min: min * scale,
            max: max * scale,
            std: variance.sqrt() * scale,
        }
    }
}

/// Values each once, in the order in which they came: what [`once`] makes, for less work than sorting all of them.
fn gathered(values: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const VACANT: usize = usize::MAX;
    let mut places = vec![VACANT; (2 * values.len()).next_power_of_two()];
    let last = places.len() - 1;
    let mut each: Vec<(f64, f64)> = Vec::new();
    for (value, length) in values {
        let bits = value.to_bits();
        // Of a product the bits in the middle depend on all bits of the value.
        let hash = u128::from(bits) * 0x9e37_79b9_7f4a_7c15;
        let mut at = usize::try_from((hash >> 40) & u128::from(u32::MAX)).unwrap_or(0) & last;
        loop {
            match each.get_mut(places[at]) {
                None => {
                    places[at] = each.len();
                    each.push((*value, *length));
                }
                Some((known, held)) if known.to_bits() == bits => *held += length,
                Some(_) => {
                    at = (at + 1) & last;
                    continue;
                }
            }
            break;
        }
    }
    each
}

/// Rising values, each once.
fn once(mut values: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    values.sort_unstable_by(|left, right| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
    values.dedup_by(|next, kept| {
        let same = next.0.total_cmp(&kept.0).is_eq();
        if same {
            kept.1 += next.1;
        }
        same
    });
    values
}

/// How long values with the same leading bits held. The bits rise with the value, since none is below zero.
#[derive(Debug, Default)]
struct Coarse {
    /// Zero is no neighbour of any other value.
    zero: f64,
    /// The leading bits of the first of `lengths`.
    first: usize,
    lengths: Vec<f64>,
}

impl Coarse {
    fn add(&mut self, value: f64, length: f64) {
        if value <= 0.0 {
            self.zero += length;
            return;
        }
        let leading = usize::try_from(value.to_bits() >> DROPPED_BITS).unwrap_or(usize::MAX);
        if self.lengths.is_empty() {
            self.first = leading;
        }
        if leading < self.first {
            let before = self.first - leading;
            self.lengths.splice(0..0, std::iter::repeat_n(0.0, before));
            self.first = leading;
        }
        let place = leading - self.first;
        if place >= self.lengths.len() {
            self.lengths.resize(place + 1, 0.0);
        }
        self.lengths[place] += length;
    }

    /// The middles of the neighbourhoods that held, rising, and for how long.
    fn values(&self) -> impl Iterator<Item = (f64, f64)> {
        let middle = |place: usize| {
            f64::from_bits(((self.first + place) as u64) << DROPPED_BITS | 1 << (DROPPED_BITS - 1))
        };
        let others = self.lengths.iter().enumerate().map(move |(place, length)| (middle(place), *length));
        std::iter::once((0.0, self.zero)).chain(others).filter(|(_, length)| *length > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance * right.abs()
    }

    #[test]
    fn the_longest_held_values_weigh_the_most() {
        let mut segments = Segments::default();
        for (value, length) in [(2.0, 10.0), (0.0, 30.0), (4.0, 60.0), (2.0, 0.0 + 100.0)] {
            segments.push(value, length);
        }
        let all = segments.statistics(1.0);
        assert!(near(all.avg, 2.3, 1e-12), "{}", all.avg);
        assert_eq!((all.min.to_bits(), all.max.to_bits()), (0.0_f64.to_bits(), 4.0_f64.to_bits()));
        assert!(near(all.p50, 2.0, 0.0) && near(all.p90, 4.0, 0.0));
        // Mean square 7 (110 x 4 and 60 x 16 over 200), less 2.3 squared.
        assert!(near(all.std, (7.0_f64 - 2.3 * 2.3).sqrt(), 1e-12), "{}", all.std);
    }

    #[test]
    fn more_values_than_fit_are_at_most_a_thousandth_off() {
        let count = VALUES_MAX as u64 * 2;
        let mut segments = Segments::default();
        // A permutation of 1 ..= count, so that every value is another one.
        for step in 0..count {
            segments.push(((step * 7_919) % count + 1) as f64, 1.0);
        }
        let coarse = segments.coarse.as_ref().map(|coarse| coarse.lengths.len());
        assert!(segments.exact.is_empty() && coarse.is_some_and(|kept| kept < VALUES_MAX / 4));
        let all = segments.statistics(1.0);
        for (found, share) in [(all.p50, 0.5), (all.p90, 0.9), (all.p95, 0.95), (all.p99, 0.99)] {
            assert!(near(found, count as f64 * share, 1e-3), "{share}: {found}");
        }
        assert!(near(all.avg, (count + 1) as f64 / 2.0, 1e-12));
        assert!(near(all.max, count as f64, 0.0));
    }

    #[test]
    fn gathering_values_makes_of_them_what_sorting_does() {
        let values: Vec<(f64, f64)> = (0_u64..5_000)
            .map(|step| ((step * step % 613) as f64 / 7.0, (step % 9 + 1) as f64))
            .chain([(0.0, 3.0), (f64::MIN_POSITIVE, 2.0), (0.0, 4.0)])
            .collect();
        let mut gathered = gathered(&values);
        gathered.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        assert!(gathered.len() < 620);
        assert_eq!(gathered, once(values));
        assert!(super::gathered(&[]).is_empty());
    }

    #[test]
    fn few_values_that_come_often_stay_exact() {
        let mut segments = Segments::default();
        for step in 0..VALUES_MAX * 3 {
            segments.push((step % 5) as f64, 1.0);
        }
        assert!(segments.coarse.is_none());
        assert!(near(segments.statistics(1.0).p50, 2.0, 0.0));
    }
}
