//! What it costs to prepare a dataset: prompts composed, counted and rendered before the first request.
//!
//! `cargo bench --bench prepare` prepares 10,000 prompts of 512 tokens with each way of counting and prints the
//! processor time of the whole process, the wall time and the bytes made; then it runs the program with 1,000 of
//! them and prints how long after its start the first request left, by the run's own records. `-- --json` prints
//! one JSON line for each. Without `--bench` (as under `cargo test`) it runs once with tiny numbers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on has failed; it prints"
)]

use phasor::config;
use phasor::mock::{Mock, MockOptions};
use phasor::run::traffic::Traffic;
use phasor::time::Clock;
use serde_json::Value;
use std::process::Command;

/// Tokens of a prompt.
const TOKENS: u32 = 512;

/// Ways of counting.
const TOKENIZERS: [&str; 3] = ["none", "o200k_base", "cl100k_base"];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let as_json = arguments.iter().any(|argument| argument == "--json");
    let entries = if is_bench { 10_000 } else { 20 };
    for tokenizer in TOKENIZERS {
        for corpus in ["", ", corpus: coding"] {
            run(tokenizer, corpus, entries, as_json);
        }
        first_request(tokenizer, entries / 10, as_json);
    }
}

fn run(tokenizer: &str, corpus: &str, entries: u32, as_json: bool) {
    let yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  endpoint: {{url: 'http://127.0.0.1:1', streaming: true}}\n  \
         tokenizer: {{name: {tokenizer}}}\n  dataset: {{entries: {entries}, prompts: {{isl: {TOKENS}, osl: \
         64{corpus}}}}}\n  phases:\n    - {{name: profiling, type: concurrency, requests: 1}}\n"
    );
    let config = config::parse("bench.yaml", &yaml).unwrap().config;
    let clock = Clock::start();
    let (begun, cpu_before) = (clock.now(), process_cpu_ns());
    let traffic = Traffic::prepare(&config, |_| None, &|_| {}).unwrap();
    let cpu_s = (process_cpu_ns() - cpu_before) as f64 / 1e9;
    let wall_s = clock.now().since(begun).as_secs_f64();
    let dataset = &traffic.dataset;
    let exact = dataset.rows().iter().filter(|row| row.isl_tokens == Some(TOKENS)).count();
    assert_eq!(dataset.rows().len(), entries as usize);
    assert!(exact * 100 >= dataset.rows().len() * 99, "{exact} of {entries} prompts have their length");
    let bytes = dataset.block().len();
    let hash = dataset.block().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let corpus = if corpus.is_empty() { "words" } else { "coding" };
    if as_json {
        println!(
            "{}",
            serde_json::json!({"bench": "prepare", "tokenizer": tokenizer, "corpus": corpus, "prompts": entries,
                "tokens": TOKENS, "cpu_s": cpu_s, "wall_s": wall_s, "bytes": bytes, "exact": exact,
                "hash": format!("{hash:016x}")})
        );
    } else {
        println!(
            "{tokenizer:12} {corpus:7} {entries} prompts of {TOKENS} tokens: {cpu_s:.3} s of CPU, {wall_s:.3} s, \
             {:.1} MB, {exact} exact, hash {hash:016x}",
            bytes as f64 / 1e6
        );
    }
}

/// Starts the program against a server of this process and tells when its first request left.
fn first_request(tokenizer: &str, entries: u32, as_json: bool) {
    let mock = Mock::start(MockOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: m\n  endpoint: {{url: 'http://{}', streaming: true}}\n  tokenizer: \
         {{name: {tokenizer}}}\n  dataset: {{entries: {entries}, prompts: {{isl: {TOKENS}, osl: 4}}}}\n  phases:\n    \
         - {{name: profiling, type: concurrency, requests: 10}}\n",
        mock.address()
    );
    std::fs::write(directory.path().join("config.yaml"), yaml).unwrap();
    let clock = Clock::start();
    let started_ns = clock.unix_ns(clock.now());
    let output = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .current_dir(directory.path())
        .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = std::fs::read_to_string(directory.path().join("out/profile_export.jsonl")).unwrap();
    let starts = records.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["metadata"]["request_start_ns"].as_u64().unwrap()
    });
    let after_ms = starts.min().unwrap().checked_sub(started_ns).unwrap() as f64 / 1e6;
    if as_json {
        println!(
            "{}",
            serde_json::json!({"bench": "first_request", "tokenizer": tokenizer, "prompts": entries,
                "tokens": TOKENS, "after_ms": after_ms})
        );
    } else {
        println!(
            "{tokenizer:12} first request of a run with {entries} prompts of {TOKENS} tokens: {after_ms:.1} ms after \
             the program was started"
        );
    }
}

/// Processor time of the whole process, in nanoseconds.
fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which lives through the call.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(done, 0);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}
