//! Reading the value of one key: its type, its bounds, its words.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::config::keys::{
    Asked, EMPTY, Keys, Reading, Spanned, Written, alternatives, join, mismatch, nearest, value_place,
};
use crate::config::lax;
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value, shown};

/// What a number may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// More than the one and at most the other.
    AboveTo(f64, f64),
    /// Any number at all.
    Any,
    /// More than the one and less than the other.
    Between(f64, f64),
    /// Any number that is no infinity.
    Finite,
    /// More than zero, but no infinity.
    PositiveFinite,
    /// Within these, ends included.
    Within(f64, f64),
}

impl Bound {
    /// Whether `value` keeps it.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::Above(limit) => value > limit,
            Self::AboveTo(low, high) => value > low && value <= high,
            Self::Any => true,
            Self::Between(low, high) => value > low && value < high,
            Self::Finite => value.is_finite(),
            Self::PositiveFinite => value > 0.0 && value.is_finite(),
            Self::Within(least, most) => (least..=most).contains(&value),
        }
    }

    /// The bound in words that follow "a number".
    pub fn described(self) -> String {
        match self {
            Self::AtLeast(least) => format!("of at least {least}"),
            Self::Above(limit) => format!("above {limit}"),
            Self::AboveTo(low, high) => format!("above {low} and at most {high}"),
            Self::Any => "of any size".to_owned(),
            Self::Between(low, high) => format!("above {low} and below {high}"),
            Self::Finite => "that is finite".to_owned(),
            Self::PositiveFinite => "above 0 and finite".to_owned(),
            Self::Within(least, most) => format!("from {least} to {most}"),
        }
    }
}

/// Most choices that are repeated beside the caret.
const CHOICES_SHOWN: usize = 6;

/// The words that a key may have.
#[derive(Clone, Copy, Debug)]
pub struct Words<T: 'static> {
    /// Words and what they mean.
    pub known: &'static [(&'static str, T)],
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
    pub(super) name: &'static str,
    /// Dotted path as spelled.
    pub(super) path: String,
    /// Dotted path in `snake_case`.
    pub(super) plain_path: String,
    pub(super) form: &'f mut Map<String, Json>,
    pub(super) reading: &'f mut Reading,
}

impl<'a> Key<'a, '_> {
    /// The same, with null meaning unset.
    pub fn or_null(self) -> Self {
        self.reading.note(&self.plain_path, || Asked::Null);
        Self { entry: self.entry.filter(|entry| !entry.node.is_null()), ..self }
    }

    /// The key with its value, if it is written.
    pub fn entry(&self) -> Option<&'a Entry> {
        self.entry
    }

    /// Reports that the value is not what was expected.
    pub fn refuse(self, expected: &str) {
        if let Some(entry) = self.entry {
            self.reading.faults.push(mismatch(&self.path, expected, &entry.node, &value_place(entry)));
        }
    }

    /// The value as it stands in the tree, with the dotted path of its key.
    pub fn node(self) -> Written<(&'a Node, String)> {
        let Some(entry) = self.entry else { return Written::Absent };
        let (key, span) = (entry.key_span.clone(), value_place(entry));
        Written::Present(Spanned { key, span, value: (&entry.node, self.path) })
    }

    /// The value as it stands, whatever it is.
    pub fn any(self) -> Written<Json> {
        self.reading.note(&self.plain_path, || Asked::Anything);
        self.read(|node| Ok(json_of(node)))
    }

    /// A mapping from any text to values that `convert` understands; its error is what was expected.
    pub fn free<T>(
        self,
        expected: &str,
        convert: impl Fn(&Node) -> Option<(T, Json)>,
    ) -> Written<Vec<(String, T)>> {
        self.reading.note(&self.plain_path, || Asked::Open);
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        let Value::Mapping(entries) = &entry.node.value else {
            self.reading.faults.push(mismatch(&self.path, "a mapping", &entry.node, &place));
            return Written::Faulty;
        };
        let (mut read, mut form) = (Vec::with_capacity(entries.len()), Map::new());
        for item in entries {
            if let Some((value, json)) = convert(&item.node) {
                form.insert(item.key.clone(), json);
                read.push((item.key.clone(), value));
            } else {
                let path = join(&self.path, &shown(&item.key));
                self.reading.faults.push(mismatch(&path, expected, &item.node, &value_place(item)));
            }
        }
        if read.len() < entries.len() {
            return Written::Faulty;
        }
        self.form.insert(self.name.to_owned(), Json::Object(form));
        Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: read })
    }

    /// A list, or `false` for none of it, whose items `convert` understands.
    pub fn list<T>(self, expected: &str, convert: impl Fn(&Node) -> Option<(T, Json)>) -> Written<Vec<T>> {
        self.reading.note(&self.plain_path, || Asked::List);
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        let Value::Sequence(items) = &entry.node.value else {
            self.reading.faults.push(mismatch(&self.path, expected, &entry.node, &place));
            return Written::Faulty;
        };
        let (mut read, mut form) = (Vec::with_capacity(items.len()), Vec::new());
        for (position, item) in items.iter().enumerate() {
            if let Some((value, json)) = convert(item) {
                form.push(json);
                read.push(value);
            } else {
                let path = format!("{}.{position}", self.path);
                self.reading.faults.push(mismatch(&path, expected, item, &place));
            }
        }
        if read.len() < items.len() {
            return Written::Faulty;
        }
        self.form.insert(self.name.to_owned(), form.into());
        Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: read })
    }

    /// A text, one character at least.
    pub fn text(self) -> Written<String> {
        self.reading.note(&self.plain_path, || Asked::Text);
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
        self.reading.note(&self.plain_path, || Asked::Text);
        self.read(|node| match &node.value {
            Value::Scalar(Scalar::Text(text)) => Ok(text.clone()),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => Err("text".to_owned()),
        })
    }

    /// A whole number within `range`.
    pub fn whole<T>(self, range: RangeInclusive<T>) -> Written<T>
    where
        T: Copy + Display + PartialOrd + TryFrom<i128> + Into<i128> + Serialize,
    {
        self.reading.note(&self.plain_path, || Asked::Whole((*range.start()).into(), (*range.end()).into()));
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
        self.reading.note(&self.plain_path, || Asked::Number(bound));
        self.read(|node| {
            scalar_of(node)
                .and_then(lax::number)
                .filter(|value| bound.admits(*value))
                .ok_or_else(|| format!("a number {}", bound.described()))
        })
    }

    /// A number of seconds within `bound`, without a unit.
    pub fn seconds(self, bound: Bound) -> Written<f64> {
        self.reading.note(&self.plain_path, || Asked::Number(bound));
        self.read(|node| {
            scalar_of(node)
                .and_then(lax::number)
                .filter(|value| bound.admits(*value))
                .ok_or_else(|| format!("a number of seconds {} without a unit", bound.described()))
        })
    }

    /// A duration within `bound`, in seconds.
    pub fn duration_s(self, bound: Bound) -> Written<f64> {
        self.reading.note(&self.plain_path, || Asked::Duration(bound));
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
        self.reading.note(&self.plain_path, || Asked::Switch);
        self.read(|node| scalar_of(node).and_then(lax::switch).ok_or_else(|| "true or false".to_owned()))
    }

    /// One of `words`.
    pub fn word<T: Copy>(self, words: Words<T>) -> Written<T> {
        self.reading
            .note(&self.plain_path, || Asked::Words(words.known.iter().map(|(word, _)| *word).collect()));
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
        if let Some((word, value)) = words.known.iter().find(|(word, _)| spelled(word) == spelled(text)) {
            self.form.insert(self.name.to_owned(), (*word).into());
            return Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: *value });
        }
        let choices = alternatives(words.known.iter().map(|(word, _)| *word));
        self.reading.faults.push({
            let is_number = matches!(entry.node.value, Value::Scalar(Scalar::Integer(_) | Scalar::Float(_)));
            let expected = if is_number { format!("the text {choices}") } else { choices.clone() };
            let mut fault = mismatch(&self.path, &expected, &entry.node, &place);
            if words.known.len() > CHOICES_SHOWN {
                "not one of them".clone_into(&mut fault.label);
            }
            match nearest(text, words.known.iter().map(|(word, _)| *word)) {
                Some(word) => fault.with_help(format!("did you mean `{word}`?")),
                None if is_number => fault.with_help("put it in quotes"),
                None => fault,
            }
        });
        Written::Faulty
    }

    /// A mapping, read by `section`.
    pub fn section<T>(self, section: impl FnOnce(Keys<'_>) -> T) -> Written<T> {
        self.reading.note(&self.plain_path, || Asked::Section);
        let Some(entry) = self.entry else {
            if self.reading.asked.is_some() {
                Keys::open(&EMPTY, &self.path, &self.plain_path, 0..0, self.reading).map(section);
            }
            return Written::Absent;
        };
        let place = value_place(entry);
        let opened =
            Keys::open(&entry.node, &self.path, &self.plain_path, entry.key_span.clone(), self.reading);
        let Some(keys) = opened else { return Written::Faulty };
        let value = section(keys);
        if let Some(form) = self.reading.take_form() {
            self.form.insert(self.name.to_owned(), Json::Object(form));
        }
        Written::Present(Spanned { key: entry.key_span.clone(), span: place, value })
    }

    /// Reads the value; what `convert` gives as error is what was expected.
    fn read<T: Serialize>(self, convert: impl FnOnce(&'a Node) -> Result<T, String>) -> Written<T> {
        let Some(entry) = self.entry else { return Written::Absent };
        let place = value_place(entry);
        match convert(&entry.node) {
            Ok(value) => {
                // JSON has no infinity, which becomes null.
                self.form.insert(self.name.to_owned(), serde_json::to_value(&value).unwrap_or(Json::Null));
                Written::Present(Spanned { key: entry.key_span.clone(), span: place, value })
            }
            Err(expected) => {
                self.reading.faults.push(mismatch(&self.path, &expected, &entry.node, &place));
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

/// The value of `node` as JSON; what JSON has no number for becomes null.
pub fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(Scalar::Null) => Json::Null,
        Value::Scalar(Scalar::Bool(value)) => (*value).into(),
        Value::Scalar(Scalar::Integer(value)) => match i64::try_from(*value) {
            Ok(value) => value.into(),
            Err(_) => Json::from(*value as f64),
        },
        Value::Scalar(Scalar::Float(value)) => Json::from(*value),
        Value::Scalar(Scalar::Date(text) | Scalar::Text(text)) => text.as_str().into(),
        Value::Sequence(items) => items.iter().map(json_of).collect(),
        Value::Mapping(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json_of(&entry.node))).collect()
        }
    }
}
