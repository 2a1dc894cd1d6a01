//! Reading the value of one key: its type, its bounds, its words.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Keys, Spanned, Written, alternatives, mismatch, nearest, value_place};
use crate::config::lax;
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value};

/// What a number may be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// More than zero, but no infinity.
    PositiveFinite,
    /// Within these, ends included.
    Within(f64, f64),
}

impl Bound {
    fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::Above(limit) => value > limit,
            Self::PositiveFinite => value > 0.0 && value.is_finite(),
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }

    fn described(self) -> String {
        match self {
            Self::AtLeast(least) => format!("of at least {least}"),
            Self::Above(limit) => format!("above {limit}"),
            Self::PositiveFinite => "above 0 and finite".to_owned(),
            Self::Within(least, most) => format!("from {least} to {most}"),
        }
    }
}

/// The words that a key may have.
#[derive(Clone, Copy, Debug)]
pub struct Words<T: 'static> {
    /// Words and what they mean.
    pub known: &'static [(&'static str, T)],
    /// Words that AIPerf takes and phasor does not yet.
    pub not_yet: &'static [&'static str],
    /// How closely a word must be met.
    pub spelling: Spelling,
}

/// How closely a word must be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Letter by letter.
    Exact,
    /// In any case, with `-` and `_` equal.
    Lenient,
}

/// One key that was asked for, not yet read.
pub struct Key<'a, 'f> {
    pub(super) entry: Option<&'a Entry>,
    pub(super) path: String,
    pub(super) faults: &'f mut Vec<Diagnostic>,
}

impl<'a> Key<'a, '_> {
    /// The same, with null meaning unset.
    pub fn or_null(self) -> Self {
        Self { entry: self.entry.filter(|entry| !entry.node.is_null()), ..self }
    }

    /// The value as it stands in the tree, with the dotted path of its key.
    pub fn node(self) -> Written<(&'a Node, String)> {
        let path = self.path.clone();
        self.read(|node| Ok((node, path)))
    }

    /// A text, one character at least.
    pub fn text(self) -> Written<String> {
        self.read(|node| match &node.value {
            Value::Scalar(Scalar::Text(text)) if text.is_empty() => {
                Err("a text that is not empty".to_owned())
            }
            Value::Scalar(Scalar::Text(text)) => Ok(text.clone()),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => Err("text".to_owned()),
        })
    }

    /// A text that may be empty.
    pub fn text_or_empty(self) -> Written<String> {
        self.read(|node| match &node.value {
            Value::Scalar(Scalar::Text(text)) => Ok(text.clone()),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => Err("text".to_owned()),
        })
    }

    /// A whole number within `range`.
    pub fn whole<T>(self, range: RangeInclusive<T>) -> Written<T>
    where
        T: Copy + Display + PartialOrd + TryFrom<i128> + Into<i128>,
    {
        self.read(|node| {
            let (least, most) = (*range.start(), *range.end());
            let value = scalar_of(node).and_then(lax::whole);
            let value = value.ok_or_else(|| format!("a whole number of at least {least}"))?;
            if value < least.into() {
                return Err(format!("a whole number of at least {least}"));
            }
            T::try_from(value)
                .ok()
                .filter(|value| range.contains(value))
                .ok_or_else(|| format!("a whole number of at most {most}"))
        })
    }

    /// A number within `bound`; infinity passes where there is no upper bound.
    pub fn number(self, bound: Bound) -> Written<f64> {
        self.read(|node| {
            scalar_of(node)
                .and_then(lax::number)
                .filter(|value| bound.admits(*value))
                .ok_or_else(|| format!("a number {}", bound.described()))
        })
    }

    /// A number of seconds within `bound`, without a unit.
    pub fn seconds(self, bound: Bound) -> Written<f64> {
        self.read(|node| {
            scalar_of(node)
                .and_then(lax::number)
                .filter(|value| bound.admits(*value))
                .ok_or_else(|| format!("a number of seconds {} without a unit", bound.described()))
        })
    }

    /// A duration within `bound`, in seconds.
    pub fn duration_s(self, bound: Bound) -> Written<f64> {
        self.read(|node| {
            scalar_of(node).and_then(lax::duration_s).filter(|value| bound.admits(*value)).ok_or_else(|| {
                format!(
                    "a duration {}: seconds (90) or a number with a unit (90s, 5m, 1.5h)",
                    bound.described()
                )
            })
        })
    }

    /// A boolean.
    pub fn switch(self) -> Written<bool> {
        self.read(|node| scalar_of(node).and_then(lax::switch).ok_or_else(|| "true or false".to_owned()))
    }

    /// One of `words`.
    pub fn word<T: Copy>(self, words: Words<T>) -> Written<T> {
        let spelled = |word: &str| match words.spelling {
            Spelling::Exact => word.to_owned(),
            Spelling::Lenient => word.to_ascii_lowercase().replace('-', "_"),
        };
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        let text = match &entry.node.value {
            Value::Scalar(Scalar::Text(text)) => text.as_str(),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => "",
        };
        if let Some((_, value)) = words.known.iter().find(|(word, _)| spelled(word) == spelled(text)) {
            return Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: *value });
        }
        let choices = alternatives(words.known.iter().map(|(word, _)| *word));
        self.faults.push(if words.not_yet.iter().any(|word| spelled(word) == spelled(text)) {
            Diagnostic::error(format!(
                "`{}: {text}` is known to AIPerf, phasor does not support it yet",
                self.path
            ))
            .at(place, "not supported yet")
            .with_help(format!("write {choices}"))
        } else {
            let is_number = matches!(entry.node.value, Value::Scalar(Scalar::Integer(_) | Scalar::Float(_)));
            let expected = if is_number { format!("the text {choices}") } else { choices.clone() };
            let fault = mismatch(&self.path, &expected, &entry.node, &place);
            let all = words.known.iter().map(|(word, _)| *word).chain(words.not_yet.iter().copied());
            match nearest(text, all) {
                Some(word) => fault.with_help(format!("did you mean `{word}`?")),
                None if is_number => fault.with_help("put it in quotes"),
                None => fault,
            }
        });
        Written::Faulty
    }

    /// A mapping, read by `section`.
    pub fn section<T>(self, section: impl FnOnce(Keys<'_>) -> T) -> Written<T> {
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        match Keys::open(&entry.node, &self.path, entry.key_span.clone(), self.faults) {
            Some(keys) => {
                Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: section(keys) })
            }
            None => Written::Faulty,
        }
    }

    /// Reads the value; what `convert` gives as error is what was expected.
    fn read<T>(self, convert: impl FnOnce(&'a Node) -> Result<T, String>) -> Written<T> {
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        match convert(&entry.node) {
            Ok(value) => Written::Present(Spanned { key: entry.key_span.clone(), span: place, value }),
            Err(expected) => {
                self.faults.push(mismatch(&self.path, &expected, &entry.node, &place));
                Written::Faulty
            }
        }
    }
}

fn scalar_of(node: &Node) -> Option<&Scalar> {
    match &node.value {
        Value::Scalar(scalar) => Some(scalar),
        Value::Sequence(_) | Value::Mapping(_) => None,
    }
}
