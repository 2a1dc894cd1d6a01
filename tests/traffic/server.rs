//! A server that writes down every request and answers it as the test says.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Request {
    /// The value of the header in this very spelling.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Role and content of each message.
    pub(crate) fn messages(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A whole body.
    Json(Value),
    /// The data of events.
    Events(Vec<Value>),
}

/// Chunks of a chat stream that say `texts`, and the usage behind them if there is one.
pub(crate) fn chat_stream(texts: &[&str], usage: Option<Value>) -> Reply {
    let chunk = |text: &&str| json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]});
    let mut events: Vec<Value> = texts.iter().map(chunk).collect();
    events
        .extend(usage.map(|usage| json!({"object": "chat.completion.chunk", "choices": [], "usage": usage})));
    Reply::Events(events)
}

/// A running server; it ends with the process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, reply) = (Arc::clone(&requests), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, seen, reply) = (stream.unwrap(), Arc::clone(&seen), Arc::clone(&reply));
                std::thread::spawn(move || serve(stream, &seen, &*reply));
            }
        });
        Self { address, requests }
    }

    /// Every request so far, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>, reply: &dyn Fn(&Request) -> Reply) {
    let mut out = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    while let Some(request) = read(&mut input) {
        seen.lock().unwrap().push(request.clone());
        let answer = match reply(&request) {
            Reply::Json(body) => {
                let body = body.to_string();
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            Reply::Events(events) => {
                let events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
                let events = events.concat();
                let events = format!("{events}data: [DONE]\n\n");
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{events}",
                    events.len()
                )
            }
        };
        if out.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(input: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "Content-Length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let text = String::from_utf8(body).ok()?;
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Some(Request { target, headers, text, body })
}
