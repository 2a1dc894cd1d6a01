//! Status line and headers: where they end, how the body is framed, what it holds.
//!
//! [`HeadEnd`] looks at every byte once, however the head is cut; the head itself is parsed when it is whole.

use std::mem::MaybeUninit;

use crate::wire::body::Framing;

/// Most headers of one reply.
const HEADERS_MAX: usize = 128;

/// Finds the empty line that ends a head, over any number of reads.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::wire) struct HeadEnd {
    /// A line that is not empty has begun: empty lines before it are allowed and mean nothing.
    begun: bool,
    line: Line,
}

/// What the current line holds so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    CarriageReturn,
    Text,
}

impl HeadEnd {
    /// The number of bytes up to and with the end of the head, when `bytes` brings it.
    pub(in crate::wire) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest);
            let line = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
            self.line = match (self.line, line) {
                (state, []) => state,
                (Line::Empty, [b'\r']) => Line::CarriageReturn,
                _ => Line::Text,
            };
            at += length? + 1;
            let empty = self.line != Line::Text;
            self.line = Line::Empty;
            if empty && self.begun {
                return Some(at);
            }
            self.begun |= !empty;
        }
    }
}

/// Whether `bytes`, the first of a reply, can be the beginning of an HTTP/1 head.
pub(in crate::wire) fn can_begin(bytes: &[u8]) -> bool {
    let begun = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    bytes.iter().skip(begun).zip(b"HTTP/1.").all(|(byte, expected)| byte == expected)
}

/// What a body holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::wire) enum Holds {
    /// Pictures, sound or bytes of no known type: one message without content.
    #[default]
    Binary,
    /// The text that explains an error status.
    Error,
    /// Server-sent events.
    Events,
    /// One text.
    Text,
}

/// A head, read.
#[derive(Clone, Debug)]
pub(in crate::wire) struct Head {
    pub status: u16,
    /// The reason phrase of an error status, possibly empty.
    pub reason: String,
    pub framing: Framing,
    pub holds: Holds,
    /// The connection outlives this reply, as far as the head tells.
    pub keeps_alive: bool,
}

impl Head {
    /// Whether the status is 200 to 299.
    pub(in crate::wire) const fn is_success(&self) -> bool {
        is_success(self.status)
    }

    /// Reads a whole head. The fault is what the parser says.
    pub(in crate::wire) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers,
        );
        match parsed {
            Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
            Ok(_) => return Err("a line end inside the head is malformed".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Err("the status line is incomplete".to_owned());
        };
        let fields = Fields::read(response.headers)?;
        let bodiless = matches!(status, 100..=199 | 204 | 304);
        let framing = match (bodiless, fields.coding, fields.length) {
            (true, _, _) => Framing::Counted { bytes_left: 0 },
            (false, Coding::Chunked, _) => Framing::chunked(),
            (false, Coding::Absent, Some(bytes_left)) => Framing::Counted { bytes_left },
            (false, Coding::Absent, None) | (false, Coding::Other, _) => Framing::UntilClose,
        };
        // A reply with both framings is how requests are smuggled: its connection is not trusted again.
        let ambiguous = fields.coding != Coding::Absent && (fields.length.is_some() || minor == 0);
        let asked = if minor == 0 { fields.keep_alive && !fields.close } else { !fields.close };
        let keeps_alive = asked && !ambiguous && status != 101 && !matches!(framing, Framing::UntilClose);
        let (reason, holds) = if is_success(status) {
            (String::new(), fields.holds)
        } else {
            (response.reason.unwrap_or_default().to_owned(), Holds::Error)
        };
        Ok(Self { status, reason, framing, holds, keeps_alive })
    }
}

const fn is_success(status: u16) -> bool {
    matches!(status, 200..=299)
}

/// How the body is coded for transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Absent,
    Chunked,
    Other,
}

/// The headers that matter.
#[derive(Debug, Default)]
struct Fields {
    coding: Coding,
    length: Option<u64>,
    close: bool,
    keep_alive: bool,
    holds: Holds,
}

impl Fields {
    fn read(headers: &[httparse::Header]) -> Result<Self, String> {
        let mut fields = Self::default();
        let mut typed = false;
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                for item in items(header.value) {
                    fields.count(item)?;
                }
            } else if is("transfer-encoding") {
                // The last coding decides.
                for item in items(header.value) {
                    let chunked = item.eq_ignore_ascii_case(b"chunked");
                    fields.coding = if chunked { Coding::Chunked } else { Coding::Other };
                }
            } else if is("connection") {
                for item in items(header.value) {
                    fields.close |= item.eq_ignore_ascii_case(b"close");
                    fields.keep_alive |= item.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if is("content-type") && !typed {
                typed = true;
                fields.holds = holds(header.value);
            }
        }
        Ok(fields)
    }

    /// Takes one content length; the same one may stand there again.
    fn count(&mut self, item: &[u8]) -> Result<(), String> {
        let wrong = || format!("the content length `{}` is not a number", String::from_utf8_lossy(item));
        if item.is_empty() || !item.iter().all(u8::is_ascii_digit) {
            return Err(wrong());
        }
        let length = item
            .iter()
            .try_fold(0_u64, |length, digit| length.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
        let length = length.ok_or_else(wrong)?;
        match self.length.replace(length) {
            Some(before) if before != length => Err("two content lengths differ".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The comma-separated items of a header's value.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// What a content type announces; its parameters do not matter.
fn holds(value: &[u8]) -> Holds {
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let begins =
        |prefix: &[u8]| kind.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix));
    if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Holds::Events
    } else if kind.is_empty()
        || kind.eq_ignore_ascii_case(b"application/octet-stream")
        || begins(b"video/")
        || begins(b"image/")
        || begins(b"audio/")
    {
        Holds::Binary
    } else {
        Holds::Text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_its_first_empty_line_however_it_is_cut() {
        for (text, end) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nrest", Some(25)),
            ("HTTP/1.1 200 OK\nA: b\n\nrest", Some(22)),
            ("HTTP/1.1 200 OK\r\n\r\n", Some(19)),
            ("\r\n\nHTTP/1.1 200 OK\n\r\n", Some(21)),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r", None),
            ("HTTP/1.1 200 OK\r\nA: b\r\n \r\n", None),
            ("\r\n\r\n", None),
        ] {
            for cut in 0..=text.len() {
                let mut finder = HeadEnd::default();
                let (left, right) = text.as_bytes().split_at(cut);
                let found = finder.find(left).or_else(|| finder.find(right).map(|end| end + cut));
                assert_eq!(found, end, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn framing_follows_status_and_headers() {
        let table: &[(&str, &str, bool)] = &[
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "Counted { bytes_left: 5 }", true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n", "Counted { bytes_left: 5 }", true),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Close\r\n\r\n",
                "Counted { bytes_left: 5 }",
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "Counted { bytes_left: 5 }", false),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\n",
                "Counted { bytes_left: 5 }",
                true,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", "Counted { bytes_left: 0 }", true),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "Counted { bytes_left: 0 }", true),
            ("HTTP/1.1 200 OK\r\n\r\n", "UntilClose", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "UntilClose", false),
        ];
        for (text, framing, keeps_alive) in table {
            let head = Head::read(text.as_bytes()).unwrap();
            assert_eq!(
                (&*format!("{:?}", head.framing), head.keeps_alive),
                (*framing, *keeps_alive),
                "{text}"
            );
        }
        for (text, keeps_alive) in [
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n", false),
        ] {
            let head = Head::read(text.as_bytes()).unwrap();
            assert!(matches!(head.framing, Framing::Chunked(_)), "{text}");
            assert_eq!(head.keeps_alive, keeps_alive, "{text}");
        }
    }

    #[test]
    fn heads_that_lie_are_refused() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 abc OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        ] {
            assert!(Head::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_content_type_decides_what_a_success_holds() {
        for (kind, expected) in [
            ("Content-Type: TEXT/Event-Stream; charset=utf-8\r\n", Holds::Events),
            ("Content-Type: application/json\r\n", Holds::Text),
            ("Content-Type: text/plain\r\n", Holds::Text),
            ("Content-Type: image/png\r\n", Holds::Binary),
            ("Content-Type: application/octet-stream\r\n", Holds::Binary),
            ("", Holds::Binary),
        ] {
            let head = Head::read(format!("HTTP/1.1 200 OK\r\n{kind}\r\n").as_bytes()).unwrap();
            assert_eq!(head.holds, expected, "{kind}");
        }
        let head = Head::read(b"HTTP/1.1 503 \r\nContent-Type: text/event-stream\r\n\r\n").unwrap();
        assert_eq!((head.holds, &*head.reason), (Holds::Error, ""));
    }

    #[test]
    fn what_cannot_begin_a_head_is_known_at_once() {
        for (text, can) in [
            ("", true),
            ("H", true),
            ("\r\nHTTP/1", true),
            ("HTTP/1.1 2", true),
            ("SSH-2.0", false),
            ("HTTP/2 ", false),
        ] {
            assert_eq!(can_begin(text.as_bytes()), can, "{text:?}");
        }
    }
}
