//! Reading one mapping key by key.
//!
//! A section asks for each key it knows by its name in `snake_case`; the `camelCase` spelling is understood
//! everywhere. Names, bounds and whether null counts as unset are thereby said once, where the key is asked
//! for. What is asked for is known: the rest is unknown, and the nearest known name is offered. Faults are
//! collected, never returned, so that all of a file are found in one pass.

mod asked;
mod key;

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value, shown};

pub use asked::Asked;
pub use key::{Bound, Key, Spelling, Words, json_of};

/// A value that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Written<T> {
    /// The key is not there, or is null where null means unset.
    Absent,
    /// The key is there, but its value is not usable; the fault is reported already.
    Faulty,
    /// The key is there.
    Present(Spanned<T>),
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Spanned<T> {
    /// Where its key stands.
    pub key: Span,
    /// Where the value stands; the key's place for a value without text.
    pub span: Span,
    /// The value.
    pub value: T,
}

impl<T> Written<T> {
    /// The value when it is there and good.
    pub fn value(&self) -> Option<&T> {
        self.present().map(|present| &present.value)
    }

    /// The value with its place when it is there and good.
    pub fn present(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Present(present) => Some(present),
            Self::Absent | Self::Faulty => None,
        }
    }

    /// The value, or `default` when there is none; a faulty value keeps the whole config from being used.
    pub fn or(self, default: T) -> T {
        self.optional().unwrap_or(default)
    }

    /// The value, or the type's default when there is none.
    pub fn or_default(self) -> T
    where
        T: Default,
    {
        self.optional().unwrap_or_default()
    }

    /// The value, if there is a good one; a faulty value keeps the whole config from being used.
    pub fn optional(self) -> Option<T> {
        match self {
            Self::Present(present) => Some(present.value),
            Self::Absent | Self::Faulty => None,
        }
    }

    /// The same with another value made of a good one.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Written<U> {
        match self {
            Self::Absent => Written::Absent,
            Self::Faulty => Written::Faulty,
            Self::Present(Spanned { key, span, value }) => {
                Written::Present(Spanned { key, span, value: convert(value) })
            }
        }
    }

    /// Whether the user wrote nothing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// What is gathered while a tree is read.
#[derive(Debug, Default)]
pub struct Reading {
    /// Faults and doubts.
    pub faults: Vec<Diagnostic>,
    /// Where each field stands, by dotted path in `snake_case`.
    pub spans: HashMap<String, Span>,
    /// Keys that are harmless and do nothing here, with the reason's group.
    pub unused: Vec<(String, Span)>,
    /// Where relative paths start; empty is the working directory.
    pub directory: PathBuf,
    /// The normal form of the mapping that was finished last.
    form: Option<Map<String, Json>>,
    /// What is asked for, by dotted path in `snake_case`, while a tree is read to learn just that.
    asked: Option<Vec<(String, Asked)>>,
}

/// Stands for a mapping that is not written while what would be asked of it is learnt.
static EMPTY: Node = Node { span: 0..0, value: Value::Mapping(Vec::new()) };

impl Reading {
    /// Nothing read yet, with relative paths starting at `directory`.
    pub fn within(directory: PathBuf) -> Self {
        Self { directory, ..Self::default() }
    }

    /// Nothing read yet; what the sections ask for is written down, also below keys that are not there.
    pub fn learning() -> Self {
        Self { asked: Some(Vec::new()), ..Self::default() }
    }

    /// What was asked for, in order, each with its dotted path.
    pub fn into_asked(self) -> Vec<(String, Asked)> {
        self.asked.unwrap_or_default()
    }

    /// Writes down that `asked` was asked of the value at `plain_path`.
    fn note(&mut self, plain_path: &str, asked: impl FnOnce() -> Asked) {
        if let Some(all) = &mut self.asked {
            all.push((plain_path.to_owned(), asked()));
        }
    }

    /// Takes the normal form of the mapping that was finished last.
    pub fn take_form(&mut self) -> Option<Map<String, Json>> {
        self.form.take()
    }
}

/// One mapping under reading.
pub struct Keys<'a> {
    entries: &'a [Entry],
    path: String,
    plain_path: String,
    place: Span,
    taken: Vec<bool>,
    known: Vec<&'static str>,
    form: Map<String, Json>,
    reading: &'a mut Reading,
}

impl<'a> Keys<'a> {
    /// Opens `node`, whose dotted path is `path` as spelled and `plain_path` in `snake_case`; `place` is
    /// where a missing key is reported. Absent, with a fault, when it is no mapping.
    pub fn open(
        node: &'a Node,
        path: &str,
        plain_path: &str,
        place: Span,
        reading: &'a mut Reading,
    ) -> Option<Self> {
        reading.form = None;
        let Value::Mapping(entries) = &node.value else {
            reading.faults.push(mismatch(path, "a mapping", node, &place));
            return None;
        };
        Some(Self {
            entries,
            path: path.to_owned(),
            plain_path: plain_path.to_owned(),
            place,
            taken: vec![false; entries.len()],
            known: Vec::new(),
            form: Map::new(),
            reading,
        })
    }

    /// The dotted path of this mapping, empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where this mapping stands, as far as one place can say.
    pub fn place(&self) -> Span {
        self.place.clone()
    }

    /// Where the field at the dotted path `below` this mapping stands, or this mapping.
    pub fn place_of(&self, below: &str) -> Span {
        self.reading.spans.get(&join(&self.plain_path, below)).cloned().unwrap_or_else(|| self.place())
    }

    /// Adds a fault found by the section itself.
    pub fn fault(&mut self, fault: Diagnostic) {
        self.reading.faults.push(fault);
    }

    /// How many faults there are so far.
    pub fn faults(&self) -> usize {
        self.reading.faults.len()
    }

    /// The path from which relative paths start.
    pub fn directory(&self) -> PathBuf {
        self.reading.directory.clone()
    }

    /// Sets a member of the normal form that was not written, or not in this shape.
    pub fn set_form(&mut self, name: &str, value: Json) {
        self.form.insert(name.to_owned(), value);
    }

    /// Whether anything of this mapping was set.
    pub fn is_unset(&self) -> bool {
        self.form.is_empty()
    }

    /// Adds `fault` at the key or value `written`, or at the mapping when that is absent.
    pub fn fault_at<T>(&mut self, written: &Written<T>, message: String, label: &str, help: &str) {
        let place = written.present().map_or_else(|| self.place(), |present| present.span.clone());
        self.fault(Diagnostic::error(message).at(place, label).with_help(help));
    }

    /// Whether `name` is written, in either spelling.
    pub fn has(&self, name: &str) -> bool {
        let camel = camel_case(name);
        self.entries.iter().any(|entry| entry.key == name || entry.key == camel)
    }

    /// Takes the key `name` (in `snake_case`).
    pub fn key(&mut self, name: &'static str) -> Key<'a, '_> {
        self.known.push(name);
        let camel = camel_case(name);
        let found = |key: &str| self.entries.iter().position(|entry| entry.key == key);
        let (snake_at, camel_at) = (found(name), found(&camel));
        for at in [snake_at, camel_at].into_iter().flatten() {
            if let Some(taken) = self.taken.get_mut(at) {
                *taken = true;
            }
        }
        let entry = camel_at.or(snake_at).and_then(|at| self.entries.get(at));
        let plain_path = join(&self.plain_path, name);
        if let Some(entry) = entry {
            self.reading.spans.insert(plain_path.clone(), value_place(entry));
        }
        if let (Some(snake), Some(camel_entry), true) =
            (snake_at.and_then(|at| self.entries.get(at)), entry, camel != name && camel_at.is_some())
        {
            self.reading.faults.push(
                Diagnostic::error(format!(
                    "`{}` and `{camel}` are two spellings of one key",
                    join(&self.path, name)
                ))
                .at(snake.key_span.clone(), "second spelling")
                .with_context(camel_entry.key_span.clone(), "the other one")
                .with_help("keep one of the two"),
            );
        }
        self.reading.note(&plain_path, || Asked::Value);
        let path = join(&self.path, entry.map_or(name, |entry| entry.key.as_str()));
        Key { entry, name, path, plain_path, form: &mut self.form, reading: self.reading }
    }

    /// Takes each of `names` whatever it holds: it belongs to a part of AIPerf that phasor does not have and
    /// that does not touch the load.
    pub fn unused(&mut self, names: &[&'static str]) {
        for name in names {
            let Key { entry, path, reading, .. } = self.key(name);
            let harmless = |entry: &&Entry| !entry.node.is_null();
            if let Some(entry) = entry.filter(harmless) {
                reading.unused.push((path, entry.key_span.clone()));
            }
        }
    }

    /// Refuses each of `names` that is written: it belongs to phases of other types than `own`.
    pub fn foreign(&mut self, names: &[&'static str], own: &str) {
        for name in names {
            let key = self.key(name);
            if let Some(entry) = key.entry {
                key.reading.faults.push(
                    Diagnostic::error(format!("`{}` is not a key of a phase of type `{own}`", key.path))
                        .at(entry.key_span.clone(), format!("not with `type: {own}`"))
                        .with_help("take it out, or change the phase's type"),
                );
            }
        }
        // They are no suggestions for misspelt keys.
        self.known.retain(|known| !names.contains(known));
    }

    /// Writes down that the value of `name` is a distribution.
    pub fn note_distribution(&mut self, name: &str) {
        self.reading.note(&join(&self.plain_path, name), || Asked::Distribution);
    }

    /// Takes every key as it stands, whatever it is.
    pub fn pass(mut self) {
        self.reading.note(&self.plain_path, || Asked::Open);
        for entry in self.entries {
            self.form.insert(entry.key.clone(), json_of(&entry.node));
        }
        self.forgive();
        self.finish();
    }

    /// Lets pass whatever was not asked for.
    pub fn forgive(&mut self) {
        self.taken.fill(true);
    }

    /// Takes the list of mappings `name` and reads each by `section`.
    pub fn items<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        mut section: impl FnMut(Keys<'_>) -> T,
    ) -> Written<Vec<T>> {
        let Key { entry, path, plain_path, form, reading, .. } = self.key(name);
        reading.note(&plain_path, || Asked::Items);
        let Some(entry) = entry else {
            if reading.asked.is_some() {
                Keys::open(&EMPTY, &path, &format!("{plain_path}.0"), 0..0, reading).map(section);
            }
            return Written::Absent;
        };
        let place = value_place(entry);
        let Value::Sequence(items) = &entry.node.value else {
            reading.faults.push(mismatch(&path, expected, &entry.node, &place));
            return Written::Faulty;
        };
        if items.is_empty() {
            reading.faults.push(
                Diagnostic::error(format!("`{path}` must be {expected}, found an empty list"))
                    .at(place, "nothing in it"),
            );
            return Written::Faulty;
        }
        let (mut read, mut forms) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (position, item) in items.iter().enumerate() {
            let item_place = if item.span.is_empty() { place.clone() } else { item.span.clone() };
            let (path, plain_path) = (format!("{path}.{position}"), format!("{plain_path}.{position}"));
            reading.spans.insert(plain_path.clone(), item_place.clone());
            if let Some(keys) = Keys::open(item, &path, &plain_path, item_place, reading) {
                read.push(section(keys));
                forms.push(Json::Object(reading.take_form().unwrap_or_default()));
            }
        }
        form.insert(name.to_owned(), forms.into());
        if read.len() < items.len() {
            return Written::Faulty;
        }
        Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: read })
    }

    /// Takes the list `name`, which must hold exactly one mapping.
    pub fn only_item<T>(&mut self, name: &'static str, section: impl FnMut(Keys<'_>) -> T) -> Written<T> {
        match self.items(name, "a list of one mapping", section) {
            Written::Present(Spanned { key, span, mut value }) => {
                if let (Some(value), true) = (value.pop(), value.is_empty()) {
                    return Written::Present(Spanned { key, span, value });
                }
                let path = join(&self.path, name);
                self.reading.faults.push(
                    Diagnostic::error(format!("`{path}` must be a list of one mapping, found several"))
                        .at(span, "more than one")
                        .with_help("keep one"),
                );
                Written::Faulty
            }
            Written::Absent => Written::Absent,
            Written::Faulty => Written::Faulty,
        }
    }

    /// Takes the list of texts `name`.
    pub fn texts(&mut self, name: &'static str) -> Written<Vec<Spanned<String>>> {
        let Key { entry, path, plain_path, form, reading, .. } = self.key(name);
        reading.note(&plain_path, || Asked::Texts);
        let Some(entry) = entry else { return Written::Absent };
        let place = value_place(entry);
        let items = match &entry.node.value {
            Value::Sequence(items) if !items.is_empty() => items,
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
                reading.faults.push(mismatch(&path, "a list of texts", &entry.node, &place));
                return Written::Faulty;
            }
        };
        let mut texts = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            match &item.value {
                Value::Scalar(Scalar::Text(text)) => texts.push(Spanned {
                    key: entry.key_span.clone(),
                    span: if item.span.is_empty() { place.clone() } else { item.span.clone() },
                    value: text.clone(),
                }),
                Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
                    reading.faults.push(mismatch(&format!("{path}.{position}"), "text", item, &place));
                }
            }
        }
        if texts.len() < items.len() {
            return Written::Faulty;
        }
        let values: Vec<Json> = texts.iter().map(|text| Json::from(text.value.as_str())).collect();
        form.insert(name.to_owned(), values.into());
        Written::Present(Spanned { key: entry.key_span.clone(), span: place, value: texts })
    }

    /// Reports every key that nobody asked for.
    pub fn finish(self) {
        for (entry, _) in self.entries.iter().zip(&self.taken).filter(|(_, taken)| !**taken) {
            let path = join(&self.path, &shown(&entry.key));
            let fault = Diagnostic::error(format!("unknown key `{path}`"));
            let spelled = |name: &str| {
                if entry.key.contains(char::is_uppercase) { camel_case(name) } else { name.to_owned() }
            };
            self.reading.faults.push(match nearest(&entry.key, self.known.iter().copied()) {
                Some(name) => {
                    let name = spelled(name);
                    fault
                        .at(entry.key_span.clone(), format!("did you mean `{name}`?"))
                        .with_help(format!("write `{name}`, or take the key out"))
                }
                None => {
                    fault.at(entry.key_span.clone(), "not a key of this mapping").with_help("take it out")
                }
            });
        }
        self.reading.form = Some(self.form);
    }
}

/// Where the value of `entry` stands, or its key when nothing is written behind it.
pub fn value_place(entry: &Entry) -> Span {
    if entry.node.span.is_empty() { entry.key_span.clone() } else { entry.node.span.clone() }
}

/// The fault of a value that is not what it should be.
pub fn mismatch(path: &str, expected: &str, node: &Node, place: &Span) -> Diagnostic {
    let place = if node.span.is_empty() { place.clone() } else { node.span.clone() };
    let subject = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
    Diagnostic::error(format!("{subject} must be {expected}, found {}", node.described()))
        .at(place, format!("must be {}", expected.split(": ").next().unwrap_or(expected)))
}

/// `a`, `b` or `c`.
pub fn alternatives<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut quoted: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    let last = quoted.pop().unwrap_or_default();
    if quoted.is_empty() { last } else { format!("{} or {last}", quoted.join(", ")) }
}

/// `path.key`, or `key` at the root.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The `camelCase` spelling of a `snake_case` name.
pub fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
        camel
    })
}

/// The known name that `written` resembles, if any does.
pub fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const LIKENESS_MIN: f64 = 0.6;
    // A long key resembles nothing, and the comparison takes quadratic time.
    const LENGTH_MAX: usize = 64;
    if written.is_empty() || written.len() > LENGTH_MAX {
        return None;
    }
    let bare = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(&bare(written), &bare(name)), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source;

    fn reading<T>(text: &str, section: impl FnOnce(&mut Keys<'_>) -> T) -> (T, Vec<String>) {
        let root = source::read(text).unwrap_or_else(|faults| panic!("{faults:?}"));
        let mut reading = Reading::default();
        let read = {
            let mut keys =
                Keys::open(&root, "", "", 0..0, &mut reading).unwrap_or_else(|| panic!("no mapping"));
            let read = section(&mut keys);
            keys.finish();
            read
        };
        (read, reading.faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn both_spellings_of_a_key_are_understood() {
        for text in ["grace_period: 5", "gracePeriod: 5"] {
            let (read, faults) =
                reading(text, |keys| keys.key("grace_period").duration_s(Bound::AtLeast(0.0)));
            assert_eq!((read.value(), faults), (Some(&5.0), Vec::new()), "{text}");
        }
        let text = "grace_period: 1\ngracePeriod: 5";
        let (read, faults) = reading(text, |keys| keys.key("grace_period").duration_s(Bound::AtLeast(0.0)));
        assert_eq!((read.value(), faults.len()), (Some(&5.0), 1));
    }

    #[test]
    fn an_unknown_key_is_met_with_the_nearest_known_one() {
        let (_, faults) = reading("requestz: 5\nzzzz: 1", |keys| {
            keys.key("sessions");
            keys.key("requests").whole(1..=9_u32)
        });
        assert_eq!(faults, ["unknown key `requestz`", "unknown key `zzzz`"]);
        assert_eq!(nearest("Requestz", ["sessions", "requests"].into_iter()), Some("requests"));
    }

    #[test]
    fn a_faulty_value_is_neither_absent_nor_there() {
        let (read, faults) = reading("requests: 0", |keys| keys.key("requests").whole(1..=9_u32));
        assert_eq!((read, faults.len()), (Written::Faulty, 1));
    }

    #[test]
    fn null_is_unset_only_where_it_is_said() {
        let (read, faults) = reading("a: null", |keys| keys.key("a").or_null().switch());
        assert_eq!((read, faults.len()), (Written::Absent, 0));
        let (read, faults) = reading("a: null", |keys| keys.key("a").switch());
        assert_eq!((read, faults.len()), (Written::Faulty, 1));
    }
}
