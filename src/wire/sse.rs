//! Server-sent events: from pieces of a stream to the data of each message.
//!
//! [`Events`] finds the empty line that ends an event, for line feeds, carriage returns and both, looking at
//! each byte once; [`Message::read`] takes the fields of one event apart as AIPerf does.
//!
//! Where AIPerf 0.13 and the standard differ:
//!
//! | case | AIPerf | here |
//! |---|---|---|
//! | `\r\n\r\n` and `\n\n` in one stream | events between two `\n\n` are glued, depending on the reads | standard: each ends at its own empty line |
//! | lone carriage returns, `\r\n` mixed with `\n` in one empty line | not an end | standard: an end |
//! | byte order mark at the start | spoils the first field | standard: passed over |
//! | U+2028, U+2029, U+0085 and the like inside an event of several lines | end a line | standard: text |
//! | blanks around a value | all removed | as AIPerf, the ASCII ones (JSON does not care) |
//! | a last event without its empty line | counts | as AIPerf |
//! | a comment alone | a message without content | as AIPerf |
//! | a line feed inside a JSON text that was not escaped | repaired | as AIPerf |
//! | a line of blanks inside an event | passed over | as AIPerf |

use std::borrow::Cow;
use std::mem;

/// Largest event, in bytes.
pub(in crate::wire) const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts a stream into events.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::wire) struct Events {
    /// The current line has at least one byte.
    line_begun: bool,
    /// The last byte was a carriage return: a line feed now belongs to it.
    skips_line_feed: bool,
    /// Lines of the current event that have ended, up to two.
    lines: u8,
    /// The first event is behind: a byte order mark now is text.
    marked: bool,
}

/// One event as it stands in the stream.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Event<'a> {
    text: &'a [u8],
    /// No line end inside.
    single: bool,
}

/// What the stream brings next.
#[derive(Debug)]
pub(in crate::wire) enum Next {
    /// An event ended after so many bytes; the carried bytes and those are its text.
    Event {
        /// Bytes of the event's text.
        text: usize,
        /// Bytes up to the next event.
        taken: usize,
    },
    /// All bytes belong to an event that has not ended, except the first `skipped`.
    Starved {
        /// A line feed that belongs to the read before.
        skipped: usize,
    },
}

impl Events {
    /// Looks for the end of the current event.
    ///
    /// Every byte is looked at once: bytes that starve it are the caller's to carry.
    #[inline]
    pub(in crate::wire) fn next(&mut self, bytes: &[u8]) -> Next {
        let skipped = usize::from(self.skips_line_feed && bytes.first() == Some(&b'\n'));
        if !bytes.is_empty() {
            self.skips_line_feed = false;
        }
        let mut at = skipped;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(length) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.line_begun |= !rest.is_empty();
                return Next::Starved { skipped };
            };
            let end = at + length;
            at = end + 1;
            let ends_event = !mem::take(&mut self.line_begun) && length == 0;
            if rest.get(length) == Some(&b'\r') {
                // The event is over at its carriage return, whether a line feed is here, yet to come, or
                // neither: so it ends at the same byte however the stream is cut.
                match bytes.get(at) {
                    Some(b'\n') if !ends_event => at += 1,
                    Some(_) if !ends_event => {}
                    Some(_) | None => self.skips_line_feed = true,
                }
            }
            if ends_event {
                return Next::Event { text: end, taken: at };
            }
            self.lines = self.lines.saturating_add(1);
        }
    }

    /// Whether the next byte begins an event, and not the first one.
    #[inline]
    pub(in crate::wire) const fn is_between(self) -> bool {
        self.marked && self.is_at_event()
    }

    /// Whether the next byte begins an event, or the mark before the first one.
    #[inline]
    pub(in crate::wire) const fn is_at_event(self) -> bool {
        !self.line_begun && !self.skips_line_feed && self.lines == 0
    }

    /// A whole event, without a mark before it, was passed over.
    #[inline]
    pub(in crate::wire) const fn pass(&mut self) {
        self.marked = true;
    }

    /// The event whose text is `text`; its lines have been counted by [`Events::next`].
    #[inline]
    pub(in crate::wire) fn event<'a>(&mut self, text: &'a [u8]) -> Event<'a> {
        let lines = mem::take(&mut self.lines).saturating_add(u8::from(mem::take(&mut self.line_begun)));
        let text =
            if mem::replace(&mut self.marked, true) { text } else { text.strip_prefix(MARK).unwrap_or(text) };
        Event { text: text.trim_ascii(), single: lines <= 1 }
    }
}

/// What an event carries.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::wire) enum Message<'a> {
    /// Its data, blanks around it removed; possibly empty.
    Data(&'a [u8]),
    /// Nothing at all: not a message.
    Empty,
    /// An error event and its first comment, else its whole text.
    Error(String),
}

impl<'a> Message<'a> {
    /// Takes an event apart; data that does not stand in one piece is put together in `scratch`.
    #[inline]
    pub(in crate::wire) fn read(event: Event<'a>, scratch: &'a mut Vec<u8>) -> Self {
        if event.text.is_empty() {
            return Self::Empty;
        }
        match event.text.strip_prefix(b"data:") {
            Some(data) if event.single => Self::Data(data.trim_ascii_start()),
            _ => Self::read_lines(event.text, scratch),
        }
    }

    fn read_lines(text: &'a [u8], data: &'a mut Vec<u8>) -> Self {
        data.clear();
        let mut error = false;
        let mut comment: &[u8] = &[];
        let mut last = Last::Other { open: false };
        let mut any_data = false;
        for line in lines(text) {
            if last.is_open(data) && !line.starts_with(b"data:") {
                // A server wrote a line feed into a JSON text without escaping it.
                match &mut last {
                    Last::Data => {
                        data.extend_from_slice(b"\\n");
                        data.extend_from_slice(line);
                    }
                    Last::Other { open } => *open = !line.ends_with(b"}"),
                }
                continue;
            }
            let (name, value) = match memchr::memchr(b':', line) {
                Some(colon) => (
                    line.get(..colon).unwrap_or_default().trim_ascii(),
                    line.get(colon + 1..).unwrap_or_default().trim_ascii(),
                ),
                None => (line, &[][..]),
            };
            last = Last::Other { open: is_open(value) };
            match name {
                b"data" => {
                    if mem::replace(&mut any_data, true) {
                        data.push(b'\n');
                    }
                    data.extend_from_slice(value);
                    last = if is_open(value) { Last::Data } else { Last::Other { open: false } };
                }
                b"event" => error |= value.eq_ignore_ascii_case(b"error"),
                b"" if comment.is_empty() => comment = value,
                _ => {}
            }
        }
        if error {
            let message: Cow<str> = if comment.is_empty() {
                let whole: Vec<Cow<str>> = lines(text).map(String::from_utf8_lossy).collect();
                whole.join("\n").into()
            } else {
                String::from_utf8_lossy(comment)
            };
            return Self::Error(message.into_owned());
        }
        Self::Data(data.trim_ascii())
    }
}

/// The field that was read last, as far as a following line may continue it.
enum Last {
    /// A data field that began a JSON object.
    Data,
    /// Another field, or one that is closed.
    Other { open: bool },
}

impl Last {
    fn is_open(&self, data: &[u8]) -> bool {
        match self {
            Self::Data => !data.ends_with(b"}"),
            Self::Other { open } => *open,
        }
    }
}

/// Whether a value begins a JSON object and does not end it.
fn is_open(value: &[u8]) -> bool {
    value.starts_with(b"{") && !value.ends_with(b"}")
}

/// The lines that are not blank, blanks around them removed.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a stream that arrives in pieces.
    fn messages(pieces: &[&[u8]]) -> Vec<String> {
        let (mut events, mut carried, mut scratch) = (Events::default(), Vec::new(), Vec::new());
        let mut found = Vec::new();
        let mut take = |event: Event| match Message::read(event, &mut scratch) {
            Message::Data(data) => found.push(String::from_utf8_lossy(data).into_owned()),
            Message::Empty => {}
            Message::Error(message) => found.push(format!("error {message}")),
        };
        for piece in pieces {
            let mut rest = *piece;
            loop {
                match events.next(rest) {
                    Next::Event { text, taken } => {
                        carried.extend_from_slice(&rest[..text]);
                        take(events.event(&carried));
                        carried.clear();
                        rest = &rest[taken..];
                    }
                    Next::Starved { skipped } => {
                        carried.extend_from_slice(&rest[skipped..]);
                        break;
                    }
                }
            }
        }
        take(events.event(&carried));
        found
    }

    const STREAMS: &[(&str, &[&str])] = &[
        ("data: a\n\ndata: b\n\n", &["a", "b"]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        ("data: a\r\n\r\ndata: b\n\ndata: c\r\r", &["a", "b", "c"]),
        ("data: a\r\n\ndata: b\n\r\n", &["a", "b"]),
        ("data: a\n\ndata: b", &["a", "b"]),
        ("data: a\n\ndata: b\n", &["a", "b"]),
        ("data:a\n\ndata:  b  \n\ndata:\tc\n\n", &["a", "b", "c"]),
        ("\n\n\r\n\n data: a\n\n\n\n", &["a"]),
        ("data: a\ndata: b\n\n", &["a\nb"]),
        ("data: a\r\ndata: b\r\n\r\n", &["a\nb"]),
        ("data\n\n", &[""]),
        ("data:\n\n", &[""]),
        (": ping\n\n", &[""]),
        ("event: ping\ndata: {}\n\n", &["{}"]),
        ("id: 1\nretry: 5\ndata: a\nfoo: bar\n\n", &["a"]),
        ("\u{feff}data: a\n\ndata: \u{feff}b\n\n", &["a", "\u{feff}b"]),
        ("data: {\"x\":\"a\nb\"}\n\n", &["{\"x\":\"a\\nb\"}"]),
        ("data: {\"x\":\"a\n\u{20}b\nc\"}\ndata: d\n\n", &["{\"x\":\"a\\nb\\nc\"}\nd"]),
        ("event: Error\ndata: {\"m\":1}\n\n", &["error event: Error\ndata: {\"m\":1}"]),
        ("event: error\n: out of memory\ndata: x\n\n", &["error out of memory"]),
        ("event: error\n\n", &["error event: error"]),
        ("Data: a\n\n", &[""]),
        ("data: a: b\n\n", &["a: b"]),
        ("", &[]),
    ];

    #[test]
    fn every_stream_gives_the_same_messages_at_every_cut() {
        for (stream, expected) in STREAMS {
            for cut in 0..=stream.len() {
                let (left, right) = stream.as_bytes().split_at(cut);
                assert_eq!(messages(&[left, right]), *expected, "{stream:?} cut at {cut}");
            }
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(messages(&bytes), *expected, "{stream:?} byte by byte");
        }
    }
}
