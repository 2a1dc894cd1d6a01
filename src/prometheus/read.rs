//! A page into families: samples find the type that was declared for them, histograms are put together.

use crate::prometheus::lines::{Line, lines};
use crate::prometheus::{Dialect, Exposition, Family, Histogram, Kind, Labels, ReadError, Sample, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// Reads a page.
///
/// A page that claims to be OpenMetrics and does not end with `# EOF` is read by the classic rules. Left
/// out are families about when a process or series began (`_created`, uptimes), summaries, and samples
/// with numbers that are not finite. Of two samples with the same labels the later one stays. Families of
/// OpenMetrics types without an equal here (`info`, `stateset`) are read as gauges.
///
/// # Errors
/// The first line that is neither comment nor sample: such a page is not trusted at all, because it may be
/// an error page or cut off.
pub fn read(text: &str, dialect: Dialect) -> Result<Exposition, ReadError> {
    let dialect = match dialect {
        Dialect::OpenMetrics if text.trim_end().ends_with("# EOF") => Dialect::OpenMetrics,
        Dialect::Classic | Dialect::OpenMetrics => Dialect::Classic,
    };
    let mut reader = Reader { dialect, ..Reader::default() };
    for line in lines(text) {
        match line? {
            Line::End => break,
            Line::Help { name, text } => reader.declare(name).help = text,
            Line::Kind { name, kind } => reader.declare(name).kind = Some(Declared::of(kind)),
            Line::Sample { name, labels, value } => reader.sample(name, &labels, value),
        }
    }
    Ok(reader.finish())
}

/// A type as a page declares it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Declared {
    Counter,
    Gauge,
    Histogram,
    /// OpenMetrics: labels that say something, the number is always 1.
    Info,
    /// A type whose samples are not used.
    Left,
    Summary,
    Unknown,
}

impl Declared {
    fn of(kind: &str) -> Self {
        match kind {
            "counter" => Self::Counter,
            "gauge" | "stateset" => Self::Gauge,
            "gaugehistogram" => Self::Left,
            "histogram" => Self::Histogram,
            "info" => Self::Info,
            "summary" => Self::Summary,
            _ => Self::Unknown,
        }
    }

    /// Suffixes that samples of the type have besides the family's name.
    const fn suffixes(self, dialect: Dialect) -> &'static [&'static str] {
        match (self, dialect) {
            (Self::Counter, Dialect::OpenMetrics) => &["_total"],
            (Self::Histogram, _) => &["_bucket", "_count", "_sum"],
            (Self::Info, _) => &["_info"],
            (Self::Left, _) => &["_bucket", "_gcount", "_gsum"],
            (Self::Summary, _) => &["_count", "_sum"],
            (Self::Counter, Dialect::Classic) | (Self::Gauge | Self::Unknown, _) => &[],
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Counter => Kind::Counter,
            Self::Gauge | Self::Info => Kind::Gauge,
            Self::Histogram => Kind::Histogram,
            Self::Left | Self::Summary | Self::Unknown => Kind::Unknown,
        }
    }
}

#[derive(Default)]
struct Declaration<'a> {
    kind: Option<Declared>,
    help: Cow<'a, str>,
}

/// Samples of a family while a page is read.
struct Gathering {
    name: String,
    kind: Kind,
    help: String,
    samples: Vec<Sample>,
    /// Position of each label set.
    places: HashMap<Labels, usize>,
    /// Label sets of a histogram with a number that is not finite.
    broken: Vec<Labels>,
}

#[derive(Default)]
struct Reader<'a> {
    dialect: Dialect,
    declared: HashMap<&'a str, Declaration<'a>>,
    families: Vec<Gathering>,
    places: HashMap<String, usize>,
    not_finite: Vec<String>,
    summaries: Vec<String>,
}

/// Which part of a family a sample is.
#[derive(Clone, Copy)]
enum Part {
    Bucket,
    Count,
    Number,
    Sum,
}

impl<'a> Reader<'a> {
    fn declare(&mut self, name: &'a str) -> &mut Declaration<'a> {
        self.declared.entry(name).or_default()
    }

    /// The declared family of a sample, its type, and the suffix.
    fn find(&self, name: &'a str) -> (&'a str, Declared, &'a str) {
        let types = |name: &str| self.declared.get(name).and_then(|declaration| declaration.kind);
        let own = types(name);
        if let Some(kind) = own {
            return (name, kind, "");
        }
        for (at, _) in name.rmatch_indices('_') {
            let (base, suffix) = name.split_at(at);
            if let Some(kind) = types(base)
                && kind.suffixes(self.dialect).contains(&suffix)
            {
                return (base, kind, suffix);
            }
        }
        (name, Declared::Unknown, "")
    }

    fn sample(&mut self, name: &'a str, labels: &[(&'a str, Cow<'a, str>)], value: f64) {
        let (base, declared, suffix) = self.find(name);
        let part = match (declared, suffix) {
            (Declared::Summary, _) => {
                if !self.summaries.iter().any(|known| known == base) {
                    self.summaries.push(base.to_owned());
                }
                return;
            }
            (Declared::Histogram, "_bucket") => Part::Bucket,
            (Declared::Histogram, "_count") => Part::Count,
            (Declared::Histogram, "_sum") => Part::Sum,
            // A number under the bare name of a histogram means nothing.
            (Declared::Histogram | Declared::Left, _) => return,
            (Declared::Counter | Declared::Gauge | Declared::Info | Declared::Unknown, _) => Part::Number,
        };
        let family = match declared {
            Declared::Counter => base.strip_suffix("_total").unwrap_or(base),
            Declared::Info => name,
            _ => base,
        };
        if name.ends_with("_created") || is_about_time(family) {
            return;
        }
        let help = self.declared.get(base).map(|declaration| declaration.help.clone()).unwrap_or_default();
        let place = self.family(family, declared.kind(), &help);
        let Some(place) = place else { return };
        let finite = value.is_finite();
        if !finite && !self.not_finite.iter().any(|known| known == name) {
            self.not_finite.push(name.to_owned());
        }
        if let Some(family) = self.families.get_mut(place) {
            family.take(part, labels, value);
        }
    }

    /// Where the family stands; absent when the page uses its name for another type.
    fn family(&mut self, name: &str, kind: Kind, help: &str) -> Option<usize> {
        if let Some(&place) = self.places.get(name) {
            return self.families.get(place).filter(|family| family.kind == kind).map(|_| place);
        }
        let place = self.families.len();
        self.places.insert(name.to_owned(), place);
        self.families.push(Gathering {
            name: name.to_owned(),
            kind,
            help: help.to_owned(),
            samples: Vec::new(),
            places: HashMap::new(),
            broken: Vec::new(),
        });
        Some(place)
    }

    fn finish(self) -> Exposition {
        let families = self.families.into_iter().filter_map(|family| {
            let Gathering { name, kind, help, mut samples, broken, .. } = family;
            samples.retain(|sample| !broken.contains(&sample.labels));
            (!samples.is_empty()).then_some(Family { name, kind, help, samples })
        });
        Exposition { families: families.collect(), not_finite: self.not_finite, summaries: self.summaries }
    }
}

impl Gathering {
    fn take(&mut self, part: Part, labels: &[(&str, Cow<'_, str>)], value: f64) {
        let mut pairs = Vec::with_capacity(labels.len());
        let mut bound = None;
        for (name, value) in labels {
            if matches!(part, Part::Bucket) && *name == "le" {
                bound = Some(value.as_ref());
            } else {
                pairs.push(((*name).to_owned(), value.as_ref().to_owned()));
            }
        }
        let labels = Labels::new(pairs);
        if !value.is_finite() {
            if self.kind == Kind::Histogram {
                self.broken.push(labels);
            }
            return;
        }
        let place = self.places.get(&labels).copied().unwrap_or_else(|| {
            let place = self.samples.len();
            let value = match part {
                Part::Number => Value::Number(value),
                Part::Bucket | Part::Count | Part::Sum => Value::Histogram(Histogram::default()),
            };
            self.places.insert(labels.clone(), place);
            self.samples.push(Sample { labels, value });
            place
        });
        let Some(sample) = self.samples.get_mut(place) else { return };
        match (part, &mut sample.value) {
            (Part::Number, Value::Number(number)) => *number = value,
            (Part::Count, Value::Histogram(histogram)) => histogram.count = Some(value),
            (Part::Sum, Value::Histogram(histogram)) => histogram.sum = Some(value),
            (Part::Bucket, Value::Histogram(histogram)) => {
                // A bucket without a bound counts nothing that could be named.
                let Some(bound) = bound else { return };
                match histogram.buckets.iter_mut().find(|(known, _)| known == bound) {
                    Some((_, count)) => *count = value,
                    None => histogram.buckets.push((bound.to_owned(), value)),
                }
            }
            // The kind of a family never changes.
            (Part::Number, Value::Histogram(_))
            | (Part::Bucket | Part::Count | Part::Sum, Value::Number(_)) => {}
        }
    }
}

/// Families that only say since when something runs.
fn is_about_time(name: &str) -> bool {
    name.ends_with("_created") || name.ends_with("_uptime") || name.contains("_uptime_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, dialect: Dialect) -> Vec<(String, Kind, usize)> {
        let read = read(text, dialect).map(|page| page.families).unwrap_or_default();
        read.into_iter().map(|family| (family.name, family.kind, family.samples.len())).collect()
    }

    #[test]
    fn label_sets_without_a_type_are_all_kept() {
        assert_eq!(names("a 3\na{x=\"1\"} 4\n", Dialect::Classic), [("a".to_owned(), Kind::Unknown, 2)]);
    }

    #[test]
    fn types_of_openmetrics_without_an_equal_do_not_cost_the_page() {
        let page = "# TYPE b info\nb_info{v=\"1\"} 1\n# TYPE st stateset\nst{st=\"a\"} 1\n\
                    # TYPE gh gaugehistogram\ngh_bucket{le=\"+Inf\"} 1\ngh_gcount 1\n# TYPE c counter\nc_total 2\n# EOF\n";
        let expected = [
            ("b_info".to_owned(), Kind::Gauge, 1),
            ("st".to_owned(), Kind::Gauge, 1),
            ("c".to_owned(), Kind::Counter, 1),
        ];
        assert_eq!(names(page, Dialect::OpenMetrics), expected);
    }

    #[test]
    fn families_that_are_declared_twice_are_one() {
        let page = "# TYPE g gauge\ng{a=\"1\"} 1\n# TYPE g gauge\ng{a=\"2\"} 2\n";
        assert_eq!(names(page, Dialect::Classic), [("g".to_owned(), Kind::Gauge, 2)]);
    }

    #[test]
    fn a_summary_is_named_and_left_out() {
        let page = read("# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\ns_count 2\n", Dialect::Classic);
        let page = page.unwrap_or_default();
        assert_eq!(page.families, []);
        assert_eq!(page.summaries, ["s"]);
    }

    #[test]
    fn what_is_not_finite_is_named_once() {
        let page = read("# TYPE g gauge\ng NaN\ng{a=\"1\"} +Inf\ng{a=\"2\"} 1\n", Dialect::Classic);
        let page = page.unwrap_or_default();
        assert_eq!(page.not_finite, ["g"]);
        assert_eq!(page.families.first().map(|family| family.samples.len()), Some(1));
    }
}
