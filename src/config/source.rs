//! The text of a file and its nodes with their positions.
//!
//! This is the only module that knows the YAML parser. It keeps AIPerf's rules of the YAML level: one
//! document whose root is a mapping, text keys, no key twice, no alias of a mapping or list, no merge keys,
//! no tags but YAML's own, scalars as in YAML 1.1. It knows no key by name.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::scalar::{self, Scalar};

/// Longest text read, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of mappings and lists.
pub const DEPTH_MAX: usize = 256;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where the value stands in the text; empty for a value that is not written.
    pub span: Span,
    /// The value.
    pub value: Value,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, a boolean, a number or a text.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// A mapping in written order; no key twice.
    Mapping(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Whether nothing is written here.
    pub fn is_null(&self) -> bool {
        self.value == Value::Scalar(Scalar::Null)
    }

    /// The entry of `key` when this is a mapping that has one.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            Value::Scalar(_) | Value::Sequence(_) => None,
        }
    }

    /// The entry of `key` when this is a mapping that has one, to be changed.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        match &mut self.value {
            Value::Mapping(entries) => entries.iter_mut().find(|entry| entry.key == key),
            Value::Scalar(_) | Value::Sequence(_) => None,
        }
    }

    /// What is here, for a message: "the text `many`".
    pub fn described(&self) -> String {
        match &self.value {
            Value::Scalar(Scalar::Null) => "nothing (null)".to_owned(),
            Value::Scalar(Scalar::Bool(value)) => format!("the boolean `{value}`"),
            Value::Scalar(Scalar::Integer(value)) => format!("the whole number {value}"),
            Value::Scalar(Scalar::Float(value)) => format!("the number {value:?}"),
            Value::Scalar(Scalar::Date(text)) => format!("the date `{text}`"),
            Value::Scalar(Scalar::Text(text)) => format!("the text `{}`", shown(text)),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }
}

/// `text` on one line and not too long for a message.
pub fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 60;
    let mut shown: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Reads `text` into its root mapping.
///
/// # Errors
/// Every fault of the YAML level; a fault of the grammar ends reading, the others do not.
pub fn read(text: &str) -> Result<Node, Vec<Diagnostic>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(vec![Diagnostic::error(format!(
            "the file has {} bytes, more than the {TEXT_BYTES_MAX} that a config may have",
            text.len()
        ))]);
    }
    let mut reader = Reader::new(text);
    if let Err(fault) = reader.read_events() {
        reader.faults.push(*fault);
    }
    if reader.faults.is_empty() && reader.root.as_ref().is_none_or(Node::is_null) {
        reader.faults.push(
            Diagnostic::error("the config file is empty")
                .with_help("write `schemaVersion: \"2.0\"` and a `benchmark:` mapping"),
        );
    }
    match reader.root {
        Some(root) if reader.faults.is_empty() => {
            if matches!(root.value, Value::Mapping(_)) {
                Ok(root)
            } else {
                Err(vec![
                    Diagnostic::error(format!(
                        "the config file must be a mapping from keys to values, found {}",
                        root.described()
                    ))
                    .at(root.span, "not a mapping")
                    .with_help("start with `benchmark:`"),
                ])
            }
        }
        _ => Err(reader.faults),
    }
}

/// A mapping or list that is still open.
enum Open {
    Sequence {
        start: usize,
        anchor: usize,
        items: Vec<Node>,
    },
    Mapping {
        start: usize,
        anchor: usize,
        entries: Vec<Entry>,
        key: Option<(Option<String>, Span)>,
        places: HashMap<String, Span>,
    },
}

struct Reader<'a> {
    text: &'a str,
    /// Byte offset of each character, and of the end: the parser counts characters.
    offsets: Vec<usize>,
    open: Vec<Open>,
    root: Option<Node>,
    /// Anchored values; absent for mappings and lists, whose aliases are refused.
    anchors: HashMap<usize, Option<Node>>,
    faults: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let mut offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).collect();
        offsets.push(text.len());
        Self { text, offsets, open: Vec::new(), root: None, anchors: HashMap::new(), faults: Vec::new() }
    }

    fn offset(&self, character: usize) -> usize {
        self.offsets.get(character).copied().unwrap_or(self.text.len())
    }

    /// The bytes of a parser's span, without blanks and line ends behind it.
    fn bytes(&self, span: saphyr_parser::Span) -> Span {
        let start = self.offset(span.start.index());
        let end = self.offset(span.end.index()).max(start);
        let written = self.text.get(start..end).unwrap_or_default();
        start..start + written.trim_end().len()
    }

    /// Feeds all events; the error is one of the grammar.
    fn read_events(&mut self) -> Result<(), Box<Diagnostic>> {
        let mut parser = Parser::new_from_str(self.text);
        let mut documents = 0;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| {
                let at = self.offset(error.marker().index());
                Diagnostic::error(format!("the file is not YAML: {}", error.info()))
                    .at(at..at + 1, "the parser stopped here")
                    .with_help("check indentation (blanks, no tabs), quotes and brackets around this place")
            })?;
            let place = self.bytes(span);
            match event {
                Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(Diagnostic::error(
                            "a config file holds one YAML document, a second one starts here",
                        )
                        .at(place, "second document")
                        .with_help("take out the `---` or keep one document per file")
                        .into());
                    }
                }
                Event::Alias(anchor) => self.alias(anchor, place),
                Event::Scalar(text, style, anchor, tag) => {
                    let value = self.scalar(&text, style, tag.as_deref(), &place);
                    let node = Node { span: place, value: Value::Scalar(value) };
                    if anchor > 0 {
                        self.anchors.insert(anchor, Some(node.clone()));
                    }
                    self.close(node, style == ScalarStyle::Plain);
                }
                Event::SequenceStart(anchor, tag) => {
                    self.check_container(tag.as_deref(), &place, "seq")?;
                    self.open.push(Open::Sequence { start: place.start, anchor, items: Vec::new() });
                }
                Event::MappingStart(anchor, tag) => {
                    self.check_container(tag.as_deref(), &place, "map")?;
                    self.open.push(Open::Mapping {
                        start: place.start,
                        anchor,
                        entries: Vec::new(),
                        key: None,
                        places: HashMap::new(),
                    });
                }
                Event::SequenceEnd | Event::MappingEnd => self.end_container(&place),
            }
        }
        Ok(())
    }

    fn check_container(&mut self, tag: Option<&Tag>, place: &Span, own: &str) -> Result<(), Box<Diagnostic>> {
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && tag.suffix == own)
        {
            self.faults.push(unknown_tag(tag, place));
        }
        if self.open.len() < DEPTH_MAX {
            return Ok(());
        }
        Err(Diagnostic::error(format!("mappings and lists are nested deeper than {DEPTH_MAX} levels"))
            .at(place.clone(), "too deep")
            .into())
    }

    fn alias(&mut self, anchor: usize, place: Span) {
        if let Some(Some(node)) = self.anchors.get(&anchor) {
            // The value stands where it is used, so that a message points there.
            let node = Node { span: place, value: node.value.clone() };
            self.close(node, false);
            return;
        }
        self.faults.push(
            Diagnostic::error("an alias may stand for a single value, not for a mapping or list")
                .at(place.clone(), "alias of a mapping or list")
                .with_help("write the mapping or list out again"),
        );
        self.close(Node { span: place, value: Value::Scalar(Scalar::Null) }, false);
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, place: &Span) -> Scalar {
        let Some(tag) = tag else {
            return match style {
                ScalarStyle::Plain => scalar::resolve(text),
                ScalarStyle::SingleQuoted
                | ScalarStyle::DoubleQuoted
                | ScalarStyle::Literal
                | ScalarStyle::Folded => Scalar::Text(text.to_owned()),
            };
        };
        let forced = if tag.is_yaml_core_schema() {
            match tag.suffix.as_str() {
                "str" => Some(Scalar::Text(text.to_owned())),
                "int" => scalar::integer(text).map(Scalar::Integer),
                "float" => match scalar::resolve(text) {
                    Scalar::Integer(value) => Some(Scalar::Float(value as f64)),
                    Scalar::Float(value) => Some(Scalar::Float(value)),
                    Scalar::Null | Scalar::Bool(_) | Scalar::Date(_) | Scalar::Text(_) => None,
                },
                "bool" => Some(scalar::resolve(text)).filter(|value| matches!(value, Scalar::Bool(_))),
                "null" => Some(Scalar::Null),
                _ => None,
            }
        } else {
            None
        };
        forced.unwrap_or_else(|| {
            self.faults.push(unknown_tag(tag, place));
            Scalar::Null
        })
    }

    fn end_container(&mut self, place: &Span) {
        let Some(open) = self.open.pop() else { return };
        let (start, anchor, value) = match open {
            Open::Sequence { start, anchor, items } => (start, anchor, Value::Sequence(items)),
            Open::Mapping { start, anchor, entries, .. } => (start, anchor, Value::Mapping(entries)),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, None);
        }
        let written = self.text.get(start..place.end.max(start)).unwrap_or_default().trim_end();
        self.close(Node { span: start..start + written.len(), value }, false);
    }

    /// Puts a finished node where it belongs: as root, item, key or value.
    fn close(&mut self, node: Node, plain: bool) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, places, .. }) => match key.take() {
                None => *key = Some((checked_key(&node, plain, &mut self.faults), node.span)),
                // The fault of such a key is reported already.
                Some((None, _)) => {}
                Some((Some(key), key_span)) => {
                    if let Some(first) = places.get(&key) {
                        self.faults.push(
                            Diagnostic::error(format!(
                                "the key `{}` is written twice in one mapping",
                                shown(&key)
                            ))
                            .at(key_span, "written again")
                            .with_context(first.clone(), "first written here")
                            .with_help("keep one of the two"),
                        );
                    } else {
                        places.insert(key.clone(), key_span.clone());
                        entries.push(Entry { key, key_span, node });
                    }
                }
            },
        }
    }
}

/// The key as text, or a fault.
fn checked_key(node: &Node, plain: bool, faults: &mut Vec<Diagnostic>) -> Option<String> {
    match &node.value {
        Value::Scalar(Scalar::Text(text)) if !(plain && text == "<<") => Some(text.clone()),
        Value::Scalar(Scalar::Text(_)) => {
            faults.push(
                Diagnostic::error("merge keys (`<<`) are not supported")
                    .at(node.span.clone(), "merge key")
                    .with_help("write the merged keys out"),
            );
            None
        }
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
            faults.push(
                Diagnostic::error(format!("a key must be text, found {}", node.described()))
                    .at(node.span.clone(), "not a text key")
                    .with_help("put the key in quotes if it is meant as text"),
            );
            None
        }
    }
}

fn unknown_tag(tag: &Tag, place: &Span) -> Diagnostic {
    let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
    Diagnostic::error(format!("the tag `{}` is unknown or does not fit the value", shown(&name)))
        .at(place.clone(), "tagged value")
        .with_help("take the tag out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        read(text).err().unwrap_or_default().into_iter().map(|fault| fault.message).collect()
    }

    #[test]
    fn every_key_and_value_knows_its_bytes() {
        let text = "# é\nname: ünï\nlist:\n  - {a: 1}\n  - two\nlast: 'x'\n";
        let root = read(text).unwrap_or_else(|faults| panic!("{faults:?}"));
        let at = |span: &Span| text.get(span.clone()).unwrap_or("?");
        let name = root.entry("name").map(|entry| (at(&entry.key_span), at(&entry.node.span)));
        assert_eq!(name, Some(("name", "ünï")));
        let last = root.entry("last").map(|entry| (at(&entry.key_span), at(&entry.node.span)));
        assert_eq!(last, Some(("last", "'x'")));
        let Some(Value::Sequence(items)) = root.entry("list").map(|entry| &entry.node.value) else {
            panic!("no list in {root:?}");
        };
        let spans: Vec<&str> = items.iter().map(|item| at(&item.span)).collect();
        assert_eq!(spans, ["{a: 1}", "two"]);
    }

    #[test]
    fn all_duplicate_keys_are_found_at_once() {
        assert_eq!(messages("a: 1\na: 2\nb: {c: 1, c: 2}\n").len(), 2);
    }

    #[test]
    fn keys_that_are_not_text_are_refused() {
        for text in ["1: x", "on: x", "~: x", "? [a]\n: x", "2024-05-06: x"] {
            let messages = messages(text);
            assert!(
                messages.len() == 1 && messages[0].starts_with("a key must be text"),
                "{text}: {messages:?}"
            );
        }
        assert!(read("\"on\": x").is_ok());
    }

    #[test]
    fn aliases_of_scalars_work_and_others_are_refused() {
        let root = read("a: &n 4\nb: *n\n").unwrap_or_else(|faults| panic!("{faults:?}"));
        assert_eq!(root.entry("b").map(|entry| &entry.node.value), Some(&Value::Scalar(Scalar::Integer(4))));
        for text in ["a: &m {x: 1}\nb: *m\n", "a: &l [1]\nb: *l\n", "a: &m {x: *m}\n", "b:\n  <<: {x: 1}\n"] {
            assert_eq!(messages(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn tags_of_yaml_itself_work_and_others_are_refused() {
        let root =
            read("a: !!int \"7\"\nb: !!str 7\nc: !!float 1\n").unwrap_or_else(|faults| panic!("{faults:?}"));
        let value = |key: &str| root.entry(key).map(|entry| entry.node.value.clone());
        assert_eq!(value("a"), Some(Value::Scalar(Scalar::Integer(7))));
        assert_eq!(value("b"), Some(Value::Scalar(Scalar::Text("7".to_owned()))));
        assert_eq!(value("c"), Some(Value::Scalar(Scalar::Float(1.0))));
        for text in ["a: !mine x", "a: !mine {x: 1}", "a: !!int x", "a: !!python/object:os.system x"] {
            assert_eq!(messages(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_file_without_a_mapping_is_refused() {
        for text in [
            "",
            "# only a comment\n",
            "---\n",
            "~",
            "- a\n- b\n",
            "hello",
            "a: 1\n---\nb: 2\n",
            "a: [1",
            "a:\n\tb: 1",
        ] {
            assert_eq!(messages(text).len(), 1, "{text:?}: {:?}", messages(text));
        }
        assert!(read("---\na: 1\n...\n").is_ok());
        assert!(read("{\"a\": 1}").is_ok());
    }

    #[test]
    fn deep_nesting_ends_in_a_message() {
        let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(messages(&deep).len(), 1);
    }
}
