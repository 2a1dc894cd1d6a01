//! `server_metrics_export.jsonl` and `gpu_telemetry_export.jsonl`: a line per page, a line per sample.

use crate::artifact::telemetry::server::labels_json;
use crate::prometheus::{Exposition, Value};
use crate::telemetry::gpu::{Platform, Sample, Signal};
use crate::telemetry::{Fetch, PhaseKey};
use serde_json::{Map, Value as Json, json};

/// The line of a page that differs from the one before (spec/telemetry B10).
pub fn server(url: &str, fetch: &Fetch, page: &Exposition, phase: Option<&PhaseKey>) -> Json {
    let families = page.families.iter().filter(|family| !family.name.ends_with("_info"));
    let metrics = families.map(|family| {
        let samples = family.samples.iter().map(|sample| {
            let mut members = Map::new();
            if !sample.labels.is_empty() {
                members.insert("labels".to_owned(), labels_json(&sample.labels));
            }
            match &sample.value {
                Value::Number(number) => {
                    members.insert("value".to_owned(), json!(number));
                }
                Value::Histogram(histogram) => {
                    let buckets =
                        histogram.buckets.iter().map(|(bound, count)| (bound.clone(), json!(count)));
                    members.insert("buckets".to_owned(), Json::Object(buckets.collect()));
                    for (name, number) in [("sum", histogram.sum), ("count", histogram.count)] {
                        members.extend(number.map(|number| (name.to_owned(), json!(number))));
                    }
                }
            }
            Json::Object(members)
        });
        (family.name.clone(), samples.collect::<Json>())
    });
    let mut line = json!({
        "endpoint_url": url,
        "timestamp_ns": fetch.at_ns,
        "endpoint_latency_ns": fetch.latency_ns,
        "metrics": metrics.collect::<Map<_, _>>(),
        "request_sent_ns": fetch.sent_ns,
        "first_byte_ns": fetch.at_ns,
    });
    if let (Some(phase), Some(members)) = (phase, line.as_object_mut()) {
        let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
        add("benchmark_phase", json!(phase.kind.name()));
        add("phase_index", json!(phase.index));
        if let Some(index) = phase.profiling_index {
            add("profiling_index", json!(index));
        }
        add("phase_name", json!(phase.name));
        add("phase_kind", json!(phase.kind.name()));
    }
    line
}

/// The line of a sample (spec/telemetry A5).
pub fn gpu(url: &str, at_ns: u64, sample: &Sample, signals: &[Signal]) -> Json {
    let device = &sample.device;
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("gpu_index", json!(device.index));
    add("gpu_uuid", json!(device.uuid));
    add("gpu_model_name", json!(device.model));
    let optional = [
        ("pci_bus_id", &device.pci_bus_id),
        ("device", &device.device),
        ("hostname", &device.hostname),
        ("namespace", &device.namespace),
        ("pod_name", &device.pod_name),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            add(name, json!(value));
        }
    }
    add("platform", json!(Platform::Nvidia.name()));
    add("timestamp_ns", json!(at_ns));
    add("telemetry_source_url", json!(url));
    let values = signals.iter().zip(&sample.values);
    let values =
        values.filter_map(|(signal, value)| Some((signal.key.clone().into_owned(), json!((*value)?))));
    add("telemetry_data", Json::Object(values.collect()));
    Json::Object(members)
}
