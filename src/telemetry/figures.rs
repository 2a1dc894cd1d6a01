//! What a server's history says about a phase, or about all phases of a kind together.
//!
//! The cut is AIPerf's (spec/telemetry B4): the samples that are tagged with the phases; for what rises, the
//! sample directly before the first of them is where counting begins. Between two profiling phases nothing
//! is taken out, so that figures of several phases include what ran in between: [`crate::telemetry::spans`]
//! has sums without it.

use crate::prometheus::estimate::{self, Learned};
use crate::prometheus::{Kind, Labels};
use crate::telemetry::Fetch;
use crate::telemetry::history::{FamilyHead, History, Moment, Reading, Series};
use crate::telemetry::numbers::Spread;

/// Which fetches are looked at.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Positions of the phases.
    pub phases: Vec<u16>,
    /// From when to when to look if no fetch is tagged with any of them; absent: not at all.
    pub otherwise_ns: Option<(u64, u64)>,
    /// Length of the slices of time that are summed up on their own, in nanoseconds; absent: none.
    pub slice_ns: Option<u64>,
}

/// What one series says.
#[derive(Clone, Debug)]
pub struct SeriesFigures<'a> {
    /// Its family.
    pub family: &'a FamilyHead,
    /// Its labels.
    pub labels: &'a Labels,
    /// The figures.
    pub figures: Figures,
    /// The slices; empty when not asked for.
    pub slices: Vec<Slice>,
}

/// Figures by the kind of the family.
#[derive(Clone, Debug, PartialEq)]
pub enum Figures {
    /// What rises.
    Counter {
        /// By how much it rose, at least 0.
        total: f64,
        /// Per second; 0 over no time.
        rate: f64,
        /// The rates of whole slices; absent without such.
        of_slices: Option<Spread>,
    },
    /// What goes up and down, and what is not known.
    Gauge(Spread),
    /// A histogram.
    Histogram(HistogramFigures),
}

/// How much a histogram grew.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramFigures {
    /// Values.
    pub count: f64,
    /// Their sum; absent when the exporter gives none.
    pub sum: Option<f64>,
    /// Values per second; 0 over no time.
    pub count_rate: f64,
    /// Sum per second.
    pub sum_rate: Option<f64>,
    /// One for each of [`estimate::PERCENTILES`]; absent where nothing can be estimated.
    pub estimates: Option<[f64; 9]>,
    /// Bound as written and cumulative count, by rising bounds; empty after a reset.
    pub buckets: Vec<(String, f64)>,
}

impl HistogramFigures {
    /// Sum over count; absent when there is no value or no sum.
    pub fn avg(&self) -> Option<f64> {
        self.sum.filter(|_| self.count > 0.0).map(|sum| sum / self.count)
    }
}

/// Figures of a slice of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Where it begins.
    pub start_ns: u64,
    /// Where it ends.
    pub end_ns: u64,
    /// It has its full length.
    pub whole: bool,
    /// What it says.
    pub figures: SliceFigures,
}

/// Figures of a slice by the kind of the family.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceFigures {
    /// What rises: total and rate per second.
    Counter(f64, f64),
    /// Mean, smallest, largest.
    Gauge(f64, f64, f64),
    /// Values, their sum, cumulative counts.
    Histogram(f64, f64, Vec<(String, f64)>),
}

/// The figures of every series that has a sample in the scope, in order of appearance.
pub fn of<'a>(history: &'a History, scope: &Scope) -> Vec<SeriesFigures<'a>> {
    let tagged = |fetch: &Fetch| fetch.phase.is_some_and(|phase| scope.phases.contains(&phase));
    let any = history.fetches().iter().any(|kept| tagged(&kept.fetch));
    let inside = |fetch: &Fetch| match (any, scope.otherwise_ns) {
        (true, _) => tagged(fetch),
        (false, Some((start, end))) => (start..=end).contains(&fetch.at_ns),
        (false, None) => false,
    };
    let figures = history.series().iter().filter_map(|series| {
        let family = history.family(series)?;
        let moments = history.moments(series);
        let cut = Cut::new(&moments, &inside)?;
        let figures = match family.kind {
            Kind::Counter => cut.counter(scope.slice_ns),
            Kind::Gauge | Kind::Unknown => Figures::Gauge(Spread::of(&cut.numbers())?),
            Kind::Histogram => cut.histogram(series),
        };
        let slices = scope.slice_ns.map(|width| cut.slices(family.kind, series, width)).unwrap_or_default();
        // A histogram in which nothing fell has no slices that say anything.
        let idle = matches!(&figures, Figures::Histogram(figures) if figures.count <= 0.0);
        let slices = if idle { Vec::new() } else { slices };
        Some(SeriesFigures { family, labels: &series.labels, figures, slices })
    });
    figures.collect()
}

/// Families that fell during a phase although they should only rise: the server started anew.
pub fn fallen(history: &History, phase: u16) -> Vec<&str> {
    let inside = |fetch: &Fetch| fetch.phase == Some(phase);
    let mut names: Vec<&str> = Vec::new();
    for series in history.series() {
        let Some(family) = history.family(series) else { continue };
        let rises = matches!(family.kind, Kind::Counter | Kind::Histogram);
        if !rises || names.contains(&family.name.as_str()) {
            continue;
        }
        let moments = history.moments(series);
        let Some(cut) = Cut::new(&moments, &inside) else { continue };
        let order = rising(&series.bounds);
        let mut before: Option<&Reading> = None;
        for moment in cut.all() {
            let fell = match (before, moment.reading) {
                (Some(Reading::Number(before)), Reading::Number(after)) => after < before,
                (Some(before), after) => {
                    Grown::between(before, after, &order).is_some_and(|grown| grown.is_reset)
                }
                (None, _) => false,
            };
            if fell {
                names.push(family.name.as_str());
                break;
            }
            before = Some(moment.reading);
        }
    }
    names
}

/// What the fetches of a scope were like.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchFigures {
    /// Fetches.
    pub fetches: usize,
    /// Time of the first.
    pub first_ns: u64,
    /// Time of the last.
    pub last_ns: u64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
    /// Fetches that brought something new.
    pub updates: usize,
    /// Time of the first and last such; absent when there was none.
    pub update_ns: Option<(u64, u64)>,
    /// Mean and median time between them in milliseconds; the median is absent for less than two.
    pub update_interval_ms: (f64, Option<f64>),
}

/// The fetches tagged with `phase`, or all.
pub fn fetches(history: &History, phase: Option<u16>) -> Option<FetchFigures> {
    let kept: Vec<_> = history
        .fetches()
        .iter()
        .enumerate()
        .filter(|(_, kept)| phase.is_none() || kept.fetch.phase == phase)
        .collect();
    let (_, first) = kept.first()?;
    let (_, last) = kept.last()?;
    let latencies: f64 = kept.iter().map(|(_, kept)| kept.fetch.latency_ns as f64).sum();
    let updates: Vec<u64> = kept
        .iter()
        .filter(|(number, kept)| !kept.is_repeated(*number))
        .map(|(_, kept)| kept.fetch.at_ns)
        .collect();
    let gap = |pair: &[u64]| match pair {
        [before, after] => Some(after.saturating_sub(*before) as f64 / 1e6),
        _ => None,
    };
    let gaps: Vec<f64> = updates.windows(2).filter_map(gap).collect();
    let mean = if gaps.is_empty() { 0.0 } else { gaps.iter().sum::<f64>() / gaps.len() as f64 };
    let median = Spread::of(&gaps).and_then(|spread| spread.percentiles.get(4).copied());
    Some(FetchFigures {
        fetches: kept.len(),
        first_ns: first.fetch.at_ns,
        last_ns: last.fetch.at_ns,
        latency_ms: latencies / kept.len() as f64 / 1e6,
        updates: updates.len(),
        update_ns: updates.first().copied().zip(updates.last().copied()),
        update_interval_ms: (mean, median),
    })
}

/// The moments of one series that a scope has: the reference, if there is one, and those inside.
struct Cut<'a> {
    reference: Option<Moment<'a>>,
    inside: Vec<Moment<'a>>,
}

impl<'a> Cut<'a> {
    fn new(moments: &[Moment<'a>], is_inside: &impl Fn(&Fetch) -> bool) -> Option<Self> {
        let first = moments.iter().position(|moment| is_inside(moment.fetch))?;
        let reference = first.checked_sub(1).and_then(|before| moments.get(before)).copied();
        let inside = moments.iter().filter(|moment| is_inside(moment.fetch)).copied().collect();
        Some(Self { reference, inside })
    }

    /// Where counting begins: the reference, else the first moment inside.
    fn begin(&self) -> Option<&Moment<'a>> {
        self.reference.as_ref().or_else(|| self.inside.first())
    }

    /// Everything in order, the reference first.
    fn all(&self) -> impl Iterator<Item = &Moment<'a>> {
        self.reference.iter().chain(&self.inside)
    }

    fn numbers(&self) -> Vec<f64> {
        self.inside.iter().filter_map(|moment| number(moment.reading)).collect()
    }

    /// Seconds from where counting begins to the end.
    fn seconds(&self) -> f64 {
        let end = self.inside.last().map(|moment| moment.fetch.at_ns);
        let begin = self.begin().map(|moment| moment.fetch.at_ns);
        end.zip(begin).map_or(0.0, |(end, begin)| end.saturating_sub(begin) as f64 / 1e9)
    }

    fn per_second(&self, amount: f64) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { amount / seconds } else { 0.0 }
    }

    fn counter(&self, slice_ns: Option<u64>) -> Figures {
        let at = |moment: Option<&Moment<'_>>| {
            moment.and_then(|moment| number(moment.reading)).unwrap_or_default()
        };
        let total = (at(self.inside.last()) - at(self.begin())).max(0.0);
        let of_slices = slice_ns.and_then(|width| {
            let slices = self.slices_of_counter(width);
            let rates: Vec<f64> = slices
                .iter()
                .filter(|slice| slice.whole)
                .filter_map(|slice| match slice.figures {
                    SliceFigures::Counter(_, rate) => Some(rate),
                    SliceFigures::Gauge(..) | SliceFigures::Histogram(..) => None,
                })
                .collect();
            Spread::of(&rates)
        });
        Figures::Counter { total, rate: self.per_second(total), of_slices }
    }

    fn histogram(&self, series: &Series) -> Figures {
        let order = rising(&series.bounds);
        let zero = Grown { count: 0.0, sum: None, cumulative: Vec::new(), is_reset: false };
        let grown = match (self.begin(), self.inside.last()) {
            (Some(begin), Some(end)) => Grown::between(begin.reading, end.reading, &order),
            _ => None,
        };
        let mut grown = grown.unwrap_or(zero);
        let is_reset = grown.is_reset;
        grown.count = grown.count.max(0.0);
        grown.sum = grown.sum.map(|sum| sum.max(0.0));
        let bounds: Vec<f64> = order.iter().map(|(_, bound)| *bound).collect();
        let estimates = grown.sum.filter(|_| !is_reset && grown.count > 0.0).and_then(|sum| {
            let delta = estimate::Reading { cumulative: &grown.cumulative, sum, count: grown.count };
            estimate::estimate(&bounds, delta, &self.learned(&order))
        });
        let buckets = if is_reset { Vec::new() } else { named(&order, &series.bounds, &grown.cumulative) };
        let figures = HistogramFigures {
            count: grown.count,
            sum: grown.sum,
            count_rate: self.per_second(grown.count),
            sum_rate: grown.sum.map(|sum| self.per_second(sum)),
            estimates,
            buckets,
        };
        Figures::Histogram(figures)
    }

    fn learned(&self, order: &[(usize, f64)]) -> Vec<Option<Learned>> {
        let states: Vec<(Vec<f64>, f64, f64)> = self
            .all()
            .filter_map(|moment| match moment.reading {
                Reading::Histogram { cumulative, sum, count } => {
                    let cumulative = ordered(order, cumulative);
                    let count = count.or_else(|| cumulative.last().copied())?;
                    Some((cumulative, (*sum)?, count))
                }
                Reading::Number(_) => None,
            })
            .collect();
        let readings = states.iter().map(|(cumulative, sum, count)| estimate::Reading {
            cumulative,
            sum: *sum,
            count: *count,
        });
        estimate::learn(order.len(), readings)
    }

    fn slices(&self, kind: Kind, series: &Series, width: u64) -> Vec<Slice> {
        match kind {
            Kind::Counter => self.slices_of_counter(width),
            Kind::Gauge | Kind::Unknown => self.slices_of_gauge(width),
            Kind::Histogram => self.slices_of_histogram(series, width),
        }
    }

    /// Start, end, and whether that is the full width, of each slice.
    fn grid(&self, width: u64) -> Vec<(u64, u64, bool)> {
        let bounds = self.inside.first().zip(self.inside.last());
        let Some((start, end)) = bounds.map(|(first, last)| (first.fetch.at_ns, last.fetch.at_ns)) else {
            return Vec::new();
        };
        let mut slices = Vec::new();
        let mut at = start;
        while at < end && width > 0 {
            let next = at.saturating_add(width);
            slices.push((at, next.min(end), next <= end));
            at = next;
        }
        slices
    }

    /// The last moment that is not later than `at_ns`.
    fn state_at(&self, at_ns: u64) -> Option<&Moment<'a>> {
        let behind = self.inside.partition_point(|moment| moment.fetch.at_ns <= at_ns);
        behind.checked_sub(1).and_then(|last| self.inside.get(last))
    }

    fn slices_of_counter(&self, width: u64) -> Vec<Slice> {
        let value = |at: u64| self.state_at(at).and_then(|moment| number(moment.reading));
        let slices = self.grid(width).into_iter().filter_map(|(start_ns, end_ns, whole)| {
            let total = (value(end_ns)? - value(start_ns)?).max(0.0);
            let rate = total / (end_ns.saturating_sub(start_ns) as f64 / 1e9);
            Some(Slice { start_ns, end_ns, whole, figures: SliceFigures::Counter(total, rate) })
        });
        slices.collect()
    }

    fn slices_of_gauge(&self, width: u64) -> Vec<Slice> {
        if self.inside.len() < 2 {
            return Vec::new();
        }
        let grid = self.grid(width);
        let last = grid.last().map(|(_, end, _)| *end);
        let slices = grid.into_iter().filter_map(|(start_ns, end_ns, whole)| {
            let closed = Some(end_ns) == last;
            let numbers: Vec<f64> = self
                .inside
                .iter()
                .filter(|moment| {
                    let at = moment.fetch.at_ns;
                    at >= start_ns && (at < end_ns || (closed && at == end_ns))
                })
                .filter_map(|moment| number(moment.reading))
                .collect();
            let spread = Spread::of(&numbers)?;
            let figures = SliceFigures::Gauge(spread.avg, spread.min, spread.max);
            Some(Slice { start_ns, end_ns, whole, figures })
        });
        slices.collect()
    }

    fn slices_of_histogram(&self, series: &Series, width: u64) -> Vec<Slice> {
        let order = rising(&series.bounds);
        let slices = self.grid(width).into_iter().filter_map(|(start_ns, end_ns, whole)| {
            let (begin, end) = (self.state_at(start_ns)?, self.state_at(end_ns)?);
            let grown = Grown::between(begin.reading, end.reading, &order)?;
            if grown.is_reset {
                return None;
            }
            let buckets = named(&order, &series.bounds, &grown.cumulative);
            let figures = SliceFigures::Histogram(grown.count, grown.sum?, buckets);
            Some(Slice { start_ns, end_ns, whole, figures })
        });
        slices.collect()
    }
}

fn number(reading: &Reading) -> Option<f64> {
    match reading {
        Reading::Histogram { .. } => None,
        Reading::Number(number) => Some(*number),
    }
}

/// Position and value of every bound that is a number, rising.
fn rising(bounds: &[String]) -> Vec<(usize, f64)> {
    let mut order: Vec<(usize, f64)> = bounds
        .iter()
        .enumerate()
        .filter_map(|(at, bound)| bound.trim().parse().ok().map(|bound| (at, bound)))
        .filter(|(_, bound): &(usize, f64)| !bound.is_nan())
        .collect();
    order.sort_by(|left, right| left.1.total_cmp(&right.1));
    order
}

/// Cumulative counts by rising bounds; a bound that was not on the page has the count of the one below.
fn ordered(order: &[(usize, f64)], cumulative: &[f64]) -> Vec<f64> {
    let mut below = 0.0;
    let counts = order.iter().map(|(at, _)| {
        let count = cumulative.get(*at).copied().filter(|count| !count.is_nan());
        below = count.unwrap_or(below);
        below
    });
    counts.collect()
}

fn named(order: &[(usize, f64)], bounds: &[String], cumulative: &[f64]) -> Vec<(String, f64)> {
    order
        .iter()
        .zip(cumulative)
        .filter_map(|((at, _), count)| Some((bounds.get(*at)?.clone(), *count)))
        .collect()
}

/// How much a histogram grew between two readings.
struct Grown {
    count: f64,
    sum: Option<f64>,
    /// By rising bounds.
    cumulative: Vec<f64>,
    is_reset: bool,
}

impl Grown {
    fn between(before: &Reading, after: &Reading, order: &[(usize, f64)]) -> Option<Self> {
        let (
            Reading::Histogram { cumulative: before, sum: sum_before, count: count_before },
            Reading::Histogram { cumulative: after, sum: sum_after, count: count_after },
        ) = (before, after)
        else {
            return None;
        };
        let (before, after) = (ordered(order, before), ordered(order, after));
        let cumulative: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
        let total = |given: &Option<f64>, counts: &[f64]| given.or_else(|| counts.last().copied());
        let count = total(count_after, &after)? - total(count_before, &before)?;
        let sum = sum_after.zip(*sum_before).map(|(after, before)| after - before);
        let is_reset = count < 0.0 || cumulative.iter().any(|count| *count < 0.0);
        Some(Self { count, sum, cumulative, is_reset })
    }
}
