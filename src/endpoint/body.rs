//! A payload: its members in order, and where in it the turn itself stands.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::endpoint::{EndpointSettings, Turn};

/// A request body before it is bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    value: Value,
    /// The array of the conversation, and how many of its first items are not the turn's own.
    items: Option<(&'static str, usize)>,
}

impl Payload {
    /// A payload that is sent as it is.
    pub(in crate::endpoint) const fn verbatim(value: Value) -> Self {
        Self { value, items: None }
    }

    /// A payload of these members.
    pub(in crate::endpoint) const fn new(members: Map<String, Value>) -> Self {
        Self { value: Value::Object(members), items: None }
    }

    /// Says that the items of the array `key` from `first` on are the turn's own.
    pub(in crate::endpoint) fn with_items(mut self, key: &'static str, first: usize) -> Self {
        let holds = self.value.get(key).and_then(Value::as_array).is_some_and(|items| first < items.len());
        self.items = holds.then_some((key, first));
        self
    }

    /// The payload as JSON.
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Appends the bytes that are sent: compact JSON in the order of the members, UTF-8 as it is.
    ///
    /// The answer is where among the appended bytes the turn's own items of the conversation stand, if they
    /// stand somewhere: what the history of a session is put in front of.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<Range<usize>> {
        let begin = out.len();
        match (&self.value, self.items) {
            (Value::Object(members), Some((key, first))) => {
                let mut turn = None;
                out.push(b'{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_value(out, &Value::String(name.clone()));
                    out.push(b':');
                    match value {
                        Value::Array(items) if name == key => turn = Some(write_items(out, items, first)),
                        value => write_value(out, value),
                    }
                }
                out.push(b'}');
                turn.map(|range| range.start - begin..range.end - begin)
            }
            (value, _) => {
                write_value(out, value);
                None
            }
        }
    }
}

/// Appends an array; where its items from `first` on stand.
fn write_items(out: &mut Vec<u8>, items: &[Value], first: usize) -> Range<usize> {
    out.push(b'[');
    let mut start = out.len();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if index == first {
            start = out.len();
        }
        write_value(out, item);
    }
    let end = out.len();
    out.push(b']');
    start..end
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    // A tree has text keys only and a vector takes every byte: nothing can fail.
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// What Python takes for true.
pub(in crate::endpoint) fn truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
    }
}

/// The model of a turn.
pub(in crate::endpoint) fn model(settings: &EndpointSettings, turn: Option<&Turn>) -> Value {
    let model = turn.and_then(|turn| turn.model.as_deref()).unwrap_or(&settings.model);
    Value::from(model)
}

/// Puts the endpoint's extras over the members, then the turn's.
pub(in crate::endpoint) fn put_extras(
    members: &mut Map<String, Value>,
    settings: &EndpointSettings,
    turn: Option<&Turn>,
) {
    let turn = turn.into_iter().flat_map(|turn| turn.extra_body.iter());
    for (name, value) in settings.extra.iter().chain(turn) {
        members.insert(name.clone(), value.clone());
    }
}

/// Asks a streaming server for its usage; what the author wrote stays.
pub(in crate::endpoint) fn put_stream_options(members: &mut Map<String, Value>, settings: &EndpointSettings) {
    if !truthy(members.get("stream")) {
        return;
    }
    let options = members.entry("stream_options").or_insert(Value::Null);
    if options.is_null() {
        *options = Value::Object(Map::new());
    }
    if let Value::Object(options) = options {
        options.entry("include_usage").or_insert(Value::Bool(true));
        if settings.per_chunk_usage {
            options.entry("continuous_usage_stats").or_insert(Value::Bool(true));
        }
    }
}
