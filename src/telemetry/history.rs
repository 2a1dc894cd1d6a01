//! The pages of one server, kept as a column of numbers for each series.
//!
//! A page that is the same as the one before is kept as a mark only. Memory is bounded: beyond
//! [`NUMBERS_MAX`] only the pages of phase edges are kept, and beyond [`SERIES_MAX`] no new series.

use crate::prometheus::{Exposition, Kind, Labels, Value};
use crate::telemetry::{Fetch, Occasion};
use std::collections::HashMap;

/// Numbers kept of one server: 128 MiB.
pub const NUMBERS_MAX: usize = 1 << 24;

/// Series kept of one server.
pub const SERIES_MAX: usize = 100_000;

/// What a fetch brought.
#[derive(Clone, Copy, Debug)]
pub enum Page<'a> {
    /// A page that differs from the one before.
    New(&'a Exposition),
    /// The same bytes again.
    Same,
}

/// All that was read from one address.
#[derive(Debug)]
pub struct History {
    url: String,
    families: Vec<FamilyHead>,
    series: Vec<Series>,
    places: HashMap<(usize, Labels), usize>,
    family_places: HashMap<String, usize>,
    fetches: Vec<Kept>,
    numbers: usize,
    left_out: u64,
    series_left_out: u64,
}

/// What is known of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyHead {
    /// Its name.
    pub name: String,
    /// What its numbers are.
    pub kind: Kind,
    /// What its exporter says about it.
    pub help: String,
}

/// A fetch that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The fetch.
    pub fetch: Fetch,
    /// Number of the fetch whose page this one brought: itself, unless the page was the same.
    pub page: usize,
}

impl Kept {
    /// Whether the page had been seen before.
    pub fn is_repeated(&self, number: usize) -> bool {
        self.page != number
    }
}

/// One label set of a family over time.
#[derive(Debug)]
pub struct Series {
    /// Its family.
    pub family: usize,
    /// Its labels.
    pub labels: Labels,
    /// Upper bounds as written, in the order in which they appeared; empty for anything but a histogram.
    pub bounds: Vec<String>,
    points: Vec<(usize, Reading)>,
}

/// What a series said at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A histogram.
    Histogram {
        /// Cumulative counts in the order of the bounds; not a number where the page had no such bound.
        cumulative: Box<[f64]>,
        /// Sum of all values; absent when the page has none.
        sum: Option<f64>,
        /// Number of all values; absent when the page has none.
        count: Option<f64>,
    },
    /// Anything else.
    Number(f64),
}

/// A series at the time of one fetch.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The fetch.
    pub fetch: &'a Fetch,
    /// What the series said.
    pub reading: &'a Reading,
}

impl History {
    /// Nothing read yet from `url`.
    pub fn new(url: String) -> Self {
        Self {
            url,
            families: Vec::new(),
            series: Vec::new(),
            places: HashMap::new(),
            family_places: HashMap::new(),
            fetches: Vec::new(),
            numbers: 0,
            left_out: 0,
            series_left_out: 0,
        }
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes the address, when the server turns out to have its metrics elsewhere.
    pub fn moved_to(&mut self, url: String) {
        self.url = url;
    }

    /// The fetches that are kept, in order.
    pub fn fetches(&self) -> &[Kept] {
        &self.fetches
    }

    /// The series, in order of appearance.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The family of a series.
    pub fn family(&self, series: &Series) -> Option<&FamilyHead> {
        self.families.get(series.family)
    }

    /// Pages between phase edges that were not kept because memory was full.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Samples of series beyond the limit that were not kept.
    pub fn series_left_out(&self) -> u64 {
        self.series_left_out
    }

    /// Keeps a page; tells whether it did. An empty page leaves no mark, and one between two edges is left out
    /// when memory is full: what follows is then not the same as what is kept.
    pub fn push(&mut self, fetch: Fetch, page: Page<'_>) -> bool {
        let number = self.fetches.len();
        match page {
            Page::Same => {
                let Some(last) = self.fetches.last().copied() else { return false };
                self.fetches.push(Kept { fetch, page: last.page });
            }
            Page::New(exposition) => {
                if exposition.families.is_empty() {
                    return false;
                }
                if self.numbers >= NUMBERS_MAX && fetch.occasion == Occasion::Cadence {
                    self.left_out += 1;
                    return false;
                }
                self.fetches.push(Kept { fetch, page: number });
                for family in &exposition.families {
                    let Some(place) = self.family_place(&family.name, family.kind, &family.help) else {
                        continue;
                    };
                    for sample in &family.samples {
                        self.keep(place, &sample.labels, &sample.value, number);
                    }
                }
            }
        }
        true
    }

    /// Absent when the family has changed its type, which makes its numbers another thing.
    fn family_place(&mut self, name: &str, kind: Kind, help: &str) -> Option<usize> {
        if let Some(&place) = self.family_places.get(name) {
            return self.families.get(place).filter(|head| head.kind == kind).map(|_| place);
        }
        let place = self.families.len();
        self.family_places.insert(name.to_owned(), place);
        self.families.push(FamilyHead { name: name.to_owned(), kind, help: help.to_owned() });
        Some(place)
    }

    fn keep(&mut self, family: usize, labels: &Labels, value: &Value, number: usize) {
        let key = (family, labels.clone());
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if self.series.len() >= SERIES_MAX => {
                self.series_left_out += 1;
                return;
            }
            None => {
                let place = self.series.len();
                let labels = labels.clone();
                self.series.push(Series { family, labels, bounds: Vec::new(), points: Vec::new() });
                self.places.insert(key, place);
                place
            }
        };
        let Some(series) = self.series.get_mut(place) else { return };
        let reading = match value {
            Value::Number(number) => Reading::Number(*number),
            Value::Histogram(histogram) => {
                for (bound, _) in &histogram.buckets {
                    if !series.bounds.contains(bound) {
                        series.bounds.push(bound.clone());
                    }
                }
                let count_at = |bound: &String| {
                    let bucket = histogram.buckets.iter().find(|(known, _)| known == bound);
                    bucket.map_or(f64::NAN, |(_, count)| *count)
                };
                Reading::Histogram {
                    cumulative: series.bounds.iter().map(count_at).collect(),
                    sum: histogram.sum,
                    count: histogram.count,
                }
            }
        };
        self.numbers += match &reading {
            Reading::Histogram { cumulative, .. } => cumulative.len() + 6,
            Reading::Number(_) => 5,
        };
        series.points.push((number, reading));
    }

    /// A series over all fetches that had it, repeated pages included, in order of time.
    pub fn moments<'a>(&'a self, series: &'a Series) -> Vec<Moment<'a>> {
        let mut points = series.points.iter().peekable();
        let mut moments = Vec::with_capacity(series.points.len());
        for kept in &self.fetches {
            while points.next_if(|(number, _)| *number < kept.page).is_some() {}
            if let Some((number, reading)) = points.peek()
                && *number == kept.page
            {
                moments.push(Moment { fetch: &kept.fetch, reading });
            }
        }
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::{Dialect, read};

    fn fetch(at_ns: u64) -> Fetch {
        Fetch { sent_ns: at_ns, at_ns, latency_ns: 1, phase: None, occasion: Occasion::Cadence }
    }

    fn push(history: &mut History, at_ns: u64, text: &str) -> bool {
        let page = read(text, Dialect::Classic).unwrap_or_default();
        history.push(fetch(at_ns), Page::New(&page))
    }

    fn shown(history: &History, series: usize) -> Vec<(u64, Reading)> {
        let moments = history.series().get(series).map(|series| history.moments(series));
        let moments = moments.unwrap_or_default().into_iter();
        moments.map(|moment| (moment.fetch.at_ns, moment.reading.clone())).collect()
    }

    #[test]
    fn a_repeated_page_is_a_sample_of_every_series_it_had() {
        let mut history = History::new("u".to_owned());
        assert!(push(&mut history, 1, "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n"));
        assert!(history.push(fetch(2), Page::Same));
        assert!(push(&mut history, 3, "# TYPE a gauge\na 2\n"));
        assert!(history.push(fetch(4), Page::Same));
        let number = |value| Reading::Number(value);
        assert_eq!(
            shown(&history, 0),
            [(1, number(1.0)), (2, number(1.0)), (3, number(2.0)), (4, number(2.0))]
        );
        // A series that vanished is not carried on.
        assert_eq!(shown(&history, 1), [(1, number(1.0)), (2, number(1.0))]);
    }

    #[test]
    fn an_empty_page_and_one_that_finds_no_room_are_not_kept() {
        let mut history = History::new("u".to_owned());
        assert!(!push(&mut history, 1, ""));
        assert!(!history.push(fetch(2), Page::Same));
        history.numbers = NUMBERS_MAX;
        assert!(!push(&mut history, 3, "a 1\n"));
        let page = read("a 1\n", Dialect::Classic).unwrap_or_default();
        let edge = Fetch { occasion: Occasion::PhaseEnd, ..fetch(4) };
        assert!(history.push(edge, Page::New(&page)), "a page of an edge always is");
        assert_eq!((history.fetches().len(), history.left_out()), (1, 1));
    }

    #[test]
    fn a_family_that_becomes_another_thing_is_not_mixed_with_what_it_was() {
        let mut history = History::new("u".to_owned());
        assert!(push(&mut history, 1, "# TYPE a gauge\na 1\n"));
        assert!(push(&mut history, 2, "# TYPE a counter\na 9\n"));
        assert_eq!(shown(&history, 0), [(1, Reading::Number(1.0))]);
    }
}
