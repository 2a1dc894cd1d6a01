//! Single requests: bodies, headers, addresses, lengths.

use crate::program::Run;
use crate::server::{Reply, Server, chat_stream};
use phasor::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn hello() -> Server {
    Server::start(|_| chat_stream(&["Hello", " there"], None))
}

/// A config of one phase that sends `requests` requests, one after the other.
fn config(server: &Server, path: &str, endpoint: &str, dataset: &str, requests: u32) -> String {
    format!(
        "randomSeed: 7\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://{}{path}', {endpoint}}}\n  \
         dataset: {{{dataset}}}\n  phases:\n    - {{name: profiling, type: concurrency, concurrency: 1, requests: {requests}}}\n",
        server.address
    )
}

#[test]
fn what_is_configured_of_a_request_is_on_the_wire_and_the_key_nowhere_else() {
    let server = hello();
    let endpoint = "streaming: true, api_key: '${THE_KEY}', headers: {X-Team: blue, User-Agent: mine}, \
                    extra: {temperature: 0, model: other}, session_header: X-Session, use_legacy_max_tokens: true";
    let run = Run::new(&config(&server, "/base?tenant=7", endpoint, "entries: 1, isl: 5, osl: 9", 2));
    let output = run.command(&["--tokenizer", "none"]).env("THE_KEY", "sesame-4711").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.target, "/base/v1/chat/completions?tenant=7");
        assert_eq!(
            request.names(),
            [
                "Host",
                "User-Agent",
                "X-Request-ID",
                "X-Session",
                "X-Team",
                "Authorization",
                "Accept",
                "Content-Type",
                "X-Session-Affinity",
                "Content-Length"
            ]
        );
        assert_eq!(request.header("Authorization"), Some("Bearer sesame-4711"));
        assert_eq!(request.header("User-Agent"), Some("mine"));
        assert_eq!(request.header("X-Session"), request.header("X-Session-Affinity"));
        let keys: Vec<&String> = request.body.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["messages", "model", "stream", "max_tokens", "temperature", "stream_options"]);
        assert_eq!((&request.body["model"], &request.body["max_tokens"]), (&json!("other"), &json!(9)));
    }
    assert_ne!(requests[0].header("X-Request-ID"), requests[1].header("X-Request-ID"));
    assert_ne!(requests[0].header("X-Session"), requests[1].header("X-Session"));
    assert_eq!(run.any_file_says("sesame-4711"), None);
    assert!(
        !said.contains("sesame-4711") && !String::from_utf8_lossy(&output.stdout).contains("sesame-4711")
    );
}

#[test]
fn prompts_have_the_lengths_drawn_by_the_tokenizer_that_was_asked_for() {
    let server = hello();
    let dataset =
        "entries: 12, isl: {mean: 40, stddev: 8}, osl: {mean: 20, stddev: 4}, system_prompt: Be brief.";
    let run = Run::new(&config(&server, "", "streaming: true", dataset, 12));
    let said = run.succeed(&["--tokenizer", "builtin"]);
    assert!(!said.contains("warning"), "{said}");
    let builtin = Tokenizer::load("builtin").unwrap();
    let mut lengths = BTreeSet::new();
    for (request, record) in server.requests().iter().zip(run.planned_records()) {
        let messages = request.messages();
        assert_eq!(messages[0], ("system".to_owned(), "Be brief.".to_owned()));
        lengths.insert(builtin.count(&messages[1].1));
        let joined = format!("{} {}", messages[0].1, messages[1].1);
        assert_eq!(record["metrics"]["input_sequence_length"]["value"], json!(builtin.count(&joined)));
    }
    assert!(lengths.len() > 5 && lengths.iter().all(|length| (10..80).contains(length)), "{lengths:?}");
    assert_eq!(run.json("client_report.json")["total"]["token_counting"]["isl_rule"], "o200k_base");
}

#[test]
fn models_take_turns_and_a_shuffled_dataset_is_sent_in_the_seeds_order() {
    let server = hello();
    let yaml = config(&server, "", "streaming: false", "entries: 5, isl: 3, sampling: shuffle", 10)
        .replace("model: demo", "models: [one, two]");
    let run = Run::new(&yaml);
    let server_reply = Server::start(|_| {
        Reply::Json(json!({"object": "chat.completion", "choices": [{"message": {"content": "Hi"}}]}))
    });
    let yaml = yaml.replace(&server.address.to_string(), &server_reply.address.to_string());
    let run = run.with("config.yaml", &yaml);
    run.succeed(&["--tokenizer", "none"]);
    let inputs = run.json("inputs.json");
    let payloads: Vec<&Value> =
        inputs["data"].as_array().unwrap().iter().map(|entry| &entry["payloads"][0]).collect();
    let models: Vec<&Value> = payloads.iter().map(|payload| &payload["model"]).collect();
    assert_eq!(models, ["one", "two", "one", "two", "one"]);
    let place = |body: &Value| payloads.iter().position(|payload| *payload == body).unwrap();
    let order: Vec<usize> = server_reply.requests().iter().map(|request| place(&request.body)).collect();
    let mut cursor = phasor::schedule::Cursor::new(phasor::config::Sampling::Shuffle, 5, 7);
    let expected: Vec<usize> = (0..10).map(|position| cursor.conversation(position) as usize).collect();
    assert_eq!(order, expected);
    assert_ne!(order[..5], [0, 1, 2, 3, 4], "the seed shuffles");
    assert_eq!(order[..5].iter().collect::<BTreeSet<_>>().len(), 5, "all before one comes again");
}

#[test]
fn a_tokenizer_that_is_not_there_ends_the_run_before_it_begins() {
    let server = hello();
    let run = Run::new(&config(&server, "", "streaming: true", "entries: 1, isl: 5", 1));
    let said = run.refused(&["--tokenizer", "org/none-such"]);
    for way_out in ["org/none-such", "builtin", "none", "tokenizer.json"] {
        assert!(said.contains(way_out), "{said}");
    }
    assert_eq!(server.requests().len(), 0);
    let said = run.succeed(&[]);
    assert!(said.contains("no tokenizer of `demo`") && said.contains("--tokenizer"), "{said}");
}

#[test]
fn a_header_that_would_break_requests_is_refused_by_name() {
    let server = hello();
    let endpoint = "streaming: true, headers: {Content-Length: '3'}";
    let run = Run::new(&config(&server, "", endpoint, "entries: 1, isl: 5", 1));
    assert!(run.refused(&["--tokenizer", "none"]).contains("`Content-Length` cannot be sent"));
}
