//! Replies as AIPerf 0.13.0 read them: the same messages, contents, usage and outcome, however the bytes are
//! cut. Where phasor differs on purpose, the vector says so under `differs`.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::wire::check::{Sums, decode, reply};
use phasor::wire::{ReplyDecoder, Usage};
use serde_json::Value;

fn vectors(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn number(vector: &Value, key: &str) -> Option<u32> {
    vector[key].as_u64().map(|number| u32::try_from(number).unwrap())
}

/// The fault's name and text for AIPerf's error type and message.
fn assert_end(sums: &Sums, vector: &Value) {
    let message = vector["error_message"].as_str().unwrap_or_default();
    let expected = match vector["end"].as_str().unwrap() {
        "complete" => "complete".to_owned(),
        "AttributeError" if message.contains("'list'") => "JsonArray".to_owned(),
        "AttributeError" => {
            let name = message.split('\'').nth(1).unwrap();
            format!("JsonScalar {{ type_name: {name:?} }}")
        }
        "InvalidInferenceResultError" => {
            format!("NoContent {{ any_message: {} }}", message.contains("No responses with actual content"))
        }
        "SSEResponseError" if message.contains("Unknown error") => {
            "SseError { message: \"event: Error\\ndata: {\\\"error\\\":{\\\"message\\\":\\\"x\\\"}}\" }"
                .to_owned()
        }
        "SSEResponseError" => {
            let comment = message.rsplit(": ").next().unwrap().trim_end_matches("')");
            format!("SseError {{ message: {comment:?} }}")
        }
        "ServerDisconnectedError" => "Disconnected".to_owned(),
        reason => {
            format!("Status {{ status: {}, reason: {reason:?}, body: {message:?} }}", vector["status"])
        }
    };
    assert_eq!(sums.end, expected, "{}", vector["name"]);
}

fn assert_sums(sums: &Sums, vector: &Value) {
    let name = &vector["name"];
    assert_eq!(Some(sums.messages), number(vector, "messages"), "{name}");
    if let Some(contents) = number(vector, "contents") {
        assert_eq!((sums.contents, Some(sums.outputs)), (contents, number(vector, "outputs")), "{name}");
    }
    if let Some(usage) = vector.get("usage") {
        let expected = Usage {
            prompt_tokens: usage["prompt_tokens"].as_u64(),
            completion_tokens: usage["completion_tokens"].as_u64(),
            total_tokens: usage["total_tokens"].as_u64(),
            reasoning_tokens: usage["completion_tokens_details"]["reasoning_tokens"].as_u64(),
            cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
            ..Usage::default()
        };
        assert_eq!(sums.usage, Some(expected), "{name}");
    }
    assert_end(sums, vector);
}

/// Decodes, and at every cut in two and byte by byte again.
fn decode_everywhere(bytes: &[u8]) -> Sums {
    for cut in 0..=bytes.len() {
        reply(bytes, &[cut]);
    }
    decode(&mut ReplyDecoder::default(), bytes, &[])
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn stream_chunks(vector: &Value) -> Vec<Vec<u8>> {
    let texts = |key: &str| vector[key].as_array().into_iter().flatten().map(|text| text.as_str().unwrap());
    texts("chunks").map(|text| text.as_bytes().to_vec()).chain(texts("chunks_hex").map(hex)).collect()
}

#[test]
fn streams_are_read_as_aiperf_reads_them() {
    let vectors = vectors(include_str!("data/wire/streams.json"));
    assert!(vectors.len() >= 25);
    for vector in vectors {
        let chunks = stream_chunks(&vector);
        // Until close, counted, and one HTTP chunk per network chunk.
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";
        let body = chunks.concat();
        let mut chunked = Vec::new();
        for chunk in &chunks {
            chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        for (framing, body) in [
            ("Connection: close\r\n\r\n".to_owned(), &body),
            (format!("Content-Length: {}\r\n\r\n", body.len()), &body),
            ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), &chunked),
        ] {
            let sums = decode_everywhere(&[head.as_bytes(), framing.as_bytes(), body].concat());
            assert_eq!(sums.status, Some(200));
            assert_sums(&sums, &vector);
        }
    }
}

#[test]
fn texts_are_read_as_aiperf_reads_them() {
    let vectors = vectors(include_str!("data/wire/texts.json"));
    assert!(vectors.len() >= 6);
    for vector in vectors {
        let body = vector["body"].as_str().unwrap();
        let length = body.len();
        for framing in [
            format!("Content-Length: {length}\r\n\r\n{body}"),
            format!("\r\n{body}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{length:X}\r\n{body}\r\n0\r\n\r\n"),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{framing}");
            let sums = decode_everywhere(text.as_bytes());
            assert_eq!(sums.body_bytes, length);
            assert_sums(&sums, &vector);
        }
    }
}

#[test]
fn whole_replies_are_read_as_aiperf_reads_them() {
    let vectors = vectors(include_str!("data/wire/replies.json"));
    assert!(vectors.len() >= 7);
    for vector in vectors {
        let sums = decode_everywhere(vector["reply"].as_str().unwrap().as_bytes());
        assert_eq!(sums.status.map(u64::from), vector["status"].as_u64());
        assert_sums(&sums, &vector);
    }
}
