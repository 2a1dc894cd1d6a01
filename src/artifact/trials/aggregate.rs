//! `profile_export_aiperf_aggregate`: the trials of one variation with confidence intervals.

use crate::artifact::csv::{bytes, writer};
use crate::artifact::file::{WriteFailure, write_json};
use crate::artifact::json::AIPERF_VERSION;
use crate::artifact::trials::{CellRuns, Terms, number, python};
use crate::artifact::write_csv;
use crate::config::expand::python_float;
use crate::measure::trials::Spread;
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// Both files into `directory`.
///
/// # Errors
/// The first file that could not be written.
pub fn write_aggregate(directory: &Path, cell: &CellRuns, terms: &Terms) -> Result<(), WriteFailure> {
    let rows = rows(cell, terms);
    write_json(directory, "profile_export_aiperf_aggregate.json", &document(cell, terms, &rows), "")?;
    write_csv(directory, "profile_export_aiperf_aggregate.csv", table(cell, terms, &rows))
}

/// Key, unit and spread of each number.
type Rows<'c> = Vec<(String, &'c str, Spread)>;

fn rows<'c>(cell: &'c CellRuns, terms: &Terms) -> Rows<'c> {
    let names = cell.names().into_iter();
    names
        .filter_map(|(tag, statistic, unit)| {
            let spread = cell.spread(tag, statistic, terms.confidence_level)?;
            Some((format!("{tag}_{statistic}"), unit, spread))
        })
        .collect()
}

fn labels(cell: &CellRuns) -> Vec<&str> {
    cell.trials.iter().map(|trial| trial.label.as_str()).collect()
}

fn document(cell: &CellRuns, terms: &Terms, rows: &Rows<'_>) -> Json {
    let mut metadata = Map::new();
    let mut add = |name: &str, value: Json| metadata.insert(name.to_owned(), value);
    let successful = cell.successful().count();
    add("aggregation_type", json!("confidence"));
    add("num_profile_runs", json!(cell.trials.len()));
    add("num_successful_runs", json!(successful));
    add("failed_runs", cell.failed().into());
    add("confidence_level", json!(terms.confidence_level));
    add("run_labels", json!(labels(cell)));
    if successful == 1 {
        add("single_run", json!(true));
    }
    add("cooldown_seconds", json!(terms.cooldown_s));
    if let Some(mode) = terms.sweep_mode {
        add("variation_label", json!(cell.label));
        add("variation_values", cell.values.iter().cloned().collect::<Map<_, _>>().into());
        add("sweep_mode", json!(mode));
        add("model", json!(terms.model));
    }
    let metrics: Map<String, Json> = rows
        .iter()
        .map(|(key, unit, spread)| {
            let value = json!({
                "mean": number(Some(spread.mean)),
                "std": number(Some(spread.std)),
                "min": number(Some(spread.min)),
                "max": number(Some(spread.max)),
                "cv": number(spread.cv),
                "se": number(Some(spread.se)),
                "ci_low": number(Some(spread.ci_low)),
                "ci_high": number(Some(spread.ci_high)),
                "t_critical": number(spread.t_critical),
                "unit": unit,
            });
            (key.clone(), value)
        })
        .collect();
    json!({
        "schema_version": "1.0",
        "aiperf_version": AIPERF_VERSION,
        "metadata": metadata,
        "metrics": metrics,
    })
}

fn table(cell: &CellRuns, terms: &Terms, rows: &Rows<'_>) -> Result<Vec<u8>, csv::Error> {
    let mut metrics = writer();
    let header =
        ["metric", "mean", "std", "min", "max", "cv", "se", "ci_low", "ci_high", "t_critical", "unit"];
    metrics.write_record(header)?;
    let two = |value: f64| format!("{value:.2}");
    for (key, unit, spread) in rows {
        let cv = spread.cv.map_or_else(|| "inf".to_owned(), |cv| format!("{cv:.4}"));
        let t = spread.t_critical.map(|t| format!("{t:.4}")).unwrap_or_default();
        metrics.write_record([
            key.clone(),
            two(spread.mean),
            two(spread.std),
            two(spread.min),
            two(spread.max),
            cv,
            format!("{:.4}", spread.se),
            two(spread.ci_low),
            two(spread.ci_high),
            t,
            (*unit).to_owned(),
        ])?;
    }
    let mut metadata = writer();
    let labels = labels(cell).into_iter().map(python::text);
    metadata.write_record(["Aggregation Type", "confidence"])?;
    metadata.write_record(["Total Runs", &cell.trials.len().to_string()])?;
    metadata.write_record(["Successful Runs", &cell.successful().count().to_string()])?;
    metadata.write_record(["Confidence Level", &python_float(terms.confidence_level)])?;
    metadata.write_record(["Run Labels", &python::list(labels)])?;
    metadata.write_record(["Cooldown Seconds", &python_float(terms.cooldown_s)])?;
    if let Some(mode) = terms.sweep_mode {
        let values: Map<String, Json> = cell.values.iter().cloned().collect();
        metadata.write_record(["Variation Label", &cell.label])?;
        metadata.write_record(["Variation Values", &python::repr(&values.into())])?;
        metadata.write_record(["Sweep Mode", mode])?;
        metadata.write_record(["Model", &terms.model])?;
    }
    let mut file = bytes(metrics)?;
    file.extend_from_slice(b"\r\n");
    file.extend_from_slice(&bytes(metadata)?);
    Ok(file)
}
