//! Which files there are, what the console shows, and what happens when a file cannot be written.

use crate::synthetic::{Options, Synthetic, config, dataset, phase, storm};
use phasor::artifact::directory_name;
use phasor::config::{Load, PhaseKind};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub(crate) fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
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

#[test]
fn a_run_of_one_phase_has_neither_phase_files_nor_a_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("only", PhaseKind::Profiling, 4)];
    let written = Synthetic::new(phases, 30, Options::default()).write(directory.path());
    assert!(written.failures.is_empty());
    assert_eq!(
        files(directory.path()),
        [
            ".aiperf_results_ready.json",
            "client_report.json",
            "inputs.json",
            "profile_export.jsonl",
            "profile_export_aiperf.csv",
            "profile_export_aiperf.json",
            "profile_export_console.txt",
        ]
    );
}

#[test]
fn a_warmup_and_one_profiling_phase_have_both() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("warmup", PhaseKind::Warmup, 4), phase("only", PhaseKind::Profiling, 4)];
    let written = Synthetic::new(phases, 30, Options::default()).write(directory.path());
    assert!(written.failures.is_empty());
    let files = files(directory.path());
    for expected in [
        "phase_manifest.json",
        "phases/only/profile_export_aiperf.csv",
        "phases/only/profile_export_aiperf.json",
        "phases/warmup/profile_export_aiperf.csv",
        "phases/warmup/profile_export_aiperf.json",
    ] {
        assert!(files.iter().any(|file| file == expected), "{expected} is missing in {files:?}");
    }
    assert!(files.iter().all(|file| Path::new(file).extension().is_none_or(|ending| ending != "tmp")));
}

#[test]
fn endpoints_that_do_not_stream_have_no_streaming_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("a", PhaseKind::Profiling, 4), storm("b")];
    let options = Options { streaming: false, ..Options::default() };
    assert!(Synthetic::new(phases, 60, options).write(directory.path()).failures.is_empty());
    let streaming = ["time_to_first_token", "inter_token_latency", "inter_chunk_latency", "decode_duration"];
    let root: Value = serde_json::from_str(
        &fs::read_to_string(directory.path().join("profile_export_aiperf.json")).unwrap(),
    )
    .unwrap();
    let records = fs::read_to_string(directory.path().join("profile_export.jsonl")).unwrap();
    for tag in streaming {
        assert!(root[tag].is_null() && root[format!("adj_{tag}")].is_null(), "{tag} in the results");
        assert!(!records.contains(&format!("\"{tag}\"")), "{tag} in the records");
    }
    assert!(root["request_latency"].is_object() && root["adj_request_latency"].is_object());
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_the_others_are_written() {
    let directory = tempfile::tempdir().unwrap();
    // A directory stands where the file should go.
    fs::create_dir_all(directory.path().join("profile_export_aiperf.csv/in_the_way")).unwrap();
    let phases = vec![phase("a", PhaseKind::Profiling, 4), phase("b", PhaseKind::Profiling, 4)];
    let written = Synthetic::new(phases, 30, Options::default()).write(directory.path());
    assert_eq!(written.failures.len(), 1);
    let message = written.failures[0].to_string();
    assert!(message.contains("profile_export_aiperf.csv") && message.contains("artifacts.dir"), "{message}");
    let ready = fs::read_to_string(directory.path().join(".aiperf_results_ready.json")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["partial"], true);
    assert!(ready["failed_exporters"][0].as_str().unwrap().ends_with("profile_export_aiperf.csv"));
    assert!(directory.path().join("profile_export_aiperf.json").is_file());
    assert!(directory.path().join("phases/b/profile_export_aiperf.csv").is_file());
    assert!(written.tables.contains("phasor | LLM Metrics"), "the tables are shown all the same");
}

#[test]
fn inputs_are_listed_with_their_conversations_and_without_escapes() {
    let directory = tempfile::tempdir().unwrap();
    phasor::artifact::write_inputs(directory.path(), &dataset()).unwrap();
    let text = fs::read_to_string(directory.path().join("inputs.json")).unwrap();
    assert!(text.contains("wörds 0"));
    let inputs: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(inputs["data"].as_array().unwrap().len(), 3);
    assert_eq!(inputs["data"][1]["session_id"], "00000000-0000-4000-8000-000000000001");
    let payload = &inputs["data"][1]["payloads"][0];
    let order: Vec<&String> = payload.as_object().unwrap().keys().collect();
    assert_eq!(order, ["messages", "model", "stream"], "members stay in the order in which they are sent");
}

#[test]
fn the_console_shows_each_phase_everything_together_and_the_client() {
    let directory = tempfile::tempdir().unwrap();
    let phases =
        vec![phase("warmup", PhaseKind::Warmup, 2), storm("storm"), phase("calm", PhaseKind::Profiling, 4)];
    let written = Synthetic::new(phases, 100, Options::default()).write(directory.path());
    let text = fs::read_to_string(directory.path().join("profile_export_console.txt")).unwrap();
    let titles = [
        "phasor | Error Summary",
        "phasor | Phase warmup (warmup)",
        "phasor | Phase storm (profiling)",
        "phasor | Phase calm (profiling)",
        "phasor | LLM Metrics: Effective",
        "phasor | LLM Metrics: Usage",
        "phasor | LLM Metrics",
        "phasor | Client",
    ];
    let mut rest = text.as_str();
    for title in titles {
        let at = rest.find(title).unwrap_or_else(|| panic!("{title} is missing or out of order"));
        rest = &rest[at + title.len()..];
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 140, "{line}");
    }
    assert!(
        text.contains("│              Output Token Throughput Per User │"),
        "long headers break before the unit"
    );
    assert_eq!(written.tables, text);
    for line in ["CLI Command: phasor profile", "Benchmark Duration: ", "CSV Export: ", "JSON Export: "] {
        assert!(written.footer.contains(line), "{line}");
    }
}

#[test]
fn the_client_report_balances() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("a", PhaseKind::Profiling, 4), storm("b")];
    assert!(Synthetic::new(phases, 100, Options::default()).write(directory.path()).failures.is_empty());
    let text = fs::read_to_string(directory.path().join("client_report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let total = &report["total"];
    let scopes = report["phases"].as_array().unwrap().iter().chain([total]);
    let number = |scope: &Value, name: &str| scope[name].as_u64().unwrap();
    for scope in scopes {
        let dropped = number(&scope["dropped"], "at_capacity") + number(&scope["dropped"], "late");
        assert_eq!(number(scope, "planned"), number(scope, "sent") + dropped);
        let ended: u64 =
            ["ok", "failed", "cancelled", "abandoned"].iter().map(|name| number(scope, name)).sum();
        assert_eq!(number(scope, "sent"), ended);
        let late = &scope["lateness_ns"];
        assert!(number(late, "p50") <= number(late, "p99") && number(late, "p99") <= number(late, "max"));
        let counted = &scope["token_counting"];
        assert_eq!(number(&counted["osl"], "usage") + number(&counted["osl"], "chunks"), number(scope, "ok"));
        assert_eq!(number(&counted["isl"], "usage") + number(&counted["isl"], "rule"), number(scope, "ok"));
    }
    assert_eq!(number(total, "sent"), 200);
    // At most 200 good requests: enough for the median and the 90th percentile, too few for the 99th.
    for scope in [total, &report["phases"][0]] {
        for latency in ["request_latency", "time_to_first_token"] {
            let (service, response) =
                (&scope["service_latency_ns"][latency], &scope["response_latency_ns"][latency]);
            assert_eq!(number(service, "count"), number(scope, "ok"));
            assert_eq!(number(response, "count"), number(scope, "ok"));
            assert!(number(service, "max") < number(response, "max"), "the plan comes before the first byte");
            assert!(service["p99_interval"].is_null());
            let intervals = &scope["confidence_95_ns"][latency];
            let (low, high) = (intervals["p50"][0].as_f64().unwrap(), intervals["p50"][1].as_f64().unwrap());
            assert!(low < high && intervals["p90"].is_array() && intervals["p99"].is_null(), "{intervals}");
        }
    }
    assert_eq!(report["shards"].as_array().unwrap().len(), 2);
}

#[test]
fn a_directory_without_a_name_is_named_after_model_and_load() {
    let warmup = phase("warmup", PhaseKind::Warmup, 9);
    let mut counted = phase("load", PhaseKind::Profiling, 4);
    let named = |counted: &phasor::config::Phase| {
        directory_name(&config(vec![warmup.clone(), counted.clone()], true)).display().to_string()
    };
    assert_eq!(named(&counted), "artifacts/org_mock-model-openai-chat-concurrency4");
    counted.load = Load::Poisson { rate_per_s: 30.0, concurrency: Some(4) };
    assert_eq!(named(&counted), "artifacts/org_mock-model-openai-chat-concurrency4-request_rate30.0");
    counted.load = Load::Poisson { rate_per_s: 2.5, concurrency: None };
    assert_eq!(named(&counted), "artifacts/org_mock-model-openai-chat-request_rate2.5");
    let mut explicit = config(vec![counted], true);
    explicit.artifacts.dir = Some("some/where".into());
    assert_eq!(directory_name(&explicit), Path::new("some/where"));
}
