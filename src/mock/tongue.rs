//! Endpoints beside chat completions: what their requests ask, and what they are answered.
//!
//! They are rendered message by message with no regard to speed: what is measured against the built-in server
//! is measured with chat completions.

use crate::mock::body::Chat;
use crate::mock::reply::{Extent, Identity, TOKEN, write_head};
use serde_json::{Value, json};
use std::io::Write;
use std::ops::Range;

/// What a request speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tongue {
    /// Chat completions.
    #[default]
    Chat,
    /// Cohere's rankings.
    CohereRankings,
    /// Text completions.
    Completions,
    /// Embeddings.
    Embeddings,
    /// Text generation inference.
    Generate,
    /// The same as a stream, whatever the body says.
    GenerateStream,
    /// Anthropic's messages.
    Messages,
    /// NVIDIA's rankings.
    NimRankings,
    /// OpenAI's responses.
    Responses,
    /// Rankings of text embeddings inference.
    TeiRankings,
}

impl Tongue {
    /// What is spoken at `path`; absent for chat and for paths that are not served.
    pub(super) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/generate" => Self::Generate,
            "/generate_stream" => Self::GenerateStream,
            "/rerank" => Self::TeiRankings,
            "/v1/completions" => Self::Completions,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/messages" => Self::Messages,
            "/v1/ranking" => Self::NimRankings,
            "/v1/responses" => Self::Responses,
            "/v2/rerank" => Self::CohereRankings,
            _ => return None,
        })
    }

    /// Reads a request body; puts the model's name, as escaped in JSON, into `model`.
    ///
    /// # Errors
    /// Why it is no such request.
    pub(super) fn read(self, body: &[u8], model: &mut Vec<u8>) -> Result<Chat, &'static str> {
        model.clear();
        let body: Value = serde_json::from_slice(body).map_err(|_| "the body is not JSON")?;
        if let Some(name) = body["model"].as_str() {
            let escaped = Value::from(name).to_string();
            // Without the quotes around it.
            model.extend_from_slice(&escaped.as_bytes()[1..escaped.len() - 1]);
        }
        let (asked, limit) = match self {
            Self::Chat | Self::Completions => (&body["prompt"], &body["max_tokens"]),
            Self::CohereRankings => (&body["documents"], &Value::Null),
            Self::Embeddings => (&body["input"], &Value::Null),
            Self::Generate | Self::GenerateStream => (&body["inputs"], &body["parameters"]["max_new_tokens"]),
            Self::Messages => (&body["messages"], &body["max_tokens"]),
            Self::NimRankings => (&body["passages"], &Value::Null),
            Self::Responses => (&body["input"], &body["max_output_tokens"]),
            Self::TeiRankings => (&body["texts"], &Value::Null),
        };
        if asked.is_null() {
            return Err("the body is no request for this path");
        }
        let items = asked.as_array().map_or(1, Vec::len);
        let tokens = if self.has_tokens() { limit.as_u64() } else { Some(items as u64) };
        if tokens == Some(0) {
            return Err("a reply needs at least one token");
        }
        Ok(Chat {
            stream: self == Self::GenerateStream || body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            tokens: tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            prompt_words: words(asked) + words(&body["query"]) + words(&body["system"]),
        })
    }

    /// Whether replies are texts; otherwise there is an item for each item asked about.
    const fn has_tokens(self) -> bool {
        match self {
            Self::Chat
            | Self::Completions
            | Self::Generate
            | Self::GenerateStream
            | Self::Messages
            | Self::Responses => true,
            Self::CohereRankings | Self::Embeddings | Self::NimRankings | Self::TeiRankings => false,
        }
    }

    /// The messages `range` of `all`, with what belongs around them, as chunks of a stream.
    pub(super) fn write_messages(
        self,
        out: &mut Vec<u8>,
        (identity, model): (Identity, &str),
        extent: Extent,
        per_message: u32,
        range: Range<u32>,
    ) {
        let all = extent.tokens.div_ceil(per_message);
        let usage = usage(self, extent);
        let id = format!("{:016x}", identity.id);
        if range.start == 0 {
            match self {
                Self::Messages => {
                    let message = json!({"id": id, "type": "message", "role": "assistant", "model": model,
                        "content": [], "usage": {"input_tokens": extent.prompt_tokens, "output_tokens": 1}});
                    named(out, &json!({"type": "message_start", "message": message}));
                    let block = json!({"type": "text", "text": ""});
                    named(out, &json!({"type": "content_block_start", "index": 0, "content_block": block}));
                }
                Self::Responses => {
                    named(
                        out,
                        &json!({"type": "response.created", "response": {"id": id, "object": "response"}}),
                    );
                }
                _ => {}
            }
        }
        for message in range.clone() {
            let tokens = per_message.min(extent.tokens - message * per_message);
            let text = TOKEN.repeat(tokens as usize);
            let last = message + 1 == all;
            match self {
                Self::Completions => event(
                    out,
                    &json!({"id": id, "object": "text_completion", "created": identity.created_s, "model": model,
                        "choices": [{"index": 0, "text": text, "finish_reason": null}]}),
                ),
                Self::Generate | Self::GenerateStream => event(
                    out,
                    &json!({"index": message + 1, "token": {"id": 5, "text": text, "special": false},
                        "generated_text": last.then(|| whole_text(extent))}),
                ),
                Self::Messages => named(
                    out,
                    &json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": text}}),
                ),
                _ => named(
                    out,
                    &json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                        "delta": text}),
                ),
            }
        }
        if range.end < all {
            return;
        }
        match self {
            Self::Completions => {
                if extent.usage {
                    event(
                        out,
                        &json!({"id": id, "object": "text_completion", "created": identity.created_s,
                            "model": model, "choices": [], "usage": usage}),
                    );
                }
                chunk(out, b"data: [DONE]\n\n");
            }
            Self::Messages => {
                named(out, &json!({"type": "content_block_stop", "index": 0}));
                let stop = if extent.limited { "max_tokens" } else { "end_turn" };
                named(
                    out,
                    &json!({"type": "message_delta", "delta": {"stop_reason": stop},
                        "usage": {"output_tokens": extent.tokens}}),
                );
                named(out, &json!({"type": "message_stop"}));
            }
            Self::Responses => {
                let response = self.whole((identity, model), extent);
                named(out, &json!({"type": "response.completed", "response": response}));
            }
            _ => {}
        }
        out.extend_from_slice(b"0\r\n\r\n");
    }

    /// A reply that is not a stream, with its head.
    pub(super) fn write_whole(
        self,
        out: &mut Vec<u8>,
        identity: (Identity, &str),
        extent: Extent,
        close: bool,
    ) {
        let body = self.whole(identity, extent).to_string();
        write_head(out, 200, "application/json", body.len(), close, "");
        out.extend_from_slice(body.as_bytes());
    }

    fn whole(self, (identity, model): (Identity, &str), extent: Extent) -> Value {
        let (id, text) = (format!("{:016x}", identity.id), whole_text(extent));
        let usage = usage(self, extent);
        let items = |item: fn(u32) -> Value| (0..extent.tokens).map(item).collect::<Vec<_>>();
        let finish = if extent.limited { "length" } else { "stop" };
        match self {
            Self::Chat | Self::Completions => {
                json!({"id": id, "object": "text_completion", "created": identity.created_s, "model": model,
                    "choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": usage})
            }
            Self::CohereRankings => {
                json!({"results": items(|index| json!({"index": index, "relevance_score": 0.5}))})
            }
            Self::Embeddings => {
                let item = |index| json!({"object": "embedding", "index": index, "embedding": [0.5, -0.5]});
                json!({"object": "list", "model": model, "data": items(item),
                    "usage": {"prompt_tokens": extent.prompt_tokens, "total_tokens": extent.prompt_tokens}})
            }
            Self::Generate | Self::GenerateStream => json!({"generated_text": text}),
            Self::Messages => {
                json!({"id": id, "type": "message", "role": "assistant", "model": model,
                    "content": [{"type": "text", "text": text}], "usage": usage})
            }
            Self::NimRankings => json!({"rankings": items(|index| json!({"index": index, "logit": 0.5}))}),
            Self::Responses => {
                let message = json!({"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": text}]});
                json!({"id": id, "object": "response", "model": model, "output": [message], "usage": usage})
            }
            Self::TeiRankings => items(|index| json!({"index": index, "score": 0.5})).into(),
        }
    }
}

fn whole_text(extent: Extent) -> String {
    TOKEN.repeat(extent.tokens as usize)
}

fn usage(tongue: Tongue, extent: Extent) -> Value {
    let (prompt, tokens) = (extent.prompt_tokens, u64::from(extent.tokens));
    match tongue {
        Tongue::Messages => json!({"input_tokens": prompt, "output_tokens": tokens}),
        Tongue::Responses => {
            json!({"input_tokens": prompt, "output_tokens": tokens, "total_tokens": prompt + tokens})
        }
        _ => json!({"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}),
    }
}

/// An event without a name.
fn event(out: &mut Vec<u8>, data: &Value) {
    chunk(out, format!("data: {data}\n\n").as_bytes());
}

/// An event with the name that its data has.
fn named(out: &mut Vec<u8>, data: &Value) {
    let name = data["type"].as_str().unwrap_or_default();
    chunk(out, format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

fn chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    // A vector takes every byte.
    let _ = write!(out, "{:x}\r\n", bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Words of all texts in `value`, roles and types left out.
fn words(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.split_ascii_whitespace().count() as u64,
        Value::Array(items) => items.iter().map(words).sum(),
        Value::Object(members) => {
            let texts = members.iter().filter(|(name, _)| matches!(name.as_str(), "content" | "text"));
            texts.map(|(_, value)| words(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
