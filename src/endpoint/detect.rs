//! Replies of endpoints whose form is not known: what could be content is looked for.

use serde_json::Value;

use crate::endpoint::embeddings::embeddings;
use crate::endpoint::rankings::rankings;
use crate::endpoint::reading::{Content, Reading, Spoiled, State};

/// Members that hold a text, in the order in which they are tried.
const TEXT_KEYS: [&str; 5] = ["text", "content", "response", "output", "result"];

/// Where the settings say, else wherever there is something.
#[expect(clippy::unnecessary_wraps, reason = "readers that can fail have this form")]
pub(in crate::endpoint) fn read(state: &mut State, value: &Value) -> Result<Reading, Spoiled> {
    let content = match state.field() {
        Some(field) => field.search(value).ok().and_then(|found| {
            let found = serde_json::to_value(&*found).ok()?;
            at_field(&found)
        }),
        None => anywhere(value),
    };
    Ok(Reading { content, usage: None })
}

/// What a named place holds.
fn at_field(found: &Value) -> Option<Content> {
    match found {
        Value::String(text) => text_content(text.clone()),
        Value::Array(_) => list(found),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn anywhere(value: &Value) -> Option<Content> {
    let Value::Object(object) = value else { return list(value) };
    let vectors = object
        .get("data")
        .and_then(embeddings)
        .or_else(|| object.get("embeddings").and_then(list_of_vectors))
        .or_else(|| object.get("embedding").and_then(vector));
    let ranked = || ["rankings", "results"].iter().find_map(|key| object.get(*key).and_then(rankings));
    let text = || TEXT_KEYS.iter().find_map(|key| object.get(*key).and_then(texts));
    vectors.or_else(ranked).or_else(text).or_else(|| {
        let first = object.get("choices")?.get(0)?;
        let message = |key: &str| first.get(key)?.get("content").and_then(texts);
        first.get("text").and_then(texts).or_else(|| message("message")).or_else(|| message("delta"))
    })
}

/// A list at the top: numbers are one vector, lists are vectors, objects are rankings.
fn list(value: &Value) -> Option<Content> {
    match value.get(0)? {
        Value::Number(_) => vector(value),
        Value::Array(_) => list_of_vectors(value),
        Value::Object(_) => rankings(value),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

fn vector(value: &Value) -> Option<Content> {
    let items = value.as_array()?;
    (!items.is_empty() && items.iter().all(Value::is_number)).then_some(Content::Embeddings { count: 1 })
}

fn list_of_vectors(value: &Value) -> Option<Content> {
    let count = value.as_array()?.len();
    (count > 0).then_some(Content::Embeddings { count })
}

/// A text, or texts joined.
fn texts(value: &Value) -> Option<Content> {
    match value {
        Value::String(text) => text_content(text.clone()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            text_content(texts?.concat())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn text_content(text: String) -> Option<Content> {
    (!text.is_empty()).then_some(Content::Text(text))
}
