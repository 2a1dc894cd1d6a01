//! Runs over real sockets modelled on the reference program's recorded ones: the same phases against a server of
//! the same timing, with durations kept short. The set of files, members, rows and record fields must be the
//! recorded ones but for the differences listed here, each with its reason, and every number must come out
//! again from the record file.
//!
//! Not here: GPU telemetry, what server metrics say, sweeps, several trials and adaptive scale; the texts of
//! replies (`raw`, `export_outputs_json`). A second interrupt has a test in `end_to_end`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/program.rs"]
mod program;

use oracle::{check_directory, load};
use phasor::mock::{Delay, Faults, Mock, MockOptions};
use phasor::time::Nanos;
use program::{phasor, walk};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files that these runs do not ask for, or that phasor adds.
const FILES: [(&str, &str); 6] = [
    (
        "server_metrics",
        "held against the recorded ones by tests of their own; an address with a path had none",
    ),
    ("gpu_telemetry", "no GPU is watched"),
    ("profile_export_raw.jsonl", "texts of replies are not asked for"),
    ("outputs.json", "texts of replies are not asked for"),
    ("client_report.json", "phasor's own file"),
    ("telemetry_report.json", "phasor's own file"),
];

/// Metrics that may be missing.
const METRICS: [(&str, &str); 4] = [
    ("usage_completion_tokens_diff_pct", "compares with a client tokenizer"),
    ("usage_discrepancy_count", "compares with a client tokenizer"),
    ("usage_prompt_tokens_diff_pct", "compares with a client tokenizer"),
    ("usage_reasoning_tokens_diff_pct", "compares with a client tokenizer"),
];

/// The rows of those metrics in the CSV.
const ROWS: [&str; 4] = [
    "Usage Completion Diff % (%)",
    "Usage Discrepancy Count",
    "Usage Prompt Diff % (%)",
    "Usage Reasoning Diff % (%)",
];

/// What the recorded server reports and the built-in one does not: thoughts and what its cache held.
const UNREPORTED: [(&str, &str); 7] = [
    ("overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read % (%)"),
    ("reasoning_token_count", "Reasoning Token Count (tokens)"),
    ("total_reasoning_tokens", "Total Reasoning Tokens (tokens)"),
    ("total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens (tokens)"),
    ("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens (tokens)"),
    ("usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens (tokens)"),
    ("usage_reasoning_tokens", "Usage Reasoning Tokens (tokens)"),
];

/// Members of results that may be missing.
const MEMBERS: [(&str, &str); 2] = [
    ("telemetry_data", "no GPU is watched"),
    (
        "incomplete_reason",
        "a phase that was done before the run was cut says so, where the reference does not",
    ),
];

/// Fields of records that may be missing.
const FIELDS: [(&str, &str); 5] = [
    ("local_ip", "not asked of the kernel"),
    ("local_port", "not asked of the kernel"),
    ("request_ack_ns", "failed requests have it or not, by the way in which they failed"),
    ("response_headers", "read and not kept"),
    ("response_reason", "kept of error statuses only"),
];

/// A recorded run.
struct Recorded {
    name: &'static str,
    case: Value,
    sets: Vec<Value>,
}

impl Recorded {
    fn of(name: &'static str) -> Self {
        let all: Value = serde_json::from_str(include_str!("data/golden/runs.json")).unwrap();
        Self { name, case: all["cases"][name].clone(), sets: all["sets"].as_array().unwrap().clone() }
    }

    /// A list of names; they are kept once each.
    fn list(&self, at: &Value) -> Vec<String> {
        let Some(number) = at.as_u64() else { return Vec::new() };
        let list = self.sets[usize::try_from(number).unwrap()].as_array().unwrap();
        list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    fn set(&self, at: &Value) -> BTreeSet<String> {
        self.list(at).into_iter().collect()
    }

    /// Whether the tag or row of a metric may be missing.
    fn spares(&self, name: &str) -> bool {
        let unreported = || UNREPORTED.iter().any(|(tag, row)| *tag == name || *row == name);
        listed(&METRICS, name) || ROWS.contains(&name) || (self.name == "server-token-count" && unreported())
    }
}

/// Both sets are the same but for names that `allowed` takes.
fn same(what: &str, mine: &BTreeSet<String>, theirs: &BTreeSet<String>, allowed: impl Fn(&str) -> bool) {
    let differ: Vec<&String> = mine.symmetric_difference(theirs).filter(|name| !allowed(name)).collect();
    assert!(differ.is_empty(), "{what}: only one has {differ:?}\nmine: {mine:?}\ntheirs: {theirs:?}");
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(listed, _)| *listed == name)
}

fn names(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

/// Members that are metrics, and all others.
fn split(scope: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    names(scope).into_iter().partition(|name| scope[name]["unit"].is_string())
}

fn check_json(recorded: &Recorded, directory: &Path) {
    let Some(files) = recorded.case["json"].as_object() else { return };
    for (file, theirs) in files {
        let what = format!("{}: {file}", recorded.name);
        let mine = load(&directory.join(file));
        let (metrics, members) = split(&mine);
        same(&what, &metrics, &recorded.set(&theirs["metrics"]), |name| recorded.spares(name));
        same(&what, &members, &recorded.set(&theirs["members"]), |name| listed(&MEMBERS, name));
        if !theirs["warmup_metrics"].is_null() {
            let theirs = recorded.set(&theirs["warmup_metrics"]);
            same(&what, &names(&mine["warmup_metrics"]), &theirs, |name| recorded.spares(name));
        }
    }
}

fn check_csv(recorded: &Recorded, directory: &Path) {
    for (file, tables) in recorded.case["csv"].as_object().unwrap() {
        let what = format!("{}: {file}", recorded.name);
        let text = fs::read_to_string(directory.join(file)).unwrap();
        for (table, theirs) in text.split("\r\n\r\n").zip(tables.as_array().unwrap()) {
            let mine: Vec<&str> = table.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
            let mut theirs = recorded.list(theirs);
            theirs.retain(|row| mine.contains(&row.as_str()) || !recorded.spares(row));
            assert_eq!(mine, theirs, "{what}");
        }
    }
}

/// What depends on whether a connection was there.
fn of_connection(name: &str) -> bool {
    ["tcp_connect", "connection_", "connecting_", "dns_", "blocked_"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn check_records(recorded: &Recorded, directory: &Path) {
    let Some(kinds) = recorded.case["records"].as_object() else { return };
    let mut mine = BTreeMap::<String, [BTreeSet<String>; 3]>::new();
    for line in fs::read_to_string(directory.join("profile_export.jsonl")).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let kind = match (&record["error"], &record["metadata"]["was_cancelled"]) {
            (Value::Null, _) => "good",
            (_, Value::Bool(true)) => "cancelled",
            _ => "failed",
        };
        let phase = record["metadata"]["benchmark_phase"].as_str().unwrap();
        let [metadata, metrics, trace] = mine.entry(format!("{kind} {phase}")).or_default();
        metadata.extend(names(&record["metadata"]));
        metrics.extend(names(&record["metrics"]));
        if record["trace_data"].is_object() {
            trace.extend(names(&record["trace_data"]));
        }
    }
    for (kind, theirs) in kinds {
        let what = format!("{}: {kind} records", recorded.name);
        let [metadata, metrics, trace] = mine.get(kind).unwrap_or_else(|| panic!("no {what}"));
        let field =
            |name: &str| listed(&FIELDS, name) && !(name == "request_ack_ns" && kind.starts_with("good"));
        same(&what, metadata, &recorded.set(&theirs["metadata"]), field);
        same(&what, metrics, &recorded.set(&theirs["metrics"]), |name| recorded.spares(name));
        same(&what, trace, &recorded.set(&theirs["trace"]), |name| field(name) || of_connection(name));
    }
}

fn check_files(recorded: &Recorded, directory: &Path) {
    let mine: BTreeSet<String> = walk(directory).into_iter().collect();
    let theirs = recorded.set(&recorded.case["files"]);
    // One recorded run has lost its list of files.
    assert!(!theirs.is_empty() || recorded.name == "basic-multiphase");
    if !theirs.is_empty() {
        same(recorded.name, &mine, &theirs, |name| FILES.iter().any(|(listed, _)| name.contains(listed)));
    }
    assert_eq!(directory.join("phase_manifest.json").exists(), recorded.case["manifest"] == true);
}

/// When the program gets an interrupt: after a line with this text.
type Interrupt = Option<&'static str>;

/// A run in a directory of its own.
struct Played {
    _directory: tempfile::TempDir,
    artifacts: PathBuf,
    shown: String,
}

/// Runs `rest` (what follows the endpoint) like the recorded run `name` and compares.
fn play(name: &'static str, options: MockOptions, rest: &str, exit: i32, interrupt: Interrupt) -> Played {
    let recorded = Recorded::of(name);
    let directory = tempfile::tempdir().unwrap();
    let mock = Mock::start(options).unwrap();
    let model = if name == "default-dir" { "org/mock-model" } else { "mock-model" };
    let more = match name {
        "errors-mixed" => ", timeout: 0.3",
        "server-token-count" => ", use_server_token_count: true",
        _ => "",
    };
    let yaml = format!(
        "benchmark:\n  model: {model}\n  endpoint: {{url: 'http://{}', type: chat, streaming: true{more}}}\n{rest}",
        mock.address()
    );
    fs::write(directory.path().join("config.yaml"), yaml).unwrap();
    let mut command = phasor();
    command.current_dir(directory.path()).args(["profile", "--config", "config.yaml", "--ui", "none"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    if let Some(text) = interrupt {
        while !told.contains(text) {
            assert!(stderr.read_line(&mut told).unwrap() > 0, "{told}");
        }
        // Requests of the phase have ended when the server has answered some more.
        let answered = mock.requests() + 20;
        while mock.requests() < answered {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    }
    // The tables are larger than a pipe holds.
    let mut stdout = child.stdout.take().unwrap();
    let shown = std::thread::spawn(move || {
        let mut shown = String::new();
        stdout.read_to_string(&mut shown).unwrap();
        shown
    });
    stderr.read_to_string(&mut told).unwrap();
    let status = child.wait().unwrap();
    let shown = shown.join().unwrap();
    mock.stop().unwrap();
    assert_eq!(status.code(), Some(exit), "{name}: {told}");

    let artifacts = directory.path().join("artifacts");
    let artifacts = match name {
        "default-dir" => artifacts.join("org_mock-model-openai-chat-concurrency4-request_rate30.0"),
        "seed-example" => artifacts.join("multi-phase"),
        _ => artifacts,
    };
    check_files(&recorded, &artifacts);
    check_json(&recorded, &artifacts);
    check_csv(&recorded, &artifacts);
    check_records(&recorded, &artifacts);
    if artifacts.join("profile_export_aiperf.json").exists() {
        let compared = check_directory(&artifacts);
        assert!(compared > 500, "{name}: only {compared} values were computed again");
    }
    Played { _directory: directory, artifacts, shown }
}

fn millis(millis: u64) -> Delay {
    Delay::Fixed(Nanos::from_millis(millis))
}

fn server(ttft: u64, itl: u64) -> MockOptions {
    MockOptions { ttft: millis(ttft), itl: millis(itl), ..MockOptions::default() }
}

const PROMPTS: &str = "  dataset: {type: synthetic, entries: 20, prompts: {isl: 32, osl: 16}}\n";

fn rest(phases: &[&str], artifacts: &str) -> String {
    let phases = phases.iter().map(|phase| format!("    - {phase}\n")).collect::<Vec<_>>().concat();
    format!("{PROMPTS}  phases:\n{phases}  artifacts: {{dir: ./artifacts{artifacts}}}\n")
}

#[test]
fn basic_multiphase() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, duration: 0.3s}",
            "{name: baseline_traffic, kind: profiling, type: concurrency, concurrency: 4, requests: 60, cancellation: {rate: 20, delay: 0}}",
            "{name: cancellation_stress, kind: profiling, type: concurrency, concurrency: 8, requests: 60, cancellation: {rate: 50, delay: 0}}",
            "{name: recovery_traffic, kind: profiling, type: concurrency, concurrency: 4, duration: 0.5s, cancellation: {rate: 0, delay: 0}}",
        ],
        "",
    );
    play("basic-multiphase", server(30, 5), &rest, 0, None);
}

#[test]
fn seed_example() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 8, duration: 0.3s}",
            "{name: baseline_traffic, kind: profiling, type: concurrency, concurrency: 16, requests: 64, cancellation: {rate: 20, delay: 0}}",
            "{name: cancellation_stress, kind: profiling, type: concurrency, concurrency: 32, requests: 64, cancellation: {rate: 50, delay: 0}}",
            "{name: recovery_traffic, kind: profiling, type: concurrency, concurrency: 16, duration: 0.5s, cancellation: {rate: 0, delay: 0}}",
        ],
        "/multi-phase",
    );
    let rest = rest.replace("isl: 32, osl: 16", "isl: 512, osl: 128");
    play("seed-example", server(60, 2), &rest, 0, None);
}

#[test]
fn several_warmups() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 4, requests: 10}",
            "{name: cache_prime, kind: warmup, type: poisson, rate: 40, requests: 20}",
            "{name: profiling, type: concurrency, concurrency: 4, requests: 30}",
            "{name: settle_after, kind: warmup, type: concurrency, concurrency: 2, duration: 0.2s}",
            "{name: final_profile, kind: profiling, type: concurrency, concurrency: 8, requests: 40}",
        ],
        "",
    );
    play("several-warmups", server(30, 5), &rest, 0, None);
}

#[test]
fn poisson() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 6}",
            "{name: open_loop, kind: profiling, type: poisson, rate: 40, duration: 1s, grace_period: 5s}",
            "{name: open_loop_cap, kind: profiling, type: poisson, rate: 60, concurrency: 4, requests: 40}",
        ],
        "",
    );
    play("poisson", server(30, 5), &rest, 0, None);
}

#[test]
fn errors_mixed() {
    let faults = Faults {
        status_percent: 12.0,
        status_code: 429,
        reset_percent: 6.0,
        truncate_percent: 6.0,
        hang_percent: 4.0,
        ..Faults::default()
    };
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 40}",
            "{name: first, kind: profiling, type: concurrency, concurrency: 4, requests: 100}",
            "{name: second, kind: profiling, type: concurrency, concurrency: 4, requests: 100}",
        ],
        "",
    );
    play("errors-mixed", MockOptions { faults, seed: 3, ..server(20, 3) }, &rest, 0, None);
}

#[test]
fn one_phase_fails() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 4}",
            "{name: good, kind: profiling, type: concurrency, concurrency: 4, requests: 20, cancellation: {rate: 0}}",
            "{name: allcancel, kind: profiling, type: concurrency, concurrency: 4, requests: 12, cancellation: {rate: 100, delay: 0}}",
            "{name: tail, kind: profiling, type: concurrency, concurrency: 2, requests: 6, cancellation: {rate: 0}}",
        ],
        "",
    );
    play("one-phase-fails", server(20, 3), &rest, 0, None);
}

#[test]
fn threshold_abort() {
    let faults = Faults { status_percent: 40.0, status_code: 500, ..Faults::default() };
    let rest = rest(
        &[
            "{name: a, kind: profiling, type: concurrency, concurrency: 4, requests: 40}",
            "{name: b, kind: profiling, type: concurrency, concurrency: 4, requests: 400, failed_request_threshold: 0.2}",
            "{name: c, kind: profiling, type: concurrency, concurrency: 4, requests: 40}",
        ],
        "",
    );
    // The reference's exit code is 0.
    let played = play("threshold-abort", MockOptions { faults, seed: 3, ..server(20, 3) }, &rest, 1, None);
    assert_eq!(load(&played.artifacts.join("profile_export_aiperf.json"))["was_cancelled"], true);
    let ready = load(&played.artifacts.join(".aiperf_results_ready.json"));
    assert_eq!((&ready["was_cancelled"], &ready["terminal_phase"]), (&true.into(), &"b".into()));
    assert!(
        ready["terminal_error"].as_str().unwrap().contains("`failed_request_threshold` of 0.2"),
        "{ready}"
    );
}

#[test]
fn sigint() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 4}",
            "{name: a, kind: profiling, type: concurrency, concurrency: 4, duration: 0.5s, grace_period: 2s}",
            "{name: b, kind: profiling, type: concurrency, concurrency: 4, duration: 60s, grace_period: 5s}",
            "{name: c, kind: profiling, type: concurrency, concurrency: 4, duration: 2s}",
        ],
        "",
    );
    // The reference's exit code is 0.
    let played = play("sigint", server(40, 5), &rest, 130, Some("Phase b (profiling) started"));
    assert!(played.shown.contains("INCOMPLETE RESULTS") && played.shown.contains("(cancelled early)"));
}

#[test]
fn single_profiling() {
    let rest = rest(&["{name: profiling, type: concurrency, concurrency: 4, requests: 60}"], "");
    play("single-profiling", server(30, 5), &rest, 0, None);
}

#[test]
fn warmup_profiling() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 10}",
            "{name: profiling, type: concurrency, concurrency: 4, duration: 1.5s, grace_period: 5s, cancellation: {rate: 30, delay: 0.06}}",
        ],
        "",
    );
    play("warmup-profiling", server(30, 5), &rest, 0, None);
}

#[test]
fn slos_timeslices_trace() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 6}",
            "{name: one, kind: profiling, type: concurrency, concurrency: 4, duration: 1s, grace_period: 2s}",
            "{name: two, kind: profiling, type: constant, rate: 30, concurrency: 8, duration: 1s, grace_period: 2s}",
        ],
        ", slice_duration: 0.5s, trace: true, show_trace_timing: true",
    );
    let slos = "  slos: {time_to_first_token: 35, request_latency: 125, inter_token_latency: 6.2}\n";
    play("slos-timeslices-trace", server(30, 5), &format!("{slos}{rest}"), 0, None);
}

#[test]
fn server_token_count() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 6}",
            "{name: one, kind: profiling, type: concurrency, concurrency: 4, requests: 40}",
            "{name: two, kind: profiling, type: concurrency, concurrency: 8, requests: 40}",
        ],
        "",
    );
    let played = play("server-token-count", server(20, 3), &rest, 0, None);
    let root = load(&played.artifacts.join("profile_export_aiperf.json"));
    for (counted, reported) in
        [("total_isl", "total_usage_prompt_tokens"), ("total_osl", "total_usage_completion_tokens")]
    {
        assert_eq!(root[counted]["avg"], root[reported]["avg"]);
    }
}

#[test]
fn osl_mismatch() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 4}",
            "{name: a, kind: profiling, type: concurrency, concurrency: 4, requests: 30}",
            "{name: b, kind: profiling, type: concurrency, concurrency: 4, requests: 30}",
        ],
        "",
    );
    // A server that stops early is not to be had: the panel has a test of its own.
    play("osl-mismatch", server(20, 3), &rest, 0, None);
}

#[test]
fn default_dir() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 4}",
            "{name: a, kind: profiling, type: poisson, rate: 30, concurrency: 4, requests: 30}",
            "{name: b, kind: profiling, type: concurrency, concurrency: 4, requests: 30}",
        ],
        "",
    );
    let rest = rest.replace("  artifacts: {dir: ./artifacts}\n", "");
    play("default-dir", server(20, 3), &rest, 0, None);
}

#[test]
fn prefix_nosummary() {
    let rest = rest(
        &[
            "{name: warmup, type: concurrency, concurrency: 2, requests: 4}",
            "{name: a, kind: profiling, type: concurrency, concurrency: 4, requests: 20}",
        ],
        ", prefix: foo, summary: false, records: false",
    );
    let played = play("prefix-nosummary", server(20, 3), &rest, 0, None);
    assert_eq!(load(&played.artifacts.join(".aiperf_results_ready.json"))["partial"], false);
}
