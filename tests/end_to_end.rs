//! The whole program over real sockets against the built-in server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use program::{Run, assert_ok, check_files, config, number, phasor, seeded, walk, with_mock};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn four_phases_leave_the_tree_of_files_and_totals_that_add_up() {
    let run = Run::new(&config(&[
        "{name: warmup, type: concurrency, concurrency: 4, duration: 0.2}",
        "{name: baseline_traffic, kind: profiling, type: concurrency, concurrency: 8, duration: 0.4, cancellation: {rate: 5, delay: 0}}",
        "{name: cancellation_stress, kind: profiling, type: concurrency, concurrency: 16, duration: 0.4, cancellation: {rate: 50, delay: 0}}",
        "{name: recovery_traffic, kind: profiling, type: concurrency, concurrency: 8, duration: 0.4, cancellation: {rate: 0, delay: 0}}",
    ]));
    let output = run.run(&with_mock(&[]));
    assert_ok(&output);
    let mut expected = vec![
        ".aiperf_results_ready.json".to_owned(),
        "client_report.json".to_owned(),
        "inputs.json".to_owned(),
        "phase_manifest.json".to_owned(),
    ];
    for phase in ["baseline_traffic", "cancellation_stress", "recovery_traffic", "warmup"] {
        expected.push(format!("phases/{phase}/profile_export_aiperf.csv"));
        expected.push(format!("phases/{phase}/profile_export_aiperf.json"));
        expected.push(format!("phases/{phase}/server_metrics.json"));
    }
    for name in [
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "profile_export_console.txt",
        "server_metrics_export.csv",
        "server_metrics_export.json",
        "telemetry_report.json",
    ] {
        expected.push(name.to_owned());
    }
    let files: Vec<String> =
        walk(&run.path("")).into_iter().filter(|name| !name.starts_with("logs/")).collect();
    assert_eq!(files, expected);
    let report = check_files(&run);
    assert_eq!(number(&report, "/total/failed"), 0);
    assert_eq!(number(&report, "/total/abandoned"), 0);
    assert_eq!(number(&report, "/phases/0/cancelled"), 0, "warmups cancel nothing");
    let root = run.json("profile_export_aiperf.json");
    let profiling: u64 = (1..4).map(|phase| number(&report, &format!("/phases/{phase}/ok"))).sum();
    assert_eq!(root["request_count"]["avg"], serde_json::json!(profiling as f64), "warmups are left out");
    let text = String::from_utf8(output.stdout).unwrap();
    for phase in ["warmup", "baseline_traffic", "cancellation_stress", "recovery_traffic"] {
        assert!(text.contains(phase), "no table of {phase}");
    }
}

#[test]
fn the_server_sees_every_request_that_the_client_counts() {
    let run = Run::new(&seeded(&[
        "{name: storm, kind: profiling, type: concurrency, concurrency: 1000, duration: 0.5, cancellation: {rate: 50, delay: 0}}",
        "{name: after, kind: profiling, type: concurrency, concurrency: 100, requests: 500, seamless: true}",
        "{name: open, kind: profiling, type: poisson, rate: 500, duration: 0.4, seamless: true}",
    ]));
    let output = run.run(&with_mock(&["--mock-log", "arrivals.log"]));
    assert_ok(&output);
    let report = check_files(&run);
    assert!(number(&report, "/phases/0/cancelled") > 100);
    assert_eq!(number(&report, "/phases/1/sent"), 500);
    assert_eq!(number(&report, "/total/failed"), 0);
    let log = std::fs::read_to_string(run.directory.path().join("arrivals.log")).unwrap();
    // The first line names the columns.
    let lines = log.lines().count() as u64 - 1;
    assert_eq!(lines, number(&report, "/total/sent"), "a cancelled request is still sent in full");
}

#[test]
fn arrivals_and_cancellations_are_the_same_for_1_2_and_5_shards() {
    let run = Run::new(&seeded(&[
        "{name: open, kind: profiling, type: poisson, rate: 400, requests: 100, cancellation: {rate: 20, delay: 0}}",
    ]));
    let mut planned = Vec::new();
    for shards in ["1", "2", "5"] {
        assert_ok(&run.run(&with_mock(&["--shards", shards])));
        check_files(&run);
        let start = number(&run.json("client_report.json"), "/phases/0/start_ns");
        let mut rows: Vec<(u64, u64, bool)> = run
            .records()
            .iter()
            .map(|record| {
                (
                    number(record, "/metadata/session_num"),
                    number(record, "/metadata/credit_issued_ns") - start,
                    record["metadata"]["was_cancelled"].as_bool().unwrap(),
                )
            })
            .collect();
        rows.sort_unstable();
        planned.push(rows);
    }
    assert_eq!(planned[0], planned[1]);
    assert_eq!(planned[0], planned[2]);
    let cancelled: Vec<u64> = planned[0].iter().filter(|row| row.2).map(|row| row.0).collect();
    assert_eq!(cancelled, [2, 3, 12, 14, 19, 27, 41, 51, 52, 55, 72, 78, 79, 89, 90, 98]);
}

#[test]
fn a_reply_that_is_no_stream_has_no_streaming_metrics() {
    let yaml = config(&["{name: profiling, type: concurrency, concurrency: 2, requests: 20}"])
        .replace("streaming: true", "streaming: false");
    let run = Run::new(&yaml);
    assert_ok(&run.run(&with_mock(&[])));
    let root = run.json("profile_export_aiperf.json");
    assert!(root.get("time_to_first_token").is_none());
    assert_eq!(root["request_latency"]["count"], 20);
    assert!(!run.path("phases").exists(), "a single phase has no directory of its own");
}

#[test]
fn a_server_that_is_not_there_fails_every_request_by_name_and_the_run() {
    let run = Run::new(&config(&[
        "{name: warmup, type: concurrency, concurrency: 1, requests: 2}",
        "{name: profiling, type: concurrency, concurrency: 2, requests: 10}",
    ]));
    let output = run.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    check_files(&run);
    let manifest = run.json("phase_manifest.json");
    let error = &manifest["phases"][1]["error_summary"][0];
    assert_eq!(error["count"], 10);
    assert_eq!(error["error_details"]["type"], "ClientConnectorError");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no request of a profiling phase succeeded"));
}

#[test]
fn a_first_interrupt_writes_everything_marked_partial_and_exits_130() {
    let run = Run::new(&config(&[
        "{name: first, kind: profiling, type: concurrency, concurrency: 4, requests: 40}",
        "{name: second, kind: profiling, type: concurrency, concurrency: 4, duration: 60}",
        "{name: third, kind: profiling, type: concurrency, concurrency: 4, duration: 60}",
    ]));
    let mut child =
        run.command(&with_mock(&[])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, "Phase second (profiling) started");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    check_files(&run);
    let root = run.json("profile_export_aiperf.json");
    assert_eq!(root["was_cancelled"], true);
    assert_eq!(root["is_complete"], false);
    let manifest = run.json("phase_manifest.json");
    let phases = manifest["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 2, "a phase that never started is not listed");
    assert!(phases.iter().all(|phase| phase["end_ns"].is_u64()), "every phase has an end");
    assert_eq!(phases[0]["was_cancelled"], false, "a finished phase is not cancelled");
    assert_eq!(phases[1]["was_cancelled"], true);
}

#[test]
fn a_second_interrupt_leaves_at_once_even_when_the_server_hangs() {
    // Accepts and never answers; closing is held up by nothing but the client.
    let run = Run::new(&config(&["{name: profiling, type: concurrency, concurrency: 4, duration: 60}"]));
    let mut child =
        run.command(&with_mock(&[])).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&mut child, "started");
    // Both before the program can have ended by the first.
    signal(&child, "STOP");
    signal(&child, "INT");
    signal(&child, "TERM");
    signal(&child, "CONT");
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(130 | 137)), "{code:?}");
    // As when every request fails: what grows during the run is there, and no result.
    if code == Some(137) {
        let files: Vec<String> = run.files().into_iter().collect();
        assert_eq!(files, ["inputs.json", "logs/aiperf.log", "profile_export.jsonl"]);
    }
}

fn wait_for(child: &mut std::process::Child, text: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(text)), "the run ended without `{text}`");
    // The rest is read so that the child never waits for a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
}

fn signal(child: &std::process::Child, name: &str) {
    let done = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_wrong_config_is_refused_with_its_place_and_nothing_is_written() {
    let run = Run::new(&config(&["{name: profiling, type: concurrency, concurrency: 0, requests: 1}"]));
    let output = run.run(&with_mock(&[]));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("config.yaml:6:"), "{text}");
    assert!(text.contains("concurrency"), "{text}");
    assert!(!run.path("").exists());
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_the_cure() {
    let run = Run::new(&config(&["{name: profiling, type: concurrency, requests: 1}"]));
    std::fs::write(run.directory.path().join("out"), "a file is in the way").unwrap();
    let output = run.run(&with_mock(&[]));
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("cannot write out") && text.contains("artifacts.dir"), "{text}");
}

#[test]
fn limits_that_are_too_low_are_named_with_numbers_and_the_cure() {
    let yaml = config(&["{name: profiling, type: concurrency, concurrency: 500, requests: 1}"]);
    for (limit, expected) in [("-l 64", "ulimit -l"), ("-n 100", "ulimit -Hn")] {
        let run = Run::new(&yaml);
        let program = env!("CARGO_BIN_EXE_phasor");
        let output = Command::new("bash")
            .current_dir(run.directory.path())
            .arg("-c")
            .arg(format!(
                "ulimit {limit} && exec {program} profile --config config.yaml --artifact-dir out --ui none"
            ))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{limit}: {text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn every_example_runs_against_the_built_in_server() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        count += 1;
        // Seconds become tenths: what runs is the example, shortened.
        let text = std::fs::read_to_string(&path).unwrap();
        let shortened: String = text
            .lines()
            .map(|line| {
                match line.trim_start().strip_prefix("duration: ").and_then(|rest| rest.strip_suffix('s')) {
                    Some(seconds) => {
                        let seconds: f64 = seconds.parse().unwrap();
                        format!(
                            "{}{}\n",
                            line.split("duration").next().unwrap(),
                            format_args!("duration: {}", seconds / 10.0)
                        )
                    }
                    None => format!("{line}\n"),
                }
            })
            .collect();
        let run = Run::new(&shortened);
        let output = run.run(&with_mock(&[]));
        assert_ok(&output);
        if ["\nsweep:", "\nmultiRun:"].iter().any(|several| text.contains(several)) {
            let files = walk(&run.path(""));
            assert!(files.iter().any(|file| file.contains("aggregate/")), "{files:?}");
        } else {
            check_files(&run);
        }
    }
    assert!(count >= 4, "{count} examples");
}

#[test]
fn help_names_the_commands_and_a_first_run() {
    let output = phasor().arg("--help").output().unwrap();
    assert_ok(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["profile", "mock", "examples/multi-phase.yaml"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(phasor().arg("--nonsense").output().unwrap().status.code(), Some(1));
}
