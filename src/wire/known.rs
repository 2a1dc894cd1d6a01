//! What was read before and comes again in every reply: the head, the role, the first word, the finish, the
//! usage.
//!
//! From reply to reply such a message differs in its `id`, in its time, in its counts and, where it has
//! content, in its text. One with the same bytes around all of them says what the earlier one said, with its
//! own counts, and need not be read again, as long as neither id nor text has an escape and no count is zero:
//! the whole is then the same JSON with other values in places of which it is known what they tell. Whoever
//! reads several replies keeps one [`Known`] for all of them. What does not match is read in full; nothing
//! is ever guessed.

use std::ops::Range;

use crate::endpoint::Usage;
use crate::wire::delta::{self, Delta};
use crate::wire::head::Head;
use crate::wire::plain;

/// How ordinary servers begin a message.
const BEGIN: &[u8] = b"data: {\"id\":\"";
/// How they end a stream.
const DONE: &[u8] = b"data: [DONE]\n\n";
/// What stands before the JSON of an event and behind it.
const DATA: &[u8] = b"data: ";
const END: &[u8] = b"\n\n";
/// Longest event worth remembering, in bytes.
const EVENT_BYTES_MAX: usize = 1_024;
/// Longest head worth remembering, in bytes.
const HEAD_BYTES_MAX: usize = 1_024;
/// Longest id that is passed over, in bytes.
const ID_BYTES_MAX: usize = 128;
/// Messages that are remembered.
const SHAPES_MAX: usize = 6;
/// Most numbers of one message that are passed over.
const NUMBERS_MAX: usize = 12;
/// Longest number that is passed over, in digits.
const DIGITS_MAX: usize = 15;
/// Numbers of a probe: none of them stands in an ordinary message, and each has as many digits.
const PROBE: u64 = 987_654_321_000;

/// What was read before, of one kind of reply.
#[derive(Debug, Default)]
pub struct Known {
    head: Option<(Vec<u8>, Head)>,
    shapes: Vec<Shape>,
    /// The one that is looked at first: messages come in the same order in every reply.
    next: usize,
    /// The one that is forgotten next.
    oldest: usize,
    /// A message with other numbers, to learn what they tell.
    probe: Vec<u8>,
}

/// An event from behind its id to the next event.
#[derive(Debug, Default)]
struct Shape {
    /// What is the same in every reply: the literals between the holes, one behind the other.
    literals: Vec<u8>,
    /// Where each of them ends, but the last, and what stands behind it.
    holes: Vec<(usize, Hole)>,
    delta: Delta,
    /// Which number each count is, if there is a usage.
    counts: [Option<u8>; Usage::COUNTS],
}

/// What differs from reply to reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    /// A whole number above zero.
    Number,
    /// The text that makes it content.
    Text,
}

/// An event that was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wire) struct Found {
    /// Its length, up to the next event.
    pub(in crate::wire) taken: usize,
    /// Where its text stands, if it has content.
    pub(in crate::wire) text: Option<Range<usize>>,
    /// What it says.
    pub(in crate::wire) delta: Delta,
}

/// Bytes up to the end of a string in which nothing is escaped.
#[inline]
fn string(bytes: &[u8], limit: usize) -> Option<usize> {
    let end = plain::length(bytes.get(..limit).unwrap_or(bytes));
    (bytes.get(end) == Some(&b'"')).then_some(end)
}

/// A whole number above zero at the start of `bytes`, and its length.
#[inline]
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    let mut length = 0;
    while let Some(digit @ b'0'..=b'9') = bytes.get(length) {
        value = value * 10 + u64::from(digit - b'0');
        length += 1;
        if value == 0 || length > DIGITS_MAX {
            return None;
        }
    }
    (length > 0).then_some((value, length))
}

/// Where the time and the counts of an event stand, as far as they are above zero; the first few of them.
fn numbers(event: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let all = memchr::memchr_iter(b':', event).filter_map(|colon| {
        let name = event.get(..colon)?;
        if !name.ends_with(b"_tokens\"") && !name.ends_with(b"\"created\"") {
            return None;
        }
        let (_, length) = number(event.get(colon + 1..)?)?;
        let end = colon + 1 + length;
        matches!(event.get(end), Some(b',' | b'}')).then_some(colon + 1..end)
    });
    all.take(NUMBERS_MAX)
}

impl Known {
    /// Remembers the head that `bytes` are.
    pub(in crate::wire) fn learn_head(&mut self, bytes: &[u8], head: &Head) {
        if bytes.len() > HEAD_BYTES_MAX || !head.is_success() {
            return;
        }
        let (known, read) = self.head.get_or_insert_with(|| (Vec::new(), head.clone()));
        known.clear();
        known.extend_from_slice(bytes);
        read.clone_from(head);
    }

    /// The head at the start of `bytes`, if it is known and whole; its length.
    #[inline]
    pub(in crate::wire) fn find_head(&self, bytes: &[u8]) -> Option<(&Head, usize)> {
        let (known, head) = self.head.as_ref()?;
        bytes.starts_with(known).then_some((head, known.len()))
    }

    /// Remembers `event`, which ends with its empty line, and what it says. `text` is the inside of the string
    /// that made it content, if it has any.
    pub(in crate::wire) fn learn(&mut self, event: &[u8], text: Option<&Range<usize>>, delta: Delta) {
        // Content without a place for its text is not understood.
        if delta.content != text.is_some() || event.len() > EVENT_BYTES_MAX {
            return;
        }
        let Some(rest) = event.strip_prefix(BEGIN).filter(|_| event.ends_with(END)) else { return };
        let Some(id) = string(rest, ID_BYTES_MAX) else { return };
        // A text with an escape would not be found again.
        if let Some(text) = text {
            let plain = event.get(text.start..).and_then(|rest| string(rest, EVENT_BYTES_MAX));
            if plain.is_none_or(|length| length == 0 || length != text.len()) {
                return;
            }
        }
        let Some(counts) = self.probe(event, delta) else { return };
        let place = self.oldest;
        if place == self.shapes.len() {
            self.shapes.push(Shape::default());
        }
        let Some(shape) = self.shapes.get_mut(place) else { return };
        shape.learn(event, BEGIN.len() + id, text);
        shape.delta = delta;
        shape.counts = counts;
        self.oldest = (self.oldest + 1) % SHAPES_MAX;
        self.next = self.oldest;
    }

    /// Finds out which number of `event` each of its counts is: reads it with others in their places. Absent
    /// when that says anything else, or when a count is not one of the numbers.
    fn probe(&mut self, event: &[u8], delta: Delta) -> Option<[Option<u8>; Usage::COUNTS]> {
        let mut sources = [None; Usage::COUNTS];
        let Some(usage) = delta.usage else { return Some(sources) };
        self.probe.clear();
        let mut from = 0;
        let mut value = PROBE;
        for place in numbers(event) {
            self.probe.extend_from_slice(event.get(from..place.start)?);
            let mut digits = *b"000000000000";
            let mut rest = value;
            for digit in digits.iter_mut().rev() {
                *digit += u8::try_from(rest % 10).ok()?;
                rest /= 10;
            }
            self.probe.extend_from_slice(&digits);
            from = place.end;
            value += 1;
        }
        self.probe.extend_from_slice(event.get(from..)?);
        let json = self.probe.strip_prefix(DATA)?.strip_suffix(END)?;
        let probed = delta::read_scanned(json)?;
        if (probed.content, probed.output) != (delta.content, delta.output) {
            return None;
        }
        for ((source, count), before) in sources.iter_mut().zip(probed.usage?.counts()).zip(usage.counts()) {
            match (count, before) {
                (None, None) => {}
                (Some(count), Some(_)) if (PROBE..value).contains(&count) => {
                    *source = Some(u8::try_from(count - PROBE).ok()?);
                }
                _ => return None,
            }
        }
        Some(sources)
    }

    /// The event at the start of `bytes`, if it is known and whole.
    #[inline]
    pub(in crate::wire) fn find(&mut self, bytes: &[u8]) -> Option<Found> {
        let Some(rest) = bytes.strip_prefix(BEGIN) else {
            let done = Found { taken: DONE.len(), text: None, delta: Delta::default() };
            return bytes.starts_with(DONE).then_some(done);
        };
        let count = self.shapes.len();
        if count == 0 {
            return None;
        }
        let start = BEGIN.len() + string(rest, ID_BYTES_MAX)?;
        for step in 0..count {
            let place = (self.next + step) % count;
            if let Some(found) = self.shapes.get(place).and_then(|shape| shape.find(bytes, start)) {
                self.next = (place + 1) % count;
                return Some(found);
            }
        }
        None
    }
}

impl Shape {
    /// Takes `event` apart, from `start` on.
    fn learn(&mut self, event: &[u8], start: usize, text: Option<&Range<usize>>) {
        self.literals.clear();
        self.holes.clear();
        let mut from = start;
        let mut take = |place: &Range<usize>, hole: Hole| {
            self.literals.extend_from_slice(event.get(from..place.start).unwrap_or_default());
            self.holes.push((self.literals.len(), hole));
            from = place.end;
        };
        let mut text = text;
        for place in numbers(event) {
            if let Some(before) = text.take_if(|text| text.start < place.start) {
                take(before, Hole::Text);
            }
            take(&place, Hole::Number);
        }
        if let Some(text) = text {
            take(text, Hole::Text);
        }
        self.literals.extend_from_slice(event.get(from..).unwrap_or_default());
    }

    /// The event at the start of `bytes`, if it is of this kind; `start` is the end of its id.
    #[inline]
    fn find(&self, bytes: &[u8], start: usize) -> Option<Found> {
        let mut values = [0; NUMBERS_MAX];
        let mut values_left = values.iter_mut();
        let (mut at, mut from, mut text) = (start, 0, None);
        for (end, hole) in &self.holes {
            let literal = self.literals.get(from..*end)?;
            let rest = bytes.get(at..)?.strip_prefix(literal)?;
            at += literal.len();
            from = *end;
            at += match hole {
                Hole::Number => {
                    let (value, length) = number(rest)?;
                    *values_left.next()? = value;
                    length
                }
                Hole::Text => {
                    let length = string(rest, EVENT_BYTES_MAX).filter(|length| *length > 0)?;
                    text = Some(at..at + length);
                    length
                }
            };
        }
        let literal = self.literals.get(from..)?;
        if !bytes.get(at..)?.starts_with(literal) {
            return None;
        }
        let mut delta = self.delta;
        if delta.usage.is_some() {
            let value = |source: u8| values.get(usize::from(source)).copied();
            delta.usage = Some(Usage::of_counts(self.counts.map(|source| source.and_then(value))));
        }
        Some(Found { taken: at + literal.len(), text, delta })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const ROLE: &[u8] = b"data: {\"id\":\"one\",\"delta\":{\"role\":\"assistant\"}}\n\n";
    const WORD: &[u8] = b"data: {\"id\":\"one\",\"delta\":{\"content\":\"word\"}}\n\n";
    const CONTENT: Delta = Delta { content: true, output: true, usage: None };

    fn place(event: &[u8], text: &[u8]) -> Range<usize> {
        let start = event.windows(text.len()).position(|window| window == text).unwrap_or(0);
        start..start + text.len()
    }

    fn known() -> Known {
        let mut known = Known::default();
        known.learn(ROLE, None, Delta::default());
        known.learn(WORD, Some(&place(WORD, b"word")), CONTENT);
        known
    }

    #[test]
    fn another_id_and_another_text_say_the_same() {
        let mut known = known();
        let role = b"data: {\"id\":\"another\",\"delta\":{\"role\":\"assistant\"}}\n\ndata: {";
        let found = Found { taken: role.len() - 7, text: None, delta: Delta::default() };
        assert_eq!(known.find(role), Some(found));
        let word = b"data: {\"id\":\"\",\"delta\":{\"content\":\"a much longer text\"}}\n\n";
        let text = Some(place(word, b"a much longer text"));
        assert_eq!(known.find(word), Some(Found { taken: word.len(), text, delta: CONTENT }));
        assert!(known.find(ROLE).is_some());
    }

    #[test]
    fn anything_else_is_not_known() {
        let unlike: [&[u8]; 8] = [
            b"",
            b"data: {\"id\":\"a\\u0022\",\"delta\":{\"role\":\"assistant\"}}\n\n",
            b"data: {\"id\":\"a\nb\",\"delta\":{\"role\":\"assistant\"}}\n\n",
            b"data: {\"id\":\"a\",\"delta\":{\"role\":\"assistant\"}}\n",
            b"data: {\"id\":\"a\",\"delta\":{\"role\":\"user\"}}\n\n",
            b"data: {\"id\":\"a\",\"delta\":{\"content\":\"\"}}\n\n",
            b"data: {\"id\":\"a\",\"delta\":{\"content\":\"b\\n\"}}\n\n",
            b"data: {\"id\":\"a\",\"delta\":{\"content\":\"b",
        ];
        for bytes in unlike {
            assert_eq!(known().find(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(Known::default().find(ROLE), None);
    }

    const USAGE: &[u8] = b"data: {\"id\":\"one\",\"created\":7,\"usage\":{\"prompt_tokens\":5,\
        \"completion_tokens\":3,\"total_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n";

    fn usage_of(event: &[u8]) -> Option<Usage> {
        delta::read_scanned(&event[DATA.len()..event.len() - END.len()]).and_then(|delta| delta.usage)
    }

    #[test]
    fn other_counts_are_found_where_they_stand() {
        let mut known = Known::default();
        known.learn(USAGE, None, Delta { usage: usage_of(USAGE), ..Delta::default() });
        let text = String::from_utf8_lossy(USAGE).into_owned();
        let other = text
            .replace(":7,", ":1234567890,")
            .replace("\"prompt_tokens\":5", "\"prompt_tokens\":512")
            .replace("completion_tokens\":3", "completion_tokens\":31")
            .replace("cached_tokens\":2", "cached_tokens\":999999999999999");
        let usage = Usage {
            prompt_tokens: Some(512),
            completion_tokens: Some(31),
            total_tokens: Some(8),
            reasoning_tokens: None,
            cached_tokens: Some(999_999_999_999_999),
        };
        assert_eq!(usage_of(other.as_bytes()), Some(usage));
        let delta = Delta { usage: Some(usage), ..Delta::default() };
        assert_eq!(known.find(other.as_bytes()), Some(Found { taken: other.len(), text: None, delta }));
        for (from, to) in
            [("ns\":3", "ns\":0"), ("ns\":3", "ns\":03"), ("ns\":3", "ns\":3.5"), ("ns\":3", "ns\":-3")]
        {
            let unlike = text.replace(from, to);
            assert_ne!(unlike, text);
            assert_eq!(known.find(unlike.as_bytes()), None, "{unlike}");
        }
    }

    #[test]
    fn counts_that_are_no_number_of_the_message_are_not_remembered() {
        for (name, delta) in [
            // Not what the message says.
            ("completion_tokens", Delta { usage: Some(Usage::default()), ..Delta::default() }),
            // Zero is kept as it stands, and a count that is always zero is not learnt.
            (
                "total_tokens",
                Delta { usage: usage_of(b"data: {\"usage\":{\"total_tokens\":0}}\n\n"), ..Delta::default() },
            ),
        ] {
            let value = u8::from(name == "completion_tokens");
            let event = format!("data: {{\"id\":\"x\",\"usage\":{{\"{name}\":{value}}}}}\n\n");
            let mut known = Known::default();
            known.learn(event.as_bytes(), None, delta);
            assert!(known.shapes.is_empty(), "{event}");
        }
    }

    #[test]
    fn a_text_between_counts_and_the_end_of_a_stream_are_found() {
        let event = |text: &str, count: u32| {
            format!(
                "data: {{\"id\":\"a\",\"created\":{count},\"object\":\"chat.completion.chunk\",\
                 \"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":{{\"total_tokens\":{count}}}}}\n\n"
            )
        };
        let first = event("word", 4);
        let mut known = Known::default();
        let delta = Delta { usage: usage_of(first.as_bytes()), ..CONTENT };
        known.learn(first.as_bytes(), Some(&place(first.as_bytes(), b"word")), delta);
        let other = event("longer", 77);
        let text = Some(place(other.as_bytes(), b"longer"));
        let usage = Some(Usage { total_tokens: Some(77), ..Usage::default() });
        let found = Found { taken: other.len(), text, delta: Delta { usage, ..CONTENT } };
        assert_eq!(known.find(other.as_bytes()), Some(found));
        let done = Found { taken: DONE.len(), text: None, delta: Delta::default() };
        assert_eq!(known.find(b"data: [DONE]\n\n"), Some(done));
        assert_eq!(known.find(b"data: [DONE]\n"), None);
    }

    #[test]
    fn a_known_head_is_found_whole_and_none_of_a_fault() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        let mut known = Known::default();
        let head = Head::read(bytes).unwrap();
        known.learn_head(bytes, &head);
        assert_eq!(
            known.find_head(bytes).map(|(head, length)| (head.status, length)),
            Some((200, bytes.len()))
        );
        assert!(known.find_head(&bytes[..bytes.len() - 1]).is_none());
        assert!(known.find_head(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n").is_none());
        let error = b"HTTP/1.1 500 No\r\n\r\n";
        known.learn_head(error, &Head::read(error).unwrap());
        assert!(known.find_head(error).is_none());
    }

    #[test]
    fn a_few_messages_are_remembered_and_the_oldest_goes_first() {
        let mut known = known();
        let event = |index: usize| format!("data: {{\"id\":\"x\",\"choices\":[{index}]}}\n\n").into_bytes();
        for index in 0..SHAPES_MAX {
            known.learn(&event(index), None, Delta::default());
        }
        assert_eq!((known.find(ROLE), known.find(WORD)), (None, None));
        assert!((0..SHAPES_MAX).all(|index| known.find(&event(index)).is_some()));
    }

    #[test]
    fn what_cannot_come_again_is_not_remembered() {
        let mut known = Known::default();
        known.learn(WORD, None, CONTENT);
        known.learn(b"data: {\"id\":\"x\"}\r\n\r\n", None, Delta::default());
        let escaped = b"data: {\"id\":\"one\",\"delta\":{\"content\":\"w\\n\"}}\n\n";
        known.learn(escaped, Some(&place(escaped, b"w\\n")), CONTENT);
        known.learn(b"data: {\"a\":\"x\",\"id\":\"x\"}\n\n", None, Delta::default());
        assert!(known.shapes.is_empty());
    }
}
