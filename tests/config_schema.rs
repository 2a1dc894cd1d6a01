//! The schema of configs: the file in docs is the program's own, and it refuses nothing that phasor takes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "support/json_schema.rs"]
mod json_schema;

use phasor::config::keys::json_of;
use phasor::config::schema::schema;
use phasor::config::source;
use serde_json::Value;
use std::fs;
use std::path::Path;

const CORPUS: &str = include_str!("data/config/corpus.jsonl");

/// Valid, but nothing that an editor should offer; each with what it says.
const ODD: &[(&str, &str)] = &[
    ("k30-reuse-sticky", "`Sticky_User_Sessions`"),
    ("k18-type-upper", "`CHAT`"),
    ("o09-logging", "`debug` in small letters"),
    ("w16-float-text-forms", "a rate of `true`"),
    ("w30-timeout-inf", "infinity, which JSON lacks"),
];

#[test]
fn the_file_in_docs_is_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/config.schema.json");
    let written: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        written,
        schema(),
        "the keys of configs have changed: `phasor config schema > docs/schema/config.schema.json`"
    );
}

#[test]
fn what_is_accepted_follows_the_schema() {
    let schema = schema();
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in CORPUS.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let name = case["case"].as_str().unwrap();
        if case["accepted"] != true {
            continue;
        }
        let text = case["text"].as_str().unwrap();
        let value = json_of(&source::read(text).unwrap());
        let faults = json_schema::faults(&schema, &value, "");
        checked += 1;
        if faults.is_empty() == ODD.iter().any(|(odd, _)| *odd == name) {
            wrong.push(format!("{name}: {faults:#?}"));
        }
    }
    assert!(checked > 150, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn misspelt_keys_wrong_types_and_values_out_of_bounds_break_the_schema() {
    let good = "benchmark:\n  model: m\n  endpoint: {url: h}\n  dataset: {type: synthetic, isl: 8}\n  phases:\n    \
                - {name: load, kind: profiling, type: poisson, rate: 20, requests: 30}\n";
    let judged = |text: &str| json_schema::faults(&schema(), &json_of(&source::read(text).unwrap()), "");
    assert_eq!(judged(good), [""; 0]);
    for (right, wrong) in [
        ("rate: 20", "rats: 20"),
        ("rate: 20", "rate: 0"),
        ("requests: 30", "requests: 1.5"),
        ("type: poisson", "type: poison"),
        ("isl: 8", "isl: {means: 8}"),
        ("model: m", "model: 7"),
        ("{url: h}", "{url: h, streaming: []}"),
    ] {
        assert!(!judged(&good.replace(right, wrong)).is_empty(), "{wrong}");
    }
}
