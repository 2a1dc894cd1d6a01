//! A finished run into files: AIPerf's, with its names and shapes, and phasor's own.
//!
//! Files are written under a temporary name and renamed, so that a reader never sees half of one.

pub mod adaptive;
mod api_error;
pub mod calibration;
pub mod client_report;
pub mod console;
mod csv;
mod file;
mod grid;
pub mod inputs;
pub mod json;
pub mod line_file;
pub mod log;
mod manifest;
pub mod names;
pub mod outputs;
mod panel;
pub mod raw;
pub mod records;
pub mod results;
pub mod run_config;
pub mod search;
pub mod sink;
pub mod telemetry;
mod timeslices;
pub mod trials;

pub use file::WriteFailure;
pub use inputs::write_inputs;
pub use log::Log;
pub use records::{RecordBatch, RecordLines};
pub use results::Results;

use crate::artifact::file::{write_bytes, write_json};
use crate::config::{Config, PhaseKind};
use crate::dataset::Dataset;
use crate::measure::arrivals::PoissonTest;
use crate::measure::slices::{NoSlices, Slice, slices};
use crate::measure::verdict::{Reason, Verdict};
use crate::measure::{Cost, PhaseTally};
use crate::telemetry::Telemetry;
use crate::time::{Clock, Nanos, Stamp};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the manifest.
pub const MANIFEST: &str = "phase_manifest.json";
/// Name of the marker that stands while results are written.
pub const PROCESSING: &str = ".aiperf_results_processing.json";
/// Name of the marker that is written last.
pub const READY: &str = ".aiperf_results_ready.json";

/// A run that ended, however it ended.
#[derive(Debug)]
pub struct FinishedRun<'a> {
    /// What was meant.
    pub config: &'a Config,
    /// What was sent.
    pub dataset: &'a Dataset,
    /// Turns stamps into wall time.
    pub clock: Clock,
    /// 12 hex digits; of a cell 32.
    pub benchmark_id: String,
    /// Which run of a sweep or of several trials it is; absent for one that stands alone.
    pub cell: Option<&'a Cell>,
    /// The command line, secrets taken out.
    pub cli_command: String,
    /// The phases that started, in order.
    pub phases: Vec<FinishedPhase>,
    /// Ended before all phases were done.
    pub interrupted: bool,
    /// The phase that gave the run up, and why; absent unless one did.
    pub given_up: Option<(String, String)>,
    /// Lines that the record file lacks because the disk was too slow or failed.
    pub records_lost: u64,
    /// The shards that drove it.
    pub shards: Vec<ShardReport>,
    /// What counting tokens cost; absent when nothing was counted.
    pub counting: Option<CountingReport>,
    /// What this machine can do, if that is known.
    pub calibration: Option<calibration::Calibration>,
    /// What was read of servers and GPUs; empty when nothing was.
    pub telemetry: Telemetry,
    /// What was warned of before the run and weakens what it says.
    pub warnings: Vec<String>,
    /// Columns of the tables ([`console::WIDTH`] if nothing is said).
    pub console_width: usize,
}

/// Which run of a sweep, or of several trials, a run is.
#[derive(Clone, Debug)]
pub struct Cell {
    /// 32 hex digits.
    pub benchmark_id: String,
    /// UUID that all runs of the command have in common.
    pub sweep_id: String,
    /// Position of the variation, from 0.
    pub variation_index: usize,
    /// What is varied, for people; `base` without a sweep.
    pub variation_label: String,
    /// Each path and its value.
    pub variation_values: Vec<(String, serde_json::Value)>,
    /// Number of the trial, from 0.
    pub trial: u32,
}

impl Cell {
    /// The run's label: its trial's number, from 1.
    pub fn label(&self) -> String {
        format!("run_{:04}", self.trial + 1)
    }
}

/// A phase that started.
#[derive(Debug)]
pub struct FinishedPhase {
    /// Position in the config.
    pub index: u16,
    /// Position among the profiling phases; absent for warmups.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
    /// The common start of all shards.
    pub started: Stamp,
    /// Nothing was sent from here on.
    pub sending_ended: Stamp,
    /// The last request had ended.
    pub ended: Stamp,
    /// The phase was cut short by an interrupt or abort.
    pub interrupted: bool,
    /// What each shard paid for it.
    pub shards: Vec<ShardReport>,
    /// Whether it was the server that was measured.
    pub verdict: Verdict,
    /// What stands behind a verdict that is not ok.
    pub reasons: Vec<Reason>,
    /// The realised arrivals against the planned law, where there is one and nothing was dropped.
    pub arrivals: Option<PoissonTest>,
    /// All shards' numbers.
    pub tally: PhaseTally,
}

/// What counting tokens came to, off the shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingReport {
    /// The tokenizer.
    pub tokenizer: String,
    /// Threads that counted.
    pub threads: usize,
    /// Requests whose texts were counted.
    pub requests: u64,
    /// Processor time of all threads; absent where the system does not tell.
    pub cpu_time: Option<Nanos>,
}

/// What one shard cost.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// Number of the shard, from 0.
    pub shard: u16,
    /// Core it was pinned to.
    pub cpu: usize,
    /// What it cost.
    pub cost: Cost,
}

/// What came of writing a run's results.
#[derive(Debug)]
#[must_use = "files may be missing"]
pub struct Written {
    /// The tables, as they stand in `profile_export_console.txt`: for standard output, whatever failed.
    pub tables: String,
    /// The lines behind them: command, duration, paths.
    pub footer: String,
    /// The files that could not be written; all others were.
    pub failures: Vec<WriteFailure>,
    /// What was asked for and could not be computed.
    pub missing: Vec<String>,
}

/// Writes every result file of a run except `inputs.json` and the record file, which exist already.
///
/// Files of phases and the manifest are written when two or more phases ran. A file that fails does not
/// keep the others from being written; the ready marker comes last and names what failed.
pub fn write_results(directory: &Path, run: &FinishedRun<'_>, results: &Results) -> Written {
    let tables = console::tables(run, results, run.console_width);
    let footer = console::footer(directory, run, results);
    // Whoever waits for results sees that they are on their way. Not a result: that it cannot be written is no
    // failure, and what keeps it from being written will show again below.
    let _ = write_bytes(directory, PROCESSING, b"{\"processing\":true}");
    let mut failures = Vec::new();
    let mut keep = |written: Result<(), WriteFailure>| failures.extend(written.err());

    let artifacts = &run.config.artifacts;
    if run.phases.len() > 1 {
        for (phase, scope) in run.phases.iter().zip(&results.phases) {
            let name = |file: &str| format!("phases/{}/{file}", phase.name);
            if artifacts.summary_json {
                let document = json::phase(directory, run, scope);
                keep(write_json(directory, &name(&names::json(artifacts)), &document, ""));
            }
            keep(write_csv(directory, &name(&names::csv(artifacts)), csv::file(&scope.summary)));
        }
        keep(write_json(directory, MANIFEST, &manifest::manifest(run, results), "\n"));
    }
    if artifacts.summary_json {
        keep(write_json(directory, &names::json(artifacts), &json::root(directory, run, results), ""));
    }
    let root_csv = csv::file(&results.root.summary).and_then(|mut file| {
        if let Some(window) = telemetry::profiling_window(run).filter(|_| run.telemetry.has_gpus()) {
            file.extend_from_slice(&telemetry::csv_section(&run.telemetry, window)?);
        }
        Ok(file)
    });
    keep(write_csv(directory, &names::csv(artifacts), root_csv));
    for failure in telemetry::write(directory, run, results) {
        keep(Err(failure));
    }
    let mut missing = Vec::new();
    match slices_of(run) {
        None => {}
        Some(Ok(slices)) => {
            let document = timeslices::json_file(directory, run, &slices);
            keep(write_json(directory, &names::slices_json(artifacts), &document, ""));
            keep(write_csv(directory, &names::slices_csv(artifacts), timeslices::csv_file(&slices)));
        }
        Some(Err(why)) => missing.push(why.to_string()),
    }
    keep(write_bytes(directory, &names::console(artifacts), tables.as_bytes()));
    keep(write_json(directory, client_report::CLIENT_REPORT, &client_report::report(run), "\n"));

    let failed: Vec<String> = failures.iter().map(|failure| failure.path.display().to_string()).collect();
    let mut ready = json!({ "ready": true, "was_cancelled": run.interrupted, "partial": !failed.is_empty() });
    if let (Some(members), false) = (ready.as_object_mut(), failed.is_empty()) {
        members.insert("failed_exporters".to_owned(), json!(failed));
    }
    if let (Some(members), Some((phase, why))) = (ready.as_object_mut(), &run.given_up) {
        members.insert("terminal_phase".to_owned(), json!(phase));
        members.insert("terminal_error".to_owned(), json!(why));
    }
    failures.extend(write_bytes(directory, READY, ready.to_string().as_bytes()).err());
    // The directory may be gone, and the marker with it.
    let _ = fs::remove_file(directory.join(PROCESSING));
    Written { tables, footer, failures, missing }
}

/// The slices of the profiling phases, if they are asked for.
fn slices_of(run: &FinishedRun<'_>) -> Option<Result<Vec<Slice>, NoSlices>> {
    let width = run.config.artifacts.slice_duration?;
    let profiling = run.phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling);
    let tallies: Vec<&PhaseTally> = profiling.map(|phase| &phase.tally).collect();
    Some(slices(&tallies, run.clock, width, run.config.endpoint.streams_tokens()))
}

fn write_csv(
    directory: &Path,
    name: &str,
    content: Result<Vec<u8>, ::csv::Error>,
) -> Result<(), WriteFailure> {
    let file = content.map_err(|error| WriteFailure { path: directory.join(name), source: error.into() })?;
    write_bytes(directory, name, &file)
}

/// Where a run's files go: the directory as configured, else one named after model and load
/// (spec/artifacts 2.1).
pub fn directory_name(config: &Config) -> PathBuf {
    crate::config::directory::base(config)
}
