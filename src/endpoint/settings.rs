//! What an endpoint is asked to be, as far as payloads, headers and replies depend on it.

use serde_json::{Map, Value};

use crate::endpoint::Dialect;

/// The settings of one endpoint. The config's own type is converted into it in one place.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the user's")]
pub struct EndpointSettings {
    /// `endpoint.type`.
    pub dialect: &'static Dialect,
    /// The model of turns that name none.
    pub model: String,
    /// `endpoint.streaming`, already false for types that cannot stream.
    pub streaming: bool,
    /// `endpoint.extra`, in its order.
    pub extra: Map<String, Value>,
    /// `endpoint.headers`, in their order.
    pub headers: Vec<(String, String)>,
    /// `endpoint.api_key`; never shown.
    pub api_key: Option<String>,
    /// `endpoint.session_header`: the name to use instead of `X-Correlation-ID`.
    pub session_header: Option<String>,
    /// `X-Session-Affinity` with the session's identifier (on unless switched off).
    pub session_affinity: bool,
    /// `endpoint.use_legacy_max_tokens`: `max_tokens` instead of `max_completion_tokens` on chat.
    pub legacy_max_tokens: bool,
    /// `endpoint.use_server_token_count`.
    pub server_token_count: bool,
    /// `endpoint.per_chunk_usage`.
    pub per_chunk_usage: bool,
    /// A single text is a list of parts as well (`AIPERF_ENDPOINT_FORCE_CONTENT_PARTS`).
    pub force_content_parts: bool,
    /// `endpoint.request_content_type`.
    pub content_type: RequestContentType,
    /// `endpoint.template`.
    pub template: Option<TemplateSettings>,
}

/// How a payload is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestContentType {
    /// `application/json`.
    #[default]
    Json,
    /// `multipart/form-data`.
    Multipart,
}

/// `endpoint.template`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSettings {
    /// A named template, or the template itself (a file has been read before).
    pub body: String,
    /// Where the text of a reply stands; absent: it is looked for.
    pub response_field: Option<String>,
}

impl EndpointSettings {
    /// An endpoint of type `dialect` for `model`, with every default.
    pub fn new(dialect: &'static Dialect, model: &str) -> Self {
        Self {
            dialect,
            model: model.to_owned(),
            streaming: false,
            extra: Map::new(),
            headers: Vec::new(),
            api_key: None,
            session_header: None,
            session_affinity: true,
            legacy_max_tokens: false,
            server_token_count: false,
            per_chunk_usage: false,
            force_content_parts: false,
            content_type: RequestContentType::Json,
            template: None,
        }
    }

    /// Where the text of a reply stands, when it is not to be looked for: the template's field, and for raw
    /// payloads `extra.response_field`.
    pub fn response_field(&self) -> Option<&str> {
        let template = self.template.as_ref().and_then(|template| template.response_field.as_deref());
        let extra = || self.extra.get("response_field").and_then(Value::as_str);
        template.or_else(extra).filter(|field| !matches!(*field, "" | "text"))
    }
}
