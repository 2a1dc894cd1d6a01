//! A server that stands still while an open loop goes on: do the planned arrivals show it, and nothing else?
//!
//! The server runs in a process of its own and is stopped for 1.4 s in the middle of an even load of 2,000
//! requests/s, at most 50 of which are in flight; the others wait in the client's queue. The response latency,
//! from the planned time on, has to show the pause as arithmetic says; the service latency hardly, since but
//! 50 requests met it. `-- --json` prints one JSON line. Without `--bench` (as under `cargo test`) the load
//! and the pause are short.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]
#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

#[path = "../tests/support/served.rs"]
mod served;

use phasor::run::cores::available;
use serde_json::{Value, json};
use served::Served;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Requests in flight at most.
const IN_FLIGHT: u32 = 50;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let json = std::env::args().any(|argument| argument == "--json");
    let (rate, seconds, pause_ms) = if full { (2_000, 20, 1_400) } else { (200, 2, 300) };
    let cpus = available().unwrap();
    let client = cpus.first().copied().unwrap_or(0);
    let server = cpus.get(1).copied().unwrap_or(client);

    let server = Served::new(&["--ttft", "1ms", "--itl", "50us", "--cpus", &server.to_string()]);
    let directory = tempfile::tempdir().unwrap();
    let yaml = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: '{}', type: chat, streaming: true}}\n  tokenizer: {{name: none}}\n  \
         dataset: {{type: synthetic, entries: 64, prompts: {{isl: 32, osl: 8}}}}\n  phases:\n    - {{name: \
         profiling, type: constant, rate: {rate}, duration: {seconds}, concurrency: {IN_FLIGHT}}}\n",
        server.url
    );
    std::fs::write(directory.path().join("config.yaml"), yaml).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .current_dir(directory.path())
        .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"])
        .args(["--shards", "1", "--cpus", &client.to_string(), "--at-capacity", "queue"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The pause must lie inside the load: the program has started by then.
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds) / 2);
    let (still, at_most) = server.pause(Duration::from_millis(pause_ms));
    assert!(run.wait().unwrap().success());
    assert!(begun.elapsed() > Duration::from_secs(seconds));
    let report: Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("out/client_report.json")).unwrap())
            .unwrap();
    let phase = &report["phases"][0];
    let ms = |latency: &str, figure: &str| phase[latency]["request_latency"][figure].as_f64().unwrap() / 1e6;
    // An arrival so long after the stop waits for the rest of the pause and then as long as any other. One in
    // a hundred of all arrivals waits longer than the 99th percentile: those of the first part of the pause.
    let (still_ms, at_most_ms) = (still.as_secs_f64() * 1e3, at_most.as_secs_f64() * 1e3);
    let expected_ms =
        f64::midpoint(still_ms, at_most_ms) - seconds as f64 * 10.0 + ms("service_latency_ns", "p50");
    let measured_ms = ms("response_latency_ns", "p99");
    let service = ["p50", "p90", "p99"].map(|figure| ms("service_latency_ns", figure));
    if json {
        println!(
            "{}",
            json!({
                "bench": "pause", "rate_per_s": rate, "seconds": seconds, "paused_ms": [still_ms, at_most_ms],
                "response_p99_ms": measured_ms, "expected_p99_ms": expected_ms,
                "service_ms": {"p50": service[0], "p90": service[1], "p99": service[2]},
                "verdict": phase["verdict"], "sent": phase["sent"],
            })
        );
        return;
    }
    println!(
        "{rate} requests/s for {seconds} s, the server stopped for {still_ms:.0} to {at_most_ms:.0} ms\n"
    );
    println!("  response latency, p99   {measured_ms:9.1} ms");
    println!(
        "  by arithmetic           {expected_ms:9.1} ms, {:+.1} %",
        (measured_ms / expected_ms - 1.0) * 100.0
    );
    println!(
        "  service latency         {:9.1} ms p50, {:.1} p90, {:.1} p99",
        service[0], service[1], service[2]
    );
    println!("  verdict                 {}", phase["verdict"].as_str().unwrap());
}
