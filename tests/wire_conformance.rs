//! HTTP and stream cases from real bug reports, each with its right outcome, at every cut.

use phasor::wire::check::{Sums, decode, reply};
use phasor::wire::{Fault, Progress, ReplyDecoder, Usage};

fn decode_everywhere(bytes: &[u8]) -> Sums {
    for cut in 0..=bytes.len() {
        reply(bytes, &[cut]);
    }
    decode(&mut ReplyDecoder::default(), bytes, &[])
}

const HI: &str = r#"{"object":"chat.completion","choices":[{"message":{"content":"Hi"}}]}"#;

/// A reply of 200 with these headers and this body.
fn json(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}\r\n{body}")
}

#[test]
fn http_replies_end_where_and_how_they_should() {
    let length = HI.len();
    let counted = json(&format!("Content-Length: {length}\r\n"), HI);
    let table: Vec<(String, &str, bool)> = vec![
        (counted.clone(), "complete", true),
        (format!("{counted}HTTP/1.1 "), "complete", false),
        (format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{counted}"), "complete", true),
        (format!("\r\n\r\n{counted}"), "complete", true),
        (counted.replace("\r\n", "\n"), "complete", true),
        (json(&format!("Content-Length: {length}\r\nConnection: close\r\n"), HI), "complete", false),
        (json("", HI), "complete", false),
        (counted.replace("HTTP/1.1", "HTTP/1.0"), "complete", false),
        (json(&format!("Content-Length: {}\r\n", length + 1), HI), "Truncated", false),
        (json("Content-Length: 0\r\n", ""), "NoContent { any_message: true }", true),
        (json("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"), "Truncated", false),
        (json("Transfer-Encoding: chunked\r\n", "0\r\n"), "Truncated", false),
        (json("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), "NoContent { any_message: true }", true),
        (
            json("Transfer-Encoding: chunked\r\n", "zz\r\n"),
            "NotHttp { detail: \"a chunk's size is not hexadecimal\" }",
            false,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "NoContent { any_message: true }", true),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "NoContent { any_message: false }",
            true,
        ),
        (
            "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\nContent-Type: text/event-stream\r\n\r\nslow".to_owned(),
            "Status { status: 429, reason: \"Too Many Requests\", body: \"slow\" }",
            true,
        ),
        (
            "HTTP/1.1 503\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n".to_owned(),
            "Status { status: 503, reason: \"\", body: \"no\" }",
            false,
        ),
        (
            "HTTP/1.1 307 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "Status { status: 307, reason: \"Moved\", body: \"\" }",
            true,
        ),
        ("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nabc".to_owned(), "Truncated", false),
        (String::new(), "Disconnected", false),
        ("HTTP/1.1 200 OK\r\nContent-".to_owned(), "Disconnected", false),
        ("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), "Disconnected", false),
        (
            "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
            "NotHttp { detail: \"the reply does not begin with HTTP/1\" }",
            false,
        ),
    ];
    for (text, end, reusable) in table {
        let sums = decode_everywhere(text.as_bytes());
        assert_eq!((&*sums.end, sums.reusable), (end, reusable), "{text}");
    }
}

#[test]
fn an_error_body_is_kept_up_to_its_limit_and_read_to_its_end() {
    let body = "é".repeat(40_000);
    let text = format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\nx{body}", body.len() + 1);
    let mut decoder = ReplyDecoder::default();
    let mut last = None;
    for piece in text.as_bytes().chunks(1_000) {
        last = Some(decoder.feed(piece).progress);
    }
    let Some(Progress::Failed { fault, reusable: true }) = last else { panic!("{last:?}") };
    let Fault::Status { body, .. } = *fault else { panic!("{fault:?}") };
    assert_eq!(body.len(), 64 * 1_024 - 1);
    assert!(body.ends_with('é'));
}

fn chunk(delta: &str) -> String {
    format!(r#"data: {{"object":"chat.completion.chunk","choices":[{{"delta":{{{delta}}}}}]}}"#)
}

/// Messages, contents, outputs and the end of a stream.
fn stream(body: &str) -> (u32, u32, u32, String) {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
    let sums = decode_everywhere(text.as_bytes());
    (sums.messages, sums.contents, sums.outputs, sums.end)
}

fn complete(messages: u32, contents: u32, outputs: u32) -> (u32, u32, u32, String) {
    (messages, contents, outputs, "complete".to_owned())
}

#[test]
fn blanks_after_the_colon_are_optional() {
    let event = chunk(r#""content":"x""#);
    for blanks in ["", " ", "  ", "\t"] {
        assert_eq!(stream(&event.replacen(": ", &format!(":{blanks}"), 1)), complete(1, 1, 1), "{blanks:?}");
    }
}

#[test]
fn three_events_are_three_events_under_every_line_end() {
    let events = [chunk(r#""content":"a""#), chunk(r#""content":"b é😀""#), chunk(r#""content":"c""#)];
    for ends in
        [["\n\n"; 3], ["\r\n\r\n"; 3], ["\r\r"; 3], ["\n\n", "\r\n\r\n", "\r\r"], ["\r\n\n", "\n\r\n", "\n"]]
    {
        let body: Vec<&str> = events.iter().zip(ends).flat_map(|(event, end)| [&**event, end]).collect();
        assert_eq!(stream(&body.concat()), complete(3, 3, 3), "{ends:?}");
    }
    assert_eq!(stream(&events.join("\n\n")), complete(3, 3, 3));
}

#[test]
fn only_real_content_counts() {
    let real = chunk(r#""content":"x""#);
    let body = format!(
        "{role}\n\n: ping\n\ndata:\n\ndata: \"\"\n\nevent: ping\ndata: {{}}\n\n{real}\n\n{real}\n\n{usage}\n\ndata: [DONE]\n\n",
        role = chunk(r#""role":"assistant","content":"""#),
        usage = r#"data: {"object":"chat.completion.chunk","choices":[],"usage":{"completion_tokens":2}}"#,
    );
    assert_eq!(stream(&body), complete(9, 2, 2));
}

#[test]
fn reasoning_counts_under_both_names_and_is_no_output() {
    for name in ["reasoning_content", "reasoning"] {
        let thought = chunk(&format!(r#""{name}":"hm""#));
        let answer = chunk(r#""content":"x""#);
        let body =
            [&*thought, &thought, &thought, &answer, &answer].map(|event| format!("{event}\n\n")).concat();
        assert_eq!(stream(&body), complete(5, 5, 2), "{name}");
    }
}

#[test]
fn streams_without_content_fail_as_such() {
    let role = chunk(r#""role":"assistant","content":"""#);
    for (body, messages, any_message) in [
        (String::new(), 0, false),
        ("\n\n\r\n".to_owned(), 0, false),
        (format!("{role}\n\n"), 1, true),
        (
            "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\ndata: [DONE]\n\n".to_owned(),
            2,
            true,
        ),
        ("data: {broken\n\n".to_owned(), 1, true),
    ] {
        let end = format!("NoContent {{ any_message: {any_message} }}");
        assert_eq!(stream(&body), (messages, 0, 0, end), "{body}");
    }
}

#[test]
fn the_last_usage_that_is_not_empty_stays() {
    let usage = |usage: &str| format!("data: {{\"object\":\"x\",\"usage\":{usage}}}\n\n");
    let body = [
        &*chunk(r#""content":"x""#),
        "\n\n",
        &usage(r#"{"prompt_tokens":1,"completion_tokens":1}"#),
        &usage(r#"{"completion_tokens":2}"#),
        &usage("null"),
        &usage("{}"),
        "data: [DONE]\n\n",
    ]
    .concat();
    let text = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}");
    let expected = Usage { completion_tokens: Some(2), ..Usage::default() };
    assert_eq!(decode_everywhere(text.as_bytes()).usage, Some(expected));
    let mut decoder = ReplyDecoder::default();
    decoder.feed(text.as_bytes());
    decoder.reset();
    assert_eq!(decoder.usage(), None);
}

#[test]
fn an_error_event_ends_the_reply_and_nothing_after_it_counts() {
    let real = chunk(r#""content":"x""#);
    for (event, message) in [
        ("event: error\ndata: no memory", "event: error\ndata: no memory"),
        ("event: ERROR\n: worker gone\n: second", "worker gone"),
        ("event:error\r\ndata: {\"a\":1}", "event:error\ndata: {\"a\":1}"),
    ] {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let body = format!("{real}{end}{event}{end}{real}{end}");
            assert_eq!(stream(&body), (1, 1, 1, format!("SseError {{ message: {message:?} }}")), "{body:?}");
        }
    }
}

#[test]
fn null_error_members_in_ordinary_chunks_mean_nothing() {
    let event = r#"data: {"object":"chat.completion.chunk","error":null,"choices":[{"delta":{"content":"x","tool_calls":null}}],"usage":null}"#;
    assert_eq!(stream(&format!("{event}\n\n{event}\n\n")), complete(2, 2, 2));
}

#[test]
fn a_decoder_serves_reply_after_reply() {
    let mut decoder = ReplyDecoder::default();
    let good = json(&format!("Content-Length: {}\r\n", HI.len()), HI);
    for text in ["nonsense", &good, "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", &good] {
        let fresh = decode(&mut ReplyDecoder::default(), text.as_bytes(), &[20]);
        assert_eq!(decode(&mut decoder, text.as_bytes(), &[20]), fresh);
    }
    // Bytes after the end belong to no reply.
    let fed = decoder.feed(good.as_bytes());
    assert_eq!((fed.status, fed.body_bytes, fed.messages), (None, 0, 0));
    assert!(matches!(fed.progress, Progress::Complete { reusable: false }));
}
