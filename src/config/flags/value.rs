//! Values of flags into nodes.

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::environment::converted;
use crate::config::flags::{Given, Takes};
use crate::config::keys::Spanned;
use crate::config::lax;
use crate::config::scalar::{self, Scalar};
use crate::config::source::{Entry, Node, Value, shown};

/// The values of `given`: one node, or one per item for a flag that takes a list of numbers.
pub(super) fn nodes(given: &Given) -> Result<Vec<Node>, Box<Diagnostic>> {
    let Some(first) = given.values.first() else { return Ok(Vec::new()) };
    let scalar = |value: Scalar| vec![Node { span: first.span.clone(), value: Value::Scalar(value) }];
    let refuse = |expected: &str| {
        Box::new(
            Diagnostic::error(format!("`{}` takes {expected}, found `{}`", given.typed, shown(&first.value)))
                .at(first.span.clone(), format!("must be {expected}")),
        )
    };
    match given.flag.takes {
        Takes::Switch | Takes::TwoWaySwitch => {
            let on = lax::switch(&Scalar::Text(first.value.clone()))
                .ok_or_else(|| refuse("no value, or `=false`"))?;
            Ok(scalar(Scalar::Bool(on)))
        }
        Takes::Text => Ok(scalar(Scalar::Text(first.value.clone()))),
        Takes::Texts => {
            Ok(vec![Node { span: first.span.clone(), value: Value::Sequence(texts(&given.values)) }])
        }
        Takes::Whole(least) => whole(&Scalar::Text(first.value.clone()), least)
            .map(scalar)
            .ok_or_else(|| refuse(&format!("a whole number of at least {least}"))),
        Takes::Wholes(least) => list(first, |part| match converted(part) {
            number @ Scalar::Integer(_) => whole(&number, least),
            Scalar::Null | Scalar::Bool(_) | Scalar::Float(_) | Scalar::Date(_) | Scalar::Text(_) => None,
        })
        .ok_or_else(|| refuse(&format!("a whole number of at least {least}, or several parted by commas"))),
        Takes::Number(bound) => number(&Scalar::Text(first.value.clone()))
            .filter(|value| bound.admits(*value))
            .map(|value| scalar(Scalar::Float(value)))
            .ok_or_else(|| refuse(&format!("a number {}, without a unit", bound.described()))),
        Takes::Numbers(bound) => list(first, |part| {
            number(&converted(part)).filter(|value| bound.admits(*value)).map(Scalar::Float)
        })
        .ok_or_else(|| {
            refuse(&format!("a number {}, without a unit, or several parted by commas", bound.described()))
        }),
        Takes::Assignments => {
            let bad = given
                .values
                .iter()
                .find(|value| value.value.split_once('=').is_none_or(|(path, _)| path.is_empty()));
            match bad {
                None => Ok(vec![Node {
                    span: first.span.clone(),
                    value: Value::Sequence(assigned(&given.values)),
                }]),
                Some(_) => Err(refuse("`path=value`, such as `phases.profiling.rate=4`")),
            }
        }
        Takes::Pairs => pairs(&given.values)
            .map(|entries| vec![mapping(entries, &first.span)])
            .ok_or_else(|| refuse("`name:value` parted by commas, or a JSON object")),
        Takes::Limits => limits(&given.values)
            .map(|entries| vec![mapping(entries, &first.span)])
            .ok_or_else(|| refuse("`metric:number` parted by blanks")),
    }
}

fn whole(scalar: &Scalar, least: u64) -> Option<Scalar> {
    lax::whole(scalar).filter(|value| *value >= i128::from(least)).map(Scalar::Integer)
}

fn number(scalar: &Scalar) -> Option<f64> {
    match scalar {
        Scalar::Bool(_) => None,
        Scalar::Null | Scalar::Integer(_) | Scalar::Float(_) | Scalar::Date(_) | Scalar::Text(_) => {
            lax::number(scalar)
        }
    }
    .filter(|value| !value.is_nan())
}

/// The parts between commas; the last may be empty.
fn list(value: &Spanned<String>, convert: impl Fn(&str) -> Option<Scalar>) -> Option<Vec<Node>> {
    let trimmed = value.value.trim();
    let trimmed = trimmed.strip_suffix(',').unwrap_or(trimmed);
    let parts = trimmed.split(',').map(|part| {
        convert(part.trim()).map(|scalar| Node { span: value.span.clone(), value: Value::Scalar(scalar) })
    });
    parts.collect()
}

/// Texts parted by commas or given one by one.
fn texts(values: &[Spanned<String>]) -> Vec<Node> {
    values
        .iter()
        .flat_map(|value| {
            value.value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| Node {
                span: value.span.clone(),
                value: Value::Scalar(Scalar::Text(part.to_owned())),
            })
        })
        .collect()
}

fn mapping(entries: Vec<Entry>, place: &Span) -> Node {
    Node { span: place.clone(), value: Value::Mapping(entries) }
}

fn entry(key: &str, value: Node) -> Entry {
    Entry { key: key.to_owned(), key_span: value.span.clone(), node: value }
}

/// `k:v,k:v` or JSON objects.
fn pairs(values: &[Spanned<String>]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for value in values {
        let text = value.value.trim();
        if text.starts_with('{') {
            let serde_json::Value::Object(members) = serde_json::from_str(text).ok()? else { return None };
            entries.extend(members.iter().map(|(key, member)| entry(key, json_node(member, &value.span))));
            continue;
        }
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (key, text) = part.split_once(':')?;
            if key.trim().is_empty() {
                return None;
            }
            let scalar = guessed(text.trim());
            entries.push(entry(key.trim(), Node { span: value.span.clone(), value: Value::Scalar(scalar) }));
        }
    }
    Some(entries)
}

/// Each assignment as a mapping of its path to its value: JSON, or a scalar as YAML reads it.
fn assigned(values: &[Spanned<String>]) -> Vec<Node> {
    let assigned = values.iter().filter_map(|value| {
        let (path, text) = value.value.split_once('=')?;
        let node = match serde_json::from_str::<serde_json::Value>(text) {
            Ok(
                json @ (serde_json::Value::Array(_)
                | serde_json::Value::Object(_)
                | serde_json::Value::String(_)),
            ) => json_node(&json, &value.span),
            Ok(_) | Err(_) => Node { span: value.span.clone(), value: Value::Scalar(scalar::resolve(text)) },
        };
        Some(mapping(vec![entry(path, node)], &value.span))
    });
    assigned.collect()
}

/// The value that a text of a pair means.
fn guessed(text: &str) -> Scalar {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if text.eq_ignore_ascii_case("true") {
        Scalar::Bool(true)
    } else if text.eq_ignore_ascii_case("false") {
        Scalar::Bool(false)
    } else if text.eq_ignore_ascii_case("none") || text.eq_ignore_ascii_case("null") {
        Scalar::Null
    } else if digits(unsigned) && (unsigned == "0" || !unsigned.starts_with('0')) {
        text.parse().map_or_else(|_| Scalar::Text(text.to_owned()), Scalar::Integer)
    } else if unsigned.split_once('.').is_some_and(|(whole, fraction)| digits(whole) && digits(fraction)) {
        text.parse().map_or_else(|_| Scalar::Text(text.to_owned()), Scalar::Float)
    } else {
        Scalar::Text(text.to_owned())
    }
}

/// `metric:number` parted by blanks.
fn limits(values: &[Spanned<String>]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for value in values {
        for part in value.value.split_whitespace() {
            let (metric, limit) = part.split_once(':')?;
            let limit = number(&Scalar::Text(limit.to_owned()))?;
            if metric.is_empty() {
                return None;
            }
            let scalar = Value::Scalar(Scalar::Float(limit));
            entries.push(entry(metric, Node { span: value.span.clone(), value: scalar }));
        }
    }
    (!entries.is_empty()).then_some(entries)
}

/// A JSON value as a node.
pub(super) fn json_node(json: &serde_json::Value, place: &Span) -> Node {
    let value = match json {
        serde_json::Value::Null => Value::Scalar(Scalar::Null),
        serde_json::Value::Bool(value) => Value::Scalar(Scalar::Bool(*value)),
        serde_json::Value::Number(number) => Value::Scalar(match number.as_i128() {
            Some(value) => Scalar::Integer(value),
            None => Scalar::Float(number.as_f64().unwrap_or(f64::NAN)),
        }),
        serde_json::Value::String(text) => Value::Scalar(Scalar::Text(text.clone())),
        serde_json::Value::Array(items) => {
            Value::Sequence(items.iter().map(|item| json_node(item, place)).collect())
        }
        serde_json::Value::Object(members) => {
            Value::Mapping(members.iter().map(|(key, member)| entry(key, json_node(member, place))).collect())
        }
    };
    Node { span: place.clone(), value }
}
