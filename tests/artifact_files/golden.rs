//! Members, units, rows and keys are those of the reference program: nothing foreign, nothing renamed.

use crate::synthetic::{Options, Synthetic, phase, storm};
use phasor::config::PhaseKind;
use phasor::measure::Judgement;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the reference has and phasor does not write: comparisons with a client tokenizer, and GPU telemetry. A
/// metric that is added must leave this list.
const NOT_WRITTEN: [&str; 5] = [
    "telemetry_data",
    "usage_completion_tokens_diff_pct",
    "usage_discrepancy_count",
    "usage_prompt_tokens_diff_pct",
    "usage_reasoning_tokens_diff_pct",
];

fn golden(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden").join(name)).unwrap()
}

fn load(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A run like the golden one: usage as the mock reports it, no failures but the cancellations.
fn write_like_golden(directory: &Path, phases: Vec<phasor::config::Phase>) {
    let options = Options { failed_percent: 0, varied_usage: false, ..Options::default() };
    let written = Synthetic::new(phases, 120, options).write(directory);
    assert!(written.failures.is_empty(), "{:?}", written.failures);
}

fn four_phases() -> Vec<phasor::config::Phase> {
    vec![
        phase("warmup", PhaseKind::Warmup, 2),
        phase("baseline_traffic", PhaseKind::Profiling, 4),
        storm("cancellation_stress"),
        phase("recovery_traffic", PhaseKind::Profiling, 4),
    ]
}

fn names(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

fn without_unwritten(names: BTreeSet<String>) -> BTreeSet<String> {
    names.into_iter().filter(|name| !NOT_WRITTEN.contains(&name.as_str())).collect()
}

/// Metrics: the same tags, units and statistics.
fn same_metrics(mine: &Value, theirs: &Value) {
    let metrics = |object: &Value| -> BTreeSet<String> {
        let members = object.as_object().unwrap();
        members.iter().filter(|(_, value)| value["unit"].is_string()).map(|(tag, _)| tag.clone()).collect()
    };
    assert_eq!(metrics(mine), without_unwritten(metrics(theirs)));
    for tag in metrics(mine) {
        assert_eq!(mine[&tag]["unit"], theirs[&tag]["unit"], "{tag}");
        let keys: Vec<&str> =
            mine[&tag].as_object().unwrap().keys().map(String::as_str).filter(|key| *key != "unit").collect();
        let expected: Vec<&str> =
            theirs[&tag]["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        if tag.starts_with("adj_") {
            // How many percentiles are finite depends on the share of errors.
            assert!(keys.iter().all(|key| key.starts_with('p') || ["min", "count"].contains(key)), "{tag}");
        } else {
            assert_eq!(keys, expected, "{tag}: the keys and their order");
        }
    }
}

#[test]
fn the_results_have_the_members_units_and_keys_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    write_like_golden(directory.path(), four_phases());
    let shapes: Value = serde_json::from_str(&golden("shapes.json")).unwrap();
    let theirs = &shapes["basic-multiphase"];
    let mine = load(&directory.path().join("profile_export_aiperf.json"));
    same_metrics(&mine, &theirs["metrics"]);
    same_metrics(&mine["warmup_metrics"], &theirs["warmup_metrics"]);
    let others: BTreeSet<String> =
        names(&mine).into_iter().filter(|name| !mine[name]["unit"].is_string()).collect();
    let expected = theirs["members"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    assert_eq!(others, without_unwritten(expected.collect()));
    // The run information has a seed besides, since the synthetic config names one.
    assert_eq!(mine["run_info"]["random_seed"], 42);
    assert_eq!(mine["schema_version"], "1.4");
    assert_eq!(mine["aiperf_version"], "0.13.0");
    let time = mine["start_time"].as_str().unwrap();
    assert_eq!(time.len(), "2026-11-30T15:51:39.729593".len(), "{time}");
    let configured = mine["input_config"]["artifacts"]["dir"].as_str().unwrap();
    assert_eq!(Path::new(configured), directory.path());
}

#[test]
fn one_phase_and_several_warmups_have_the_shapes_of_the_reference_too() {
    let shapes: Value = serde_json::from_str(&golden("shapes.json")).unwrap();
    let only = vec![phase("only", PhaseKind::Profiling, 4)];
    let warmups = vec![
        phase("warm_one", PhaseKind::Warmup, 2),
        phase("warm_two", PhaseKind::Warmup, 2),
        phase("load", PhaseKind::Profiling, 4),
    ];
    for (case, phases) in [("single-profiling", only), ("several-warmups", warmups)] {
        let directory = tempfile::tempdir().unwrap();
        write_like_golden(directory.path(), phases);
        let mine = load(&directory.path().join("profile_export_aiperf.json"));
        same_metrics(&mine, &shapes[case]["metrics"]);
        assert_eq!(mine["warmup_metrics"].is_object(), shapes[case]["warmup_metrics"].is_object(), "{case}");
        if mine["warmup_metrics"].is_object() {
            same_metrics(&mine["warmup_metrics"], &shapes[case]["warmup_metrics"]);
        }
    }
}

/// What a metric's members make it.
fn kind(metric: &Value) -> &'static str {
    let keys = names(metric);
    if keys.len() == 2 && keys.contains("avg") {
        "single"
    } else if keys.contains("p1") && keys.contains("sum") {
        "full"
    } else if keys.contains("p50") && keys.contains("std") {
        "weighted"
    } else {
        "adjusted"
    }
}

#[test]
fn every_result_file_of_every_golden_run_has_its_counterpart() {
    let golden: Value = serde_json::from_str(&golden("metric_sets.json")).unwrap();
    for (case, scopes) in golden["cases"].as_object().unwrap() {
        let mut phases = Vec::new();
        for entry in scopes["phases"].as_array().unwrap() {
            let (name, set) = (entry[0].as_str().unwrap(), entry[2].as_str().unwrap());
            let mut phase = match set {
                "errors" => storm(name),
                "nothing good" => {
                    let mut phase = storm(name);
                    phase.cancellation.as_mut().unwrap().rate_percent = 100.0;
                    phase
                }
                _ => phase(name, PhaseKind::Profiling, 4),
            };
            phase.kind = if entry[1] == "warmup" { PhaseKind::Warmup } else { PhaseKind::Profiling };
            phases.push(phase);
        }
        if phases.is_empty() {
            phases.push(phase("only", PhaseKind::Profiling, 4));
        }
        let judgement = match scopes["root"].as_str().unwrap() {
            "objectives" => Judgement::new([("request_latency", 125.0)]).unwrap(),
            _ => Judgement::default(),
        };
        let varied_usage = scopes["root"] == "server tokens";
        let options = Options { failed_percent: 0, varied_usage, ..Options::default() };
        let directory = tempfile::tempdir().unwrap();
        let run = Synthetic::judged(phases, 120, options, judgement);
        assert!(run.write(directory.path()).failures.is_empty());
        let check = |scope: &str, mine: &Value, set: &Value| {
            let set = &golden["sets"][set.as_str().unwrap()];
            let expected: BTreeSet<String> =
                set.as_array().unwrap().iter().map(|tag| tag.as_str().unwrap().to_owned()).collect();
            let metrics: BTreeSet<String> =
                names(mine).into_iter().filter(|tag| mine[tag]["unit"].is_string()).collect();
            assert_eq!(metrics, without_unwritten(expected), "{case}: {scope}");
            for tag in metrics {
                let theirs = &golden["metrics"][&tag];
                assert_eq!(mine[&tag]["unit"], theirs[0], "{case}: {scope}: {tag}");
                assert_eq!(kind(&mine[&tag]), theirs[1], "{case}: {scope}: {tag}");
            }
        };
        let root = load(&directory.path().join("profile_export_aiperf.json"));
        check("root", &root, &scopes["root"]);
        assert_eq!(root["warmup_metrics"].is_null(), scopes["warmup_metrics"].is_null(), "{case}");
        if root["warmup_metrics"].is_object() {
            check("warmup_metrics", &root["warmup_metrics"], &scopes["warmup_metrics"]);
        }
        for entry in scopes["phases"].as_array().unwrap() {
            let name = entry[0].as_str().unwrap();
            let file = format!("phases/{name}/profile_export_aiperf.json");
            check(name, &load(&directory.path().join(file)), &entry[2]);
        }
    }
}

#[test]
fn leading_members_stand_in_the_order_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    write_like_golden(directory.path(), four_phases());
    let mine = load(&directory.path().join("profile_export_aiperf.json"));
    let order: Vec<&str> = mine.as_object().unwrap().keys().map(String::as_str).collect();
    let declared = [
        "schema_version",
        "aiperf_version",
        "benchmark_id",
        "request_throughput",
        "request_latency",
        "request_count",
        "time_to_first_token",
        "time_to_second_token",
        "inter_token_latency",
        "output_token_throughput",
        "output_token_throughput_per_user",
        "output_sequence_length",
        "input_sequence_length",
        "output_token_count",
        "inter_chunk_latency",
        "total_output_tokens",
        "benchmark_duration",
        "total_isl",
        "total_osl",
        "error_request_count",
        "error_isl",
        "total_error_isl",
        "input_config",
        "run_info",
        "was_cancelled",
        "is_complete",
        "error_summary",
        "start_time",
        "end_time",
        "warmup_metrics",
    ];
    assert_eq!(order[..declared.len()], declared);
}

#[test]
fn csv_rows_are_named_and_sorted_as_in_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    write_like_golden(directory.path(), four_phases());
    let text = fs::read_to_string(directory.path().join("profile_export_aiperf.csv")).unwrap();
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    let shapes: Value = serde_json::from_str(&golden("shapes.json")).unwrap();
    let tables: Vec<&str> = text.split("\r\n\r\n").collect();
    assert_eq!(tables.len(), 2);
    assert!(tables[0].starts_with("Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std\r\n"));
    assert!(tables[1].starts_with("Metric,Value\r\n"));
    for (table, theirs) in tables.iter().zip(shapes["basic-multiphase"]["csv"].as_array().unwrap()) {
        let mine: Vec<&str> = table.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        let theirs: Vec<&str> = theirs.as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
        let mut rest = theirs.iter();
        for row in &mine {
            assert!(rest.any(|theirs| theirs == row), "{row} is foreign or out of order");
        }
        // What is missing needs a client tokenizer.
        for row in theirs.iter().filter(|row| !mine.contains(row)) {
            let known = ["Usage Prompt Diff", "Usage Completion Diff", "Usage Discrepancy"];
            assert!(known.iter().any(|word| row.contains(word)), "{row} is missing");
        }
        for line in table.lines().skip(1) {
            for cell in line.split(',').skip(1).filter(|cell| !cell.is_empty()) {
                assert!(cell.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 2), "{line}");
            }
        }
    }
}

#[test]
fn the_manifest_has_the_keys_and_the_spelling_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    write_like_golden(directory.path(), four_phases());
    let text = fs::read_to_string(directory.path().join("phase_manifest.json")).unwrap();
    assert!(text.ends_with("}\n"));
    let mine: Value = serde_json::from_str(&text).unwrap();
    let theirs: Value = serde_json::from_str(&golden("phase_manifest.json")).unwrap();
    assert_eq!(mine["schema_version"], theirs["schema_version"]);
    let (mine, theirs) = (mine["phases"].as_array().unwrap(), theirs["phases"].as_array().unwrap());
    assert_eq!(mine.len(), theirs.len());
    for (mine, theirs) in mine.iter().zip(theirs) {
        let keys: Vec<&String> = mine.as_object().unwrap().keys().collect();
        let expected: Vec<&String> = theirs.as_object().unwrap().keys().collect();
        assert_eq!(keys, expected, "the same keys in the same, sorted order");
        for name in
            ["phase_index", "profiling_index", "phase_name", "phase_kind", "metrics_json", "metrics_csv"]
        {
            assert_eq!(mine[name], theirs[name]);
        }
    }
    let detail = |phases: &[Value]| names(&phases[2]["error_summary"][0]["error_details"]);
    assert_eq!(detail(mine), detail(theirs));
}

fn keys_of_records(text: &str) -> Vec<(Value, BTreeSet<String>)> {
    text.lines()
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            let keys = names(&record["metadata"]);
            (record, keys)
        })
        .collect()
}

#[test]
fn record_lines_have_the_keys_units_and_number_types_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { failed_percent: 20, varied_usage: false, ..Options::default() };
    assert!(Synthetic::new(four_phases(), 300, options).write(directory.path()).failures.is_empty());
    let text = fs::read_to_string(directory.path().join("profile_export.jsonl")).unwrap();
    assert!(!text.contains("null"), "absent members are left out");
    let mine = keys_of_records(&text);
    let theirs = keys_of_records(&golden("records.jsonl"));
    let mut compared = 0;
    for (their_record, their_keys) in &theirs {
        let kind = (
            &their_record["metadata"]["benchmark_phase"],
            &their_record["error"]["type"],
            their_record["metrics"]["inter_token_latency"].is_object(),
        );
        let like = mine.iter().find(|(record, _)| {
            let metadata = &record["metadata"];
            let same_kind = record["error"]["type"] == *kind.1
                && record["metrics"]["inter_token_latency"].is_object() == kind.2;
            same_kind && (kind.1.is_string() || metadata["benchmark_phase"] == *kind.0)
        });
        let Some((record, keys)) = like else { continue };
        compared += 1;
        let (mut keys, mut their_keys) = (keys.clone(), their_keys.clone());
        if record["metadata"]["benchmark_phase"] != their_record["metadata"]["benchmark_phase"] {
            for keys in [&mut keys, &mut their_keys] {
                keys.remove("profiling_index");
            }
        }
        if *kind.1 == "TimeoutError" {
            // The reference's request had no answer at all, the synthetic one had its headers.
            keys.remove("request_ack_ns");
        }
        assert_eq!(keys, their_keys);
        assert_eq!(names(&record["metrics"]), without_unwritten(names(&their_record["metrics"])));
        for (tag, metric) in record["metrics"].as_object().unwrap() {
            let theirs = &their_record["metrics"][tag];
            assert_eq!(metric["unit"], theirs["unit"], "{tag}");
            let number = |value: &Value| (value.is_u64(), value.is_f64(), value.is_array());
            assert_eq!(number(&metric["value"]), number(&theirs["value"]), "{tag}");
        }
        if kind.1.is_string() {
            assert_eq!(names(&record["error"]), names(&their_record["error"]));
            if *kind.1 != "RequestCancellationError" {
                assert_eq!(record["error"]["cause"], their_record["error"]["cause"]);
                assert_eq!(record["error"]["cause_chain"], their_record["error"]["cause_chain"]);
            }
        }
    }
    assert!(compared >= 5, "only {compared} golden records had a counterpart");
}

#[test]
fn record_stamps_tell_when_things_happened() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { failed_percent: 20, ..Options::default() };
    let synthetic = Synthetic::new(four_phases(), 100, options);
    let expected: Vec<_> = synthetic.records.iter().map(|(record, _)| record.clone()).collect();
    let clock = synthetic.clock;
    assert!(synthetic.write(directory.path()).failures.is_empty());
    let text = fs::read_to_string(directory.path().join("profile_export.jsonl")).unwrap();
    let (mut cancelled, mut refused) = (0, 0);
    assert_eq!(text.lines().count(), expected.len());
    for (line, record) in text.lines().zip(expected) {
        let line: Value = serde_json::from_str(line).unwrap();
        let metadata = &line["metadata"];
        assert_eq!(metadata["session_num"], record.number);
        assert_eq!(metadata["credit_issued_ns"], clock.unix_ns(record.planned));
        assert_eq!(metadata["request_start_ns"], clock.unix_ns(record.issued));
        let id = metadata["x_request_id"].as_str().unwrap().replace('-', "");
        assert_eq!(u128::from_str_radix(&id, 16).unwrap(), record.request_id);
        assert_eq!(metadata["root_correlation_id"], metadata["x_correlation_id"]);
        if metadata["was_cancelled"] == true {
            cancelled += 1;
            assert_eq!(metadata["request_end_ns"], clock.unix_ns(record.ended));
            assert_eq!(metadata["cancellation_time_ns"], metadata["request_end_ns"]);
            assert_eq!(line["error"]["code"], 499);
        } else if line["error"]["code"] == 503 {
            refused += 1;
            assert_eq!(metadata["request_end_ns"], metadata["request_start_ns"]);
            assert!(metadata["request_ack_ns"].is_null());
        } else {
            assert_eq!(metadata["request_end_ns"], clock.unix_ns(record.ended));
        }
    }
    assert!(cancelled > 5 && refused > 5, "{cancelled} cancelled, {refused} refused");
}
