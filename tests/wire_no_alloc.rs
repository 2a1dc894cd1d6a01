//! In steady state neither reading a reply nor writing a request head allocates.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/allocations.rs"]
mod counting;

use counting::allocations;
use phasor::endpoint::{Dialect, EndpointSettings};
use phasor::wire::{KeepTexts, Known, Progress, ReplyDecoder, RequestTemplate};

#[test]
fn ten_thousand_replies_allocate_nothing() {
    let event = |delta: &str| {
        format!(
            r#"data: {{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":null}}]}}"#
        ) + "\n\n"
    };
    let usage = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5,\"total_tokens\":16,\"prompt_tokens_details\":null}}\n\n";
    let body = [
        &*event(r#""role":"assistant","content":"""#),
        &event(r#""content":" Rh\u00efne\n""#).repeat(8),
        usage,
        "data: [DONE]\n\n",
    ]
    .concat();
    let stream = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let hi = r#"{"object":"chat.completion","choices":[{"message":{"content":"Hi"}}]}"#;
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{hi}",
        hi.len()
    );
    let url = phasor::config::Url {
        host: "localhost".to_owned(),
        port: 8_000,
        target: "/v1".to_owned(),
        ..phasor::config::Url::default()
    };
    let settings = EndpointSettings { streaming: true, ..EndpointSettings::new(Dialect::chat(), "m") };
    let headers = settings.request_headers(&[]).unwrap();
    let template = RequestTemplate::new(&url, &headers);
    let mut head = Vec::with_capacity(1_024);
    let (mut decoder, mut known) = (ReplyDecoder::default(), Known::default());
    let mut round = |size: usize| {
        head.clear();
        template.render(&mut head, 1, 2, size);
        for reply in [&stream, &text] {
            decoder.reset();
            let mut whole = false;
            for piece in reply.as_bytes().chunks(size) {
                whole = matches!(
                    decoder.feed_knowing(piece, &mut known).progress,
                    Progress::Complete { reusable: true }
                );
            }
            assert!(whole);
        }
    };
    // The larger ones hold whole messages, which are remembered.
    for size in (1..200).chain([500, 3_000]) {
        round(size);
    }
    assert_eq!(allocations(|| (0..5_000).for_each(|number| round(1 + number % 3_000))), 0);
}

#[test]
fn ten_thousand_replies_of_the_other_text_endpoints_allocate_nothing() {
    const DIALECTS: &[(&str, &[&str])] = &[
        (
            "completions",
            &[
                r#"{"object":"text_completion","choices":[{"index":0,"text":" Rh\u00efne\n"}],"usage":null}"#,
                r#"{"object":"text_completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
            ],
        ),
        ("huggingface_generate", &[r#"{"index":1,"token":{"id":5,"text":"Nile\n"},"generated_text":null}"#]),
        (
            "messages",
            &[
                r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":9,"output_tokens":1}}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Nile\t"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#,
            ],
        ),
        (
            "responses",
            &[
                r#"{"type":"response.created","response":{"id":"r","usage":null}}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Nile\n"}"#,
                r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Nile\n"}"#,
                r#"{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":6}}}"#,
            ],
        ),
    ];
    for (name, events) in DIALECTS {
        let body = events.iter().fold(String::new(), |body, event| body + "data: " + event + "\n\n");
        let stream = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let settings =
            EndpointSettings { streaming: true, ..EndpointSettings::new(Dialect::named(name).unwrap(), "m") };
        for keeps in [KeepTexts::No, KeepTexts::Yes] {
            let (mut decoder, mut known) = (ReplyDecoder::new(&settings, keeps).unwrap(), Known::default());
            let mut round = |size: usize| {
                decoder.reset();
                let mut whole = false;
                for piece in stream.as_bytes().chunks(size) {
                    let fed = decoder.feed_knowing(piece, &mut known);
                    whole = matches!(fed.progress, Progress::Complete { reusable: true });
                }
                assert!(whole, "{name}");
            };
            (1..200).chain([500, 3_000]).for_each(&mut round);
            assert_eq!(allocations(|| (0..2_500).for_each(|number| round(1 + number % 600))), 0, "{name}");
        }
    }
}
