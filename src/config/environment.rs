//! References to variables of the environment: `${NAME}` and `${NAME:default}` in any text value.
//!
//! A value that is one reference and nothing else is converted as an unquoted scalar would be in Python; the
//! inserted text is not looked at again. Keys are left alone.

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::lax::without_inner_underscores;
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value, shown};

/// Looks variables up by name.
pub type Variables<'v> = dyn Fn(&str) -> Option<String> + 'v;

/// Replaces all references below `node`.
pub fn substitute(node: &mut Node, variables: &Variables<'_>, faults: &mut Vec<Diagnostic>) {
    match &mut node.value {
        Value::Scalar(Scalar::Text(text)) if text.contains("${") => {
            match replaced(text, &node.span, variables) {
                Ok(scalar) => node.value = Value::Scalar(scalar),
                Err(fault) => faults.push(*fault),
            }
        }
        Value::Scalar(_) => {}
        Value::Sequence(items) => {
            for item in items {
                substitute(item, variables, faults);
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                substitute(&mut entry.node, variables, faults);
            }
        }
    }
}

fn replaced(text: &str, place: &Span, variables: &Variables<'_>) -> Result<Scalar, Box<Diagnostic>> {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    let mut whole = false;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at_checked(at).unwrap_or((rest, ""));
        result.push_str(before);
        let Some((length, name, default)) = reference_at(reference) else {
            if unterminated(reference) {
                return Err(Diagnostic::error(format!("`{}`: a `${{` without a `}}`", shown(text)))
                    .at(place.clone(), "reference without an end")
                    .with_help("close it: `${NAME}`")
                    .into());
            }
            // Not a reference: it stays as it is.
            result.push_str("${");
            rest = reference.get(2..).unwrap_or_default();
            continue;
        };
        let value = variables(name).or_else(|| default.map(str::to_owned)).ok_or_else(|| {
            Diagnostic::error(format!("the environment variable `{name}` is not set"))
                .at(place.clone(), format!("needs `{name}`"))
                .with_help(format!("set it, or give a default: `${{{name}:value}}`"))
        })?;
        whole = before.is_empty() && length == text.len();
        result.push_str(&value);
        rest = reference.get(length..).unwrap_or_default();
    }
    result.push_str(rest);
    Ok(if whole { converted(&result) } else { Scalar::Text(result) })
}

/// The reference that `text` starts with: its length in bytes, its name and its default.
fn reference_at(text: &str) -> Option<(usize, &str, Option<&str>)> {
    let inside = text.strip_prefix("${")?;
    let end = inside.find('}')?;
    let inside = inside.get(..end)?;
    let (name, default) = match inside.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let good = starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    good.then_some((end + 3, name, default))
}

fn unterminated(text: &str) -> bool {
    text.lines()
        .any(|line| line.rfind("${").is_some_and(|at| !line.get(at..).unwrap_or_default().contains('}')))
}

/// `text` as a boolean, a whole number or a number if it is one.
pub fn converted(text: &str) -> Scalar {
    if text.eq_ignore_ascii_case("true") {
        return Scalar::Bool(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Scalar::Bool(false);
    }
    let bare = text.trim();
    let Some(digits) = without_inner_underscores(bare) else { return Scalar::Text(text.to_owned()) };
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let limit = if digits.starts_with('-') { i128::MIN } else { i128::MAX };
        return Scalar::Integer(digits.parse().unwrap_or(limit));
    }
    match digits.parse::<f64>() {
        Ok(number) if !digits.is_empty() => Scalar::Float(number),
        Ok(_) | Err(_) => Scalar::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Scalar, String> {
        let variables = |name: &str| match name {
            "N" => Some("7".to_owned()),
            "EMPTY" => Some(String::new()),
            "DEEP" => Some("${N}".to_owned()),
            _ => None,
        };
        replaced(text, &(0..0), &variables).map_err(|fault| fault.message)
    }

    #[test]
    fn a_whole_reference_is_converted_and_a_part_is_text() {
        let text = |text: &str| Ok(Scalar::Text(text.to_owned()));
        assert_eq!(with("${N}"), Ok(Scalar::Integer(7)));
        assert_eq!(with("${N}0"), text("70"));
        assert_eq!(with("${X:1_0}"), Ok(Scalar::Integer(10)));
        assert_eq!(with("${X:1e3}"), Ok(Scalar::Float(1_000.0)));
        assert_eq!(with("${X:TRUE}"), Ok(Scalar::Bool(true)));
        assert_eq!(with("${EMPTY:9}"), text(""));
        assert_eq!(with("${DEEP}"), text("${N}"));
        assert_eq!(with("$${N}"), text("$7"));
        assert_eq!(with("${1A}"), text("${1A}"));
        assert_eq!(with("${X:http://h:1/a}"), text("http://h:1/a"));
    }

    #[test]
    fn what_is_not_set_or_not_closed_is_a_fault() {
        assert!(with("${X}").is_err_and(|message| message.contains("`X` is not set")));
        assert!(with("a ${N").is_err_and(|message| message.contains("without a `}`")));
    }
}
