//! The same pass over ordinary messages of the other endpoint types with text.
//!
//! As for chat, what surprises it is left to the tree; a test holds the two against each other. What a
//! message means may depend on earlier ones of its reply: that is the caller's to know, see [`Past`].

use crate::endpoint::usage::{ACCEPTED_KEY, AUDIO_KEY, REJECTED_KEY};
use crate::endpoint::{Reader, Usage, UsageParts};
use crate::wire::delta::Delta;
use crate::wire::delta::scan::{Scanner, Text, first, is_vendor_name};
use std::ops::Range;

/// A message as it stands alone.
struct Said {
    delta: Delta,
    /// The inside of the string that is its content, also an empty one where that counts.
    text: Option<Range<usize>>,
    past: Past,
}

/// What a message has to do with earlier ones of its reply.
enum Past {
    /// It is a piece of the text in this place.
    Begins([Option<u64>; 2]),
    /// It has the text in this place whole, which is nothing new where pieces of it came before.
    Ends([Option<u64>; 2]),
    /// Nothing.
    Free,
    /// These counts go over earlier ones.
    Merges(UsageParts),
}

/// What a message says to `reader`, and where the inside of its text stands; absent when the tree is needed.
pub(in crate::wire) fn read(reader: &mut Reader, data: &[u8]) -> Option<(Delta, Option<Range<usize>>)> {
    let mut scanner = Scanner { bytes: data, at: 0, text: Text::None };
    scanner.space();
    let mut said = match reader.dialect().name {
        "completions" => scanner.completion()?,
        "huggingface_generate" => scanner.generated()?,
        "messages" => scanner.anthropic()?,
        "responses" => scanner.response_event()?,
        _ => return None,
    };
    scanner.space();
    if scanner.at != data.len() {
        return None;
    }
    match said.past {
        Past::Begins(place) => reader.saw_delta(place),
        Past::Ends(place) if reader.has_seen_delta(place) => said = Said::content(Some(0..0), true),
        Past::Ends(_) | Past::Free => {}
        Past::Merges(parts) => said.delta.usage = Some(reader.merge_parts(&parts)?),
    }
    Some((said.delta, said.text))
}

impl Said {
    const NOTHING: Self =
        Self { delta: Delta { content: false, output: false, usage: None }, text: None, past: Past::Free };

    /// A text that counts wherever there is one.
    fn content(text: Option<Range<usize>>, output: bool) -> Self {
        let content = text.is_some();
        Self { delta: Delta { content, output: content && output, usage: None }, text, past: Past::Free }
    }

    /// A text that counts if there is something in it.
    fn full(text: Option<Range<usize>>, output: bool) -> Self {
        Self::content(text.filter(|text| !text.is_empty()), output)
    }
}

/// The type of a delta, and the inside of its text, thinking and input.
type BlockDelta<'a> = (&'a [u8], [Option<Range<usize>>; 3]);

/// Texts of which one can be told.
#[derive(Default)]
struct Joined {
    one: Option<Range<usize>>,
}

impl Joined {
    /// Takes one more; absent when they would have to be joined.
    fn add(&mut self, text: Option<Range<usize>>) -> Option<()> {
        match text.filter(|text| !text.is_empty()) {
            Some(text) => first(&mut self.one, text),
            None => Some(()),
        }
    }
}

impl<'a> Scanner<'a> {
    /// The inside of the string that stands here; absent inside for any other value, which is passed over.
    fn inside(&mut self, depth: u32) -> Option<Option<Range<usize>>> {
        if self.peek()? != b'"' {
            self.skip(depth)?;
            return Some(None);
        }
        let start = self.at + 1;
        let length = self.string()?.len();
        Some(Some(start..start + length))
    }

    /// A string that says what something is; empty for any other value. With an escape it has no answer.
    fn kind(&mut self, depth: u32) -> Option<&'a [u8]> {
        let range = self.inside(depth)?.unwrap_or(0..0);
        let kind = self.bytes.get(range)?;
        (!kind.contains(&b'\\')).then_some(kind)
    }

    /// A whole number that is not negative; absent inside for any other value.
    fn index(&mut self, depth: u32) -> Option<Option<u64>> {
        if self.peek()?.is_ascii_digit() {
            return self.number();
        }
        self.skip(depth)?;
        Some(None)
    }

    fn completion(&mut self) -> Option<Said> {
        let (mut kind, mut text, mut usage) = (None, None, None);
        self.object(|scanner, name| match name {
            b"object" => {
                let found = scanner.kind(1)?;
                first(&mut kind, found)
            }
            b"choices" => {
                let found = scanner.first_choice_text()?;
                first(&mut text, found)
            }
            b"usage" => {
                let found = if scanner.null()? { None } else { scanner.usage()? };
                first(&mut usage, found)
            }
            _ => scanner.skip(1),
        })?;
        let is_known = matches!(kind, Some(b"completion" | b"text_completion"));
        let mut said = Said::full(text.flatten().filter(|_| is_known), true);
        said.delta.usage = usage.flatten();
        Some(said)
    }

    fn first_choice_text(&mut self) -> Option<Option<Range<usize>>> {
        let mut text = None;
        if self.null()? {
            return Some(None);
        }
        self.array(|scanner, index| {
            if index > 0 {
                return scanner.skip(2);
            }
            scanner.object(|scanner, name| match name {
                b"text" => {
                    let found = scanner.inside(3)?;
                    first(&mut text, found)
                }
                _ => scanner.skip(3),
            })
        })?;
        Some(text.flatten())
    }

    fn generated(&mut self) -> Option<Said> {
        let (mut token, mut whole) = (None, None);
        self.object(|scanner, name| match name {
            b"token" => {
                let mut text = None;
                scanner.object(|scanner, name| match name {
                    b"text" => {
                        let found = scanner.inside(2)?;
                        first(&mut text, found)
                    }
                    _ => scanner.skip(2),
                })?;
                first(&mut token, text.flatten())
            }
            b"generated_text" => {
                let found = scanner.inside(1)?;
                first(&mut whole, found)
            }
            _ => scanner.skip(1),
        })?;
        Some(Said::full(token.unwrap_or_else(|| whole.flatten()), true))
    }

    fn anthropic(&mut self) -> Option<Said> {
        let (mut kind, mut delta, mut usage, mut of_message, mut blocks) = (None, None, None, None, None);
        self.object(|scanner, name| match name {
            b"type" => {
                let found = scanner.kind(1)?;
                first(&mut kind, found)
            }
            b"delta" if scanner.peek()? == b'{' => {
                let found = scanner.block_delta()?;
                first(&mut delta, found)
            }
            b"usage" if scanner.peek()? == b'{' => {
                let found = scanner.usage_parts(2)?;
                first(&mut usage, found)
            }
            b"message" if scanner.peek()? == b'{' => {
                let found = scanner.member_usage()?;
                first(&mut of_message, found)
            }
            b"content" if scanner.peek()? == b'[' => {
                let found = scanner.typed_texts(b"text", 2)?;
                first(&mut blocks, found)
            }
            _ => scanner.skip(1),
        })?;
        match kind {
            Some(b"content_block_delta") => Some(match delta {
                Some((b"text_delta", [text, _, _])) => Said::full(text, true),
                Some((b"thinking_delta", [_, thinking, _])) => Said::full(thinking, false),
                Some((b"input_json_delta", [_, _, call])) => Said::full(call, true),
                Some(_) | None => Said::NOTHING,
            }),
            Some(b"message_start") => Self::merging(of_message.flatten()),
            Some(b"message_delta") => Self::merging(usage),
            Some(b"message") => {
                // Anything but texts is for the tree.
                let mut said = Said::full(blocks.flatten()?.one, true);
                said.delta.usage = usage.map(|parts| parts.usage());
                Some(said)
            }
            Some(_) | None => Some(Said::NOTHING),
        }
    }

    fn merging(parts: Option<UsageParts>) -> Option<Said> {
        Some(match parts {
            // A part of the details goes over all of them.
            Some(parts) if parts.has_details() => return None,
            Some(parts) => Said { past: Past::Merges(parts), ..Said::NOTHING },
            None => Said::NOTHING,
        })
    }

    fn block_delta(&mut self) -> Option<BlockDelta<'a>> {
        let (mut kind, mut texts) = (None, [None, None, None]);
        self.object(|scanner, name| {
            let place = match name {
                b"type" => {
                    let found = scanner.kind(2)?;
                    return first(&mut kind, found);
                }
                b"text" => &mut texts[0],
                b"thinking" => &mut texts[1],
                b"partial_json" => &mut texts[2],
                _ => return scanner.skip(2),
            };
            let found = scanner.inside(2)?;
            first(place, found)
        })?;
        Some((kind.unwrap_or_default(), texts.map(Option::flatten)))
    }

    /// The `usage` of the object that stands here; absent inside without one.
    fn member_usage(&mut self) -> Option<Option<UsageParts>> {
        let mut usage = None;
        self.object(|scanner, name| match name {
            b"usage" if scanner.peek()? == b'{' => {
                let found = scanner.usage_parts(3)?;
                first(&mut usage, found)
            }
            _ => scanner.skip(2),
        })?;
        Some(usage)
    }

    /// The texts of a list of objects that are all of the type `wanted`; absent inside if some are not.
    fn typed_texts(&mut self, wanted: &[u8], depth: u32) -> Option<Option<Joined>> {
        let (mut joined, mut is_plain) = (Joined::default(), true);
        self.array(|scanner, _| {
            let (mut kind, mut text) = (None, None);
            scanner.object(|scanner, name| match name {
                b"type" => {
                    let found = scanner.kind(depth + 1)?;
                    first(&mut kind, found)
                }
                b"text" => {
                    let found = scanner.inside(depth + 1)?;
                    first(&mut text, found)
                }
                _ => scanner.skip(depth + 1),
            })?;
            is_plain &= kind == Some(wanted);
            joined.add(text.flatten())
        })?;
        Some(is_plain.then_some(joined))
    }

    fn response_event(&mut self) -> Option<Said> {
        let (mut object, mut kind, mut delta, mut text) = (None, None, None, None);
        let (mut output_index, mut content_index) = (None, None);
        let (mut of_response, mut usage, mut output) = (None, None, None);
        self.object(|scanner, name| match name {
            b"object" => {
                let found = scanner.kind(1)?;
                first(&mut object, found)
            }
            b"type" => {
                let found = scanner.kind(1)?;
                first(&mut kind, found)
            }
            b"delta" => {
                let found = scanner.inside(1)?;
                first(&mut delta, found)
            }
            b"text" => {
                let found = scanner.inside(1)?;
                first(&mut text, found)
            }
            b"output_index" => {
                let found = scanner.index(1)?;
                first(&mut output_index, found)
            }
            b"content_index" => {
                let found = scanner.index(1)?;
                first(&mut content_index, found)
            }
            b"response" if scanner.peek()? == b'{' => {
                let found = scanner.member_usage()?;
                first(&mut of_response, found)
            }
            b"usage" if scanner.peek()? == b'{' => {
                let found = scanner.usage_parts(2)?;
                first(&mut usage, found)
            }
            b"output" if scanner.peek()? == b'[' => {
                let found = scanner.output_items()?;
                first(&mut output, found)
            }
            _ => scanner.skip(1),
        })?;
        let (delta, text) = (delta.flatten(), text.flatten());
        if object == Some(b"response") {
            // Anything but messages of texts is for the tree, and so is a body without any.
            let mut said = Said::full(Some(output.flatten()?.one?), true);
            said.delta.usage = usage.map(|parts| parts.usage());
            return Some(said);
        }
        let place = [output_index.flatten(), content_index.flatten()];
        Some(match kind {
            Some(b"response.output_text.delta") => {
                Said { past: Past::Begins(place), ..Said::full(delta, true) }
            }
            Some(b"response.reasoning_text.delta") => Said::full(delta, false),
            Some(b"response.function_call_arguments.delta") => Said::full(delta, true),
            Some(b"response.output_text.done") => {
                Said { past: Past::Ends(place), ..Said::content(text, true) }
            }
            Some(b"response.completed") => {
                let usage: Option<Usage> = of_response.flatten().map(|parts| parts.usage());
                Said { delta: Delta { usage, ..Delta::default() }, ..Said::NOTHING }
            }
            Some(_) | None => Said::NOTHING,
        })
    }

    /// The texts of a list of messages; absent inside if there is anything else.
    fn output_items(&mut self) -> Option<Option<Joined>> {
        let (mut joined, mut is_plain) = (Joined::default(), true);
        self.array(|scanner, _| {
            let (mut kind, mut texts) = (None, None);
            scanner.object(|scanner, name| match name {
                b"type" => {
                    let found = scanner.kind(3)?;
                    first(&mut kind, found)
                }
                b"content" if scanner.peek()? == b'[' => {
                    let found = scanner.typed_texts(b"output_text", 4)?;
                    first(&mut texts, found)
                }
                _ => scanner.skip(3),
            })?;
            let texts = texts.flatten();
            is_plain &= kind == Some(b"message") && texts.is_some();
            joined.add(texts.and_then(|texts| texts.one))
        })?;
        Some(is_plain.then_some(joined))
    }

    /// The counts under the names of Anthropic and of responses; an object without any of them is for the tree.
    fn usage_parts(&mut self, depth: u32) -> Option<UsageParts> {
        let mut parts = UsageParts::default();
        let (mut cached, mut reasoning) = (None, None);
        self.object(|scanner, name| {
            let place = match name {
                b"input_tokens" => &mut parts.input,
                b"output_tokens" => &mut parts.output,
                b"total_tokens" => &mut parts.total,
                b"cache_read_input_tokens" => &mut parts.cache_read,
                b"cache_creation_input_tokens" => &mut parts.cache_creation,
                b"input_tokens_details" => {
                    let [found, None] = scanner.details([b"cached_tokens", AUDIO_KEY.as_bytes()])? else {
                        return None;
                    };
                    return first(&mut cached, found);
                }
                b"output_tokens_details" => {
                    let rare = [AUDIO_KEY, ACCEPTED_KEY, REJECTED_KEY].map(str::as_bytes);
                    let [sound, accepted, rejected] = rare;
                    let [found, None, None, None] =
                        scanner.details([b"reasoning_tokens", sound, accepted, rejected])?
                    else {
                        return None;
                    };
                    return first(&mut reasoning, found);
                }
                b"prompt_tokens_details" | b"completion_tokens_details" => return None,
                name if is_vendor_name(name) => return None,
                _ => return scanner.skip(depth),
            };
            let found = scanner.number()??;
            first(place, found)
        })?;
        parts.cached = cached.flatten();
        parts.reasoning = reasoning.flatten();
        (parts.input.is_some() || parts.output.is_some()).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Dialect, EndpointSettings, Texts};

    const MESSAGES: &[(&str, &[&str])] = &[
        (
            "completions",
            &[
                r#"{"id":"c","object":"text_completion","choices":[{"index":0,"text":" Rh\u00efne\n","logprobs":null}],"usage":null}"#,
                r#"{"choices":[{"text":"a"},{"text":"b"}],"object":"completion","usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                r#"{"object":"text_completion","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5}}"#,
                r#"{"object":"chat.completion","choices":[{"text":"a"}]}"#,
                r#"{"object":"text_completion","choices":[{"text":5}]}"#,
            ],
        ),
        (
            "huggingface_generate",
            &[
                r#"{"index":1,"token":{"id":5,"text":"Nile","special":false},"generated_text":null}"#,
                r#"{"token":{"text":"x"},"generated_text":"all of it","details":{"a":[1.5,-2]}}"#,
                r#"{"generated_text":"all \"of\" it"}"#,
                r#"{"token":{"id":5},"generated_text":"x"}"#,
            ],
        ),
        (
            "messages",
            &[
                r#"{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Ni\tle"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"thinking":"Hm.","type":"thinking_delta"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#,
                r#"{"type":"message_stop"}"#,
                r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Nile"}],"usage":{"input_tokens":2,"output_tokens":3}}"#,
                r#"{"type":"message","content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"}]}"#,
            ],
        ),
        (
            "responses",
            &[
                r#"{"type":"response.created","response":{"id":"r","usage":null,"output":[]}}"#,
                r#"{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"late"}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Nile"}"#,
                r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Nile"}"#,
                r#"{"type":"response.reasoning_text.delta","output_index":0,"delta":"Hm."}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}"#,
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":6,"total_tokens":11,"input_tokens_details":{"cached_tokens":2},"output_tokens_details":{"reasoning_tokens":1}}}}"#,
                r#"{"object":"response","text":{"format":{"type":"text"}},"output":[{"type":"message","content":[{"type":"output_text","text":"Hi","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":6}}"#,
                r#"{"object":"response","output":[{"type":"function_call","name":"f","arguments":"{}"}],"output_text":"x"}"#,
            ],
        ),
    ];

    fn reader(name: &str) -> Reader {
        let Some(dialect) = Dialect::named(name) else { panic!("{name}") };
        Reader::new(&EndpointSettings::new(dialect, "m")).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What the tree says, and the texts that it keeps.
    fn by_tree(reader: &mut Reader, data: &[u8]) -> Option<(Delta, Texts)> {
        let reading = reader.read(data).ok()?;
        let mut texts = Texts::default();
        reading.content.iter().for_each(|content| texts.add(content));
        let output = reading.content.as_ref().is_some_and(crate::endpoint::Content::is_output);
        Some((Delta { content: reading.content.is_some(), output, usage: reading.usage }, texts))
    }

    fn assert_same(scanning: &mut Reader, walking: &mut Reader, data: &[u8]) -> bool {
        let Some((delta, text)) = read(scanning, data) else { return false };
        let (expected, texts) = by_tree(walking, data).unwrap_or_default();
        let shown = String::from_utf8_lossy(data);
        assert_eq!(delta, expected, "{shown}");
        let inside = text.as_ref().map(|range| String::from_utf8_lossy(&data[range.clone()]).into_owned());
        let plain: Option<String> =
            inside.map(|inside| serde_json::from_str(&format!("\"{inside}\"")).unwrap_or(inside));
        let kept = if delta.output { &texts.output } else { &texts.reasoning };
        assert_eq!(plain.unwrap_or_default(), *kept, "{shown}");
        true
    }

    #[test]
    fn ordinary_messages_say_the_same_as_in_the_tree() {
        for (name, messages) in MESSAGES {
            let (mut scanning, mut walking) = (reader(name), reader(name));
            let scanned = messages
                .iter()
                .filter(|data| {
                    let is_scanned = assert_same(&mut scanning, &mut walking, data.as_bytes());
                    if !is_scanned {
                        // What the tree has read, both know.
                        let _ = scanning.read(data.as_bytes());
                        let _ = walking.read(data.as_bytes());
                    }
                    is_scanned
                })
                .count();
            assert!(scanned >= messages.len() - 2, "{name}: {scanned} of {}", messages.len());
        }
    }

    #[test]
    fn what_is_a_little_wrong_says_the_same_as_in_the_tree() {
        let mut scanned = 0;
        for (name, messages) in MESSAGES {
            for data in *messages {
                for at in 0..data.len() {
                    let mut dropped = data.as_bytes().to_vec();
                    dropped.remove(at);
                    let mut changed = vec![dropped];
                    for byte in *b"\"\\{}[]:,0nx " {
                        let mut bytes = data.as_bytes().to_vec();
                        bytes[at] = byte;
                        changed.push(bytes);
                    }
                    for data in changed {
                        scanned += u32::from(assert_same(&mut reader(name), &mut reader(name), &data));
                    }
                }
            }
        }
        assert!(scanned > 1_000, "{scanned}");
    }
}
