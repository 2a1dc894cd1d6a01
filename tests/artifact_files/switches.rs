//! What the switches of a config add, take away and rename; objectives; and files that cannot be written.

use crate::shapes::files;
use crate::synthetic::{Options, Synthetic, phase, storm};
use phasor::artifact::RecordLines;
use phasor::config::{Load, Phase, PhaseKind};
use phasor::measure::{Judgement, RecordBatch};
use phasor::time::Nanos;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn load(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn golden() -> Value {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden/slices_and_traces.json"))
}

fn two_phases() -> Vec<phasor::config::Phase> {
    vec![phase("warmup", PhaseKind::Warmup, 2), phase("a", PhaseKind::Profiling, 4)]
}

/// As the golden runs were: every reply has usage, nothing fails.
fn calm() -> Options {
    Options { failed_percent: 0, varied_usage: false, ..Options::default() }
}

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_prefix_renames_and_no_summary_leaves_the_tables_of_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Synthetic::new(two_phases(), 30, calm());
    let artifacts = &mut run.config.artifacts;
    (artifacts.prefix, artifacts.summary_json) = (Some("foo".to_owned()), false);
    let written = run.write(directory.path());
    assert!(written.failures.is_empty());
    // The synthetic run writes its record file itself; server metrics are another exporter's.
    let expected = [
        ".aiperf_results_ready.json",
        "client_report.json",
        "foo.csv",
        "foo.jsonl",
        "foo_console.txt",
        "inputs.json",
        "phase_manifest.json",
        "phases/a/foo.csv",
        "phases/warmup/foo.csv",
    ];
    assert_eq!(files(directory.path()), expected);
    let manifest = load(&directory.path().join("phase_manifest.json"));
    assert_eq!(manifest["phases"][1]["metrics_csv"], "phases/a/foo.csv");
    assert!(manifest["phases"].as_array().unwrap().iter().all(|entry| entry["metrics_json"].is_null()));
    assert!(written.footer.contains("foo.csv") && !written.footer.contains("JSON Export"));
}

#[test]
fn slices_have_the_shape_of_the_reference_and_hold_every_request_once() {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("warmup", PhaseKind::Warmup, 2), phase("a", PhaseKind::Profiling, 4)];
    let judgement = Judgement::new([("time_to_first_token", 15.0)]).unwrap();
    let mut run = Synthetic::judged(phases, 600, calm(), judgement);
    run.config.artifacts.slice_duration = Some(Nanos::from_millis(250));
    let written = run.write(directory.path());
    assert!(written.failures.is_empty() && written.missing.is_empty());
    let file = load(&directory.path().join("profile_export_aiperf_timeslices.json"));
    let slices = file["timeslices"].as_array().unwrap();
    let golden = golden();
    let comparisons =
        ["usage_prompt_tokens_diff_pct", "usage_completion_tokens_diff_pct", "usage_discrepancy_count"];
    let mut expected = names(&golden["slice_metrics"]);
    for name in comparisons {
        assert!(expected.remove(name), "{name} needs a client tokenizer");
    }
    let mut completed = 0.0;
    for slice in slices {
        let metrics: BTreeSet<&str> =
            names(slice).into_iter().filter(|name| slice[*name].is_object()).collect();
        assert_eq!(metrics, expected);
        for name in metrics {
            let theirs = &golden["slice_metrics"][name];
            assert_eq!(slice[name]["unit"], theirs["unit"], "{name}");
            let keys: Vec<&str> = slice[name]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .filter(|key| *key != "unit")
                .collect();
            let expected: Vec<&str> =
                theirs["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
            assert_eq!(keys, expected, "{name}");
        }
        completed += slice["completed_request_count"]["avg"].as_f64().unwrap();
        // The width of the slice is what rates divide by.
        let seconds = (slice["end_ns"].as_u64().unwrap() - slice["start_ns"].as_u64().unwrap()) as f64 / 1e9;
        let rate = slice["request_throughput"]["avg"].as_f64().unwrap();
        assert!((rate * seconds - slice["request_count"]["avg"].as_f64().unwrap()).abs() < 1e-6);
    }
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    assert!((completed - root["completed_request_count"]["avg"].as_f64().unwrap()).abs() < 0.5);
    assert!(slices.len() > 2);
    let others: Vec<&str> = names(&slices[slices.len() - 1])
        .into_iter()
        .filter(|name| !slices[slices.len() - 1][*name].is_object())
        .collect();
    assert_eq!(others, ["end_ns", "is_complete", "start_ns"]);
    assert!(slices[0]["is_complete"].is_null());
    assert_eq!(names(&file), BTreeSet::from(["input_config", "timeslices"]));

    let text = fs::read_to_string(directory.path().join("profile_export_aiperf_timeslices.csv")).unwrap();
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(header, texts(&golden["csv_header"]));
    let mut mine: Vec<(String, String, Vec<String>)> = Vec::new();
    for row in rows.records().map(Result::unwrap).take_while(|row| &row[0] == "0") {
        match mine.last_mut() {
            Some((metric, _, statistics)) if *metric == row[3] => statistics.push(row[5].to_owned()),
            Some(_) | None => mine.push((row[3].to_owned(), row[4].to_owned(), vec![row[5].to_owned()])),
        }
    }
    let unwritten = ["Usage Prompt Diff %", "Usage Completion Diff %", "Usage Discrepancy Count"];
    let theirs: Vec<(String, String, Vec<String>)> = golden["csv_rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row[0].as_str().unwrap().to_owned(), row[1].as_str().unwrap().to_owned(), texts(&row[2])))
        .filter(|(metric, _, _)| !unwritten.contains(&metric.as_str()))
        .collect();
    assert_eq!(mine, theirs);
}

#[test]
fn traces_have_the_members_of_the_reference_as_far_as_they_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { failed_percent: 30, ..Options::default() };
    let mut run = Synthetic::new(vec![storm("storm")], 100, options);
    run.config.artifacts.trace = true;
    assert!(run.write(directory.path()).failures.is_empty());
    let golden = golden();
    // What phasor does not keep of an exchange.
    let unknown = ["local_ip", "local_port", "request_headers", "response_headers", "response_reason"];
    let text = fs::read_to_string(directory.path().join("profile_export.jsonl")).unwrap();
    let (mut fresh, mut reused, mut failed, mut answered) = (0, 0, 0, 0);
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let trace = &record["trace_data"];
        if !record["error"].is_null() {
            assert!(trace["error_timestamp_ns"].is_u64());
            let status = record["error"]["code"]
                .as_u64()
                .filter(|_| record["error"]["type"] != "RequestCancellationError");
            let named = status.is_some_and(|status| trace["response_status_code"] == status);
            assert_eq!(trace["response_reason"].is_string(), named, "{record}");
            answered += u32::from(named);
            failed += 1;
            continue;
        }
        let theirs = if trace["tcp_connect_start_ns"].is_u64() {
            fresh += 1;
            &golden["trace_new"]
        } else {
            reused += 1;
            &golden["trace_reused"]
        };
        let mut expected = names(theirs);
        for name in unknown {
            assert!(expected.remove(name), "{name}");
        }
        assert_eq!(names(trace), expected);
        assert_eq!((&trace["remote_ip"], &trace["remote_port"]), (&"127.0.0.1".into(), &18_000.into()));
        let number = |name: &str| trace[name].as_u64().unwrap();
        assert_eq!(number("sending_ns"), number("request_send_end_ns") - number("request_send_start_ns"));
        assert_eq!(number("waiting_ns"), number("response_receive_start_ns") - number("request_send_end_ns"));
        let sum = number("sending_ns") + number("waiting_ns") + number("receiving_ns");
        assert_eq!(number("duration_ns"), sum);
    }
    assert!(
        fresh > 0 && reused > 0 && failed > answered && answered > 0,
        "{fresh} {reused} {failed} {answered}"
    );
}

#[test]
fn objectives_are_judged_in_records_results_and_rates() {
    let directory = tempfile::tempdir().unwrap();
    let slos = [("time_to_first_token", 15.0), ("output_sequence_length", 8.0)];
    let judgement = Judgement::new(slos).unwrap();
    let run = Synthetic::judged(two_phases(), 100, Options::default(), judgement);
    assert!(run.write(directory.path()).failures.is_empty());
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    let golden = golden();
    for (name, shape) in golden["slo_metrics"].as_object().unwrap() {
        assert_eq!(root[name]["unit"], shape["unit"], "{name}");
        assert_eq!(names(&root[name]), BTreeSet::from(["avg", "unit"]), "{name}");
    }
    let text = fs::read_to_string(directory.path().join("profile_export.jsonl")).unwrap();
    let (mut held, mut all) = (0.0, 0.0);
    for record in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if record["metadata"]["benchmark_phase"] == "warmup" {
            continue;
        }
        all += 1.0;
        let metrics = &record["metrics"];
        if record["error"].is_null() {
            // A first token no later than 15 ms, and no fewer than 8 tokens: the limits themselves are good.
            let good = metrics["time_to_first_token"]["value"].as_f64().unwrap() <= 15.0
                && metrics["output_sequence_length"]["value"].as_u64().unwrap() >= 8;
            assert_eq!(metrics["good_request_count"]["value"].as_u64(), Some(u64::from(good)));
            assert_eq!(metrics["good_request_count"]["unit"], golden["record_slo"]["unit"]);
            held += f64::from(u8::from(good));
        } else {
            assert!(metrics["good_request_count"].is_null());
        }
    }
    assert!(held > 0.0 && held < all);
    let single = |name: &str| root[name]["avg"].as_f64().unwrap();
    assert!((single("good_request_count") - held).abs() < 1e-9);
    assert!((single("good_request_fraction") - held / all).abs() < 1e-9);
    let goodput = single("request_throughput") / single("request_count") * held;
    assert!((single("goodput") - goodput).abs() < 1e-9);
}

#[test]
fn replies_of_another_length_than_asked_for_are_warned_about() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Synthetic::new(two_phases(), 100, calm());
    run.config.artifacts.show_trace_timing = true;
    let tables = run.write(directory.path()).tables;
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    let mismatched = root["osl_mismatch_count"]["avg"].as_f64().unwrap();
    assert!(mismatched > 0.0);
    assert!(tables.contains("Output Sequence Length Mismatch Warning"));
    assert!(tables.contains(&format!("{mismatched} of 100 requests")), "{tables}");
    assert!(tables.contains("phasor | HTTP Trace Timing") && tables.contains("HTTP Waiting (TTFB) (ms)"));
    assert!(tables.lines().all(|line| line.chars().count() <= 140));
}

#[test]
fn a_full_disk_and_a_directory_in_the_way_are_named_and_cost_nothing_else() {
    // A device that is always full.
    let run = Synthetic::new(two_phases(), 30, calm());
    let mut lines = RecordLines::new(&run.config, &run.dataset, run.clock, Arc::default());
    let mut batch = RecordBatch::with_capacity(4);
    let (record, gaps) = &run.records[0];
    assert!(batch.push(record, gaps));
    let mut full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(lines.write(&mut full, &batch).unwrap_err().kind(), std::io::ErrorKind::StorageFull);

    // A file stands where the directory of phases should be.
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("phases"), b"in the way").unwrap();
    let written = run.write(directory.path());
    assert_eq!(written.failures.len(), 4, "two files of each of two phases");
    for failure in &written.failures {
        let message = failure.to_string();
        assert!(message.contains("phases/") && message.contains("artifacts.dir"), "{message}");
    }
    for name in ["profile_export_aiperf.json", "phase_manifest.json", "client_report.json"] {
        assert!(directory.path().join(name).is_file(), "{name}");
    }
    let ready = load(&directory.path().join(".aiperf_results_ready.json"));
    assert_eq!(ready["failed_exporters"].as_array().unwrap().len(), 4);
}

#[test]
fn slices_that_cannot_be_made_are_said_to_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = Synthetic::new(two_phases(), 100, Options { samples_max: 10, ..calm() });
    run.config.artifacts.slice_duration = Some(Nanos::from_millis(50));
    let written = run.write(directory.path());
    assert!(written.failures.is_empty());
    assert_eq!(written.missing.len(), 1);
    assert!(written.missing[0].starts_with("no time slices"), "{}", written.missing[0]);
    assert!(!directory.path().join("profile_export_aiperf_timeslices.json").exists());
    let report = load(&directory.path().join("client_report.json"));
    assert_eq!(report["phases"][0]["time_weighted_from"], "absent");
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    assert!(root["effective_concurrency"].is_null() && root["request_latency"].is_object());
}

#[test]
fn a_replayed_schedule_says_how_well_it_was_kept_and_no_other_load_does() {
    let directory = tempfile::tempdir().unwrap();
    let replayed = Phase {
        load: Load::FixedSchedule {
            auto_offset: true,
            start_offset_ms: None,
            end_offset_ms: None,
            concurrency: None,
        },
        ..phase("replayed", PhaseKind::Profiling, 4)
    };
    let made = phase("warmup", PhaseKind::Warmup, 2);
    let run = Synthetic::new(vec![made, replayed], 100, Options::default());
    assert!(run.write(directory.path()).failures.is_empty());
    let root = load(&directory.path().join("profile_export_aiperf.json"));
    let late = |name: &str| root["credit_to_start_latency"][name].as_f64().unwrap();
    for name in ["p50", "p90", "p99"] {
        let lag = root[format!("replay_sched_lag_{name}")]["avg"].as_f64().unwrap();
        assert!((lag - (late(name) - late("min"))).abs() < 1e-9, "{name}: {lag}");
    }
    assert_eq!(root["replay_sched_degraded"]["avg"], 0.0);
    let csv = fs::read_to_string(directory.path().join("profile_export_aiperf.csv")).unwrap();
    assert!(
        csv.contains("Replay Schedule Lag p99 (ms),") && csv.contains("Replay Schedule Degraded,0.00"),
        "{csv}"
    );
    let warmup = load(&directory.path().join("phases/warmup/profile_export_aiperf.json"));
    assert!(warmup["request_latency"].is_object());
    for tag in ["replay_sched_lag_p50", "replay_sched_degraded"] {
        assert!(warmup[tag].is_null() && root["warmup_metrics"][tag].is_null());
    }
}
