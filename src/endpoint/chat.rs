//! `chat`: OpenAI chat completions.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras, put_stream_options, truthy};
use crate::endpoint::content::{Parts, audio, content};
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Turn, Usage};

pub(in crate::endpoint) static CHAT: Dialect = Dialect {
    name: "chat",
    path: "/v1/chat/completions",
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
    image: |url| json!({"type": "image_url", "image_url": {"url": url}}),
    audio,
    video: |url| Ok(json!({"type": "video_url", "video_url": {"url": url}})),
};

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let (mut members, own) = conversation(settings, request)?;
    let turn = request.turns.last();
    members.insert("stream".to_owned(), Value::Bool(settings.streaming));
    if let Some(tools) = turn.and_then(|turn| turn.raw_tools.as_ref()) {
        members.insert("tools".to_owned(), Value::Array(tools.clone()));
    }
    if let Some(limit) = turn.and_then(|turn| turn.max_tokens) {
        let name = if settings.legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        members.insert(name.to_owned(), Value::from(limit));
    }
    let own_members = members.get("messages").cloned();
    put_extras(&mut members, settings, turn);
    put_stream_options(&mut members, settings);
    let replaced = members.get("messages") != own_members.as_ref();
    let payload = Payload::new(members);
    Ok(if replaced { payload } else { payload.with_items("messages", own) })
}

/// `messages` and `model`, and how many messages stand in front of the last turn's own.
pub(in crate::endpoint) fn conversation(
    settings: &EndpointSettings,
    request: &Request<'_>,
) -> Result<(Map<String, Value>, usize), EndpointError> {
    let mut messages = Vec::new();
    let mut own = 0;
    for turn in request.turns {
        own = messages.len();
        match &turn.raw_messages {
            Some(raw) => messages.extend(raw.iter().cloned()),
            None => messages.push(message(settings, turn)?),
        }
    }
    let mut front = 0;
    if let Some(system) = request.system_message {
        match messages.first_mut() {
            Some(first) if first.get("role").and_then(Value::as_str) == Some("system") => {
                join_system(first, system);
            }
            _ => {
                messages.insert(0, json!({"role": "system", "content": system}));
                front += 1;
            }
        }
    }
    if let Some(context) = request.user_context_message {
        let place = usize::from(messages.first().is_some_and(is_system));
        messages.insert(place, json!({"role": "user", "content": context}));
        front += 1;
    }
    let mut members = Map::new();
    members.insert("messages".to_owned(), Value::Array(messages));
    members.insert("model".to_owned(), model(settings, request.turns.last()));
    Ok((members, own + front))
}

fn is_system(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str) == Some("system")
}

/// Puts `system` in front of what a system message says already.
fn join_system(message: &mut Value, system: &str) {
    let Some(content) = message.get_mut("content") else { return };
    match content {
        Value::Array(parts) => parts.insert(0, json!({"type": "text", "text": system})),
        Value::String(text) => *text = format!("{system}\n\n{text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => *content = Value::from(system),
    }
}

fn message(settings: &EndpointSettings, turn: &Turn) -> Result<Value, EndpointError> {
    let role = turn.role.as_deref().unwrap_or("user");
    Ok(json!({"role": role, "content": content(settings, turn, &PARTS)?}))
}

/// Reads a chunk or a whole body; `wire` has a faster way to the same answer.
fn read(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    let usage = object.get("usage").and_then(Usage::read);
    let member = match object.get("object").and_then(Value::as_str) {
        Some("chat.completion") => "message",
        Some("chat.completion.chunk") => "delta",
        Some(_) | None => return Ok(Reading { content: None, usage }),
    };
    let part = object.get("choices").and_then(|choices| choices.get(0)).and_then(|first| first.get(member));
    Ok(Reading { content: part.and_then(part_content), usage })
}

/// Reasoning first, then tool calls, then text.
fn part_content(part: &Value) -> Option<Content> {
    let text = |key: &str| part.get(key).filter(|value| truthy(Some(value))).map(text_of);
    if let Some(reasoning) = text("reasoning_content").or_else(|| text("reasoning")) {
        return Some(Content::Reasoning { reasoning, content: text("content") });
    }
    let calls = part.get("tool_calls").and_then(Value::as_array);
    let called: String =
        calls.into_iter().flatten().filter_map(|call| call.get("function")).map(called).collect();
    if !called.is_empty() {
        return Some(Content::ToolCall { text: called, content: text("content") });
    }
    text("content").map(Content::Text)
}

/// Name and arguments of a call.
fn called(function: &Value) -> String {
    ["name", "arguments"].iter().filter_map(|key| function.get(*key).and_then(Value::as_str)).collect()
}

/// A text, or whatever stands in its place as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
