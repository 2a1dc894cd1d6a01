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

/// The requests of a scope, in the order in which they started.
#[derive(Debug)]
pub(super) struct Sweep<'a> {
    requests: Vec<Request<'a>>,
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
    /// Times as whole numbers, in the same order.
    fn key(&self) -> i64 {
        let bits = self.time.to_bits().cast_signed();
        bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
    }

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
        let mut requests: Vec<Request<'a>> = scopes
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
        requests.sort_unstable_by(|left, right| left.start.total_cmp(&right.start));
        Self { requests, chunks }
    }

    /// Calls `step` for each time at which some curve changes, with the levels from then on and the set of
    /// curves that were touched.
    ///
    /// Changes are made and sorted a stretch of time at a time. The order of all of them is one and the same
    /// however they fall into stretches.
    pub(super) fn walk(&self, mut step: impl FnMut(f64, &[f64; CURVES], u8)) {
        let mut changes: Vec<Change> = Vec::new();
        let mut under_way: Vec<Chunks<'_>> = Vec::new();
        let mut levels = [Exactly::ZERO; CURVES];
        let mut values = [0.0; CURVES];
        let mut waiting = self.requests.iter().peekable();
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
            // A key that is one number sorts several times as fast as the whole order; equal times are few.
            changes.sort_unstable_by_key(Change::key);
            let ready = changes.partition_point(|change| change.time < settled);
            let mut rest = changes.get_mut(..ready).unwrap_or_default();
            while let Some(Change { time, .. }) = rest.first().copied() {
                let equal = rest.iter().take_while(|change| change.time.total_cmp(&time).is_eq()).count();
                let (now, later) = rest.split_at_mut(equal);
                if equal > 1 {
                    now.sort_unstable_by(Change::order);
                }
                let mut touched = 0;
                for Change { curve, by, .. } in now {
                    levels[*curve as usize].add(*by);
                    touched |= curve.bit();
                }
                for (curve, value) in values.iter_mut().enumerate() {
                    if touched & (1 << curve) != 0 {
                        *value = levels[curve].value();
                    }
                }
                step(time, &values, touched);
                rest = later;
            }
            changes.drain(..ready);
            if settled.is_infinite() {
                break;
            }
            // Looking at every request under way should cost less than sorting its chunks.
            let wanted = CHANGES_AT_ONCE.max(4 * under_way.len());
            if ready > 2 * wanted {
                stretch = (stretch / 2.0).max(1.0);
            } else if ready < wanted / 2 {
                stretch *= 2.0;
            }
        }
    }
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
