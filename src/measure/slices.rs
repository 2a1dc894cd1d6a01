//! The results of equal slices of time (spec/artifacts 11): the same metrics, over the requests that started
//! in each.
//!
//! Nothing is recorded for it: a tally's exact values stand in the order of its requests, and each request's
//! interval says which metrics it has a value of, so every value finds its request again.

use crate::measure::PhaseTally;
use crate::measure::catalogue::{Feed, SAMPLED, Sampled, Source};
use crate::measure::intervals::{Gaps, Interval};
use crate::measure::runs::Runs;
use crate::measure::statistics::Ordered;
use crate::measure::summary::{DurationRule, Pool, Summary, Terms, Timing};
use crate::measure::tally::Counts;
use crate::measure::weighted::{Grain, slices_of};
use crate::time::{Clock, Nanos, Stamp};
use std::collections::BTreeMap;

/// Most slices of one run.
pub const SLICES_MAX: u64 = 100_000;

/// One slice that some request started in.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Wall nanoseconds.
    pub start_ns: u64,
    /// Wall nanoseconds.
    pub end_ns: u64,
    /// The slice is as long as asked for; the last one may be cut by the last end.
    pub is_complete: bool,
    /// Its metrics.
    pub summary: Summary,
}

/// Why there are no slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSlices {
    /// More requests than exact values are kept of.
    #[error("no time slices: more requests were made than exact values are kept of; run shorter")]
    TooManyRequests,
    /// More slices than [`SLICES_MAX`].
    #[error("no time slices: there would be more than {SLICES_MAX}; raise `artifacts.slice_duration`")]
    TooManySlices,
}

/// Cuts the requests of `tallies` into slices of `width`, from the first start on.
///
/// # Errors
/// The requests or the slices are too many.
pub fn slices(
    tallies: &[&PhaseTally],
    clock: Clock,
    width: Nanos,
    streaming: bool,
) -> Result<Vec<Slice>, NoSlices> {
    let intervals: Vec<_> = tallies.iter().map(|tally| tally.intervals()).collect();
    let single = |sampled: &Sampled| matches!(sampled.metric().source, Source::Record(..));
    let exact = |tally: &&PhaseTally| {
        Sampled::ALL
            .iter()
            .filter(|sampled| single(sampled))
            .all(|sampled| tally.samples(*sampled).is_exact())
    };
    let grain = Grain::of(&intervals);
    if grain == Grain::Absent || !tallies.iter().all(exact) {
        return Err(NoSlices::TooManyRequests);
    }
    let all = || intervals.iter().flat_map(|scope| scope.iter()).map(|(interval, _)| interval);
    let wall = |stamp: Stamp| clock.unix_ns(stamp) as f64;
    let (Some(first), Some(last)) = (all().map(|one| one.start).min(), all().map(|one| one.end).max()) else {
        return Ok(Vec::new());
    };
    let grid = Grid { origin: wall(first), end: wall(last), width: width.0.max(1) as f64 };
    if (grid.end - grid.origin) / grid.width > SLICES_MAX as f64 {
        return Err(NoSlices::TooManySlices);
    }
    let mut cuts: BTreeMap<u64, Cut> = BTreeMap::new();
    for tally in tallies {
        distribute(tally, &mut |interval, values, gaps| {
            let cut = cuts.entry(grid.number(wall(interval.start))).or_default();
            cut.add(interval, values, if grain == Grain::Chunks { Some(gaps) } else { None });
        });
    }
    let windows: Vec<(f64, f64)> = cuts.keys().map(|number| grid.window(*number)).collect();
    let curves = slices_of(&intervals, clock, streaming, &windows);
    let judged = tallies.iter().any(|tally| tally.judgement().has_objectives());
    let made = cuts.into_values().zip(windows).zip(curves).map(|((cut, (start, end)), weighted)| {
        let length = whole(end - start);
        let pool = Pool {
            counts: cut.counts,
            first_start: cut.first_start,
            last_content: cut.last_content,
            ordered: cut.values.into_iter().map(Ordered::of_values).collect(),
            weighted: Some(weighted),
            judged,
        };
        let terms = Terms {
            window: Nanos(length),
            rule: DurationRule::FirstToLast,
            streaming,
            span: None,
            timing: Timing::Made,
        };
        Slice {
            start_ns: whole(start),
            end_ns: whole(end),
            is_complete: start + grid.width <= grid.end,
            summary: Summary::of_pool(&pool, &terms),
        }
    });
    Ok(made.collect())
}

/// Wall times are whole nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and whole")]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}

struct Grid {
    origin: f64,
    end: f64,
    width: f64,
}

impl Grid {
    fn number(&self, start: f64) -> u64 {
        whole(((start - self.origin) / self.width).floor())
    }

    fn window(&self, number: u64) -> (f64, f64) {
        let start = self.origin + number as f64 * self.width;
        (start, (start + self.width).min(self.end).max(start))
    }
}

/// The single values of one request: metric and value.
type Values = Vec<(usize, f64)>;

/// Hands out every request of a tally with its values.
fn distribute(tally: &PhaseTally, take: &mut impl FnMut(&Interval, &Values, Gaps<'_>)) {
    let mut sets: Vec<_> = Sampled::ALL.iter().map(|sampled| tally.samples(*sampled).exact_parts()).collect();
    let mut values: Values = Vec::with_capacity(Sampled::COUNT);
    for part in tally.intervals().parts() {
        let mut columns: Vec<_> =
            sets.iter_mut().map(|parts| parts.next().into_iter().flat_map(Runs::iter)).collect();
        for (interval, gaps) in part {
            values.clear();
            let metrics = interval.findings().metrics;
            for (row, column) in columns.iter_mut().enumerate().filter(|(row, _)| metrics >> row & 1 == 1) {
                values.extend(column.next().map(|value| (row, value)));
            }
            take(&interval, &values, gaps);
        }
    }
}

/// What falls into one slice.
struct Cut {
    counts: Counts,
    values: Vec<Vec<f64>>,
    first_start: Option<Stamp>,
    last_content: Option<Stamp>,
}

impl Default for Cut {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            values: vec![Vec::new(); Sampled::COUNT],
            first_start: None,
            last_content: None,
        }
    }
}

impl Cut {
    fn add(&mut self, interval: &Interval, values: &Values, gaps: Option<Gaps<'_>>) {
        let findings = interval.findings();
        let good = interval.is_good();
        self.counts.ok += u64::from(good);
        self.counts.failed += u64::from(!good);
        self.counts.held += u64::from(findings.held);
        self.counts.osl_mismatched += u64::from(findings.mismatched);
        self.counts.usage_discrepant += u64::from(findings.discrepant);
        self.counts.context_overflows += u64::from(findings.overflowed);
        for (row, value) in values {
            // Queueing is a matter of the whole run: slices of the reference do not have it.
            let queueing = matches!(SAMPLED[*row].source, Source::Record(Feed::All, _));
            if let Some(set) = self.values.get_mut(*row).filter(|_| !queueing) {
                set.push(*value);
            }
            if *row == Sampled::RequestLatency as usize {
                let last = interval.start.plus(Nanos(whole(*value)));
                self.last_content = self.last_content.max(Some(last));
            }
        }
        if let (Some(gaps), Some(set)) = (gaps, self.values.get_mut(Sampled::InterChunkLatency as usize)) {
            set.extend(gaps.map(|gap| gap as f64));
        }
        if good {
            let start = interval.start;
            self.first_start = Some(self.first_start.map_or(start, |first| first.min(start)));
        }
    }
}
