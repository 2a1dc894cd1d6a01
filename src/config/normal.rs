//! The normal form of a config: the `input_config` member of AIPerf's files.
//!
//! It holds what was set and what normalisation sets, in AIPerf's order of fields, and no default.
//! `artifacts.dir` stands as written; the run puts the absolute path there, and the command line its own
//! settings (such as `runtime.ui`).

use serde_json::{Map, Value, json};

use crate::config::keys::Written;
use crate::config::meant::{Endpoint, EndpointKind, Phase, PhaseKind};
use crate::config::written;

/// The normal form of `benchmark`; `endpoint` and `phases` are what it was converted into.
pub fn input_config(benchmark: &written::Benchmark, endpoint: &Endpoint, phases: &[Phase]) -> Value {
    let mut form = Map::new();
    if let Some(model) = benchmark.model.value() {
        form.insert("models".to_owned(), json!({ "items": [{ "name": model }] }));
    }
    if let Some(written) = benchmark.endpoint.value() {
        form.insert("endpoint".to_owned(), self::endpoint(written, endpoint));
    }
    if let Some(dataset) = benchmark.dataset.value() {
        form.insert("datasets".to_owned(), json!([self::dataset(dataset)]));
    }
    if let Some(written) = benchmark.phases.value() {
        let phases: Vec<Value> =
            written.iter().zip(phases).map(|(written, phase)| self::phase(written, phase)).collect();
        form.insert("phases".to_owned(), phases.into());
    }
    if let Some(artifacts) = benchmark.artifacts.value() {
        section(&mut form, "artifacts", [("dir", set(&artifacts.dir))]);
    }
    if let Some(tokenizer) = benchmark.tokenizer.value() {
        section(&mut form, "tokenizer", [("name", set(&tokenizer.name))]);
    }
    // AIPerf sets this one in every file.
    form.insert("network_latency".to_owned(), json!({ "enabled": false }));
    if let Some(runtime) = benchmark.runtime.value() {
        section(&mut form, "runtime", [("ui", set(&runtime.ui))]);
    }
    if let Some(logging) = benchmark.logging.value() {
        section(&mut form, "logging", [("level", set(&logging.level))]);
    }
    Value::Object(form)
}

fn endpoint(written: &written::Endpoint, meant: &Endpoint) -> Value {
    let urls: Vec<&str> = meant.urls.iter().map(|url| url.text.as_str()).collect();
    let kind = written.kind.value().map(|kind| match kind {
        EndpointKind::Chat => json!("chat"),
    });
    object([
        ("urls", Some(json!(urls))),
        ("type", kind),
        ("timeout", set(&written.timeout_s)),
        ("streaming", set(&written.streaming)),
    ])
}

fn dataset(written: &written::Dataset) -> Value {
    let length = |length: &Written<written::Length>| length.value().map(|length| length.normal_form.clone());
    let (isl, osl) = (length(&written.isl), length(&written.osl));
    let kind = written.kind.value().map(|kind| match kind {
        written::DatasetKind::Synthetic => json!("synthetic"),
    });
    let prompts = (isl.is_some() || osl.is_some()).then(|| object([("isl", isl), ("osl", osl)]));
    object([
        ("name", set(&written.name)),
        ("type", kind),
        ("entries", set(&written.entries)),
        ("prompts", prompts),
    ])
}

fn phase(written: &written::Phase, meant: &Phase) -> Value {
    let kind = match written.load.value() {
        Some(written::LoadKind::Concurrency) => Some(json!("concurrency")),
        Some(written::LoadKind::Poisson) => Some(json!("poisson")),
        None => None,
    };
    let exclude = match meant.kind {
        PhaseKind::Warmup => Some(json!(true)),
        PhaseKind::Profiling => set(&written.exclude_from_results),
    };
    let cancellation = written
        .cancellation
        .value()
        .map(|block| object([("rate", set(&block.rate_percent)), ("delay", set(&block.delay_s))]));
    object([
        ("name", Some(json!(meant.name))),
        ("kind", Some(json!(meant.kind.name()))),
        ("type", kind),
        ("exclude_from_results", exclude),
        ("requests", set(&written.requests)),
        ("duration", set(&written.duration_s)),
        ("concurrency", set(&written.concurrency)),
        ("grace_period", set(&written.grace_s)),
        ("cancellation", cancellation),
        ("seamless", set(&written.seamless)),
        ("rate", set(&written.rate_per_s)),
    ])
}

/// The value if it was set; JSON has no infinity, which becomes null.
fn set<T: serde::Serialize>(written: &Written<T>) -> Option<Value> {
    written.value().map(|value| json!(value))
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

/// Adds the section unless nothing in it was set.
fn section<const N: usize>(form: &mut Map<String, Value>, name: &str, members: [(&str, Option<Value>); N]) {
    let section = object(members);
    if section.as_object().is_some_and(|members| !members.is_empty()) {
        form.insert(name.to_owned(), section);
    }
}
