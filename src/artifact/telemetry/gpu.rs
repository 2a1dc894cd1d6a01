//! GPU telemetry in the root JSON and CSV, and of phases (spec/telemetry A6, A8).

use crate::artifact::csv::{bytes, number, writer};
use crate::artifact::json::local_time;
use crate::telemetry::gpu::Platform;
use crate::telemetry::gpu::summary::{self, DeviceFigures, SignalFigures, SourceFigures, Window};
use crate::telemetry::numbers::{PERCENTILES, Spread};
use crate::telemetry::{GpuSource, Telemetry};
use serde_json::{Map, Value as Json, json};

/// The data of `samples`, of which the run says that it ran during `shown`.
pub fn document(telemetry: &Telemetry, samples: Window, shown: Window) -> Json {
    let endpoints = summary::of(telemetry, samples)
        .into_iter()
        .filter(|source| !source.devices.is_empty())
        .map(|source| {
            let gpus = source.devices.iter().map(|device| (device.key.clone(), device_json(device)));
            (source.endpoint, json!({ "gpus": gpus.collect::<Map<_, _>>() }))
        });
    let answered = telemetry.gpus.iter().filter(|source| !source.history.tracks().is_empty());
    let successful: Vec<&str> = answered.map(|source| source.history.url()).collect();
    json!({
        "summary": {
            "endpoints_configured": telemetry.gpus_configured,
            "endpoints_successful": successful,
            "start_time": local_time(shown.start_ns),
            "end_time": local_time(shown.end_ns),
        },
        "endpoints": endpoints.collect::<Map<_, _>>(),
        "error_summary": telemetry.gpus.iter().flat_map(errors).collect::<Vec<_>>(),
    })
}

fn errors(source: &GpuSource) -> impl Iterator<Item = Json> {
    source.account.failures.iter().map(|(message, count)| {
        let message = format!("{}: {message}", source.history.url());
        json!({ "error_details": { "type": "TelemetryError", "message": message }, "count": count })
    })
}

fn device_json(figures: &DeviceFigures<'_>) -> Json {
    let device = figures.device;
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("gpu_index", json!(device.index));
    add("gpu_name", json!(device.model));
    add("gpu_uuid", json!(device.uuid));
    add("platform", json!(Platform::Nvidia.name()));
    let optional =
        [("hostname", &device.hostname), ("namespace", &device.namespace), ("pod_name", &device.pod_name)];
    for (name, value) in optional {
        if let Some(value) = value {
            add(name, json!(value));
        }
    }
    let metrics = figures.signals.iter().map(|(signal, figures)| {
        let mut metric = Map::new();
        metric.insert("unit".to_owned(), json!(signal.unit));
        let mut add = |name: &str, value: Json| metric.insert(name.to_owned(), value);
        match figures {
            SignalFigures::Rise(rise) => {
                add("avg", json!(rise));
            }
            SignalFigures::Spread(Spread { avg, min, max, std, sum, count, percentiles }) => {
                add("avg", json!(avg));
                for (percent, value) in PERCENTILES.iter().zip(percentiles) {
                    add(&format!("p{percent}"), json!(value));
                }
                for (name, value) in [("min", min), ("max", max), ("std", std)] {
                    add(name, json!(value));
                }
                add("count", json!(count));
                add("sum", json!(sum));
            }
        }
        (signal.key.clone().into_owned(), Json::Object(metric))
    });
    add("metrics", Json::Object(metrics.collect()));
    Json::Object(members)
}

/// An attribute of a device that has a column of its own where some device has it.
type Attribute = fn(&DeviceFigures<'_>) -> Option<String>;

/// The third table of the root CSV with the two empty lines before it. An error is one of the writer, which
/// cannot fail in memory.
pub fn csv_section(telemetry: &Telemetry, window: Window) -> Result<Vec<u8>, csv::Error> {
    let sources = summary::of(telemetry, window);
    let rows = || sources.iter().flat_map(|source| source.devices.iter().map(move |device| (source, device)));
    let mut header: Vec<String> =
        ["Endpoint", "GPU_Index", "GPU_Name", "GPU_UUID", "Platform", "Metric", "avg", "min", "max", "sum"]
            .map(str::to_owned)
            .into();
    header.extend(PERCENTILES.map(|percent| format!("p{percent}")));
    header.push("std".to_owned());
    let attributes: [(&str, Attribute); 3] = [
        ("Hostname", |figures| figures.device.hostname.clone()),
        ("Namespace", |figures| figures.device.namespace.clone()),
        ("Pod Name", |figures| figures.device.pod_name.clone()),
    ];
    let present: Vec<&(&str, Attribute)> = attributes
        .iter()
        .filter(|(_, attribute)| rows().any(|(_, device)| attribute(device).is_some()))
        .collect();
    header.extend(present.iter().map(|(name, _)| (*name).to_owned()));
    let mut writer = writer();
    writer.write_record(&header)?;
    for (source, device) in rows() {
        for row in device_rows(source, device) {
            let attributes = present.iter().map(|(_, attribute)| attribute(device).unwrap_or_default());
            writer.write_record(row.into_iter().chain(attributes))?;
        }
    }
    let mut section = b"\r\n\r\n".to_vec();
    section.extend_from_slice(&bytes(writer)?);
    Ok(section)
}

fn device_rows(source: &SourceFigures<'_>, figures: &DeviceFigures<'_>) -> Vec<Vec<String>> {
    let rows = figures.signals.iter().map(|(signal, value)| {
        let mut row = vec![
            source.endpoint.clone(),
            figures.device.index.to_string(),
            figures.device.model.clone(),
            figures.device.uuid.clone(),
            Platform::Nvidia.name().to_owned(),
            format!("{} ({})", signal.header, signal.unit),
        ];
        match value {
            SignalFigures::Rise(rise) => {
                row.push(number(*rise));
                row.extend(vec![String::new(); PERCENTILES.len() + 4]);
            }
            SignalFigures::Spread(spread) => {
                row.extend([spread.avg, spread.min, spread.max, spread.sum].map(number));
                row.extend(spread.percentiles.map(number));
                row.push(number(spread.std));
            }
        }
        row
    });
    rows.collect()
}
