//! `profile_export_aiperf_timeslices.json` and `.csv` (spec/artifacts 11): the profiling requests, slice by
//! slice.

use crate::artifact::FinishedRun;
use crate::artifact::csv::{bytes, number, writer};
use crate::artifact::json::{input_config, object};
use crate::measure::slices::Slice;
use crate::measure::statistics::PERCENTILES;
use crate::measure::summary::Value;
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// All slices, in order.
pub(super) fn json_file(directory: &Path, run: &FinishedRun<'_>, slices: &[Slice]) -> Json {
    let slices: Vec<Json> = slices
        .iter()
        .map(|slice| {
            let mut members = Map::new();
            members.insert("start_ns".to_owned(), json!(slice.start_ns));
            members.insert("end_ns".to_owned(), json!(slice.end_ns));
            if !slice.is_complete {
                members.insert("is_complete".to_owned(), json!(false));
            }
            let metrics = slice.summary.values();
            members.extend(
                metrics.map(|(metric, value)| (metric.tag.to_owned(), object(metric.unit.name(), value))),
            );
            Json::Object(members)
        })
        .collect();
    json!({ "timeslices": slices, "input_config": input_config(directory, run) })
}

/// One row per slice, metric and statistic. An error is one of the writer, which cannot fail in memory.
pub(super) fn csv_file(slices: &[Slice]) -> Result<Vec<u8>, csv::Error> {
    let mut rows = writer();
    rows.write_record(["Timeslice", "Start_NS", "End_NS", "Metric", "Unit", "Stat", "Value"])?;
    for (count, slice) in slices.iter().enumerate() {
        let mut metrics: Vec<_> = slice.summary.values().collect();
        metrics.sort_by_key(|(metric, _)| metric.tag);
        let (count, start, end) = (count.to_string(), slice.start_ns.to_string(), slice.end_ns.to_string());
        for (metric, value) in metrics {
            for (name, value) in statistics(value) {
                let unit = metric.unit.name();
                rows.write_record([&count, &start, &end, metric.header, unit, &name, &number(value)])?;
            }
        }
    }
    bytes(rows)
}

/// Names and values of the statistics that there are, in the order of the columns of results.
fn statistics(value: &Value) -> Vec<(String, f64)> {
    let named = |name: &str, value: f64| (name.to_owned(), value);
    let percent = |(percent, value): (&u8, f64)| (format!("p{percent}"), value);
    match value {
        Value::Adjusted(adjusted) => {
            let finite = PERCENTILES.iter().zip(adjusted.percentiles);
            let finite = finite.filter_map(|(of, value)| Some(percent((of, value?))));
            std::iter::once(named("min", adjusted.min)).chain(finite).collect()
        }
        Value::Full(full) => [("avg", full.avg), ("min", full.min), ("max", full.max), ("sum", full.sum)]
            .into_iter()
            .map(|(name, value)| named(name, value))
            .chain(PERCENTILES.iter().zip(full.percentiles).map(percent))
            .chain([named("std", full.std)])
            .collect(),
        Value::Single(value) => vec![named("avg", *value)],
        Value::Weighted(curve) => [
            ("avg", curve.avg),
            ("min", curve.min),
            ("max", curve.max),
            ("p50", curve.p50),
            ("p90", curve.p90),
            ("p95", curve.p95),
            ("p99", curve.p99),
            ("std", curve.std),
        ]
        .map(|(name, value)| named(name, value))
        .into(),
    }
}
