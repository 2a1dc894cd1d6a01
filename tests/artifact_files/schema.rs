//! The schema of `client_report.json` against the file, and the file against the schema.

use crate::json_schema;
use crate::synthetic::{Options, Synthetic, phase, storm};
use phasor::artifact::calibration::{Calibration, Floor};
use phasor::config::PhaseKind;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn load(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn schema() -> Value {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/client_report.schema.json"))
}

fn check(value: &Value) -> Vec<String> {
    let schema = schema();
    json_schema::faults(&schema, value, "report")
}

fn report() -> Value {
    let directory = tempfile::tempdir().unwrap();
    let phases = vec![phase("warmup", PhaseKind::Warmup, 2), phase("a", PhaseKind::Profiling, 4), storm("b")];
    let options = Options { varied_usage: true, ..Options::default() };
    assert!(Synthetic::new(phases, 500, options).write(directory.path()).failures.is_empty());
    load(&directory.path().join("client_report.json"))
}

#[test]
fn the_report_follows_its_schema() {
    let report = report();
    assert_eq!(check(&report), Vec::<String>::new());
    assert!(report["total"]["service_latency_ns"]["request_latency"]["p99_interval"].is_array());
}

#[test]
fn with_a_calibration_each_phase_has_its_share_and_the_floor() {
    let calibration = Calibration {
        requests_per_s: Some(50_000.0),
        reads_per_s: None,
        request_latency: Floor { p50: 30_000.0, p99: 50_000.0 },
        time_to_first_token: Floor { p50: 29_000.0, p99: 49_000.0 },
    };
    let write = |calibration: Calibration| {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { calibration: Some(calibration), ..Options::default() };
        let phases = vec![phase("a", PhaseKind::Profiling, 4)];
        assert!(Synthetic::new(phases, 500, options).write(directory.path()).failures.is_empty());
        let report = load(&directory.path().join("client_report.json"));
        assert_eq!(check(&report), Vec::<String>::new());
        report["phases"][0].clone()
    };
    let seconds = |phase: &Value| {
        let at = |name: &str| phase[name].as_u64().unwrap() as f64 / 1e9;
        at("end_ns") - at("start_ns")
    };
    let close = |left: f64, right: f64| (left - right).abs() < 1e-6 * right;

    let bound_by_requests = write(calibration);
    let phase = &bound_by_requests["calibration"];
    assert_eq!(phase["used_of"], "requests");
    assert_eq!(phase["floor_ns"]["request_latency"]["p50"], 30_000.0);
    assert_eq!(phase["floor_ns"]["time_to_first_token"]["p99"], 49_000.0);
    let completed: u64 =
        ["ok", "failed", "cancelled"].iter().map(|name| bound_by_requests[name].as_u64().unwrap()).sum();
    // Two shards drove it.
    let expected = completed as f64 / seconds(&bound_by_requests) / 100_000.0;
    assert!(close(phase["used_share"].as_f64().unwrap(), expected), "{phase} {expected}");

    // Reads that cost more than the requests are what binds.
    let bound_by_reads = write(Calibration { reads_per_s: Some(1.0), ..calibration });
    assert_eq!(bound_by_reads["calibration"]["used_of"], "reads");

    let nothing_known = write(Calibration { requests_per_s: None, ..calibration });
    assert!(nothing_known["calibration"].get("used_share").is_none());
}

#[test]
fn the_schema_refuses_what_the_report_never_says() {
    let good = report();
    for (pointer, wrong) in [
        ("/total/planned", serde_json::json!(-1)),
        ("/phases/0/phase_kind", serde_json::json!("cooldown")),
        ("/total/lateness_ns/max", serde_json::json!(1.5)),
        ("/total/percentile_method", serde_json::json!("guess")),
        ("/total/tls/resumed", serde_json::json!(-1)),
        ("/warnings/0", serde_json::json!(7)),
        ("/shards/0/busy_share", serde_json::json!(1.5)),
        ("/schema_version", serde_json::json!(2)),
    ] {
        let mut report = good.clone();
        *report.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = wrong;
        assert_eq!(check(&report).len(), 1, "{pointer}");
    }
    let mut report = good.clone();
    report["total"]["foreign"] = Value::Null;
    assert_eq!(check(&report).len(), 1);
    let mut report = good;
    report["phases"][0].as_object_mut().unwrap().remove("sent");
    assert_eq!(check(&report).len(), 1);
}
