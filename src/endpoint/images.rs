//! `image_generation` and `image_retrieval`: texts into images, images into findings.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras};
use crate::endpoint::completions::one_turn;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Usage};

pub(in crate::endpoint) static IMAGE_GENERATION: Dialect = Dialect {
    name: "image_generation",
    path: "/v1/images/generations",
    streaming_path: None,
    can: Can {
        stream: true,
        tokenize_input: true,
        produce_tokens: false,
        take_system: false,
        take_history: false,
        report_usage: true,
    },
    render: render_generation,
    read: read_generation,
};

pub(in crate::endpoint) static IMAGE_RETRIEVAL: Dialect = Dialect {
    name: "image_retrieval",
    path: "/v1/infer",
    streaming_path: None,
    can: Can {
        stream: false,
        tokenize_input: false,
        produce_tokens: false,
        take_system: false,
        take_history: false,
        report_usage: false,
    },
    render: render_retrieval,
    read: read_retrieval,
};

fn render_generation(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let prompt = turn
        .all_texts()
        .next()
        .ok_or(EndpointError::Missing { dialect: settings.dialect.name, what: "a text: the prompt" })?;
    let mut members = Map::new();
    members.insert("prompt".to_owned(), Value::from(prompt));
    members.insert("model".to_owned(), model(settings, Some(turn)));
    members.insert("response_format".to_owned(), Value::from("b64_json"));
    members.insert("n".to_owned(), Value::from(1));
    if settings.streaming {
        members.insert("stream".to_owned(), Value::Bool(true));
    }
    put_extras(&mut members, settings, Some(turn));
    Ok(Payload::new(members))
}

fn read_generation(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    let count = object.get("data").and_then(Value::as_array).map_or(1, Vec::len);
    Ok(Reading { content: Some(Content::Images { count }), usage: object.get("usage").and_then(Usage::read) })
}

fn render_retrieval(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let images: Vec<Value> = turn.all_images().map(|url| json!({"type": "image_url", "url": url})).collect();
    if images.is_empty() {
        return Err(EndpointError::Missing { dialect: settings.dialect.name, what: "an image" });
    }
    let mut members = Map::new();
    members.insert("input".to_owned(), Value::Array(images));
    put_extras(&mut members, settings, Some(turn));
    Ok(Payload::new(members))
}

fn read_retrieval(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    let count = object.get("data").and_then(Value::as_array).map_or(0, Vec::len);
    Ok(Reading { content: (count > 0).then_some(Content::Images { count }), usage: None })
}
