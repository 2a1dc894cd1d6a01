//! From the bytes of a connection to whole requests: heads, bodies by length or in chunks, pipelined or
//! split anywhere. It answers nothing itself.

use crate::mock::body::{self, Chat};
use crate::mock::tongue::Tongue;

/// Longest head in bytes.
const HEAD_MAX: usize = 64 << 10;

/// Longest body in bytes.
const BODY_MAX: usize = 64 << 20;

/// Most header fields of one request.
const HEADERS_MAX: usize = 64;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// POST /v1/chat/completions, or why its body is none.
    Chat(Result<Chat, &'static str>),
    /// /health.
    Health,
    /// /dcgm/metrics.
    Gpus,
    /// /metrics.
    Metrics,
    /// /v1/models.
    Models,
    /// POST to another endpoint with text, or why its body is none.
    Other(Tongue, Result<Chat, &'static str>),
    /// A known path with another method than this.
    OtherMethod(&'static str),
    /// A path that is not served.
    Unknown,
}

/// A whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// What it is for.
    pub(super) route: Route,
    /// It is a HEAD request: the answer has no body.
    pub(super) head_only: bool,
    /// The client wants the connection closed after the answer.
    pub(super) close: bool,
}

/// A request that cannot be taken; the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The status to answer.
    pub(super) status: u16,
    /// Why.
    pub(super) message: &'static str,
}

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The client waits for a word before it sends the body.
    Continue,
    /// Not a whole request yet.
    More,
    /// Not a request.
    Refused(Refusal),
    /// One request, which is removed from the bytes.
    Request(Request),
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Waiting for the end of chunk lines and chunks; `body` has been moved together so far.
    Chunks { start: usize, body: usize, at: usize },
    /// Waiting for the end of the head.
    #[default]
    Head,
    /// Waiting for the end of a body of known length.
    Length { start: usize, end: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Chat,
    Health,
    Gpus,
    Metrics,
    Models,
    Other(Tongue),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Other,
    Post,
}

/// What the head said.
#[derive(Clone, Copy, Debug)]
struct Head {
    method: Method,
    path: Path,
    close: bool,
}

/// The bytes of one connection that have not become a request. Reused from connection to connection.
#[derive(Debug, Default)]
pub(super) struct Intake {
    input: Vec<u8>,
    stage: Stage,
    head: Option<Head>,
    /// The X-Request-ID of the latest request, empty when it had none.
    pub(super) request_id: Vec<u8>,
    /// The model of the latest request, as escaped in JSON.
    pub(super) model: Vec<u8>,
}

impl Intake {
    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.input.clear();
        self.stage = Stage::Head;
        self.head = None;
    }

    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// More has been pushed than any request may have.
    pub(super) fn flooded(&self) -> bool {
        self.input.len() > 2 * (HEAD_MAX + BODY_MAX)
    }

    /// Takes the next request. Call again after each request, and after each push.
    pub(super) fn take(&mut self) -> Taken {
        if matches!(self.stage, Stage::Head) {
            match self.take_head() {
                Ok(None) => {}
                Ok(Some(taken)) => return taken,
                Err((status, message)) => return Taken::Refused(Refusal { status, message }),
            }
        }
        let body = match self.stage {
            Stage::Head => return Taken::More,
            Stage::Length { start, end } => (self.input.len() >= end).then_some((start..end, end)),
            Stage::Chunks { start, .. } => match self.take_chunks() {
                Ok(None) => None,
                Ok(Some((body, end))) => Some((start..body, end)),
                Err((status, message)) => return Taken::Refused(Refusal { status, message }),
            },
        };
        let (Some((body, end)), Some(head)) = (body, self.head) else { return Taken::More };
        let route = match (head.path, head.method) {
            (Path::Chat, Method::Post) => {
                let body = self.input.get(body).unwrap_or_default();
                Route::Chat(body::read(body, &mut self.model))
            }
            (Path::Other(tongue), Method::Post) => {
                let body = self.input.get(body).unwrap_or_default();
                Route::Other(tongue, tongue.read(body, &mut self.model))
            }
            (Path::Chat | Path::Other(_), Method::Get | Method::Head | Method::Other) => {
                Route::OtherMethod("POST")
            }
            (Path::Unknown, _) => Route::Unknown,
            (_, Method::Other | Method::Post) => Route::OtherMethod("GET, HEAD"),
            (Path::Health, Method::Get | Method::Head) => Route::Health,
            (Path::Gpus, Method::Get | Method::Head) => Route::Gpus,
            (Path::Metrics, Method::Get | Method::Head) => Route::Metrics,
            (Path::Models, Method::Get | Method::Head) => Route::Models,
        };
        if end == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..end);
        }
        self.stage = Stage::Head;
        self.head = None;
        Taken::Request(Request { route, head_only: head.method == Method::Head, close: head.close })
    }

    fn take_head(&mut self) -> Result<Option<Taken>, (u16, &'static str)> {
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let start = match request.parse(&self.input) {
            Ok(httparse::Status::Complete(start)) => start,
            Ok(httparse::Status::Partial) if self.input.len() > HEAD_MAX => {
                return Err((431, "the head is too long"));
            }
            Ok(httparse::Status::Partial) => return Ok(Some(Taken::More)),
            Err(httparse::Error::TooManyHeaders) => return Err((431, "too many header fields")),
            Err(_) => return Err((400, "this is not an HTTP/1.1 request")),
        };
        if request.version != Some(1) {
            return Err((505, "HTTP/1.1 is spoken here"));
        }
        let method = match request.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            Some("POST") => Method::Post,
            Some(_) | None => Method::Other,
        };
        let target = request.path.unwrap_or_default();
        let path = match target.split_once('?').map_or(target, |(path, _)| path) {
            "/v1/chat/completions" => Path::Chat,
            "/health" => Path::Health,
            "/dcgm/metrics" => Path::Gpus,
            "/metrics" => Path::Metrics,
            "/v1/models" => Path::Models,
            path => Tongue::at(path).map_or(Path::Unknown, Path::Other),
        };
        let (mut length, mut chunked, mut close, mut expects) = (None, false, false, false);
        self.request_id.clear();
        for field in &*request.headers {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let says = |word: &[u8]| {
                field
                    .value
                    .split(|&byte| byte == b',')
                    .any(|item| item.trim_ascii().eq_ignore_ascii_case(word))
            };
            if is("content-length") {
                let value = std::str::from_utf8(field.value).ok().and_then(|digits| digits.parse().ok());
                let value: usize = value.ok_or((400, "the content-length is not a number"))?;
                if length.is_some_and(|length| length != value) {
                    return Err((400, "two different content-lengths"));
                }
                length = Some(value);
            } else if is("transfer-encoding") {
                if !says(b"chunked") {
                    return Err((501, "the transfer coding is not known"));
                }
                chunked = true;
            } else if is("connection") {
                close |= says(b"close");
            } else if is("expect") {
                expects = says(b"100-continue");
            } else if is("x-request-id") {
                self.request_id.extend_from_slice(field.value);
            }
        }
        if chunked && length.is_some() {
            return Err((400, "both a content-length and a transfer-encoding"));
        }
        let length = length.unwrap_or(0);
        if length > BODY_MAX {
            return Err((413, "the body is too long"));
        }
        self.head = Some(Head { method, path, close });
        self.stage = if chunked {
            Stage::Chunks { start, body: start, at: start }
        } else {
            Stage::Length { start, end: start + length }
        };
        let waits = expects && self.input.len() == start && (chunked || length > 0);
        Ok(waits.then_some(Taken::Continue))
    }

    /// Moves chunks together. Answers the ends of the body and of the request once all are there.
    fn take_chunks(&mut self) -> Result<Option<(usize, usize)>, (u16, &'static str)> {
        let Stage::Chunks { start, mut body, mut at } = self.stage else { return Ok(None) };
        let end = loop {
            let rest = self.input.get(at..).unwrap_or_default();
            let (line, length) = match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete(found)) => found,
                Ok(httparse::Status::Partial) if rest.len() > HEAD_MAX => {
                    return Err((400, "the chunk line is too long"));
                }
                Ok(httparse::Status::Partial) => break None,
                Err(_) => return Err((400, "the chunk size is not a number")),
            };
            if length == 0 {
                // Trailer fields, if any, end with an empty line, as a head does.
                let trailer = &rest[line..];
                let trailer_bytes = if trailer.starts_with(b"\r\n") {
                    Some(2)
                } else {
                    memchr::memmem::find(trailer, b"\r\n\r\n").map(|found| found + 4)
                };
                if trailer_bytes.is_none() && trailer.len() > HEAD_MAX {
                    return Err((431, "the trailer is too long"));
                }
                break trailer_bytes.map(|bytes| at + line + bytes);
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > BODY_MAX - (body - start).min(BODY_MAX) {
                return Err((413, "the body is too long"));
            }
            let (from, to) = (at + line, at + line + length);
            let Some(after) = self.input.get(to..to + 2) else { break None };
            if after != b"\r\n" {
                return Err((400, "a chunk does not end where it should"));
            }
            self.input.copy_within(from..to, body);
            body += length;
            at = to + 2;
        };
        self.stage = Stage::Chunks { start, body, at };
        Ok(end.map(|end| (body, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHAT: &str =
        r#"{"model":"m","messages":[{"role":"user","content":"a b c"}],"max_tokens":5,"stream":true}"#;

    fn by_length(body: &str) -> String {
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-ID: id-7\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn in_chunks(body: &str, size: usize) -> String {
        let mut text =
            "POST /v1/chat/completions?x=1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        for chunk in body.as_bytes().chunks(size) {
            let chunk = String::from_utf8_lossy(chunk);
            text = format!("{text}{:x};extension=1\r\n{chunk}\r\n", chunk.len());
        }
        text + "0\r\nTrailer: yes\r\n\r\n"
    }

    /// All requests of a byte stream that arrives in the given pieces.
    fn requests(pieces: &[&[u8]]) -> Vec<Taken> {
        let mut intake = Intake::default();
        let mut taken = Vec::new();
        for piece in pieces {
            intake.push(piece);
            loop {
                match intake.take() {
                    Taken::More => break,
                    Taken::Refused(refusal) => {
                        taken.push(Taken::Refused(refusal));
                        return taken;
                    }
                    other => taken.push(other),
                }
            }
        }
        taken
    }

    fn statuses(text: &str) -> Vec<u16> {
        let refused = |taken: &Taken| match taken {
            Taken::Refused(refusal) => Some(refusal.status),
            Taken::Continue | Taken::More | Taken::Request(_) => None,
        };
        requests(&[text.as_bytes()]).iter().filter_map(refused).collect()
    }

    #[test]
    fn pipelined_requests_come_one_after_the_other() {
        let text = format!(
            "{}{}GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n",
            by_length(CHAT),
            in_chunks(CHAT, 7)
        );
        let chat = Chat { stream: true, include_usage: false, tokens: Some(5), prompt_words: 3 };
        let request = |route, close| Taken::Request(Request { route, head_only: false, close });
        assert_eq!(
            requests(&[text.as_bytes()]),
            [
                request(Route::Chat(Ok(chat)), false),
                request(Route::Chat(Ok(chat)), false),
                request(Route::Metrics, true)
            ]
        );
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_status() {
        assert_eq!(statuses("hello\r\n\r\n"), [400]);
        assert_eq!(statuses("GET / HTTP/1.0\r\n\r\n"), [505]);
        assert_eq!(statuses("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"), [400]);
        assert_eq!(statuses("POST / HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n"), [413]);
        assert_eq!(statuses("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000001\r\n"), [413]);
        assert_eq!(statuses("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n"), [400]);
        assert_eq!(statuses("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), [501]);
        assert_eq!(statuses(&format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(HEAD_MAX))), [431]);
    }

    #[test]
    fn a_client_that_waits_for_a_word_is_noticed_once() {
        let text = by_length(CHAT).replace("Host: x", "Expect: 100-continue");
        let (head, body) = text.split_at(text.len() - CHAT.len());
        let taken = requests(&[head.as_bytes(), body.as_bytes()]);
        assert_eq!(taken.len(), 2);
        assert_eq!(taken[0], Taken::Continue);
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_requests(
            cuts in prop::collection::vec(0_usize..700, 0..12),
            size in 1_usize..40,
        ) {
            let text = [by_length(CHAT), in_chunks(CHAT, size), by_length("{}"), in_chunks("", 1)].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> =
                cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let whole = requests(&[text.as_bytes()]);
            prop_assert_eq!(whole.len(), 4);
            prop_assert_eq!(requests(&pieces), whole);
        }
    }
}
