//! What a reply says, kept to be counted or to be sent back.
//!
//! A piece of text that stands alone in its message is taken over as it is; whatever else a message says is
//! read by the endpoint's own reader.

use crate::endpoint::{Capture, Content, Reader, Speech, Spoiled, Texts};
use crate::wire::delta::{self, Delta, Reading};

/// Room for texts beyond this is given back when the reply is over.
const RETAINED_BYTES_MAX: usize = 64 * 1024;

/// Whether the texts of a reply are kept to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepTexts {
    /// They are looked at and passed over.
    No,
    /// They are kept until the next reply, and put together as an answer that is sent back.
    SentBack,
    /// They are kept until the next reply.
    Yes,
}

/// The texts of one reply after another.
#[derive(Debug)]
pub(in crate::wire) struct Kept {
    texts: Texts,
    /// The reply as later turns send it back.
    answer: Option<Capture>,
    /// Reads chat messages that say more than one text.
    reader: Reader,
    /// A text without its escapes.
    plain: String,
}

impl Kept {
    /// Keeps what replies read by `reader` say, and puts them together as answers if they are sent back.
    pub(in crate::wire) fn new(reader: Reader, sends_back: bool) -> Self {
        let answer = sends_back.then(|| Capture::new(reader.clone()));
        Self { texts: Texts::default(), answer, reader, plain: String::new() }
    }

    /// Another one of the same kind with nothing kept.
    pub(in crate::wire) fn fresh(&self) -> Self {
        Self::new(self.reader.clone(), self.answer.is_some())
    }

    /// Gets ready for the next reply; keeps its room.
    pub(in crate::wire) fn reset(&mut self) {
        self.texts.clear();
        self.texts.shrink_to(RETAINED_BYTES_MAX);
        if let Some(answer) = &mut self.answer {
            answer.reset();
        }
    }

    /// Whether replies are sent back as answers.
    pub(in crate::wire) const fn sends_back(&self) -> bool {
        self.answer.is_some()
    }

    pub(in crate::wire) const fn texts(&self) -> &Texts {
        &self.texts
    }

    pub(in crate::wire) fn answer(&mut self) -> Option<&mut Capture> {
        self.answer.as_mut()
    }

    /// Takes the inside of a JSON string that is all that a chat message says.
    pub(in crate::wire) fn piece(&mut self, escaped: &[u8], speech: Speech) {
        let whole =
            if memchr::memchr(b'\\', escaped).is_none() { str::from_utf8(escaped).ok() } else { None };
        let text = if let Some(text) = whole {
            text
        } else {
            self.plain.clear();
            unescape(escaped, &mut self.plain);
            &self.plain
        };
        self.texts.push(text, speech);
        if let Some(answer) = &mut self.answer {
            answer.piece(text);
        }
    }

    /// Takes a chat message that says something else, or more.
    pub(in crate::wire) fn chat(&mut self, data: &[u8]) {
        if let Ok(reading) = self.reader.read(data)
            && let Some(content) = &reading.content
        {
            self.texts.add(content);
        }
        if let Some(answer) = &mut self.answer {
            answer.message(data);
        }
    }

    /// Takes a message of any other endpoint, whose content has been read.
    pub(in crate::wire) fn message(&mut self, data: &[u8], content: Option<&Content>) {
        if let Some(content) = content {
            self.texts.add(content);
        }
        if let Some(answer) = &mut self.answer {
            answer.message(data);
        }
    }
}

/// Reads a message of any endpoint type but chat.
pub(in crate::wire) fn read_any(reader: &mut Reader, kept: Option<&mut Kept>, data: &[u8]) -> Reading {
    // What is sent back is put together from the whole message.
    let is_sent_back = kept.as_ref().is_some_and(|kept| kept.sends_back());
    if !is_sent_back && let Some((delta, text)) = delta::read_ordinary(reader, data) {
        if let Some((kept, text)) = kept.zip(text) {
            kept.piece(data.get(text).unwrap_or_default(), speech(delta.output));
        }
        return Reading::Delta(delta);
    }
    match reader.read(data) {
        Ok(reading) => {
            if let Some(kept) = kept {
                kept.message(data, reading.content.as_ref());
            }
            Reading::Delta(Delta {
                content: reading.content.is_some(),
                output: reading.content.is_some_and(|content| content.is_output()),
                usage: reading.usage,
            })
        }
        Err(Spoiled::Array) => Reading::Array,
        Err(Spoiled::Scalar(type_name)) => Reading::Scalar(type_name),
    }
}

/// What the text of a message is that has but one.
pub(in crate::wire) const fn speech(output: bool) -> Speech {
    if output { Speech::Output } else { Speech::Reasoning }
}

/// Appends the text of which `escaped` is the inside of a JSON string. What is no text becomes replacement
/// characters, as everywhere else.
fn unescape(escaped: &[u8], out: &mut String) {
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        out.push_str(&String::from_utf8_lossy(plain));
        let (character, length) = unescaped(escape);
        out.push(character);
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(&String::from_utf8_lossy(rest));
}

/// The character that an escape stands for, and the length of the escape.
fn unescaped(escape: &[u8]) -> (char, usize) {
    let simple = |character| (character, 2);
    match escape.get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) => {
                let point = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                (char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
            }
            (Some(unit), _) => (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
            (None, _) => (char::REPLACEMENT_CHARACTER, 2),
        },
        Some(other) => simple(char::from(*other)),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

/// The code unit of an escape with four hexadecimal digits.
fn unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(escaped: &str) -> String {
        let mut out = String::new();
        unescape(escaped.as_bytes(), &mut out);
        out
    }

    #[test]
    fn escapes_are_characters() {
        assert_eq!(plain(r#"a\n\t\"\\\/\b\f\r"#), "a\n\t\"\\/\u{8}\u{c}\r");
        assert_eq!(plain(r"\u00e9\ud83d\ude00\u4e2d"), "\u{e9}\u{1f600}\u{4e2d}");
        assert_eq!(plain(r"\ud83dx"), "\u{fffd}x");
        assert_eq!(plain(r"\"), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn every_text_survives_its_json(text in any::<String>()) {
            let json = serde_json::Value::from(text.as_str()).to_string();
            prop_assert_eq!(plain(&json[1..json.len() - 1]), text);
        }
    }
}
