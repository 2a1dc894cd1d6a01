//! Replies, message by message: has it content, what usage does it report, what does it say.

use std::fmt;
use std::mem;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::endpoint::{Dialect, EndpointError, EndpointSettings, Usage, UsageParts};

/// What a message brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Vectors.
    Embeddings {
        /// How many.
        count: usize,
    },
    /// Images, or findings about images.
    Images {
        /// How many.
        count: usize,
    },
    /// Ranked passages.
    Rankings {
        /// How many.
        count: usize,
    },
    /// Thoughts, possibly with output beside them.
    Reasoning {
        /// The thoughts.
        reasoning: String,
        /// The output beside them.
        content: Option<String>,
    },
    /// Output; empty where an endpoint counts an empty text.
    Text(String),
    /// Calls of tools: names and arguments.
    ToolCall {
        /// Names and arguments, one behind the other.
        text: String,
        /// Output beside them; AIPerf does not count it.
        content: Option<String>,
    },
}

impl Content {
    /// Whether there is more than thoughts.
    pub const fn is_output(&self) -> bool {
        match self {
            Self::Reasoning { content, .. } => content.is_some(),
            Self::Embeddings { .. }
            | Self::Images { .. }
            | Self::Rankings { .. }
            | Self::Text(_)
            | Self::ToolCall { .. } => true,
        }
    }
}

/// What one message says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its content, if it has any.
    pub content: Option<Content>,
    /// The usage it reports, if any.
    pub usage: Option<Usage>,
}

/// A message that is JSON and no object, which spoils the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoiled {
    /// A list.
    Array,
    /// A number, a text or `true`; the type's name in Python.
    Scalar(&'static str),
}

impl Spoiled {
    pub(in crate::endpoint) fn of(value: &Value) -> Self {
        match value {
            Value::Array(_) | Value::Object(_) => Self::Array,
            Value::Bool(_) | Value::Null => Self::Scalar("bool"),
            Value::Number(number) if number.is_f64() => Self::Scalar("float"),
            Value::Number(_) => Self::Scalar("int"),
            Value::String(_) => Self::Scalar("str"),
        }
    }
}

/// The texts of a reply as they are counted: one encoding of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Output and tool calls, without separators.
    pub output: String,
    /// Thoughts, without separators.
    pub reasoning: String,
    /// Some message had output, even if it was empty.
    pub has_output: bool,
    /// Some message had thoughts.
    pub has_reasoning: bool,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Part of the answer.
    Output,
    /// A thought.
    Reasoning,
}

impl Texts {
    /// Adds a piece of text.
    pub fn push(&mut self, text: &str, speech: Speech) {
        match speech {
            Speech::Output => {
                self.output.push_str(text);
                self.has_output = true;
            }
            Speech::Reasoning => {
                self.reasoning.push_str(text);
                self.has_reasoning = true;
            }
        }
    }

    /// Gives back room beyond `bytes` for each text.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.output.shrink_to(bytes);
        self.reasoning.shrink_to(bytes);
    }

    /// Adds what a message brings.
    pub fn add(&mut self, content: &Content) {
        match content {
            Content::Text(text) | Content::ToolCall { text, .. } => {
                self.output.push_str(text);
                self.has_output = true;
            }
            Content::Reasoning { reasoning, content } => {
                self.reasoning.push_str(reasoning);
                self.has_reasoning = true;
                if let Some(content) = content {
                    self.output.push_str(content);
                    self.has_output = true;
                }
            }
            Content::Embeddings { .. } | Content::Images { .. } | Content::Rankings { .. } => {}
        }
    }

    /// Empties the texts and keeps their room.
    pub fn clear(&mut self) {
        self.output.clear();
        self.reasoning.clear();
        self.has_output = false;
        self.has_reasoning = false;
    }
}

/// What a reader remembers within one reply.
#[derive(Clone, Default)]
pub(in crate::endpoint) struct State {
    /// Usage put together from several messages, once one of them needed all its members.
    usage: Map<String, Value>,
    /// The same while plain counts are enough; moved into `usage` when they are not.
    parts: UsageParts,
    /// Places of a responses stream that have had deltas.
    deltas: Vec<[Option<u64>; 2]>,
    /// Where the content stands, if it is not to be looked for.
    field: Option<Arc<jmespath::Expression<'static>>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field.as_ref().map(|field| field.as_str());
        f.debug_struct("State").field("usage", &self.usage).field("field", &field).finish_non_exhaustive()
    }
}

impl State {
    pub(in crate::endpoint) fn field(&self) -> Option<&jmespath::Expression<'static>> {
        self.field.as_deref()
    }

    pub(in crate::endpoint) fn saw_delta(&mut self, place: [Option<u64>; 2]) {
        if !self.has_seen_delta(place) {
            self.deltas.push(place);
        }
    }

    pub(in crate::endpoint) fn has_seen_delta(&self, place: [Option<u64>; 2]) -> bool {
        self.deltas.contains(&place)
    }

    /// Puts counts over those seen before; the usage so far. Absent when members were seen that are no plain
    /// counts.
    fn merge_parts(&mut self, parts: &UsageParts) -> Option<Usage> {
        self.usage.is_empty().then(|| {
            self.parts.put(parts);
            self.parts.usage()
        })
    }

    /// Puts the members of `usage` over those seen before; the usage so far, if there is any now.
    pub(in crate::endpoint) fn merge_usage(&mut self, usage: Option<&Value>) -> Option<Usage> {
        let Some(Value::Object(usage)) = usage else { return None };
        mem::take(&mut self.parts).pour_into(&mut self.usage);
        self.usage.extend(usage.clone());
        let usage = Value::Object(mem::take(&mut self.usage));
        let read = Usage::read(&usage);
        if let Value::Object(usage) = usage {
            self.usage = usage;
        }
        read
    }
}

/// Reads the messages of one reply after another.
#[derive(Clone, Debug)]
pub struct Reader {
    dialect: &'static Dialect,
    state: State,
}

impl Default for Reader {
    /// A reader of chat.
    fn default() -> Self {
        Self { dialect: Dialect::chat(), state: State::default() }
    }
}

impl Reader {
    /// A reader for this endpoint.
    ///
    /// # Errors
    /// The place of the content is no `JMESPath`.
    pub fn new(settings: &EndpointSettings) -> Result<Self, EndpointError> {
        let field = match settings.response_field() {
            None => None,
            Some(field) => Some(Arc::new(jmespath::compile(field).map_err(|error| {
                EndpointError::Template { reason: format!("`response_field`: {error}") }
            })?)),
        };
        Ok(Self { dialect: settings.dialect, state: State { field, ..State::default() } })
    }

    /// The endpoint type whose replies it reads.
    pub const fn dialect(&self) -> &'static Dialect {
        self.dialect
    }

    /// Gets ready for the next reply.
    pub fn reset(&mut self) {
        self.state.usage.clear();
        self.state.parts = UsageParts::default();
        self.state.deltas.clear();
    }

    /// Notes that a piece of the text in `place` of a stream of `responses` has come.
    pub fn saw_delta(&mut self, place: [Option<u64>; 2]) {
        self.state.saw_delta(place);
    }

    /// Whether a piece of the text in `place` has come in this reply.
    pub fn has_seen_delta(&self, place: [Option<u64>; 2]) -> bool {
        self.state.has_seen_delta(place)
    }

    /// Puts counts over those of earlier messages of this reply; the usage so far. Absent when members were
    /// seen that are no plain counts: then the message must be [read](Reader::read).
    pub fn merge_parts(&mut self, parts: &UsageParts) -> Option<Usage> {
        self.state.merge_parts(parts)
    }

    /// Reads the data of one message or a whole body.
    ///
    /// What is not JSON has no content, but on endpoints whose form is not known it is a text. Empty data and
    /// `[DONE]` are no messages and do not come here.
    ///
    /// # Errors
    /// JSON that is no object where one belongs.
    pub fn read(&mut self, data: &[u8]) -> Result<Reading, Spoiled> {
        // Bytes that are not UTF-8 become replacement characters: harmless inside a text, an error elsewhere.
        let text = String::from_utf8_lossy(data);
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) if self.reads_anything() && !text.is_empty() => {
                return Ok(Reading { content: Some(Content::Text(text.into_owned())), usage: None });
            }
            Err(_) => return Ok(Reading::default()),
        };
        self.read_value(&value)
    }

    /// Reads one message that is JSON already.
    ///
    /// # Errors
    /// JSON that is no object where one belongs.
    pub fn read_value(&mut self, value: &Value) -> Result<Reading, Spoiled> {
        if !crate::endpoint::body::truthy(Some(value)) {
            return Ok(Reading::default());
        }
        (self.dialect.read)(&mut self.state, value)
    }

    fn reads_anything(&self) -> bool {
        self.dialect == &crate::endpoint::template::TEMPLATE || self.dialect == &crate::endpoint::raw::RAW
    }
}
