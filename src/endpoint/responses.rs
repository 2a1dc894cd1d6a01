//! `responses`: OpenAI responses.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras, truthy};
use crate::endpoint::content::{Parts, audio, content};
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Usage};

pub(in crate::endpoint) static RESPONSES: Dialect = Dialect {
    name: "responses",
    path: "/v1/responses",
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
    text: |text| json!({"type": "input_text", "text": text}),
    image: |url| json!({"type": "input_image", "image_url": url}),
    audio,
    video: |_| Err(EndpointError::Media { dialect: "responses", media: "video" }),
};

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let stored = request.previous_response_id.filter(|_| truthy(settings.extra.get("store")));
    let turns = match (stored, request.turns) {
        (Some(_), [.., last]) => std::slice::from_ref(last),
        (_, turns) => turns,
    };
    let turn = turns.last();
    let mut items = Vec::new();
    if let Some(context) = request.user_context_message {
        items.push(json!({"type": "message", "role": "user", "content": context}));
    }
    let mut own = items.len();
    for turn in turns {
        own = items.len();
        match &turn.raw_messages {
            Some(raw) => items.extend(raw.iter().cloned()),
            None => items.push(json!({
                "role": turn.role.as_deref().unwrap_or("user"),
                "content": content(settings, turn, &PARTS)?,
                "type": "message",
            })),
        }
    }
    let mut members = Map::new();
    members.insert("input".to_owned(), Value::Array(items));
    members.insert("model".to_owned(), model(settings, turn));
    members.insert("stream".to_owned(), Value::Bool(settings.streaming));
    if let Some(id) = stored {
        members.insert("previous_response_id".to_owned(), Value::from(id));
    }
    if let Some(system) = request.system_message {
        members.insert("instructions".to_owned(), Value::from(system));
    }
    if let Some(limit) = turn.and_then(|turn| turn.max_tokens) {
        members.insert("max_output_tokens".to_owned(), Value::from(limit));
    }
    if let Some(tools) = turn.and_then(|turn| turn.raw_tools.as_ref()) {
        members.insert("tools".to_owned(), Value::Array(tools.clone()));
    }
    let replaced = settings.extra.contains_key("input")
        || turn.is_some_and(|turn| turn.extra_body.contains_key("input"));
    put_extras(&mut members, settings, turn);
    if settings.server_token_count && truthy(members.get("stream")) {
        let options = members.entry("stream_options").or_insert_with(|| Value::Object(Map::new()));
        if options.is_null() {
            *options = Value::Object(Map::new());
        }
        if let Value::Object(options) = options {
            options.entry("include_usage").or_insert(Value::Bool(true));
        }
    }
    let payload = Payload::new(members);
    Ok(if replaced { payload } else { payload.with_items("input", own) })
}

fn read(state: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    if object.get("object").and_then(Value::as_str) == Some("response") {
        let usage = object.get("usage").and_then(Usage::read);
        return Ok(Reading { content: body(value), usage });
    }
    let delta = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let full = |text: &String| !text.is_empty();
    let place = || ["output_index", "content_index"].map(|key| value.get(key).and_then(Value::as_u64));
    let content = match object.get("type").and_then(Value::as_str) {
        Some("response.output_text.delta") => {
            state.saw_delta(place());
            delta("delta").filter(full).map(Content::Text)
        }
        Some("response.reasoning_text.delta") => {
            delta("delta").filter(full).map(|reasoning| Content::Reasoning { reasoning, content: None })
        }
        Some("response.function_call_arguments.delta") => {
            delta("delta").filter(full).map(|text| Content::ToolCall { text, content: None })
        }
        Some("response.output_text.done") => {
            // After deltas it is an empty text that counts as content, as in AIPerf.
            let text = if state.has_seen_delta(place()) { Some(String::new()) } else { delta("text") };
            text.map(Content::Text)
        }
        Some("response.completed") => {
            let usage = value.get("response").and_then(|response| Usage::read(response.get("usage")?));
            return Ok(Reading { content: None, usage });
        }
        Some(_) | None => None,
    };
    Ok(Reading { content, usage: None })
}

/// A whole body: reasoning with its text, else the text, else a call, else the shorthand.
fn body(value: &Value) -> Option<Content> {
    let output = value.get("output").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_type = |kind: &'static str| {
        output.iter().filter(move |item| item.get("type").and_then(Value::as_str) == Some(kind))
    };
    let texts = |item: &Value, list: &str, kind: &str| -> String {
        let parts = item.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        parts
            .iter()
            .filter(|part| part.get("type").and_then(Value::as_str) == Some(kind))
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect()
    };
    let text: String = of_type("message").map(|item| texts(item, "content", "output_text")).collect();
    let text = Some(text).filter(|text| !text.is_empty());
    let reasoning: String = of_type("reasoning").map(|item| texts(item, "summary", "summary_text")).collect();
    if !reasoning.is_empty() {
        return Some(Content::Reasoning { reasoning, content: text });
    }
    if let Some(text) = text {
        return Some(Content::Text(text));
    }
    let called: String = of_type("function_call")
        .flat_map(|item| ["name", "arguments"].map(|key| item.get(key).and_then(Value::as_str)))
        .flatten()
        .collect();
    if !called.is_empty() {
        return Some(Content::ToolCall { text: called, content: None });
    }
    let short = value.get("output_text").and_then(Value::as_str).filter(|text| !text.is_empty());
    short.map(|text| Content::Text(text.to_owned()))
}
