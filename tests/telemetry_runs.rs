//! Servers and GPUs read while the whole program runs, against the built-in server and exporters of every
//! kind of badness.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "support/program.rs"]
mod program;

use phasor::config::{self, Config};
use phasor::plan::{Plan, Shared};
use phasor::run::companion::{Companion, Stage};
use phasor::run::progress::{Display, Ui};
use phasor::run::telemetry::nvml::{Library, LibraryError, Raw, sample_of};
use phasor::run::telemetry::{Collector, TelemetrySettings};
use phasor::shard::barrier::{Barrier, FIRST_LEAD, LEAD};
use phasor::telemetry::gpu::{Device, Nvidia, Sample, dcgm};
use phasor::time::{Clock, Nanos, Stamp};
use program::{Run, assert_ok};
use serde_json::{Map, Value as Json, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::mpsc;

/// An exporter that answers the nth request with what `answer` makes; nothing means that it never answers.
fn exporter(answer: impl Fn(usize) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut piece = [0; 1024];
            while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => head.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            match answer(number) {
                Some(bytes) => {
                    // A client that has seen enough closes early.
                    let _ = stream.write_all(&bytes);
                }
                None => held.push(stream),
            }
        }
    });
    address
}

fn page(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn text(body: impl AsRef<str>) -> Vec<u8> {
    page("text/plain; version=0.0.4", body.as_ref().as_bytes())
}

/// A run that came to a good end.
struct Ran {
    place: Run,
    output: Output,
}

impl Ran {
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl std::ops::Deref for Ran {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.place
    }
}

/// Runs a config against the built-in server.
fn run(more: &str, phases: &[&str], environment: &[(&str, &str)]) -> Ran {
    let yaml = format!(
        "randomSeed: 42\nbenchmark:\n  model: mock-model\n  endpoint: {{url: 'http://127.0.0.1:1/v1/chat/completions', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 20, prompts: {{isl: 16, osl: 8}}}}\n{more}  phases:\n    - {}\n",
        phases.join("\n    - ")
    );
    let place = Run::new(&yaml);
    let arguments = ["--shards", "2", "--mock", "--mock-ttft", "20ms", "--mock-itl", "1ms"];
    let mut command = place.command(&arguments);
    // No exporter that happens to run on this machine joins in.
    command.env("AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS", "[]").envs(environment.iter().copied());
    let output = command.output().unwrap();
    assert_ok(&output);
    Ran { place, output }
}

fn total(metrics: &Json, family: &str) -> f64 {
    let series = metrics[family]["series"].as_array().unwrap_or_else(|| panic!("no {family} in {metrics}"));
    series.iter().map(|one| one["total"].as_f64().unwrap()).sum()
}

#[test]
fn what_the_server_counted_in_each_phase_is_what_was_sent_in_it() {
    let run = run(
        "",
        &[
            "{name: warm, kind: warmup, type: concurrency, concurrency: 3, requests: 31}",
            "{name: one, kind: profiling, type: concurrency, concurrency: 4, duration: 0.4, grace_period: 5}",
            "{name: two, kind: profiling, type: poisson, rate: 150, duration: 0.4, seamless: true, grace_period: 5}",
            "{name: between, kind: warmup, type: concurrency, concurrency: 2, requests: 17}",
            "{name: three, kind: profiling, type: concurrency, concurrency: 5, requests: 43}",
        ],
        &[("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.05")],
    );
    let client = run.json("client_report.json");
    let sent = |names: &[&str]| -> f64 {
        let phases = client["phases"].as_array().unwrap().iter();
        let named = phases.filter(|phase| names.contains(&phase["phase_name"].as_str().unwrap()));
        named.map(|phase| phase["sent"].as_f64().unwrap()).sum()
    };
    let report = run.json("telemetry_report.json");
    let server = &report["servers"][0];
    let spans = server["spans"].as_array().unwrap();
    let groups: [&[&str]; 4] = [&["warm"], &["one", "two"], &["between"], &["three"]];
    assert_eq!(spans.len(), groups.len(), "{spans:?}");
    for (span, names) in spans.iter().zip(groups) {
        assert_eq!(span["phases"], json!(names));
        let counted = total(&span["metrics"], "mock:requests");
        assert_eq!(counted.to_bits(), sent(names).to_bits(), "{names:?}");
        let latency = &span["metrics"]["vllm:e2e_request_latency_seconds"]["series"][0];
        assert_eq!(latency["count"].as_f64(), Some(counted), "{names:?}");
    }
    let profiling = total(&server["profiling"]["metrics"], "mock:requests");
    assert_eq!(profiling.to_bits(), sent(&["one", "two", "three"]).to_bits());

    // AIPerf's file counts from the first profiling phase to the last, with the warmup between them.
    let root = run.json("server_metrics_export.json");
    let series = root["metrics"]["vllm:request_success"]["series"].as_array().unwrap();
    let root_total: f64 = series.iter().map(|one| one["stats"]["total"].as_f64().unwrap()).sum();
    assert_eq!(root_total.to_bits(), sent(&["one", "two", "between", "three"]).to_bits());

    // The page at the end of a phase belongs to it, and no page of another phase does.
    for (name, group) in [("warm", 0), ("three", 3)] {
        let phase = run.json(&format!("phases/{name}/server_metrics.json"));
        assert_eq!(phase["warnings"], json!([]), "{name}");
        let metrics =
            &phase["data"]["endpoint_summaries"].as_object().unwrap().values().next().unwrap()["metrics"];
        let counted = metrics["mock:requests"]["series"][0]["stats"]["total"].as_f64();
        assert_eq!(counted, Some(total(&spans[group]["metrics"], "mock:requests")), "{name}");
    }
    schema_holds(&report);
}

/// As much of JSON Schema as the schema of the report uses.
fn schema_faults(schema: &Json, root: &Json, value: &Json, place: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return schema_faults(target, root, value, place, found);
    }
    for (keyword, rule) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "properties" | "items" => true,
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                other => panic!("{other}"),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "required" => {
                rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "additionalProperties" if rule.is_object() => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    schema_faults(rule, root, member, &format!("{place}.{name}"), found);
                }
                true
            }
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                value.as_object().is_none_or(|members| members.keys().all(known))
            }
            other => panic!("the keyword {other} is not known to this test"),
        };
        if !holds {
            found.push(format!("{place}: {keyword} {rule}, but it is {value}"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        if let Some(rule) = schema["properties"].get(name) {
            schema_faults(rule, root, member, &format!("{place}.{name}"), found);
        }
    }
    if let Some(rule) = schema.get("items") {
        for item in value.as_array().into_iter().flatten() {
            schema_faults(rule, root, item, &format!("{place}[]"), found);
        }
    }
}

#[track_caller]
fn schema_holds(report: &Json) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/telemetry_report.schema.json");
    let schema: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let faults = |report: &Json| {
        let mut found = Vec::new();
        schema_faults(&schema, &schema, report, "report", &mut found);
        found
    };
    assert_eq!(faults(report), Vec::<String>::new());
    let mut foreign = report.clone();
    foreign["servers"][0]["foreign"] = json!(1);
    assert_eq!(faults(&foreign).len(), 1);
    let mut lacking = report.clone();
    lacking.as_object_mut().unwrap().remove("interval_ns");
    assert_eq!(faults(&lacking).len(), 1);
}

/// The names of members, and the types of values.
fn shape(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.first().map(|first| vec![shape(first)]).unwrap_or_default().into(),
        Json::Bool(_) => json!("bool"),
        Json::Null => json!("null"),
        Json::Number(_) => json!("number"),
        Json::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), shape(value))).collect::<Map<_, _>>().into()
        }
        Json::String(_) => json!("string"),
    }
}

fn only(members: &Json) -> Json {
    json!({ "*": members.as_object().unwrap().values().next().unwrap() })
}

fn gpu_shape(document: &Json) -> Json {
    let mut document = document.clone();
    let gpus = only(&only(&document["endpoints"])["*"]["gpus"]);
    document["endpoints"] = json!({ "*": { "gpus": gpus } });
    shape(&document)
}

/// One family of each kind, without labels, which are the server's own.
fn family_shapes(metrics: &Json) -> Json {
    let families = [
        ("counter", "vllm:generation_tokens"),
        ("gauge", "vllm:num_requests_running"),
        ("histogram", "vllm:time_to_first_token_seconds"),
    ];
    let shapes = families.iter().map(|(kind, name)| {
        let mut family = metrics[*name].clone();
        let series = family["series"][0].as_object_mut().unwrap();
        series.shift_remove("labels");
        if let Some(buckets) = series.get_mut("buckets") {
            *buckets = json!({ "*": 1 });
        }
        ((*kind).to_owned(), shape(&family))
    });
    shapes.collect::<Map<_, _>>().into()
}

fn fake_gpu(index: u32, value: f64) -> (Device, Vec<(Nvidia, f64)>) {
    let device = Device {
        index,
        uuid: format!("GPU-{index:08}"),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        pci_bus_id: Some(format!("00000000:0{index}:00.0")),
        device: Some(format!("nvidia{index}")),
        hostname: Some("mockhost".to_owned()),
        namespace: None,
        pod_name: None,
    };
    let values = vec![
        (Nvidia::PowerUsage, 300.0 + value),
        (Nvidia::EnergyConsumption, 1.0 + value * 1e-4),
        (Nvidia::GpuUtilization, 90.0),
        (Nvidia::MemoryUtilization, 30.0),
        (Nvidia::MemoryUsed, 73.4),
        (Nvidia::Temperature, 55.0),
        (Nvidia::SmUtilization, 80.0),
        (Nvidia::XidErrors, 0.0),
        (Nvidia::PowerViolation, 0.0),
    ];
    (device, values)
}

#[test]
fn the_files_of_two_fake_servers_have_the_members_of_the_reference() {
    let gpus = exporter(|number| {
        let value = number as f64;
        Some(text(dcgm::render(&[fake_gpu(0, value), fake_gpu(1, value * 2.0)])))
    });
    let telemetry = format!(
        "  gpu_telemetry: {{enabled: true, urls: ['http://{gpus}']}}\n  server_metrics: {{enabled: true, formats: [json, csv, jsonl]}}\n"
    );
    let interval = "0.05";
    let run = run(
        &telemetry,
        &[
            "{name: warm_a, kind: warmup, type: concurrency, concurrency: 1, duration: 0.3s, grace_period: 5}",
            "{name: load_a, kind: profiling, type: concurrency, concurrency: 2, duration: 0.5s, grace_period: 5}",
            "{name: warm_b, kind: warmup, type: concurrency, concurrency: 1, duration: 0.3s, grace_period: 5}",
            "{name: load_b, kind: profiling, type: concurrency, concurrency: 3, duration: 0.5s, grace_period: 5}",
        ],
        &[
            ("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", interval),
            ("AIPERF_GPU_COLLECTION_INTERVAL", interval),
        ],
    );
    let expected: Json = serde_json::from_str(include_str!("data/telemetry/e2e_shapes.json")).unwrap();
    let same = |what: &str, found: Json| assert_eq!(found, expected[what], "{what}");

    let root = run.json("profile_export_aiperf.json");
    same("gpu_root", gpu_shape(&root["telemetry_data"]));
    let mut phase = run.json("phases/load_a/gpu_telemetry.json");
    let data = gpu_shape(&phase["data"].take());
    let mut phase = shape(&phase);
    phase["data"] = data;
    same("gpu_phase", phase);

    let mut server = run.json("server_metrics_export.json");
    let members = server.as_object_mut().unwrap();
    assert!(members.remove("input_config").is_some());
    let (metrics, warmup) = (members.remove("metrics").unwrap(), members.remove("warmup_metrics").unwrap());
    server["summary"]["endpoint_info"] = only(&server["summary"]["endpoint_info"]);
    same("server_root", shape(&server));
    same("server_root_metrics", family_shapes(&metrics));
    same("server_root_warmup", family_shapes(&warmup));
    let mut phase = run.json("phases/load_a/server_metrics.json");
    let mut endpoint = only(&phase["data"]["endpoint_summaries"]);
    let metrics = endpoint["*"].as_object_mut().unwrap().remove("metrics").unwrap();
    phase["data"]["endpoint_summaries"] = endpoint;
    same("server_phase", shape(&phase));
    same("server_phase_metrics", family_shapes(&metrics));

    let lines = run.lines("server_metrics_export.jsonl");
    assert!(lines.first().unwrap().get("phase_name").is_none(), "the first page belongs to no phase");
    let mut line = lines.into_iter().find(|line| line["phase_name"] == "load_a").unwrap();
    line["metrics"] = json!({});
    same("server_line", shape(&line));
    same("gpu_line", shape(&run.lines("gpu_telemetry_export.jsonl")[0]));
    let manifest = run.json("phase_manifest.json");
    same("manifest_entry", shape(&manifest["phases"][1]));
    for entry in manifest["phases"].as_array().unwrap() {
        for member in ["server_metrics_json", "gpu_telemetry_json"] {
            assert!(run.path(entry[member].as_str().unwrap()).exists(), "{member} of {entry}");
        }
    }

    // The metrics of energy follow from the files themselves.
    let units: Map<String, Json> = root
        .as_object()
        .unwrap()
        .iter()
        .filter(|(tag, _)| tag.starts_with("nvidia_"))
        .map(|(tag, metric)| (tag.clone(), metric["unit"].clone()))
        .collect();
    assert_eq!(Json::Object(units), expected["energy_units"]);
    let avg = |tag: &str| root[tag]["avg"].as_f64().unwrap();
    let gpus =
        root["telemetry_data"]["endpoints"].as_object().unwrap().values().next().unwrap()["gpus"].clone();
    let energy: f64 = gpus
        .as_object()
        .unwrap()
        .values()
        .map(|gpu| gpu["metrics"]["nvidia_energy_consumption"]["avg"].as_f64().unwrap() * 1e6)
        .sum();
    let close =
        |left: f64, right: f64| assert!((left - right).abs() <= 1e-6 * right.abs(), "{left}, not {right}");
    close(avg("nvidia_total_gpu_energy"), energy);
    close(avg("nvidia_energy_per_output_token"), 1_000.0 * energy / avg("total_osl"));
    close(avg("nvidia_energy_per_request"), energy / avg("request_count"));
    close(avg("nvidia_energy_per_user"), energy / 2.0);
    close(avg("nvidia_performance_per_watt"), avg("request_throughput") / avg("nvidia_average_gpu_power"));

    let csv = std::fs::read_to_string(run.path("profile_export_aiperf.csv")).unwrap();
    assert!(csv.contains("\r\n\r\n\r\nEndpoint,GPU_Index,GPU_Name,GPU_UUID,Platform,Metric,avg,"), "{csv}");
    assert!(
        csv.contains(",1,NVIDIA H100 80GB HBM3,GPU-00000001,nvidia,NVIDIA GPU Power Usage (W),"),
        "{csv}"
    );
    let console = String::from_utf8_lossy(&run.output.stdout).into_owned();
    for part in ["GPU Power Efficiency (NVIDIA)", "1/1 telemetry sources reachable", "GPU 1 | NVIDIA H100"] {
        assert!(console.contains(part), "{part}");
    }
    schema_holds(&run.json("telemetry_report.json"));
}

#[test]
fn a_bad_exporter_costs_nothing_but_its_own_numbers() {
    let good = |number: usize| format!("# TYPE good_total counter\ngood_total {number} 4102444800000\n");
    let gzip = |body: String| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(body.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            packed.len()
        )
        .into_bytes();
        answer.extend_from_slice(&packed);
        answer
    };
    let status = |line: &'static str| {
        move |_| {
            Some(format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes())
        }
    };
    let half = move |number: usize| {
        let whole = text(good(number));
        // The first page and every other one is whole.
        Some(if number.is_multiple_of(2) { whole } else { whole[..whole.len() - 10].to_vec() })
    };
    let huge = b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n".to_vec();
    let exporters = [
        (
            "duplicates",
            exporter(move |number| {
                Some(text(format!(
                    "{0}# TYPE good_total counter\ngood_total{{a=\"1\"}} {number}\n",
                    good(number)
                )))
            }),
        ),
        ("gzip", exporter(move |number| Some(gzip(good(number))))),
        ("half", exporter(half)),
        ("hang", exporter(|_| None)),
        ("html", exporter(|_| Some(page("text/html", b"<html><body>hello</body></html>")))),
        ("huge", exporter(move |_| Some(huge.clone()))),
        ("json", exporter(|_| Some(page("application/json", b"{\"a\": 1}")))),
        (
            "late",
            exporter(move |number| {
                Some(text(if number < 4 {
                    good(number)
                } else {
                    format!("{}appeared_total {number}\n# TYPE appeared_total counter\n", good(number))
                }))
            }),
        ),
        ("missing", exporter(status("404 Not Found"))),
        ("nan", exporter(|_| Some(text("# TYPE g gauge\ng NaN\n")))),
        ("redirect", exporter(status("302 Found\r\nLocation: http://127.0.0.1:1/"))),
        (
            "restart",
            exporter(move |number| Some(text(good(if number < 6 { 1_000 + number } else { number })))),
        ),
    ];
    let url = |wanted: &str| {
        let (_, address) = exporters.iter().find(|(name, _)| *name == wanted).unwrap();
        format!("http://{address}/metrics")
    };
    let urls: Vec<String> = exporters.iter().map(|(name, _)| format!("'{}'", url(name))).collect();
    let telemetry = format!("  server_metrics: {{urls: [{}, 'http://127.0.0.1:2']}}\n", urls.join(", "));
    let run = run(
        &telemetry,
        &[
            "{name: one, kind: profiling, type: concurrency, concurrency: 2, duration: 0.6s, grace_period: 5}",
            "{name: two, kind: profiling, type: concurrency, concurrency: 2, duration: 0.4s, grace_period: 5}",
        ],
        // The one that hangs would hold the run for minutes if anything waited for it.
        &[
            ("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.04"),
            ("AIPERF_SERVER_METRICS_REACHABILITY_TIMEOUT", "300"),
        ],
    );
    let client = run.json("client_report.json");
    assert_eq!(client["total"]["ok"], client["total"]["sent"]);
    let report = run.json("telemetry_report.json");
    let server = |name: &str| {
        let servers = report["servers"].as_array().unwrap();
        servers.iter().find(|server| server["endpoint_url"] == json!(url(name))).unwrap().clone()
    };
    let failure = |name: &str| server(name)["failures"][0]["message"].as_str().unwrap_or_default().to_owned();
    for (name, said) in [
        ("html", "its type is text/html"),
        ("huge", "larger than 16 MiB"),
        ("json", "its type is application/json"),
        ("missing", "status 404"),
        ("redirect", "status 302"),
    ] {
        assert!(failure(name).contains(said), "{name}: {}", failure(name));
        assert!(server(name)["given_up"].is_string(), "{name}");
    }
    assert!(failure("half").contains("cut off"), "{}", failure("half"));
    assert_eq!(server("half").get("given_up"), None, "a page that is cut now and then");
    let fetches = |name: &str| {
        let info = run.json("server_metrics_export.json")["summary"]["endpoint_info"].clone();
        info[url(name)]["total_fetches"].as_u64().unwrap_or(0)
    };
    for name in ["duplicates", "gzip", "half", "late", "restart"] {
        assert!(fetches(name) > 3, "{name}: {} pages", fetches(name));
    }
    for name in ["hang", "html", "huge", "json", "missing", "nan", "redirect"] {
        assert_eq!(fetches(name), 0, "{name}");
    }
    // Both label sets of the family that stands twice on the page.
    let root = run.json("server_metrics_export.json");
    let good = root["metrics"]["good"]["series"].as_array().unwrap();
    assert_eq!(good.iter().filter(|one| one["endpoint_url"] == json!(url("duplicates"))).count(), 2);
    assert!(root["metrics"]["appeared"].is_object() || root["metrics"]["appeared_total"].is_object());
    assert!(root["metrics"].get("g").is_none(), "what is not a number is nowhere");
    // A restart is said, and what it took is not made up.
    let one = run.json("phases/one/server_metrics.json");
    let warnings: Vec<&str> =
        one["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(
        warnings.iter().any(|one| one.contains(&url("restart")) && one.contains("started anew")),
        "{warnings:?}"
    );
    let restarted = server("restart");
    let spans = restarted["spans"].as_array().unwrap();
    assert!(
        spans.iter().any(|span| span["metrics"]["good"]["series"][0]["restarted"] == json!(true)),
        "{spans:?}"
    );
    // One notice names all that is missing.
    let stderr = run.stderr();
    assert_eq!(stderr.matches("no server metrics from").count(), 7 + 1, "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.contains("no server metrics from")).count(), 1, "{stderr}");
    schema_holds(&report);
}

#[test]
fn without_an_exporter_there_are_no_files_and_the_run_is_the_same() {
    let phases = [
        "{name: one, kind: profiling, type: concurrency, concurrency: 2, requests: 9}",
        "{name: two, kind: profiling, type: concurrency, concurrency: 2, requests: 9}",
    ];
    let off = run("  gpu_telemetry: {enabled: false}\n  server_metrics: {enabled: false}\n", &phases, &[]);
    assert!(!off.stderr().contains("telemetry"), "{}", off.stderr());
    let dead = run(
        "  gpu_telemetry: {urls: ['http://127.0.0.1:2']}\n  server_metrics: {enabled: false}\n",
        &phases,
        &[],
    );
    assert_eq!(dead.stderr().matches("no GPU telemetry from http://127.0.0.1:2/metrics").count(), 1);
    // The files of an earlier run are not taken for this one's.
    let stale = run("", &phases, &[]);
    assert!(stale.path("server_metrics_export.json").exists());
    let again = Command::new(env!("CARGO_BIN_EXE_phasor"))
        .current_dir(stale.directory.path())
        .args(["profile", "--config", "config.yaml", "--artifact-dir", "out", "--ui", "none", "--mock"])
        .args(["--no-server-metrics", "--no-gpu-telemetry"])
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    for run in [off, dead, stale] {
        for name in [
            "server_metrics_export.json",
            "server_metrics_export.csv",
            "gpu_telemetry_export.jsonl",
            "telemetry_report.json",
            "phases/one/server_metrics.json",
            "phases/one/gpu_telemetry.json",
        ] {
            assert!(!run.path(name).exists(), "{name}");
        }
        assert!(run.json("profile_export_aiperf.json").get("telemetry_data").is_none());
        let entry = run.json("phase_manifest.json")["phases"][0].clone();
        assert!(entry.get("server_metrics_json").is_none() && entry.get("gpu_telemetry_json").is_none());
    }
}

#[test]
fn what_is_not_collected_yet_is_said_before_the_run() {
    let found = |telemetry: &str| {
        let yaml = format!(
            "benchmark:\n  model: m\n  endpoint: {{url: 'http://127.0.0.1:1', type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 2, prompts: {{isl: 4, osl: 4}}}}\n  {telemetry}\n  phases:\n    - {{name: one, kind: profiling, type: concurrency, concurrency: 1, requests: 1}}\n"
        );
        let config = config::parse("config.yaml", &yaml).unwrap().config;
        let found = config::support::unsupported(&config);
        (found.has_errors(), found.render(config::Colour::Never))
    };
    for (telemetry, key, refused) in [
        ("gpu_telemetry: {collector: amdsmi}", "gpu_telemetry.collector: amdsmi", true),
        ("gpu_telemetry: {mode: realtime_dashboard}", "gpu_telemetry.mode: realtime_dashboard", false),
        ("server_metrics: {formats: [json, parquet]}", "server_metrics.formats: parquet", false),
        ("server_metrics: {discovery: {mode: kubernetes}}", "server_metrics.discovery: kubernetes", false),
    ] {
        let (has_errors, text) = found(telemetry);
        assert!(text.contains(key) && text.contains("config.yaml:5"), "{text}");
        assert_eq!(has_errors, refused, "{text}");
    }
    for quiet in ["gpu_telemetry: {urls: ['http://h:1']}", "server_metrics: {formats: [json, csv, jsonl]}"] {
        assert_eq!(found(quiet).1, "", "{quiet}");
    }
}

/// Two GPUs, of which the second one disappears.
struct FakeLibrary {
    asked: mpsc::Sender<u32>,
    turns: u32,
}

impl Library for FakeLibrary {
    fn devices(&self) -> Result<u32, LibraryError> {
        Ok(2)
    }

    fn sample(&mut self, index: u32) -> Result<Sample, LibraryError> {
        let _ = self.asked.send(index);
        if index == 1 {
            self.turns += 1;
            if self.turns > 2 {
                return Err(LibraryError::Device { index, why: "GPU is lost".to_owned() });
            }
        }
        let raw = Raw {
            uuid: Some(format!("GPU-{index}")),
            power_mw: Some(100_000),
            energy_mj: Some(u64::from(self.turns) * 1_000),
            ..Raw::default()
        };
        Ok(sample_of(index, raw))
    }
}

fn local_config() -> Config {
    let yaml = "benchmark:\n  model: m\n  endpoint: {url: 'http://127.0.0.1:1', type: chat, streaming: true}\n  dataset: {type: synthetic, entries: 2, prompts: {isl: 4, osl: 4}}\n  gpu_telemetry: {collector: pynvml}\n  server_metrics: {enabled: false}\n  phases:\n    - {name: one, kind: profiling, type: concurrency, concurrency: 1, requests: 1}\n";
    config::parse("config.yaml", yaml).unwrap().config
}

#[test]
fn a_gpu_that_disappears_leaves_the_others_and_is_told() {
    let config = local_config();
    let plan = Plan::new(&config, 2, 1);
    let settings = TelemetrySettings { gpu_interval: Nanos::from_millis(5), ..TelemetrySettings::default() };
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::start();
    let (asked, calls) = mpsc::channel();
    let mut collector =
        Collector::start_with(&config, &plan, &settings, directory.path(), None, clock, || {
            Ok(Box::new(FakeLibrary { asked, turns: 0 }) as Box<dyn Library>)
        })
        .unwrap();
    let barrier = Arc::new(Barrier::new(&plan, 1));
    let shared = Shared::new(&plan);
    let stage = Stage {
        plan: &plan,
        shared: &shared,
        gauges: &[],
        barrier: &barrier,
        directory: directory.path(),
        clock,
    };
    collector.before_first_phase(&stage);
    barrier.arrive_ready(clock.now());
    // The first fetch and at least three in the phase.
    for _ in 0..8 {
        calls.recv().unwrap();
    }
    barrier.arrive_closed(0, clock.now());
    collector.phase_drained(&stage, &plan.phases[0]);
    let collected = collector.finish(&mut Display::new(Ui::None, None));
    assert_eq!(collected.faults, Vec::<String>::new());
    let telemetry = collected.telemetry;
    let source = &telemetry.gpus[0];
    assert_eq!(source.history.url(), "pynvml://localhost");
    assert_eq!(source.account.failures[0].0, "GPU 1: GPU is lost");
    let samples: Vec<usize> = source
        .history
        .tracks()
        .iter()
        .map(|track| track.values(Nvidia::PowerUsage as usize).count())
        .collect();
    assert!(samples[0] > 3 && samples[1] == 2, "{samples:?}");
    assert_eq!(telemetry.gpu_edges.len(), 1, "the end of the phase was read");
    let lines = std::fs::read_to_string(directory.path().join("gpu_telemetry_export.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), samples[0] + samples[1]);
}

#[test]
fn without_nvidias_library_nothing_is_collected_and_nothing_fails() {
    let config = local_config();
    let plan = Plan::new(&config, 2, 1);
    let directory = tempfile::tempdir().unwrap();
    for why in ["libnvidia-ml.so.1: cannot open shared object file", "Insufficient Permissions"] {
        let settings = TelemetrySettings::default();
        let missing = || Err(LibraryError::Missing(why.to_owned()));
        let collector =
            Collector::start_with(&config, &plan, &settings, directory.path(), None, Clock::start(), missing)
                .unwrap();
        let collected = collector.finish(&mut Display::new(Ui::None, None));
        assert!(collected.telemetry.gpus.is_empty() && !collected.telemetry.has_gpus());
        assert_eq!(collected.faults, Vec::<String>::new());
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "no file");
}

#[test]
fn only_a_phase_that_waits_for_the_one_before_it_waits_for_a_page() {
    let yaml = "benchmark:\n  model: m\n  endpoint: {url: 'http://127.0.0.1:1', type: chat, streaming: true}\n  dataset: {type: synthetic, entries: 2, prompts: {isl: 4, osl: 4}}\n  phases:\n    - {name: one, kind: profiling, type: concurrency, concurrency: 1, requests: 1}\n    - {name: two, kind: profiling, type: concurrency, concurrency: 1, requests: 1}\n    - {name: three, kind: profiling, type: concurrency, concurrency: 1, requests: 1, seamless: true}\n";
    let plan = Plan::new(&config::parse("config.yaml", yaml).unwrap().config, 2, 1);
    let barrier = Barrier::new(&plan, 1);
    let pause = Nanos::from_millis(3);
    barrier.pause_for(pause);
    let start = |phase: u16| barrier.start_of(phase).unwrap().at;
    let now = Stamp::from_nanos(1_000_000_000);
    barrier.arrive_ready(now);
    assert_eq!(start(0), now.plus(FIRST_LEAD));
    barrier.arrive_ended(0, 1, false, now);
    barrier.arrive_closed(0, now);
    assert_eq!(start(1), now.plus(LEAD).plus(pause));
    barrier.arrive_ended(1, 1, false, now);
    assert_eq!(start(2), now.plus(LEAD), "a seamless switch has no pause");
}

#[test]
fn a_file_of_fields_that_is_not_there_is_named_before_the_run() {
    let mut config = local_config();
    config.gpu_telemetry.metrics_file = Some("no/such/fields.csv".to_owned());
    let plan = Plan::new(&config, 2, 1);
    let directory = tempfile::tempdir().unwrap();
    let settings = TelemetrySettings::default();
    let refused = Collector::start(&config, &plan, &settings, directory.path(), None, Clock::start());
    let message = refused.err().map(|error| error.to_string()).unwrap();
    assert!(
        message.contains("gpu_telemetry.metrics_file") && message.contains("no/such/fields.csv"),
        "{message}"
    );
}
