//! Whole runs against the built-in server that follow golden runs: the set of files, and numbers that agree
//! from file to file.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `yaml` with its artifacts in `out`.
fn run(directory: &Path, yaml: &str) -> Output {
    std::fs::write(directory.join("config.yaml"), yaml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasor"));
    command.current_dir(directory).args(["profile", "--config", "config.yaml", "--ui", "none"]);
    command.args(["--mock", "--mock-ttft", "3ms", "--mock-itl", "500us"]).output().unwrap()
}

fn yaml(more: &str, artifacts: &str) -> String {
    format!(
        "benchmark:
  model: mock-model
  endpoint: {{url: 'http://127.0.0.1:1', type: chat, streaming: true}}
  dataset: {{type: synthetic, entries: 20, prompts: {{isl: 32, osl: 16}}}}
{more}
  phases:
    - {{name: warmup, type: concurrency, concurrency: 2, requests: 6}}
    - {{name: one, kind: profiling, type: concurrency, concurrency: 4, duration: 0.5s}}
    - {{name: two, kind: profiling, type: poisson, rate: 60, concurrency: 8, duration: 0.5s}}
  artifacts: {{dir: ./out{artifacts}}}
"
    )
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().display().to_string());
            }
        }
    }
    found.sort();
    found
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn objectives_slices_and_traces_of_a_run_agree_with_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let more = "  slos: {time_to_first_token: 35, request_latency: 125, inter_token_latency: 6.2}";
    let artifacts = ", slice_duration: 0.25s, trace: true, show_trace_timing: true";
    let output = run(directory.path(), &yaml(more, artifacts));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = directory.path().join("out");
    // The golden run's files, without raw records and outputs, and phasor's own.
    let expected = [
        ".aiperf_results_ready.json",
        "client_report.json",
        "inputs.json",
        "logs/aiperf.log",
        "phase_manifest.json",
        "phases/one/profile_export_aiperf.csv",
        "phases/one/profile_export_aiperf.json",
        "phases/one/server_metrics.json",
        "phases/two/profile_export_aiperf.csv",
        "phases/two/profile_export_aiperf.json",
        "phases/two/server_metrics.json",
        "phases/warmup/profile_export_aiperf.csv",
        "phases/warmup/profile_export_aiperf.json",
        "phases/warmup/server_metrics.json",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "profile_export_aiperf_timeslices.csv",
        "profile_export_aiperf_timeslices.json",
        "profile_export_console.txt",
        "server_metrics_export.csv",
        "server_metrics_export.json",
        "telemetry_report.json",
    ];
    assert_eq!(files(&out), expected);

    let text = std::fs::read_to_string(out.join("profile_export.jsonl")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.iter().all(|record| record["trace_data"]["duration_ns"].is_u64()));
    let counted = records.iter().filter(|record| record["metadata"]["benchmark_phase"] == "profiling");
    let held: u64 = counted
        .clone()
        .map(|record| record["metrics"]["good_request_count"]["value"].as_u64().unwrap())
        .sum();
    let root = json(&out.join("profile_export_aiperf.json"));
    assert_eq!(root["good_request_count"]["avg"].as_f64(), Some(held as f64));
    let slices = json(&out.join("profile_export_aiperf_timeslices.json"));
    let sum = |tag: &str| -> f64 {
        let slices = slices["timeslices"].as_array().unwrap();
        slices.iter().filter_map(|slice| slice[tag]["avg"].as_f64()).sum()
    };
    assert!((sum("completed_request_count") - counted.count() as f64).abs() < 0.5);
    assert!((sum("good_request_count") - held as f64).abs() < 0.5);
    // A closed loop of four was held at four.
    let one = json(&out.join("phases/one/profile_export_aiperf.json"));
    assert_eq!(one["effective_concurrency"]["max"].as_f64(), Some(4.0));
    assert_eq!(one["effective_concurrency"]["p50"].as_f64(), Some(4.0));

    let log = std::fs::read_to_string(out.join("logs/aiperf.log")).unwrap();
    for edge in ["Phase one (profiling) started", "Phase two (profiling) complete", "Processed "] {
        assert!(log.contains(edge), "{edge} in {log}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("phasor | HTTP Trace Timing"));
}

#[test]
fn a_prefix_and_switched_off_files_leave_the_files_of_the_golden_run() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &yaml("", ", prefix: foo.json, summary: false, records: false"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        ".aiperf_results_ready.json",
        "client_report.json",
        "foo.csv",
        "foo_console.txt",
        "foo_server_metrics.csv",
        "foo_server_metrics.json",
        "inputs.json",
        "logs/aiperf.log",
        "phase_manifest.json",
        "phases/one/foo.csv",
        "phases/one/server_metrics.json",
        "phases/two/foo.csv",
        "phases/two/server_metrics.json",
        "phases/warmup/foo.csv",
        "phases/warmup/server_metrics.json",
        "telemetry_report.json",
    ];
    assert_eq!(files(&directory.path().join("out")), expected);
}

#[test]
fn a_file_in_the_way_fails_the_run_and_costs_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(out.join("phases"), b"in the way").unwrap();
    let output = run(directory.path(), &yaml("", ""));
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("phases/one/profile_export_aiperf.json"), "{told}");
    assert!(json(&out.join("profile_export_aiperf.json"))["request_latency"].is_object());
    assert_eq!(json(&out.join(".aiperf_results_ready.json"))["partial"], true);
    let log = std::fs::read_to_string(out.join("logs/aiperf.log")).unwrap();
    assert!(log.contains("ERROR - cannot write"), "{log}");
}

#[test]
fn an_objective_on_no_metric_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &yaml("  slos: {ttft: 35}", ""));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("slos.ttft"));
}

#[test]
fn the_tables_are_as_wide_as_the_environment_says() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("config.yaml"), yaml("", "")).unwrap();
    let run = |width: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasor"));
        command.current_dir(directory.path()).args(["profile", "--config", "config.yaml", "--ui", "none"]);
        command.args(["--mock", "--mock-ttft", "3ms"]).env("AIPERF_UI_CONSOLE_EXPORT_WIDTH", width);
        command.output().unwrap()
    };
    let refused = run("39");
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("AIPERF_UI_CONSOLE_EXPORT_WIDTH") && told.contains("from 40 to 10000"), "{told}");
    let widest = |width: &str| {
        let output = run(width);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(directory.path().join("out/profile_export_console.txt")).unwrap();
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    let (narrow, wide) = (widest("100"), widest("200"));
    assert!(narrow <= 100 && wide > 100, "{narrow} and {wide}");
}
