//! What was read of servers and GPUs, into AIPerf's files and phasor's own (spec/telemetry A, B).
//!
//! Files of what is disabled, unavailable or empty are not written. Lines are written while the run goes on
//! ([`lines`]), everything else when it is over.

mod console;
mod energy;
mod gpu;
pub mod lines;
mod report;
mod server;
mod server_csv;

pub use gpu::{csv_section, document as gpu_document};
pub use report::TELEMETRY_REPORT;
pub use server::ServerExport;

pub(super) use console::tables;
pub(super) use energy::add_energy;

use crate::artifact::file::{WriteFailure, write_json};
use crate::artifact::json::{input_config, sorted};
use crate::artifact::manifest::identity;
use crate::artifact::results::Results;
use crate::artifact::{FinishedPhase, FinishedRun, names, write_csv};
use crate::config::{MetricsFormat, PhaseKind};
use crate::telemetry::figures;
use crate::telemetry::gpu::summary::Window;
use crate::telemetry::history::History;
use crate::telemetry::spans::PhaseWindow;
use crate::telemetry::{Occasion, Telemetry};
use serde_json::{Value as Json, json};
use std::path::Path;

/// Name of a phase's file of server metrics.
pub(super) const SERVER_OF_PHASE: &str = "server_metrics.json";
/// Name of a phase's file of GPU telemetry.
pub(super) const GPU_OF_PHASE: &str = "gpu_telemetry.json";

/// Writes the files of the whole run and of each phase. Those of an earlier run in the same directory that
/// are not written again are taken away: they would be taken for this run's.
pub(super) fn write(directory: &Path, run: &FinishedRun<'_>, results: &Results) -> Vec<WriteFailure> {
    let telemetry = &run.telemetry;
    let mut failures = Vec::new();
    let mut keep = |written: Result<(), WriteFailure>| failures.extend(written.err());
    let artifacts = &run.config.artifacts;
    for name in [names::server_json(artifacts), names::server_csv(artifacts), TELEMETRY_REPORT.to_owned()] {
        // Mostly there is none.
        let _ = std::fs::remove_file(directory.join(name));
    }
    if let Some(export) = server_export(run) {
        let formats = &run.config.server_metrics.formats;
        if formats.contains(&MetricsFormat::Json)
            && let Some(mut document) = export.json()
        {
            if let Some(members) = document.as_object_mut() {
                members.insert("input_config".to_owned(), input_config(directory, run));
            }
            keep(write_json(directory, &names::server_json(artifacts), &document, ""));
        }
        if formats.contains(&MetricsFormat::Csv)
            && let Some(file) = export.csv()
        {
            keep(write_csv(directory, &names::server_csv(artifacts), file));
        }
    }
    for phase in &run.phases {
        for (name, document) in [(SERVER_OF_PHASE, server_of(run, phase)), (GPU_OF_PHASE, gpu_of(run, phase))]
        {
            let name = format!("phases/{}/{name}", phase.name);
            let _ = std::fs::remove_file(directory.join(&name));
            if let Some(document) = document {
                keep(write_json(directory, &name, &sorted(document), "\n"));
            }
        }
    }
    if telemetry.has_servers() || telemetry.has_gpus() {
        keep(write_json(directory, TELEMETRY_REPORT, &report::report(run, results), "\n"));
    }
    failures
}

/// The members of a phase in the manifest: the files that are written for it.
pub(super) fn files_of(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Vec<(&'static str, String)> {
    let path = |file: &str| format!("phases/{}/{file}", phase.name);
    let server = has_server(run, phase).then(|| ("server_metrics_json", path(SERVER_OF_PHASE)));
    let gpu = has_gpu(run, phase).then(|| ("gpu_telemetry_json", path(GPU_OF_PHASE)));
    server.into_iter().chain(gpu).collect()
}

/// From the first start to the last end of the profiling phases.
pub(super) fn profiling_window(run: &FinishedRun<'_>) -> Option<Window> {
    window(run, PhaseKind::Profiling)
}

fn window(run: &FinishedRun<'_>, kind: PhaseKind) -> Option<Window> {
    let phases = || run.phases.iter().filter(|phase| phase.kind == kind);
    let start = phases().map(|phase| phase.started).min()?;
    let end = phases().map(|phase| phase.ended).max()?;
    Some(Window { start_ns: run.clock.unix_ns(start), end_ns: run.clock.unix_ns(end) })
}

fn window_of(run: &FinishedRun<'_>, phase: &FinishedPhase) -> PhaseWindow {
    PhaseWindow {
        index: phase.index,
        start_ns: run.clock.unix_ns(phase.started),
        end_ns: run.clock.unix_ns(phase.ended),
    }
}

/// The data of GPUs for the root; absent when no GPU gave a sample.
pub(super) fn gpu_root(run: &FinishedRun<'_>) -> Option<Json> {
    let telemetry = &run.telemetry;
    let window = profiling_window(run).filter(|_| telemetry.has_gpus())?;
    let graced = Window { end_ns: window.end_ns.saturating_add(telemetry.gpu_grace_ns), ..window };
    Some(gpu_document(telemetry, graced, window))
}

fn server_export<'a>(run: &'a FinishedRun<'_>) -> Option<ServerExport<'a>> {
    let telemetry = &run.telemetry;
    if !telemetry.has_servers() {
        return None;
    }
    let range = |kind| window(run, kind).map(|window| (window.start_ns, window.end_ns));
    Some(ServerExport {
        telemetry,
        benchmark_id: &run.benchmark_id,
        profiling_ns: range(PhaseKind::Profiling),
        warmup_ns: range(PhaseKind::Warmup),
        slice_ns: run.config.artifacts.slice_duration.map(|span| span.0),
    })
}

fn has_server(run: &FinishedRun<'_>, phase: &FinishedPhase) -> bool {
    let tagged = |telemetry: &Telemetry| {
        let fetches = telemetry.servers.iter().flat_map(|source| source.history.fetches());
        fetches.into_iter().any(|kept| kept.fetch.phase == Some(phase.index))
    };
    run.phases.len() > 1 && tagged(&run.telemetry)
}

fn server_of(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Option<Json> {
    if !has_server(run, phase) {
        return None;
    }
    let data = server_export(run)?.phase(phase.index)?;
    let warnings = run.telemetry.servers.iter().flat_map(|source| server_warnings(phase, &source.history));
    Some(wrapped(run, phase, &data, &warnings.collect::<Vec<_>>()))
}

/// What is doubtful about what one server says of a phase.
fn server_warnings(phase: &FinishedPhase, history: &History) -> Vec<String> {
    let url = history.url();
    let missing = |occasion| {
        let mut fetches = history.fetches().iter().map(|kept| &kept.fetch);
        !fetches.any(|fetch| fetch.phase == Some(phase.index) && fetch.occasion == occasion)
    };
    let edges = [(Occasion::PhaseStart, "start"), (Occasion::PhaseEnd, "end")];
    let missing = edges.into_iter().filter(|(occasion, _)| missing(*occasion));
    let mut warnings: Vec<String> =
        missing.map(|(_, edge)| format!("{url}: no page was read at the {edge} of the phase")).collect();
    let fell = figures::fallen(history, phase.index);
    warnings.extend(fell.into_iter().map(|name| {
        format!("{url}: {name} fell although it only rises; the server started anew, and its figures are too small")
    }));
    warnings
}

fn has_gpu(run: &FinishedRun<'_>, phase: &FinishedPhase) -> bool {
    let window = gpu_window(run, phase);
    let inside = |telemetry: &Telemetry| {
        let tracks = telemetry.gpus.iter().flat_map(|source| source.history.tracks());
        let signals = 0..telemetry.signals.len();
        tracks.into_iter().any(|track| {
            signals.clone().any(|signal| {
                track.values(signal).any(|(at, _)| (window.start_ns..=window.end_ns).contains(&at))
            })
        })
    };
    run.phases.len() > 1 && inside(&run.telemetry)
}

/// The samples of a phase: up to the one that was asked for when it had ended.
fn gpu_window(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Window {
    let window = window_of(run, phase);
    let edge =
        run.telemetry.gpu_edges.iter().filter(|(index, _)| *index == phase.index).map(|(_, at)| *at).max();
    Window { start_ns: window.start_ns, end_ns: edge.map_or(window.end_ns, |edge| edge.max(window.end_ns)) }
}

fn gpu_of(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Option<Json> {
    if !has_gpu(run, phase) {
        return None;
    }
    let window = gpu_window(run, phase);
    let data = gpu_document(&run.telemetry, window, window);
    Some(wrapped(run, phase, &data, &[]))
}

fn wrapped(run: &FinishedRun<'_>, phase: &FinishedPhase, data: &Json, warnings: &[String]) -> Json {
    json!({
        "schema_version": 1,
        "phase": identity(run, phase),
        "data": data,
        "warnings": warnings,
    })
}
