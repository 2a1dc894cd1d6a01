//! What the GPUs' energy makes per token, request and user: the metrics of the root, and those of each phase.

use crate::artifact::telemetry::profiling_window;
use crate::artifact::{FinishedPhase, FinishedRun};
use crate::config::{Load, PhaseKind};
use crate::measure::catalogue::ENERGY;
use crate::measure::summary::{Summary, Value};
use crate::telemetry::energy::{Used, Work, metrics, used};
use crate::telemetry::gpu::Platform;
use crate::telemetry::gpu::summary::Window;

/// Adds the metrics of energy to the root's summary.
pub(in crate::artifact) fn add_energy(run: &FinishedRun<'_>, summary: &mut Summary) {
    let Some(window) = profiling_window(run).filter(|_| run.telemetry.has_gpus()) else { return };
    let first = run.config.phases.iter().find(|phase| phase.kind == PhaseKind::Profiling);
    let users = first.and_then(|phase| concurrency(&phase.load));
    let used = used(&run.telemetry, window, run.telemetry.gpu_grace_ns);
    for (tag, value) in metrics(&used, &work(window, summary, users)) {
        let prefix = Platform::Nvidia.name();
        let metric = ENERGY.iter().find(|metric| {
            metric.tag.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')) == Some(tag)
        });
        if let Some(metric) = metric {
            summary.add(metric, value);
        }
    }
}

/// What was used in one phase, and what that makes of its own work; its concurrency is its own.
pub(super) fn of_phase(
    run: &FinishedRun<'_>,
    phase: &FinishedPhase,
    window: Window,
    summary: &Summary,
) -> (Used, Vec<(&'static str, f64)>) {
    let load = run.config.phases.get(usize::from(phase.index)).map(|phase| &phase.load);
    let used = used(&run.telemetry, window, 0);
    let exact = Window { start_ns: run.clock.unix_ns(phase.started), end_ns: run.clock.unix_ns(phase.ended) };
    let metrics = metrics(&used, &work(exact, summary, load.and_then(concurrency)));
    (used, metrics)
}

fn concurrency(load: &Load) -> Option<f64> {
    match load {
        Load::Concurrency { concurrency } => Some(f64::from(*concurrency)),
        Load::Constant { concurrency, .. }
        | Load::FixedSchedule { concurrency, .. }
        | Load::Gamma { concurrency, .. }
        | Load::Poisson { concurrency, .. } => concurrency.map(f64::from),
        Load::UserCentric { users, .. } => Some(f64::from(*users)),
    }
}

fn work(window: Window, summary: &Summary, users: Option<f64>) -> Work {
    let latency = match summary.value("request_latency") {
        Some(Value::Full(statistics)) => Some(statistics.avg / 1e3),
        Some(Value::Adjusted(_) | Value::Single(_) | Value::Weighted(_)) | None => None,
    };
    Work {
        duration_s: window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9,
        requests: summary.single("request_count"),
        output_tokens: summary.single("total_osl"),
        input_tokens: summary.single("total_isl"),
        users,
        latency_s: latency,
        request_throughput: summary.single("request_throughput"),
        token_throughput: summary.single("output_token_throughput"),
        goodput: summary.single("goodput"),
    }
}
