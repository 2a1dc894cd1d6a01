//! Values as Python prints them, for the cells of AIPerf's CSV files.

use crate::config::expand::python_float;
use serde_json::Value as Json;

/// A value within a list or mapping.
pub(super) fn repr(value: &Json) -> String {
    match value {
        Json::Array(items) => list(items.iter().map(repr)),
        Json::Bool(true) => "True".to_owned(),
        Json::Bool(false) => "False".to_owned(),
        Json::Null => "None".to_owned(),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(_), _, _) | (_, Some(_), _) | (None, None, None) => number.to_string(),
            (None, None, Some(float)) => python_float(float),
        },
        Json::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{}: {}", text(key), repr(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Json::String(value) => text(value),
    }
}

/// A value by itself: texts have no quotes.
pub(super) fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(_) | Json::Bool(_) | Json::Null | Json::Number(_) | Json::Object(_) => repr(value),
    }
}

/// A list of what is printed already.
pub(super) fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A quoted text.
pub(super) fn text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    let escaped = if quote == '\'' { escaped.replace('\'', "\\'") } else { escaped };
    format!("{quote}{escaped}{quote}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_python_prints_them() {
        let value = json!({"a": [1, 2.0, true, null], "b": "it's"});
        assert_eq!(repr(&value), "{'a': [1, 2.0, True, None], 'b': \"it's\"}");
        assert_eq!(plain(&json!("30s")), "30s");
    }
}
