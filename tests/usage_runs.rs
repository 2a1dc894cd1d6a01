//! Servers that tell their usage in every message: what the first one brought is not divided by.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use program::Run;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Tokens that the first message with content brings, and that there are in all.
const FIRST: u64 = 4;
const ALL: u64 = 10;

/// Reads a request and gives its body.
fn body(stream: &mut TcpStream) -> Value {
    let mut read = Vec::new();
    loop {
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the client left");
        read.extend_from_slice(&bytes[..count]);
        let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_slice(&read[end + 4..]) {
            return body;
        }
    }
}

fn answer(stream: &mut TcpStream) {
    let event = |delta: &Value, tokens: u64| {
        let usage = json!({"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": tokens + 3});
        let choices = json!([{"index": 0, "delta": delta}]);
        let event = json!({"object": "chat.completion.chunk", "choices": choices, "usage": usage});
        format!("data: {event}\n\n")
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let role = event(&json!({"role": "assistant", "content": ""}), 0);
    stream
        .write_all(format!("{head}{role}{}", event(&json!({"content": "four"}), FIRST)).as_bytes())
        .unwrap();
    // Something must lie between the first and the last content.
    std::thread::sleep(Duration::from_millis(5));
    let rest = event(&json!({"content": "six"}), ALL);
    stream.write_all(format!("{rest}data: [DONE]\n\n").as_bytes()).unwrap();
}

#[test]
fn time_between_tokens_is_that_of_the_tokens_behind_the_first_message() {
    for (per_chunk, divisor) in [(true, ALL - FIRST), (false, ALL - 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let body = body(&mut stream);
            answer(&mut stream);
            body["stream_options"]["continuous_usage_stats"].as_bool()
        });
        let text = format!(
            "benchmark:\n  model: m\n  endpoint: {{url: 'http://127.0.0.1:{port}', streaming: true, \
             use_server_token_count: true, per_chunk_usage: {per_chunk}}}\n  tokenizer: {{name: none}}\n  dataset: \
             {{entries: 1, prompts: {{isl: 4}}}}\n  server_metrics: {{enabled: false}}\n  phases: {{type: \
             concurrency, requests: 1}}\n"
        );
        let run = Run::new(&text);
        run.succeed(&[]);
        assert_eq!(server.join().unwrap(), per_chunk.then_some(true));
        let record = run.records().remove(0);
        let metric = |name: &str| record["metrics"][name]["value"].as_f64().unwrap();
        assert!((metric("output_sequence_length") - ALL as f64).abs() < 1e-9);
        let decode_ms = metric("request_latency") - metric("time_to_first_token");
        let expected = decode_ms / divisor as f64;
        assert!((metric("inter_token_latency") - expected).abs() < 1e-6, "{record}");
        assert!(expected > 0.0, "{record}");
    }
}
