//! Whole workflows over real sockets, held against what the server saw: hand-overs, stragglers, cuts, many
//! phases, cancellations that the server must notice, replies of every sort.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use phasor::mock::{Delay, Faults, Mock, MockOptions};
use phasor::time::Nanos;
use program::{Run, assert_ok, check_files, config, number};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Output;

fn millis(millis: u64) -> Delay {
    Delay::Fixed(Nanos::from_millis(millis))
}

/// One line of the server's log: what it saw of a request.
#[derive(Debug)]
struct Arrival {
    at_ns: u64,
    connection: u64,
    id: String,
    outcome: String,
}

/// A server in this process and a run against it; the log has what was seen, by request id.
fn against(options: MockOptions, yaml: &str, arguments: &[&str]) -> (Run, Output, Vec<Arrival>, u64) {
    let run = Run::new(yaml);
    let log = run.directory.path().join("arrivals.log");
    let mock = Mock::start(MockOptions { arrival_log: Some(log.clone()), ..options }).unwrap();
    let url = format!("http://{}", mock.address());
    let mut all = vec!["--url", &url];
    all.extend_from_slice(arguments);
    let output = run.run(&all);
    let left = mock.cancelled();
    mock.stop().unwrap();
    let arrivals = read_log(&log);
    (run, output, arrivals, left)
}

fn read_log(path: &Path) -> Vec<Arrival> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("arrival_ns\t"));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            Arrival {
                at_ns: columns[0].parse().unwrap(),
                connection: columns[3].parse().unwrap(),
                id: columns[5].to_owned(),
                outcome: columns[6].to_owned(),
            }
        })
        .collect()
}

/// Requests per phase, as the records name them, that the server saw.
fn seen_by_phase(run: &Run, arrivals: &[Arrival]) -> BTreeMap<String, u64> {
    let phases: HashMap<String, String> = run
        .records()
        .iter()
        .map(|record| {
            let text = |name: &str| record["metadata"][name].as_str().unwrap().to_owned();
            (text("x_request_id"), text("phase_name"))
        })
        .collect();
    let mut seen = BTreeMap::new();
    for arrival in arrivals {
        *seen.entry(phases.get(&arrival.id).cloned().unwrap_or_default()).or_default() += 1;
    }
    seen
}

fn notices(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("Phase ")).map(str::to_owned).collect()
}

fn at<'v>(report: &'v Value, phase: usize, name: &str) -> &'v Value {
    &report["phases"][phase][name]
}

#[test]
fn each_type_of_phase_sends_what_the_server_sees_in_the_order_of_the_plan() {
    // A row every 5 ms: the schedule goes by it, the other types take its conversations in turn.
    let rows: Vec<String> = (0..40)
        .map(|row| {
            format!(
                "      - {{session_id: s{row}, turns: [{{text: 'row {row}', timestamp: {}}}]}}\n",
                1_000 + 5 * row
            )
        })
        .collect();
    let yaml = format!(
        "randomSeed: 42\n{}",
        config(&[
            "{name: warmup, type: constant, rate: 200, requests: 20}",
            "{name: closed, kind: profiling, type: concurrency, concurrency: 4, requests: 40, concurrencyRamp: 0.1}",
            "{name: even, kind: profiling, type: constant, rate: 300, duration: 0.3}",
            "{name: random, kind: profiling, type: poisson, rate: 300, duration: 0.3, seamless: true}",
            "{name: bursts, kind: profiling, type: gamma, rate: 300, smoothness: 0.5, requests: 80}",
            "{name: rising, kind: profiling, type: poisson, rate: 400, rateRamp: 0.2, duration: 0.3}",
            "{name: people, kind: profiling, type: user_centric, users: 5, rate: 100, sessions: 30}",
            "{name: replay, kind: profiling, type: fixed_schedule}",
        ])
    );
    let synthetic = "dataset: {type: synthetic, entries: 20, prompts: {isl: 16, osl: 8}}";
    assert!(yaml.contains(synthetic));
    let trace = format!("dataset:\n    type: file\n    format: multi_turn\n    records:\n{}", rows.concat());
    let yaml = yaml.replace(synthetic, trace.trim_end());
    let options = MockOptions { ttft: millis(2), ..MockOptions::default() };
    let (run, output, mut arrivals, _) = against(options, &yaml, &["--tokenizer", "builtin"]);
    assert_ok(&output);
    let report = check_files(&run);
    let seen = seen_by_phase(&run, &arrivals);
    for phase in report["phases"].as_array().unwrap() {
        assert_eq!(seen[phase["phase_name"].as_str().unwrap()], number(phase, "/sent"), "{phase}");
    }
    assert_eq!(number(&report, "/phases/0/sent"), 20);
    assert_eq!(number(&report, "/phases/1/sent"), 40);
    assert_eq!(number(&report, "/phases/2/sent"), 90, "300 per second for 0.3 s");
    assert_eq!(number(&report, "/phases/4/sent"), 80);
    assert_eq!(number(&report, "/phases/6/sent"), 30);
    assert_eq!(number(&report, "/phases/7/sent"), 40, "every row of the trace once");
    check_schedules(&run, &arrivals);
    assert_eq!(number(&report, "/total/failed"), 0);
    // What went over one connection arrived in the order in which it was planned.
    let numbers: HashMap<String, u64> = run
        .records()
        .iter()
        .map(|record| {
            (
                record["metadata"]["x_request_id"].as_str().unwrap().to_owned(),
                number(record, "/metadata/credit_issued_ns"),
            )
        })
        .collect();
    arrivals.sort_by_key(|arrival| (arrival.connection, arrival.at_ns));
    for pair in arrivals.windows(2).filter(|pair| pair[0].connection == pair[1].connection) {
        assert!(numbers[&pair[0].id] <= numbers[&pair[1].id], "{pair:?}");
    }
}

/// Rows of the trace go when it says, users when their turn comes, and the server sees none before.
fn check_schedules(run: &Run, arrivals: &[Arrival]) {
    let seen: HashMap<&str, u64> =
        arrivals.iter().map(|arrival| (arrival.id.as_str(), arrival.at_ns)).collect();
    let planned = |name: &str| -> Vec<u64> {
        let mut records = run.records();
        records.retain(|record| record["metadata"]["phase_name"] == name);
        let mut planned: Vec<u64> = records
            .iter()
            .map(|record| {
                let planned = number(record, "/metadata/credit_issued_ns");
                let seen = seen[record["metadata"]["x_request_id"].as_str().unwrap()];
                assert!(seen >= planned, "{name}: the server saw it {} ns too early", planned - seen);
                planned
            })
            .collect();
        planned.sort_unstable();
        planned
    };
    let replay = planned("replay");
    let offsets: Vec<u64> = replay.iter().map(|at| (at - replay[0] + 500_000) / 1_000_000).collect();
    assert_eq!(offsets, (0..40).map(|row| 5 * row).collect::<Vec<u64>>(), "milliseconds of the trace");
    let people = planned("people");
    let gaps: Vec<u64> = people.windows(2).map(|pair| (pair[1] - pair[0] + 500_000) / 1_000_000).collect();
    assert!(gaps.iter().all(|gap| *gap == 10), "a hundred a second, user after user: {gaps:?}");
}

#[test]
fn two_hundred_phases_run_in_one_workflow_and_each_tells_its_own() {
    let phases: Vec<String> = (0..200)
        .map(|index| match index % 4 {
            0 => format!("{{name: p{index}, kind: warmup, type: concurrency, concurrency: 2, requests: 4}}"),
            1 => format!("{{name: p{index}, kind: profiling, type: poisson, rate: 2000, requests: 5, seamless: true}}"),
            2 => format!("{{name: p{index}, kind: profiling, type: constant, rate: 2000, concurrency: 3, duration: 0.004}}"),
            _ => format!("{{name: p{index}, kind: profiling, type: concurrency, concurrency: 3, requests: 6, cancellation: {{rate: 50, delay: 0}}}}"),
        })
        .collect();
    let phases: Vec<&str> = phases.iter().map(String::as_str).collect();
    let (run, output, arrivals, _) = against(MockOptions::default(), &config(&phases), &[]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!(report["phases"].as_array().unwrap().len(), 200);
    assert_eq!(run.json("phase_manifest.json")["phases"].as_array().unwrap().len(), 200);
    let sent = number(&report, "/total/sent");
    assert_eq!(arrivals.len() as u64, sent);
    let seen = seen_by_phase(&run, &arrivals);
    for phase in report["phases"].as_array().unwrap() {
        let name = phase["phase_name"].as_str().unwrap();
        assert_eq!(seen.get(name).copied().unwrap_or(0), number(phase, "/sent"), "{name}");
        assert!(run.path(&format!("phases/{name}/profile_export_aiperf.json")).exists(), "{name}");
    }
    assert!(at(&report, 0, "boundary_gap_ns").is_null());
    for phase in 1..200 {
        // Every phase p1, p5, ... is seamless.
        let edge = if phase % 4 == 1 { "sending_end_ns" } else { "end_ns" };
        let (free, start) = (at(&report, phase - 1, edge), at(&report, phase, "start_ns"));
        let gap = start.as_u64().unwrap() - free.as_u64().unwrap();
        assert_eq!(at(&report, phase, "boundary_gap_ns").as_u64(), Some(gap), "phase {phase}");
    }
    let told = notices(&output);
    for edge in ["started", "sending complete", " complete | completed="] {
        assert_eq!(told.iter().filter(|line| line.contains(edge)).count(), 200, "{edge}");
    }
}

#[test]
fn stragglers_of_a_storm_end_inside_the_next_phase_and_count_for_their_own() {
    let yaml = config(&[
        "{name: storm, kind: profiling, type: concurrency, concurrency: 20, duration: 0.2, grace_period: 5, cancellation: {rate: 30, delay: 0}}",
        "{name: calm, kind: profiling, type: concurrency, concurrency: 5, requests: 10, seamless: true}",
    ]);
    // Longer than the storm, so that every request that is not cancelled is a straggler.
    let options = MockOptions { ttft: millis(300), ..MockOptions::default() };
    let (run, output, arrivals, left) = against(options, &yaml, &[]);
    assert_ok(&output);
    let report = check_files(&run);
    let count = |phase: usize, name: &str| at(&report, phase, name).as_u64().unwrap();
    assert!(count(0, "ok") > 5, "{report}");
    assert_eq!(count(0, "abandoned") + count(0, "failed"), 0);
    assert_eq!(count(1, "ok"), 10);
    assert_eq!(left, count(0, "cancelled"), "the server saw each cancelled client leave");
    assert_eq!(arrivals.iter().filter(|arrival| arrival.outcome == "cancelled").count() as u64, left);
    let ends = |name: &str| -> Vec<u64> {
        let of = |record: &&Value| record["metadata"]["phase_name"] == name;
        run.records().iter().filter(of).map(|record| number(record, "/metadata/request_end_ns")).collect()
    };
    let calm_began = number(&report, "/phases/1/start_ns");
    assert!(ends("storm").iter().any(|end| *end > calm_began), "nothing overlapped");
    let storm = notices(&output).into_iter().find(|line| line.starts_with("Phase storm (profiling) sending"));
    let storm = storm.unwrap();
    assert!(!storm.contains("in_flight=0"), "{storm}");
}

#[test]
fn what_grace_cuts_is_counted_as_such_and_the_phases_behind_run_on() {
    let grace = |name: &str| {
        format!(
            "{{name: {name}, kind: profiling, type: concurrency, concurrency: 5, duration: 0.15, grace_period: 0.1}}"
        )
    };
    let phases = ["one", "two", "three"].map(grace);
    let phases: Vec<&str> = phases.iter().map(String::as_str).collect();
    let faults = Faults { hang_percent: 10.0, ..Faults::default() };
    let options = MockOptions { ttft: millis(3), faults, ..MockOptions::default() };
    let (run, output, _, _) = against(options, &config(&phases), &[]);
    assert_ok(&output);
    let report = check_files(&run);
    for phase in report["phases"].as_array().unwrap() {
        assert!(number(phase, "/ok") > 0, "{phase}");
        assert_eq!(number(phase, "/failed"), 0, "{phase}");
    }
    assert!(number(&report, "/total/abandoned") > 0);
    let told = notices(&output).join("\n");
    assert!(told.contains("Phase three (profiling) complete"), "{told}");
}

#[test]
fn a_drain_ends_with_its_last_reply_and_not_with_its_grace() {
    let phase = "{name: profiling, type: concurrency, concurrency: 3, duration: 0.1, grace_period: 600}";
    let options = MockOptions { ttft: millis(20), ..MockOptions::default() };
    let (run, output, _, _) = against(options, &config(&[phase]), &[]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/abandoned"), 0);
    let took = number(&report, "/phases/0/end_ns") - number(&report, "/phases/0/start_ns");
    assert!(took < 300_000_000_000, "it waited for its grace: {took} ns");
}

#[test]
fn a_rate_that_the_server_does_not_answer_ends_with_its_phase() {
    let phase =
        "{name: profiling, type: poisson, rate: 20000, concurrency: 50, duration: 0.2, grace_period: 0}";
    let faults = Faults { hang_percent: 100.0, ..Faults::default() };
    let (run, output, _, _) =
        against(MockOptions { faults, ..MockOptions::default() }, &config(&[phase]), &[]);
    assert_eq!(output.status.code(), Some(1), "nothing succeeded");
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/sent"), 50);
    assert_eq!(number(&report, "/total/abandoned"), 50);
    assert!(number(&report, "/phases/0/dropped/at_capacity") > 1_000);
}

/// Answers each request on each connection with the next of `answers`, round and round, and says what it
/// read. Ends with the test.
fn scripted(listener: TcpListener, answers: Vec<String>) -> std::sync::mpsc::Receiver<String> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut next = answers.into_iter().cycle();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            loop {
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        break;
                    }
                    let lower = line.to_ascii_lowercase();
                    if let Some(value) = lower.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    let blank = line == "\r\n";
                    head += &line;
                    if blank {
                        break;
                    }
                }
                if head.is_empty() {
                    break;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let _ = tell.send(head);
                let answer = next.next().unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                if answer.contains("Connection: close") {
                    break;
                }
            }
        }
    });
    told
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

const GOOD: &str = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;

#[test]
fn replies_of_every_status_are_counted_by_it_and_the_load_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let good = answer("200 OK", "Content-Type: application/json\r\n", GOOD);
    let answers = vec![
        good.clone(),
        answer("429 Too Many Requests", "Retry-After: 1\r\n", "{\"error\":{\"message\":\"slow down\"}}"),
        good.clone(),
        answer("502 Bad Gateway", "Content-Type: text/html\r\n", "<html><h1>Bad Gateway</h1></html>"),
        answer("307 Temporary Redirect", "Location: http://127.0.0.1:1/\r\n", ""),
        good,
        answer("503 Service Unavailable", "Connection: close\r\n", ""),
    ];
    let told = scripted(listener, answers);
    let yaml = config(&["{name: profiling, type: concurrency, concurrency: 1, requests: 70}"])
        .replace("streaming: true", "streaming: false");
    let run = Run::new(&yaml);
    let output = run.run(&["--url", &url, "--no-server-metrics"]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!((number(&report, "/total/ok"), number(&report, "/total/failed")), (30, 40));
    let mut codes = BTreeMap::<u64, u64>::new();
    for record in run.records() {
        if let Some(code) = record["error"]["code"].as_u64() {
            *codes.entry(code).or_default() += 1;
        }
    }
    assert_eq!(codes, BTreeMap::from([(307, 10), (429, 10), (502, 10), (503, 10)]));
    assert_eq!(told.try_iter().count(), 70, "a redirect was followed or a request repeated");
}

#[test]
fn a_literal_of_ipv6_keeps_its_brackets_and_each_url_its_own_host() {
    let Ok(six) = TcpListener::bind("[::1]:0") else {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let four = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses: Vec<SocketAddr> =
        [&six, &four].map(|listener| listener.local_addr().unwrap()).into_iter().collect();
    let good = || vec![answer("200 OK", "Content-Type: application/json\r\n", GOOD)];
    let heads = [scripted(six, good()), scripted(four, good())];
    let urls = format!("urls: ['http://{}', 'http://{}']", addresses[0], addresses[1]);
    let yaml = config(&["{name: profiling, type: concurrency, concurrency: 1, requests: 20}"])
        .replace("streaming: true", "streaming: false")
        .replace("url: 'http://127.0.0.1:1'", &urls);
    let run = Run::new(&yaml);
    // Nobody asked for the proxy: the load goes where the config says.
    let output =
        run.command(&["--no-server-metrics"]).env("http_proxy", "http://127.0.0.1:1").output().unwrap();
    assert_ok(&output);
    for (heads, address) in heads.iter().zip(addresses) {
        let heads: Vec<String> = heads.try_iter().collect();
        assert_eq!(heads.len(), 10);
        let host = format!("host: {address}\r\n");
        assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains(&host)), "{heads:?}");
    }
}

#[test]
fn a_connection_that_the_server_closes_while_idle_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // The server closes after each reply without having said so.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_ok() {
                let good = answer("200 OK", "Content-Type: application/json\r\n", GOOD);
                let _ = stream.write_all(good.as_bytes());
            }
        }
    });
    // Ten requests per second: between two of them the end of the connection has long arrived.
    let yaml = config(&["{name: profiling, type: constant, rate: 10, requests: 6}"])
        .replace("streaming: true", "streaming: false");
    let run = Run::new(&yaml);
    let output = run.run(&["--url", &url, "--no-server-metrics"]);
    assert_ok(&output);
    let report = check_files(&run);
    assert_eq!((number(&report, "/total/ok"), number(&report, "/total/failed")), (6, 0));
}
