//! Whether requests leave when they were planned: open loops of rising rate on one shard, by the client's
//! account and by the server's.
//!
//! `cargo bench --bench punctuality` prints, per rate and way of waiting, what was planned and delivered,
//! the client's lateness (planned to first byte handed to the kernel) and the server's (planned to last
//! byte of the request read); `-- --json` one JSON line for each. Both accounts must name the same requests,
//! in the same order on each connection, or it fails. Without `--bench` (as under `cargo test`) it runs with
//! tiny numbers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]

#[path = "support/logs.rs"]
mod logs;
#[path = "support/records.rs"]
mod records;
#[path = "support/run.rs"]
mod run;
#[path = "support/spread.rs"]
mod spread;

use logs::{Arrival, arrivals, request_id};
use phasor::mock::{Mock, MockOptions, Writes};
use phasor::run::cores::available;
use phasor::schedule::{Gaps, PacedArrivals, Share};
use phasor::shard::driver::Idle;
use phasor::time::Nanos;
use records::{records, time_ns};
use run::{number, run};
use serde_json::{Value, json};
use spread::Spread;
use std::collections::HashMap;

/// Requests in flight at most, so that a machine that cannot keep up runs out of nothing else; arrivals
/// beyond are dropped, and shown.
const IN_FLIGHT_MAX: u32 = 4_096;

/// Seed of the arrivals.
const SEED: u64 = 42;

/// An open loop.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    rate_per_s: u32,
    length: Nanos,
    idle: Idle,
}

/// A request by the client's account; times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug)]
struct Sent {
    id: String,
    planned_ns: u64,
    start_ns: u64,
}

/// What a scenario came to.
#[derive(Debug)]
struct Measured {
    /// Arrivals of the law before the end.
    planned: u64,
    delivered: u64,
    /// Arrivals that found the cap reached, or the phase over.
    dropped: u64,
    /// Per second, over the time in which they were sent.
    delivered_rate_per_s: f64,
    busy_share: Option<f64>,
    /// The client's own, in nanoseconds by name.
    lateness: Value,
    /// From the planned time to the server's reading of the last byte.
    server: Spread,
    /// From there to the server's last write.
    answering: Spread,
    connections: usize,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    let cores = available().unwrap();
    let (client, server) = (cores[0], cores.get(1).copied());
    let (rates, length, ways): (&[u32], Nanos, &[Idle]) = if full {
        (&[100, 1_000, 5_000, 20_000], Nanos::from_millis(3_000), &[Idle::Sleep, Idle::Spin])
    } else {
        (&[100, 1_000], Nanos::from_millis(300), &[Idle::Sleep])
    };
    if !json {
        println!(
            "client on core {client}, server on {}; lateness in us",
            server.map_or_else(|| "the same core".to_owned(), |core| format!("core {core}"))
        );
    }
    for &idle in ways {
        for &rate_per_s in rates {
            let scenario = Scenario { rate_per_s, length, idle };
            print(scenario, &measure(scenario, client, server), json);
        }
    }
}

fn measure(scenario: Scenario, client: usize, server: Option<usize>) -> Measured {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("arrivals.log");
    let mock = Mock::start(MockOptions {
        writes: Writes::Whole,
        cpus: server.into_iter().collect(),
        arrival_log: Some(log.clone()),
        ..MockOptions::default()
    })
    .unwrap();
    let Scenario { rate_per_s, length, idle } = scenario;
    let yaml = format!(
        "randomSeed: {SEED}\nbenchmark:\n  model: m\n  \
         endpoint: {{url: 'http://{}/v1/chat/completions', type: chat, streaming: true}}\n  \
         dataset: {{type: synthetic, entries: 64, prompts: {{isl: 16, osl: 4}}}}\n  \
         phases:\n    - {{name: profiling, type: poisson, rate: {rate_per_s}, concurrency: {IN_FLIGHT_MAX}, duration: {}}}\n",
        mock.address(),
        length.as_secs_f64()
    );
    let report = run(&yaml, &[client], Some(idle), directory.path());
    mock.stop().unwrap();

    let planned = PacedArrivals::steady(SEED, Gaps::Exponential, f64::from(rate_per_s), Share::new(0, 1))
        .take_while(|arrival| arrival.offset < length)
        .count();
    let delivered = number(&report, "/phases/0/sent");
    let sending = number(&report, "/phases/0/sending_end_ns") - number(&report, "/phases/0/start_ns");
    let arrived = arrivals(&log);
    let sent = records(directory.path(), |record| Sent {
        id: request_id(record),
        planned_ns: time_ns(record, "credit_issued_ns"),
        start_ns: time_ns(record, "request_start_ns"),
    });
    let connections = compare(&sent, &arrived);
    let between = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
    let offset = |sent: &Sent| between(sent.planned_ns, arrived[&sent.id].at_ns);
    let answering = |arrival: &Arrival| between(arrival.at_ns, arrival.last_byte_ns);
    Measured {
        planned: planned as u64,
        delivered,
        dropped: number(&report, "/phases/0/planned") - delivered,
        delivered_rate_per_s: delivered as f64 * 1e9 / sending as f64,
        busy_share: report.pointer("/shards/0/busy_share").and_then(Value::as_f64),
        lateness: report.pointer("/phases/0/lateness_ns").unwrap().clone(),
        server: Spread::of_ns(sent.iter().map(offset)),
        answering: Spread::of_ns(arrived.values().map(answering)),
        connections,
    }
}

/// Holds the two accounts against each other: the same requests, and on each connection the same order.
/// Gives the number of connections.
fn compare(sent: &[Sent], arrived: &HashMap<String, Arrival>) -> usize {
    assert_eq!(sent.len(), arrived.len(), "client and server count the same requests");
    let mut by_connection: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for one in sent {
        let arrival = arrived.get(&one.id).unwrap_or_else(|| panic!("the server never saw {}", one.id));
        by_connection.entry(arrival.connection).or_default().push((arrival.request, one.start_ns));
    }
    for (connection, requests) in &mut by_connection {
        requests.sort_unstable();
        let ordered = requests.is_sorted_by_key(|(_, start_ns)| *start_ns);
        assert!(ordered, "the server saw the requests of connection {connection} in another order");
        let numbered = (0..).zip(requests.iter()).all(|(number, (request, _))| number == *request);
        assert!(numbered, "a request of connection {connection} is missing");
    }
    by_connection.len()
}

fn print(scenario: Scenario, measured: &Measured, json: bool) {
    let Scenario { rate_per_s, idle, .. } = scenario;
    let Measured {
        planned,
        delivered,
        dropped,
        delivered_rate_per_s,
        busy_share,
        lateness,
        server,
        answering,
        connections,
    } = measured;
    if json {
        println!(
            "{}",
            json!({
                "bench": "punctuality",
                "scenario": format!("{rate_per_s}/s, {idle:?}"),
                "rate_per_s": rate_per_s,
                "planned": planned,
                "delivered": delivered,
                "dropped": dropped,
                "delivered_rate_per_s": delivered_rate_per_s,
                "busy_share": busy_share,
                "client_lateness_ns": lateness,
                "server_lateness_us": server.json(),
                "server_answering_us": answering.json(),
                "connections": connections,
            })
        );
        return;
    }
    println!(
        "\n{rate_per_s}/s, {idle:?}: {delivered} of {planned} planned, {dropped} dropped, {delivered_rate_per_s:.0}/s on {connections} connections, busy {:.0} %",
        busy_share.unwrap_or(f64::NAN) * 100.0
    );
    print!("  client              ");
    for name in ["p50", "p90", "p99", "p99_9", "max"] {
        print!(" {} {:9.1}", name.replace('_', "."), lateness[name].as_u64().unwrap() as f64 / 1e3);
    }
    println!("\n  server{server}\n  its answer{answering}");
}
