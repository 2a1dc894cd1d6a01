//! Reading one mapping key by key.
//!
//! A section asks for each key it knows by its name in `snake_case`; the `camelCase` spelling is understood
//! everywhere. Names, bounds and whether null counts as unset are thereby said once, where the key is asked
//! for. What is asked for is known: the rest is unknown, and the nearest known name is offered. Faults are
//! collected, never returned, so that all of a file are found in one pass.

mod key;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::lax;
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value, shown};

pub use key::{Bound, Key, Spelling, Words};

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

    /// Whether the user wrote nothing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// One mapping under reading.
pub struct Keys<'a> {
    entries: &'a [Entry],
    path: String,
    place: Span,
    taken: Vec<bool>,
    known: Vec<&'static str>,
    faults: &'a mut Vec<Diagnostic>,
}

impl<'a> Keys<'a> {
    /// Opens `node`, whose dotted path is `path`; `place` is where a missing key is reported. Absent, with a
    /// fault, when it is no mapping.
    pub fn open(node: &'a Node, path: &str, place: Span, faults: &'a mut Vec<Diagnostic>) -> Option<Self> {
        let Value::Mapping(entries) = &node.value else {
            faults.push(mismatch(path, "a mapping", node, &place));
            return None;
        };
        let (path, taken) = (path.to_owned(), vec![false; entries.len()]);
        Some(Self { entries, path, place, taken, known: Vec::new(), faults })
    }

    /// The dotted path of this mapping, empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where this mapping stands, as far as one place can say.
    pub fn place(&self) -> Span {
        self.place.clone()
    }

    /// Adds a fault found by the section itself.
    pub fn fault(&mut self, fault: Diagnostic) {
        self.faults.push(fault);
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
        if let (Some(snake), Some(camel_entry), true) =
            (snake_at.and_then(|at| self.entries.get(at)), entry, camel != name && camel_at.is_some())
        {
            self.faults.push(
                Diagnostic::error(format!(
                    "`{}` and `{camel}` are two spellings of one key",
                    join(&self.path, name)
                ))
                .at(snake.key_span.clone(), "second spelling")
                .with_context(camel_entry.key_span.clone(), "the other one")
                .with_help("keep one of the two"),
            );
        }
        let path = join(&self.path, entry.map_or(name, |entry| entry.key.as_str()));
        Key { entry, path, faults: self.faults }
    }

    /// Refuses each of `names` that is written: AIPerf knows it, phasor does not yet. Null counts as unset.
    /// Says whether there was one.
    pub fn not_yet(&mut self, names: &[&'static str]) -> bool {
        let mut refused = false;
        for name in names {
            let key = self.key(name).or_null();
            if let Some(entry) = key.entry {
                key.faults.push(not_yet(&key.path, &entry.key_span));
                refused = true;
            }
        }
        refused
    }

    /// As [`Keys::not_yet`], but `false` is what phasor does anyway and passes.
    pub fn not_yet_unless_false(&mut self, names: &[&'static str]) {
        for name in names {
            let key = self.key(name).or_null();
            let Some(entry) = key.entry else { continue };
            let Value::Scalar(scalar) = &entry.node.value else {
                key.faults.push(not_yet(&key.path, &entry.key_span));
                continue;
            };
            match lax::switch(scalar) {
                Some(false) => {}
                Some(true) => key.faults.push(not_yet(&key.path, &entry.key_span)),
                None => key.faults.push(mismatch(&key.path, "true or false", &entry.node, &entry.key_span)),
            }
        }
    }

    /// Refuses each of `names` that is written: it belongs to phases of other types than `own`.
    pub fn foreign(&mut self, names: &[&'static str], own: &str) {
        for name in names {
            let key = self.key(name);
            if let Some(entry) = key.entry {
                key.faults.push(
                    Diagnostic::error(format!("`{}` is not a key of a phase of type `{own}`", key.path))
                        .at(entry.key_span.clone(), format!("not with `type: {own}`"))
                        .with_help("take it out, or change the phase's type"),
                );
            }
        }
        // They are no suggestions for misspelt keys.
        self.known.retain(|known| !names.contains(known));
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
        let Key { entry: Some(entry), path, faults } = self.key(name) else { return Written::Absent };
        let place = value_place(entry);
        let Value::Sequence(items) = &entry.node.value else {
            faults.push(mismatch(&path, expected, &entry.node, &place));
            return Written::Faulty;
        };
        if items.is_empty() {
            faults.push(
                Diagnostic::error(format!("`{path}` must be {expected}, found an empty list"))
                    .at(place, "nothing in it"),
            );
            return Written::Faulty;
        }
        let mut read = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let item_place = if item.span.is_empty() { place.clone() } else { item.span.clone() };
            if let Some(keys) = Keys::open(item, &format!("{path}.{position}"), item_place, faults) {
                read.push(section(keys));
            }
        }
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
                self.faults.push(
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
        let Key { entry: Some(entry), path, faults } = self.key(name) else { return Written::Absent };
        let place = value_place(entry);
        let items = match &entry.node.value {
            Value::Sequence(items) if !items.is_empty() => items,
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
                faults.push(mismatch(&path, "a list of texts", &entry.node, &place));
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
                    faults.push(mismatch(&format!("{path}.{position}"), "text", item, &place));
                }
            }
        }
        if texts.len() < items.len() {
            return Written::Faulty;
        }
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
            self.faults.push(match nearest(&entry.key, self.known.iter().copied()) {
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

/// The fault of a key that AIPerf knows and phasor does not yet.
pub fn not_yet(path: &str, place: &Span) -> Diagnostic {
    Diagnostic::error(format!("`{path}` is known to AIPerf, phasor does not support it yet"))
        .at(place.clone(), "not supported yet")
        .with_help("remove it")
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
fn camel_case(name: &str) -> String {
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
fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
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
        let mut faults = Vec::new();
        let read = {
            let mut keys = Keys::open(&root, "", 0..0, &mut faults).unwrap_or_else(|| panic!("no mapping"));
            let read = section(&mut keys);
            keys.finish();
            read
        };
        (read, faults.into_iter().map(|fault| fault.message).collect())
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
            keys.not_yet(&["sessions"]);
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

    #[test]
    fn what_is_switched_off_passes_where_phasor_cannot_switch_it_on() {
        let ((), faults) = reading("a: false\nb: true\nc: [1]\nd: maybe", |keys| {
            keys.not_yet_unless_false(&["a", "b", "c", "d"]);
        });
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
