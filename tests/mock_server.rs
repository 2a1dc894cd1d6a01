//! The built-in server against plain blocking clients: its bytes, its timing, its faults, its books.
#![expect(clippy::unwrap_used, reason = "tests")]

use phasor::mock::{Delay, Faults, Mock, MockOptions, Writes};
use phasor::time::{Clock, Nanos};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// A client connection and what it has read beyond the last reply.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    /// Without the transfer coding.
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The JSON messages of a stream, which must end as streams end.
    fn messages(&self) -> Vec<Value> {
        let events = self.body.strip_suffix("data: [DONE]\n\n").unwrap();
        events
            .split_terminator("\n\n")
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect()
    }

    fn content(&self) -> String {
        let delta = |message: &Value| {
            message["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
        };
        self.messages().iter().map(delta).collect()
    }
}

impl Client {
    fn new(mock: &Mock) -> Self {
        let stream = TcpStream::connect(mock.address()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        Self { stream, input: Vec::new() }
    }

    fn send(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).unwrap();
    }

    fn more(&mut self) -> std::io::Result<()> {
        let mut piece = [0; 8_192];
        let count = self.stream.read(&mut piece)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&piece[..count]);
        Ok(())
    }

    fn reply(&mut self) -> std::io::Result<Reply> {
        self.reply_to(false)
    }

    fn reply_to(&mut self, head_only: bool) -> std::io::Result<Reply> {
        loop {
            if let Some((reply, used)) = parse(&self.input, head_only)? {
                self.input.drain(..used);
                return Ok(reply);
            }
            self.more()?;
        }
    }

    fn ask(&mut self, request: &str) -> Reply {
        self.send(request);
        self.reply().unwrap()
    }
}

fn parse(input: &[u8], head_only: bool) -> std::io::Result<Option<(Reply, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut fields);
    let start = match response.parse(input) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(std::io::Error::new(ErrorKind::InvalidData, error)),
    };
    let field = |name: &str| {
        let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(field.value).ok()
    };
    let reply = |body: &[u8]| Reply {
        status: response.code.unwrap(),
        head: String::from_utf8_lossy(&input[..start]).into_owned(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    if let Some(length) = field("content-length") {
        let end = if head_only { start } else { start + length.parse::<usize>().unwrap() };
        return Ok(input.get(start..end).map(|body| (reply(body), end)));
    }
    assert_eq!(field("transfer-encoding"), Some("chunked"));
    let (mut body, mut at) = (Vec::new(), start);
    loop {
        let Ok(httparse::Status::Complete((line, length))) = httparse::parse_chunk_size(&input[at..]) else {
            return Ok(None);
        };
        let end = at + line + usize::try_from(length).unwrap();
        let Some(chunk) = input.get(at + line..end + 2) else { return Ok(None) };
        let (chunk, line_end) = chunk.split_at(chunk.len() - 2);
        assert_eq!(line_end, b"\r\n");
        at = end + 2;
        if chunk.is_empty() {
            return Ok(Some((reply(&body), at)));
        }
        body.extend_from_slice(chunk);
    }
}

fn post(body: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nContent-Type: application/json\r\nX-Request-ID: r-1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chat(tokens: u32, stream: bool) -> String {
    post(&format!(
        r#"{{"model":"some/model","messages":[{{"role":"user","content":"four words are here"}}],"max_completion_tokens":{tokens},"stream":{stream},"stream_options":{{"include_usage":true}}}}"#
    ))
}

fn start(options: MockOptions) -> Mock {
    Mock::start(options).unwrap()
}

fn with_faults(faults: Faults) -> Mock {
    start(MockOptions { faults, ..MockOptions::default() })
}

#[test]
fn a_stream_has_role_content_finish_usage_and_end() {
    for writes in [Writes::PerMessage, Writes::Whole] {
        let mock = start(MockOptions { writes, tokens_per_chunk: 4, ..MockOptions::default() });
        let mut client = Client::new(&mock);
        // Twice on one connection: it stays open.
        for tokens in [10, 1] {
            let reply = client.ask(&chat(tokens, true));
            assert_eq!(reply.status, 200);
            assert!(reply.head.contains("content-type: text/event-stream"));
            let messages = reply.messages();
            assert_eq!(messages.len(), 1 + tokens.div_ceil(4) as usize + 2);
            assert_eq!(messages[0]["choices"][0]["delta"]["role"], "assistant");
            assert_eq!(reply.content(), " tok".repeat(tokens as usize));
            let [.., finish, usage] = &messages[..] else { panic!("{messages:?}") };
            assert_eq!(finish["choices"][0]["finish_reason"], "length");
            assert_eq!(usage["choices"], serde_json::json!([]));
            assert_eq!(usage["usage"]["prompt_tokens"], 4);
            assert_eq!(usage["usage"]["completion_tokens"], tokens);
            assert!(messages.iter().all(|message| message["model"] == "some/model"));
            assert!(messages.iter().all(|message| message["id"] == messages[0]["id"]));
        }
        assert_eq!(mock.requests(), 2);
        mock.stop().unwrap();
    }
}

#[test]
fn a_reply_without_a_stream_is_one_document() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    let json = client.ask(&chat(7, false)).json();
    assert_eq!(json["choices"][0]["message"]["content"], " tok".repeat(7));
    assert_eq!(json["usage"]["total_tokens"], 11);
    let json = client.ask(&post(r#"{"messages":[]}"#)).json();
    assert_eq!(json["choices"][0]["message"]["content"], " tok".repeat(32));
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert_eq!(json["model"], "mock-model");
}

#[test]
fn no_usage_is_sent_unless_it_is_asked_for_and_allowed() {
    let usage = |mock: &Mock, request: &str| {
        let messages = Client::new(mock).ask(request).messages();
        messages.iter().any(|message| !message["usage"].is_null())
    };
    let plain = post(r#"{"messages":[],"stream":true,"max_tokens":2}"#);
    let mock = start(MockOptions::default());
    assert!(!usage(&mock, &plain));
    assert!(usage(&mock, &chat(2, true)));
    let mock = start(MockOptions { usage: false, ..MockOptions::default() });
    assert!(!usage(&mock, &chat(2, true)));
}

#[test]
fn requests_may_come_in_pieces_or_several_at_once() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    client.stream.set_nodelay(true).unwrap();
    for byte in chat(3, true).as_bytes() {
        client.stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(client.reply().unwrap().content(), " tok tok tok");
    client.send(&[chat(1, true), chat(2, false), chat(3, true)].concat());
    assert_eq!(client.reply().unwrap().content(), " tok");
    assert_eq!(client.reply().unwrap().json()["usage"]["completion_tokens"], 2);
    assert_eq!(client.reply().unwrap().content(), " tok tok tok");
}

#[test]
fn a_large_prompt_in_chunks_is_counted_word_by_word() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}}],"max_tokens":1}}"#,
        "word ".repeat(1_000_000)
    );
    client.send("POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for chunk in body.as_bytes().chunks(100_000) {
        client.send(&format!("{:x}\r\n", chunk.len()));
        client.stream.write_all(chunk).unwrap();
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.reply().unwrap().json()["usage"]["prompt_tokens"], 1_000_000);
}

#[test]
fn what_cannot_be_served_gets_its_status_and_a_reason() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    for (request, status) in [
        ("GET /nowhere HTTP/1.1\r\n\r\n".to_owned(), 404),
        ("GET /v1/chat/completions HTTP/1.1\r\n\r\n".to_owned(), 405),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n".to_owned(), 405),
        (post("{not json"), 400),
        (post("{}"), 400),
    ] {
        let reply = client.ask(&request);
        assert_eq!(reply.status, status, "{request}");
        assert_eq!(reply.json()["error"]["code"], status);
        assert!(reply.json()["error"]["message"].is_string());
    }
    // The connection has survived all of that.
    assert_eq!(client.ask(&chat(1, true)).status, 200);
    // This one it does not survive.
    let too_long = "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(client.ask(too_long).status, 413);
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut client = Client::new(&mock);
    assert_eq!(client.ask("nonsense\r\n\r\n").status, 400);
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn the_small_pages_are_served_with_and_without_a_body() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    assert_eq!(client.ask("GET /health HTTP/1.1\r\n\r\n").status, 200);
    let models = client.ask("GET /v1/models HTTP/1.1\r\n\r\n");
    assert_eq!(models.json()["data"][0]["id"], "mock-model");
    client.send("HEAD /v1/models HTTP/1.1\r\n\r\n");
    let head = client.reply_to(true).unwrap();
    assert!(head.head.contains(&format!("content-length: {}", models.body.len())));
    let closing = client.ask("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(closing.head.contains("connection: close"));
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let mock = start(MockOptions::default());
    let mut client = Client::new(&mock);
    let request = chat(2, false).replace("Host: mock", "Expect: 100-continue");
    let (head, body) = request.split_at(request.find("\r\n\r\n").unwrap() + 4);
    client.send(head);
    while client.input.len() < 25 {
        client.more().unwrap();
    }
    assert_eq!(client.input, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.input.clear();
    assert_eq!(client.ask(body).json()["usage"]["completion_tokens"], 2);
}

#[test]
fn metrics_follow_the_load_in_the_text_format() {
    let mock = start(MockOptions { threads: 2, ..MockOptions::default() });
    for _ in 0..5 {
        assert_eq!(Client::new(&mock).ask(&chat(3, true)).status, 200);
    }
    let mut client = Client::new(&mock);
    let mut value = |name: &str| -> String {
        let page = client.ask("GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.head.contains("content-type: text/plain; version=0.0.4"));
        for line in page.body.lines().filter(|line| !line.starts_with('#')) {
            let (series, number) = line.rsplit_once(' ').unwrap();
            let labelled = series.starts_with("vllm:") && series.ends_with('}');
            assert!(labelled || series.starts_with("mock:"), "{line}");
            number.parse::<f64>().unwrap();
        }
        let line = page.body.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(value("vllm:prompt_tokens_total{"), "20");
    assert_eq!(value("vllm:num_requests_running{"), "0");
    assert_eq!(value("vllm:generation_tokens_total{"), "15");
    let length = "vllm:request_success_total{model_name=\"mock-model\",finished_reason=\"length\"}";
    assert_eq!(value(length), "5");
    assert_eq!(value("vllm:time_to_first_token_seconds_count{"), "5");
    assert_eq!(value("vllm:e2e_request_latency_seconds_count{"), "5");
}

#[test]
fn an_error_status_keeps_the_connection() {
    let mock = with_faults(Faults { status_percent: 100.0, status_code: 429, ..Faults::default() });
    let mut client = Client::new(&mock);
    for _ in 0..2 {
        let reply = client.ask(&chat(3, true));
        assert_eq!(reply.status, 429);
        assert_eq!(reply.json()["error"]["type"], "RateLimitError");
    }
    assert_eq!(mock.requests(), 2);
}

#[test]
fn a_refused_request_ends_without_a_byte() {
    let mock = with_faults(Faults { refuse_percent: 100.0, ..Faults::default() });
    let mut client = Client::new(&mock);
    client.send(&chat(3, true));
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(client.input.is_empty());
}

#[test]
fn a_reset_comes_in_the_middle_of_the_reply() {
    for writes in [Writes::PerMessage, Writes::Whole] {
        let faults = Faults { reset_percent: 100.0, ..Faults::default() };
        let mock = start(MockOptions { faults, writes, ..MockOptions::default() });
        let mut client = Client::new(&mock);
        client.send(&chat(8, true));
        assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_truncated_reply_ends_in_the_middle() {
    for (writes, stream) in [(Writes::PerMessage, true), (Writes::Whole, true), (Writes::Whole, false)] {
        let faults = Faults { truncate_percent: 100.0, ..Faults::default() };
        let mock = start(MockOptions { faults, writes, ..MockOptions::default() });
        let mut client = Client::new(&mock);
        client.send(&chat(8, stream));
        assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let text = String::from_utf8_lossy(&client.input);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(!text.contains("[DONE]"));
    }
}

#[test]
fn garbage_is_not_http() {
    let mock = with_faults(Faults { garbage_percent: 100.0, ..Faults::default() });
    let mut client = Client::new(&mock);
    client.send(&chat(3, true));
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_hanging_request_waits_until_the_client_leaves() {
    let mock = with_faults(Faults { hang_percent: 100.0, ..Faults::default() });
    let mut client = Client::new(&mock);
    client.send(&chat(3, true));
    client.stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
    assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::WouldBlock);
    let waiting = "vllm:num_requests_waiting{model_name=\"mock-model\"} ";
    let mut other = Client::new(&mock);
    let mut page = || other.ask("GET /metrics HTTP/1.1\r\n\r\n").body;
    assert!(page().contains(&format!("{waiting}1\n")));
    drop(client);
    while !page().contains(&format!("{waiting}0\n")) {}
    assert_eq!(mock.requests(), 1);
}

#[test]
fn a_slow_head_comes_a_byte_at_a_time_and_then_the_reply() {
    let mock = with_faults(Faults { slow_headers_percent: 100.0, ..Faults::default() });
    let clock = Clock::start();
    for stream in [true, false] {
        let mut client = Client::new(&mock);
        let before = clock.now();
        let reply = client.ask(&chat(3, stream));
        let spent = clock.now().since(before);
        assert_eq!(reply.status, 200);
        assert!(spent >= Nanos::from_millis(reply.head.len() as u64 - 1), "{spent:?}");
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_is_counted_and_forgotten() {
    let mock = start(MockOptions { itl: Delay::Fixed(Nanos::from_millis(5)), ..MockOptions::default() });
    let mut client = Client::new(&mock);
    client.send(&chat(100_000, true));
    client.more().unwrap();
    drop(client);
    let mut other = Client::new(&mock);
    let running = "vllm:num_requests_running{model_name=\"mock-model\"} 0\n";
    while !other.ask("GET /metrics HTTP/1.1\r\n\r\n").body.contains(running) {}
    assert_eq!((mock.cancelled(), mock.requests()), (1, 0));
}

#[test]
fn thousands_of_paced_streams_end_right_and_on_time_and_in_the_log() {
    const STREAMS: usize = 2_000;
    const TOKENS: u32 = 10;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arrivals.tsv");
    let (ttft, itl) = (Nanos::from_millis(20), Nanos::from_millis(5));
    let mock = start(MockOptions {
        ttft: Delay::Fixed(ttft),
        itl: Delay::Fixed(itl),
        arrival_log: Some(path.clone()),
        ..MockOptions::default()
    });
    let mut clients: Vec<Client> = (0..STREAMS).map(|_| Client::new(&mock)).collect();
    for client in &mut clients {
        client.send(&chat(TOKENS, true));
    }
    for client in &mut clients {
        assert_eq!(client.reply().unwrap().content(), " tok".repeat(TOKENS as usize));
    }
    mock.stop().unwrap();
    let log = std::fs::read_to_string(path).unwrap();
    let mut lines = log.lines();
    assert!(lines.next().unwrap().starts_with("arrival_ns\tfirst_byte_ns\tlast_byte_ns\t"));
    let mut connections = Vec::new();
    for line in lines {
        let [arrival, first, last, connection, request, id, outcome] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        assert_eq!((request, id, outcome), ("0", "r-1", "ok"));
        let [arrival, first, last] = [arrival, first, last].map(|text| text.parse::<u64>().unwrap());
        assert!(first - arrival >= ttft.0, "{line}");
        assert!(last - arrival >= ttft.0 + itl.0 * u64::from(TOKENS - 1), "{line}");
        connections.push(connection.parse::<usize>().unwrap());
    }
    connections.sort_unstable();
    assert!(connections.into_iter().eq(0..STREAMS));
}

#[test]
fn a_port_in_use_and_impossible_numbers_are_errors() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    assert!(Mock::start(MockOptions { listen, ..MockOptions::default() }).is_err());
    assert!(Mock::start(MockOptions { threads: 0, ..MockOptions::default() }).is_err());
    assert!(Mock::start(MockOptions { tokens_per_chunk: 0, ..MockOptions::default() }).is_err());
    assert!(Mock::start(MockOptions { cpus: vec![100_000], ..MockOptions::default() }).is_err());
}
