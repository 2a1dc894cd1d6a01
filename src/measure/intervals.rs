//! Where each request lay on the time line, kept small: what the time-weighted metrics are made of.
//!
//! A fixed number of requests and a fixed number of bytes for the gaps between their content messages are
//! kept; both are reserved at the start, so that recording allocates nothing. Beyond them it is counted what
//! is missing, and the metrics say so by being coarser or absent. Merging moves whole parts.

use crate::measure::catalogue::Sampled;
use crate::measure::facts::{Facts, request_end};
use crate::measure::samples::trim;
use crate::measure::{Outcome, Record};
use crate::time::Stamp;

/// Bytes reserved for gaps, per request of the budget. A gap takes one byte (none at all) to ten; one of 2
/// to 268 ms takes four.
pub const GAP_BYTES_PER_REQUEST: usize = 64;

/// Bytes of the longest gap.
const GAP_BYTES_MAX: usize = 10;

/// One request on the time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Interval {
    pub(crate) start: Stamp,
    pub(crate) end: Stamp,
    /// From the start to the first content; good requests only.
    pub(crate) first_ns: Option<u64>,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    gaps: u32,
    /// Bit `n`: the request has a value of the `n`-th sampled metric. Above them the marks.
    marks: u64,
}

/// The bits above those of the metrics.
const GOOD: u64 = 1 << 63;
const HELD: u64 = 1 << 62;
const MISMATCHED: u64 = 1 << 61;
const OVERFLOWED: u64 = 1 << 60;
const DISCREPANT: u64 = 1 << 59;
const _: () = assert!(Sampled::COUNT <= 60, "the marks need the bits above those of the metrics");

/// What was found about a request while it was counted.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent findings")]
pub(crate) struct Findings {
    /// The metrics that took a single value, one bit each.
    pub(crate) metrics: u64,
    /// It met every objective.
    pub(crate) held: bool,
    /// Its reply's length is not the one asked for.
    pub(crate) mismatched: bool,
    /// The server found it too long.
    pub(crate) overflowed: bool,
    /// The server's counts are not the client's.
    pub(crate) discrepant: bool,
}

impl Interval {
    /// Whether the request was good.
    pub(crate) const fn is_good(&self) -> bool {
        self.marks & GOOD != 0
    }

    /// What was found about it.
    pub(crate) const fn findings(&self) -> Findings {
        Findings {
            metrics: self.marks & (DISCREPANT - 1),
            held: self.marks & HELD != 0,
            mismatched: self.marks & MISMATCHED != 0,
            overflowed: self.marks & OVERFLOWED != 0,
            discrepant: self.marks & DISCREPANT != 0,
        }
    }
}

/// The requests of one phase on the time line.
#[derive(Debug, Default)]
pub struct Intervals {
    parts: Vec<Part>,
    /// Requests that found no room.
    beyond: u64,
    /// Requests whose gaps found no room.
    without_gaps: u64,
}

/// What one shard kept. Gaps lie end to end, in the order of the intervals, as variable-length integers.
#[derive(Debug)]
struct Part {
    intervals: Vec<Interval>,
    gaps: Vec<u8>,
}

impl Intervals {
    /// Room for `requests` of them.
    pub(crate) fn new(requests: usize) -> Self {
        let part = Part {
            intervals: Vec::with_capacity(requests),
            gaps: Vec::with_capacity(requests.saturating_mul(GAP_BYTES_PER_REQUEST)),
        };
        Self { parts: vec![part], beyond: 0, without_gaps: 0 }
    }

    /// Takes in a request that left a record.
    pub(crate) fn record(&mut self, facts: &Facts<'_>, gaps_ns: &[u64], findings: Findings) {
        let record: &Record = facts.record;
        let Some(part) = self.parts.last_mut() else { return };
        if part.intervals.len() == part.intervals.capacity() {
            self.beyond += 1;
            return;
        }
        let (start, end) = (record.issued, request_end(record));
        let mark = |set: bool, bit: u64| if set { bit } else { 0 };
        let Findings { metrics, held, mismatched, overflowed, discrepant } = findings;
        let marks = metrics
            | mark(held, HELD)
            | mark(mismatched, MISMATCHED)
            | mark(overflowed, OVERFLOWED)
            | mark(discrepant, DISCREPANT);
        let mut interval =
            Interval { start, end, first_ns: None, input_tokens: 0, output_tokens: 0, gaps: 0, marks };
        if matches!(record.outcome, Outcome::Ok) {
            interval.marks |= GOOD;
            interval.first_ns = facts.ttft_ns;
            interval.input_tokens = saturated(facts.tokens.input.unwrap_or(0));
            interval.output_tokens = saturated(facts.tokens.sequence.unwrap_or(0));
            if part.push_gaps(gaps_ns) {
                interval.gaps = saturated(gaps_ns.len() as u64);
            } else {
                self.without_gaps += 1;
            }
        }
        part.intervals.push(interval);
    }

    /// Takes in another shard's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.beyond += other.beyond;
        self.without_gaps += other.without_gaps;
    }

    /// No request is recorded any more: gives back the memory that was reserved.
    pub(crate) fn settle(&mut self) {
        for part in &mut self.parts {
            trim(&mut part.intervals);
            trim(&mut part.gaps);
        }
    }

    /// Whether every request is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.beyond == 0
    }

    /// Whether the gaps of every request are there.
    pub(crate) fn has_all_gaps(&self) -> bool {
        self.without_gaps == 0
    }

    /// Every request with its gaps: its own in the order in which they were recorded, then those merged in.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Interval, Gaps<'_>)> {
        self.parts().flatten()
    }

    /// The same, part by part: each is what one tally recorded itself.
    pub(crate) fn parts(&self) -> impl Iterator<Item = impl Iterator<Item = (Interval, Gaps<'_>)>> {
        self.parts.iter().map(|part| {
            let mut rest = part.gaps.as_slice();
            part.intervals.iter().map(move |interval| {
                let all = Gaps { bytes: rest, left: interval.gaps };
                let mut after = all.clone();
                after.by_ref().for_each(drop);
                rest = after.bytes;
                (*interval, all)
            })
        })
    }
}

impl Part {
    /// Keeps the gaps of a request, unless they do not fit.
    fn push_gaps(&mut self, gaps_ns: &[u64]) -> bool {
        let room = self.gaps.capacity() - self.gaps.len();
        // Only close to the end of the room it matters how long they are to the byte.
        if room / GAP_BYTES_MAX < gaps_ns.len() && room < gaps_ns.iter().map(|gap| length(*gap)).sum() {
            return false;
        }
        for gap in gaps_ns {
            let mut rest = *gap;
            while rest >= 0x80 {
                self.gaps.push(low_byte(rest) | 0x80);
                rest >>= 7;
            }
            self.gaps.push(low_byte(rest));
        }
        true
    }
}

/// The gaps of one request in nanoseconds, in order.
#[derive(Clone, Debug)]
pub(crate) struct Gaps<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl Gaps<'_> {
    /// How many are left.
    pub(crate) const fn len(&self) -> usize {
        self.left as usize
    }
}

impl Iterator for Gaps<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let mut value = 0;
        let mut shift = 0;
        while let Some((byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
        None
    }
}

fn length(gap: u64) -> usize {
    let bits = 64 - (gap | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the low seven bits are meant; the eighth is set over")]
const fn low_byte(value: u64) -> u8 {
    value as u8 & 0x7f
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gaps_come_back_as_they_went_in(gaps in prop::collection::vec(any::<u64>(), 0..40)) {
            let mut part = Part { intervals: Vec::new(), gaps: Vec::with_capacity(400) };
            prop_assert!(part.push_gaps(&gaps));
            prop_assert_eq!(part.gaps.len(), gaps.iter().map(|gap| length(*gap)).sum::<usize>());
            let left = u32::try_from(gaps.len()).unwrap_or(0);
            let back: Vec<u64> = Gaps { bytes: &part.gaps, left }.collect();
            prop_assert_eq!(back, gaps);
        }
    }

    #[test]
    fn gaps_that_do_not_fit_are_left_out_whole() {
        let mut part = Part { intervals: Vec::new(), gaps: Vec::with_capacity(4) };
        let room = part.gaps.capacity();
        assert!(!part.push_gaps(&vec![0; room + 1]));
        assert!(part.gaps.is_empty());
        assert!(part.push_gaps(&vec![0; room]));
    }
}
