//! Payloads, addresses, headers, replies and sessions as AIPerf 0.13.0 makes and reads them.
//!
//! The vectors stand in `tests/data/endpoint`. Where phasor differs on purpose, the test says so by name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use phasor::endpoint::{
    Capture, Content, ContextMode, Dialect, EndpointSettings, HeaderValue, Media, Reader, Request,
    RequestContentType, Spoiled, TemplateSettings, Texts, Turn, Usage, input_texts, join, render,
};
use phasor::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

/// Vectors of endpoint types that phasor does not have.
const OTHER_TYPES: [&str; 3] = ["audio_transcription", "image_edit", "video_generation"];

fn vectors(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn truth(value: &Value) -> bool {
    value.as_bool().unwrap_or(false)
}

fn settings(dialect: &'static Dialect, endpoint: &Value) -> EndpointSettings {
    let extra = endpoint["extra"].as_array().into_iter().flatten();
    let extra = extra.map(|pair| (text(&pair[0]).unwrap(), pair[1].clone())).collect::<Map<_, _>>();
    let template = endpoint["template"].as_object().map(|template| TemplateSettings {
        body: text(&template["body"]).unwrap(),
        response_field: template.get("response_field").and_then(text),
    });
    EndpointSettings {
        streaming: truth(&endpoint["streaming"]),
        api_key: text(&endpoint["api_key"]),
        legacy_max_tokens: truth(&endpoint["use_legacy_max_tokens"]),
        server_token_count: truth(&endpoint["use_server_token_count"]),
        per_chunk_usage: truth(&endpoint["per_chunk_usage"]),
        content_type: if endpoint["request_content_type"] == "multipart/form-data" {
            RequestContentType::Multipart
        } else {
            RequestContentType::Json
        },
        extra,
        template,
        ..EndpointSettings::new(dialect, endpoint["model"].as_str().unwrap_or("demo-model"))
    }
}

fn media(value: &Value) -> Vec<Media> {
    let strings = |value: &Value| value.as_array().into_iter().flatten().filter_map(text).collect();
    let objects = value.as_array().into_iter().flatten();
    objects
        .map(|object| Media {
            name: text(&object["name"]).unwrap_or_default(),
            contents: strings(&object["contents"]),
            uuids: strings(&object["uuids"]),
        })
        .collect()
}

fn turn(value: &Value) -> Turn {
    Turn {
        model: text(&value["model"]),
        role: text(&value["role"]),
        texts: media(&value["texts"]),
        images: media(&value["images"]),
        audios: media(&value["audios"]),
        videos: media(&value["videos"]),
        max_tokens: value["max_tokens"].as_u64(),
        raw_messages: value["raw_messages"].as_array().cloned(),
        raw_tools: value["raw_tools"].as_array().cloned(),
        raw_system: value.get("raw_system").cloned(),
        extra_body: value["extra_body"].as_object().cloned().unwrap_or_default(),
        ..Turn::default()
    }
}

fn turns(value: &Value) -> Vec<Turn> {
    value.as_array().into_iter().flatten().map(turn).collect()
}

/// A header list as the vectors have it.
fn headers(settings: &EndpointSettings) -> Vec<(String, String)> {
    let value = |value| match value {
        HeaderValue::Fixed(value) => value,
        HeaderValue::RequestId => "req-0001".to_owned(),
        HeaderValue::SessionId => "corr-0001".to_owned(),
    };
    let headers = settings.request_headers(&[]).unwrap();
    headers.into_iter().map(|(name, content)| (name, value(content))).collect()
}

#[test]
fn payloads_addresses_and_headers_are_aiperfs() {
    let builtin = Tokenizer::load("builtin").unwrap();
    let (mut rendered, mut refused) = (0, 0);
    for vector in vectors(include_str!("data/endpoint/payloads.json")) {
        let name = vector["name"].as_str().unwrap();
        let kind = vector["endpoint"]["type"].as_str().unwrap();
        let Some(dialect) = Dialect::named(kind) else {
            assert!(OTHER_TYPES.contains(&kind), "{kind}");
            continue;
        };
        let settings = settings(dialect, &vector["endpoint"]);
        let turns = turns(&vector["turns"]);
        let (system, context) = (text(&vector["system_message"]), text(&vector["user_context_message"]));
        let request = Request {
            system_message: system.as_deref(),
            user_context_message: context.as_deref(),
            turns: &turns,
            previous_response_id: None,
        };
        let expected = &vector["expected"];
        let payload = match render(&settings, &request) {
            Ok(payload) => payload,
            Err(error) => {
                assert!(expected.get("error").is_some(), "{name}: {error}");
                refused += 1;
                continue;
            }
        };
        assert!(expected.get("error").is_none(), "{name} should be refused");
        let mut bytes = Vec::new();
        let own = payload.write(&mut bytes);
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), expected["body"].as_str().unwrap(), "{name}");
        if let Some(own) = own {
            let items = format!("[{}]", String::from_utf8_lossy(&bytes[own]));
            let items: Value = serde_json::from_str(&items).unwrap();
            let all = payload.value().get("messages").or_else(|| payload.value().get("input")).unwrap();
            assert!(all.as_array().unwrap().ends_with(items.as_array().unwrap()), "{name}");
        }
        let base = vector["endpoint"]["base_urls"][0].as_str().unwrap();
        let path = vector["endpoint"]["path"].as_str();
        assert_eq!(
            join(base, path, dialect, settings.streaming),
            expected["url"].as_str().unwrap(),
            "{name}"
        );
        // The agent is phasor's; a second Content-Type in another spelling is not sent.
        let ours: Vec<(String, String)> = headers(&settings).split_off(1);
        let theirs: Vec<(String, String)> = expected["headers"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .map(|pair| (text(&pair[0]).unwrap(), text(&pair[1]).unwrap()))
            .filter(|(name, _)| name != "content-type")
            .collect();
        assert_eq!(ours, theirs, "{name}");
        let input = input_texts(payload.value());
        assert_eq!(json!(input.texts), expected["isl_texts"], "{name}");
        assert_eq!(json!(input.pretokenised), expected["pretokenised"], "{name}");
        let media = [input.media.images, input.media.audios, input.media.videos];
        assert_eq!(json!(media), expected["media_counts"], "{name}");
        let tokens = input.joined().map(|text| builtin.count(&text) as u64 + input.pretokenised);
        assert_eq!(json!(tokens), expected["isl_tokens_o200k_base"], "{name}");
        rendered += 1;
    }
    assert!(rendered >= 33 && refused >= 5, "{rendered} {refused}");
}

#[test]
fn addresses_are_joined_as_aiperf_joins_them() {
    let vectors = vectors(include_str!("data/endpoint/joins.json"));
    assert!(vectors.len() >= 15);
    for vector in vectors {
        let dialect = Dialect::named(vector["type"].as_str().unwrap()).unwrap();
        let base = vector["base_url"].as_str().unwrap();
        let joined = join(base, vector["path_override"].as_str(), dialect, truth(&vector["streaming"]));
        assert_eq!(joined, vector["url"].as_str().unwrap());
    }
}

fn contents(reader: &mut Reader, messages: &[String]) -> Result<(Vec<Content>, Vec<Usage>), Spoiled> {
    let (mut contents, mut usages) = (Vec::new(), Vec::new());
    for message in messages {
        let reading = reader.read(message.as_bytes())?;
        contents.extend(reading.content);
        usages.extend(reading.usage);
    }
    Ok((contents, usages))
}

fn expected_content(data: &Value) -> Content {
    let member = |key: &str| text(&data[key]);
    match data["_class"].as_str().unwrap() {
        "TextResponseData" => Content::Text(text(&data["text"]).unwrap_or_else(|| data["text"].to_string())),
        "ReasoningResponseData" => {
            Content::Reasoning { reasoning: member("reasoning").unwrap(), content: member("content") }
        }
        "ToolCallResponseData" => {
            Content::ToolCall { text: member("tool_call_text").unwrap(), content: member("content") }
        }
        "EmbeddingResponseData" => {
            Content::Embeddings { count: data["embeddings"].as_array().unwrap().len() }
        }
        "RankingsResponseData" => Content::Rankings { count: data["rankings"].as_array().unwrap().len() },
        other => panic!("{other}"),
    }
}

#[test]
fn replies_say_what_they_say_to_aiperf() {
    let builtin = Tokenizer::load("builtin").unwrap();
    let mut counted = 0;
    for vector in vectors(include_str!("data/endpoint/replies.json")) {
        let name = vector["name"].as_str().unwrap();
        // Both delimiters in one stream: phasor reads the messages that the standard says.
        if name == "chat_mixed_delimiters" || vector.get("none").is_some() {
            continue;
        }
        let dialect = Dialect::named(vector["type"].as_str().unwrap()).unwrap();
        let settings = settings(dialect, &vector["endpoint"]);
        let mut reader = Reader::new(&settings).unwrap();
        let mut messages: Vec<String> = match vector.get("body") {
            Some(body) => vec![text(body).unwrap()],
            None => vector["messages"].as_array().unwrap().iter().filter_map(text).collect(),
        };
        // `wire` passes over these; AIPerf counts `[DONE]` as a text on raw and template endpoints.
        messages.retain(|message| !message.is_empty() && message != "[DONE]");
        let found = contents(&mut reader, &messages);
        if let Some(spoiled) = vector.get("spoiled") {
            let kind = match found.unwrap_err() {
                Spoiled::Array => "list",
                Spoiled::Scalar(kind) => kind,
            };
            assert!(spoiled.as_str().unwrap().contains(&format!("'{kind}'")), "{name}");
            continue;
        }
        let (found, usages) = found.unwrap();
        let expected: Vec<Content> = vector["contents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|data| data["text"] != "[DONE]")
            .map(expected_content)
            .collect();
        assert_eq!(found, expected, "{name}");
        let expected: Vec<Usage> =
            vector["usages"].as_array().unwrap().iter().filter_map(Usage::read).collect();
        assert_eq!(usages, expected, "{name}");
        let done_counted = matches!(dialect.name, "raw" | "template");
        if truth(&vector["valid"])
            && !settings.server_token_count
            && dialect.can.produce_tokens
            && !done_counted
        {
            let mut texts = Texts::default();
            for content in &found {
                texts.add(content);
            }
            let reasoning = texts.has_reasoning.then(|| builtin.count(&texts.reasoning));
            let counts = json!([builtin.count(&texts.output), reasoning]);
            let expected = json!([vector["token_counts"]["output"], vector["token_counts"]["reasoning"]]);
            assert_eq!(counts, expected, "{name}");
            counted += 1;
        }
    }
    assert!(counted >= 25, "{counted}");
}

#[test]
fn every_turn_of_a_session_carries_the_history_that_aiperf_sends() {
    let vectors = vectors(include_str!("data/endpoint/sessions.json"));
    assert!(vectors.len() >= 7);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let dialect = Dialect::named(vector["endpoint_type"].as_str().unwrap()).unwrap();
        let mut settings = settings(dialect, &vector["endpoint"]);
        settings.streaming = truth(&vector["streaming"]);
        let mode = match vector["context_mode"].as_str().unwrap() {
            "deltas_with_responses" => ContextMode::DeltasWithResponses,
            "deltas_without_responses" => ContextMode::DeltasWithoutResponses,
            other => panic!("{other}"),
        };
        let turns = turns(&vector["turns"]);
        let system = text(&vector["system_message"]);
        let mut history: Vec<Turn> = Vec::new();
        let mut stored: Option<String> = None;
        // The same, from bytes: what stands in front of the turn's own items.
        let mut spliced = Vec::new();
        for (index, turn) in turns.iter().enumerate() {
            history.push(turn.clone());
            let request = |turns| Request {
                system_message: system.as_deref(),
                user_context_message: None,
                turns,
                previous_response_id: stored.as_deref(),
            };
            let payload = render(&settings, &request(&history)).unwrap();
            assert_eq!(payload.value(), &vector["payloads"][index], "{name} turn {index}");
            let mut whole = Vec::new();
            payload.write(&mut whole);
            if stored.is_none() || !settings.extra.contains_key("store") {
                let mut alone = Vec::new();
                let own = render(&settings, &request(std::slice::from_ref(turn))).unwrap().write(&mut alone);
                let own = own.unwrap();
                let body = [&alone[..own.start], &spliced, &alone[own.start..]].concat();
                assert_eq!(String::from_utf8_lossy(&body), String::from_utf8_lossy(&whole), "{name}");
                spliced.extend_from_slice(&alone[own]);
                spliced.push(b',');
            }
            let mut capture = Capture::new(Reader::new(&settings).unwrap());
            for message in vector["server_replies"][index].as_array().unwrap() {
                capture.message(message.as_str().unwrap().as_bytes());
            }
            let captured = capture.finish();
            if mode == ContextMode::DeltasWithoutResponses {
                stored = captured.response_id;
                if let Some(reply) = captured.turn {
                    for message in reply.raw_messages.iter().flatten() {
                        spliced.extend_from_slice(message.to_string().as_bytes());
                        spliced.push(b',');
                    }
                    history.push(reply);
                }
            }
        }
    }
}

#[test]
fn a_header_that_would_break_the_request_is_refused() {
    let with = |name: &str, value: &str| EndpointSettings {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..EndpointSettings::new(Dialect::chat(), "m")
    };
    for (name, value) in
        [("X-A", "1\r\nX-B: 2"), ("X A", "1"), ("", "1"), ("host", "h"), ("Content-Length", "3"), ("X:", "1")]
    {
        let error = with(name, value).request_headers(&[]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let mut settings = with("user-agent", "mine");
    settings.headers.push(("accept".to_owned(), "text/plain".to_owned()));
    settings.session_affinity = false;
    let headers = headers(&settings);
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["User-Agent", "X-Request-ID", "X-Correlation-ID", "user-agent", "Accept", "Content-Type"]
    );
    assert_eq!(headers[4].1, "application/json");
}

#[test]
fn every_endpoint_type_has_a_name_of_its_own_and_refuses_what_it_cannot_send() {
    for dialect in Dialect::all() {
        assert_eq!(Dialect::named(dialect.name), Some(*dialect));
        let settings = EndpointSettings::new(dialect, "m");
        let turns = [Turn::text("a".to_owned()), Turn::text("b".to_owned())];
        let request = Request { turns: &turns, ..Request::default() };
        match render(&settings, &request) {
            Ok(payload) => {
                assert!(dialect.can.take_history || dialect.name == "chat_embeddings", "{payload:?}");
            }
            Err(error) => assert!(error.to_string().contains(dialect.name), "{error}"),
        }
    }
    let names: std::collections::BTreeSet<&str> = Dialect::all().iter().map(|dialect| dialect.name).collect();
    assert_eq!(names.len(), Dialect::all().len());
}

#[test]
fn payloads_of_a_dataset_are_sent_as_they_are() {
    let payload = json!({"b": 1, "a": {"x": null}});
    for dialect in Dialect::all() {
        let turns = [Turn { raw_payload: Some(payload.clone()), ..Turn::default() }];
        let settings = EndpointSettings { streaming: true, ..EndpointSettings::new(dialect, "m") };
        let rendered = render(&settings, &Request { turns: &turns, ..Request::default() }).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(rendered.write(&mut bytes), None);
        assert_eq!(bytes, br#"{"b":1,"a":{"x":null}}"#);
    }
}
