//! Server metrics and GPU telemetry against what AIPerf 0.13 made of the same pages.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the recorded numbers are small and positive"
)]

use phasor::artifact::telemetry::{ServerExport, csv_section, gpu_document, lines};
use phasor::config::PhaseKind;
use phasor::prometheus::{Dialect, read};
use phasor::telemetry::energy::used;
use phasor::telemetry::gpu::summary::Window;
use phasor::telemetry::gpu::{GpuHistory, dcgm, signals};
use phasor::telemetry::history::{History, Page};
use phasor::telemetry::{
    Fetch, GpuSource, Occasion, PhaseKey, ServerSource, SourceAccount, Telemetry, address,
};
use serde_json::{Value as Json, json};
use std::path::Path;

fn folder(name: &str) -> Vec<(String, Json)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/telemetry").join(name);
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap())
        })
        .collect()
}

/// Where two documents differ; numbers may differ in the last digits.
fn differences(path: &str, left: &Json, right: &Json, found: &mut Vec<String>) {
    match (left, right) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if (a - b).abs() > 1e-9 * a.abs().max(b.abs()).max(1e-3) {
                found.push(format!("{path}: {a}, not {b}"));
            }
        }
        (Json::Object(a), Json::Object(b)) => {
            for (name, value) in a {
                match b.get(name) {
                    Some(other) => differences(&format!("{path}/{name}"), value, other, found),
                    None => found.push(format!("{path}/{name}: is there, should not be")),
                }
            }
            for name in b.keys().filter(|name| !a.contains_key(*name)) {
                found.push(format!("{path}/{name}: is missing"));
            }
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (number, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{number}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a}, not {b}")),
    }
}

#[track_caller]
fn same(what: &str, left: &Json, right: &Json) {
    let mut found = Vec::new();
    differences("", left, right, &mut found);
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// The local times depend on the zone of the machine; their fractions do not.
fn without_times(mut document: Json) -> Json {
    for pointer in ["/summary/start_time", "/summary/end_time"] {
        if let Some(time) = document.pointer_mut(pointer) {
            let text = time.as_str().unwrap();
            *time = json!(text.split_once(':').unwrap().1);
        }
    }
    document
}

fn kind_of(name: &str) -> PhaseKind {
    if name == "warmup" { PhaseKind::Warmup } else { PhaseKind::Profiling }
}

fn nanos(zero: u64, seconds: &Json) -> u64 {
    zero + (seconds.as_f64().unwrap() * 1e9).round() as u64
}

fn telemetry_of(input: &Json, lines_found: &mut Vec<Json>) -> Telemetry {
    let zero = input["t_zero_ns"].as_u64().unwrap();
    let mut telemetry = Telemetry::default();
    for scrape in input["scrapes"].as_array().unwrap() {
        let url = scrape["endpoint_url"].as_str().unwrap();
        let phase = scrape["phase"].as_object();
        let key = phase.map(|phase| PhaseKey {
            index: phase["phase_index"].as_u64().unwrap() as u16,
            profiling_index: phase["profiling_index"].as_u64().map(|index| index as u16),
            name: phase["phase_name"].as_str().unwrap().to_owned(),
            kind: kind_of(phase["benchmark_phase"].as_str().unwrap()),
            seamless: false,
        });
        if let Some(key) = &key
            && !telemetry.phases.contains(key)
        {
            telemetry.phases.push(key.clone());
        }
        let place = telemetry.servers.iter().position(|source| source.history.url() == url);
        let place = place.unwrap_or_else(|| {
            let history = History::new(url.to_owned());
            telemetry.servers.push(ServerSource { history, account: SourceAccount::default() });
            telemetry.servers_configured.push(url.to_owned());
            telemetry.servers.len() - 1
        });
        let at_ns = nanos(zero, &scrape["t_seconds"]);
        let fetch = Fetch {
            sent_ns: at_ns - 2_000_000,
            at_ns,
            latency_ns: 3_000_000,
            phase: key.as_ref().map(|key| key.index),
            occasion: Occasion::Cadence,
        };
        let dialect = Dialect::of_content_type(scrape["content_type"].as_str());
        let page = read(scrape["text"].as_str().unwrap(), dialect).unwrap();
        let repeated = scrape["is_duplicate_body"].as_bool().unwrap();
        let history = &mut telemetry.servers[place].history;
        let kept = history.push(fetch, if repeated { Page::Same } else { Page::New(&page) });
        assert_eq!(kept, !page.families.is_empty());
        let line =
            (!repeated && !page.families.is_empty()).then(|| lines::server(url, &fetch, &page, key.as_ref()));
        lines_found.push(line.unwrap_or(Json::Null));
    }
    telemetry.phases.sort_by_key(|key| key.index);
    telemetry
}

#[test]
fn servers_are_summed_up_as_the_reference_does() {
    let files = folder("server");
    assert_eq!(files.len(), 23);
    let mut faults = Vec::new();
    for (name, case) in &files {
        let (input, expected) = (&case["input"], &case["expected"]);
        let mut lines = Vec::new();
        let telemetry = telemetry_of(input, &mut lines);
        let mut check = |what: &str, left: &Json, right: &Json| {
            let mut found = Vec::new();
            differences("", left, right, &mut found);
            faults.extend(found.into_iter().map(|fault| format!("{name} {what}{fault}")));
        };
        if let Some(expected) = expected.get("jsonl") {
            check("jsonl", &Json::Array(lines), expected);
        }
        if !telemetry.has_servers() {
            assert!(expected["json"].is_null(), "{name}");
            continue;
        }
        let zero = input["t_zero_ns"].as_u64().unwrap();
        let window = |name: &str| {
            let bounds = input[name].as_array()?;
            Some((nanos(zero, &bounds[0]), nanos(zero, &bounds[1])))
        };
        let export = ServerExport {
            telemetry: &telemetry,
            benchmark_id: "unit-bench",
            profiling_ns: window("profiling_window_s"),
            warmup_ns: window("warmup_window_s"),
            slice_ns: input.get("slice_duration").map(|seconds| nanos(0, seconds)),
        };
        check("json", &without_times(export.json().unwrap()), &without_times(expected["json"].clone()));
        let csv = String::from_utf8(export.csv().unwrap().unwrap()).unwrap();
        check("csv", &json!(csv), &expected["csv"]);
        let mut phases: Vec<Json> =
            telemetry.phases.iter().filter_map(|key| export.phase(key.index)).collect();
        for expected in expected["phase_results"].as_array().unwrap() {
            let place = phases.iter().position(|phase| phase["phase_index"] == expected["phase_index"]);
            let phase = phases.remove(place.unwrap());
            check("phase", &phase, expected);
        }
        assert!(phases.is_empty(), "{name}: {} phases too many", phases.len());
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn addresses_of_metrics_are_made_as_the_reference_makes_them() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("data/telemetry/endpoint_urls.json")).unwrap();
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let written = case["url"].as_str().unwrap();
        // A scheme is a scheme in any case: the reference puts another one in front.
        if written == "HTTP://h:1" {
            assert_eq!(address::metrics_url(written).as_deref(), Some("HTTP://h:1/metrics"));
            continue;
        }
        let expected = case["metrics_url"].as_str().filter(|url| !url.starts_with("ERROR"));
        let url = address::metrics_url(written);
        assert_eq!(url.as_deref(), expected, "{written}");
        assert_eq!(url.map(|url| address::display(&url)).as_deref(), case["display"].as_str(), "{written}");
    }
}

#[test]
fn pages_of_dcgm_become_the_samples_of_the_reference() {
    let cases: Vec<Json> = serde_json::from_str(include_str!("data/telemetry/dcgm_parse.json")).unwrap();
    assert_eq!(cases.len(), 14);
    let signals = signals(&[]);
    for case in &cases {
        let samples = dcgm::read(case["text"].as_str().unwrap(), &[]).map(|(samples, _)| samples);
        let found: Vec<Json> = samples
            .unwrap_or_default()
            .iter()
            .map(|sample| {
                lines::gpu("http://node-a:9400/metrics", 1_700_000_000_000_000_000, sample, &signals)
            })
            .collect();
        same(case["name"].as_str().unwrap(), &Json::Array(found), &case["records"]);
    }
}

#[test]
fn gpus_are_summed_up_as_the_reference_does() {
    let files = folder("gpu");
    assert_eq!(files.len(), 5);
    for (name, case) in &files {
        let (input, expected) = (&case["input"], &case["expected"]);
        let zero = input["t_zero_ns"].as_u64().unwrap();
        let mut telemetry = Telemetry { signals: signals(&[]), ..Telemetry::default() };
        let mut found = Vec::new();
        for scrape in input["scrapes"].as_array().unwrap() {
            let url = scrape["url"].as_str().unwrap();
            let at_ns = nanos(zero, &scrape["t_seconds"]);
            let place = telemetry.gpus.iter().position(|source| source.history.url() == url);
            let place = place.unwrap_or_else(|| {
                let history = GpuHistory::new(url.to_owned());
                telemetry.gpus.push(GpuSource { history, account: SourceAccount::default() });
                telemetry.gpus_configured.push(url.to_owned());
                telemetry.gpus.len() - 1
            });
            let (samples, _) = dcgm::read(scrape["text"].as_str().unwrap(), &[]).unwrap();
            for sample in &samples {
                telemetry.gpus[place].history.push(at_ns, sample);
                found.push(lines::gpu(url, at_ns, sample, &telemetry.signals));
            }
        }
        same(&format!("{name} jsonl"), &Json::Array(found), &expected["jsonl"]);
        let bounds = input["window_s"].as_array().unwrap();
        let end_ns = if bounds[1].is_null() { u64::MAX } else { nanos(zero, &bounds[1]) };
        let window = Window { start_ns: nanos(zero, &bounds[0]), end_ns };
        let open = bounds[1].is_null();
        let mut document = without_times(gpu_document(&telemetry, window, Window { end_ns: zero, ..window }));
        let mut wanted = without_times(expected["telemetry_data"].clone());
        // An open end is the moment of writing, which is no fact of the samples.
        for side in [&mut document, &mut wanted] {
            side["summary"].as_object_mut().unwrap().remove("end_time");
        }
        same(name, &document, &wanted);
        let csv = String::from_utf8(csv_section(&telemetry, window).unwrap()).unwrap();
        same(&format!("{name} csv"), &json!(csv), &expected["csv_full_content"]);
        let used = used(&telemetry, window, 0);
        let expected_number = |name: &str| expected[name].get(0).cloned().unwrap_or(Json::Null);
        if !open {
            // What was not measured is absent here and zero there.
            let number = |value: Option<f64>| json!(value.unwrap_or(0.0));
            same(name, &number(used.power_w), &expected_number("total_power_watts_nvidia"));
            same(name, &number(used.energy_j), &expected_number("total_energy_joules_nvidia"));
        }
    }
}
