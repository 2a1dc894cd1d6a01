//! `completions`: OpenAI text completions.

use serde_json::{Map, Value};

use crate::endpoint::body::{model, put_extras, put_stream_options};
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Turn, Usage};

pub(in crate::endpoint) static COMPLETIONS: Dialect = Dialect {
    name: "completions",
    path: "/v1/completions",
    streaming_path: None,
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: true,
        take_system: false,
        take_history: false,
        report_usage: true,
    },
    render,
    read,
};

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let texts: Vec<&str> = turn.all_texts().collect();
    let prompt = match texts.as_slice() {
        [text] => Value::from(*text),
        texts => Value::from(texts.to_vec()),
    };
    let mut members = Map::new();
    members.insert("prompt".to_owned(), prompt);
    members.insert("model".to_owned(), model(settings, Some(turn)));
    members.insert("stream".to_owned(), Value::Bool(settings.streaming));
    if let Some(limit) = turn.max_tokens.filter(|limit| *limit > 0) {
        members.insert("max_tokens".to_owned(), Value::from(limit));
    }
    put_extras(&mut members, settings, Some(turn));
    put_stream_options(&mut members, settings);
    Ok(Payload::new(members))
}

/// The turn of a request that may have but one.
pub(in crate::endpoint) fn one_turn<'a>(
    settings: &EndpointSettings,
    request: &Request<'a>,
) -> Result<&'a Turn, EndpointError> {
    match request.turns {
        [turn] => Ok(turn),
        turns => Err(EndpointError::OneTurn { dialect: settings.dialect.name, turns: turns.len() }),
    }
}

fn read(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    let usage = object.get("usage").and_then(Usage::read);
    let known =
        matches!(object.get("object").and_then(Value::as_str), Some("completion" | "text_completion"));
    let text =
        object.get("choices").filter(|_| known).and_then(|choices| choices.get(0)?.get("text")?.as_str());
    let content = text.filter(|text| !text.is_empty()).map(|text| Content::Text(text.to_owned()));
    Ok(Reading { content, usage })
}
