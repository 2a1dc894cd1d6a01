//! `run_config.json`: what a run of a sweep, or one of several trials, was made from. It is written before the
//! run starts; with it a later command can tell whether a directory holds the run that it would do.

use crate::artifact::file::{WriteFailure, write_json};
use crate::artifact::json::AIPERF_VERSION;
use crate::artifact::trials::RunMetrics;
use crate::artifact::{Cell, READY, names};
use crate::config::Config;
use serde_json::{Map, Value as Json, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file.
pub const RUN_CONFIG: &str = "run_config.json";

/// What the file says.
fn document(directory: &Path, config: &Config, cell: &Cell, cli_command: &str) -> Json {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let values = cell.variation_values.iter().cloned();
    let variables = values
        .clone()
        .filter_map(|(path, value)| path.strip_prefix("variables.").map(|name| (name.to_owned(), value)));
    json!({
        "benchmark_id": cell.benchmark_id,
        "sweep_id": cell.sweep_id,
        "cfg": config.input_config,
        "variation": {
            "index": cell.variation_index,
            "label": cell.variation_label,
            "values": values.clone().collect::<Map<_, _>>(),
        },
        "trial": cell.trial,
        "artifact_dir": absolute.to_string_lossy(),
        "label": cell.label(),
        "cli_command": cli_command,
        "random_seed": config.random_seed,
        "variables": variables.collect::<Map<_, _>>(),
        "resolved": { "aiperf_version": AIPERF_VERSION },
    })
}

/// Writes the file, and takes away the marker of an earlier run in the same directory: until the run has ended
/// the directory holds no results.
///
/// # Errors
/// The file cannot be written, or the marker cannot be removed.
pub fn write_run_config(
    directory: &Path,
    config: &Config,
    cell: &Cell,
    cli_command: &str,
) -> Result<(), WriteFailure> {
    let ready = directory.join(READY);
    match fs::remove_file(&ready) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(WriteFailure { path: ready, source }),
    }
    write_json(directory, RUN_CONFIG, &document(directory, config, cell, cli_command), "")
}

/// What an earlier command left in `directory`, if it is this very run, whole and not cut short: same fields,
/// variation, trial and seed. `beside` points at fields that may differ.
pub fn finished_before(
    directory: &Path,
    config: &Config,
    cell: &Cell,
    beside: &[&str],
) -> Option<RunMetrics> {
    let read = |path: PathBuf| -> Option<Json> { serde_json::from_slice(&fs::read(path).ok()?).ok() };
    let ready = read(directory.join(READY))?;
    let whole = ready["ready"] == true && ready["was_cancelled"] == false && ready["partial"] == false;
    let mut before = read(directory.join(RUN_CONFIG))?;
    let mut now = document(directory, config, cell, "");
    for field in beside {
        for side in [&mut before, &mut now] {
            if let Some(value) = side.pointer_mut(&format!("/cfg{field}")) {
                *value = Json::Null;
            }
        }
    }
    let same = ["cfg", "trial", "random_seed"].iter().all(|name| before[*name] == now[*name])
        && before["variation"]["label"] == now["variation"]["label"]
        && before["variation"]["values"] == now["variation"]["values"];
    if !whole || !same {
        return None;
    }
    let metrics = RunMetrics::read(&read(directory.join(names::json(&config.artifacts)))?)?;
    // A run in which every request failed is done again.
    metrics.value("request_count", "avg").is_some_and(|count| count > 0.0).then_some(metrics)
}
