//! `embeddings`, `nim_embeddings` and `chat_embeddings`: texts into vectors.

use serde_json::{Map, Value};

use crate::endpoint::body::{model, put_extras};
use crate::endpoint::completions::one_turn;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, chat};

const ABILITIES: Can = Can {
    stream: false,
    tokenize_input: true,
    produce_tokens: false,
    take_system: false,
    take_history: false,
    report_usage: false,
};

pub(in crate::endpoint) static EMBEDDINGS: Dialect = Dialect {
    name: "embeddings",
    path: "/v1/embeddings",
    streaming_path: None,
    can: ABILITIES,
    render: |settings, request| {
        let turn = one_turn(settings, request)?;
        Ok(input(settings, request, turn.all_texts().map(str::to_owned).collect()))
    },
    read,
};

pub(in crate::endpoint) static NIM_EMBEDDINGS: Dialect = Dialect {
    name: "nim_embeddings",
    path: "/v1/embeddings",
    streaming_path: None,
    can: ABILITIES,
    render: render_nim,
    read,
};

pub(in crate::endpoint) static CHAT_EMBEDDINGS: Dialect = Dialect {
    name: "chat_embeddings",
    path: "/v1/embeddings",
    streaming_path: None,
    can: Can { take_system: true, ..ABILITIES },
    render: |settings, request| {
        let (mut members, _) = chat::conversation(settings, request)?;
        members.insert("stream".to_owned(), Value::Bool(false));
        put_extras(&mut members, settings, request.turns.last());
        Ok(Payload::new(members))
    },
    read,
};

/// Texts, or images, or one of each joined by a blank.
fn render_nim(settings: &EndpointSettings, request: &Request<'_>) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let texts: Vec<String> = turn.all_texts().map(str::to_owned).collect();
    let images: Vec<String> = turn.all_images().map(str::to_owned).collect();
    let items = match (texts.is_empty(), images.is_empty()) {
        (_, true) => texts,
        (true, false) => images,
        (false, false) if texts.len() == images.len() => {
            texts.iter().zip(&images).map(|(text, image)| format!("{text} {image}")).collect()
        }
        (false, false) => {
            return Err(EndpointError::Counts {
                dialect: settings.dialect.name,
                texts: texts.len(),
                images: images.len(),
            });
        }
    };
    Ok(input(settings, request, items))
}

fn input(settings: &EndpointSettings, request: &Request<'_>, items: Vec<String>) -> Payload {
    let turn = request.turns.last();
    let mut members = Map::new();
    members.insert("model".to_owned(), model(settings, turn));
    members.insert("input".to_owned(), Value::from(items));
    put_extras(&mut members, settings, turn);
    Payload::new(members)
}

fn read(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    Ok(Reading { content: object.get("data").and_then(embeddings), usage: None })
}

/// How many embeddings a `data` list has.
pub(in crate::endpoint) fn embeddings(data: &Value) -> Option<Content> {
    let count = data
        .as_array()?
        .iter()
        .filter(|item| item.get("object").and_then(Value::as_str) == Some("embedding"))
        .filter(|item| item.get("embedding").is_some_and(|vector| !vector.is_null()))
        .count();
    (count > 0).then_some(Content::Embeddings { count })
}
