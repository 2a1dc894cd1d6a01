//! Connections that go wrong, over real sockets: closed as they are used again, never established, refused,
//! too few for all URLs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/nowhere.rs"]
mod nowhere;
#[path = "support/program.rs"]
mod program;

use nowhere::black_hole;
use program::{Run, assert_ok, check_files, config, number, with_mock};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

const GOOD: &str = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;

/// How a server ends a connection on which a second request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has not read the request, which the kernel tells the client by a reset.
    Reset,
    /// It has read it, and says nothing.
    Silent,
}

fn answer(stream: &mut TcpStream) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}", GOOD.len());
    let _ = stream.write_all(format!("{head}\r\n\r\n{GOOD}").as_bytes());
}

/// Reads one request; gives its identifier.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut line, mut length, mut id) = (String::new(), 0, None);
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "x-request-id" => id = Some(value.trim().to_owned()),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    id
}

/// Answers `answers` requests on each connection and ends it when the next comes; tells what it read. Ends
/// with the test.
fn closing_server(answers: usize, end: impl Fn(usize) -> End + Send + 'static) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let (tell, end) = (tell.clone(), end(number));
            std::thread::spawn(move || serve(stream, answers, end, &tell));
        }
    });
    (url, told)
}

fn serve(mut stream: TcpStream, answers: usize, end: End, tell: &Sender<String>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..answers {
        let Some(id) = read_request(&mut reader) else { return };
        let _ = tell.send(id);
        answer(&mut stream);
    }
    match end {
        // The next request has come, and is left unread.
        End::Reset => {
            let _ = stream.peek(&mut [0]);
        }
        End::Silent => {
            if let Some(id) = read_request(&mut reader) {
                let _ = tell.send(id);
            }
        }
    }
}

fn plain(phases: &[&str]) -> String {
    config(phases).replace("streaming: true", "streaming: false")
}

fn kinds(run: &Run) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for record in run.records() {
        if let Some(kind) = record["error"]["type"].as_str() {
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    kinds
}

#[test]
fn a_request_whose_connection_ends_as_it_comes_is_sent_again_and_counted() {
    let end = |number: usize| if number.is_multiple_of(2) { End::Reset } else { End::Silent };
    let (url, told) = closing_server(3, end);
    let yaml = plain(&[
        "{name: closed, kind: profiling, type: concurrency, concurrency: 4, requests: 60}",
        "{name: open, kind: profiling, type: constant, rate: 200, requests: 40, seamless: true}",
    ]);
    let run = Run::new(&yaml);
    let output = run.run(&["--url", &url, "--no-server-metrics"]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!((number(&report, "/total/ok"), number(&report, "/total/failed")), (100, 0));
    let repeated = number(&report, "/total/repeated_on_stale_connection");
    assert!(repeated >= 15, "every fourth request on a connection ends it: {repeated}");
    let phases =
        [0, 1].map(|phase| number(&report, &format!("/phases/{phase}/repeated_on_stale_connection")));
    assert_eq!(phases.iter().sum::<u64>(), repeated);
    // The silent server has read some requests twice, under the name that they have.
    let mut read = BTreeMap::<String, u64>::new();
    for id in told.try_iter() {
        *read.entry(id).or_default() += 1;
    }
    assert_eq!(read.len(), 100);
    assert!(read.values().all(|times| *times <= 2));
    assert!(read.values().filter(|times| **times == 2).count() as u64 <= repeated);
    // A request is late once, and its latency began with the first try.
    assert_eq!(number(&report, "/total/lateness_ns/count"), 100);
}

#[test]
fn a_server_that_ends_every_connection_before_its_answer_fails_every_request() {
    let (url, told) = closing_server(0, |_| End::Silent);
    let run = Run::new(&plain(&["{name: profiling, type: concurrency, concurrency: 2, requests: 20}"]));
    let output = run.run(&["--url", &url, "--no-server-metrics"]);
    assert_eq!(output.status.code(), Some(1), "nothing succeeded");
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/repeated_on_stale_connection"), 0, "no connection was used before");
    assert_eq!(kinds(&run), BTreeMap::from([("ServerDisconnectedError".to_owned(), 20)]));
    assert_eq!(told.try_iter().count(), 20);
}

#[test]
fn connecting_to_nowhere_ends_by_the_timeout_for_every_one_of_many() {
    let (_listener, address, _fillers) = black_hole();
    let yaml = plain(&["{name: profiling, type: concurrency, concurrency: 200, requests: 1000}"])
        .replace("type: chat,", "type: chat, timeout: 0.2,");
    let run = Run::new(&yaml);
    let output = run.run(&["--url", &format!("http://{address}"), "--no-server-metrics"]);
    assert_eq!(output.status.code(), Some(1), "nothing succeeded");
    check_files(&run);
    assert_eq!(kinds(&run), BTreeMap::from([("TimeoutError".to_owned(), 1_000)]));
    for record in run.records() {
        let [began, ended] =
            ["/metadata/request_start_ns", "/metadata/request_end_ns"].map(|name| number(&record, name));
        assert!(ended - began >= 200_000_000, "it was cut {} ns after its start", ended - began);
    }
}

#[test]
fn nine_urls_share_four_connections_and_no_request_fails() {
    let servers: Vec<_> = (0..9).map(|_| closing_server(usize::MAX, |_| End::Silent)).collect();
    let urls: Vec<String> = servers.iter().map(|(url, _)| format!("'{url}'")).collect();
    let yaml = plain(&["{name: profiling, type: concurrency, concurrency: 4, requests: 90}"])
        .replace("url: 'http://127.0.0.1:1'", &format!("urls: [{}]", urls.join(", ")));
    let run = Run::new(&yaml);
    let arguments = ["--no-server-metrics", "--shards", "1"];
    let output = run.command(&arguments).env("AIPERF_HTTP_CONNECTION_LIMIT", "4").output().unwrap();
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!((number(&report, "/total/ok"), number(&report, "/total/failed")), (90, 0));
    for (url, told) in servers {
        assert_eq!(told.try_iter().count(), 10, "{url}");
    }
}

#[test]
fn a_server_that_is_down_is_not_tried_as_fast_as_it_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let yaml = plain(&["{name: profiling, type: concurrency, concurrency: 20, duration: 0.5}"]);
    let run = Run::new(&yaml);
    let arguments = ["--url", &format!("http://{address}"), "--no-server-metrics", "--shards", "1"];
    let output = run.run(&arguments);
    assert_eq!(output.status.code(), Some(1), "nothing succeeded");
    let report = check_files(&run);
    let failed = number(&report, "/total/failed");
    // One a millisecond, after those that were needed to know.
    assert!((64..=64 + 20 + 500 + 1).contains(&failed), "{failed} in half a second");
    assert!(kinds(&run).keys().eq(["ClientConnectorError"]), "{:?}", kinds(&run));
}

#[test]
fn the_start_of_a_closed_loop_and_the_peak_of_its_sends_are_in_the_report() {
    let run = Run::new(&config(&[
        "{name: burst, kind: profiling, type: concurrency, concurrency: 256, requests: 600}",
        "{name: even, kind: profiling, type: constant, rate: 200, duration: 0.5}",
    ]));
    let output = run.run(&["--mock", "--mock-ttft", "20ms", "--shards", "1"]);
    assert_ok(&output);
    let report = check_files(&run);
    let burst = &report["phases"][0];
    let start = |name: &str| number(burst, &format!("/start_spread/{name}"));
    assert_eq!(start("requests"), 256);
    assert_eq!(start("spread_ns"), start("last_ns") - start("first_ns"));
    let sending = number(burst, "/sending_end_ns") - number(burst, "/start_ns");
    assert!(start("last_ns") <= sending, "the first 256 of 600 left before the last");
    let peak = |phase: usize, name: &str| number(&report, &format!("/phases/{phase}/peak_sends/{name}"));
    assert_eq!(peak(0, "window_ns"), 100_000_000);
    assert!((1..=600).contains(&peak(0, "requests")));
    assert!((20..=100).contains(&peak(1, "requests")), "100 requests lie in six windows at most");
    assert_eq!(report["phases"][1].get("start_spread"), None::<&Value>, "an open loop has no start");
}

#[test]
fn the_server_has_as_many_requests_at_once_as_there_are_slots() {
    let run = Run::new(&config(&["{name: profiling, type: concurrency, concurrency: 400, requests: 800}"]));
    let log = run.directory.path().join("arrivals.log");
    // Long enough for the slowest machine to have sent them all.
    let arguments = ["--mock", "--mock-ttft", "3s", "--mock-itl", "0ms", "--mock-log", log.to_str().unwrap()];
    assert_ok(&run.run(&arguments));
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/ok"), 800);
    let text = std::fs::read_to_string(log).unwrap();
    let mut edges: Vec<(u64, i32)> = Vec::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        edges.push((columns[0].parse().unwrap(), 1));
        edges.push((columns[2].parse().unwrap(), -1));
    }
    // At one time an end comes before an arrival.
    edges.sort_unstable();
    let most = edges.iter().scan(0, |open, (_, edge)| {
        *open += edge;
        Some(*open)
    });
    assert_eq!(most.max(), Some(400));
}

#[test]
fn a_server_that_closes_idle_connections_at_the_moment_of_their_use_fails_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while read_request(&mut reader).is_some() {
                    answer(&mut stream);
                    // As long as it is from one request to the next.
                    stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
                }
            });
        }
    });
    let run = Run::new(&plain(&[
        "{name: before, kind: profiling, type: concurrency, concurrency: 5, requests: 20}",
        "{name: even, kind: profiling, type: constant, rate: 20, requests: 20}",
        "{name: after, kind: profiling, type: concurrency, concurrency: 5, requests: 20}",
    ]));
    let output = run.run(&["--url", &url, "--no-server-metrics"]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!(
        (number(&report, "/total/ok"), number(&report, "/total/failed")),
        (60, 0),
        "{:?}",
        kinds(&run)
    );
}

#[test]
fn a_proxy_of_the_environment_is_named_and_not_used() {
    let run = Run::new(&plain(&["{name: profiling, type: concurrency, concurrency: 2, requests: 10}"]));
    let nobody = "http://127.0.0.1:9";
    let output = run.command(&with_mock(&[])).envs([("http_proxy", nobody), ("ALL_PROXY", nobody)]).output();
    let output = output.unwrap();
    assert_ok(&output);
    assert_eq!(number(&check_files(&run), "/total/ok"), 10);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("note: proxies are not used (http_proxy, ALL_PROXY)"), "{said}");
}
