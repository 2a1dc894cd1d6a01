//! `profile_export_aiperf.json` of the run and of each phase (spec/artifacts 4).

use crate::artifact::results::{Results, Scope};
use crate::artifact::{FinishedRun, telemetry};
use crate::measure::statistics::PERCENTILES;
use crate::measure::summary::{Summary, Value};
use crate::measure::tally::ErrorGroup;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// The schema that the members follow.
pub const SCHEMA_VERSION: &str = "1.4";

/// The AIPerf release whose files these are.
pub const AIPERF_VERSION: &str = "0.13.0";

/// Why a cut run is incomplete, in AIPerf's words.
pub const INCOMPLETE_REASON: &str = "Run cancelled before all records were processed.";

/// The metrics that AIPerf writes first, in its order; all others follow as the catalogue has them.
const LEADING: [&str; 23] = [
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
    "goodput",
    "good_request_count",
    "output_token_count",
    "reasoning_token_count",
    "inter_chunk_latency",
    "total_output_tokens",
    "total_reasoning_tokens",
    "benchmark_duration",
    "total_isl",
    "total_osl",
    "error_request_count",
    "error_isl",
    "total_error_isl",
];

/// The same with the members of every object by name.
pub fn sorted(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(sorted).collect(),
        Json::Object(members) => {
            let mut members: Vec<(String, Json)> = members.into_iter().collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect::<Map<_, _>>().into()
        }
        Json::Bool(_) | Json::Null | Json::Number(_) | Json::String(_) => value,
    }
}

/// The pooled results.
pub(super) fn root(directory: &Path, run: &FinishedRun<'_>, results: &Results) -> Json {
    let warmup = results.warmup.as_ref().map(|warmup| {
        warmup
            .summary
            .values()
            .map(|(metric, value)| (metric.tag.to_owned(), object(metric.unit.name(), value)))
    });
    document(directory, run, &results.root, warmup.map(Iterator::collect), telemetry::gpu_root(run))
}

/// The results of one phase.
pub(super) fn phase(directory: &Path, run: &FinishedRun<'_>, scope: &Scope) -> Json {
    document(directory, run, scope, None, None)
}

fn document(
    directory: &Path,
    run: &FinishedRun<'_>,
    scope: &Scope,
    warmup_metrics: Option<Map<String, Json>>,
    telemetry: Option<Json>,
) -> Json {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("schema_version", json!(SCHEMA_VERSION));
    add("aiperf_version", json!(AIPERF_VERSION));
    add("benchmark_id", json!(run.benchmark_id));
    for tag in LEADING {
        if let Some((tag, value)) = member(&scope.summary, tag) {
            add(tag, value);
        }
    }
    if let Some(telemetry) = telemetry {
        add("telemetry_data", telemetry);
    }
    add("input_config", input_config(directory, run));
    add("run_info", run_info(run));
    add("was_cancelled", json!(scope.interrupted));
    add("is_complete", json!(!scope.interrupted));
    if scope.interrupted {
        add("incomplete_reason", json!(INCOMPLETE_REASON));
    }
    add("error_summary", Json::Array(scope.errors.iter().map(error).collect()));
    if let Some((start, end)) = scope.span {
        add("start_time", json!(local_time(run.clock.unix_ns(start))));
        add("end_time", json!(local_time(run.clock.unix_ns(end))));
    }
    if let Some(warmup_metrics) = warmup_metrics {
        add("warmup_metrics", Json::Object(warmup_metrics));
    }
    for (metric, value) in scope.summary.values() {
        if !LEADING.contains(&metric.tag) {
            add(metric.tag, object(metric.unit.name(), value));
        }
    }
    Json::Object(members)
}

fn member(summary: &Summary, tag: &str) -> Option<(&'static str, Json)> {
    let (metric, value) = summary.values().find(|(metric, _)| metric.tag == tag)?;
    Some((metric.tag, object(metric.unit.name(), value)))
}

/// A metric's object: unit, average, percentiles, minimum, maximum, deviation, count and sum, as far as
/// there are such. A number that is not finite is left out.
pub(super) fn object(unit: &str, value: &Value) -> Json {
    let mut object = Map::new();
    object.insert("unit".to_owned(), json!(unit));
    let mut add = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            object.insert(name.to_owned(), json!(value));
        }
    };
    match value {
        Value::Adjusted(adjusted) => {
            for (percent, value) in PERCENTILES.iter().zip(adjusted.percentiles) {
                add(&format!("p{percent}"), value);
            }
            add("min", Some(adjusted.min));
            object.insert("count".to_owned(), json!(adjusted.count));
        }
        Value::Full(statistics) => {
            add("avg", Some(statistics.avg));
            for (percent, value) in PERCENTILES.iter().zip(statistics.percentiles) {
                add(&format!("p{percent}"), Some(value));
            }
            add("min", Some(statistics.min));
            add("max", Some(statistics.max));
            add("std", Some(statistics.std));
            object.insert("count".to_owned(), json!(statistics.count));
            object.insert("sum".to_owned(), json!(statistics.sum));
        }
        Value::Single(value) => add("avg", Some(*value)),
        Value::Weighted(curve) => {
            add("avg", Some(curve.avg));
            add("p50", Some(curve.p50));
            add("p90", Some(curve.p90));
            add("p95", Some(curve.p95));
            add("p99", Some(curve.p99));
            add("min", Some(curve.min));
            add("max", Some(curve.max));
            add("std", Some(curve.std));
        }
    }
    Json::Object(object)
}

/// The config in AIPerf's normal form, with the directory that was really written to.
pub(super) fn input_config(directory: &Path, run: &FinishedRun<'_>) -> Json {
    let mut config = run.config.input_config.clone();
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    if let Json::Object(members) = &mut config {
        let artifacts = members.entry("artifacts").or_insert_with(|| json!({}));
        if let Json::Object(artifacts) = artifacts {
            artifacts.insert("dir".to_owned(), json!(absolute.to_string_lossy()));
        }
    }
    config
}

/// Where a run stands: by itself, or as a cell of a sweep or one of several trials.
fn run_info(run: &FinishedRun<'_>) -> Json {
    let mut info = Map::new();
    let mut add = |name: &str, value: Json| info.insert(name.to_owned(), value);
    add("benchmark_id", json!(run.benchmark_id));
    if let Some(cell) = run.cell {
        add("sweep_id", json!(cell.sweep_id));
    }
    if let Some(seed) = run.config.random_seed {
        add("random_seed", json!(seed));
    }
    add("trial", json!(run.cell.map_or(0, |cell| cell.trial)));
    if let Some(cell) = run.cell {
        add("run_label", json!(cell.label()));
        add("variation_label", json!(cell.variation_label));
        add("variation_index", json!(cell.variation_index));
        add("variation_values", cell.variation_values.iter().cloned().collect::<Map<_, _>>().into());
    }
    add("cli_command", json!(run.cli_command));
    Json::Object(info)
}

fn error(group: &ErrorGroup) -> Json {
    let failure = &group.failure;
    let mut details = Map::new();
    if let Some(code) = failure.code {
        details.insert("code".to_owned(), json!(code));
    }
    details.insert("type".to_owned(), json!(failure.kind));
    details.insert("message".to_owned(), json!(failure.message));
    if let Some(cause) = &failure.cause {
        details.insert("cause".to_owned(), json!(cause));
    }
    if !failure.cause_chain.is_empty() {
        details.insert("cause_chain".to_owned(), json!(failure.cause_chain));
    }
    json!({ "error_details": details, "count": group.count })
}

/// Local wall time without zone, to the microsecond, as Python writes it: whole seconds have no fraction. UTC
/// where the zone of the machine is not known.
pub(super) fn local_time(unix_ns: u64) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    let whole = (unix_ns / 1_000).is_multiple_of(1_000_000);
    let format = if whole { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
    stamp.to_zoned_datetime(TimeZone::system()).strftime(format).to_string()
}
