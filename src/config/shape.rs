//! Short forms into long ones, on the tree itself.
//!
//! A config may say `model` for `models`, `dataset` for a list of one, `warmup` and `profiling` for `phases`,
//! `url` for `urls`, and may leave out `benchmark:` altogether. This module rewrites the tree so that
//! everything after it knows the long forms only; the nodes keep their places. It converts no value.

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value};

/// Sections that may stand at the top level, where they are taken as part of `benchmark`.
pub(super) const FLAT: &[&str] = &[
    "model",
    "models",
    "endpoint",
    "dataset",
    "datasets",
    "phases",
    "artifacts",
    "slos",
    "tokenizer",
    "gpu_telemetry",
    "gpuTelemetry",
    "server_metrics",
    "serverMetrics",
    "runtime",
    "logging",
    "metrics",
    "accuracy",
];

/// The name given to a single dataset below `benchmark`.
const DATASET_NAME: &str = "default";
/// The name given to a single dataset at the top level.
const FLAT_DATASET_NAME: &str = "main";

/// Rewrites `root`; what cannot be rewritten stays as it is, with a fault.
pub fn expand(root: &mut Node, faults: &mut Vec<Diagnostic>) {
    let Value::Mapping(entries) = &mut root.value else { return };
    let Some(benchmark) = entries.iter_mut().find(|entry| entry.key == "benchmark") else { return };
    expand_sections(&mut benchmark.node, faults);
}

/// Rewrites the sections of `benchmark`.
pub fn expand_sections(benchmark: &mut Node, faults: &mut Vec<Diagnostic>) {
    let Value::Mapping(sections) = &mut benchmark.value else { return };
    expand_models(sections, faults);
    expand_urls(sections, faults);
    expand_datasets(sections, faults);
    let datasets = sections.iter_mut().find(|entry| entry.key == "datasets");
    if let Some(Value::Sequence(datasets)) = datasets.map(|entry| &mut entry.node.value) {
        datasets.iter_mut().for_each(expand_lengths);
    }
    expand_phases(sections, faults);
    for (name, camel) in [("gpu_telemetry", "gpuTelemetry"), ("server_metrics", "serverMetrics")] {
        if let Some(section) = sections.iter_mut().find(|entry| entry.key == name || entry.key == camel) {
            expand_telemetry(&mut section.node);
        }
    }
}

/// A text is the one address of an enabled collector; `url` is `urls`.
fn expand_telemetry(section: &mut Node) {
    if matches!(section.value, Value::Scalar(Scalar::Text(_))) {
        let span = section.span.clone();
        let url = std::mem::replace(&mut section.value, Value::Mapping(Vec::new()));
        let entry = |key: &str, value: Value| Entry {
            key: key.to_owned(),
            key_span: span.clone(),
            node: Node { span: span.clone(), value },
        };
        let urls = Value::Sequence(vec![Node { span: span.clone(), value: url }]);
        section.value =
            Value::Mapping(vec![entry("enabled", Value::Scalar(Scalar::Bool(true))), entry("urls", urls)]);
        return;
    }
    let Value::Mapping(entries) = &mut section.value else { return };
    if entries.iter().any(|entry| entry.key == "urls") {
        return;
    }
    if let Some(url) = entries.iter_mut().find(|entry| entry.key == "url") {
        "urls".clone_into(&mut url.key);
        if matches!(url.node.value, Value::Scalar(Scalar::Text(_))) {
            wrap_in_list(&mut url.node);
        }
    }
}

/// Moves sections of the top level below `benchmark`.
pub fn move_flat_sections(root: &mut Node, faults: &mut Vec<Diagnostic>) {
    let Value::Mapping(entries) = &mut root.value else { return };
    let flat: Vec<Entry> = entries.extract_if(.., |entry| FLAT.contains(&entry.key.as_str())).collect();
    let Some(first) = flat.first() else { return };
    let first_place = first.key_span.clone();
    if !entries.iter().any(|entry| entry.key == "benchmark") {
        entries.push(Entry {
            key: "benchmark".to_owned(),
            key_span: first_place.clone(),
            node: Node { span: first_place.clone(), value: Value::Mapping(Vec::new()) },
        });
    }
    let Some(benchmark) = entries.iter_mut().find(|entry| entry.key == "benchmark") else { return };
    let Value::Mapping(sections) = &mut benchmark.node.value else { return };
    let mut names = Vec::new();
    for mut entry in flat {
        names.push(format!("`{}`", entry.key));
        if sections.iter().any(|section| section.key == entry.key) {
            continue;
        }
        if entry.key == "dataset" {
            name_if_unnamed(&mut entry.node, &entry.key_span, "name", FLAT_DATASET_NAME);
        }
        sections.push(entry);
    }
    faults.push(
        Diagnostic::warning(format!(
            "{} at the top level is taken as part of `benchmark`, where a key of the same name wins",
            names.join(", ")
        ))
        .at(first_place, "belongs below `benchmark`")
        .with_help("move it below `benchmark:`"),
    );
}

/// `model` is `models`.
fn expand_models(sections: &mut Vec<Entry>, faults: &mut Vec<Diagnostic>) {
    if let Some(mut model) = take_short_form(sections, "model", "models", faults) {
        "models".clone_into(&mut model.key);
        sections.push(model);
    }
}

/// `url` is `urls`; a text is a list of one.
fn expand_urls(sections: &mut [Entry], faults: &mut Vec<Diagnostic>) {
    let Some(endpoint) = sections.iter_mut().find(|entry| entry.key == "endpoint") else { return };
    let Value::Mapping(entries) = &mut endpoint.node.value else { return };
    let Some(at) = entries.iter().position(|entry| entry.key == "url") else { return };
    let mut url = entries.remove(at);
    if let Some(urls) = entries.iter().find(|entry| entry.key == "urls") {
        faults.push(
            Diagnostic::warning("`url` is not used, because `urls` is there too")
                .at(url.key_span, "not used")
                .with_context(urls.key_span.clone(), "used")
                .with_help("keep one of the two"),
        );
        return;
    }
    if matches!(url.node.value, Value::Scalar(Scalar::Text(_))) {
        wrap_in_list(&mut url.node);
    }
    "urls".clone_into(&mut url.key);
    entries.push(url);
}

/// `dataset` is a list of one named `default`.
fn expand_datasets(sections: &mut Vec<Entry>, faults: &mut Vec<Diagnostic>) {
    let Some(mut dataset) = take_short_form(sections, "dataset", "datasets", faults) else { return };
    name_if_unnamed(&mut dataset.node, &dataset.key_span, "name", DATASET_NAME);
    wrap_in_list(&mut dataset.node);
    "datasets".clone_into(&mut dataset.key);
    sections.push(dataset);
}

/// Lengths at the level of a dataset are lengths of its prompts, where the long form wins.
pub fn expand_lengths(dataset: &mut Node) {
    let Value::Mapping(entries) = &mut dataset.value else { return };
    let kind = entries.iter().find(|entry| entry.key == "type").map(|entry| &entry.node.value);
    if kind.is_some_and(|kind| *kind != Value::Scalar(Scalar::Text("synthetic".to_owned()))) {
        return;
    }
    let short: Vec<Entry> = entries
        .extract_if(.., |entry| matches!(entry.key.as_str(), "isl" | "osl"))
        .filter(|entry| !entry.node.is_null())
        .collect();
    let Some(first) = short.first() else { return };
    if !entries.iter().any(|entry| entry.key == "prompts" && !entry.node.is_null()) {
        entries.retain(|entry| entry.key != "prompts");
        let node = Node { span: first.node.span.clone(), value: Value::Mapping(Vec::new()) };
        entries.push(Entry { key: "prompts".to_owned(), key_span: first.key_span.clone(), node });
    }
    let prompts = entries.iter_mut().find(|entry| entry.key == "prompts");
    let Some(Value::Mapping(prompts)) = prompts.map(|entry| &mut entry.node.value) else { return };
    for entry in short {
        match prompts.iter_mut().find(|long| long.key == entry.key) {
            None => prompts.push(entry),
            Some(long) => {
                // Two mappings are merged, the long form's keys winning.
                if let (Value::Mapping(long), Value::Mapping(short)) =
                    (&mut long.node.value, entry.node.value)
                {
                    let added: Vec<Entry> = short
                        .into_iter()
                        .filter(|short| !long.iter().any(|entry| entry.key == short.key))
                        .collect();
                    long.extend(added);
                }
            }
        }
    }
}

/// `warmup` and `profiling`, or one mapping with a `type`, are a list of phases.
fn expand_phases(sections: &mut Vec<Entry>, faults: &mut Vec<Diagnostic>) {
    let short: Vec<Entry> = ["warmup", "profiling"]
        .iter()
        .filter_map(|name| sections.iter().position(|entry| entry.key == *name).map(|at| sections.remove(at)))
        .collect();
    let phases = sections.iter_mut().find(|entry| entry.key == "phases");
    match (short.first(), phases) {
        (Some(first), Some(phases)) => faults.push(
            Diagnostic::error(format!("`{}` and `phases` cannot stand together", first.key))
                .at(first.key_span.clone(), "a phase of its own")
                .with_context(phases.key_span.clone(), "the list of phases")
                .with_help("move the phase into the list, with its `name` and `kind`"),
        ),
        (Some(first), None) if first.key == "warmup" && short.len() == 1 => faults.push(
            Diagnostic::error("`warmup` needs a `profiling` beside it")
                .at(first.key_span.clone(), "warms up for nothing")
                .with_help("add `profiling: {type: concurrency, requests: 100}`"),
        ),
        (Some(first), None) => {
            let key_span = first.key_span.clone();
            let phases = short.into_iter().map(|entry| {
                let Entry { key, key_span, mut node } = entry;
                name_if_unnamed(&mut node, &key_span, "name", &key);
                name_if_unnamed(&mut node, &key_span, "kind", &key);
                if node.span.is_empty() {
                    node.span = key_span;
                }
                node
            });
            let node = Node { span: key_span.clone(), value: Value::Sequence(phases.collect()) };
            sections.push(Entry { key: "phases".to_owned(), key_span, node });
        }
        (None, Some(phases)) => {
            if phases.node.entry("type").is_some() {
                name_if_unnamed(&mut phases.node, &phases.key_span, "name", "profiling");
                name_if_unnamed(&mut phases.node, &phases.key_span, "kind", "profiling");
                wrap_in_list(&mut phases.node);
            }
        }
        (None, None) => {}
    }
}

/// Takes out the entry `short`, unless `long` stands beside it, which is a fault.
fn take_short_form(
    sections: &mut Vec<Entry>,
    short: &str,
    long: &str,
    faults: &mut Vec<Diagnostic>,
) -> Option<Entry> {
    let at = sections.iter().position(|entry| entry.key == short)?;
    let entry = sections.remove(at);
    let Some(other) = sections.iter().find(|other| other.key == long) else { return Some(entry) };
    faults.push(
        Diagnostic::error(format!("`{short}` and `{long}` cannot stand together"))
            .at(entry.key_span, "one of them")
            .with_context(other.key_span.clone(), "the other")
            .with_help("keep one of the two"),
    );
    None
}

/// Adds `key: text` to a mapping that has no such key; `place` is where a fault of it would be shown.
fn name_if_unnamed(node: &mut Node, place: &Span, key: &str, text: &str) {
    let Value::Mapping(entries) = &mut node.value else { return };
    if !entries.iter().any(|entry| entry.key == key) {
        let value = Value::Scalar(Scalar::Text(text.to_owned()));
        let node = Node { span: place.clone(), value };
        entries.push(Entry { key: key.to_owned(), key_span: place.clone(), node });
    }
}

fn wrap_in_list(node: &mut Node) {
    let span = node.span.clone();
    let item = std::mem::replace(node, Node { span, value: Value::Sequence(Vec::new()) });
    node.value = Value::Sequence(vec![item]);
}
