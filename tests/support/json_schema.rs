//! As much of JSON Schema as phasor's schemas use; every keyword that it does not know is a fault.

use serde_json::Value;

/// Where `value`, which is at `place`, does not follow `schema`.
pub(crate) fn faults(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    follow(schema, schema, value, place, &mut found);
    found
}

fn follow(schema: &Value, root: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return follow(target.unwrap_or_else(|| panic!("{reference}")), root, value, place, found);
    }
    for (keyword, rule) in schema.as_object().unwrap() {
        let mut fault = |holds: bool| {
            if !holds {
                found.push(format!("{place}: {keyword} {rule}, but it is {value}"));
            }
        };
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "type" => fault(match rule.as_array() {
                Some(kinds) => kinds.iter().any(|kind| is(value, kind.as_str().unwrap())),
                None => is(value, rule.as_str().unwrap()),
            }),
            "anyOf" => fault(rule.as_array().unwrap().iter().any(|choice| {
                let mut found = Vec::new();
                follow(choice, root, value, place, &mut found);
                found.is_empty()
            })),
            // The one pattern in use: a template or a variable stands in the text.
            "pattern" => {
                assert_eq!(rule, "[$][{]|[{][{%]");
                fault(
                    value
                        .as_str()
                        .is_some_and(|text| ["${", "{{", "{%"].iter().any(|mark| text.contains(mark))),
                );
            }
            "exclusiveMinimum" => fault(value.as_f64().is_none_or(|value| Some(value) > rule.as_f64())),
            "exclusiveMaximum" => fault(value.as_f64().is_none_or(|value| Some(value) < rule.as_f64())),
            "const" => fault(value == rule),
            "enum" => fault(rule.as_array().unwrap().contains(value)),
            // Bounds bind numbers only.
            "minimum" => fault(value.as_f64().is_none_or(|value| Some(value) >= rule.as_f64())),
            "maximum" => fault(value.as_f64().is_none_or(|value| Some(value) <= rule.as_f64())),
            "minItems" => fault(value.as_array().unwrap().len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => fault(value.as_array().unwrap().len() as u64 <= rule.as_u64().unwrap()),
            "required" => {
                let there = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                fault(rule.as_array().unwrap().iter().all(there));
            }
            "additionalProperties" => {
                assert_eq!(rule, false, "{place}");
                let known = |name: &String| schema["properties"].get(name).is_some();
                fault(value.as_object().is_none_or(|members| members.keys().all(known)));
            }
            "properties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if let Some(rule) = rule.get(name) {
                        follow(rule, root, member, &format!("{place}.{name}"), found);
                    }
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    follow(rule, root, item, &format!("{place}[]"), found);
                }
            }
            other => panic!("{place}: the keyword {other} is not known to this test"),
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        other => panic!("the type {other} is not known to this test"),
    }
}
