//! Replies as bytes: messages of a stream as chunks of the transfer coding, whole replies, errors.
//!
//! What does not change from request to request is rendered once per model; a reply is then a sequence of
//! copies. Writing into a buffer that is large enough allocates nothing.

use crate::mock::tongue::Tongue;

/// One generated token.
pub(super) const TOKEN: &str = " tok";

/// The end of a stream: the last event and the last chunk.
const DONE: &[u8] = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

/// Head of a streamed reply, without the line that may close the connection and the empty line.
const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nserver: phasor-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n";

/// What differs between two replies of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// Of the completion.
    pub(super) id: u64,
    /// Unix time in seconds.
    pub(super) created_s: u64,
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Length of a rendered identity.
const IDENTITY_BYTES: usize = 86;
const IDENTITY: &[u8; IDENTITY_BYTES] =
    b"\"id\":\"chatcmpl-0000000000000000\",\"object\":\"chat.completion.chunk\",\"created\":0000000000";

impl Identity {
    #[expect(clippy::cast_possible_truncation, reason = "digits are cut out on purpose")]
    fn render(self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = *IDENTITY;
        for (place, digit) in bytes[15..31].iter_mut().enumerate() {
            *digit = HEX[usize::from((self.id >> (60 - 4 * place)) as u8 & 15)];
        }
        let mut rest = self.created_s;
        for digit in bytes[IDENTITY_BYTES - 10..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        bytes
    }
}

/// A message around its identity.
#[derive(Debug)]
struct Message {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Message {
    fn new(rest: &[u8]) -> Self {
        let payload = b"data: {".len() + IDENTITY_BYTES + rest.len() + b"\n\n".len();
        let before = format!("{payload:x}\r\ndata: {{").into_bytes();
        let after = [rest, b"\n\n\r\n"].concat();
        Self { before, after }
    }

    fn write(&self, out: &mut Vec<u8>, identity: &[u8]) {
        out.extend_from_slice(&self.before);
        out.extend_from_slice(identity);
        out.extend_from_slice(&self.after);
    }
}

/// Sizes of one reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Tokens of the reply.
    pub(super) tokens: u32,
    /// Words of the prompt, called tokens.
    pub(super) prompt_tokens: u64,
    /// The request named the length.
    pub(super) limited: bool,
    /// A usage message is wanted.
    pub(super) usage: bool,
}

/// The rendered messages of one model.
#[derive(Debug)]
pub(super) struct Model {
    name: Vec<u8>,
    tongue: Tongue,
    tokens_per_message: u32,
    role: Message,
    /// A full message of content.
    content: Message,
    /// Messages of 1, 2, ... tokens, for what remains.
    rest: Vec<Message>,
    finish_length: Message,
    finish_stop: Message,
}

impl Model {
    /// `name` as escaped in JSON.
    pub(super) fn new(name: &[u8], tokens_per_message: u32, tongue: Tongue) -> Self {
        let choice = |delta: &str, finish: &str| {
            let tail = format!(
                "\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}"
            );
            Message::new(&[b",\"model\":\"", name, tail.as_bytes()].concat())
        };
        let content =
            |tokens: u32| choice(&format!("{{\"content\":\"{}\"}}", TOKEN.repeat(tokens as usize)), "null");
        Self {
            name: name.to_vec(),
            tongue,
            tokens_per_message,
            role: choice("{\"role\":\"assistant\",\"content\":\"\"}", "null"),
            content: content(tokens_per_message),
            rest: (1..tokens_per_message).map(content).collect(),
            finish_length: choice("{}", "\"length\""),
            finish_stop: choice("{}", "\"stop\""),
        }
    }

    /// Whether this is the model of that name in that tongue.
    pub(super) fn is(&self, name: &[u8], tongue: Tongue) -> bool {
        self.tongue == tongue && self.name == name
    }

    /// The name without its escapes.
    fn plain_name(&self) -> String {
        let quoted = [b"\"", self.name.as_slice(), b"\""].concat();
        serde_json::from_slice(&quoted).unwrap_or_default()
    }

    /// Messages of content in a reply.
    pub(super) fn messages(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens_per_message)
    }

    /// The messages `from..to` of content with what belongs around them: the role before the first, and
    /// finish, usage and end after the last.
    pub(super) fn write_messages(
        &self,
        out: &mut Vec<u8>,
        identity: Identity,
        extent: Extent,
        messages: std::ops::Range<u32>,
    ) {
        if self.tongue != Tongue::Chat {
            let name = self.plain_name();
            let per_message = self.tokens_per_message;
            self.tongue.write_messages(out, (identity, &name), extent, per_message, messages);
            return;
        }
        let identity = identity.render();
        if messages.start == 0 {
            self.role.write(out, &identity);
        }
        let whole = extent.tokens / self.tokens_per_message;
        for _ in messages.start..messages.end.min(whole) {
            self.content.write(out, &identity);
        }
        if messages.end < self.messages(extent.tokens) {
            return;
        }
        let remaining = extent.tokens % self.tokens_per_message;
        if remaining > 0
            && let Some(rest) = self.rest.get(remaining as usize - 1)
        {
            rest.write(out, &identity);
        }
        let finish = if extent.limited { &self.finish_length } else { &self.finish_stop };
        finish.write(out, &identity);
        if extent.usage {
            self.write_usage(out, &identity, extent);
        }
        out.extend_from_slice(DONE);
    }

    fn write_usage(&self, out: &mut Vec<u8>, identity: &[u8], extent: Extent) {
        let (prompt, completion) = (Decimal::new(extent.prompt_tokens), Decimal::new(extent.tokens.into()));
        let total = Decimal::new(extent.prompt_tokens + u64::from(extent.tokens));
        let pieces: [&[u8]; 12] = [
            b"data: {",
            identity,
            b",\"model\":\"",
            &self.name,
            b"\",\"choices\":[],\"usage\":{\"prompt_tokens\":",
            prompt.digits(),
            b",\"total_tokens\":",
            total.digits(),
            b",\"completion_tokens\":",
            completion.digits(),
            b"}}",
            b"\n\n",
        ];
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        write_hex(out, length);
        out.extend_from_slice(b"\r\n");
        for piece in pieces {
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// A reply that is not a stream, with its head.
    pub(super) fn write_whole(&self, out: &mut Vec<u8>, identity: Identity, extent: Extent, close: bool) {
        if self.tongue != Tongue::Chat {
            let name = self.plain_name();
            self.tongue.write_whole(out, (identity, &name), extent, close);
            return;
        }
        let identity = identity.render();
        let (prompt, completion) = (Decimal::new(extent.prompt_tokens), Decimal::new(extent.tokens.into()));
        let total = Decimal::new(extent.prompt_tokens + u64::from(extent.tokens));
        let finish: &[u8] = if extent.limited { b"length" } else { b"stop" };
        let before: [&[u8]; 6] = [
            b"{",
            &identity[..32],
            b",\"object\":\"chat.completion\"",
            &identity[IDENTITY_BYTES - 21..],
            b",\"model\":\"",
            &self.name,
        ];
        let opening: &[u8] =
            b"\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"";
        let after: [&[u8]; 9] = [
            b"\"},\"logprobs\":null,\"finish_reason\":\"",
            finish,
            b"\"}],\"usage\":{\"prompt_tokens\":",
            prompt.digits(),
            b",\"total_tokens\":",
            total.digits(),
            b",\"completion_tokens\":",
            completion.digits(),
            b"}}",
        ];
        let length = before.iter().chain(&after).map(|piece| piece.len()).sum::<usize>()
            + opening.len()
            + extent.tokens as usize * TOKEN.len();
        write_head(out, 200, "application/json", length, close, "");
        for piece in before {
            out.extend_from_slice(piece);
        }
        out.extend_from_slice(opening);
        for _ in 0..extent.tokens {
            out.extend_from_slice(TOKEN.as_bytes());
        }
        for piece in after {
            out.extend_from_slice(piece);
        }
    }
}

/// The head of a stream.
pub(super) fn write_stream_head(out: &mut Vec<u8>, close: bool) {
    out.extend_from_slice(STREAM_HEAD);
    if close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// The head of a reply of known length. `more` is further header lines, each with its end.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    status: u16,
    content_type: &str,
    length: usize,
    close: bool,
    more: &str,
) {
    let (status_digits, length) = (Decimal::new(status.into()), Decimal::new(length as u64));
    let pieces: [&[u8]; 9] = [
        b"HTTP/1.1 ",
        status_digits.digits(),
        b" ",
        reason(status).as_bytes(),
        b"\r\nserver: phasor-mock\r\ncontent-type: ",
        content_type.as_bytes(),
        b"\r\ncontent-length: ",
        length.digits(),
        b"\r\n",
    ];
    for piece in pieces {
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(more.as_bytes());
    if close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// An error in the manner of the OpenAI interface.
pub(super) fn error_body(status: u16, message: &str) -> String {
    let kind = match status {
        404 => "NotFoundError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        _ => "InternalServerError",
    };
    serde_json::json!({"error": {"message": message, "type": kind, "code": status}}).to_string()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// A number in decimal digits, without the formatting machinery.
pub(super) struct Decimal {
    bytes: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(super) fn new(number: u64) -> Self {
        let (mut bytes, mut start, mut rest) = ([b'0'; 20], 20, number);
        loop {
            start -= 1;
            bytes[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Self { bytes, start };
            }
        }
    }

    pub(super) fn digits(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

fn write_hex(out: &mut Vec<u8>, number: usize) {
    let digits = (usize::BITS - number.max(1).leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        out.push(HEX[(number >> (4 * place)) & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads of the chunks of a transfer coding, which must be well-formed to the last byte.
    fn chunks(mut bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let Ok(httparse::Status::Complete((line, length))) = httparse::parse_chunk_size(bytes) else {
                panic!("no chunk size in {:?}", String::from_utf8_lossy(bytes));
            };
            let end = line + usize::try_from(length).unwrap_or(usize::MAX);
            assert_eq!(&bytes[end..end + 2], b"\r\n");
            if length == 0 {
                assert_eq!(bytes.len(), end + 2);
                return found;
            }
            found.push(String::from_utf8_lossy(&bytes[line..end]).into_owned());
            bytes = &bytes[end + 2..];
        }
    }

    const WHO: Identity = Identity { id: 0x0123_4567_89ab_cdef, created_s: 1_700_000_001 };

    #[test]
    fn a_stream_in_pieces_equals_the_stream_in_one() {
        let model = Model::new(b"m\\\"1", 3, Tongue::Chat);
        let extent = Extent { tokens: 8, prompt_tokens: 12, limited: true, usage: true };
        let (mut one, mut pieces) = (Vec::new(), Vec::new());
        model.write_messages(&mut one, WHO, extent, 0..3);
        for message in 0..3 {
            model.write_messages(&mut pieces, WHO, extent, message..message + 1);
        }
        assert_eq!(one, pieces);
        let messages = chunks(&one);
        assert_eq!(messages.len(), 1 + 3 + 1 + 1 + 1);
        assert_eq!(messages[6], "data: [DONE]\n\n");
        let mut content = String::new();
        for message in &messages[..6] {
            let json = message.strip_prefix("data: ").and_then(|text| text.strip_suffix("\n\n"));
            let value: serde_json::Value = serde_json::from_str(json.unwrap_or_default()).unwrap_or_default();
            assert_eq!(value["id"], "chatcmpl-0123456789abcdef");
            assert_eq!(value["object"], "chat.completion.chunk");
            assert_eq!(value["created"], 1_700_000_001_u64);
            assert_eq!(value["model"], "m\"1");
            content += value["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            if let Some(usage) = value["usage"].as_object() {
                assert_eq!(value["choices"], serde_json::json!([]));
                assert_eq!(usage["total_tokens"], 20);
                assert_eq!(usage["completion_tokens"], 8);
            }
        }
        assert_eq!(content, " tok".repeat(8));
    }

    #[test]
    fn a_whole_reply_has_the_length_it_says() {
        let model = Model::new(b"m", 1, Tongue::Chat);
        let mut bytes = Vec::new();
        let extent = Extent { tokens: 5, prompt_tokens: 2, limited: false, usage: false };
        model.write_whole(&mut bytes, WHO, extent, true);
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(&format!("content-length: {}\r\nconnection: close", body.len())), "{head}");
        let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        assert_eq!(value["object"], "chat.completion");
        assert_eq!(value["created"], 1_700_000_001_u64);
        assert_eq!(value["choices"][0]["message"]["content"], " tok tok tok tok tok");
        assert_eq!(value["usage"]["prompt_tokens"], 2);
    }

    #[test]
    fn numbers_are_written_as_format_writes_them() {
        for number in [0, 1, 9, 10, 255, 256, 4_096, 65_535, 1 << 40] {
            assert_eq!(Decimal::new(number).digits(), number.to_string().as_bytes());
            let mut hex = Vec::new();
            write_hex(&mut hex, usize::try_from(number).unwrap_or(0));
            assert_eq!(hex, format!("{number:x}").as_bytes());
        }
    }
}
