//! By how much a server's counters rose during a phase and in no other: sums between two pages of which one
//! was made before the phase and one after it.
//!
//! Phases that are joined by a seamless switch overlap at the server, which cannot tell them apart; they are
//! summed together. Whether a sum is exact is not assumed but seen from the times: the page before must have
//! come after the previous phase had drained and before this one started, the page after likewise. A page is
//! made between the sending of the request and the first byte of the answer.

use crate::prometheus::{Kind, Labels};
use crate::telemetry::history::{FamilyHead, History, Kept, Moment, Reading};
use crate::telemetry::{Occasion, PhaseKey};

/// When a phase ran, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseWindow {
    /// Position in the config.
    pub index: u16,
    /// Nothing was sent before.
    pub start_ns: u64,
    /// The last request had ended.
    pub end_ns: u64,
}

/// One phase, or several that overlap.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// Positions of the phases.
    pub phases: Vec<u16>,
    /// Start of the first.
    pub start_ns: u64,
    /// End of the last to end.
    pub end_ns: u64,
    /// No request of another phase can be in the sums, and none of these phases is missing.
    pub is_exact: bool,
    /// A sum for each series that rises.
    pub sums: Vec<SpanSum<'a>>,
}

/// By how much one series rose.
#[derive(Clone, Debug)]
pub struct SpanSum<'a> {
    /// Its family.
    pub family: &'a FamilyHead,
    /// Its labels.
    pub labels: &'a Labels,
    /// By how much; absent when the server started anew in between, because what it had counted is lost.
    pub rise: Option<Rise>,
    /// The series was not there before the span: it is counted from zero.
    pub has_appeared: bool,
}

/// By how much a series rose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rise {
    /// A counter.
    Counter(f64),
    /// A histogram: values, and their sum where the exporter gives one.
    Histogram(f64, Option<f64>),
}

/// The spans of a run whose phases are `keys`, of which those in `windows` ran.
pub fn of<'a>(history: &'a History, keys: &[PhaseKey], windows: &[PhaseWindow]) -> Vec<Span<'a>> {
    let groups = groups(keys, windows);
    let ends = |group: &[PhaseWindow]| group.iter().map(|window| window.end_ns).max();
    let mut spans = Vec::with_capacity(groups.len());
    for (number, group) in groups.iter().enumerate() {
        let before =
            number.checked_sub(1).and_then(|before| groups.get(before)).and_then(|group| ends(group));
        let next = groups.get(number + 1).and_then(|group| group.first()).map(|window| window.start_ns);
        let (Some(first), Some(end_ns)) = (group.first(), ends(group)) else { continue };
        let phases: Vec<u16> = group.iter().map(|window| window.index).collect();
        let begin = begin(history.fetches(), first, before);
        let end = end(history.fetches(), &phases, end_ns, next);
        let (Some((begin, from_is_exact)), Some((end, to_is_exact))) = (begin, end) else { continue };
        if begin >= end {
            continue;
        }
        spans.push(Span {
            phases,
            start_ns: first.start_ns,
            end_ns,
            is_exact: from_is_exact && to_is_exact,
            sums: sums(history, begin, end),
        });
    }
    spans
}

/// Phases that overlap stand together.
fn groups(keys: &[PhaseKey], windows: &[PhaseWindow]) -> Vec<Vec<PhaseWindow>> {
    let mut groups: Vec<Vec<PhaseWindow>> = Vec::new();
    for window in windows {
        let seamless = keys.iter().any(|key| key.index == window.index && key.seamless);
        match groups.last_mut() {
            Some(group) if seamless => group.push(*window),
            Some(_) | None => groups.push(vec![*window]),
        }
    }
    groups
}

/// The number of the fetch to count from, and whether nothing can be between it and the start.
fn begin(fetches: &[Kept], first: &PhaseWindow, before_ended_ns: Option<u64>) -> Option<(usize, bool)> {
    let clean = fetches.iter().rposition(|kept| {
        kept.fetch.at_ns <= first.start_ns && before_ended_ns.is_none_or(|ended| kept.fetch.sent_ns >= ended)
    });
    if let Some(number) = clean {
        return Some((number, true));
    }
    // What comes next: a page of the edge that came a little late, else the last one before the start.
    let after_drain = before_ended_ns
        .and_then(|ended| fetches.iter().position(|kept| kept.fetch.sent_ns >= ended))
        .filter(|number| fetches.get(*number).is_some_and(|kept| kept.fetch.occasion != Occasion::Cadence));
    let late_start = || {
        fetches.iter().position(|kept| {
            kept.fetch.phase == Some(first.index) && kept.fetch.occasion == Occasion::PhaseStart
        })
    };
    let earlier = || fetches.iter().rposition(|kept| kept.fetch.at_ns <= first.start_ns);
    after_drain.or_else(late_start).or_else(earlier).map(|number| (number, false))
}

/// The number of the fetch to count to, and whether nothing of the next phase can be before it.
fn end(fetches: &[Kept], phases: &[u16], end_ns: u64, next_start_ns: Option<u64>) -> Option<(usize, bool)> {
    let after = fetches.iter().position(|kept| kept.fetch.sent_ns >= end_ns);
    if let Some((number, kept)) = after.and_then(|number| Some((number, fetches.get(number)?))) {
        return Some((number, next_start_ns.is_none_or(|start| kept.fetch.at_ns <= start)));
    }
    let tagged = |kept: &Kept| kept.fetch.phase.is_some_and(|phase| phases.contains(&phase));
    fetches.iter().rposition(tagged).map(|number| (number, false))
}

fn sums(history: &History, begin: usize, end: usize) -> Vec<SpanSum<'_>> {
    let bound = |number: usize| history.fetches().get(number).map(|kept| kept.fetch.sent_ns);
    let (Some(begin_ns), Some(end_ns)) = (bound(begin), bound(end)) else { return Vec::new() };
    let sums = history.series().iter().filter_map(|series| {
        let family = history.family(series)?;
        match family.kind {
            Kind::Counter | Kind::Histogram => {}
            Kind::Gauge | Kind::Unknown => return None,
        }
        let moments = history.moments(series);
        let inside: Vec<&Moment<'_>> =
            moments.iter().filter(|moment| (begin_ns..=end_ns).contains(&moment.fetch.sent_ns)).collect();
        let last = inside.last()?;
        let has_appeared = inside.first().is_some_and(|first| first.fetch.sent_ns > begin_ns)
            && !moments.iter().any(|moment| moment.fetch.sent_ns <= begin_ns);
        let first = if has_appeared { None } else { inside.first() };
        let fell = inside.windows(2).any(|pair| match pair {
            [before, after] => has_fallen(before.reading, after.reading),
            _ => false,
        });
        let rise = if fell { None } else { rise(first.map(|moment| moment.reading), last.reading) };
        Some(SpanSum { family, labels: &series.labels, rise, has_appeared })
    });
    sums.collect()
}

fn count(reading: &Reading) -> f64 {
    match reading {
        Reading::Histogram { count, cumulative, .. } => {
            let counts = cumulative.iter().copied().filter(|count| !count.is_nan());
            count.unwrap_or_else(|| counts.fold(0.0, f64::max))
        }
        Reading::Number(number) => *number,
    }
}

fn has_fallen(before: &Reading, after: &Reading) -> bool {
    count(after) < count(before)
}

fn rise(before: Option<&Reading>, after: &Reading) -> Option<Rise> {
    let grown = count(after) - before.map_or(0.0, count);
    match (before, after) {
        (_, Reading::Number(_)) => Some(Rise::Counter(grown)),
        (None, Reading::Histogram { sum, .. }) => Some(Rise::Histogram(grown, *sum)),
        (Some(Reading::Histogram { sum: before, .. }), Reading::Histogram { sum: after, .. }) => {
            Some(Rise::Histogram(grown, after.zip(*before).map(|(after, before)| after - before)))
        }
        (Some(Reading::Number(_)), Reading::Histogram { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PhaseKind;
    use crate::prometheus::{Dialect, read};
    use crate::telemetry::Fetch;
    use crate::telemetry::history::Page;

    fn key(index: u16, seamless: bool) -> PhaseKey {
        PhaseKey {
            index,
            profiling_index: Some(index),
            name: format!("p{index}"),
            kind: PhaseKind::Profiling,
            seamless,
        }
    }

    /// A page sent at each time and answered 2 ns later.
    fn history(pages: &[(u64, &str)]) -> History {
        let mut history = History::new("http://h/metrics".to_owned());
        for (sent_ns, value) in pages {
            let text = format!("# TYPE c counter\n{value}\n");
            let page = read(&text, Dialect::Classic).unwrap_or_default();
            let fetch = Fetch {
                sent_ns: *sent_ns,
                at_ns: sent_ns + 2,
                latency_ns: 3,
                phase: None,
                occasion: Occasion::Cadence,
            };
            history.push(fetch, Page::New(&page));
        }
        history
    }

    fn window(index: u16, start_ns: u64, end_ns: u64) -> PhaseWindow {
        PhaseWindow { index, start_ns, end_ns }
    }

    fn found(
        history: &History,
        keys: &[PhaseKey],
        windows: &[PhaseWindow],
    ) -> Vec<(Vec<u16>, bool, Vec<Option<Rise>>)> {
        of(history, keys, windows)
            .into_iter()
            .map(|span| (span.phases, span.is_exact, span.sums.iter().map(|sum| sum.rise).collect()))
            .collect()
    }

    #[test]
    fn a_sum_is_exact_when_its_pages_lie_outside_of_the_phases() {
        let history = history(&[(0, "c 5"), (20, "c 9"), (31, "c 12"), (60, "c 20")]);
        let keys = [key(0, false), key(1, false)];
        let clean = found(&history, &keys, &[window(0, 10, 30), window(1, 40, 60)]);
        let expected = [
            (vec![0], true, vec![Some(Rise::Counter(7.0))]),
            (vec![1], true, vec![Some(Rise::Counter(8.0))]),
        ];
        assert_eq!(clean, expected);
        // The second phase starts while the page of the edge is being made.
        let late = found(&history, &keys, &[window(0, 10, 30), window(1, 32, 60)]);
        assert_eq!(late.iter().map(|span| span.1).collect::<Vec<_>>(), [false, false]);
    }

    #[test]
    fn phases_that_overlap_are_one_span() {
        let history = history(&[(0, "c 5"), (31, "c 12"), (70, "c 20")]);
        let keys = [key(0, false), key(1, true), key(2, false)];
        let spans = found(&history, &keys, &[window(0, 10, 50), window(1, 30, 60), window(2, 80, 90)]);
        assert_eq!(spans, [(vec![0, 1], true, vec![Some(Rise::Counter(15.0))])]);
    }

    #[test]
    fn what_a_restart_has_taken_is_not_made_up() {
        let history = history(&[(0, "c 5"), (20, "c 2"), (60, "c 9")]);
        assert_eq!(found(&history, &[key(0, false)], &[window(0, 10, 30)]), [(vec![0], true, vec![None])]);
    }

    #[test]
    fn a_series_that_appears_is_counted_from_zero() {
        let history = history(&[(0, "c 5"), (60, "c 9\nc{x=\"1\"} 3")]);
        let spans = found(&history, &[key(0, false)], &[window(0, 10, 30)]);
        let expected = vec![Some(Rise::Counter(4.0)), Some(Rise::Counter(3.0))];
        assert_eq!(spans, [(vec![0], true, expected)]);
    }
}
