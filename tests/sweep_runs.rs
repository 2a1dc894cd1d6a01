//! Sweeps, trials, searches and adaptive phases: the whole program over real sockets against the built-in server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use program::{Run, head};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

const QUICK: [&str; 6] = ["--no-server-metrics", "--mock", "--mock-ttft", "2ms", "--mock-itl", "200us"];

/// Phases and what else stands in the config, such as a sweep.
fn configured(phases: &str, rest: &str) -> Run {
    Run::new(&format!("{}{phases}{rest}", head("http://127.0.0.1:1")))
}

fn assert_code(output: &Output, code: i32) {
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{shown}\n{}", String::from_utf8_lossy(&output.stdout));
}

/// The files of one run with the phases `phases`; one phase has no directories.
fn of_run(directory: &str, phases: &[&str]) -> Vec<String> {
    let mut files: Vec<String> = [
        ".aiperf_results_ready.json",
        "inputs.json",
        "logs/aiperf.log",
        "profile_export.jsonl",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "profile_export_console.txt",
        "run_config.json",
        "client_report.json",
    ]
    .map(str::to_owned)
    .to_vec();
    if phases.len() > 1 {
        files.push("phase_manifest.json".to_owned());
        for phase in phases {
            for file in ["profile_export_aiperf.csv", "profile_export_aiperf.json"] {
                files.push(format!("phases/{phase}/{file}"));
            }
        }
    }
    files.into_iter().map(|file| format!("{directory}/{file}")).collect()
}

fn both(stem: &str) -> [String; 2] {
    [format!("{stem}.csv"), format!("{stem}.json")]
}

const STORM: &str = "    - {name: warmup, type: concurrency, concurrency: 2, requests: 4}\n    - {name: baseline_traffic, kind: profiling, type: concurrency, concurrency: 4, requests: 20}\n    - {name: cancellation_stress, kind: profiling, type: concurrency, concurrency: 8, requests: 20, cancellation: {rate: 50, delay: 0}}\n";
const TWO: &str = "    - {name: warmup, type: concurrency, concurrency: 2, requests: 4}\n    - {name: a, kind: profiling, type: concurrency, concurrency: 4, requests: 12}\n    - {name: b, kind: profiling, type: concurrency, concurrency: 4, requests: 12}\n";
const ONE: &str = "    - {name: load, kind: profiling, type: concurrency, concurrency: 2, requests: 10}\n";

#[test]
fn a_grid_writes_the_files_of_the_reference_and_names_the_best() {
    let place = configured(
        STORM,
        "sweep: {type: grid, parameters: {phases.baseline_traffic.concurrency: [2, 4], phases.cancellation_stress.cancellation.rate: [25, 50]}}\n",
    );
    assert_code(&place.run(&QUICK), 0);
    let cells = [
        "concurrency_2__rate_25",
        "concurrency_2__rate_50",
        "concurrency_4__rate_25",
        "concurrency_4__rate_50",
    ];
    let mut expected: BTreeSet<String> = BTreeSet::from(["logs/aiperf.log".to_owned()]);
    for cell in cells {
        expected.extend(of_run(cell, &["warmup", "baseline_traffic", "cancellation_stress"]));
        expected.extend(both(&format!("aggregate/{cell}/profile_export_aiperf_aggregate")));
    }
    expected.extend(both("sweep_aggregate/profile_export_aiperf_sweep"));
    assert_eq!(place.files(), expected);

    let sweep = place.json("sweep_aggregate/profile_export_aiperf_sweep.json");
    let members: Vec<&str> = sweep.as_object().unwrap().keys().map(String::as_str).collect();
    let reference = [
        "aggregation_type",
        "num_profile_runs",
        "num_successful_runs",
        "failed_runs",
        "metadata",
        "per_combination_metrics",
        "best_configurations",
        "pareto_optimal",
    ];
    assert_eq!(members, reference);
    assert_eq!(sweep["num_successful_runs"], 4);
    assert_eq!(
        sweep["metadata"]["sweep_parameters"],
        serde_json::json!([{"name": "concurrency", "values": [2, 4]}, {"name": "rate", "values": [25, 50]}])
    );
    assert_eq!(sweep["metadata"]["num_combinations"], 4);
    let combinations = sweep["per_combination_metrics"].as_array().unwrap();
    assert_eq!(combinations[1]["parameters"], serde_json::json!({"concurrency": 2, "rate": 50}));
    let throughput = combinations[0]["metrics"]["request_throughput"].as_object().unwrap();
    let names: Vec<&str> = throughput.keys().map(String::as_str).collect();
    assert_eq!(names, ["mean", "avg", "std", "min", "max", "cv", "ci_low", "ci_high", "unit"]);
    // The reference leaves both empty with one trial.
    assert!(sweep["best_configurations"]["best_throughput"]["metric"].as_f64().unwrap() > 0.0);
    assert!(!sweep["pareto_optimal"].as_array().unwrap().is_empty());

    let info = place.json("concurrency_4__rate_25/profile_export_aiperf.json")["run_info"].clone();
    assert_eq!(info["random_seed"], 44, "42 and the position of the variation");
    assert_eq!(info["variation_index"], 2);
    assert_eq!(
        info["variation_label"],
        "phases.baseline_traffic.concurrency=4, phases.cancellation_stress.cancellation.rate=25"
    );
    let config = place.json("concurrency_4__rate_25/run_config.json");
    assert_eq!(config["variation"]["values"]["phases.baseline_traffic.concurrency"], 4);
    assert_eq!(config["sweep_id"], info["sweep_id"]);
}

#[test]
fn trials_in_either_order_lie_where_the_reference_puts_them() {
    let sweep = |order: &str| {
        format!(
            "multi_run: {{num_runs: 2}}\nsweep: {{type: zip, iteration_order: {order}, parameters: {{phases.a.concurrency: [2, 4], phases.b.concurrency: [4, 8]}}}}\n"
        )
    };
    let cells = ["concurrency_2__concurrency_4", "concurrency_4__concurrency_8"];
    let phases = |trial: u32| if trial == 1 { &["warmup", "a", "b"][..] } else { &["a", "b"][..] };

    let place = configured(TWO, &sweep("repeated"));
    assert_code(&place.run(&QUICK), 0);
    let mut expected: BTreeSet<String> = BTreeSet::from(["logs/aiperf.log".to_owned()]);
    for cell in cells {
        for trial in 1..=2 {
            expected.extend(of_run(&format!("profile_runs/trial_{trial:04}/{cell}"), phases(trial)));
        }
        expected.extend(both(&format!("aggregate/{cell}/profile_export_aiperf_aggregate")));
    }
    expected.extend(both("aggregate/sweep_aggregate/profile_export_aiperf_sweep"));
    assert_eq!(place.files(), expected);
    let aggregate = place.json(&format!("aggregate/{}/profile_export_aiperf_aggregate.json", cells[0]));
    assert_eq!(aggregate["metadata"]["sweep_mode"], "repeated");
    let latency = &aggregate["metrics"]["request_latency_avg"];
    let t = latency["t_critical"].as_f64().unwrap();
    assert!((t - 12.706_204_736_174_694).abs() < 1e-6, "{t}");
    let half = t * latency["se"].as_f64().unwrap();
    let low = latency["mean"].as_f64().unwrap() - half;
    assert!((latency["ci_low"].as_f64().unwrap() - low).abs() < 1e-9);
    let sweep_file = place.json("aggregate/sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!(sweep_file["metadata"]["sweep_parameters"][0]["name"], "phases.a.concurrency");
    assert!(sweep_file["per_combination_metrics"][0]["metrics"]["request_latency_p99"]["mean"].is_number());

    let place = configured(TWO, &sweep("independent"));
    assert_code(&place.run(&QUICK), 0);
    let mut expected: BTreeSet<String> = BTreeSet::from(["logs/aiperf.log".to_owned()]);
    for cell in cells {
        for trial in 1..=2 {
            expected.extend(of_run(&format!("{cell}/profile_runs/trial_{trial:04}"), phases(trial)));
        }
        expected.extend(both(&format!("{cell}/aggregate/profile_export_aiperf_aggregate")));
    }
    expected.extend(both("sweep_aggregate/profile_export_aiperf_sweep"));
    assert_eq!(place.files(), expected);
}

#[test]
fn trials_without_a_sweep_have_one_aggregate_and_warm_up_once() {
    let place = configured(TWO, "multi_run: {num_runs: 3}\n");
    assert_code(&place.run(&QUICK), 0);
    let mut expected: BTreeSet<String> = BTreeSet::from(["logs/aiperf.log".to_owned()]);
    expected.extend(of_run("profile_runs/run_0001", &["warmup", "a", "b"]));
    expected.extend(of_run("profile_runs/run_0002", &["a", "b"]));
    expected.extend(of_run("profile_runs/run_0003", &["a", "b"]));
    expected.extend(both("aggregate/profile_export_aiperf_aggregate"));
    assert_eq!(place.files(), expected);
    let metadata = place.json("aggregate/profile_export_aiperf_aggregate.json")["metadata"].clone();
    let reference = serde_json::json!({
        "aggregation_type": "confidence",
        "num_profile_runs": 3,
        "num_successful_runs": 3,
        "failed_runs": [],
        "confidence_level": 0.95,
        "run_labels": ["run_0001", "run_0002", "run_0003"],
        "cooldown_seconds": 0.0,
    });
    assert_eq!(metadata, reference);
    let csv = place.text("aggregate/profile_export_aiperf_aggregate.csv");
    assert!(csv.starts_with("metric,mean,std,min,max,cv,se,ci_low,ci_high,t_critical,unit\r\n"));
    assert!(csv.contains("\r\n\r\nAggregation Type,confidence\r\nTotal Runs,3\r\n"));
    // Trials of one seed replay the same prompts.
    assert_eq!(
        place.text("profile_runs/run_0001/inputs.json"),
        place.text("profile_runs/run_0003/inputs.json")
    );
}

#[test]
fn scenarios_are_named_and_compared_by_what_they_change() {
    let place = configured(
        ONE,
        "sweep:\n  type: scenarios\n  runs:\n    - {name: gentle, benchmark: {phases: [{name: load, concurrency: 1}]}}\n    - {name: harsh, benchmark: {phases: [{name: load, concurrency: 8}]}}\n",
    );
    assert_code(&place.run(&QUICK), 0);
    let sweep = place.json("sweep_aggregate/profile_export_aiperf_sweep.json");
    let parameter = &sweep["metadata"]["sweep_parameters"][0];
    assert_eq!(parameter["name"], "benchmark");
    assert_eq!(parameter["values"][1], "{\"phases\":[{\"concurrency\":8,\"name\":\"load\"}]}");
    let info = place.json("harsh/profile_export_aiperf.json")["run_info"].clone();
    assert_eq!(info["variation_label"], "harsh");
}

#[test]
fn trials_end_when_their_metric_is_steady() {
    let place = configured(
        ONE,
        "multi_run: {num_runs: 10, convergence: {metric: output_sequence_length, mode: ci_width, min_runs: 2}}\n",
    );
    assert_code(&place.run(&QUICK), 0);
    let metadata = place.json("aggregate/profile_export_aiperf_aggregate.json")["metadata"].clone();
    assert_eq!(metadata["num_profile_runs"], 2, "every reply has the same length");
}

#[test]
fn a_failed_variation_is_recorded_and_the_sweep_goes_on() {
    // The second variation sends to a port on which nobody listens.
    let place = configured(
        "    - {name: load, kind: profiling, type: concurrency, concurrency: 1, requests: 3}\n",
        "sweep: {type: grid, parameters: {endpoint.timeout: [30, 0.000001, 60]}}\n",
    );
    let output = place.run(&QUICK);
    assert_code(&output, 1);
    let sweep = place.json("sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!((&sweep["num_profile_runs"], &sweep["num_successful_runs"]), (&3.into(), &2.into()));
    let failed = sweep["failed_runs"].as_array().unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["error"], "no request of a profiling phase succeeded");
    assert!(place.path("timeout_60/profile_export_aiperf.json").exists(), "the third one ran");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("run_0001 of endpoint.timeout=1e-06 failed"), "{shown}");
}

#[test]
fn finished_runs_are_taken_from_their_files_and_changed_ones_are_not() {
    let place = configured(ONE, "sweep: {type: grid, parameters: {phases.load.concurrency: [1, 2, 4]}}\n");
    assert_code(&place.run(&QUICK), 0);
    let first = place.json("concurrency_2/profile_export_aiperf.json");
    std::fs::remove_file(place.path("concurrency_4/.aiperf_results_ready.json")).unwrap();
    let output = place.run(&[&QUICK[..], &["--resume"]].concat());
    assert_code(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 taken from files"));
    assert_eq!(place.json("concurrency_2/profile_export_aiperf.json"), first, "it was not run again");
    assert!(place.path("concurrency_4/.aiperf_results_ready.json").exists(), "it was");
    assert_eq!(place.json("sweep_aggregate/profile_export_aiperf_sweep.json")["num_successful_runs"], 3);

    let config = place.directory.path().join("config.yaml");
    let changed = std::fs::read_to_string(&config).unwrap().replace("requests: 10", "requests: 11");
    std::fs::write(&config, changed).unwrap();
    let output = place.run(&[&QUICK[..], &["--resume"]].concat());
    assert_code(&output, 0);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("taken from files"));
}

#[test]
fn an_interrupt_ends_a_sweep_with_what_is_done() {
    let place = configured(
        "    - {name: load, kind: profiling, type: concurrency, concurrency: 1, requests: 200}\n",
        "sweep: {type: grid, parameters: {phases.load.requests: [5, 1000000, 7]}}\n",
    );
    let mut child = place.command(&QUICK).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let second = lines.by_ref().any(|line| line.unwrap().contains("target: 1000000 requests"));
    assert!(second);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let sweep = place.json("sweep_aggregate/profile_export_aiperf_sweep.json");
    assert_eq!((&sweep["num_profile_runs"], &sweep["num_successful_runs"]), (&2.into(), &1.into()));
    assert!(place.path("requests_1000000/profile_export_aiperf.json").exists());
    assert!(!place.path("requests_7").exists());
}

#[test]
fn bad_sweeps_are_refused_before_anything_runs() {
    for (sweep, words) in [
        (
            "sweep: {type: grid, parameters: {phases.lod.concurrency: [1, 2]}}\n",
            &["config.yaml:", "phases.lod", "load"][..],
        ),
        (
            "sweep: {type: grid, parameters: {phases.load.concurrency: [1, many]}}\n",
            &["config.yaml:", "variation 1", "many"],
        ),
        (
            "sweep: {type: grid, sla_filters: [{metric_tag: request_latncy, op: lt, threshold: 5}], parameters: {phases.load.concurrency: [1, 2]}}\n",
            &["request_latncy", "did you mean `request_latency`"],
        ),
    ] {
        let place = configured(ONE, sweep);
        let output = place.run(&QUICK);
        assert_code(&output, 1);
        let shown = String::from_utf8_lossy(&output.stderr);
        for word in words {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert!(!place.path("concurrency_1").exists(), "{shown}");
    }
    let many: Vec<String> = (1..=101).map(|value| value.to_string()).collect();
    let many = many.join(", ");
    let place = configured(
        ONE,
        &format!(
            "sweep: {{type: grid, parameters: {{phases.load.concurrency: [{many}], phases.load.requests: [{many}]}}}}\n"
        ),
    );
    let output = place.run(&QUICK);
    assert_code(&output, 1);
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("10201 variations, more than the 10000"), "{shown}");
}

const RAMP: &str = "    - {name: warmup, type: concurrency, concurrency: 2, requests: 4}\n    - name: ramp\n      kind: profiling\n      type: concurrency\n      concurrency: 64\n      duration: 60s\n      adaptive_scale:\n        control: {variable: concurrency, min: 4, max: 64}\n        window: 1\n        min_completed_requests: 5\n        sustain_duration: 1\n        strategy: {type: ramp_until_fail, step_policy: sla_margin, base_step: 2, max_step_multiplier: 5}\n        sla: {request_latency: {p50: {lt: 102}}}\n    - {name: after, kind: profiling, type: concurrency, concurrency: 2, requests: 10}\n";

/// A server that works off so many requests per second: in a closed loop of n the latency is n of these.
fn with_capacity(capacity: &str) -> [&str; 3] {
    ["--mock", "--mock-capacity", capacity]
}

#[test]
fn an_adaptive_phase_finds_the_capacity_of_the_server_and_writes_the_files_of_the_reference() {
    // 200 per second and 102 ms: the knee lies at 20.4.
    let place = configured(RAMP, "");
    assert_code(&place.run(&with_capacity("200")), 0);
    let files = place.files();
    for file in [
        "adaptive_scale_manifest.json",
        "phases/ramp/adaptive_scale_events.jsonl",
        "phases/ramp/adaptive_scale_summary.json",
    ] {
        assert!(files.contains(file), "{file} of {files:?}");
    }
    let manifest = place.json("adaptive_scale_manifest.json");
    let reference = serde_json::json!({"adaptive_phases": [{
        "events_path": "phases/ramp/adaptive_scale_events.jsonl",
        "phase_index": 1,
        "phase_kind": "profiling",
        "phase_name": "ramp",
        "profiling_index": 0,
        "summary_path": "phases/ramp/adaptive_scale_summary.json",
    }], "schema_version": 2});
    assert_eq!(manifest, reference);
    let summary = place.json("phases/ramp/adaptive_scale_summary.json");
    let members = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let expected: Value = serde_json::from_str(include_str!("data/golden/adaptive_members.json")).unwrap();
    assert_eq!(serde_json::json!(members(&summary)), expected["summary"]);
    assert_eq!(serde_json::json!(members(&summary["candidates"][0])), expected["candidate"]);
    let events: Vec<Value> = place
        .text("phases/ramp/adaptive_scale_events.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for event in &events {
        assert_eq!(serde_json::json!(members(event)), expected["event"]);
    }
    assert_eq!(events[0]["event"], "adaptive_phase_started");
    assert_eq!(events[1]["event"], "adaptive_window");
    let last = events.last().unwrap();
    assert_eq!(last["phase"], "complete");
    assert_eq!(last["reason"], summary["completed_reason"]);
    let boundary = summary["boundary_value"].as_f64().unwrap();
    assert!((boundary / 20.4 - 1.0).abs() <= 0.10, "{boundary}: {summary}");
    // The phases around it ran as they are written.
    assert_eq!(place.json("phases/after/profile_export_aiperf.json")["request_count"]["avg"], 10.0);
}

#[test]
fn a_variable_that_the_phase_does_not_have_is_refused() {
    for (variable, help) in [("users", "user_centric"), ("request_rate", "poisson")] {
        let place = configured(&RAMP.replace("variable: concurrency", &format!("variable: {variable}")), "");
        let output = place.run(&QUICK);
        assert_code(&output, 1);
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.contains(&format!("the phase has no `{variable}`")) && shown.contains(help), "{shown}");
    }
}

#[test]
fn a_search_can_be_made_of_flags_alone() {
    let place = configured(ONE, "");
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasor"));
    let output = command
        .current_dir(place.directory.path())
        .args([
            "profile",
            "--model",
            "mock-model",
            "--url",
            "http://127.0.0.1:1",
            "--streaming",
            "--ui",
            "none",
        ])
        .args(["--artifact-dir", "out", "--isl", "16", "--osl", "8", "--concurrency", "1"])
        .args(["--request-count", "20", "--concurrency-max", "64", "--search-max-iterations", "6"])
        .args(["--e2e-sla-ms", "60000", "--search-sla", "request_error_rate:avg:le:1"])
        .args(QUICK)
        .output()
        .unwrap();
    assert_code(&output, 0);
    let report = place.json("search_report.json");
    assert_eq!(
        report["limits"],
        serde_json::json!(["request_error_rate:avg:le:1", "request_latency:p95:le:60000"])
    );
    assert_eq!(report["points"].as_array().unwrap().len(), 6, "1, 2, 4, ... 32");
    assert_eq!(report["stopped"]["reason"], "max_iterations");
}

#[test]
fn an_unknown_limit_of_an_adaptive_phase_is_refused_with_the_known_ones() {
    let place = configured(&RAMP.replace("request_latency", "latencies"), "");
    let output = place.run(&QUICK);
    assert_code(&output, 1);
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(shown.contains("`latencies` is no metric of an adaptive phase"), "{shown}");
    assert!(shown.contains("config.yaml:") && shown.contains("time_to_first_token"), "{shown}");
}

#[test]
fn a_search_finds_the_highest_load_within_the_limits_and_says_why_it_stopped() {
    let place = configured(
        "    - {name: load, kind: profiling, type: concurrency, concurrency: 1, duration: 1s}\n",
        "sweep:\n  type: adaptive_search\n  max_iterations: 20\n  search_space: [{path: phases.load.concurrency, lo: 1, hi: 200, kind: int}]\n  objectives: [{metric: request_throughput, stat: avg, direction: maximize}]\n  sla_filters: [{metric_tag: request_latency, stat: p50, op: lt, threshold: 102}]\n",
    );
    let output = place.run(&with_capacity("200"));
    assert_code(&output, 0);
    let report = place.json("search_report.json");
    assert_eq!(report["stopped"]["reason"], "narrow_enough");
    let points = report["points"].as_array().unwrap();
    assert!((6..=12).contains(&points.len()), "{}", points.len());
    let best = report["best"]["values"]["phases.load.concurrency"].as_f64().unwrap();
    assert!((best / 20.4 - 1.0).abs() <= 0.10, "{report:#}");
    assert!(place.path("search_iter_0001/profile_runs/run_0001/profile_export_aiperf.json").exists());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("Points tried:") && shown.contains("It stopped because"), "{shown}");
}

#[test]
fn little_time_is_spent_between_the_runs_of_a_sweep() {
    let values: Vec<String> = (1..=5).map(|value| value.to_string()).collect();
    let place = configured(
        "    - {name: load, kind: profiling, type: concurrency, concurrency: 1, duration: 0.2}\n",
        &format!("sweep: {{type: grid, parameters: {{phases.load.concurrency: [{}]}}}}\n", values.join(", ")),
    );
    let output = place.run(&QUICK);
    assert_code(&output, 0);
    let shown = String::from_utf8_lossy(&output.stdout);
    let line = shown.lines().find(|line| line.contains("between runs")).unwrap();
    // Told, not judged: what else the machine does has its part in it.
    eprintln!("{line}");
}
