//! `nim_rankings`, `cohere_rankings` and `hf_tei_rankings`: passages by how well they answer a query.

use serde_json::{Map, Value, json};

use crate::endpoint::body::{model, put_extras};
use crate::endpoint::completions::one_turn;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};
use crate::endpoint::{Can, Dialect, EndpointError, EndpointSettings, Payload, Request, Turn};

/// Names of the text that is the query.
const QUERY_NAMES: [&str; 2] = ["query", "queries"];
/// Name of the texts that are ranked.
const PASSAGES_NAME: &str = "passages";

const ABILITIES: Can = Can {
    stream: false,
    tokenize_input: true,
    produce_tokens: false,
    take_system: false,
    take_history: false,
    report_usage: false,
};

pub(in crate::endpoint) static NIM_RANKINGS: Dialect = Dialect {
    name: "nim_rankings",
    path: "/v1/ranking",
    streaming_path: None,
    can: ABILITIES,
    render: |settings, request| {
        ranking(settings, request, |turn, query, passages| {
            let passages: Vec<Value> = passages.iter().map(|passage| json!({"text": passage})).collect();
            vec![
                ("model", model(settings, Some(turn))),
                ("query", json!({"text": query})),
                ("passages", Value::Array(passages)),
            ]
        })
    },
    read: |_, value| read(value, "rankings"),
};

pub(in crate::endpoint) static COHERE_RANKINGS: Dialect = Dialect {
    name: "cohere_rankings",
    path: "/v2/rerank",
    streaming_path: None,
    can: ABILITIES,
    render: |settings, request| {
        ranking(settings, request, |turn, query, passages| {
            vec![
                ("model", model(settings, Some(turn))),
                ("query", Value::from(query)),
                ("documents", Value::from(passages)),
            ]
        })
    },
    read: |_, value| read(value, "results"),
};

pub(in crate::endpoint) static HF_TEI_RANKINGS: Dialect = Dialect {
    name: "hf_tei_rankings",
    path: "/rerank",
    streaming_path: None,
    can: ABILITIES,
    render: |settings, request| {
        ranking(settings, request, |_, query, passages| {
            vec![("query", Value::from(query)), ("texts", Value::from(passages))]
        })
    },
    read: read_tei,
};

fn ranking(
    settings: &EndpointSettings,
    request: &Request<'_>,
    members: impl Fn(&Turn, &str, Vec<&str>) -> Vec<(&'static str, Value)>,
) -> Result<Payload, EndpointError> {
    let turn = one_turn(settings, request)?;
    let texts = |names: &[&str]| -> Vec<&str> {
        let named = turn.texts.iter().filter(|text| names.contains(&text.name.as_str()));
        named.flat_map(|text| text.contents.iter().map(String::as_str)).collect()
    };
    let queries = texts(&QUERY_NAMES);
    let query = queries.first().ok_or(EndpointError::NoQuery { dialect: settings.dialect.name })?;
    let mut object = Map::new();
    for (name, value) in members(turn, query, texts(&[PASSAGES_NAME])) {
        object.insert(name.to_owned(), value);
    }
    put_extras(&mut object, settings, Some(turn));
    Ok(Payload::new(object))
}

fn read(value: &Value, key: &str) -> Result<Reading, Spoiled> {
    let Value::Object(object) = value else { return Err(Spoiled::of(value)) };
    Ok(Reading { content: object.get(key).and_then(rankings), usage: None })
}

/// A list, or an object with `results`.
fn read_tei(_: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    match value {
        Value::Array(_) => Ok(Reading { content: rankings(value), usage: None }),
        value => read(value, "results"),
    }
}

/// How many rankings a list has.
pub(in crate::endpoint) fn rankings(list: &Value) -> Option<Content> {
    let count = list.as_array()?.len();
    (count > 0).then_some(Content::Rankings { count })
}
