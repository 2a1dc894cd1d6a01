//! The server under load and the models asked for.

use crate::time::Nanos;
use std::path::PathBuf;

/// The models that requests ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    /// How requests choose among them.
    pub strategy: ModelStrategy,
    /// At least one.
    pub items: Vec<Model>,
}

impl Models {
    /// One model.
    pub fn of(name: &str) -> Self {
        let item = Model { name: name.to_owned(), weight: None, lora: None, tokenizer: None };
        Self { strategy: ModelStrategy::RoundRobin, items: vec![item] }
    }
}

/// How requests choose among several models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStrategy {
    /// Any, with equal chances.
    Random,
    /// In turn.
    RoundRobin,
    /// Any, with chances by weight.
    Weighted,
}

/// One model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// As the server knows it; not empty.
    pub name: String,
    /// Share of requests, 0 to 1; there for all models of the weighted strategy, whose weights sum to 1.
    pub weight: Option<f64>,
    /// Adapter name.
    pub lora: Option<String>,
    /// Tokenizer of this model alone.
    pub tokenizer: Option<String>,
}

/// The server under load.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one per switch of the config")]
pub struct Endpoint {
    /// At least one; sessions go round them.
    pub urls: Vec<Url>,
    /// The dialect spoken.
    pub kind: EndpointKind,
    /// Whether replies are asked for as server-sent events.
    pub streaming: bool,
    /// A request older than this is a failure; absent: no limit.
    pub timeout: Option<Nanos>,
    /// Path in place of the dialect's own; starts with `/`.
    pub path: Option<String>,
    /// Bearer token. A secret: never shown.
    pub api_key: Option<String>,
    /// Headers of every request, in written order.
    pub headers: Vec<(String, String)>,
    /// Members merged into every request body.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// What becomes of connections between requests.
    pub reuse: Reuse,
    /// Whether the reply length is sent as `max_tokens`.
    pub use_legacy_max_tokens: bool,
    /// Whether token counts are the server's.
    pub use_server_token_count: bool,
    /// Whether the server reports usage in every chunk.
    pub per_chunk_usage: bool,
    /// Whether generated videos are fetched.
    pub download_video_content: bool,
    /// Whether prompts carry a unique mark that is stripped from replies.
    pub uuid_and_strip: bool,
    /// How bodies are encoded, where it was said.
    pub content_type: Option<ContentType>,
    /// Name of the header that carries the session, in place of `X-Correlation-ID`.
    pub session_header: Option<String>,
    /// Body and reply of an endpoint of the user's own kind.
    pub template: Option<ReplyTemplate>,
    /// Whether and how the server's readiness is awaited; absent: not.
    pub wait_for_model: Option<Probe>,
    /// Whether the server's cache is emptied before each run; absent: not.
    pub reset_kv_cache: Option<ResetCache>,
    /// Whether the server's profiler runs along; absent: not.
    pub server_profiler: Option<ServerProfiler>,
}

impl Endpoint {
    /// Seconds after which a request is a failure unless written.
    pub const TIMEOUT_S: f64 = 21_600.0;

    /// Whether replies are streams of tokens, which have metrics of their own.
    pub const fn streams_tokens(&self) -> bool {
        self.streaming && self.kind.produces_tokens()
    }

    /// A chat endpoint at `urls` that has every default.
    pub fn new(urls: Vec<Url>) -> Self {
        Self {
            urls,
            kind: EndpointKind::Chat,
            streaming: false,
            timeout: Some(Nanos::from_secs_f64(Self::TIMEOUT_S)),
            path: None,
            api_key: None,
            headers: Vec::new(),
            extra: serde_json::Map::new(),
            reuse: Reuse::Pooled,
            use_legacy_max_tokens: false,
            use_server_token_count: false,
            per_chunk_usage: false,
            download_video_content: false,
            uuid_and_strip: false,
            content_type: None,
            session_header: None,
            template: None,
            wait_for_model: None,
            reset_kv_cache: None,
            server_profiler: None,
        }
    }
}

/// What becomes of connections between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// One request per connection.
    Never,
    /// Any request takes any idle connection.
    Pooled,
    /// The turns of a session share one connection.
    Sticky,
}

impl Reuse {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Pooled => "pooled",
            Self::Sticky => "sticky-user-sessions",
        }
    }
}

/// How bodies are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// `multipart/form-data`.
    Form,
    /// `application/json`.
    Json,
}

/// Body and reply of an endpoint of the user's own kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTemplate {
    /// Template of the request body.
    pub body: Option<String>,
    /// Dotted path of the text in the reply.
    pub response_field: Option<String>,
}

/// Waiting for the server to be ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Longest wait, above 0.
    pub timeout: Nanos,
    /// Time between two looks, above 0.
    pub interval: Nanos,
    /// What is looked at.
    pub mode: ProbeMode,
}

/// What is looked at to see whether the server is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMode {
    /// The list of models, then a request.
    Both,
    /// A request of one token.
    Inference,
    /// The list of models.
    Models,
}

/// Emptying the server's cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResetCache {
    /// Longest wait for an answer; absent: the default.
    pub timeout_s: Option<f64>,
    /// How long a failure is tried again; absent: the default.
    pub max_retry_s: Option<f64>,
    /// Path of the hook.
    pub path: Option<String>,
}

/// Running the server's profiler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerProfiler {
    /// Longest wait for an answer; absent: the default.
    pub timeout_s: Option<f64>,
    /// Path of the start hook.
    pub start_path: Option<String>,
    /// Path of the stop hook.
    pub stop_path: Option<String>,
}

/// Endpoint dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// Speech to text.
    AudioTranscription,
    /// `POST /v1/chat/completions`.
    Chat,
    /// Embeddings of chat messages.
    ChatEmbeddings,
    /// Rankings as Cohere speaks them.
    CohereRankings,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/embeddings`.
    Embeddings,
    /// Rankings of Hugging Face's server.
    HfTeiRankings,
    /// Text generation of Hugging Face's server.
    HuggingfaceGenerate,
    /// Images from images.
    ImageEdit,
    /// Images from text.
    ImageGeneration,
    /// Objects found in images.
    ImageRetrieval,
    /// `POST /v1/messages`.
    Messages,
    /// Embeddings of NVIDIA's services.
    NimEmbeddings,
    /// Rankings of NVIDIA's services.
    NimRankings,
    /// Payloads of the dataset as they are.
    Raw,
    /// `POST /v1/responses`.
    Responses,
    /// Retrieval-augmented generation.
    SolidoRag,
    /// The user's own template.
    Template,
    /// Videos from text.
    VideoGeneration,
}

impl EndpointKind {
    /// All of them, as written in configs.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("audio_transcription", Self::AudioTranscription),
        ("chat", Self::Chat),
        ("cohere_rankings", Self::CohereRankings),
        ("completions", Self::Completions),
        ("responses", Self::Responses),
        ("messages", Self::Messages),
        ("chat_embeddings", Self::ChatEmbeddings),
        ("embeddings", Self::Embeddings),
        ("hf_tei_rankings", Self::HfTeiRankings),
        ("huggingface_generate", Self::HuggingfaceGenerate),
        ("image_generation", Self::ImageGeneration),
        ("image_edit", Self::ImageEdit),
        ("video_generation", Self::VideoGeneration),
        ("image_retrieval", Self::ImageRetrieval),
        ("nim_embeddings", Self::NimEmbeddings),
        ("nim_rankings", Self::NimRankings),
        ("solido_rag", Self::SolidoRag),
        ("raw", Self::Raw),
        ("template", Self::Template),
    ];

    /// As written in configs.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("chat", |(name, _)| name)
    }

    /// Whether replies can be streams.
    pub const fn can_stream(self) -> bool {
        match self {
            Self::Chat
            | Self::Completions
            | Self::HuggingfaceGenerate
            | Self::ImageGeneration
            | Self::Messages
            | Self::Raw
            | Self::Responses
            | Self::SolidoRag
            | Self::Template => true,
            Self::AudioTranscription
            | Self::ChatEmbeddings
            | Self::CohereRankings
            | Self::Embeddings
            | Self::HfTeiRankings
            | Self::ImageEdit
            | Self::ImageRetrieval
            | Self::NimEmbeddings
            | Self::NimRankings
            | Self::VideoGeneration => false,
        }
    }

    /// Whether bodies are forms.
    pub const fn is_form(self) -> bool {
        matches!(self, Self::AudioTranscription | Self::ImageEdit | Self::VideoGeneration)
    }

    /// Whether a tokenizer has anything to do.
    pub const fn counts_tokens(self) -> bool {
        !matches!(self, Self::AudioTranscription | Self::ImageRetrieval)
    }

    /// Whether replies have tokens that can be counted.
    pub const fn produces_tokens(self) -> bool {
        match self {
            Self::Chat
            | Self::Completions
            | Self::HuggingfaceGenerate
            | Self::Messages
            | Self::Raw
            | Self::Responses
            | Self::SolidoRag
            | Self::Template => true,
            Self::AudioTranscription
            | Self::ChatEmbeddings
            | Self::CohereRankings
            | Self::Embeddings
            | Self::HfTeiRankings
            | Self::ImageEdit
            | Self::ImageGeneration
            | Self::ImageRetrieval
            | Self::NimEmbeddings
            | Self::NimRankings
            | Self::VideoGeneration => false,
        }
    }

    /// Whether passages are ranked.
    pub const fn ranks(self) -> bool {
        matches!(self, Self::CohereRankings | Self::HfTeiRankings | Self::NimRankings)
    }

    /// Whether there is a place for a system prompt.
    pub const fn has_system_role(self) -> bool {
        matches!(self, Self::Chat | Self::ChatEmbeddings | Self::Messages | Self::Responses)
    }
}

/// One endpoint address, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// As written, with `http://` in front if it had no scheme, user name and password taken out.
    pub text: String,
    /// Host name or address, IPv6 without brackets; `localhost` with a unix socket.
    pub host: String,
    /// 1 to 65535; 80, or 443 with TLS, unless written.
    pub port: u16,
    /// Request target with the endpoint's path appended (and not doubled) and the query kept:
    /// `/v1/chat/completions`.
    pub target: String,
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// What stands before `@`, percent-encoded as written: a user name, and a password behind `:`. A secret:
    /// never shown.
    pub user_info: Option<String>,
    /// The unix socket that is connected to in place of host and port: absolute, at most
    /// [`SOCKET_PATH_BYTES_MAX`](crate::config::url::SOCKET_PATH_BYTES_MAX) bytes.
    pub socket: Option<PathBuf>,
}
