//! `models`: a text, a list of texts, or a strategy with items.

use serde_json::json;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, mismatch};
use crate::config::meant::{Model, ModelStrategy, Models};
use crate::config::scalar::Scalar;
use crate::config::sections::require;
use crate::config::source::{Node, Value};

pub(super) fn models(keys: &mut Keys<'_>) -> Written<Models> {
    let Written::Present(Spanned { key, span, value: (node, path) }) = keys.key("models").node() else {
        return Written::Absent;
    };
    let names: Option<Vec<&Node>> = match &node.value {
        Value::Scalar(Scalar::Text(_)) => Some(vec![node]),
        Value::Sequence(items) if !items.is_empty() => Some(items.iter().collect()),
        Value::Mapping(_) => None,
        Value::Scalar(_) | Value::Sequence(_) => {
            keys.fault(
                mismatch(&path, "the name of a model", node, &span)
                    .with_help("put the name in quotes if it looks like a number or a date"),
            );
            return Written::Faulty;
        }
    };
    match names {
        Some(names) => of_names(keys, &names, &key, &span, &path),
        None => keys.key("models").section(with_strategy),
    }
}

fn of_names(keys: &mut Keys<'_>, names: &[&Node], key: &Span, span: &Span, path: &str) -> Written<Models> {
    let mut items = Vec::with_capacity(names.len());
    for name in names {
        match &name.value {
            Value::Scalar(Scalar::Text(text)) if !text.is_empty() => {
                items.push(Model { name: text.clone(), weight: None, lora: None, tokenizer: None });
            }
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
                keys.fault(mismatch(path, "the name of a model", name, span));
                return Written::Faulty;
            }
        }
    }
    let form: Vec<_> = items.iter().map(|item| json!({ "name": item.name })).collect();
    keys.set_form("models", json!({ "items": form }));
    let value = Models { strategy: ModelStrategy::RoundRobin, items };
    Written::Present(Spanned { key: key.clone(), span: span.clone(), value })
}

const STRATEGIES: Words<ModelStrategy> = Words {
    known: &[
        ("round_robin", ModelStrategy::RoundRobin),
        ("random", ModelStrategy::Random),
        ("weighted", ModelStrategy::Weighted),
    ],
    spelling: Spelling::Lenient,
};

/// How far the sum of weights may be from 1.
const WEIGHTS_TOLERANCE: f64 = 0.01;

fn with_strategy(mut keys: Keys<'_>) -> Models {
    let strategy = keys.key("strategy").word(STRATEGIES).or(ModelStrategy::RoundRobin);
    let items = keys.items("items", "a list of models", model);
    require(&mut keys, &items, "items");
    let items = items.optional().unwrap_or_default();
    if strategy == ModelStrategy::Weighted && !items.is_empty() {
        let sum: Option<f64> = items.iter().map(|item| item.weight).sum();
        let good = sum.is_some_and(|sum| (sum - 1.0).abs() <= WEIGHTS_TOLERANCE + 1e-12);
        if !good {
            let (path, place) = (keys.path().to_owned(), keys.place());
            let found = match sum {
                Some(sum) => format!("they sum to {sum}"),
                None => "one has none".to_owned(),
            };
            keys.fault(
                Diagnostic::error(format!(
                    "`{path}`: the strategy `weighted` needs a weight for every model, 1 in sum; {found}"
                ))
                .at(place, "weights do not fit")
                .with_help("write `weight: 0.5` and so on, so that they sum to 1"),
            );
        }
    }
    keys.finish();
    Models { strategy, items }
}

fn model(mut keys: Keys<'_>) -> Model {
    let name = keys.key("name").text();
    require(&mut keys, &name, "name");
    let weight = keys.key("weight").or_null().number(Bound::Within(0.0, 1.0)).optional();
    let lora = keys.key("lora").or_null().text_or_empty().optional();
    keys.key("modalities").or_null().any();
    let tokenizer = keys.key("tokenizer").or_null().section(|mut keys| {
        let name = keys.key("name").or_null().text_or_empty();
        keys.key("revision").text_or_empty();
        keys.key("trust_remote_code").switch();
        keys.key("apply_chat_template").switch();
        keys.finish();
        name.optional()
    });
    keys.finish();
    Model { name: name.or(String::new()), weight, lora, tokenizer: tokenizer.optional().flatten() }
}
