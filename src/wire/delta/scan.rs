//! One pass over the bytes of an ordinary chat message.
//!
//! It checks the grammar of the whole text, because a message that is not JSON has no content, and builds
//! nothing. Whatever is unusual - an escaped or repeated name that matters, a type that is not the
//! documented one, an exponent, a lone surrogate, deep nesting - ends the scan with no answer, and the
//! caller parses a tree instead. So it may know less than the tree, but never something else.

#![expect(clippy::option_option, reason = "the outer level is a surprise, the inner one an absent value")]

use crate::endpoint::Usage;
use crate::endpoint::usage::{
    ACCEPTED_KEY, AUDIO_KEY, AUDIO_SECONDS_KEY, CACHE_KEYS_ADDED, CACHE_MISS_KEY, CACHED_KEYS,
    COMPLETION_KEYS, Detail, PROMPT_KEYS, REASONING_KEY, REJECTED_KEY, TOOL_USE_KEY, TOTAL_KEYS,
    UsageDetails, WRAPPER_KEYS,
};
use crate::wire::delta::{Delta, Parts};
use crate::wire::plain;
use std::ops::Range;

pub(in crate::wire) mod dialects;

/// Deepest nesting scanned; far below what the tree accepts.
const DEPTH_MAX: u32 = 32;
/// Longest number scanned, in digits: it fits 64 bits and any double.
const DIGITS_MAX: usize = 18;

/// What the object `data` says, and where its one text stands; absent when the scan met a surprise.
///
/// The text is the inside of the only string that made the message content: with any other string that is
/// not empty in its place the message says the same. Absent inside when there is none or more than one.
pub(super) fn scan(data: &[u8]) -> Option<(Delta, Option<Range<usize>>)> {
    let mut scanner = Scanner { bytes: data, at: 0, text: Text::None };
    scanner.space();
    let delta = scanner.message()?;
    scanner.space();
    let text = match scanner.text {
        Text::One(range) if delta.content => Some(range),
        Text::One(_) | Text::None | Text::Several => None,
    };
    (scanner.at == data.len()).then_some((delta, text))
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    text: Text,
}

/// The strings that can make a message content, as far as they are not empty.
enum Text {
    None,
    /// The inside of the only one.
    One(Range<usize>),
    Several,
}

/// Which kind of chat object the message says it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chunk,
    Completion,
    Other,
}

/// Takes note that a name was met; absent when it was met before.
fn first<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    /// Whether `null` stands here; it is passed over.
    fn null(&mut self) -> Option<bool> {
        if self.peek()? == b'n' {
            self.word(b"null")?;
            return Some(true);
        }
        Some(false)
    }

    /// Calls `member` with each name of the object that starts here, the value being next.
    ///
    /// Names with escapes have no answer: they might be one that matters.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.string()?;
            if name.contains(&b'\\') {
                return None;
            }
            self.space();
            self.expect(b':')?;
            self.space();
            member(self, name)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
            self.space();
        }
    }

    /// Calls `item` before each item of the array that starts here.
    fn array(&mut self, mut item: impl FnMut(&mut Self, usize) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        let mut index = 0;
        loop {
            item(self, index)?;
            index += 1;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
            self.space();
        }
    }

    /// The inside of the string that starts here, as written.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            self.plain();
            match self.peek()? {
                b'"' => {
                    let inside = self.bytes.get(start..self.at);
                    self.at += 1;
                    return inside;
                }
                b'\\' => self.escape()?,
                // A control character: not JSON.
                _ => return None,
            }
        }
    }

    /// Passes over everything up to the next quote, backslash or control character.
    #[inline]
    fn plain(&mut self) {
        self.at += plain::length(self.bytes.get(self.at..).unwrap_or_default());
    }

    fn escape(&mut self) -> Option<()> {
        self.expect(b'\\')?;
        let kind = self.peek()?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => match self.hex4()? {
                0xd800..=0xdbff => {
                    self.word(b"\\u")?;
                    matches!(self.hex4()?, 0xdc00..=0xdfff).then_some(())
                }
                0xdc00..=0xdfff => None,
                _ => Some(()),
            },
            _ => None,
        }
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
    }

    /// A number without exponent; its value when it is a whole one and not negative.
    fn number(&mut self) -> Option<Option<u64>> {
        let negative = self.peek()? == b'-';
        if negative {
            self.at += 1;
        }
        let start = self.at;
        let mut value = 0_u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - start == DIGITS_MAX {
                return None;
            }
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        let digits = self.at - start;
        if digits == 0 || digits > 1 && self.bytes.get(start) == Some(&b'0') {
            return None;
        }
        match self.peek() {
            Some(b'.') => {
                self.at += 1;
                let start = self.at;
                while let Some(b'0'..=b'9') = self.peek() {
                    self.at += 1;
                }
                let exponent = matches!(self.peek(), Some(b'e' | b'E'));
                (self.at > start && !exponent).then_some(None)
            }
            Some(b'e' | b'E') => None,
            _ => Some((!negative).then_some(value)),
        }
    }

    /// A value that does not matter, at nesting `depth`.
    fn skip(&mut self, depth: u32) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.skip_object(depth + 1),
            b'[' => self.array(|scanner, _| scanner.skip(depth + 1)),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            _ => self.number().map(|_| ()),
        }
    }

    fn skip_object(&mut self, depth: u32) -> Option<()> {
        self.object(|scanner, _| scanner.skip(depth))
    }

    /// A string or null that can make the message content; whether it has something in it.
    fn text(&mut self) -> Option<bool> {
        if self.null()? {
            return Some(false);
        }
        let start = self.at + 1;
        let length = self.string()?.len();
        if length > 0 {
            self.text = match self.text {
                Text::None => Text::One(start..start + length),
                Text::One(_) | Text::Several => Text::Several,
            };
        }
        Some(length > 0)
    }

    fn message(&mut self) -> Option<Delta> {
        let (mut kind, mut choice, mut usage) = (None, None, None);
        self.object(|scanner, name| match name {
            b"object" => {
                let text = scanner.string()?;
                let found = match text {
                    b"chat.completion.chunk" => Kind::Chunk,
                    b"chat.completion" => Kind::Completion,
                    _ if text.contains(&b'\\') => return None,
                    _ => Kind::Other,
                };
                first(&mut kind, found)
            }
            b"choices" => {
                let found = scanner.choices()?;
                first(&mut choice, found)
            }
            b"usage" => {
                let found = if scanner.null()? { None } else { scanner.usage()? };
                first(&mut usage, found)
            }
            _ => scanner.skip(1),
        })?;
        let mut delta = Delta { usage: usage.flatten(), ..Delta::default() };
        let choice = choice.unwrap_or_default();
        match kind.unwrap_or(Kind::Other) {
            Kind::Chunk => choice.delta.apply(&mut delta),
            Kind::Completion => choice.message.apply(&mut delta),
            Kind::Other => {}
        }
        Some(delta)
    }

    /// The first choice.
    fn choices(&mut self) -> Option<Choice> {
        let mut choice = Choice::default();
        if self.null()? {
            return Some(choice);
        }
        self.array(|scanner, index| {
            if index == 0 {
                choice = scanner.choice()?;
                return Some(());
            }
            scanner.skip(2)
        })?;
        Some(choice)
    }

    fn choice(&mut self) -> Option<Choice> {
        let (mut delta, mut message) = (None, None);
        self.object(|scanner, name| match name {
            b"delta" => {
                let found = scanner.parts()?;
                first(&mut delta, found)
            }
            b"message" => {
                let found = scanner.parts()?;
                first(&mut message, found)
            }
            _ => scanner.skip(3),
        })?;
        Some(Choice { delta: delta.unwrap_or_default(), message: message.unwrap_or_default() })
    }

    fn parts(&mut self) -> Option<Parts> {
        if self.null()? {
            return Some(Parts::default());
        }
        let (mut text, mut reasoning, mut vendor_reasoning, mut tool_call) = (None, None, None, None);
        self.object(|scanner, name| {
            let place = match name {
                b"content" => &mut text,
                b"reasoning_content" => &mut reasoning,
                b"reasoning" => &mut vendor_reasoning,
                b"tool_calls" => {
                    let found = scanner.tool_calls()?;
                    return first(&mut tool_call, found);
                }
                _ => return scanner.skip(4),
            };
            let found = scanner.text()?;
            first(place, found)
        })?;
        Some(Parts {
            text: text == Some(true),
            reasoning: reasoning == Some(true) || vendor_reasoning == Some(true),
            tool_call: tool_call == Some(true),
        })
    }

    fn tool_calls(&mut self) -> Option<bool> {
        let mut any = false;
        if self.null()? {
            return Some(any);
        }
        self.array(|scanner, _| {
            let mut function = None;
            scanner.object(|scanner, name| match name {
                b"function" => {
                    let found = scanner.function()?;
                    first(&mut function, found)
                }
                _ => scanner.skip(6),
            })?;
            any |= function == Some(true);
            Some(())
        })?;
        Some(any)
    }

    fn function(&mut self) -> Option<bool> {
        if self.null()? {
            return Some(false);
        }
        let (mut called, mut arguments) = (None, None);
        self.object(|scanner, name| {
            let place = match name {
                b"name" => &mut called,
                b"arguments" => &mut arguments,
                _ => return scanner.skip(7),
            };
            let found = scanner.text()?;
            first(place, found)
        })?;
        Some(called == Some(true) || arguments == Some(true))
    }

    /// The counts under their usual names; absent inside for an object without members.
    fn usage(&mut self) -> Option<Option<Usage>> {
        let mut members = 0_u32;
        let (mut prompt, mut completion, mut total) = (None, None, None);
        let (mut prompt_details, mut completion_details) = (None, None);
        self.object(|scanner, name| {
            members += 1;
            match name {
                b"prompt_tokens" => {
                    let found = scanner.number()??;
                    first(&mut prompt, found)
                }
                b"completion_tokens" => {
                    let found = scanner.number()??;
                    first(&mut completion, found)
                }
                b"total_tokens" => {
                    let found = scanner.number()??;
                    first(&mut total, found)
                }
                b"prompt_tokens_details" => {
                    let found = scanner.details([b"cached_tokens", AUDIO_KEY.as_bytes()])?;
                    first(&mut prompt_details, found)
                }
                b"completion_tokens_details" => {
                    let found = scanner.details([
                        b"reasoning_tokens",
                        AUDIO_KEY.as_bytes(),
                        ACCEPTED_KEY.as_bytes(),
                        REJECTED_KEY.as_bytes(),
                    ])?;
                    first(&mut completion_details, found)
                }
                name if is_vendor_name(name) => None,
                _ => scanner.skip(2),
            }
        })?;
        let [cached, prompt_audio] = prompt_details.unwrap_or_default();
        let [reasoning, completion_audio, accepted, rejected] = completion_details.unwrap_or_default();
        Some((members > 0).then_some(Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: total,
            reasoning_tokens: reasoning,
            cached_tokens: cached,
            details: UsageDetails {
                prompt_audio_tokens: prompt_audio.and_then(Detail::new),
                completion_audio_tokens: completion_audio.and_then(Detail::new),
                accepted_prediction_tokens: accepted.and_then(Detail::new),
                rejected_prediction_tokens: rejected.and_then(Detail::new),
                ..UsageDetails::default()
            },
        }))
    }

    /// The counts `wanted` of a details object.
    fn details<const N: usize>(&mut self, wanted: [&[u8]; N]) -> Option<[Option<u64>; N]> {
        let mut counts = [None; N];
        if self.null()? {
            return Some(counts);
        }
        let mut met = [None; N];
        self.object(|scanner, name| {
            let mut places = wanted.iter().zip(counts.iter_mut().zip(&mut met));
            let Some((_, (count, met))) = places.find(|(wanted, _)| **wanted == name) else {
                return scanner.skip(3);
            };
            *count = if scanner.null()? { None } else { Some(scanner.number()??) };
            first(met, ())
        })?;
        Some(counts)
    }
}

/// What the first choice says under either name.
#[derive(Clone, Copy, Default)]
struct Choice {
    delta: Parts,
    message: Parts,
}

/// Whether a name of a usage object means something that only the tree understands.
fn is_vendor_name(name: &[u8]) -> bool {
    PROMPT_KEYS
        .iter()
        .chain(&COMPLETION_KEYS)
        .chain(&TOTAL_KEYS)
        .chain(&CACHE_KEYS_ADDED)
        .chain(&CACHED_KEYS)
        .chain(&WRAPPER_KEYS)
        .chain(&[REASONING_KEY, CACHE_MISS_KEY, AUDIO_SECONDS_KEY, TOOL_USE_KEY])
        .chain(&["input_tokens_details", "output_tokens_details"])
        .any(|vendor| vendor.as_bytes() == name)
}
