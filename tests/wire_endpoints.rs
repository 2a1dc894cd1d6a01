//! Replies of every endpoint type through the decoder, at any cut of the bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::endpoint::{Dialect, EndpointSettings, TemplateSettings};
use phasor::tokenizer::Tokenizer;
use phasor::wire::{KeepTexts, Known, Progress, ReplyDecoder};
use serde_json::{Value, json};

/// What the decoder makes of a reply: contents, whether it is whole, output and reasoning text.
fn decoded(decoder: &mut ReplyDecoder, pieces: &[&[u8]]) -> (u32, bool, String, String) {
    decoder.reset();
    let mut contents = 0;
    let mut complete = false;
    for piece in pieces {
        let fed = decoder.feed(piece);
        contents += fed.contents;
        complete |= matches!(fed.progress, Progress::Complete { .. });
    }
    let texts = decoder.texts().unwrap();
    (contents, complete, texts.output.clone(), texts.reasoning.clone())
}

#[test]
fn replies_of_every_endpoint_type_are_the_same_at_every_cut() {
    let builtin = Tokenizer::load("builtin").unwrap();
    let vectors: Vec<Value> = serde_json::from_str(include_str!("data/endpoint/replies.json")).unwrap();
    let mut compared = 0;
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let dialect = Dialect::named(vector["type"].as_str().unwrap()).unwrap();
        let counted = &vector["token_counts"]["output"];
        let server = vector["endpoint"]["use_server_token_count"] == true;
        let done_counts = matches!(dialect.name, "raw" | "template");
        if vector["valid"] != true || !dialect.can.produce_tokens || server || done_counts {
            continue;
        }
        let template = vector["endpoint"]["template"]["body"].as_str().map(|body| TemplateSettings {
            body: body.to_owned(),
            response_field: vector["endpoint"]["template"]["response_field"].as_str().map(str::to_owned),
        });
        let settings = EndpointSettings { template, ..EndpointSettings::new(dialect, "m") };
        let stream = || -> String {
            let messages = vector["messages"].as_array().unwrap().iter();
            messages.flat_map(|data| ["data: ", data.as_str().unwrap(), "\n\n"]).collect()
        };
        let whole_body = vector["body"].as_str();
        let kind = if whole_body.is_some() { "application/json" } else { "text/event-stream" };
        let body = whole_body.map_or_else(stream, str::to_owned);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        let bytes = [head.as_bytes(), body.as_bytes()].concat();
        let mut decoder = ReplyDecoder::new(&settings, KeepTexts::Yes).unwrap();
        let whole = decoded(&mut decoder, &[&bytes]);
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(decoded(&mut decoder, &[left, right]), whole, "{name} cut at {cut}");
        }
        assert!(whole.1, "{name} is whole");
        assert_eq!(u64::from(whole.0), vector["contents"].as_array().unwrap().len() as u64, "{name}");
        assert_eq!(json!(builtin.count(&whole.2)), *counted, "{name}");
        compared += 1;
    }
    assert!(compared >= 25, "{compared}");
}

/// A chat stream with this id that thinks, says `texts` and calls a tool.
fn chat_reply(id: u32, texts: &[&str]) -> String {
    let message = |delta: Value| {
        let message = json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 1,
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        format!("data: {message}\n\n")
    };
    let mut body = message(json!({"role": "assistant", "content": ""}));
    body += &message(json!({"reasoning_content": "hm"}));
    for text in texts {
        body += &message(json!({"content": text}));
    }
    let call =
        |function: Value| message(json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}));
    body += &call(json!({"name": "look", "arguments": ""}));
    body += &call(json!({"arguments": "{}"}));
    body += "data: [DONE]\n\n";
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn what_replies_say_is_kept_whatever_was_known_before_and_however_they_are_cut() {
    let settings = EndpointSettings { streaming: true, ..EndpointSettings::new(Dialect::chat(), "m") };
    for keeps in [KeepTexts::Yes, KeepTexts::SentBack] {
        let mut known = Known::default();
        let mut decoder = ReplyDecoder::new(&settings, keeps).unwrap();
        for (id, size) in (0_u32..40).zip([1, 7, 64, 5_000].into_iter().cycle()) {
            let last = format!("w{id}");
            let texts = [" one", " two", " \"three\"\n", "\u{e9}\u{1f600}", last.as_str(), " one"];
            decoder.reset();
            for piece in chat_reply(id, &texts).as_bytes().chunks(size) {
                decoder.feed_knowing(piece, &mut known);
            }
            let said = decoder.texts().unwrap();
            assert_eq!(said.output, texts.concat() + "look{}", "{keeps:?}, {size} bytes a read");
            assert_eq!(said.reasoning, "hm");
            let mut history = Vec::new();
            if let Some(answer) = decoder.answer() {
                answer.write_items(&mut history);
                let item: Value = serde_json::from_slice(history.strip_suffix(b",").unwrap()).unwrap();
                assert_eq!(item["content"], json!("hm".to_owned() + &texts.concat()));
                assert_eq!(item["tool_calls"][0]["function"], json!({"name": "look", "arguments": "{}"}));
            }
        }
    }
}
