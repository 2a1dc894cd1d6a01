//! Rows of a source, and their members with what is wrong with them.

use serde_json::{Map, Value};

use crate::dataset::file::{Content, Reading, RowFault, Source};

/// The rows of one source.
pub(in crate::dataset) struct Rows {
    pub(in crate::dataset) label: String,
    pub(in crate::dataset) stem: String,
    /// Lines, from 1, and what stands there.
    pub(in crate::dataset) lines: Vec<(usize, Map<String, Value>)>,
}

impl Rows {
    /// A row on each line that is not blank.
    pub(in crate::dataset) fn of_lines(source: &Source, reading: &mut Reading<'_>) -> Self {
        let mut rows = Vec::new();
        match &source.content {
            Content::Values(values) => {
                for (index, value) in values.iter().enumerate() {
                    push(&mut rows, source, index + 1, value.clone(), reading);
                }
            }
            Content::Text(text) => {
                for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                    match serde_json::from_str(line) {
                        Ok(value) => push(&mut rows, source, index + 1, value, reading),
                        Err(error) => reading.fault_at(RowFault {
                            file: source.label.clone(),
                            line: index + 1,
                            column: Some(error.column()),
                            reason: not_json(&error),
                        }),
                    }
                }
            }
        }
        Self { label: source.label.clone(), stem: source.stem.clone(), lines: rows }
    }

    /// The whole source is one document: its list, or the list under `data`; else a row on each line.
    pub(in crate::dataset) fn of_document(source: &Source, reading: &mut Reading<'_>) -> Self {
        let Content::Text(text) = &source.content else { return Self::of_lines(source, reading) };
        let items = match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(items)) => items,
            Ok(Value::Object(mut document)) => match document.remove("data") {
                Some(Value::Array(items)) => items,
                Some(_) | None => return Self::of_lines(source, reading),
            },
            Ok(_) => Vec::new(),
            Err(error) if text.trim_start().starts_with('[') || text.lines().count() <= 1 => {
                reading.fault_at(RowFault {
                    file: source.label.clone(),
                    line: error.line(),
                    column: Some(error.column()),
                    reason: not_json(&error),
                });
                Vec::new()
            }
            Err(_) => return Self::of_lines(source, reading),
        };
        let mut rows = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            push(&mut rows, source, index + 1, item, reading);
        }
        Self { label: source.label.clone(), stem: source.stem.clone(), lines: rows }
    }
}

fn push(
    rows: &mut Vec<(usize, Map<String, Value>)>,
    source: &Source,
    line: usize,
    value: Value,
    reading: &mut Reading<'_>,
) {
    match value {
        Value::Object(row) => rows.push((line, row)),
        other => {
            let reason = format!("a row is an object, this is {}", kind(&other));
            reading.fault(&source.label, line, reason);
        }
    }
}

fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default().to_owned();
    format!("this is not JSON: {text}")
}

/// What a value is, in words.
pub(in crate::dataset) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A member that is there and not null.
pub(in crate::dataset) fn present<'a>(row: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    row.get(key).filter(|value| !value.is_null())
}

fn wrong(key: &str, wanted: &str, value: &Value) -> String {
    format!("`{key}` is {}, it must be {wanted}", kind(value))
}

/// A text.
pub(in crate::dataset) fn text(row: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong(key, "a text", other)),
    }
}

/// A finite number of at least 0.
pub(in crate::dataset) fn number(row: &Map<String, Value>, key: &str) -> Result<Option<f64>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(Value::Number(number)) => match number.as_f64().filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{key}` is {number}, it must not be below 0")),
        },
        Some(other) => Err(wrong(key, "a number", other)),
    }
}

/// A whole number of at least `min`.
pub(in crate::dataset) fn count(
    row: &Map<String, Value>,
    key: &str,
    min: u64,
) -> Result<Option<u64>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole"
            )]
            let whole = number.as_u64().or_else(|| {
                number
                    .as_f64()
                    .filter(|float| *float >= 0.0 && float.fract() == 0.0)
                    .map(|float| float as u64)
            });
            match whole.filter(|whole| *whole >= min) {
                Some(whole) => Ok(Some(whole)),
                None => Err(format!("`{key}` is {number}, it must be a whole number of at least {min}")),
            }
        }
        Some(other) => Err(wrong(key, "a whole number", other)),
    }
}

/// A whole number that may be below 0.
pub(in crate::dataset) fn whole(row: &Map<String, Value>, key: &str) -> Result<Option<i64>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{key}` is {value}, it must be a whole number")),
        },
    }
}

/// A list.
pub(in crate::dataset) fn list<'a>(
    row: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Vec<Value>>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong(key, "a list", other)),
    }
}

/// An object.
pub(in crate::dataset) fn object<'a>(
    row: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, String> {
    match present(row, key) {
        None => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(other) => Err(wrong(key, "an object", other)),
    }
}
