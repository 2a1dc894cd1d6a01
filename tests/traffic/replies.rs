//! What replies say is counted by the tokenizer, off the shards.

use crate::program::Run;
use crate::server::{Reply, Server, chat_stream};
use phasor::tokenizer::Tokenizer;
use serde_json::{Value, json};

fn config(server: &Server, endpoint: &str, more: &str) -> String {
    format!(
        "randomSeed: 7\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://{}', {endpoint}}}\n  \
         dataset: {{entries: 3, isl: 20, osl: 9}}\n  phases:\n    - {{name: profiling, type: concurrency, \
         concurrency: 2, requests: 30}}\n{more}",
        server.address
    )
}

fn metric(record: &Value, tag: &str) -> Option<f64> {
    record.pointer(&format!("/metrics/{tag}/value")).and_then(Value::as_f64)
}

#[test]
fn whole_replies_name_their_type_and_one_that_is_too_long_is_said_to_be_missing() {
    let reply = |text: &str| {
        Reply::Json(json!({"object": "chat.completion",
                           "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}))
    };
    let artifacts = "  artifacts: {raw: true}\n";
    let server = Server::start(move |_| reply("short"));
    let run = Run::new(&config(&server, "streaming: false", artifacts));
    run.succeed(&["--tokenizer", "builtin"]);
    for line in run.lines("profile_export_raw.jsonl") {
        let [response] = line["responses"].as_array().unwrap().as_slice() else { panic!("{line}") };
        assert_eq!(response["content_type"], "application/json");
        let body: Value = serde_json::from_str(response["text"].as_str().unwrap()).unwrap();
        assert_eq!(body["choices"][0]["message"]["content"], "short");
    }

    let server = Server::start(move |request| {
        let long = request.messages()[0].1.len().is_multiple_of(2);
        reply(&"long ".repeat(if long { 110_000 } else { 1 }))
    });
    let run = Run::new(&config(&server, "streaming: false", artifacts));
    let output = run.run(&["--tokenizer", "builtin"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = run.lines("profile_export_raw.jsonl");
    assert_eq!(lines.len(), 30);
    let is_long =
        |line: &&Value| line["payload"]["messages"][0]["content"].as_str().unwrap().len().is_multiple_of(2);
    let long = lines.iter().filter(is_long).count();
    let without = lines.iter().filter(|line| line["responses"].is_null()).count();
    assert_eq!(without, long, "whole or not at all");
    assert_eq!(output.status.code(), Some(i32::from(long > 0)), "{told}");
    if long > 0 {
        assert!(told.contains(&format!("{long} lines are without their reply")), "{told}");
    }
    // Every other number is there all the same.
    assert_eq!(run.json("profile_export_aiperf.json")["request_count"]["avg"], 30.0);
}

/// A reply in which a word is split over two messages and thoughts come first.
const TEXTS: [&str; 5] = ["The Ni", "le and the Rh", "\u{ef}ne.\n\n", "\"Both\" ", "\\ are long. \u{1f600}"];

#[test]
fn a_reply_is_encoded_once_however_it_was_cut_and_thoughts_apart() {
    let server = Server::start(|_| {
        let Reply::Events(mut events) = chat_stream(
            &TEXTS,
            Some(json!({"prompt_tokens": 40, "completion_tokens": 16, "total_tokens": 56})),
        ) else {
            unreachable!()
        };
        let thought = |text: &str| {
            json!({"object": "chat.completion.chunk",
                   "choices": [{"index": 0, "delta": {"reasoning_content": text}}]})
        };
        events.insert(0, thought("Hmm, riv"));
        events.insert(1, thought("ers."));
        Reply::Events(events)
    });
    let run = Run::new(&config(&server, "streaming: true", ""));
    run.succeed(&["--tokenizer", "builtin", "--shards", "1"]);
    let builtin = Tokenizer::load("builtin").unwrap();
    let (output, reasoning) = (builtin.count(&TEXTS.concat()), builtin.count("Hmm, rivers."));
    let records = run.planned_records();
    assert_eq!(records.len(), 30);
    for record in &records {
        assert_eq!(metric(record, "output_token_count"), Some(output as f64));
        assert_eq!(metric(record, "reasoning_token_count"), Some(reasoning as f64));
        let sequence = (output + reasoning) as f64;
        assert_eq!(metric(record, "output_sequence_length"), Some(sequence));
        assert_eq!(metric(record, "input_sequence_length"), Some(20.0));
        let off = (16.0 - sequence).abs() / sequence * 100.0;
        assert!((metric(record, "usage_completion_tokens_diff_pct").unwrap() - off).abs() < 1e-9);
        assert_eq!(metric(record, "usage_prompt_tokens_diff_pct"), Some(100.0));
        let latency =
            metric(record, "request_latency").unwrap() - metric(record, "time_to_first_token").unwrap();
        let per_token = metric(record, "inter_token_latency").unwrap();
        assert!((per_token - latency / (sequence - 1.0)).abs() < 1e-6, "{record}");
    }
    let root = run.json("profile_export_aiperf.json");
    assert_eq!(root["usage_discrepancy_count"]["avg"], 30.0);
    assert_eq!(root["total_osl"]["avg"], json!(((output + reasoning) * 30) as f64));
    assert_eq!(root["request_count"]["avg"], 30.0);
    let report = run.json("client_report.json");
    assert_eq!(report["counting"]["tokenizer"], "o200k_base");
    assert_eq!(
        (&report["counting"]["requests"], &report["counting"]["not_counted"]),
        (&json!(30), &json!(0))
    );
    assert!(report["counting"]["cpu_time_ns"].is_u64(), "{report}");
    let console = std::fs::read_to_string(run.path("profile_export_console.txt")).unwrap();
    assert!(console.contains("Token Count Discrepancy Warning"), "{console}");
    assert_eq!(
        report["phases"][0]["token_counting"]["osl"],
        json!({"usage": 0, "chunks": 0, "tokenizer": 30})
    );
}

#[test]
fn a_reply_that_is_no_stream_is_counted_too_and_records_need_not_be_written() {
    let server = Server::start(|_| {
        Reply::Json(
            json!({"object": "chat.completion", "choices": [{"message": {"content": "one two three"}}]}),
        )
    });
    let run = Run::new(&config(&server, "streaming: false", "  artifacts: {records: false}\n"));
    run.succeed(&["--tokenizer", "builtin", "--shards", "2"]);
    let root = run.json("profile_export_aiperf.json");
    assert_eq!(root["output_sequence_length"]["avg"], 3.0);
    assert_eq!(root["output_sequence_length"]["count"], 30);
    assert!(!run.path("profile_export.jsonl").exists());
}

#[test]
fn the_servers_counts_alone_are_used_when_that_is_asked_for() {
    let usage = json!({"prompt_tokens": 40, "completion_tokens": 16,
                       "completion_tokens_details": {"reasoning_tokens": 6}});
    let server = Server::start(move |_| chat_stream(&["a", "b"], Some(usage.clone())));
    let run = Run::new(&config(&server, "streaming: true, use_server_token_count: true", ""));
    run.succeed(&["--tokenizer", "builtin"]);
    for record in run.planned_records() {
        assert_eq!(metric(&record, "input_sequence_length"), Some(40.0));
        assert_eq!(metric(&record, "output_token_count"), Some(10.0));
        assert_eq!(metric(&record, "output_sequence_length"), Some(16.0));
        assert_eq!(metric(&record, "usage_completion_tokens_diff_pct"), None);
    }
    assert!(run.json("client_report.json").get("counting").is_none());

    let silent = Server::start(|_| chat_stream(&["a", "b"], None));
    let run = Run::new(&config(&silent, "streaming: true, use_server_token_count: true", ""));
    run.succeed(&["--tokenizer", "builtin"]);
    let root = run.json("profile_export_aiperf.json");
    for tag in ["input_sequence_length", "output_sequence_length", "output_token_throughput", "total_isl"] {
        assert!(root.get(tag).is_none(), "{tag} was counted by nobody");
    }
    assert_eq!(root["request_count"]["avg"], 30.0);
}

#[test]
fn outputs_and_raw_records_hold_what_was_said() {
    let server = Server::start(|request| {
        let last = request.messages().last().unwrap().1.clone();
        chat_stream(&["you said ", &format!("\"{last}\"")], None)
    });
    let yaml = format!(
        "benchmark:\n  model: demo\n  endpoint: {{url: 'http://{}', streaming: true, api_key: sesame-4711}}\n  \
         dataset: {{type: file, format: multi_turn, records: [{{session_id: s, turns: [{{text: a}}, {{text: b}}]}}]}}\n  \
         phases:\n    - {{name: warmup, type: concurrency, concurrency: 1, sessions: 1}}\n    \
         - {{name: profiling, kind: profiling, type: concurrency, concurrency: 1, sessions: 2}}\n  \
         artifacts: {{raw: true, export_outputs_json: true}}\n",
        server.address
    );
    let run = Run::new(&yaml);
    let said = run.succeed(&["--tokenizer", "builtin"]);
    assert!(!said.contains("warning"), "{said}");

    let outputs = run.json("outputs.json");
    assert_eq!(outputs["schema_version"], "1.0");
    let data = outputs["data"].as_array().unwrap();
    let texts: Vec<&Value> = data.iter().map(|entry| &entry["response_text"]).collect();
    assert_eq!(texts, ["you said \"a\"", "you said \"b\"", "you said \"a\"", "you said \"b\""]);
    for (place, entry) in data.iter().enumerate() {
        assert_eq!(entry["session_num"], json!(place));
        assert_eq!((&entry["turn_index"], &entry["conversation_id"]), (&json!(place % 2), &json!("s")));
        let metrics: Vec<&String> = entry["metrics"].as_object().unwrap().keys().collect();
        assert_eq!(metrics.len(), 6, "{metrics:?}");
    }

    let raw = run.lines("profile_export_raw.jsonl");
    assert_eq!(raw.len(), 6, "warmups included");
    let requests = server.requests();
    for (line, request) in raw.iter().zip(&requests) {
        assert_eq!(line["payload"], request.body);
        assert_eq!(line["metadata"]["x_request_id"], request.header("X-Request-ID").unwrap());
        assert_eq!(line["request_headers"]["Authorization"], "<redacted>");
        assert_eq!(line["request_headers"]["X-Request-ID"], request.header("X-Request-ID").unwrap());
        assert_eq!(line["status"], 200);
        let packets: Vec<&Value> = line["responses"].as_array().unwrap().iter().collect();
        assert_eq!(packets.len(), 3);
        let first: Value = serde_json::from_str(packets[0]["packets"][0]["value"].as_str().unwrap()).unwrap();
        assert_eq!(first["choices"][0]["delta"]["content"], "you said ");
        assert_eq!(packets[2]["packets"][0], json!({"name": "data", "value": "[DONE]"}));
        assert!(packets.iter().all(|packet| packet["perf_ns"].as_u64() > line["start_perf_ns"].as_u64()));
    }
    assert_eq!(run.any_file_says("sesame-4711"), None);
    assert!(
        std::fs::read_dir(run.path(""))
            .unwrap()
            .all(|file| { !file.unwrap().file_name().to_string_lossy().contains("scratch") })
    );
}
