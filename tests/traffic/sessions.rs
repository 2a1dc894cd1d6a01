//! Conversations of several turns: histories, delays, times of a trace.

use crate::program::Run;
use crate::server::{Request, Server, chat_stream};
use phasor::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Answers with the number of messages asked.
fn counting_server() -> Server {
    Server::start(|request| {
        let messages = request.body["messages"].as_array().map_or(0, Vec::len);
        chat_stream(&["answer to ", &format!("\"{messages}\"")], None)
    })
}

fn config(server: &Server, dataset: &str, phase: &str) -> String {
    format!(
        "randomSeed: 7\nbenchmark:\n  model: demo\n  endpoint: {{url: 'http://{}', streaming: true}}\n  \
         dataset: {{{dataset}}}\n  phases:\n    - {{name: profiling, {phase}}}\n",
        server.address
    )
}

/// The requests of each session in order of arrival.
fn by_session(requests: &[Request]) -> BTreeMap<String, Vec<Request>> {
    let mut sessions = BTreeMap::<String, Vec<Request>>::new();
    for request in requests {
        let session = request.header("X-Correlation-ID").unwrap().to_owned();
        sessions.entry(session).or_default().push(request.clone());
    }
    sessions
}

fn said(role: &str, content: &str) -> (String, String) {
    (role.to_owned(), content.to_owned())
}

const CONVERSATIONS: &str = concat!(
    r#"{"session_id":"rivers","turns":[{"role":"system","text":"Be kind."},{"text":"Name two rivers."},{"text":"And lakes?","delay":20},{"text":"Thanks."}]}"#,
    "\n",
    r#"{"session_id":"alone","turns":[{"text":"Only this.","output_length":5}]}"#,
    "\n",
);

#[test]
fn later_turns_carry_what_was_said_and_what_the_server_answered() {
    let server = counting_server();
    let dataset = "type: file, path: talk.jsonl, format: multi_turn";
    let run = Run::new(&config(&server, dataset, "type: concurrency, concurrency: 1, sessions: 4"))
        .with("talk.jsonl", CONVERSATIONS);
    run.succeed(&["--tokenizer", "builtin"]);
    let sessions = by_session(&server.requests());
    assert_eq!(sessions.len(), 4, "a conversation that is played again is a new session");
    for requests in sessions.values() {
        let last = requests.last().unwrap().messages();
        if requests.len() == 1 {
            assert_eq!(last, [said("user", "Only this.")]);
            assert_eq!(requests[0].body["max_completion_tokens"], 5);
            continue;
        }
        assert_eq!(requests.len(), 3);
        let expected = [
            said("system", "Be kind."),
            said("user", "Name two rivers."),
            said("assistant", "answer to \"2\""),
            said("user", "And lakes?"),
            said("assistant", "answer to \"4\""),
            said("user", "Thanks."),
        ];
        for (turn, request) in requests.iter().enumerate() {
            assert_eq!(request.messages(), expected[..2 + 2 * turn]);
            assert_eq!(request.header("Content-Length").unwrap(), request.text.len().to_string());
        }
    }
    let builtin = Tokenizer::load("builtin").unwrap();
    let records = run.planned_records();
    assert_eq!(records.len(), 8);
    for (request, record) in server.requests().iter().zip(&records) {
        let contents: Vec<String> = request.messages().into_iter().map(|message| message.1).collect();
        let counted = builtin.count(&contents.join(" "));
        assert_eq!(record["metrics"]["input_sequence_length"]["value"], json!(counted), "{contents:?}");
        let metadata = &record["metadata"];
        assert_eq!(metadata["x_correlation_id"], request.header("X-Correlation-ID").unwrap());
        let turns = if metadata["conversation_id"] == "rivers" { 3 } else { 1 };
        assert!(metadata["turn_index"].as_u64().unwrap() < turns, "{metadata}");
    }
    let of = |record: &Value, name: &str| record["metadata"][name].as_u64().unwrap();
    for pair in records.windows(2).filter(|pair| pair[1]["metadata"]["turn_index"] == 1) {
        assert!(of(&pair[1], "credit_issued_ns") >= of(&pair[0], "request_end_ns") + 20_000_000);
    }
    let inputs = run.json("inputs.json");
    assert_eq!(inputs["data"][0]["payloads"].as_array().unwrap().len(), 3);
    assert_eq!(inputs["data"][0]["payloads"][1]["messages"].as_array().unwrap().len(), 2, "each turn alone");
}

#[test]
fn a_failed_turn_leaves_its_answer_out_and_the_session_goes_on() {
    let server = Server::start(|request| match request.messages().len() {
        1 => chat_stream(&[], None),
        _ => chat_stream(&["yes"], None),
    });
    let records = "records: [{turns: [{text: a}, {text: b}, {text: c}]}], format: multi_turn, type: file";
    let run = Run::new(&config(&server, records, "type: concurrency, concurrency: 1, sessions: 1"));
    run.succeed(&["--tokenizer", "none"]);
    let messages: Vec<_> = server.requests().iter().map(Request::messages).collect();
    assert_eq!(messages[1], [said("user", "a"), said("user", "b")]);
    assert_eq!(
        messages[2],
        [said("user", "a"), said("user", "b"), said("assistant", "yes"), said("user", "c")]
    );
    let records = run.planned_records();
    assert!(records[0]["error"].is_object() && records[1].get("error").is_none());
    assert_eq!(records[2]["metrics"]["input_sequence_length"]["value"], 4, "words of the whole prompt");
}

#[test]
fn calls_of_tools_are_sent_back_as_the_server_made_them() {
    let server = Server::start(|request| {
        if request.messages().len() > 1 {
            return chat_stream(&["done"], None);
        }
        let delta = |call: Value| json!({"object": "chat.completion.chunk", "choices": [{"delta": {"tool_calls": [call]}}]});
        crate::server::Reply::Events(vec![
            delta(
                json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}}),
            ),
            delta(json!({"index": 0, "function": {"arguments": "{\"at\":"}})),
            delta(json!({"index": 0, "function": {"arguments": "1}"}})),
        ])
    });
    let records = "records: [{turns: [{text: a}, {text: b}]}], format: multi_turn, type: file";
    let run = Run::new(&config(&server, records, "type: concurrency, concurrency: 1, sessions: 1"));
    run.succeed(&["--tokenizer", "builtin"]);
    let second = &server.requests()[1].body["messages"];
    assert_eq!(
        second[1],
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]})
    );
    let counted = Tokenizer::load("builtin").unwrap().count("look{\"at\":1}");
    assert_eq!(run.planned_records()[0]["metrics"]["output_sequence_length"]["value"], json!(counted));
}

#[test]
fn a_trace_is_sent_at_its_times_and_has_its_lengths() {
    let server = counting_server();
    let trace = concat!(
        r#"{"timestamp": 1000, "input_length": 40, "output_length": 3, "hash_ids": [1, 2]}"#,
        "\n",
        r#"{"timestamp": 1030, "input_length": 30, "output_length": 7, "hash_ids": [1, 3]}"#,
        "\n",
        r#"{"timestamp": 1010, "input_length": 12, "output_length": 2}"#,
        "\n",
        r#"{"timestamp": 9000, "input_length": 12, "output_length": 2}"#,
        "\n",
    );
    let dataset = "type: file, path: trace.jsonl, format: mooncake_trace, block_size: 20";
    let phase = "type: fixed_schedule, auto_offset: false, start_offset: 1000, end_offset: 1030";
    let run = Run::new(&config(&server, dataset, phase)).with("trace.jsonl", trace);
    run.succeed(&["--tokenizer", "builtin"]);
    let requests = server.requests();
    let limits: Vec<&Value> = requests.iter().map(|request| &request.body["max_completion_tokens"]).collect();
    assert_eq!(limits, [3, 2, 7], "in the order of their times");
    let builtin = Tokenizer::load("builtin").unwrap();
    let prompts: Vec<String> = requests.iter().map(|request| request.messages()[0].1.clone()).collect();
    let lengths: Vec<usize> = prompts.iter().map(|prompt| builtin.count(prompt)).collect();
    assert_eq!(lengths, [40, 12, 30]);
    let shared = prompts[0].bytes().zip(prompts[2].bytes()).take_while(|(left, right)| left == right).count();
    assert!(builtin.count(&prompts[0][..shared]) >= 19, "equal blocks have equal texts");
    let mut issued: Vec<u64> = run
        .planned_records()
        .iter()
        .map(|record| record["metadata"]["credit_issued_ns"].as_u64().unwrap())
        .collect();
    issued.sort_unstable();
    let offsets: Vec<u64> = issued.iter().map(|at| (at - issued[0] + 500_000) / 1_000_000).collect();
    assert_eq!(offsets, [0, 10, 30], "milliseconds of the trace");
    assert!(!run.path("inputs.json").exists(), "the trace says it already");
}

#[test]
fn users_talk_in_turns_with_their_histories() {
    let server = counting_server();
    let dataset = "entries: 6, isl: 5, osl: 4, turns: 3, prefix_prompts: {shared_system_length: 8, user_context_length: 6}";
    let phase = "type: user_centric, users: 3, rate: 60, sessions: 6";
    let run = Run::new(&config(&server, dataset, phase));
    run.succeed(&["--tokenizer", "builtin"]);
    let sessions = by_session(&server.requests());
    assert!(sessions.len() >= 6, "{}", sessions.len());
    let mut longest = 0;
    for requests in sessions.values() {
        longest = longest.max(requests.len());
        for (turn, request) in requests.iter().enumerate() {
            let roles: Vec<String> = request.messages().into_iter().map(|message| message.0).collect();
            assert_eq!(roles[..2], ["system", "user"], "system prompt and user context");
            assert_eq!(roles.len(), 3 + 2 * turn);
            assert_eq!(roles.iter().filter(|role| *role == "assistant").count(), turn);
        }
    }
    assert_eq!(longest, 3);
}

#[test]
fn a_cache_bust_mark_is_the_sessions_own_and_stays_with_it() {
    let server = counting_server();
    let dataset = "entries: 2, isl: 40, turns: 2, prompts: {cache_bust: {target: first_turn_prefix}}";
    let run = Run::new(&config(&server, dataset, "type: concurrency, concurrency: 1, sessions: 4"));
    run.succeed(&["--tokenizer", "builtin"]);
    let mut marks = Vec::new();
    for requests in by_session(&server.requests()).values() {
        let first = |request: &Request| request.messages()[0].1.clone();
        assert_eq!(first(&requests[0]), first(&requests[1]));
        let text = first(&requests[0]);
        let mark = text.strip_prefix("[rid:").unwrap().split_once("]\n\n").unwrap().0.to_owned();
        assert!(mark.len() == 12 && mark.bytes().all(|digit| digit.is_ascii_hexdigit()), "{mark}");
        marks.push(mark);
    }
    marks.sort();
    marks.dedup();
    assert_eq!(marks.len(), 4, "every session has a mark of its own");
}

#[test]
fn broken_rows_are_all_named_before_anything_is_sent() {
    let server = counting_server();
    let rows = "{\"turns\":[{\"text\":\"fine\"}]}\n{\"turns\":[]}\n{\"turns\":[{\"txt\":1}]}\nnot json\n";
    let dataset = "type: file, path: talk.jsonl, format: multi_turn";
    let run = Run::new(&config(&server, dataset, "type: concurrency, concurrency: 1, sessions: 1"))
        .with("talk.jsonl", rows);
    let said = run.refused(&["--tokenizer", "none"]);
    assert!(said.contains("talk.jsonl:4:"), "{said}");
    let run = run.with("talk.jsonl", &rows.replace("not json\n", ""));
    let said = run.refused(&["--tokenizer", "none"]);
    assert!(said.contains("talk.jsonl:2:") && said.contains("talk.jsonl:3:"), "{said}");
    assert_eq!(server.requests().len(), 0);
    let run = run.with("talk.jsonl", "");
    assert!(run.refused(&["--tokenizer", "none"]).contains("has no row"));
}

#[test]
fn an_endpoint_that_takes_one_turn_refuses_conversations() {
    let server = counting_server();
    let yaml =
        config(&server, "entries: 2, isl: 4, turns: 2", "type: concurrency, concurrency: 1, sessions: 1")
            .replace("streaming: true", "type: completions");
    let said = Run::new(&yaml).refused(&["--tokenizer", "none"]);
    assert!(said.contains("takes one turn per request") && said.contains("type: chat"), "{said}");
}
