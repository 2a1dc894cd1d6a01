//! The JSON schema of a config, for editors: learnt from the sections that read configs, so that the two
//! cannot drift apart.
//!
//! It knows every key, its type, its bounds and its words. It does not know the rules between keys (which
//! `phasor validate` checks), and lets any text stand where a template or a `${VARIABLE}` might.

use crate::config::diagnostic::Texts;
use crate::config::keys::{Asked, Bound, Reading, camel_case};
use crate::config::sections;
use crate::config::shape;
use crate::config::source;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Documents that together have every mapping whose keys depend on what is written: phases, datasets and
/// sweeps of each type, values that may be a scalar or a mapping.
const DOCUMENTS: &[&str] = &[
    include_str!("schema/loads.yaml"),
    include_str!("schema/files.yaml"),
    include_str!("schema/public.yaml"),
    include_str!("schema/zip.yaml"),
    include_str!("schema/scenarios.yaml"),
    include_str!("schema/sobol.yaml"),
    include_str!("schema/hypercube.yaml"),
    include_str!("schema/search.yaml"),
];

/// Where the laws of a distribution are learnt; everywhere else they are referred to.
const DISTRIBUTION: &str = "benchmark.datasets.0.prompts.isl";

/// The schema (draft 2020-12).
pub fn schema() -> Json {
    let mut root = Shape { asked: vec![Asked::Section], ..Shape::default() };
    for document in DOCUMENTS {
        for (path, asked) in asked(document) {
            root.at(&path).asks(asked);
        }
    }
    let mut definitions = Map::new();
    let mut define = |name: &str, shape: Shape| {
        let schema = shape.schema(&format!("#/$defs/{name}"));
        definitions.insert(name.to_owned(), schema);
        Shape { named: Some(name.to_owned()), ..Shape::default() }
    };
    let mut laws = std::mem::take(root.at(DISTRIBUTION));
    laws.asked.retain(|asked| *asked != Asked::Distribution);
    let laws = define("distribution", laws);
    *root.at(DISTRIBUTION) = laws.clone();
    let benchmark = root.at("benchmark");

    // Short forms, which are rewritten before the sections read (see [`crate::config::shape`]).
    let mut dataset = std::mem::take(benchmark.at("datasets.0"));
    dataset.asked = vec![Asked::Section];
    *dataset.at("isl") = laws.clone();
    *dataset.at("osl") = laws;
    let dataset = define("dataset", dataset);
    *benchmark.at("datasets.0") = dataset.clone();
    *benchmark.at("dataset") = dataset;
    let mut phase = std::mem::take(benchmark.at("phases.0"));
    phase.asked = vec![Asked::Section];
    // The path of a file.
    phase.at("rate_series").asks(Asked::Text);
    let phase = define("phase", phase);
    *benchmark.at("phases.0") = phase.clone();
    benchmark.at("phases").named.clone_from(&phase.named);
    *benchmark.at("warmup") = phase.clone();
    *benchmark.at("profiling") = phase;
    for asked in [Asked::Text, Asked::Texts] {
        benchmark.at("models").asks(asked.clone());
        for section in ["endpoint", "gpu_telemetry", "server_metrics"] {
            benchmark.at(section).at("url").asks(asked.clone());
        }
    }
    benchmark.at("endpoint.urls").asks(Asked::Text);
    benchmark.at("gpu_telemetry").asks(Asked::Text);
    benchmark.at("server_metrics").asks(Asked::Text);
    for shape in benchmark.keys.iter_mut().filter(|(_, shape)| shape.named.is_none()) {
        *shape.1 = define(shape.0, std::mem::take(shape.1));
    }
    *benchmark.at("model") = benchmark.at("models").clone();
    // Sections at the top level are taken as part of `benchmark`.
    let sections = benchmark.keys.clone();
    for (name, shape) in sections.into_iter().filter(|(name, _)| shape::FLAT.contains(&name.as_str())) {
        *root.at(&name) = shape;
    }

    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A config of phasor and of AIPerf 0.13",
        "description": "Every key with its type and bounds. `phasor validate` checks the rules between them.",
    });
    if let (Json::Object(schema), Json::Object(shape)) = (&mut schema, root.schema("#")) {
        schema.extend(shape);
        schema.insert("$defs".to_owned(), Json::Object(definitions));
    }
    schema
}

/// What the sections ask while they read `document`.
fn asked(document: &str) -> Vec<(String, Asked)> {
    let Ok(mut root) = source::read(document) else { return Vec::new() };
    shape::expand(&mut root, &mut Vec::new());
    let mut reading = Reading::learning();
    // Its faults do not matter: below keys that are not written, everything is missing.
    let _ = sections::read(&root, &Texts::new("", document, ""), &mut reading);
    reading.into_asked()
}

/// What is known of one value.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// Each once.
    asked: Vec<Asked>,
    /// A definition that it may follow too.
    named: Option<String>,
    /// Keys in `snake_case`.
    keys: BTreeMap<String, Shape>,
    item: Option<Box<Shape>>,
}

impl Shape {
    /// The shape at the dotted path `path` below this one; a number stands for any item of a list.
    fn at(&mut self, path: &str) -> &mut Self {
        if path.is_empty() {
            return self;
        }
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        if first.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.item.get_or_insert_default().at(rest);
        }
        self.keys.entry(first.to_owned()).or_default().at(rest)
    }

    fn asks(&mut self, asked: Asked) {
        if asked != Asked::Value && !self.asked.contains(&asked) {
            self.asked.push(asked);
        }
    }

    /// This shape as a schema; `pointer` is where it will stand.
    fn schema(&self, pointer: &str) -> Json {
        // Nothing but null is asked of values whose forms are told apart by other means.
        let told_apart = self.named.is_none() && self.asked.iter().all(|asked| *asked == Asked::Null);
        if told_apart || self.asked.contains(&Asked::Anything) {
            return json!({});
        }
        let count = self.asked.len() + usize::from(self.named.is_some());
        let place = |index: usize| {
            if count == 1 { pointer.to_owned() } else { format!("{pointer}/anyOf/{index}") }
        };
        let asked = self.asked.iter().enumerate();
        let mut choices: Vec<Json> = asked.map(|(index, asked)| self.choice(asked, &place(index))).collect();
        choices.extend(self.named.as_ref().map(|name| json!({"$ref": format!("#/$defs/{name}")})));
        match choices.len() {
            0 => json!({}),
            1 => choices.swap_remove(0),
            _ => json!({ "anyOf": choices }),
        }
    }

    /// What `asked` admits.
    fn choice(&self, asked: &Asked, pointer: &str) -> Json {
        match asked {
            Asked::Anything | Asked::Value => json!({}),
            Asked::Distribution => json!({"$ref": "#/$defs/distribution"}),
            // A text is a template or a variable, which becomes what is asked for.
            Asked::Duration(bound) | Asked::Number(bound) => {
                bounded(json!({"type": ["number", "string"]}), *bound)
            }
            Asked::Items => {
                let pointer = format!("{pointer}/items");
                let item = self.item.as_ref().map_or_else(
                    || json!({}),
                    |item| match &item.named {
                        Some(_) => item.schema(&pointer),
                        None => item.mapping(&pointer),
                    },
                );
                json!({"type": "array", "items": item})
            }
            Asked::List => json!({"type": "array"}),
            Asked::Null => json!({"type": "null"}),
            Asked::Open => json!({"type": "object"}),
            Asked::Section => self.mapping(pointer),
            Asked::Switch => json!({"type": ["boolean", "string", "integer"]}),
            Asked::Text => json!({"type": "string"}),
            Asked::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Asked::Whole(least, most) => {
                let mut rule = json!({"type": ["integer", "string"], "minimum": whole(*least)});
                if *most < i128::from(u32::MAX)
                    && let Json::Object(rule) = &mut rule
                {
                    rule.insert("maximum".to_owned(), whole(*most));
                }
                rule
            }
            Asked::Words(words) => json!({"anyOf": [
                {"enum": words},
                {"type": "string", "pattern": "[$][{]|[{][{%]"},
            ]}),
        }
    }

    /// A mapping with these keys, in both spellings.
    fn mapping(&self, pointer: &str) -> Json {
        let mut properties = Map::new();
        for (name, shape) in &self.keys {
            let at = format!("{pointer}/properties/{name}");
            properties.insert(name.clone(), shape.schema(&at));
            let camel = camel_case(name);
            if camel != *name {
                properties.insert(camel, json!({ "$ref": at }));
            }
        }
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }
}

/// Adds the bounds that JSON schema can say.
fn bounded(mut rule: Json, bound: Bound) -> Json {
    let limits: &[(&str, f64)] = match bound {
        Bound::AtLeast(least) => &[("minimum", least)],
        Bound::Above(limit) => &[("exclusiveMinimum", limit)],
        Bound::AboveTo(low, high) => &[("exclusiveMinimum", low), ("maximum", high)],
        Bound::Between(low, high) => &[("exclusiveMinimum", low), ("exclusiveMaximum", high)],
        Bound::PositiveFinite => &[("exclusiveMinimum", 0.0)],
        Bound::Within(low, high) => &[("minimum", low), ("maximum", high)],
        Bound::Any | Bound::Finite => &[],
    };
    if let Json::Object(rule) = &mut rule {
        rule.extend(limits.iter().map(|(name, limit)| ((*name).to_owned(), json!(limit))));
    }
    rule
}

fn whole(value: i128) -> Json {
    i64::try_from(value).map_or(Json::Null, Json::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_read() {
        for document in DOCUMENTS {
            assert!(asked(document).len() > 100, "{document}");
        }
    }

    #[test]
    fn keys_are_known_with_types_bounds_and_words_in_both_spellings() {
        let schema = schema();
        let phase = &schema["$defs"]["phase"]["properties"];
        assert_eq!(phase["requests"]["anyOf"][1]["minimum"], 1, "{phase}");
        assert_eq!(phase["smoothness"]["anyOf"][1]["exclusiveMinimum"], 0.0);
        assert_eq!(phase["kind"]["anyOf"][1]["anyOf"][0]["enum"], json!(["warmup", "profiling"]));
        assert_eq!(phase["gracePeriod"]["$ref"], "#/$defs/phase/properties/grace_period");
    }
}
