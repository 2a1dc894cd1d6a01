//! The changes of all curves in the order of time, made as they are needed: requests are started in order,
//! and each that is under way hands in its chunks stretch by stretch, so memory follows the concurrency and
//! not the number of chunks.

use crate::measure::intervals::{Gaps, Interval, Intervals};
use crate::measure::samples::Exactly;
use crate::time::Clock;
use std::cmp::Ordering;

/// Number of curves.
pub(super) const CURVES: usize = 7;

/// A step function over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub(super) enum Curve {
    /// Requests under way.
    Concurrency,
    /// Requests past their first token.
    DecodeConcurrency,
    /// Tokens after the first per nanosecond.
    DecodeThroughput,
    /// Requests before their first token.
    PrefillConcurrency,
    /// Prompt tokens per nanosecond.
    PrefillThroughput,
    /// Tokens that the server holds.
    TokensInFlight,
    /// Both throughputs, replies spread evenly.
    TotalThroughput,
}

impl Curve {
    /// Its bit in a set of curves.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// How far rounding can move a chunk before the end of the one before it.
const SLACK_NS: f64 = 1_024.0;

/// Changes that are worth sorting together.
const CHANGES_AT_ONCE: usize = 16_384;

/// The first stretch of time; further ones follow the number of changes found.
const STRETCH_NS_FIRST: f64 = 1e6;

/// The requests of a scope.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    requests: Vec<Request<'a>>,
    /// The order in which they started: starts, which are not negative, as bits, and places in `requests`. Moving
    /// these costs a fraction of moving requests.
    started: Vec<(u64, usize)>,
    chunks: bool,
}

/// One request in wall time.
#[derive(Clone, Debug)]
struct Request<'a> {
    start: f64,
    end: f64,
    first: Option<f64>,
    input: f64,
    output: f64,
    gaps: Gaps<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    time: f64,
    curve: Curve,
    by: f64,
}

impl Change {
    /// By time, decreases before increases; the rest makes the order one and the same for any input order.
    fn order(&self, other: &Self) -> Ordering {
        // Times almost always differ, so the rest is looked at only when they do not.
        self.time.total_cmp(&other.time).then_with(|| {
            (self.by > 0.0)
                .cmp(&(other.by > 0.0))
                .then(self.curve.cmp(&other.curve))
                .then(self.by.total_cmp(&other.by))
        })
    }
}

/// Bits of a time that one pass of the sorter looks at.
const DIGIT_BITS: u32 = 10;
const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// Sorts changes by time. Changes of one stretch lie close together and on the grid of the floats there, so few
/// bits tell them apart: passes over those bits cost a fraction of comparing.
#[derive(Debug, Default)]
struct Sorter {
    /// The bits of the time that differ, above the place of the change.
    keys: Vec<u64>,
    spare: Vec<u64>,
    sorted: Vec<Change>,
}

impl Sorter {
    /// The changes in the order of time; those of equal times next to each other in any order.
    fn by_time<'s>(&'s mut self, changes: &'s mut [Change]) -> &'s mut [Change] {
        let least = changes.iter().map(|change| change.time).fold(f64::INFINITY, f64::min);
        // Times are whole numbers below 2^64, so their distance is one, too.
        let offset = |change: &Change| change.time.to_bits().wrapping_sub(least.to_bits());
        let (mut differing, mut negative) = (0, least < 0.0);
        for change in changes.iter() {
            differing |= offset(change);
            negative |= change.time.is_nan();
        }
        let grid = differing.trailing_zeros().min(63);
        let bits = 64 - (differing >> grid).leading_zeros();
        // The places of changes need the other half.
        if negative || bits > 32 || u32::try_from(changes.len()).is_err() {
            changes.sort_unstable_by(|left, right| left.time.total_cmp(&right.time));
            return changes;
        }
        self.keys.clear();
        self.keys
            .extend((0_u64..).zip(changes.iter()).map(|(at, change)| (offset(change) >> grid) << 32 | at));
        let passes = bits.div_ceil(DIGIT_BITS);
        self.spare.resize(self.keys.len(), 0);
        for pass in 0..passes {
            let digit = |key: u64| (key >> (32 + pass * DIGIT_BITS) & DIGIT_MASK) as usize;
            let mut places = [0_u32; 1 << DIGIT_BITS];
            for key in &self.keys {
                places[digit(*key)] += 1;
            }
            let mut before = 0;
            for place in &mut places {
                before += std::mem::replace(place, before);
            }
            for key in &self.keys {
                let place = &mut places[digit(*key)];
                self.spare[*place as usize] = *key;
                *place += 1;
            }
            std::mem::swap(&mut self.keys, &mut self.spare);
        }
        self.sorted.clear();
        self.sorted
            .extend(self.keys.iter().filter_map(|key| changes.get((key & 0xffff_ffff) as usize)).copied());
        &mut self.sorted
    }
}

/// A request that still has chunks to hand in.
#[derive(Debug)]
struct Chunks<'a> {
    /// No change that it still makes lies before this.
    bound: f64,
    first: f64,
    end: f64,
    /// From the first token to the chunk handed in last.
    elapsed: f64,
    gaps: Gaps<'a>,
    /// Tokens after the first, per gap that is not zero.
    per_gap_with_length: f64,
    /// Tokens after the first, per gap.
    per_gap: f64,
}

impl<'a> Sweep<'a> {
    /// Gathers the requests. `chunks`: decode rates follow the gaps between content messages.
    pub(super) fn of(scopes: &[&'a Intervals], clock: Clock, chunks: bool, streaming: bool) -> Self {
        let requests: Vec<Request<'a>> = scopes
            .iter()
            .flat_map(|scope| scope.iter())
            .map(|(interval, gaps)| {
                let Interval { start, end, first_ns, input_tokens, output_tokens, .. } = interval;
                Request {
                    start: clock.unix_ns(start) as f64,
                    end: clock.unix_ns(end) as f64,
                    first: first_ns.filter(|_| streaming).map(|ns| (clock.unix_ns(start) + ns) as f64),
                    input: f64::from(input_tokens),
                    output: f64::from(output_tokens),
                    gaps,
                }
            })
            .collect();
        let mut started: Vec<(u64, usize)> =
            requests.iter().map(|request| request.start.to_bits()).zip(0..).collect();
        started.sort_unstable();
        Self { requests, started, chunks }
    }

    /// Calls `step` for each time at which some curve changes, with the levels from then on and the set of
    /// curves that were touched.
    ///
    /// Changes are made and sorted a stretch of time at a time. The order of all of them is one and the same
    /// however they fall into stretches.
    pub(super) fn walk(&self, mut step: impl FnMut(f64, &[f64; CURVES], u8)) {
        // Those whose time has not come, in no order.
        let mut changes: Vec<Change> = Vec::new();
        let mut ready: Vec<Change> = Vec::new();
        let mut sorter = Sorter::default();
        let mut under_way: Vec<Chunks<'_>> = Vec::new();
        let mut levels = [Exactly::ZERO; CURVES];
        let mut values = [0.0; CURVES];
        let mut waiting = self.started.iter().filter_map(|(_, place)| self.requests.get(*place)).peekable();
        let mut stretch = STRETCH_NS_FIRST;
        loop {
            let bound = under_way.iter().map(|chunks| chunks.bound).reduce(f64::min);
            let next_start = waiting.peek().map(|request| request.start - SLACK_NS);
            // Everything before this time is made now; with nothing left to make, everything is.
            let settled = match (bound, next_start) {
                (None, None) => f64::INFINITY,
                (bound, start) => {
                    bound.unwrap_or(f64::INFINITY).min(start.unwrap_or(f64::INFINITY)) + stretch
                }
            };
            let mut add = |time: f64, curve: Curve, by: f64| changes.push(Change { time, curve, by });
            while let Some(request) = waiting.next_if(|request| request.start - SLACK_NS < settled) {
                under_way.extend(request.begin(self.chunks, &mut add));
            }
            under_way.retain_mut(|chunks| {
                while chunks.bound < settled {
                    if !chunks.hand_in(&mut add) {
                        return false;
                    }
                }
                true
            });
            ready.clear();
            changes.retain(|change| {
                let is_ready = change.time < settled;
                if is_ready {
                    ready.push(*change);
                }
                !is_ready
            });
            let count = ready.len();
            let mut rest = sorter.by_time(&mut ready);
            while let Some(Change { time, .. }) = rest.first().copied() {
                let equal = rest.iter().take_while(|change| change.time.total_cmp(&time).is_eq()).count();
                let (now, later) = rest.split_at_mut(equal);
                let touched = apply(now, &mut levels);
                for (curve, value) in values.iter_mut().enumerate() {
                    if touched & (1 << curve) != 0 {
                        *value = levels[curve].value();
                    }
                }
                step(time, &values, touched);
                rest = later;
            }
            if settled.is_infinite() {
                break;
            }
            // Looking at every request under way should cost less than sorting its chunks.
            let wanted = CHANGES_AT_ONCE.max(4 * under_way.len());
            if count > 2 * wanted {
                stretch = (stretch / 2.0).max(1.0);
            } else if count < wanted / 2 {
                stretch *= 2.0;
            }
        }
    }
}

/// Makes changes of one time, in [`Change::order`] for each curve; the set of curves that were touched.
fn apply(now: &mut [Change], levels: &mut [Exactly; CURVES]) -> u8 {
    let (mut fallen, mut risen, mut again) = (0, 0, 0);
    for Change { curve, by, .. } in now.iter() {
        let set = if *by > 0.0 { &mut risen } else { &mut fallen };
        again |= *set & curve.bit();
        *set |= curve.bit();
    }
    if again != 0 {
        now.sort_unstable_by(Change::order);
        for Change { curve, by, .. } in now.iter() {
            levels[*curve as usize].add(*by);
        }
    } else {
        // At most one of each kind: decreases, then increases, without sorting them.
        for Change { curve, by, .. } in now.iter().filter(|change| change.by <= 0.0) {
            levels[*curve as usize].add(*by);
        }
        for Change { curve, by, .. } in now.iter().filter(|change| change.by > 0.0) {
            levels[*curve as usize].add(*by);
        }
    }
    fallen | risen
}

impl<'a> Request<'a> {
    /// Makes every change but those of chunks, which are handed in by what is returned.
    fn begin(&self, chunks: bool, add: &mut impl FnMut(f64, Curve, f64)) -> Option<Chunks<'a>> {
        let Self { start, end, first, input, output, .. } = *self;
        let mut over = |from: f64, to: f64, curve: Curve, by: f64| {
            add(from, curve, by);
            add(to, curve, -by);
        };
        over(start, end, Curve::Concurrency, 1.0);
        let first = first?;
        over(first, end, Curve::DecodeConcurrency, 1.0);
        over(start, first, Curve::PrefillConcurrency, 1.0);
        let prefilled = first > start;
        if prefilled {
            let rate = input / (first - start);
            over(start, first, Curve::PrefillThroughput, rate);
            over(start, first, Curve::TotalThroughput, rate);
        }
        let after_first = output - 1.0;
        if end > first && after_first >= 0.0 {
            over(first, end, Curve::TotalThroughput, after_first / (end - first));
            if !chunks {
                over(first, end, Curve::DecodeThroughput, after_first / (end - first));
            }
        }
        if prefilled {
            over(start, end, Curve::TokensInFlight, input);
        }
        if !chunks {
            over(first, end, Curve::TokensInFlight, output);
            return None;
        }
        let gaps = self.gaps.len();
        if gaps == 0 || after_first < 0.0 {
            return None;
        }
        add(first, Curve::TokensInFlight, 1.0);
        add(end, Curve::TokensInFlight, -output);
        let with_length = self.gaps.clone().filter(|gap| *gap > 0).count();
        Some(Chunks {
            bound: first.min(end) - SLACK_NS,
            first,
            end,
            elapsed: 0.0,
            gaps: self.gaps.clone(),
            per_gap_with_length: after_first / with_length as f64,
            per_gap: after_first / gaps as f64,
        })
    }
}

impl Chunks<'_> {
    /// Makes the changes of the next chunk; false when there is none.
    fn hand_in(&mut self, add: &mut impl FnMut(f64, Curve, f64)) -> bool {
        let Some(gap) = self.gaps.next() else { return false };
        let gap = gap as f64;
        self.elapsed += gap;
        let arrival = self.first + self.elapsed;
        if gap > 0.0 {
            let rate = self.per_gap_with_length / gap;
            add(arrival - gap, Curve::DecodeThroughput, rate);
            add(arrival, Curve::DecodeThroughput, -rate);
        }
        // What arrives at or after the end would never be taken back.
        let held = if arrival >= self.end { self.end.next_down() } else { arrival };
        add(held, Curve::TokensInFlight, self.per_gap);
        self.bound = arrival.min(self.end) - SLACK_NS;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change(time: f64, by: f64) -> Change {
        Change { time, curve: Curve::Concurrency, by }
    }

    proptest! {
        /// Near each other, far apart, and from one time only.
        #[test]
        fn changes_come_out_in_the_order_of_time(
            base in 0_u64..2_000_000_000_000_000_000,
            width in 1_u64..1 << 50,
            offsets in prop::collection::vec(any::<u64>(), 0..200),
        ) {
            let times = offsets.iter().map(|offset| (base + offset % width) as f64);
            let mut changes: Vec<Change> = times.zip(0_u32..).map(|(time, at)| change(time, f64::from(at))).collect();
            let mut expected = changes.clone();
            expected.sort_by(|left, right| left.time.total_cmp(&right.time).then(left.by.total_cmp(&right.by)));
            let mut sorter = Sorter::default();
            // Its buffers may hold something.
            sorter.by_time(&mut [change(9.0, 0.0), change(3.0, 0.0), change(5.0, 0.0)]);
            let sorted = sorter.by_time(&mut changes);
            prop_assert!(sorted.is_sorted_by(|left, right| left.time <= right.time));
            sorted.sort_by(|left, right| left.time.total_cmp(&right.time).then(left.by.total_cmp(&right.by)));
            let bits = |changes: &[Change]| -> Vec<(u64, u64)> {
                changes.iter().map(|change| (change.time.to_bits(), change.by.to_bits())).collect()
            };
            prop_assert_eq!(bits(sorted), bits(&expected));
        }
    }

    #[test]
    fn changes_of_one_time_add_up_as_in_their_order() {
        let groups: [&[(Curve, f64)]; 3] = [
            &[(Curve::TokensInFlight, 0.1), (Curve::TokensInFlight, -0.3), (Curve::Concurrency, 1.0)],
            &[(Curve::TokensInFlight, 0.1), (Curve::TokensInFlight, 0.7), (Curve::TokensInFlight, -1e-9)],
            &[(Curve::DecodeThroughput, -0.0), (Curve::DecodeThroughput, 1e-3)],
        ];
        for group in groups {
            let mut now: Vec<Change> =
                group.iter().map(|(curve, by)| Change { time: 7.0, curve: *curve, by: *by }).collect();
            let mut expected = [Exactly::ZERO; CURVES];
            let mut ordered = now.clone();
            ordered.sort_by(Change::order);
            for Change { curve, by, .. } in &ordered {
                expected[*curve as usize].add(*by);
            }
            let mut levels = [Exactly::ZERO; CURVES];
            let touched = apply(&mut now, &mut levels);
            assert_eq!(levels, expected);
            assert_eq!(touched, group.iter().fold(0, |touched, (curve, _)| touched | curve.bit()));
        }
    }
}
