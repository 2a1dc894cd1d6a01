//! The built-in server answers every endpoint type with text.

use crate::program::Run;
use serde_json::{Value, json};

/// Types, whether they stream, and whether their replies have tokens.
const TYPES: [(&str, bool, bool); 13] = [
    ("chat", true, true),
    ("completions", true, true),
    ("completions", false, true),
    ("messages", true, true),
    ("messages", false, true),
    ("responses", true, true),
    ("responses", false, true),
    ("huggingface_generate", true, true),
    ("huggingface_generate", false, true),
    ("embeddings", false, false),
    ("nim_rankings", false, false),
    ("cohere_rankings", false, false),
    ("hf_tei_rankings", false, false),
];

#[test]
fn every_type_runs_against_it_and_has_the_length_asked_for() {
    for (kind, streaming, speaks) in TYPES {
        let yaml = format!(
            "randomSeed: 7\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://127.0.0.1:1', type: {kind}, \
             streaming: {streaming}}}\n  dataset: {{entries: 3, isl: 6, osl: 5}}\n  phases:\n    - {{name: profiling, \
             type: concurrency, concurrency: 2, requests: 10}}\n"
        );
        let run = Run::new(&yaml);
        run.succeed(&["--tokenizer", "none", "--mock", "--mock-itl", "200us"]);
        let root = run.json("profile_export_aiperf.json");
        assert_eq!(root["request_count"]["avg"], 10.0, "{kind}");
        assert_eq!(root.get("output_sequence_length").is_some(), speaks, "{kind}");
        assert_eq!(root.get("time_to_first_token").is_some(), streaming, "{kind}");
        // Without usage a reply that is no stream is one message.
        let counted = streaming || kind != "huggingface_generate";
        if speaks && counted {
            assert_eq!(root["output_sequence_length"]["avg"], 5.0, "{kind} {streaming}");
        }
        let errors: Vec<Value> =
            run.planned_records().into_iter().filter(|record| record.get("error").is_some()).collect();
        assert_eq!(json!(errors), json!([]), "{kind}");
    }
}
