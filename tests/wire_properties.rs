//! Properties of the reply decoder: any cut gives the same sums, cost is linear, buffers are kept.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use phasor::endpoint::{Dialect, EndpointSettings};
use phasor::wire::check;
use phasor::wire::{KeepTexts, Progress, ReplyDecoder};
use proptest::prelude::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

/// Text of a JSON string, as servers write it.
fn json_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ a-zA-Z.,\\n\"\\\\é–😀]{0,24}".prop_map(|text| {
            let quoted = serde_json::to_string(&text).unwrap();
            quoted[1..quoted.len() - 1].to_owned()
        }),
        Just("\\ud83d\\ude00\\u00e9".to_owned()),
        prop::sample::select(vec!["\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\u00g0", "\\u12"])
            .prop_map(str::to_owned),
        Just("\\/\\b\\x".to_owned()),
    ]
}

/// A JSON value, ordinary or odd.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => json_text().prop_map(|text| format!("\"{text}\"")),
        1 => prop::sample::select(vec![
            "null", "true", "false", "0", "-0", "5", "01", "-", "1.5", "1.", "1e3", "1e999", "[]", "{}", "[1]",
            "{\"a\":1}", "123456789012345678901234567890", "", "nul", "[1,]", "{\"a\" : [ ] }", "\"\u{1}\"",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Members of an object under names that matter, odd spellings of them, and others.
fn members(names: &'static [&'static str], values: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let member = (prop::sample::select(names), values, prop::bool::ANY);
    prop::collection::vec(member, 0..5).prop_map(|members| {
        let text: Vec<String> = members
            .into_iter()
            .map(
                |(name, value, spaced)| {
                    if spaced { format!("\"{name}\" : {value} ") } else { format!("\"{name}\":{value}") }
                },
            )
            .collect();
        format!("{{{}}}", text.join(","))
    })
}

fn usage() -> impl Strategy<Value = String> {
    let detail = members(
        &[
            "cached_tokens",
            "reasoning_tokens",
            "audio_tokens",
            "accepted_prediction_tokens",
            "rejected_prediction_tokens",
        ],
        value().boxed(),
    )
    .boxed();
    members(
        &[
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "prompt_cache_miss_tokens",
            "prompt_audio_seconds",
            "toolUsePromptTokenCount",
            "tokens",
            "other",
        ],
        prop_oneof![3 => (0_u64..1_000).prop_map(|count| count.to_string()), 1 => value(), 2 => detail]
            .boxed(),
    )
}

/// A chat message that may be anything from ordinary to broken.
fn message() -> impl Strategy<Value = String> {
    let function = members(&["name", "arguments", "x"], value().boxed()).boxed();
    let call = members(&["function", "index"], prop_oneof![3 => function, 1 => value()].boxed()).boxed();
    let calls = prop::collection::vec(call, 0..3).prop_map(|calls| format!("[{}]", calls.join(",")));
    let part = members(
        &["content", "reasoning_content", "reasoning", "tool_calls", "role", "cont\\u0065nt", "refusal"],
        prop_oneof![4 => value(), 1 => calls].boxed(),
    )
    .boxed();
    let choice = members(
        &["delta", "delta", "message", "index", "logprobs"],
        prop_oneof![4 => part, 1 => value()].boxed(),
    )
    .boxed();
    let choices = prop::collection::vec(choice, 0..3).prop_map(|choices| format!("[{}]", choices.join(",")));
    let kind =
        prop::sample::select(vec!["\"chat.completion.chunk\"", "\"chat.completion\"", "null", "\"x\""]);
    (kind, choices, prop::option::of(usage()), prop::option::of(value()), prop::bool::ANY).prop_map(
        |(kind, choices, usage, other, kind_first)| {
            let mut parts = vec![format!("\"choices\":{choices}")];
            let kind = format!("\"object\":{kind}");
            if kind_first {
                parts.insert(0, kind);
            } else {
                parts.push(kind);
            }
            parts.extend(usage.map(|usage| format!("\"usage\":{usage}")));
            parts.extend(other.map(|other| format!("\"other\":{other}")));
            format!("{{{}}}", parts.join(", "))
        },
    )
}

/// A stream of events with all kinds of line ends and lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let end = || prop::sample::select(vec!["\n", "\n", "\r\n", "\r"]);
    let line = prop_oneof![
        6 => message().prop_map(|message| format!("data: {message}")),
        1 => prop::sample::select(vec![
            "data:", "data: [DONE]", "data", ": ping", "event: ping", "event: error", "id: 1", "  ", "data: {\"a\":",
            "\u{feff}data: {}", "data: [1]", "data: 5", "}",
        ])
        .prop_map(str::to_owned),
    ];
    let event = (prop::collection::vec((line, end()), 1..3), end());
    prop::collection::vec(event, 0..5).prop_map(|events| {
        let mut text = String::new();
        for (lines, empty) in events {
            for (line, end) in lines {
                text.push_str(&line);
                text.push_str(end);
            }
            text.push_str(empty);
        }
        text.into_bytes()
    })
}

/// A stream of one message again and again with other texts, as servers send it, here and there spoiled.
fn stream_of_likes() -> impl Strategy<Value = Vec<u8>> {
    let name =
        prop::sample::select(vec!["content", "reasoning_content", "reasoning", "text", "cont\\u0065nt"]);
    let beside =
        prop::sample::select(vec!["", ",\"role\":\"assistant\"", ",\"content\":\"x\"", ",\"content\":null"]);
    let object = prop::sample::select(vec!["chat.completion.chunk", "chat.completion", "chunk"]);
    let usage = prop::sample::select(vec!["", "", ",\"usage\":null", ",\"usage\":{\"prompt_tokens\":1}"]);
    let texts = prop::collection::vec(json_text(), 1..8);
    let spoils = prop::collection::vec((any::<usize>(), any::<u8>()), 0..2);
    (name, beside, object, usage, texts, spoils).prop_map(|(name, beside, object, usage, texts, spoils)| {
        let mut stream = Vec::new();
        for text in texts {
            stream.extend_from_slice(
                format!(
                    "data: {{\"id\":\"a\",\"object\":\"{object}\",\"choices\":[{{\"delta\":{{\"{name}\":\"{text}\"{beside}}}}}]{usage}}}\n\n"
                )
                .as_bytes(),
            );
        }
        let length = stream.len();
        for (place, byte) in spoils {
            stream[place % length] = byte;
        }
        stream
    })
}

/// Replies of one server as it sends them, a chunk for each message: other ids, times, words and counts in
/// each, odd ones among them, and here and there a byte spoiled.
fn replies_of_a_kind() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let count = || {
        prop_oneof![
            6 => (1_u64..100_000).prop_map(|count| count.to_string()),
            1 => prop::sample::select(vec![
                "0", "-1", "007", "1.5", "1e3", "null", "\"5\"", "987654321000", "123456789012345",
                "1234567890123456", "99999999999999999999", "[1]", "",
            ]).prop_map(str::to_owned),
        ]
    };
    let counts = prop::sample::select(vec![
        "\"prompt_tokens\":A,\"completion_tokens\":B,\"total_tokens\":C",
        "\"prompt_tokens\":A,\"prompt_tokens_details\":{\"cached_tokens\":B},\"completion_tokens\":C",
        "\"prompt_tokens\":A,\"completion_tokens\":B,\"completion_tokens_details\":{\"reasoning_tokens\":C}",
        "\"input_tokens\":A,\"cache_read_input_tokens\":B,\"output_tokens\":C",
        "\"prompt_tokens\":A,\"prompt_tokens\":B,\"audio_tokens\":C",
    ]);
    let id = prop_oneof![3 => "[a-z0-9-]{0,40}", 1 => json_text()];
    let reply = (
        id,
        count(),
        prop::collection::vec(prop_oneof![4 => "[ a-zA-Z.,é]{1,12}", 1 => json_text()], 0..4),
        [count(), count(), count()],
        prop::option::weighted(0.1, (any::<usize>(), any::<u8>())),
    );
    let object = prop::sample::select(vec!["chat.completion.chunk", "chat.completion.chunk", "chunk"]);
    (counts, object, prop::bool::ANY, prop::collection::vec(reply, 2..6)).prop_map(
        |(counts, object, counts_always, replies)| {
            let make = |(id, created, texts, [a, b, c], spoiled): (String, String, Vec<String>, [String; 3], _)| {
                let usage = counts.replace('A', &a).replace('B', &b).replace('C', &c);
                let usage = format!("\"usage\":{{{usage}}}");
                let beside = if counts_always { format!(",{usage}") } else { String::new() };
                let mut messages = vec!["\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]".to_owned()];
                messages.extend(texts.iter().map(|text| {
                    format!("\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]{beside}")
                }));
                messages.push(format!("\"choices\":[],{usage}"));
                let mut bytes = HEAD.as_bytes().to_vec();
                bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                let events = messages
                    .iter()
                    .map(|message| {
                        format!(
                            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},{message}}}\n\n"
                        )
                    })
                    .chain(["data: [DONE]\n\n".to_owned()]);
                for event in events {
                    bytes.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
                if let Some((place, byte)) = spoiled {
                    let length: usize = bytes.len();
                    bytes[place % length] = byte;
                }
                bytes
            };
            replies.into_iter().map(make).collect()
        },
    )
}

/// The body framed in one of the ways HTTP has, the chunks being `sizes` long.
fn framed(body: &[u8], way: u8, sizes: &[usize]) -> Vec<u8> {
    let mut reply = HEAD.as_bytes().to_vec();
    match way {
        0 => {
            reply.extend_from_slice(b"\r\n");
            reply.extend_from_slice(body);
        }
        1 => {
            reply.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            reply.extend_from_slice(body);
        }
        _ => {
            reply.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            let mut rest = body;
            for size in sizes.iter().cycle() {
                let (chunk, next) = rest.split_at((*size).min(rest.len()));
                if chunk.is_empty() {
                    break;
                }
                reply.extend_from_slice(format!("{:x};x=y\r\n", chunk.len()).as_bytes());
                reply.extend_from_slice(chunk);
                reply.extend_from_slice(b"\r\n");
                rest = next;
            }
            reply.extend_from_slice(b"0\r\nX-Sum: 1\r\n\r\n");
        }
    }
    reply
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_scanner_and_the_tree_agree(message in message()) {
        check::delta(message.as_bytes());
    }

    #[test]
    fn the_scanner_and_the_tree_agree_on_spoiled_messages(
        message in message(), place in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400,
    ) {
        let mut bytes = message.into_bytes();
        check::delta(&bytes[..cut.min(bytes.len())]);
        let length = bytes.len();
        bytes[place % length] = byte;
        check::delta(&bytes);
    }

    #[test]
    fn streams_give_the_same_sums_at_every_cut_and_framing(
        body in stream(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        sizes in prop::collection::vec(1_usize..90, 1..4),
    ) {
        let mut ends = Vec::new();
        for way in 0..3 {
            let reply = framed(&body, way, &sizes);
            check::reply(&reply, &cuts);
            let mut sums = check::decode(&mut ReplyDecoder::default(), &reply, &cuts);
            sums.reusable = false;
            ends.push(sums);
        }
        prop_assert_eq!(&ends[0], &ends[1]);
        prop_assert_eq!(&ends[0], &ends[2]);
    }

    #[test]
    fn messages_like_the_one_before_say_what_they_say_read_in_full(
        body in stream_of_likes(), way in 0_u8..3, sizes in prop::collection::vec(1_usize..400, 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        // Byte by byte every message is carried over and read in full.
        check::reply(&framed(&body, way, &sizes), &cuts);
    }

    #[test]
    fn a_reply_gives_what_it_gives_alone_whichever_were_read_before_it(
        replies in replies_of_a_kind(), cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let mut telling = EndpointSettings::new(Dialect::chat(), "m");
        telling.per_chunk_usage = true;
        let telling = ReplyDecoder::new(&telling, KeepTexts::No).unwrap();
        for mut decoder in [ReplyDecoder::default(), telling] {
            check::replies(&mut decoder, &replies, &[]);
            check::replies(&mut decoder, &replies, &cuts);
        }
    }

    #[test]
    fn spoiled_replies_give_the_same_sums_at_every_cut(
        body in stream(), way in 0_u8..3, place in any::<usize>(), byte in any::<u8>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut reply = framed(&body, way, &[17]);
        let length = reply.len();
        reply[place % length] = byte;
        check::reply(&reply, &cuts);
    }

    #[test]
    fn noise_gives_the_same_sums_at_every_cut(
        bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        check::reply(&bytes, &cuts);
        check::delta(&bytes);
    }
}

fn content_event(bytes: usize) -> Vec<u8> {
    let text = "x".repeat(bytes);
    format!(
        "{HEAD}\r\ndata: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    )
    .into_bytes()
}

/// The shortest of a few times for one event of so many bytes in reads of 1 KiB.
fn time_of(bytes: usize) -> Duration {
    let reply = content_event(bytes);
    let clock = phasor::time::Clock::start();
    let mut decoder = ReplyDecoder::default();
    (0..5)
        .map(|_| {
            decoder.reset();
            let begin = clock.now();
            let contents: u32 = reply.chunks(1_024).map(|piece| decoder.feed(piece).contents).sum();
            assert_eq!(contents, 1);
            Duration::from(clock.now().since(begin))
        })
        .min()
        .unwrap()
}

#[test]
fn a_huge_event_costs_in_proportion_to_its_size() {
    let (small, large) = (time_of(256 * 1_024), time_of(4 * 1_024 * 1_024));
    // Sixteen times the bytes: quadratic cost would be 256 times the time.
    assert!(large < small * 80, "{small:?} for 256 KiB, {large:?} for 4 MiB");
}

#[test]
fn what_is_too_large_is_a_named_fault_that_spoils_nothing_else() {
    let mut decoder = ReplyDecoder::default();
    let end = |decoder: &mut ReplyDecoder, begin: &[u8], endless: &[u8], bytes_max: usize| {
        decoder.reset();
        decoder.feed(begin);
        let mut fed_bytes = 0;
        while fed_bytes <= bytes_max + endless.len() {
            fed_bytes += endless.len();
            if let Progress::Failed { fault, reusable } = decoder.feed(endless).progress {
                assert!(!reusable);
                return format!("{fault:?}");
            }
        }
        "no fault".to_owned()
    };
    let piece = vec![b'x'; 64 * 1_024];
    let events = format!("{HEAD}\r\n");
    let text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    for (begin, what, limit_bytes) in [
        ("HTTP/1.1 200 OK\r\nA: ", "head", 64 * 1_024),
        (&*events, "event", 16 * 1_024 * 1_024),
        (text, "body", 64 * 1_024 * 1_024),
    ] {
        assert_eq!(
            end(&mut decoder, begin.as_bytes(), &piece, limit_bytes),
            format!("TooLarge {{ what: {what:?}, limit_bytes: {limit_bytes} }}")
        );
    }
    decoder.reset();
    assert_eq!(decoder.feed(&content_event(10)).contents, 1);
}

#[test]
fn a_live_decoder_is_small() {
    assert!(size_of::<ReplyDecoder>() <= 384, "{} bytes", size_of::<ReplyDecoder>());
}
