//! Turns of a conversation into payloads, replies into texts and usage, per endpoint type.
//!
//! A [`Dialect`] is what an endpoint type speaks: one file below this one and one line in the table of
//! [`Dialect::all`]. Payloads are rendered before the run; what varies with a session (its history) is the
//! only part that is rendered during it, see `Payload::write`. Replies are read message by message:
//! [`Reader`] says whether a message has content and what usage it reports, [`Capture`] keeps what a later turn
//! of the session has to send back. The rules are AIPerf's; `docs/endpoints.md` lists where phasor differs.
//!
//! It knows no sockets, no time and no phases.

mod body;
mod capture;
mod chat;
mod completions;
mod content;
mod count;
mod detect;
mod embeddings;
mod generate;
mod headers;
mod images;
mod join;
mod messages;
mod rankings;
mod raw;
mod reading;
mod responses;
mod settings;
mod solido;
mod template;
mod turn;
pub mod usage;

pub use body::Payload;
pub use capture::{Capture, Captured};
pub use count::{InputTexts, MediaCounts, input_texts};
pub use headers::{HeaderValue, Headers, basic_authorization};
pub use join::join;
pub use reading::{Content, Reader, Reading, Speech, Spoiled, Texts};
pub use settings::{EndpointSettings, RequestContentType, TemplateSettings};
pub use turn::{ContextMode, Conversation, Media, Request, Turn};
pub use usage::{Usage, UsageParts};

use serde_json::Value;

/// An endpoint type: where it lives, what it can do, how its payloads and replies look.
#[derive(Debug)]
pub struct Dialect {
    /// As `endpoint.type` has it.
    pub name: &'static str,
    /// Appended to the server's address; empty for none.
    pub path: &'static str,
    /// Instead of `path` when streaming.
    pub streaming_path: Option<&'static str>,
    /// What it can do.
    pub can: Can,
    /// Renders a payload.
    render: fn(&EndpointSettings, &Request<'_>) -> Result<Payload, EndpointError>,
    /// Reads one JSON value of a reply.
    read: fn(&mut reading::State, &Value) -> Result<Reading, Spoiled>,
}

/// What an endpoint type can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of independent abilities")]
pub struct Can {
    /// Replies may be server-sent events.
    pub stream: bool,
    /// The prompt has tokens that can be counted.
    pub tokenize_input: bool,
    /// The reply has tokens.
    pub produce_tokens: bool,
    /// System and user-context messages reach the server.
    pub take_system: bool,
    /// Several turns can be sent as one history.
    pub take_history: bool,
    /// Its replies report usage.
    pub report_usage: bool,
}

/// Why a payload cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Audio that is neither `format,base64` nor a data URI.
    #[error(
        "the audio `{start}` is neither `wav,<base64>` nor a `data:audio/<format>;base64,` URI: write one of them"
    )]
    Audio {
        /// How it begins.
        start: String,
    },
    /// The number of texts and images differs.
    #[error(
        "a turn of a `{dialect}` endpoint has {texts} texts and {images} images: give as many of one as of the \
         other, or none"
    )]
    Counts {
        /// The endpoint type.
        dialect: &'static str,
        /// Texts.
        texts: usize,
        /// Images.
        images: usize,
    },
    /// A header that HTTP does not allow.
    #[error("the header `{name}` cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The endpoint takes one turn.
    #[error(
        "a `{dialect}` endpoint takes one turn per request, not {turns}: use `type: chat` for conversations"
    )]
    OneTurn {
        /// The endpoint type.
        dialect: &'static str,
        /// Turns of the request.
        turns: usize,
    },
    /// A kind of media that the endpoint does not take.
    #[error("a `{dialect}` endpoint takes no {media}: use `type: chat`, or leave the {media} out")]
    Media {
        /// The endpoint type.
        dialect: &'static str,
        /// `audio`, `image` or `video`.
        media: &'static str,
    },
    /// A ranking without its query.
    #[error("a turn of a `{dialect}` endpoint needs a text named `query`")]
    NoQuery {
        /// The endpoint type.
        dialect: &'static str,
    },
    /// Nothing to send.
    #[error("a `{dialect}` endpoint needs {what}")]
    Missing {
        /// The endpoint type.
        dialect: &'static str,
        /// What is not there.
        what: &'static str,
    },
    /// The template is none.
    #[error("`endpoint.template.body` cannot be used: {reason}")]
    Template {
        /// What the reader says.
        reason: String,
    },
    /// The template's text is not JSON.
    #[error(
        "`endpoint.template.body` did not give JSON ({reason}); texts belong in `{{{{ text|tojson }}}}`: {start}"
    )]
    TemplateNotJson {
        /// What the parser says.
        reason: String,
        /// How the text begins.
        start: String,
    },
    /// As many identifiers as images are needed.
    #[error("a turn has {images} images and {uuids} image identifiers: give one for each image")]
    Uuids {
        /// Images.
        images: usize,
        /// Identifiers.
        uuids: usize,
    },
}

/// Every endpoint type: one line each.
static DIALECTS: [&Dialect; 16] = [
    &chat::CHAT,
    &embeddings::CHAT_EMBEDDINGS,
    &rankings::COHERE_RANKINGS,
    &completions::COMPLETIONS,
    &embeddings::EMBEDDINGS,
    &rankings::HF_TEI_RANKINGS,
    &generate::HUGGINGFACE_GENERATE,
    &images::IMAGE_GENERATION,
    &images::IMAGE_RETRIEVAL,
    &messages::MESSAGES,
    &embeddings::NIM_EMBEDDINGS,
    &rankings::NIM_RANKINGS,
    &raw::RAW,
    &responses::RESPONSES,
    &solido::SOLIDO_RAG,
    &template::TEMPLATE,
];

impl Dialect {
    /// Every endpoint type, by name.
    pub fn all() -> &'static [&'static Self] {
        &DIALECTS
    }

    /// The endpoint type `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        DIALECTS.iter().find(|dialect| dialect.name == name).copied()
    }

    /// `POST /v1/chat/completions`.
    pub fn chat() -> &'static Self {
        &chat::CHAT
    }

    /// Whether this is chat, whose stream messages have a reader of their own in `wire`.
    pub fn is_chat(&self) -> bool {
        self.name == chat::CHAT.name
    }

    /// The path appended to a server's address.
    pub fn path(&self, streaming: bool) -> &'static str {
        self.streaming_path.filter(|_| streaming).unwrap_or(self.path)
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Dialect {}

/// The payload of one request.
///
/// # Errors
/// What this endpoint type cannot send.
pub fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    match request.turns.last().and_then(|turn| turn.raw_payload.as_ref()) {
        Some(payload) => Ok(Payload::verbatim(payload.clone())),
        None => (settings.dialect.render)(settings, request),
    }
}
