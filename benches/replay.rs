//! What a reply costs the client beside the kernel: recorded streams through `wire` alone, and through the
//! whole engine to the tally and the records. No socket, no thread, virtual time.
//!
//! `cargo bench --bench replay` prints medians over rounds; `-- --json` one JSON line for each scenario,
//! `-- --scenario TEXT` only those whose name has the text. `-- --instructions N --part wire|engine` runs N
//! replies of each scenario once and prints how many events they had: `benches/instructions.sh` counts its
//! instructions. Without `--bench` (as under `cargo test`) it runs once with tiny numbers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]

#[path = "support/feeder.rs"]
mod feeder;
#[path = "support/process.rs"]
mod process;
#[path = "support/recorded.rs"]
mod recorded;

use feeder::{Digest, Feeder};
use phasor::wire::{Progress, ReplyDecoder};
use process::thread_cpu_ns;
use recorded::{Reply, Split, Text};
use std::collections::HashMap;

/// Connections that replies come in on, in turn.
const CONNECTIONS: usize = 64;

/// Exact samples kept per metric, as one shard of a run keeps them.
const SAMPLES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Scenario {
    text: Text,
    tokens: u32,
    split: Split,
}

const SCENARIOS: [Scenario; 10] = [
    Scenario { text: Text::Plain, tokens: 32, split: Split::Whole },
    Scenario { text: Text::Plain, tokens: 32, split: Split::PerMessage },
    Scenario { text: Text::Plain, tokens: 32, split: Split::Random },
    Scenario { text: Text::Plain, tokens: 128, split: Split::Whole },
    Scenario { text: Text::Plain, tokens: 128, split: Split::PerMessage },
    Scenario { text: Text::Plain, tokens: 128, split: Split::Random },
    Scenario { text: Text::Escapes, tokens: 32, split: Split::PerMessage },
    Scenario { text: Text::Escapes, tokens: 32, split: Split::Random },
    Scenario { text: Text::Reasoning, tokens: 32, split: Split::PerMessage },
    Scenario { text: Text::Reasoning, tokens: 32, split: Split::Random },
];

impl Scenario {
    fn name(self) -> String {
        let text = match self.text {
            Text::Escapes => "escapes",
            Text::Plain => "plain",
            Text::Reasoning => "reasoning",
        };
        let split = match self.split {
            Split::PerMessage => "one message a read",
            Split::Random => "cut anywhere",
            Split::Whole => "one read",
        };
        format!("{text}, {} tokens, {split}", self.tokens)
    }

    fn replies(self) -> Vec<Reply> {
        Reply::recording(self.text, self.tokens, self.split)
    }
}

/// What some replies came to.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    requests: u64,
    events: u64,
    cpu_ns: u64,
    hash: u64,
}

impl Work {
    fn ns_per_event(&self) -> f64 {
        self.cpu_ns as f64 / self.events.max(1) as f64
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let value = |flag: &str| {
        let position = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(position + 1).cloned()
    };
    let wanted = value("--scenario").unwrap_or_default();
    let scenarios = SCENARIOS.into_iter().filter(|scenario| scenario.name().contains(&wanted));
    if let Some(replies) = value("--instructions") {
        let replies: u64 = replies.parse().unwrap();
        scenarios.for_each(|scenario| count(scenario, replies, value("--part").as_deref()));
        return;
    }
    let (rounds, events) = if has("--bench") { (5, 150_000) } else { (1, 4_000) };
    let json = has("--json");
    if !json {
        println!("{rounds} rounds of {events} events; medians of the thread's CPU time\n");
        println!(
            "{:42} {:>10} {:>11} {:>12} {:>11} {:>8}  hash",
            "", "wire", "engine", "engine", "engine", "engine"
        );
        println!(
            "{:42} {:>10} {:>11} {:>12} {:>11} {:>8}",
            "", "ns/event", "ns/event", "ns/request", "events/s", "MB/s"
        );
    }
    // However the bytes are cut, the decoder must find the same.
    let mut found = HashMap::new();
    for scenario in scenarios {
        let hash = measure(scenario, rounds, events, json);
        let first = *found.entry((scenario.text as u8, scenario.tokens)).or_insert(hash);
        assert_eq!(hash, first, "{}: another reading than of the first split", scenario.name());
    }
}

/// Measures and prints a scenario; gives the hash of what `wire` found in one round.
fn measure(scenario: Scenario, rounds: usize, events: u64, json: bool) -> u64 {
    let replies = scenario.replies();
    let per_reply = through_wire(&replies, &mut decoders(), 1).events;
    let requests = events / per_reply;
    let mut decoders = decoders();
    through_wire(&replies, &mut decoders, requests / 4 + 1);
    let wire: Vec<Work> = (0..rounds).map(|_| through_wire(&replies, &mut decoders, requests)).collect();

    let mut feeder = Feeder::new(&phase(), &replies, SAMPLES_MAX);
    feeder.hold_to(CONNECTIONS);
    let mut done = feeder.run_to(requests / 4 + 1);
    let mut engine = Vec::new();
    for _ in 0..rounds {
        let before = thread_cpu_ns();
        let after = feeder.run_to(done + requests);
        let cpu_ns = thread_cpu_ns() - before;
        engine.push(Work { requests: after - done, events: (after - done) * per_reply, cpu_ns, hash: 0 });
        done = after;
    }
    let (tally, hash) = feeder.finish();
    assert!(tally.counts().ok >= done && tally.counts().failed == 0);

    let bytes: usize =
        replies.iter().map(|reply| (0..reply.reads()).map(|at| reply.read(at).len()).sum::<usize>()).sum();
    let bytes_per_event = bytes as f64 / replies.len() as f64 / per_reply as f64;
    let wire_ns = median(&wire);
    let engine_ns = median(&engine);
    let per_request = engine_ns * per_reply as f64;
    let (events_per_s, mb_per_s) = (1e9 / engine_ns, bytes_per_event * 1e3 / engine_ns);
    if json {
        println!(
            "{}",
            serde_json::json!({
                "bench": "replay",
                "scenario": scenario.name(),
                "events_per_request": per_reply,
                "wire_ns_per_event": wire_ns,
                "engine_ns_per_event": engine_ns,
                "engine_ns_per_request": per_request,
                "engine_events_per_s": events_per_s,
                "engine_mb_per_s": mb_per_s,
                "hash": format!("{hash:016x}"),
            })
        );
    } else {
        println!(
            "{:42} {wire_ns:10.1} {engine_ns:11.1} {per_request:12.0} {events_per_s:11.0} {mb_per_s:8.0}  {hash:016x}",
            scenario.name()
        );
    }
    wire[0].hash
}

/// Runs `replies` replies of a scenario once through one part, for a counter of instructions.
fn count(scenario: Scenario, replies: u64, part: Option<&str>) {
    let recording = scenario.replies();
    let per_reply = through_wire(&recording, &mut decoders(), 1).events;
    let work = match part {
        Some("engine") => {
            let mut feeder = Feeder::new(&phase(), &recording, SAMPLES_MAX);
            let done = feeder.run_to(replies);
            let (_, hash) = feeder.finish();
            Work { requests: done, events: done * per_reply, cpu_ns: 0, hash }
        }
        Some("wire") => through_wire(&recording, &mut decoders(), replies),
        other => panic!("--part is wire or engine, not {other:?}"),
    };
    println!(
        "{}",
        serde_json::json!({
            "bench": "replay",
            "scenario": scenario.name(),
            "part": part,
            "requests": work.requests,
            "events": work.events,
            "hash": format!("{:016x}", work.hash),
        })
    );
}

fn phase() -> String {
    format!("type: concurrency, concurrency: {CONNECTIONS}, duration: 36000")
}

fn decoders() -> Vec<ReplyDecoder> {
    (0..CONNECTIONS).map(|_| ReplyDecoder::default()).collect()
}

/// `requests` replies through the decoders in turn.
fn through_wire(replies: &[Reply], decoders: &mut [ReplyDecoder], requests: u64) -> Work {
    let before = thread_cpu_ns();
    let mut digest = Digest::default();
    let mut events = 0;
    let recording = replies.iter().cycle();
    for ((_, reply), at) in (0..requests).zip(recording).zip((0..decoders.len()).cycle()) {
        let decoder = &mut decoders[at];
        decoder.reset();
        let (mut messages, mut contents, mut outputs, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut whole = false;
        for index in 0..reply.reads() {
            let fed = decoder.feed(reply.read(index));
            messages += u64::from(fed.messages);
            contents += u64::from(fed.contents);
            outputs += u64::from(fed.outputs);
            bytes += fed.body_bytes as u64;
            whole = matches!(fed.progress, Progress::Complete { reusable: true });
        }
        assert!(whole);
        let tokens = decoder.usage().unwrap().completion_tokens.unwrap();
        for number in [messages, contents, outputs, bytes, tokens] {
            digest.take(number);
        }
        events += messages;
    }
    Work { requests, events, cpu_ns: thread_cpu_ns() - before, hash: digest.0 }
}

fn median(all: &[Work]) -> f64 {
    let mut figures: Vec<f64> = all.iter().map(Work::ns_per_event).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
