//! Replies of every endpoint type through the decoder, at any cut of the bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::endpoint::{Dialect, EndpointSettings, TemplateSettings};
use phasor::tokenizer::Tokenizer;
use phasor::wire::{KeepTexts, Progress, ReplyDecoder};
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
