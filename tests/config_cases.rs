//! Configs that AIPerf 0.13 accepted or refused, with what it made of them.

use std::collections::HashMap;

use phasor::config::{self, Config, Load, Phase};
use phasor::time::Nanos;
use serde_json::{Value, json};

const CASES: &str = include_str!("data/config/cases.jsonl");

/// Cases that phasor decides otherwise for good, with the reason. (What it does not support yet is refused by
/// name and needs no entry.)
const DIFFERENT: &[(&str, &str)] = &[
    ("b21-poisson-rate-inf", "an open loop cannot have an infinite rate"),
    ("c16-duration-null", "null is unset here too; AIPerf fails in its own checker"),
    ("c17-grace-null", "null is unset here too; AIPerf fails in its own checker"),
    ("m25-isl-negative-fixed", "a prompt has at least one token; AIPerf makes -5 into 1"),
    ("w06-integer-text-forms", "a request count of twenty digits is refused"),
    ("w23-bool-null", "null is unset for a key that phasor does not support yet"),
];

fn cases() -> impl Iterator<Item = (String, Value)> {
    CASES.lines().map(|line| {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (case["case"].as_str().unwrap_or_default().to_owned(), case)
    })
}

fn seconds(span: Nanos) -> Value {
    if span == Nanos(u64::MAX) { json!("inf") } else { json!(span.as_secs_f64()) }
}

fn described(phase: &Phase) -> Value {
    let (kind, concurrency, rate) = match phase.load {
        Load::Concurrency { concurrency } => ("concurrency", Some(concurrency), None),
        Load::Poisson { rate_per_s, concurrency } => ("poisson", concurrency, Some(rate_per_s)),
    };
    json!({
        "name": phase.name,
        "kind": phase.kind.name(),
        "type": kind,
        "concurrency": concurrency,
        "rate": rate,
        "duration_seconds": phase.stop.duration.map(seconds),
        "requests": phase.stop.requests,
        "grace_seconds": phase.grace.map(seconds),
        "cancellation": phase.cancellation.map(|cancellation| json!({
            "rate": cancellation.rate_percent,
            "delay": cancellation.delay.as_secs_f64(),
        })),
        "seamless": phase.seamless,
    })
}

/// What AIPerf made of a phase, in the terms of phasor's own types.
fn expected(phase: &Value) -> Value {
    let mut phase = phase.clone();
    // An infinite grace period is the same as waiting until all have ended.
    if phase["grace_seconds"] == json!("inf") {
        phase["grace_seconds"] = Value::Null;
    }
    if phase["cancellation"]["rate"] == json!(0.0) {
        phase["cancellation"] = Value::Null;
    }
    phase
}

fn compare(name: &str, case: &Value, config: &Config, faults: &mut Vec<String>) {
    let mut same = |what: &str, ours: Value, theirs: Value| {
        if ours != theirs {
            faults.push(format!("{name}: {what}: {ours} instead of {theirs}"));
        }
    };
    let phases: Vec<Value> = config.phases.iter().map(described).collect();
    let theirs: Vec<Value> = case["phases"].as_array().into_iter().flatten().map(expected).collect();
    same("phases", json!(phases), json!(theirs));
    same("models", json!([config.model]), case["models"].clone());
    let urls: Vec<&str> = config.endpoint.urls.iter().map(|url| url.text.as_str()).collect();
    same("urls", json!(urls), case["urls"].clone());
    same("streaming", json!(config.endpoint.streaming), case["streaming"].clone());
    let timeout = config.endpoint.timeout.map_or(0.0, Nanos::as_secs_f64);
    let theirs = case["timeout_seconds"].as_f64().unwrap_or(0.0);
    same("timeout", json!(timeout), json!(theirs));
    same("seed", json!(config.random_seed), case["random_seed"].clone());
    let dataset = &case["dataset"];
    same("entries", json!(config.dataset.entries), dataset["entries"].clone());
    same("dataset name", config.input_config["datasets"][0]["name"].clone(), dataset["name"].clone());
    if let Some(isl) = dataset["isl"].as_str().and_then(|isl| isl.strip_prefix("fixed(")) {
        same("isl", json!(format!("{})", config.dataset.prompts.isl)), json!(isl));
    }
}

#[test]
fn what_aiperf_accepts_is_accepted_with_the_same_meaning_or_refused_by_name() {
    let different: HashMap<&str, &str> = DIFFERENT.iter().copied().collect();
    let (mut faults, mut accepted, mut refused) = (Vec::new(), 0, 0);
    for (name, case) in cases().filter(|(name, _)| !different.contains_key(name.as_str())) {
        let theirs = case["accepted"] == json!(true);
        match config::parse("case.yaml", case["yaml"].as_str().unwrap_or_default()) {
            Ok(loaded) if theirs => {
                accepted += 1;
                compare(&name, &case, &loaded.config, &mut faults);
            }
            Ok(_) => faults.push(format!("{name}: accepted, but AIPerf refuses it: {}", case["kind"])),
            Err(diagnostics) if theirs => {
                refused += 1;
                let other: Vec<_> = diagnostics
                    .errors()
                    .filter(|error| !error.message.contains("known to AIPerf, phasor"))
                    .map(|error| error.message.clone())
                    .collect();
                if !other.is_empty() {
                    faults.push(format!("{name}: refused, but AIPerf accepts it: {other:?}"));
                }
            }
            Err(_) => {}
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(accepted >= 60 && refused >= 40, "{accepted} accepted, {refused} refused by name");
}

#[test]
fn the_listed_differences_are_differences() {
    for (name, case) in cases() {
        if DIFFERENT.iter().any(|(different, _)| *different == name) {
            let ours = config::parse("case.yaml", case["yaml"].as_str().unwrap_or_default()).is_ok();
            assert_ne!(json!(ours), case["accepted"], "{name} is no difference");
        }
    }
    let known: Vec<String> = cases().map(|(name, _)| name).collect();
    assert!(DIFFERENT.iter().all(|(name, _)| known.iter().any(|known| known == name)));
}
