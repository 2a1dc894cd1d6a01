//! Many streams at once: client memory for each, processor time for each event, and how late events are
//! seen, with the server in a process of its own.
//!
//! `cargo bench --bench streams` opens 5,000 and 20,000 paced streams, one token a write, on one shard;
//! `-- --json` prints one JSON line for each. Without `--bench` (as under `cargo test`) it opens 100.
//!
//! The bench starts itself twice more for each scenario: as the server, and as the client, so that neither
//! the server's memory nor that of an earlier scenario is in the figures.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]

#[path = "support/logs.rs"]
mod logs;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/records.rs"]
mod records;
#[path = "support/run.rs"]
mod run;
#[path = "support/spread.rs"]
mod spread;

use logs::{arrivals, request_id};
use memory::resident_kib;
use phasor::mock::{Delay, Mock, MockOptions, Writes};
use phasor::run::cores::available;
use phasor::run::limits;
use phasor::shard::driver::Idle;
use phasor::time::Nanos;
use records::{records, time_ns};
use rlimit::Resource;
use run::{number, run};
use serde_json::{Value, json};
use spread::Spread;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Messages of a reply beside its tokens: role, finish, usage and `[DONE]`.
const EVENTS_BESIDES: u64 = 4;

/// Streams that each connection carries, one after the other. While the first goes on, connections are
/// still being made.
const ROUNDS: u64 = 2;

/// How often the sampler looks.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// Limit of open files that is asked for.
const DESCRIPTORS_MAX: u64 = 65_536;

/// Descriptors of the client that are no streams.
const DESCRIPTORS_BESIDES: u64 = 128;

/// Names of the processes of a scenario, on their command lines.
const SERVE: &str = "serve-streams";
const OPEN: &str = "open-streams";

#[derive(Clone, Copy, Debug)]
struct Scenario {
    streams: u64,
    tokens: u64,
    gap: Nanos,
}

/// Memory of the client in KiB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Before the run.
    before_kib: u64,
    /// When every stream was first seen open.
    open_kib: u64,
    /// The most while every stream was open: with the samples and records of those that had ended.
    most_kib: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        [SERVE, log, gap_ns, cpu] => serve(Path::new(log), Nanos(gap_ns.parse().unwrap()), cpu),
        [OPEN, address, streams, tokens, cpu, directory] => open(
            address.parse().unwrap(),
            streams.parse().unwrap(),
            tokens.parse().unwrap(),
            cpu.parse().unwrap(),
            Path::new(directory),
        ),
        flags => compare(flags.contains(&"--bench"), flags.contains(&"--json")),
    }
}

/// Streams that one process may open, once its limit of open files is as high as it can be made.
fn room() -> u64 {
    // Only a privileged process may do this; the processes of the scenarios inherit it.
    let _ = rlimit::setrlimit(Resource::NOFILE, DESCRIPTORS_MAX, DESCRIPTORS_MAX);
    let (_, hard) = rlimit::getrlimit(Resource::NOFILE).unwrap();
    // A run keeps room for a quarter more, whose connections are closing, and for its own files.
    hard.saturating_sub(DESCRIPTORS_BESIDES) / 5 * 4
}

/// Runs the scenarios and prints what they came to.
fn compare(full: bool, json: bool) {
    let scenario = |streams, tokens, gap| Scenario { streams, tokens, gap: Nanos::from_millis(gap) };
    let scenarios: &[Scenario] =
        if full { &[scenario(5_000, 25, 400), scenario(20_000, 25, 400)] } else { &[scenario(100, 25, 10)] };
    let room = room();
    let cores = available().unwrap();
    let mut last: Option<(Scenario, Memory)> = None;
    for &wanted in scenarios {
        let scenario = Scenario { streams: wanted.streams.min(room), ..wanted };
        if scenario.streams < wanted.streams && !json {
            println!(
                "\nthe limit of open files allows {room} streams (see `ulimit -Hn`), not {}",
                wanted.streams
            );
        }
        let memory = measure(scenario, cores[0], cores.get(1).copied(), json);
        if let Some((fewer, less)) = last
            && !json
        {
            let more_kib =
                (memory.open_kib - memory.before_kib) as f64 - (less.open_kib - less.before_kib) as f64;
            let kib = more_kib / (scenario.streams - fewer.streams) as f64;
            println!("  each stream beyond {}: {kib:.2} KiB", fewer.streams);
        }
        last = Some((scenario, memory));
    }
}

fn measure(scenario: Scenario, client: usize, server: Option<usize>, json: bool) -> Memory {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("arrivals.log");
    let server = server.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let mut serving = Process::start(&[SERVE, log.to_str().unwrap(), &scenario.gap.0.to_string(), &server]);
    let address = serving.line();
    let client = client.to_string();
    let (streams, tokens) = (scenario.streams.to_string(), scenario.tokens.to_string());
    let path = directory.path().to_str().unwrap();
    let mut opening = Process::start(&[OPEN, &address, &streams, &tokens, &client, path]);
    let line = opening.line();
    let memory: Value =
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the client ended without figures"));
    opening.end();
    serving.end();

    let report = std::fs::read(directory.path().join("client_report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let requests = number(&report, "/total/ok");
    assert_eq!(requests, scenario.streams * ROUNDS);
    let events = requests * (scenario.tokens + EVENTS_BESIDES);
    let span_ns = number(&report, "/phases/0/end_ns") - number(&report, "/phases/0/start_ns");
    let events_per_s = events as f64 * 1e9 / span_ns as f64;
    let cpu_us_per_event = number(&report, "/shards/0/cpu_time_ns") as f64 / 1e3 / events as f64;
    let (seen, pace) = lateness(&log, directory.path(), scenario);
    let memory = Memory {
        before_kib: number(&memory, "/before_kib"),
        open_kib: number(&memory, "/open_kib"),
        most_kib: number(&memory, "/most_kib"),
    };
    let kib_per_stream = (memory.open_kib - memory.before_kib) as f64 / scenario.streams as f64;
    if json {
        println!(
            "{}",
            json!({
                "bench": "streams",
                "scenario": format!("{streams} streams"),
                "streams": scenario.streams,
                "tokens": scenario.tokens,
                "gap_ns": scenario.gap.0,
                "resident_before_kib": memory.before_kib,
                "resident_open_kib": memory.open_kib,
                "resident_most_kib": memory.most_kib,
                "kib_per_stream": kib_per_stream,
                "events_per_s": events_per_s,
                "cpu_us_per_event": cpu_us_per_event,
                "seen_after_write_us": seen.json(),
                "behind_pace_us": pace.json(),
            })
        );
    } else {
        println!(
            "\n{streams} streams of {tokens} tokens, one every {} ms\n  \
             client memory {} KiB before, {} KiB with all open: {kib_per_stream:.2} KiB each ({} KiB after a round)\n  \
             {events_per_s:.0} events/s, {cpu_us_per_event:.2} us of CPU each\n  \
             seen after the server's write {seen}\n  last token behind its pace    {pace}",
            scenario.gap.as_millis_f64(),
            memory.before_kib,
            memory.open_kib,
            memory.most_kib,
        );
    }
    memory
}

/// How long after the server's last write the client saw the last token, and how far behind the pace it was
/// that the server was told to keep from the first token on.
fn lateness(log: &Path, directory: &Path, scenario: Scenario) -> (Spread, Spread) {
    let arrived = arrivals(log);
    let mut streams_on: HashMap<u64, u64> = HashMap::new();
    for arrival in arrived.values() {
        assert!(arrival.request < ROUNDS && arrival.at_ns <= arrival.last_byte_ns);
        *streams_on.entry(arrival.connection).or_default() += 1;
    }
    assert_eq!(streams_on.len() as u64, scenario.streams, "each stream slot keeps its connection");
    let both = records(directory, |record| {
        let metric = |name: &str| {
            let millis = record["metrics"][name]["value"].as_f64().unwrap();
            Nanos::from_secs_f64(millis / 1e3).0
        };
        let (first, last) = (metric("time_to_first_token"), metric("request_latency"));
        let seen_ns = time_ns(record, "request_start_ns") + last;
        let written_ns = arrived[&request_id(record)].last_byte_ns;
        let pace_ns = scenario.gap.0 * (scenario.tokens - 1);
        (
            seen_ns.cast_signed() - written_ns.cast_signed(),
            (last - first).cast_signed() - pace_ns.cast_signed(),
        )
    });
    let (seen, pace): (Vec<i64>, Vec<i64>) = both.into_iter().unzip();
    (Spread::of_ns(seen.into_iter()), Spread::of_ns(pace.into_iter()))
}

/// The server's process: serves until its input ends.
fn serve(log: &Path, gap: Nanos, cpu: &str) {
    limits::prepare(0, None).unwrap();
    let mock = Mock::start(MockOptions {
        // Streams that start together do not speak together.
        ttft: Delay::Uniform { low: Nanos::ZERO, high: gap },
        itl: Delay::Fixed(gap),
        writes: Writes::PerMessage,
        cpus: cpu.parse().into_iter().collect(),
        arrival_log: Some(log.to_owned()),
        ..MockOptions::default()
    })
    .unwrap();
    println!("{}", mock.address());
    let _ = std::io::stdin().read(&mut [0]);
    mock.stop().unwrap();
}

/// The client's process: prints its memory when the run is over.
fn open(address: SocketAddr, streams: u64, tokens: u64, cpu: usize, directory: &Path) {
    let yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  \
         endpoint: {{url: 'http://{address}/v1/chat/completions', type: chat, streaming: true}}\n  \
         dataset: {{type: synthetic, entries: 64, prompts: {{isl: 16, osl: {tokens}}}}}\n  \
         phases:\n    - {{name: profiling, type: concurrency, concurrency: {streams}, requests: {}}}\n",
        streams * ROUNDS
    );
    let before_kib = resident_kib();
    let over = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let over = Arc::clone(&over);
        move || sample(address, streams, &over)
    });
    run(&yaml, &[cpu], Some(Idle::Sleep), directory);
    over.store(true, Relaxed);
    let (open_kib, most_kib) =
        sampler.join().unwrap().unwrap_or_else(|| panic!("{streams} streams were never open at once"));
    println!("{}", json!({"before_kib": before_kib, "open_kib": open_kib, "most_kib": most_kib}));
}

/// The first and the most memory that this process had while the server was answering `streams` requests.
fn sample(address: SocketAddr, streams: u64, over: &AtomicBool) -> Option<(u64, u64)> {
    let mut seen: Option<(u64, u64)> = None;
    while !over.load(Relaxed) {
        if running(address) == Some(streams) {
            let now_kib = resident_kib();
            let (first, most) = seen.unwrap_or((now_kib, now_kib));
            seen = Some((first, most.max(now_kib)));
        }
        std::thread::sleep(SAMPLE_EVERY.min(Duration::from_millis(streams / 50 + 1)));
    }
    seen
}

/// Requests that the server is answering.
fn running(address: SocketAddr) -> Option<u64> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: mock\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let line = text.lines().find(|line| line.starts_with("vllm:num_requests_running"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// One of the processes of a scenario.
struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The next line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Ends its input and waits for it.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}
