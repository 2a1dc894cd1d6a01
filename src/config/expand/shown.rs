//! Values of variations as Python prints them: labels and directory names.

use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

/// A value as Python's `str` prints it.
pub fn python(node: &Node) -> String {
    match &node.value {
        Value::Scalar(Scalar::Text(text)) => text.clone(),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => inner(node),
    }
}

/// A value within a list or mapping as Python prints it.
fn inner(node: &Node) -> String {
    match &node.value {
        Value::Scalar(Scalar::Null) => "None".to_owned(),
        Value::Scalar(Scalar::Bool(true)) => "True".to_owned(),
        Value::Scalar(Scalar::Bool(false)) => "False".to_owned(),
        Value::Scalar(Scalar::Integer(value)) => value.to_string(),
        Value::Scalar(Scalar::Float(value)) => python_float(*value),
        Value::Scalar(Scalar::Date(text)) => text.clone(),
        Value::Scalar(Scalar::Text(text)) => quoted(text),
        Value::Sequence(items) => {
            let items: Vec<String> = items.iter().map(inner).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}: {}", quoted(&entry.key), inner(&entry.node)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for letter in text.chars() {
        match letter {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter == quote => quoted.extend(['\\', letter]),
            letter => quoted.push(letter),
        }
    }
    quoted.push(quote);
    quoted
}

/// A number as Python prints it: `5.0`, `1e+16`, `inf`.
pub fn python_float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if value.is_nan() {
        return "nan".to_owned();
    }
    let shown = format!("{value:?}");
    match shown.split_once('e') {
        // Python writes the sign of an exponent and two digits at least.
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.strip_suffix(".0").unwrap_or(mantissa);
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => shown,
    }
}

/// `<last part>_<value>` of all, or the label where a value is no single one.
pub(super) fn dir_name(row: &[(String, Node)], label: &str, index: usize) -> String {
    let single = row.iter().all(|(_, value)| matches!(value.value, Value::Scalar(_)));
    if row.is_empty() || !single {
        return sanitized(label, index);
    }
    let parts: Vec<String> = row
        .iter()
        .map(|(path, value)| format!("{}_{}", path.rsplit('.').next().unwrap_or(path), python(value)))
        .collect();
    sanitized(&parts.join("__"), index)
}

/// `name` without what a directory name may not have.
pub(super) fn sanitized(name: &str, index: usize) -> String {
    let bare =
        name.replace(['/', '\\'], "").replace("..", "").replace(['<', '>', ':', '"', '|', '?', '*'], "");
    if bare.trim().is_empty() { format!("variation_{index}") } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_python_prints_them() {
        for (value, text) in [
            (5.0, "5.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (123_456_789.5, "123456789.5"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }
}
