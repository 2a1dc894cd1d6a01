//! What servers tell of themselves in the Prometheus text format: read, named, and percentiles guessed.
//!
//! A page becomes an [`Exposition`] by [`read()`]: families with samples, named as AIPerf names them
//! (spec: families of counters lose their `_total`). Exporters that are sloppy are read as far as they can
//! be. [`mod@unit`] tells what a family is counted in, [`estimate`] where the percentiles of a histogram lie.
//! It fetches nothing, keeps no history and knows no phase.

pub mod estimate;
mod lines;
mod read;
pub mod unit;

pub use lines::{Line, lines};
pub use read::read;

/// Which rules a page follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The text format of Prometheus itself, version 0.0.4.
    #[default]
    Classic,
    /// OpenMetrics: samples of a counter end in `_total`, the page ends with `# EOF`.
    OpenMetrics,
}

impl Dialect {
    /// The dialect that a content type names.
    pub fn of_content_type(content_type: Option<&str>) -> Self {
        match content_type {
            Some(text) if text.to_ascii_lowercase().contains("application/openmetrics-text") => {
                Self::OpenMetrics
            }
            Some(_) | None => Self::Classic,
        }
    }
}

/// A page that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition {
    /// The families with at least one sample, in the order of the page.
    pub families: Vec<Family>,
    /// Names of samples left out because a number in them is not finite.
    pub not_finite: Vec<String>,
    /// Families left out because they are summaries, whose quantiles cannot be cut to a phase.
    pub summaries: Vec<String>,
}

/// A named set of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name; without `_total` for a counter.
    pub name: String,
    /// What its numbers are.
    pub kind: Kind,
    /// What its exporter says about it; may be empty.
    pub help: String,
    /// Each label set once.
    pub samples: Vec<Sample>,
}

/// What the numbers of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rises; falls only when the server starts anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values up to bounds, their number and their sum.
    Histogram,
    /// The exporter does not say.
    Unknown,
}

impl Kind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Unknown => "unknown",
        }
    }
}

/// One label set and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The labels; without `le` for a histogram.
    pub labels: Labels,
    /// The number or numbers.
    pub value: Value,
}

/// What a sample says; every number is finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a histogram.
    Histogram(Histogram),
    /// Of everything else.
    Number(f64),
}

/// The numbers of a histogram, as far as the exporter gives them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bound as written, and how many values lie at or below it.
    pub buckets: Vec<(String, f64)>,
    /// Sum of all values.
    pub sum: Option<f64>,
    /// Number of all values.
    pub count: Option<f64>,
}

/// Labels by name, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// Sorts `pairs`; of two with the same name the later one stays.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        let mut kept: Vec<(String, String)> = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            match kept.iter_mut().find(|(known, _)| *known == name) {
                Some((_, before)) => *before = value,
                None => kept.push((name, value)),
            }
        }
        kept.sort_unstable();
        Self(kept)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and value of each, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of one label.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The labels as Python writes a dictionary: AIPerf sorts series by it.
    pub fn sort_key(&self) -> String {
        let pairs: Vec<String> = self.iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

/// Why a page is not in the text format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not Prometheus text: {why}; it reads `{shown}`")]
pub struct ReadError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: Fault,
    /// Its first characters.
    pub shown: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The labels.
    #[error("labels must read {{name=\"value\",...}}")]
    Labels,
    /// The name of the sample.
    #[error("a sample must begin with a metric name")]
    Name,
    /// The number.
    #[error("the value must be a number")]
    Value,
}
