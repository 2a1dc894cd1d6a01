//! What a dataset says and an endpoint sends: conversations of turns.

use serde_json::{Map, Value};

/// Texts, images, audios or videos that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// What they are to the endpoint (`query`, `passages`); empty for nothing in particular.
    pub name: String,
    /// The items: texts, data URIs, addresses.
    pub contents: Vec<String>,
    /// One identifier per item, for servers that cache images; empty for none.
    pub uuids: Vec<String>,
}

impl Media {
    /// Items without a name.
    pub fn new(contents: Vec<String>) -> Self {
        Self { contents, ..Self::default() }
    }
}

/// One turn: what is said, how long the answer may be, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// The model asked; absent: the endpoint's.
    pub model: Option<String>,
    /// Who speaks; absent: `user`.
    pub role: Option<String>,
    /// What is said.
    pub texts: Vec<Media>,
    /// What is shown.
    pub images: Vec<Media>,
    /// What is heard, each `format,base64` or a data URI.
    pub audios: Vec<Media>,
    /// What is shown moving.
    pub videos: Vec<Media>,
    /// Longest answer in tokens; absent: the server decides.
    pub max_tokens: Option<u64>,
    /// When it is sent, in milliseconds of the trace's own time.
    pub timestamp_ms: Option<f64>,
    /// How long after the answer to the turn before it is sent, in milliseconds.
    pub delay_ms: Option<f64>,
    /// Messages in the endpoint's own form, instead of the texts and media.
    pub raw_messages: Option<Vec<Value>>,
    /// Tools in the endpoint's own form.
    pub raw_tools: Option<Vec<Value>>,
    /// The system prompt in the endpoint's own form (messages only).
    pub raw_system: Option<Value>,
    /// The whole payload, sent as it is.
    pub raw_payload: Option<Value>,
    /// Members that are put over the payload last.
    pub extra_body: Map<String, Value>,
    /// Headers of this turn alone.
    pub extra_headers: Vec<(String, String)>,
}

impl Turn {
    /// A turn that says `text`.
    pub fn text(text: String) -> Self {
        Self { texts: vec![Media::new(vec![text])], ..Self::default() }
    }

    /// All texts, in order.
    pub(in crate::endpoint) fn all_texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().flat_map(|media| media.contents.iter().map(String::as_str))
    }

    /// All images, in order.
    pub(in crate::endpoint) fn all_images(&self) -> impl Iterator<Item = &str> {
        self.images.iter().flat_map(|media| media.contents.iter().map(String::as_str))
    }
}

/// What a request carries besides its own turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextMode {
    /// The turns before it; answers stand in the dataset.
    DeltasWithResponses,
    /// The turns before it and the server's answers to them.
    #[default]
    DeltasWithoutResponses,
    /// Nothing: every turn is whole.
    MessageArrayWithResponses,
}

impl ContextMode {
    /// The mode as files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeltasWithResponses => "deltas_with_responses",
            Self::DeltasWithoutResponses => "deltas_without_responses",
            Self::MessageArrayWithResponses => "message_array_with_responses",
        }
    }
}

/// A conversation: one entry of a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Its name in the dataset.
    pub session_id: String,
    /// In front of every request of it.
    pub system_message: Option<String>,
    /// A user message behind the system message, in front of every request of it.
    pub user_context_message: Option<String>,
    /// What its requests carry; absent: the default of the endpoint type
    /// ([`ContextMode::DeltasWithoutResponses`]).
    pub context_mode: Option<ContextMode>,
    /// Its turns; at least one.
    pub turns: Vec<Turn>,
}

impl Conversation {
    /// The request of turn `index` alone, without history; absent when there is no such turn.
    pub fn request(&self, index: usize) -> Option<Request<'_>> {
        Some(Request {
            system_message: self.system_message.as_deref(),
            user_context_message: self.user_context_message.as_deref(),
            turns: std::slice::from_ref(self.turns.get(index)?),
            previous_response_id: None,
        })
    }
}

/// What one request has to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The system message.
    pub system_message: Option<&'a str>,
    /// The user-context message.
    pub user_context_message: Option<&'a str>,
    /// History and, last, the turn itself; model, limit and extras are the last one's.
    pub turns: &'a [Turn],
    /// The stored answer that this request continues (responses with `store`).
    pub previous_response_id: Option<&'a str>,
}
