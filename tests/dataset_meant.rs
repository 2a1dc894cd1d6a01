//! From a config to the bytes that are sent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::config::{self, Config};
use phasor::dataset::Dataset;
use phasor::run::traffic::Traffic;
use std::collections::HashSet;
use std::sync::Arc;

fn config(seed: &str, endpoint: &str, dataset: &str) -> Config {
    let text = format!(
        "{seed}\nbenchmark:\n  model: 'de\"mo'\n  endpoint: {{url: h, {endpoint}}}\n  dataset: {{{dataset}}}\n  \
         phases: {{type: concurrency, requests: 1}}\n"
    );
    config::parse("test.yaml", &text).map_or_else(|faults| panic!("{faults}"), |loaded| loaded.config)
}

fn made(config: &Config) -> Arc<Dataset> {
    Traffic::in_words(config).unwrap().dataset
}

fn content(body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_prompt_has_exactly_the_words_asked_for() {
    let dataset = made(&config("randomSeed: 3", "streaming: true", "entries: 7, isl: 33, osl: 5"));
    assert_eq!(dataset.rows().len(), 7);
    for row in dataset.rows() {
        assert_eq!(content(dataset.body(row)).split(' ').count(), 33);
        assert_eq!((row.isl_tokens, row.osl_tokens), (Some(33), Some(5)));
    }
}

#[test]
fn the_body_is_compact_json_in_the_agreed_order() {
    let dataset = made(&config("", "streaming: true", "entries: 1, isl: 1, osl: 32"));
    let body = String::from_utf8_lossy(dataset.body(&dataset.rows()[0])).into_owned();
    let word = content(body.as_bytes());
    assert_eq!(
        body,
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{word}\"}}],\"model\":\"de\\\"mo\",\
             \"stream\":true,\"max_completion_tokens\":32,\"stream_options\":{{\"include_usage\":true}}}}"
        )
    );
}

#[test]
fn without_streaming_and_osl_their_keys_are_not_there() {
    let dataset = made(&config("", "streaming: false", "entries: 1, isl: 2"));
    let body = String::from_utf8_lossy(dataset.body(&dataset.rows()[0])).into_owned();
    assert!(body.ends_with("],\"model\":\"de\\\"mo\",\"stream\":false}"), "{body}");
}

#[test]
fn a_seed_gives_the_same_bytes_and_no_seed_gives_others() {
    let seeded = config("randomSeed: 9", "", "entries: 3, isl: 20");
    let (one, two) = (made(&seeded), made(&seeded));
    assert_eq!((one.block(), one.rows()), (two.block(), two.rows()));
    let free = config("", "", "entries: 3, isl: 20");
    assert_ne!(made(&free).block(), made(&free).block());
    let other = made(&config("randomSeed: 10", "", "entries: 3, isl: 20"));
    assert_ne!(one.block(), other.block());
}

#[test]
fn without_a_seed_conversation_ids_are_distinct_random_uuids() {
    let dataset = made(&config("", "", "entries: 500, isl: 1"));
    let ids: HashSet<&str> = dataset.rows().iter().map(|row| row.conversation_id.as_str()).collect();
    assert_eq!(ids.len(), 500);
    for id in ids {
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
    }
}

#[test]
fn with_a_seed_conversations_are_numbered() {
    let dataset = made(&config("randomSeed: 1", "", "entries: 2, isl: 1"));
    let ids: Vec<&str> = dataset.rows().iter().map(|row| row.conversation_id.as_str()).collect();
    assert_eq!(ids, ["session_000000", "session_000001"]);
}

#[test]
fn a_dataset_beyond_memory_is_refused_with_the_keys_to_lower() {
    let huge = config("", "", "entries: 4000000000, isl: 4000000000");
    let message = Traffic::in_words(&huge).map_or_else(|error| error.to_string(), |_| String::new());
    assert!(message.contains("dataset.entries") && message.contains("dataset.prompts.isl"), "{message}");
}

#[test]
fn all_bodies_lie_end_to_end_in_one_block() {
    let dataset = made(&config("", "", "entries: 10, isl: 4"));
    let mut end = 0;
    for row in dataset.rows() {
        assert_eq!(row.body.start, end);
        end = row.body.end;
    }
    assert_eq!(end, dataset.block().len());
}
