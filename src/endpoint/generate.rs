//! `huggingface_generate`: text generation inference.

use serde_json::{Map, Value};

use crate::endpoint::completions::one_turn;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request};

pub(in crate::endpoint) static HUGGINGFACE_GENERATE: Dialect = Dialect {
    name: "huggingface_generate",
    path: "/generate",
    streaming_path: Some("/generate_stream"),
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: true,
        take_system: false,
        take_history: false,
        report_usage: false,
    },
    render,
    read,
};

/// The endpoint's extras are parameters, the turn's stand beside them.
fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let texts: Vec<&str> = turn.all_texts().collect();
    let mut parameters = Map::new();
    if let Some(limit) = turn.max_tokens {
        parameters.insert("max_new_tokens".to_owned(), Value::from(limit));
    }
    parameters.extend(settings.extra.clone());
    let mut members = Map::new();
    members.insert("inputs".to_owned(), Value::from(texts.join(" ")));
    members.insert("parameters".to_owned(), Value::Object(parameters));
    members.extend(turn.extra_body.clone());
    Ok(Payload::new(members))
}

/// An event has a token, a body the whole text; the whole text at the end of a stream is no content.
fn read(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let object = match value {
        Value::Array(items) => items.first().unwrap_or(value),
        value => value,
    };
    let Value::Object(_) = object else { return Err(Spoiled::of(value)) };
    let text = match object.get("token") {
        Some(token) => token.get("text"),
        None => object.get("generated_text"),
    };
    let text = text.and_then(Value::as_str).filter(|text| !text.is_empty());
    Ok(Reading { content: text.map(|text| Content::Text(text.to_owned())), usage: None })
}
