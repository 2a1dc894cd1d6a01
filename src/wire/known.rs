//! Messages that were read before and come again in every reply: the role, the first word, the finish.
//!
//! From reply to reply such a message differs in its `id` and, where it has content, in its text. One with
//! the same bytes around both says what the earlier one said and need not be read again, as long as neither
//! id nor text has an escape: the whole is then the same JSON with other strings in places that tell nothing.
//! Whoever reads several replies keeps one [`Known`] for all of them. What does not match is read in full;
//! nothing is ever guessed.

use std::ops::Range;

use crate::wire::delta::Delta;

/// How ordinary servers begin a message.
const BEGIN: &[u8] = b"data: {\"id\":\"";
/// Longest event worth remembering, in bytes.
const EVENT_BYTES_MAX: usize = 1_024;
/// Longest id that is passed over, in bytes.
const ID_BYTES_MAX: usize = 128;
/// Messages that are remembered.
const SHAPES_MAX: usize = 6;

/// What was read before, of one kind of reply.
#[derive(Debug, Default)]
pub struct Known {
    shapes: Vec<Shape>,
    /// The one that is looked at first: messages come in the same order in every reply.
    next: usize,
    /// The one that is forgotten next.
    oldest: usize,
}

/// An event from behind its id to the next event.
#[derive(Debug)]
struct Shape {
    /// All of it, or what stands before its text.
    before: Vec<u8>,
    /// What stands behind its text.
    behind: Vec<u8>,
    delta: Delta,
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
    let within = bytes.get(..limit).unwrap_or(bytes);
    let end = within.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..=0x1f))?;
    (within.get(end) == Some(&b'"')).then_some(end)
}

impl Known {
    /// Remembers `event`, which ends with its empty line, and what it says. `text` is the inside of the string
    /// that made it content, if it has any.
    pub(in crate::wire) fn learn(&mut self, event: &[u8], text: Option<&Range<usize>>, delta: Delta) {
        // Counts differ from reply to reply; content without a place for its text is not understood.
        if delta.usage.is_some() || delta.content != text.is_some() || event.len() > EVENT_BYTES_MAX {
            return;
        }
        let Some(rest) = event.strip_prefix(BEGIN).filter(|_| event.ends_with(b"\n\n")) else { return };
        let Some(id) = string(rest, ID_BYTES_MAX) else { return };
        let start = BEGIN.len() + id;
        let (before, behind) = match text {
            None => (event.get(start..), Some(&[][..])),
            Some(text) => {
                // A text with an escape would not be found again.
                let plain = event.get(text.start..).and_then(|rest| string(rest, EVENT_BYTES_MAX));
                if plain.is_none_or(|length| length == 0 || length != text.len()) {
                    return;
                }
                (event.get(start..text.start), event.get(text.end..))
            }
        };
        let (Some(before), Some(behind)) = (before, behind) else { return };
        let place = self.oldest;
        self.oldest = (self.oldest + 1) % SHAPES_MAX;
        self.next = self.oldest;
        match self.shapes.get_mut(place) {
            Some(shape) => {
                shape.before.clear();
                shape.before.extend_from_slice(before);
                shape.behind.clear();
                shape.behind.extend_from_slice(behind);
                shape.delta = delta;
            }
            None => self.shapes.push(Shape { before: before.to_vec(), behind: behind.to_vec(), delta }),
        }
    }

    /// The event at the start of `bytes`, if it is known and whole.
    #[inline]
    pub(in crate::wire) fn find(&mut self, bytes: &[u8]) -> Option<Found> {
        if self.shapes.is_empty() {
            return None;
        }
        let rest = bytes.strip_prefix(BEGIN)?;
        let id = string(rest, ID_BYTES_MAX)?;
        let (rest, start) = (rest.get(id..)?, BEGIN.len() + id);
        let count = self.shapes.len();
        for step in 0..count {
            let place = (self.next + step) % count;
            let Some(shape) = self.shapes.get(place) else { continue };
            let Some(rest) = rest.strip_prefix(shape.before.as_slice()) else { continue };
            let start = start + shape.before.len();
            let (taken, text) = if shape.delta.content {
                let Some(text) = string(rest, EVENT_BYTES_MAX).filter(|text| *text > 0) else { continue };
                if !rest.get(text..).is_some_and(|rest| rest.starts_with(&shape.behind)) {
                    continue;
                }
                (start + text + shape.behind.len(), Some(start..start + text))
            } else {
                (start, None)
            };
            self.next = (place + 1) % count;
            return Some(Found { taken, text, delta: shape.delta });
        }
        None
    }
}

#[cfg(test)]
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
