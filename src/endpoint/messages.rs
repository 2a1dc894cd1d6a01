//! `messages`: Anthropic messages.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras, truthy};
use crate::endpoint::content::{Parts, content};
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Usage};

/// The limit of a turn that has none: the server wants one.
const MAX_TOKENS_DEFAULT: u64 = 1_024;

pub(in crate::endpoint) static MESSAGES: Dialect = Dialect {
    name: "messages",
    path: "/v1/messages",
    streaming_path: None,
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: true,
        take_system: true,
        take_history: true,
        report_usage: true,
    },
    render,
    read,
};

const PARTS: Parts = Parts {
    text: |text| json!({"type": "text", "text": text}),
    image,
    audio: |_| Err(EndpointError::Media { dialect: "messages", media: "audio" }),
    video: |_| Err(EndpointError::Media { dialect: "messages", media: "video" }),
};

fn image(image: &str) -> Value {
    let data = image.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let source = match data {
        Some((media_type, data)) => json!({"type": "base64", "media_type": media_type, "data": data}),
        None => json!({"type": "url", "url": image}),
    };
    json!({"type": "image", "source": source})
}

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = request.turns.last();
    let mut messages = Vec::new();
    if let Some(context) = request.user_context_message {
        messages.push(json!({"role": "user", "content": context}));
    }
    let mut own = messages.len();
    for turn in request.turns {
        own = messages.len();
        match &turn.raw_messages {
            Some(raw) => messages.extend(raw.iter().cloned()),
            None => messages.push(json!({
                "role": turn.role.as_deref().unwrap_or("user"),
                "content": content(settings, turn, &PARTS)?,
            })),
        }
    }
    let mut members = Map::new();
    members.insert("model".to_owned(), model(settings, turn));
    members.insert("messages".to_owned(), Value::Array(messages));
    let limit = turn.and_then(|turn| turn.max_tokens).unwrap_or(MAX_TOKENS_DEFAULT);
    members.insert("max_tokens".to_owned(), Value::from(limit));
    if settings.streaming {
        members.insert("stream".to_owned(), Value::Bool(true));
    }
    let raw_system = turn.and_then(|turn| turn.raw_system.clone());
    if let Some(system) = raw_system.or_else(|| request.system_message.map(Value::from)) {
        members.insert("system".to_owned(), system);
    }
    if let Some(tools) = turn.and_then(|turn| turn.raw_tools.as_ref()) {
        members.insert("tools".to_owned(), Value::Array(tools.clone()));
    }
    let replaced = settings.extra.contains_key("messages")
        || turn.is_some_and(|turn| turn.extra_body.contains_key("messages"));
    put_extras(&mut members, settings, turn);
    let payload = Payload::new(members);
    Ok(if replaced { payload } else { payload.with_items("messages", own) })
}

fn read(state: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    match object.get("type").and_then(Value::as_str) {
        Some("message") => {
            Ok(Reading { content: body(value), usage: object.get("usage").and_then(Usage::read) })
        }
        Some("message_start") => {
            let usage = value.get("message").and_then(|message| message.get("usage"));
            Ok(Reading { content: None, usage: state.merge_usage(usage) })
        }
        Some("message_delta") => Ok(Reading { content: None, usage: state.merge_usage(object.get("usage")) }),
        Some("content_block_delta") => {
            Ok(Reading { content: object.get("delta").and_then(delta), usage: None })
        }
        Some(_) | None => Ok(Reading::default()),
    }
}

fn delta(delta: &Value) -> Option<Content> {
    let text =
        |key: &str| delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    match delta.get("type").and_then(Value::as_str) {
        Some("text_delta") => text("text").map(Content::Text),
        Some("thinking_delta") => {
            text("thinking").map(|reasoning| Content::Reasoning { reasoning, content: None })
        }
        Some("input_json_delta") => {
            text("partial_json").map(|text| Content::ToolCall { text, content: None })
        }
        Some(_) | None => None,
    }
}

/// A whole body: thinking with its text, else calls with their text, else the text.
fn body(value: &Value) -> Option<Content> {
    let blocks = value.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_type = |kind: &'static str| {
        blocks.iter().filter(move |block| block.get("type").and_then(Value::as_str) == Some(kind))
    };
    let texts = |kind: &'static str, key: &'static str| {
        let text: String = of_type(kind).filter_map(|block| block.get(key).and_then(Value::as_str)).collect();
        Some(text).filter(|text| !text.is_empty())
    };
    let text = texts("text", "text");
    if let Some(reasoning) = texts("thinking", "thinking") {
        return Some(Content::Reasoning { reasoning, content: text });
    }
    let called: String = of_type("tool_use").map(called).collect();
    if !called.is_empty() {
        return Some(Content::ToolCall { text: called, content: text });
    }
    text.map(Content::Text)
}

/// Name and compact input of a call.
fn called(block: &Value) -> String {
    let name = block.get("name").and_then(Value::as_str).unwrap_or_default();
    let input = block.get("input").filter(|input| truthy(Some(input))).map(Value::to_string);
    format!("{name}{}", input.unwrap_or_default())
}
