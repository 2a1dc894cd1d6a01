//! `phasor calibrate` on this machine, and runs with its figures or those of another one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const CONFIG: &str = "benchmark:\n  model: m\n  endpoint: {url: 'http://127.0.0.1:1', type: chat, streaming: true}\n  dataset: {type: synthetic, entries: 4, prompts: {isl: 8, osl: 4}}\n  tokenizer: {name: none}\n  phases:\n    - {name: profiling, type: concurrency, concurrency: 2, requests: 40}\n";

fn phasor(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_phasor")).current_dir(directory).args(arguments).output().unwrap()
}

fn profile(directory: &Path, more: &[&str]) -> Output {
    std::fs::write(directory.join("config.yaml"), CONFIG).unwrap();
    let mut arguments =
        vec!["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none", "--mock"];
    arguments.extend_from_slice(more);
    phasor(directory, &arguments)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn at(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {value:#}"))
}

#[test]
fn figures_are_measured_written_and_held_against_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = directory.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .current_dir(directory.path())
        .env("TMPDIR", &scratch)
        .args(["calibrate", "--quick"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "something is left behind");

    let path = directory.path().join("client_profile.json");
    let figures = json(&path);
    assert_eq!(figures["schema_version"], 1);
    assert_eq!(figures["length"], "quick");
    assert!(figures["machine"]["kernel"].is_string(), "{figures:#}");
    for shape in ["one_token_per_write", "whole_replies"] {
        let of = |name: &str| at(&figures, &format!("/ceiling/{shape}/{name}"));
        let (requests, events) = (of("requests_per_s"), of("events_per_s"));
        // Twenty-odd tokens and some more messages a request.
        assert!(events > 20.0 * requests && requests > 1.0, "{figures:#}");
        // The shard was busy for a part of the time at most, so it could do at least what it did (its
        // processor time has the start and the end of the run in it, too).
        assert!(requests >= 0.9 * of("delivered_requests_per_s"), "{figures:#}");
        assert!(of("bytes_per_s") > events && (0.0..=1.0).contains(&of("busy_share")), "{figures:#}");
    }
    for latency in ["request_latency", "time_to_first_token"] {
        let of = |name: &str| at(&figures, &format!("/floor_ns/{latency}/{name}"));
        assert!(of("p50") > 1_000.0 && of("p99") >= of("p50"), "{figures:#}");
    }
    let wake = |name: &str| at(&figures, &format!("/wake_up_ns/{name}"));
    assert!(wake("p50") <= wake("p99") && wake("p99") <= wake("max") && wake("max") > 0.0);
    assert!(wake("spin_window") > 0.0 && wake("spin_window") <= 200_000.0);
    assert!(at(&figures, "/clock_ns") > 1.0);
    let lateness = figures["lateness"].as_array().unwrap();
    assert_eq!(lateness.len(), 3);
    for (load, share) in lateness.iter().zip([0.25, 0.5, 0.75]) {
        assert!((at(load, "/share") - share).abs() < 1e-9);
        assert!(at(load, "/count") > 0.0 && at(load, "/p99_ns") >= at(load, "/p50_ns"), "{load}");
        let planned = at(&figures, "/ceiling/whole_replies/requests_per_s") * share;
        assert!((at(load, "/planned_per_s") - planned).abs() < 1e-6 * planned, "{load}");
    }
    let table = String::from_utf8(output.stdout).unwrap();
    for words in ["whole replies", "spin window", "lateness at 75 %", "client_profile.json"] {
        assert!(table.contains(words), "{table}");
    }

    let output = profile(directory.path(), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
    let report = json(&directory.path().join("out/client_report.json"));
    let phase = &report["phases"][0]["calibration"];
    assert!(at(phase, "/used_share") > 0.0, "{phase}");
    let floor = at(&figures, "/floor_ns/request_latency/p50");
    assert!((at(phase, "/floor_ns/request_latency/p50") - floor).abs() < 1e-6, "{phase}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("Head-room: profiling used"), "{shown}");

    // The same figures under another kernel are those of another machine.
    let mut foreign = figures;
    foreign["machine"]["kernel"] = "6.1.0-elsewhere".into();
    std::fs::write(&path, foreign.to_string()).unwrap();
    let output = profile(directory.path(), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("its kernel is 6.1.0-elsewhere"), "{}", stderr(&output));
    let report = json(&directory.path().join("out/client_report.json"));
    assert!(report["phases"][0].get("calibration").is_none());
    assert!(!String::from_utf8(output.stdout).unwrap().contains("Head-room"));
}

#[test]
fn a_file_that_is_no_client_profile_matters_only_when_it_was_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("client_profile.json"), "{}").unwrap();
    let output = profile(directory.path(), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("is no client profile"), "{}", stderr(&output));
    for name in ["client_profile.json", "missing.json"] {
        let output = profile(directory.path(), &["--client-profile", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
    }
}

#[test]
fn a_core_that_may_not_be_used_is_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let output = phasor(directory.path(), &["calibrate", "--quick", "--cpus", "8000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("8000"), "{}", stderr(&output));
    assert!(!directory.path().join("client_profile.json").exists());
}

#[test]
fn more_shards_than_cores_are_allowed_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let output = profile(directory.path(), &["--cpus", "0", "--shards", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("warning: 2 shards share cores"), "{}", stderr(&output));
    let output = profile(directory.path(), &["--shards", "1"]);
    assert!(!stderr(&output).contains("share cores"), "{}", stderr(&output));
}
