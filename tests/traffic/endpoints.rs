//! Every endpoint type with text, from its config to its metrics.

use crate::program::Run;
use crate::server::{Reply, Server};
use phasor::tokenizer::Tokenizer;
use serde_json::{Value, json};

/// An endpoint type, what it is answered and what is known of the outcome.
struct Case {
    kind: &'static str,
    more: &'static str,
    dataset: &'static str,
    path: &'static str,
    /// Members of the body in their order.
    members: &'static [&'static str],
    reply: Reply,
    /// The text whose tokens are the output; absent where replies have none.
    output: Option<&'static str>,
    /// Prompt tokens; absent where AIPerf counts none either.
    input: Option<u64>,
}

fn cases() -> Vec<Case> {
    let prompts = "entries: 2, isl: 6, osl: 4";
    let usage = json!({"prompt_tokens": 6, "completion_tokens": 3});
    vec![
        Case {
            kind: "completions",
            more: "streaming: true",
            dataset: prompts,
            path: "/v1/completions",
            members: &["prompt", "model", "stream", "max_tokens", "stream_options"],
            reply: Reply::Events(vec![
                json!({"object": "text_completion", "choices": [{"text": "one two"}]}),
                json!({"object": "text_completion", "choices": [{"text": " three"}]}),
                json!({"object": "text_completion", "choices": [], "usage": usage}),
            ]),
            output: Some("one two three"),
            input: Some(6),
        },
        Case {
            kind: "messages",
            more: "streaming: true, api_key: sesame",
            dataset: prompts,
            path: "/v1/messages",
            members: &["model", "messages", "max_tokens", "stream"],
            reply: Reply::Events(vec![
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 6}}}),
                json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "one "}}),
                json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "two"}}),
                json!({"type": "message_delta", "usage": {"output_tokens": 3}}),
            ]),
            output: Some("one two"),
            input: Some(6),
        },
        Case {
            kind: "responses",
            more: "streaming: true",
            dataset: prompts,
            path: "/v1/responses",
            members: &["input", "model", "stream", "max_output_tokens"],
            reply: Reply::Events(vec![
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "one "}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "two"}),
                json!({"type": "response.completed", "response": {"usage": {"input_tokens": 6, "output_tokens": 2}}}),
            ]),
            output: Some("one two"),
            input: Some(6),
        },
        Case {
            kind: "huggingface_generate",
            more: "streaming: true",
            dataset: prompts,
            path: "/generate_stream",
            members: &["inputs", "parameters"],
            reply: Reply::Events(vec![
                json!({"token": {"text": "one"}, "generated_text": null}),
                json!({"token": {"text": " two"}, "generated_text": "one two"}),
            ]),
            output: Some("one two"),
            input: Some(6),
        },
        Case {
            kind: "template",
            more: "path: /ask, template: {body: '{\"q\": {{ text|tojson }}, \"n\": {{ max_tokens }}}', response_field: answer.text}",
            dataset: prompts,
            path: "/ask",
            members: &["q", "n"],
            reply: Reply::Json(json!({"answer": {"text": "one two three four"}})),
            output: Some("one two three four"),
            input: None,
        },
        Case {
            kind: "raw",
            more: "path: /any, streaming: false",
            dataset: "type: file, format: raw_payload, path: bodies.jsonl",
            path: "/any",
            members: &["messages", "special"],
            reply: Reply::Json(json!({"content": "one two"})),
            output: Some("one two"),
            input: Some(3),
        },
        Case {
            kind: "embeddings",
            more: "extra: {encoding_format: float}",
            dataset: "entries: 2, isl: 6, prompts: {batch_size: 2}",
            path: "/v1/embeddings",
            members: &["model", "input", "encoding_format"],
            reply: Reply::Json(json!({"data": [{"object": "embedding", "embedding": [0.5]}]})),
            output: None,
            input: Some(12),
        },
        Case {
            kind: "nim_rankings",
            more: "",
            dataset: "entries: 2, isl: 1, rankings: {passages: 3, passage_tokens: 5, query_tokens: 4}",
            path: "/v1/ranking",
            members: &["model", "query", "passages"],
            reply: Reply::Json(json!({"rankings": [{"index": 0, "logit": 0.5}]})),
            output: None,
            input: None,
        },
        Case {
            kind: "cohere_rankings",
            more: "",
            dataset: "entries: 2, isl: 1, rankings: {passages: 3, passage_tokens: 5, query_tokens: 4}",
            path: "/v2/rerank",
            members: &["model", "query", "documents"],
            reply: Reply::Json(json!({"results": [{"index": 0, "relevance_score": 0.5}]})),
            output: None,
            input: None,
        },
        Case {
            kind: "hf_tei_rankings",
            more: "",
            dataset: "entries: 2, isl: 1, rankings: {passages: 3, passage_tokens: 5, query_tokens: 4}",
            path: "/rerank",
            members: &["query", "texts"],
            reply: Reply::Json(json!([{"index": 0, "score": 0.5}])),
            output: None,
            input: None,
        },
    ]
}

#[test]
fn every_type_sends_its_body_to_its_path_and_reads_its_replies() {
    let builtin = Tokenizer::load("builtin").unwrap();
    for Case { kind, more, dataset, path, members, reply, output, input } in cases() {
        let server = Server::start(move |_| reply.clone());
        let more = if more.is_empty() { String::new() } else { format!(", {more}") };
        let yaml = format!(
            "randomSeed: 7\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://{}', type: {kind}{more}}}\n  \
             dataset: {{{dataset}}}\n  phases:\n    - {{name: profiling, type: concurrency, concurrency: 1, requests: 4}}\n",
            server.address
        );
        let run = Run::new(&yaml).with(
            "bodies.jsonl",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"one two three\"}],\"special\":true}\n",
        );
        let said = run.succeed(&["--tokenizer", "builtin"]);
        assert!(!said.contains("error:"), "{kind}: {said}");
        let requests = server.requests();
        assert_eq!(requests.len(), 4, "{kind}");
        for request in &requests {
            assert_eq!(request.target, path, "{kind}");
            let keys: Vec<&str> = request.body.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys, members, "{kind}");
        }
        if kind == "messages" {
            assert_eq!(requests[0].header("x-api-key"), Some("sesame"));
            assert!(requests[0].header("anthropic-version").is_some());
        }
        let records = run.planned_records();
        for record in &records {
            let value = |tag: &str| record.pointer(&format!("/metrics/{tag}/value")).and_then(Value::as_u64);
            let expected = output.map(|text| builtin.count(text) as u64);
            assert_eq!(value("output_sequence_length"), expected, "{kind}: {record}");
            assert_eq!(value("input_sequence_length"), input, "{kind}: {record}");
        }
        let root = run.json("profile_export_aiperf.json");
        assert_eq!(root["request_count"]["avg"], 4.0, "{kind}");
        let speaks = output.is_some();
        for tag in ["output_token_throughput", "total_osl", "output_token_count"] {
            assert_eq!(root.get(tag).is_some(), speaks, "{kind}: {tag}");
        }
        let streams = requests[0].header("Accept") == Some("text/event-stream");
        assert_eq!(root.get("time_to_first_token").is_some(), streams, "{kind}");
    }
}

#[test]
fn images_of_a_file_are_sent_in_chat_and_one_that_cannot_be_read_is_named() {
    let server = Server::start(|_| {
        Reply::Json(json!({"object": "chat.completion", "choices": [{"message": {"content": "a cat"}}]}))
    });
    let yaml = format!(
        "benchmark:\n  model: demo\n  endpoint: {{url: 'http://{}'}}\n  dataset: {{type: file, path: rows.jsonl, format: single_turn}}\n  \
         phases:\n    - {{name: profiling, type: concurrency, concurrency: 1, requests: 1}}\n",
        server.address
    );
    // The smallest picture there is, as far as a reader of its name and first bytes goes.
    let run = Run::new(&yaml)
        .with("cat.png", "\u{89}PNG not really")
        .with("rows.jsonl", "{\"text\":\"What is this?\",\"image\":\"data:image/png;base64,QUJD\"}\n");
    run.succeed(&["--tokenizer", "builtin"]);
    assert_eq!(
        server.requests()[0].body["messages"][0]["content"],
        json!([{"type": "text", "text": "What is this?"},
               {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}])
    );
    let missing = Run::new(&yaml).with("rows.jsonl", "{\"text\":\"What?\",\"image\":\"no-such-file.png\"}\n");
    let said = missing.refused(&["--tokenizer", "none"]);
    assert!(said.contains("rows.jsonl:1:") && said.contains("no-such-file.png"), "{said}");
}

#[test]
fn a_random_pool_and_people_talking_are_files_too() {
    let server = Server::start(|_| {
        Reply::Json(json!({"object": "chat.completion", "choices": [{"message": {"content": "yes"}}]}))
    });
    let yaml = |dataset: &str| {
        format!(
            "randomSeed: 3\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://{}'}}\n  dataset: {{{dataset}}}\n  \
             phases:\n    - {{name: profiling, type: concurrency, concurrency: 1, requests: 6}}\n",
            server.address
        )
    };
    let pool = "type: file, path: pool.jsonl, format: random_pool, entries: 6, osl: 5";
    let run = Run::new(&yaml(pool)).with("pool.jsonl", "{\"text\":\"red\"}\n{\"text\":\"green\"}\n");
    run.succeed(&["--tokenizer", "none"]);
    let requests = server.requests();
    assert!(requests.iter().all(|request| ["red", "green"].contains(&request.messages()[0].1.as_str())));
    assert!(requests.iter().all(|request| request.body["max_completion_tokens"] == 5));

    let talk = |sender: &str, words: usize| json!({"from": sender, "value": "word ".repeat(words)});
    let document =
        json!([{"conversations": [talk("human", 10), talk("gpt", 8), talk("human", 12), talk("gpt", 7)]}]);
    let run = Run::new(&yaml("type: file, path: people.json").replace("requests: 6", "sessions: 1"))
        .with("people.json", &document.to_string());
    run.succeed(&["--tokenizer", "none"]);
    let later = &server.requests()[6..];
    let limits: Vec<&Value> = later.iter().map(|request| &request.body["max_completion_tokens"]).collect();
    assert_eq!(limits, [8, 7], "as long as the people's answers");
    assert_eq!(later[1].messages().len(), 3, "live history");
}
