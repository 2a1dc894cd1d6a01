//! The headers of a request, in AIPerf's order.

use crate::config::url::percent_decoded;
use crate::endpoint::{EndpointError, EndpointSettings, RequestContentType};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderValue {
    /// The same in every request.
    Fixed(String),
    /// The session's identifier.
    SessionId,
    /// The request's identifier.
    RequestId,
}

/// Names and values, in order; `Host` and `Content-Length` are not among them.
pub type Headers = Vec<(String, HeaderValue)>;

impl EndpointSettings {
    /// The headers of a turn with these headers of its own.
    ///
    /// A name in the same spelling replaces the value where it stands; `Accept` and `Content-Type` are the
    /// endpoint's whatever anybody says, and sent once.
    ///
    /// # Errors
    /// A header that would break the request.
    pub fn request_headers(&self, of_turn: &[(String, String)]) -> Result<Headers, EndpointError> {
        let fixed = |value: &str| HeaderValue::Fixed(value.to_owned());
        let mut headers = Headers::new();
        put(&mut headers, "User-Agent", fixed(concat!("phasor/", env!("CARGO_PKG_VERSION"))));
        put(&mut headers, "X-Request-ID", HeaderValue::RequestId);
        let session = self.session_header.as_deref().unwrap_or("X-Correlation-ID");
        put(&mut headers, session, HeaderValue::SessionId);
        for (name, value) in &self.headers {
            put(&mut headers, name, fixed(value));
        }
        let anthropic = self.dialect.name == "messages";
        match &self.api_key {
            Some(key) if anthropic => put(&mut headers, "x-api-key", fixed(key)),
            Some(key) => put(&mut headers, "Authorization", fixed(&format!("Bearer {key}"))),
            None => {}
        }
        let has_version = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("anthropic-version"));
        if anthropic && !has_version {
            put(&mut headers, "anthropic-version", fixed("2023-06-01"));
        }
        for (name, value) in of_turn {
            put(&mut headers, name, fixed(value));
        }
        let accept = if self.streaming { "text/event-stream" } else { "application/json" };
        put_once(&mut headers, "Accept", fixed(accept));
        match self.content_type {
            RequestContentType::Json => put_once(&mut headers, "Content-Type", fixed("application/json")),
            // The boundary is the writer's to say.
            RequestContentType::Multipart => {
                headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Content-Type"));
            }
        }
        if self.session_affinity {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("X-Session-Affinity"));
            put(&mut headers, "X-Session-Affinity", HeaderValue::SessionId);
        }
        headers.iter().try_for_each(|(name, value)| check(name, value))?;
        Ok(headers)
    }
}

/// The value of the `Authorization` header for `user_info`, the part of an address before `@`.
pub fn basic_authorization(user_info: &str) -> String {
    // An address whose user name cannot be decoded is refused when the config is read.
    let decoded = percent_decoded(user_info).unwrap_or_default();
    let mut credentials = decoded;
    if !user_info.contains(':') {
        credentials.push(b':');
    }
    format!("Basic {}", STANDARD.encode(credentials))
}

fn put(headers: &mut Headers, name: &str, value: HeaderValue) {
    match headers.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => headers.push((name.to_owned(), value)),
    }
}

/// Puts a header and takes out every other spelling of it.
fn put_once(headers: &mut Headers, name: &str, value: HeaderValue) {
    headers.retain(|(known, _)| known == name || !known.eq_ignore_ascii_case(name));
    put(headers, name, value);
}

/// Headers that say where a message ends are the writer's.
const RESERVED: [&str; 4] = ["Connection", "Content-Length", "Host", "Transfer-Encoding"];

fn check(name: &str, value: &HeaderValue) -> Result<(), EndpointError> {
    let refuse = |reason| Err(EndpointError::Header { name: name.to_owned(), reason });
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return refuse("its name may have letters, digits and hyphens only");
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return refuse("phasor writes it itself: take it out of `endpoint.headers`");
    }
    match value {
        HeaderValue::Fixed(value)
            if value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) =>
        {
            refuse("its value has a line end or another control character")
        }
        HeaderValue::Fixed(_) | HeaderValue::RequestId | HeaderValue::SessionId => Ok(()),
    }
}
