//! Messages that differ from the one before only in their text.
//!
//! A server sends hundreds of messages that are equal but for a word. Once one of them has been read in full
//! and its text found, another one with the same bytes before and behind its text says the same: it need not
//! be read again. Only a text without escapes is passed over, so the whole is the same JSON with another
//! string in that one place. What does not match is read in full; nothing is ever guessed.

use std::ops::Range;

use crate::wire::plain;

/// Longest event worth remembering, in bytes.
const EVENT_BYTES_MAX: usize = 1_024;

/// The bytes around the text of the last message read in full.
#[derive(Debug, Default)]
pub(in crate::wire) struct Likeness {
    /// What stands before the text, and behind it what follows up to the next event.
    around: Vec<u8>,
    before: usize,
    /// The message had output, not reasoning alone.
    output: bool,
}

/// An event that differs from the one before only in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wire) struct Alike {
    /// Bytes up to the next event.
    pub(in crate::wire) taken: usize,
    /// Where its text stands; it has no escapes.
    pub(in crate::wire) text: Range<usize>,
    /// It has output, not reasoning alone.
    pub(in crate::wire) output: bool,
}

impl Likeness {
    /// Remembers `event`, which ends with its empty line; `text` is the inside of the string in it that made
    /// it content.
    pub(in crate::wire) fn learn(&mut self, event: &[u8], text: &Range<usize>, output: bool) {
        self.around.clear();
        self.before = 0;
        let (Some(before), Some(behind)) = (event.get(..text.start), event.get(text.end..)) else { return };
        if event.len() > EVENT_BYTES_MAX || !event.ends_with(b"\n\n") {
            return;
        }
        self.around.extend_from_slice(before);
        self.around.extend_from_slice(behind);
        self.before = text.start;
        self.output = output;
    }

    /// The event of this kind that `bytes` begin with.
    #[inline]
    pub(in crate::wire) fn matches(&self, bytes: &[u8]) -> Option<Alike> {
        let (before, behind) = self.around()?;
        let rest = bytes.strip_prefix(before)?;
        let text = plain::length(rest);
        let ends_alike = text > 0 && rest.get(text..)?.starts_with(behind);
        ends_alike.then(|| Alike {
            taken: before.len() + text + behind.len(),
            text: before.len()..before.len() + text,
            output: self.output,
        })
    }

    /// The text of `event`, if all of that is one event of this kind.
    #[inline]
    pub(in crate::wire) fn text_of<'a>(&self, event: &'a [u8]) -> Option<&'a [u8]> {
        let (before, behind) = self.around()?;
        let text = event.get(before.len()..event.len().checked_sub(behind.len())?)?;
        if text.is_empty() || !event.starts_with(before) || !event.ends_with(behind) {
            return None;
        }
        // What stands behind begins with the quote that ends the text: it is the first thing that can.
        (plain::length(event.get(before.len()..)?) == text.len()).then_some(text)
    }

    /// Whether it has output, not reasoning alone.
    #[inline]
    pub(in crate::wire) const fn has_output(&self) -> bool {
        self.output
    }

    #[inline]
    fn around(&self) -> Option<(&[u8], &[u8])> {
        self.around.split_at_checked(self.before).filter(|(_, behind)| !behind.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &[u8] = b"data: {\"a\":\"one\",\"b\":2}\n\n";

    fn learned() -> Likeness {
        let mut likeness = Likeness::default();
        likeness.learn(EVENT, &(12..15), true);
        likeness
    }

    #[test]
    fn an_event_with_another_text_is_alike() {
        let stream = b"data: {\"a\":\"another\",\"b\":2}\n\ndata:";
        let alike = Alike { taken: stream.len() - 5, text: 12..19, output: true };
        assert_eq!(learned().matches(stream), Some(alike));
        assert_eq!(learned().text_of(&stream[..stream.len() - 5]), Some(&b"another"[..]));
        assert_eq!(learned().text_of(stream), None);
        assert_eq!(learned().text_of(&[EVENT, EVENT].concat()), None);
    }

    #[test]
    fn anything_else_is_not() {
        let unlike: [&[u8]; 8] = [
            b"",
            b"data: {\"a\":\"\",\"b\":2}\n\n",
            b"data: {\"a\":\"o\\n\",\"b\":2}\n\n",
            b"data: {\"a\":\"o\nn\",\"b\":2}\n\n",
            b"data: {\"a\":\"one\",\"b\":3}\n\n",
            b"data: {\"a\":\"one\",\"b\":2}\n",
            b"data: {\"c\":\"one\",\"b\":2}\n\n",
            b"data: {\"a\":\"one",
        ];
        for bytes in unlike {
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(learned().matches(bytes), None, "{text}");
            assert_eq!(learned().text_of(bytes), None, "{text}");
        }
        assert_eq!(Likeness::default().matches(EVENT), None);
    }

    #[test]
    fn what_is_too_long_or_ends_otherwise_is_not_remembered() {
        let mut likeness = learned();
        likeness.learn(b"data: {\"a\":\"one\"}\r\n\r\n", &(12..15), true);
        assert_eq!(likeness.matches(EVENT), None);
        let mut long = b"data: {\"a\":\"".to_vec();
        long.resize(EVENT_BYTES_MAX, b'x');
        long.extend_from_slice(b"\"}\n\n");
        likeness.learn(&long, &(12..EVENT_BYTES_MAX), true);
        assert_eq!(likeness.matches(&long), None);
    }
}
