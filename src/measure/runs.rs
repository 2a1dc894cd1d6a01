//! Values in the order in which they came, equal neighbours written once.
//!
//! Many metrics say the same of request after request: nothing waited, one chunk was sent, as many tokens came
//! as were asked for. A repeat takes no memory, so that recording it touches none. A value that differs from
//! the one before takes what it takes in a plain list. It sorts nothing and knows no budget.

use crate::measure::samples::trim;

/// Bits of a word that says how often the value before it comes again; no finite value has them.
const REPEATS: u64 = 0xfff8 << 48;
/// The number in such a word.
const COUNT: u64 = (1 << 48) - 1;
/// Bits that no value has.
const NONE: u64 = u64::MAX;

/// Finite values in order.
#[derive(Debug)]
pub(crate) struct Runs {
    words: Vec<u64>,
    /// The bits of the last value.
    last: u64,
    /// How often it came again since.
    again: u64,
    len: usize,
}

impl Runs {
    /// Room for `values` of them: so many are pushed without allocating.
    pub(crate) fn with_capacity(values: usize) -> Self {
        Self { words: Vec::with_capacity(values), last: NONE, again: 0, len: 0 }
    }

    /// How many values there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Takes in a finite value, so many times in a row.
    #[inline]
    pub(crate) fn push(&mut self, value: f64, times: usize) {
        if times == 0 {
            return;
        }
        self.len += times;
        let bits = value.to_bits();
        if bits == self.last {
            self.again += times as u64;
            return;
        }
        if self.again > 0 {
            self.words.push(REPEATS | self.again & COUNT);
        }
        self.words.push(bits);
        self.last = bits;
        self.again = times as u64 - 1;
    }

    /// Each value with how often it stands there in a row.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (f64, usize)> {
        let mut words = self.words.iter().peekable();
        std::iter::from_fn(move || {
            let value = *words.next()?;
            let again = match words.peek() {
                Some(word) if **word & REPEATS == REPEATS => {
                    let again = **word & COUNT;
                    words.next();
                    again
                }
                Some(_) => 0,
                None => self.again,
            };
            Some((f64::from_bits(value), usize::try_from(again).unwrap_or(usize::MAX).saturating_add(1)))
        })
    }

    /// All values in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> {
        self.runs().flat_map(|(value, times)| std::iter::repeat_n(value, times))
    }

    /// Gives back memory that is not used.
    pub(crate) fn settle(&mut self) {
        trim(&mut self.words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back_in_order_and_within_their_room(
            values in prop::collection::vec((prop_oneof![
                Just(0.0), Just(-0.0), Just(1.0), Just(f64::MAX), Just(f64::MIN), -100.0..1e9
            ], 1_usize..5), 0..60),
        ) {
            let all: Vec<f64> = values.iter().flat_map(|(value, times)| vec![*value; *times]).collect();
            let mut at_once = Runs::with_capacity(all.len());
            for (value, times) in &values {
                at_once.push(*value, *times);
            }
            let mut runs = Runs::with_capacity(all.len());
            let room = runs.words.capacity();
            for (count, value) in all.iter().enumerate() {
                let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
                prop_assert_eq!(bits(runs.iter().collect()), bits(all[..count].to_vec()));
                prop_assert_eq!(runs.len(), count);
                runs.push(*value, 1);
            }
            prop_assert_eq!(runs.words.capacity(), room);
            at_once.push(5.0, 0);
            prop_assert_eq!((&at_once.words, at_once.last, at_once.again), (&runs.words, runs.last, runs.again));
            runs.settle();
            prop_assert_eq!(runs.iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn repeats_take_no_memory() {
        let mut runs = Runs::with_capacity(10_000);
        for _ in 0..10_000 {
            runs.push(32.0, 1);
        }
        assert_eq!((runs.words.len(), runs.len()), (1, 10_000));
        assert_eq!(runs.runs().collect::<Vec<_>>(), [(32.0, 10_000)]);
    }
}
