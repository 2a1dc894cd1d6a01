//! What reading the server's metrics costs the load: the same open loop with and without a page every tenth
//! of a second, in turn.
//!
//! `cargo bench --bench scraping` prints the client's lateness and the shard's CPU per request for each
//! round and the medians; `-- --json` one JSON line. Without `--bench` (as under `cargo test`) it runs with
//! tiny numbers. It fails when pages were not read at that pace.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]

#[path = "support/run.rs"]
mod run;

use phasor::mock::{Mock, MockOptions, Writes};
use phasor::run::cores::available;
use phasor::run::telemetry::TelemetrySettings;
use phasor::shard::driver::Idle;
use phasor::time::Nanos;
use run::{number, run, run_reading};
use serde_json::{Value, json};

/// Between two pages.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// What one round came to.
#[derive(Clone, Copy, Debug)]
struct Round {
    lateness_p50_us: f64,
    lateness_p99_us: f64,
    cpu_us_per_request: f64,
    pages: u64,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    // Half of the pages that the interval allows for must have come.
    let (rate, seconds, rounds, least) = if full { (2_000, 5.0, 7, 25) } else { (200, 0.5, 1, 3) };
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..rounds {
        without.push(round(rate, seconds, None));
        let settings = TelemetrySettings { server_interval: INTERVAL, ..TelemetrySettings::default() };
        with.push(round(rate, seconds, Some(settings)));
    }
    assert!(with.iter().all(|round| round.pages >= least), "fewer than {least} pages were read: {with:?}");
    if json {
        println!("{}", json!({ "without": medians(&without), "with": medians(&with) }));
        return;
    }
    println!("{rate} requests/s on one shard, {seconds} s, {rounds} rounds each, medians");
    for (name, rounds) in [("nothing read", &without), ("a page every 100 ms", &with)] {
        let Value::Object(medians) = medians(rounds) else { continue };
        println!("{name:>22}: {}", Value::Object(medians));
    }
}

fn round(rate: u32, seconds: f64, telemetry: Option<TelemetrySettings>) -> Round {
    let directory = tempfile::tempdir().unwrap();
    let cores = available().unwrap();
    let server = cores.get(1).copied();
    let mock = Mock::start(MockOptions {
        writes: Writes::Whole,
        cpus: server.into_iter().collect(),
        ..MockOptions::default()
    })
    .unwrap();
    let yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  endpoint: {{url: 'http://{}/v1/chat/completions', type: chat, \
         streaming: true}}\n  dataset: {{type: synthetic, entries: 64, prompts: {{isl: 16, osl: 4}}}}\n  \
         phases:\n    - {{name: load, kind: profiling, type: poisson, rate: {rate}, concurrency: 1024, duration: {seconds}}}\n",
        mock.address()
    );
    let reads = telemetry.is_some();
    let idle = Some(Idle::Sleep);
    let report = match telemetry {
        None => run(&yaml, &cores[..1], idle, directory.path()),
        Some(settings) => run_reading(&yaml, &cores[..1], idle, directory.path(), settings),
    };
    let pages = if reads {
        let text = std::fs::read(directory.path().join("telemetry_report.json")).unwrap();
        number(&serde_json::from_slice(&text).unwrap(), "/servers/0/fetches")
    } else {
        0
    };
    let micros = |pointer: &str| number(&report, pointer) as f64 / 1e3;
    Round {
        lateness_p50_us: micros("/phases/0/lateness_ns/p50"),
        lateness_p99_us: micros("/phases/0/lateness_ns/p99"),
        cpu_us_per_request: micros("/phases/0/shards/0/cpu_time_ns")
            / number(&report, "/phases/0/sent") as f64,
        pages,
    }
}

fn medians(rounds: &[Round]) -> Value {
    let median = |of: fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    json!({
        "lateness_p50_us": median(|round| round.lateness_p50_us),
        "lateness_p99_us": median(|round| round.lateness_p99_us),
        "cpu_us_per_request": median(|round| round.cpu_us_per_request),
        "pages": median(|round| round.pages as f64),
    })
}
