//! How much of a core the client costs: phasor, a bare io_uring loop and (where installed) wrk, against the
//! same built-in server, in turn, several times.
//!
//! `cargo bench --bench ceiling` prints medians; `-- --json` one JSON line for each scenario; `-- --tls` holds
//! phasor over TLS against phasor over plain HTTP instead. Without
//! `--bench` on its command line (as under `cargo test`) it runs once with tiny numbers, to prove that it
//! still works.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

#[path = "ceiling/bare.rs"]
mod bare;
#[path = "support/run.rs"]
mod run;

use phasor::config;
use phasor::mock::{Delay, Mock, MockOptions, Speaks, Writes};
use phasor::run::cores::available;
use phasor::run::tls::TlsOptions;
use phasor::shard::driver::Idle;
use phasor::time::Nanos;
use run::{number, run_over};
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// Words of a prompt: about 2 kB of text.
const PROMPT_WORDS: u32 = 350;

struct Scenario {
    name: &'static str,
    connections: u32,
    tokens: u32,
    writes: Writes,
    gap: Nanos,
    /// wrk has no pace of its own and fits only the first scenario.
    wrk: bool,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    requests: u64,
    events: u64,
    cpu_ns: u64,
    wall: Duration,
}

impl Measured {
    fn cpu_us_per_request(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.requests.max(1) as f64
    }
    fn cpu_us_per_event(&self) -> f64 {
        self.cpu_ns as f64 / 1e3 / self.events.max(1) as f64
    }
    fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    let (rounds, seconds) = if full { (5, 3) } else { (1, 1) };
    let scenarios = [
        Scenario {
            name: "reply in one write",
            connections: 64,
            tokens: 32,
            writes: Writes::Whole,
            gap: Nanos::ZERO,
            wrk: true,
        },
        Scenario {
            name: "one token per write",
            connections: if full { 4_000 } else { 100 },
            tokens: 25,
            writes: Writes::PerMessage,
            gap: Nanos::from_millis(if full { 40 } else { 5 }),
            wrk: false,
        },
    ];
    let cores = available().unwrap();
    let (client, server) = (cores[0], cores.get(1).copied());
    if !json {
        println!(
            "client on core {client}, server on {}",
            server.map_or_else(|| "the same core".to_owned(), |core| format!("core {core}"))
        );
        println!("{rounds} rounds of {seconds} s each; medians of CPU time of the client thread\n");
    }
    let tls = std::env::args().any(|argument| argument == "--tls");
    for scenario in &scenarios {
        if !tls {
            measure(scenario, rounds, seconds, client, server, json);
        }
        if tls || !full {
            measure_tls(scenario, rounds, seconds, client, server, json);
        }
    }
}

fn measure(
    scenario: &Scenario,
    rounds: usize,
    seconds: u64,
    client: usize,
    server: Option<usize>,
    json: bool,
) {
    let mock = serve(scenario, server, Speaks::Http);
    let url = format!("http://{}/v1/chat/completions", mock.address());
    let (mut ours, mut bares, mut wrks, mut writing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(phasor(scenario, &url, seconds, client, Records::Dropped));
        writing.push(phasor(scenario, &url, seconds, client, Records::Written));
        bares.push(bare_loop(scenario, &url, &mock, seconds, client));
        if scenario.wrk {
            wrks.extend(wrk(scenario, &url, seconds, client));
        }
    }
    mock.stop().unwrap();
    let all = [&ours, &bares, &wrks, &writing];
    let per_request = all.map(|all| median(all, Measured::cpu_us_per_request));
    let per_event = all.map(|all| median(all, Measured::cpu_us_per_event));
    let rate = all.map(|all| median(all, Measured::requests_per_s));
    if json {
        println!(
            "{}",
            serde_json::json!({
                "bench": "ceiling",
                "scenario": scenario.name,
                "connections": scenario.connections,
                "tokens": scenario.tokens,
                "cpu_us_per_request": {
                    "phasor": per_request[0], "bare": per_request[1], "wrk": per_request[2],
                    "phasor_writing_records": per_request[3],
                },
                "cpu_us_per_event": {"phasor": per_event[0], "bare": per_event[1]},
                "requests_per_s": {
                    "phasor": rate[0], "bare": rate[1], "wrk": rate[2], "phasor_writing_records": rate[3],
                },
                "ratio_to_bare": ratio(per_request[0], per_request[1]),
                "ratio_to_wrk": ratio(per_request[0], per_request[2]),
            })
        );
        return;
    }
    println!("{} ({} connections, {} tokens)", scenario.name, scenario.connections, scenario.tokens);
    for (name, column) in [("phasor", 0), ("phasor, writing records", 3), ("bare loop", 1), ("wrk", 2)] {
        let Some(request) = per_request[column] else { continue };
        // wrk knows of no messages.
        let event = per_event[column].filter(|_| column != 2);
        let event = event.map_or_else(|| "      -".to_owned(), |event| format!("{event:7.3}"));
        println!(
            "  {name:23} {request:8.2} us/request  {event} us/event  {:9.0} requests/s",
            rate[column].unwrap_or(0.0)
        );
    }
    if let Some(ratio) = ratio(per_request[0], per_request[1]) {
        println!("  phasor / bare loop: {ratio:.2}");
    }
    if let Some(ratio) = ratio(per_request[0], per_request[2]) {
        println!("  phasor / wrk:       {ratio:.2}");
    }
    println!();
}

/// The built-in server for a scenario.
fn serve(scenario: &Scenario, server: Option<usize>, speaks: Speaks) -> Mock {
    Mock::start(MockOptions {
        ttft: if scenario.gap == Nanos::ZERO { Delay::NONE } else { Delay::Fixed(Nanos::from_millis(20)) },
        itl: if scenario.gap == Nanos::ZERO { Delay::NONE } else { Delay::Fixed(scenario.gap) },
        writes: scenario.writes,
        cpus: server.into_iter().collect(),
        speaks,
        ..MockOptions::default()
    })
    .unwrap()
}

/// phasor over TLS against phasor over plain HTTP, in turn, on connections that were made before.
fn measure_tls(
    scenario: &Scenario,
    rounds: usize,
    seconds: u64,
    client: usize,
    server: Option<usize>,
    json: bool,
) {
    let (mut plain, mut secure) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mock = serve(scenario, server, Speaks::Http);
        let url = format!("http://{}/v1/chat/completions", mock.address());
        plain.push(phasor_settled(scenario, &url, seconds, client, TlsOptions::default()));
        mock.stop().unwrap();
        let mock = serve(scenario, server, Speaks::Https);
        let url = format!("https://{}/v1/chat/completions", mock.address());
        let trust = TlsOptions { built_in: mock.authority().map(str::to_owned), ..TlsOptions::default() };
        secure.push(phasor_settled(scenario, &url, seconds, client, trust));
        mock.stop().unwrap();
    }
    let per_request = [&plain, &secure].map(|all| median(all, Measured::cpu_us_per_request));
    let per_event = [&plain, &secure].map(|all| median(all, Measured::cpu_us_per_event));
    let ratio = ratio(per_request[1], per_request[0]);
    if json {
        println!(
            "{}",
            serde_json::json!({
                "bench": "ceiling",
                "scenario": format!("{}, TLS", scenario.name),
                "connections": scenario.connections,
                "tokens": scenario.tokens,
                "cpu_us_per_request": {"plain": per_request[0], "tls": per_request[1]},
                "cpu_us_per_event": {"plain": per_event[0], "tls": per_event[1]},
                "ratio_to_plain": ratio,
            })
        );
        return;
    }
    println!("{} ({} connections, {} tokens)", scenario.name, scenario.connections, scenario.tokens);
    for (name, column) in [("plain", 0), ("TLS", 1)] {
        println!(
            "  {name:10} {:8.2} us/request  {:7.3} us/event",
            per_request[column].unwrap_or(f64::NAN),
            per_event[column].unwrap_or(f64::NAN)
        );
    }
    println!("  TLS / plain: {:.2}\n", ratio.unwrap_or(f64::NAN));
}

fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    of.zip(to).map(|(of, to)| of / to)
}

fn median(all: &[Measured], figure: impl Fn(&Measured) -> f64) -> Option<f64> {
    let mut figures: Vec<f64> = all.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

fn yaml(scenario: &Scenario, url: &str, seconds: u64) -> String {
    format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{url}', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 64, prompts: {{isl: {PROMPT_WORDS}, osl: {}}}}}\n  phases:\n    - {{name: profiling, type: concurrency, concurrency: {}, duration: {seconds}}}\n",
        scenario.tokens, scenario.connections
    )
}

/// What becomes of the records. Their writer is a thread of its own: where there are but two cores, it takes its
/// time from the server, which then keeps the client waiting, and a client that waits pays for more system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Records {
    Dropped,
    Written,
}

/// The whole program on one shard, all other files included.
fn phasor(scenario: &Scenario, url: &str, seconds: u64, client: usize, records: Records) -> Measured {
    let directory = tempfile::tempdir().unwrap();
    let mut yaml = yaml(scenario, url, seconds);
    if records == Records::Dropped {
        yaml.push_str("  artifacts: {records: false}\n");
    }
    let report = run_over(&yaml, &[client], Some(Idle::Sleep), directory.path(), TlsOptions::default());
    let requests = number(&report, "/total/ok");
    let wall = number(&report, "/phases/0/end_ns") - number(&report, "/phases/0/start_ns");
    Measured {
        requests,
        events: requests * u64::from(scenario.tokens + EVENTS_BESIDES),
        cpu_ns: number(&report, "/shards/0/cpu_time_ns"),
        wall: Duration::from_nanos(wall),
    }
}

/// Messages of a reply beside its tokens: role, finish, usage and `[DONE]`.
const EVENTS_BESIDES: u32 = 4;

/// As [`phasor`], in a phase whose connections an earlier one has made: handshakes are not in it.
fn phasor_settled(scenario: &Scenario, url: &str, seconds: u64, client: usize, tls: TlsOptions) -> Measured {
    let directory = tempfile::tempdir().unwrap();
    let warmup = format!(
        "  phases:\n    - {{name: warmup, type: concurrency, concurrency: {0}, requests: {0}}}\n",
        scenario.connections
    );
    let yaml = yaml(scenario, url, seconds).replace("  phases:\n", &warmup);
    let report = run_over(&yaml, &[client], Some(Idle::Sleep), directory.path(), tls);
    let requests = number(&report, "/phases/1/ok");
    Measured {
        requests,
        events: requests * u64::from(scenario.tokens + EVENTS_BESIDES),
        cpu_ns: number(&report, "/phases/1/shards/0/cpu_time_ns"),
        wall: Duration::from_nanos(
            number(&report, "/phases/1/end_ns") - number(&report, "/phases/1/start_ns"),
        ),
    }
}

fn bare_loop(scenario: &Scenario, url: &str, mock: &Mock, seconds: u64, client: usize) -> Measured {
    let config = config::parse("bench.yaml", &yaml(scenario, url, seconds)).unwrap().config;
    let traffic = phasor::run::traffic::Traffic::in_words(&config).unwrap();
    let dataset = &traffic.dataset;
    let body = dataset.body(&dataset.rows()[0]);
    let mut request = Vec::new();
    let protocol = traffic.protocol(&config).unwrap();
    protocol.head(0).unwrap().render(&mut request, 1, 1, body.len());
    request.extend_from_slice(body);
    let (address, connections) = (mock.address(), scenario.connections as usize);
    let measured = std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: client }));
        bare::run(address, &request, connections, Duration::from_secs(seconds))
    })
    .join()
    .unwrap();
    Measured {
        requests: measured.requests,
        events: measured.requests * u64::from(scenario.tokens + EVENTS_BESIDES),
        cpu_ns: measured.cpu_ns,
        wall: measured.wall,
    }
}

/// wrk with one thread and the same request, if it is installed.
fn wrk(scenario: &Scenario, url: &str, seconds: u64, client: usize) -> Option<Measured> {
    let config = config::parse("bench.yaml", &yaml(scenario, url, seconds)).unwrap().config;
    let traffic = phasor::run::traffic::Traffic::in_words(&config).unwrap();
    let dataset = &traffic.dataset;
    let body = std::str::from_utf8(dataset.body(&dataset.rows()[0])).unwrap();
    let mut script = tempfile::NamedTempFile::new().unwrap();
    writeln!(
        script,
        "wrk.method = 'POST'\nwrk.body = [[{body}]]\nwrk.headers['Content-Type'] = 'application/json'"
    )
    .unwrap();
    let before = children_cpu_ns();
    let begun = Instant::now();
    let output = Command::new("taskset")
        .args(["-c", &client.to_string(), "wrk", "-t1"])
        .arg(format!("-c{}", scenario.connections))
        .arg(format!("-d{seconds}s"))
        .arg("-s")
        .arg(script.path())
        .arg(url)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let wall = begun.elapsed();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0.parse().ok()?;
    Some(Measured { requests, events: 0, cpu_ns: children_cpu_ns() - before, wall })
}

/// Processor time of ended child processes.
fn children_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    // The kernel counts in hundredths of a second here, on every architecture that matters.
    ticks * 10_000_000
}
