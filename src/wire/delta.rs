//! The JSON of one chat message: does it have content, and what usage does it report?
//!
//! The rules are AIPerf's. [`read`] answers with the byte scanner of `scan` when the message is an ordinary
//! one and with a parsed tree when anything about it surprises the scanner; both give the same answer on
//! every input (`check::delta`, which a property and a fuzz target call). Texts are not kept.

mod scan;

pub(in crate::wire) use scan::dialects::read as read_ordinary;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::endpoint::Usage;

/// What one message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Reading {
    /// A JSON array that is not empty.
    Array,
    /// An object.
    Delta(Delta),
    /// Not JSON, or null, false, zero, or empty: passed over.
    Nothing,
    /// A number, a string or `true`; the name of the type in Python, for AIPerf's error text.
    Scalar(&'static str),
}

/// What an object says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::wire) struct Delta {
    /// Text, reasoning or a tool call that is not empty.
    pub content: bool,
    /// Text or a tool call: content that is not reasoning alone.
    pub output: bool,
    /// Token counts, when the object has a `usage` that is not empty.
    pub usage: Option<Usage>,
}

/// The parts of `choices[0].delta` or `.message` that matter.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    text: bool,
    reasoning: bool,
    tool_call: bool,
}

impl Parts {
    /// AIPerf looks at reasoning first, then at tool calls, then at text.
    const fn apply(self, delta: &mut Delta) {
        if self.reasoning {
            delta.content = true;
            delta.output = self.text;
        } else {
            delta.content = self.tool_call || self.text;
            delta.output = delta.content;
        }
    }
}

/// Reads the data of one message; with it, where in `data` its one text stands, when it is an ordinary one
/// (see [`scan::scan`]).
pub(in crate::wire) fn read(data: &[u8]) -> (Reading, Option<Range<usize>>) {
    match scan::scan(data) {
        Some((delta, text)) => (Reading::Delta(delta), text),
        None => (read_tree(data), None),
    }
}

/// What the scanner alone says; absent when it leaves the message to the tree.
pub(in crate::wire) fn read_scanned(data: &[u8]) -> Option<Delta> {
    scan::scan(data).map(|(delta, _)| delta)
}

/// Reads the data of one message by way of a tree.
pub(in crate::wire) fn read_tree(data: &[u8]) -> Reading {
    // Bytes that are not UTF-8 become replacement characters: harmless inside a string, an error elsewhere.
    let text: Cow<str> = String::from_utf8_lossy(data);
    match serde_json::from_str(&text) {
        Err(_) | Ok(Value::Null | Value::Bool(false)) => Reading::Nothing,
        Ok(Value::Array(items)) if !items.is_empty() => Reading::Array,
        Ok(Value::Bool(true)) => Reading::Scalar("bool"),
        Ok(Value::Object(object)) => Reading::Delta(read_object(&object)),
        Ok(value) if !truthy(Some(&value)) => Reading::Nothing,
        Ok(Value::Number(number)) => Reading::Scalar(if number.is_f64() { "float" } else { "int" }),
        Ok(Value::String(_) | Value::Array(_)) => Reading::Scalar("str"),
    }
}

fn read_object(object: &Map<String, Value>) -> Delta {
    let mut delta = Delta { usage: object.get("usage").and_then(Usage::read), ..Delta::default() };
    let member = match object.get("object").and_then(Value::as_str) {
        Some("chat.completion") => "message",
        Some("chat.completion.chunk") => "delta",
        _ => return delta,
    };
    let part = object.get("choices").and_then(|choices| choices.get(0)).and_then(|first| first.get(member));
    let Some(Value::Object(part)) = part else { return delta };
    let parts = Parts {
        text: truthy(part.get("content")),
        reasoning: truthy(part.get("reasoning_content")) || truthy(part.get("reasoning")),
        tool_call: part.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| {
            calls
                .iter()
                .filter_map(|call| call.get("function"))
                .any(|function| truthy(function.get("name")) || truthy(function.get("arguments")))
        }),
    };
    parts.apply(&mut delta);
    delta
}

/// What Python takes for true.
fn truthy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::usage::{Detail, UsageDetails};

    fn delta(data: &str) -> Delta {
        match read(data.as_bytes()).0 {
            Reading::Delta(delta) => delta,
            other => panic!("{data} was read as {other:?}"),
        }
    }

    fn chunk(members: &str) -> Delta {
        delta(&format!(r#"{{"object":"chat.completion.chunk","choices":[{{"delta":{{{members}}}}}]}}"#))
    }

    /// Members of a delta, whether it has content, whether it has output.
    const MEMBERS: &[(&str, bool, bool)] = &[
        ("", false, false),
        (r#""role":"assistant","content":"""#, false, false),
        (r#""content":null"#, false, false),
        (r#""content":[]"#, false, false),
        (r#""content":" ""#, true, true),
        (r#""content":"\n""#, true, true),
        (r#""content":[{"type":"text","text":"x"}]"#, true, true),
        (r#""content":null,"refusal":"no""#, false, false),
        (r#""function_call":{"name":"f","arguments":"{}"}"#, false, false),
        (r#""reasoning_content":"a""#, true, false),
        (r#""reasoning":"a""#, true, false),
        (r#""reasoning_content":"","reasoning":"x""#, true, false),
        (r#""reasoning_content":null,"content":"x""#, true, true),
        (r#""reasoning_content":"a","content":"x""#, true, true),
        (r#""reasoning":"a","tool_calls":[{"function":{"name":"f"}}]"#, true, false),
        (r#""tool_calls":null"#, false, false),
        (r#""tool_calls":[]"#, false, false),
        (r#""tool_calls":[{}]"#, false, false),
        (r#""tool_calls":[null]"#, false, false),
        (r#""tool_calls":[{"function":null}]"#, false, false),
        (r#""tool_calls":[{"function":{"name":null,"arguments":""}}]"#, false, false),
        (r#""tool_calls":[{"index":0,"function":{"arguments":"{"}}]"#, true, true),
        (r#""tool_calls":[{},{"function":{"name":"f"}}]"#, true, true),
        (r#""content":"","content":"x""#, true, true),
        (r#""content":"x","content":"""#, false, false),
        (r#""cont\u0065nt":"x""#, true, true),
    ];

    #[test]
    fn content_is_found_where_it_is_and_nowhere_else() {
        for (members, content, output) in MEMBERS {
            let found = chunk(members);
            assert_eq!((found.content, found.output), (*content, *output), "{members}");
        }
    }

    #[test]
    fn only_the_first_choice_of_a_known_object_counts() {
        for (data, content) in [
            (r#"{"choices":[{"delta":{"content":"A"}}]}"#, false),
            (r#"{"object":null,"choices":[{"delta":{"content":"A"}}]}"#, false),
            (r#"{"object":"text_completion","choices":[{"delta":{"content":"A"}}]}"#, false),
            (r#"{"object":"chat.completion","choices":[{"delta":{"content":"A"}}]}"#, false),
            (r#"{"object":"chat.completion","choices":[{"message":{"content":"A"}}]}"#, true),
            (r#"{"choices":[{"index":1,"delta":{"content":"A"}}],"object":"chat.completion.chunk"}"#, true),
            (r#"{"object":"chat.completion.chunk","choices":[{},{"delta":{"content":"A"}}]}"#, false),
            (r#"{"object":"chat.completion.chunk","choices":[]}"#, false),
            (r#"{"object":"chat.completion.chunk","choices":null}"#, false),
            (r#"{"object":"chat.completion.chunk","choices":[null]}"#, false),
            (r#"{"object":"chat.completion.chunk","choices":[{"delta":null}]}"#, false),
            (r#"{"object":"chat.completion.chunk"}"#, false),
            (r#"{"error":{"message":"boom","code":500}}"#, false),
            ("{}", false),
        ] {
            assert_eq!(delta(data).content, content, "{data}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_told_apart() {
        for (data, reading) in [
            ("{broken", Reading::Nothing),
            ("null", Reading::Nothing),
            ("0", Reading::Nothing),
            ("\"\"", Reading::Nothing),
            ("[]", Reading::Nothing),
            ("[1,2]", Reading::Array),
            ("5", Reading::Scalar("int")),
            ("0.5", Reading::Scalar("float")),
            ("true", Reading::Scalar("bool")),
            ("false", Reading::Nothing),
            ("\"x\"", Reading::Scalar("str")),
            ("{\"a\":1} {\"a\":1}", Reading::Nothing),
        ] {
            assert_eq!(read(data.as_bytes()).0, reading, "{data}");
        }
    }

    #[test]
    fn usage_is_understood_under_every_vendors_names() {
        let usage = |usage: &str| delta(&format!(r#"{{"usage":{usage}}}"#)).usage;
        let counts = |prompt, completion, total, reasoning, cached| {
            Some(Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                total_tokens: total,
                reasoning_tokens: reasoning,
                cached_tokens: cached,
                details: UsageDetails::default(),
            })
        };
        let with =
            |counted: Option<Usage>, details: UsageDetails| counted.map(|usage| Usage { details, ..usage });
        for (text, expected) in [
            ("null", None),
            ("{}", None),
            ("[]", None),
            (r#"{"other":1}"#, counts(None, None, None, None, None)),
            (
                r#"{"prompt_tokens":11,"completion_tokens":5,"total_tokens":16}"#,
                counts(Some(11), Some(5), Some(16), None, None),
            ),
            (
                r#"{"prompt_tokens":0,"completion_tokens":5,"prompt_tokens_details":null}"#,
                counts(Some(0), Some(5), None, None, None),
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8},
                    "completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":null}}"#,
                counts(Some(9), Some(5), None, Some(3), Some(8)),
            ),
            (
                r#"{"input_tokens":9,"output_tokens":5,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}"#,
                with(
                    counts(Some(15), Some(5), None, None, Some(4)),
                    UsageDetails { cache_write_tokens: Detail::new(2), ..UsageDetails::default() },
                ),
            ),
            (
                r#"{"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":14,"thoughtsTokenCount":2,"cachedContentTokenCount":7}"#,
                counts(Some(9), Some(5), Some(14), Some(2), Some(7)),
            ),
            (
                r#"{"usageMetadata":{"inputTokens":1,"cacheReadInputTokens":2,"cacheWriteInputTokens":3,"outputTokens":4,"totalTokens":10}}"#,
                with(
                    counts(Some(6), Some(4), Some(10), None, Some(2)),
                    UsageDetails { cache_write_tokens: Detail::new(3), ..UsageDetails::default() },
                ),
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":null},
                    "completion_tokens_details":{"accepted_prediction_tokens":1,"reasoning_tokens":0,
                    "audio_tokens":2,"rejected_prediction_tokens":3}}"#,
                with(
                    counts(Some(9), Some(5), None, Some(0), None),
                    UsageDetails {
                        prompt_audio_tokens: Detail::new(0),
                        completion_audio_tokens: Detail::new(2),
                        accepted_prediction_tokens: Detail::new(1),
                        rejected_prediction_tokens: Detail::new(3),
                        ..UsageDetails::default()
                    },
                ),
            ),
            (
                r#"{"prompt_tokens":9,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5,"prompt_audio_seconds":7}"#,
                with(
                    counts(Some(9), None, None, None, Some(4)),
                    UsageDetails {
                        cache_miss_tokens: Detail::new(5),
                        prompt_audio_seconds: Detail::new(7),
                        ..UsageDetails::default()
                    },
                ),
            ),
            (
                r#"{"promptTokenCount":9,"toolUsePromptTokenCount":6}"#,
                with(
                    counts(Some(9), None, None, None, None),
                    UsageDetails { tool_use_prompt_tokens: Detail::new(6), ..UsageDetails::default() },
                ),
            ),
            (
                r#"{"prompt_tokens":9,"prompt_tokens_details":{"audio_tokens":4294967295}}"#,
                counts(Some(9), None, None, None, None),
            ),
            (r#"{"meta":{"tokens":{"input_tokens":3}}}"#, counts(Some(3), None, None, None, None)),
            (r#"{"tokens":{"generated_token_count":3}}"#, counts(None, Some(3), None, None, None)),
            (r#"{"prompt_tokens":null,"input_tokens":3}"#, counts(Some(3), None, None, None, None)),
            (r#"{"prompt_tokens":-1,"completion_tokens":"5"}"#, counts(None, None, None, None, None)),
        ] {
            assert_eq!(usage(text), expected, "{text}");
        }
    }

    #[test]
    fn a_stray_byte_inside_a_text_spoils_nothing() {
        let mut data =
            br#"{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}"#.to_vec();
        let place = data.iter().position(|byte| *byte == b'x').unwrap_or(0);
        data[place] = 0xff;
        assert_eq!(read(&data).0, Reading::Delta(Delta { content: true, output: true, usage: None }));
        assert_eq!(read_tree(&data), read(&data).0);
    }

    #[test]
    fn ordinary_messages_never_need_the_tree() {
        for data in [
            r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}"#,
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" Rh\u00efne\n\ud83d\ude00 –"},"logprobs":{"content":[{"token":" R","logprob":-0.25,"bytes":[32,82],"top_logprobs":[]}]},"finish_reason":"stop"}]}"#,
            r#"{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"total_tokens":16,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":1}}}"#,
            r#"{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"total_tokens":16,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":1,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
            r#"{"object":"chat.completion.chunk","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}}]}"#,
            r#"{"object": "chat.completion.chunk", "choices": [{"delta": {"reasoning_content": "a"}}]}"#,
        ] {
            let scanned = read_scanned(data.as_bytes());
            assert!(scanned.is_some(), "{data}");
            assert_eq!(scanned.map(Reading::Delta), Some(read_tree(data.as_bytes())));
        }
    }
}
