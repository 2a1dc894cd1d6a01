//! `solido_rag`: questions about a tool's documents.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras};
use crate::endpoint::completions::one_turn;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request};

pub(in crate::endpoint) static SOLIDO_RAG: Dialect = Dialect {
    name: "solido_rag",
    path: "/rag/api/prompt",
    streaming_path: None,
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

fn render(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let mut members = Map::new();
    members.insert("query".to_owned(), Value::from(turn.all_texts().collect::<Vec<_>>()));
    members.insert("filters".to_owned(), json!({"family": "Solido", "tool": "SDE"}));
    members.insert("inference_model".to_owned(), model(settings, Some(turn)));
    put_extras(&mut members, settings, Some(turn));
    Ok(Payload::new(members))
}

fn read(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    let text = object.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
    Ok(Reading { content: text.map(|text| Content::Text(text.to_owned())), usage: None })
}
