//! `telemetry_report.json`: sums that are exact about their phases, energy per phase, and what reading cost.
//!
//! Phasor's own file (docs/telemetry.md has every member): AIPerf's files count from the first profiling
//! phase to the last and so include what ran in between.

use crate::artifact::results::Results;
use crate::artifact::telemetry::server::{labels_json, whole};
use crate::artifact::telemetry::{energy, gpu_window, window_of};
use crate::artifact::{FinishedPhase, FinishedRun};
use crate::config::PhaseKind;
use crate::measure::summary::Summary;
use crate::prometheus::unit;
use crate::telemetry::spans::{self, Rise, Span, SpanSum};
use crate::telemetry::{ServerSource, SourceAccount};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Name of the file.
pub const TELEMETRY_REPORT: &str = "telemetry_report.json";

pub(super) fn report(run: &FinishedRun<'_>, results: &Results) -> Json {
    let telemetry = &run.telemetry;
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("schema_version", json!(1));
    add("phasor_version", json!(env!("CARGO_PKG_VERSION")));
    add("benchmark_id", json!(run.benchmark_id));
    add("interval_ns", json!(telemetry.interval_ns));
    add("longest_phase_pause_ns", json!(telemetry.longest_hold_ns));
    let servers: Vec<Json> = telemetry.servers.iter().map(|source| server(run, source)).collect();
    if !servers.is_empty() {
        add("servers", Json::Array(servers));
    }
    if telemetry.has_gpus() {
        let sources = telemetry.gpus.iter().map(|source| {
            let mut members = account(&source.account);
            members.insert("endpoint_url".to_owned(), json!(source.history.url()));
            members.insert("gpus".to_owned(), json!(source.history.tracks().len()));
            Json::Object(members)
        });
        let phases = run.phases.iter().zip(&results.phases);
        let phases = phases.filter_map(|(phase, scope)| gpu_phase(run, phase, &scope.summary));
        add("gpu", json!({ "sources": sources.collect::<Json>(), "phases": phases.collect::<Json>() }));
    }
    Json::Object(members)
}

fn server(run: &FinishedRun<'_>, source: &ServerSource) -> Json {
    let history = &source.history;
    let mut members = Map::new();
    members.insert("endpoint_url".to_owned(), json!(history.url()));
    members.extend(account(&source.account));
    members.insert("pages_left_out".to_owned(), json!(history.left_out()));
    members.insert("series".to_owned(), json!(history.series().len()));
    members.insert("samples_beyond_series_limit".to_owned(), json!(history.series_left_out()));
    let windows: Vec<_> = run.phases.iter().map(|phase| window_of(run, phase)).collect();
    let spans = spans::of(history, &run.telemetry.phases, &windows);
    members.insert("spans".to_owned(), spans.iter().map(|span| span_json(run, span)).collect());
    if let Some(profiling) = profiling(run, &spans) {
        members.insert("profiling".to_owned(), profiling);
    }
    Json::Object(members)
}

fn account(account: &SourceAccount) -> Map<String, Json> {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("fetches", json!(account.fetches));
    add("failed", json!(account.failed));
    add("turns_missed", json!(account.turns_missed));
    add("bytes", json!(account.bytes));
    if let Some(slowest) = account.slowest_ns {
        add("slowest_fetch_ns", json!(slowest));
    }
    if let Some(cpu_time) = account.cpu_time_ns {
        add("cpu_time_ns", json!(cpu_time));
    }
    let failures =
        account.failures.iter().map(|(message, count)| json!({ "message": message, "count": count }));
    add("failures", failures.collect());
    if let Some(why) = &account.given_up {
        add("given_up", json!(why));
    }
    members
}

fn span_json(run: &FinishedRun<'_>, span: &Span<'_>) -> Json {
    let names = |index: &u16| run.phases.iter().find(|phase| phase.index == *index).map(|phase| &phase.name);
    json!({
        "phases": span.phases.iter().filter_map(names).collect::<Vec<_>>(),
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "exact": span.is_exact,
        "metrics": sums_json(span.sums.iter().map(|sum| (sum, sum.rise))),
    })
}

/// The sum over the spans that consist of profiling phases alone; absent when a profiling phase is missing.
fn profiling(run: &FinishedRun<'_>, spans: &[Span<'_>]) -> Option<Json> {
    let kind = |index: u16| run.phases.iter().find(|phase| phase.index == index).map(|phase| phase.kind);
    let pure: Vec<&Span<'_>> = spans
        .iter()
        .filter(|span| span.phases.iter().all(|index| kind(*index) == Some(PhaseKind::Profiling)))
        .collect();
    let counted: usize = pure.iter().map(|span| span.phases.len()).sum();
    let ran = run.phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling).count();
    if counted == 0 || counted < ran {
        return None;
    }
    let mut sums: BTreeMap<(&str, String), (&SpanSum<'_>, Option<Rise>)> = BTreeMap::new();
    for sum in pure.iter().flat_map(|span| &span.sums) {
        let key = (sum.family.name.as_str(), sum.labels.sort_key());
        sums.entry(key)
            .and_modify(|(_, total)| *total = total.zip(sum.rise).and_then(|(one, other)| added(one, other)))
            .or_insert((sum, sum.rise));
    }
    Some(json!({
        "exact": pure.iter().all(|span| span.is_exact),
        "metrics": sums_json(sums.into_values()),
    }))
}

fn added(one: Rise, other: Rise) -> Option<Rise> {
    match (one, other) {
        (Rise::Counter(one), Rise::Counter(other)) => Some(Rise::Counter(one + other)),
        (Rise::Histogram(count, sum), Rise::Histogram(other, more)) => {
            Some(Rise::Histogram(count + other, sum.zip(more).map(|(sum, more)| sum + more)))
        }
        (Rise::Counter(_), Rise::Histogram(..)) | (Rise::Histogram(..), Rise::Counter(_)) => None,
    }
}

fn sums_json<'a>(sums: impl Iterator<Item = (&'a SpanSum<'a>, Option<Rise>)>) -> Json {
    let mut families: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for (sum, rise) in sums {
        let family = families.entry(sum.family.name.as_str()).or_insert_with(|| {
            let mut members = Map::new();
            members.insert("type".to_owned(), json!(sum.family.kind.name()));
            if let Some(unit) = unit::infer(&sum.family.name, &sum.family.help) {
                members.insert("unit".to_owned(), json!(unit));
            }
            members.insert("series".to_owned(), json!([]));
            members
        });
        let mut members = Map::new();
        if !sum.labels.is_empty() {
            members.insert("labels".to_owned(), labels_json(sum.labels));
        }
        match rise {
            Some(Rise::Counter(total)) => {
                members.insert("total".to_owned(), json!(total));
            }
            Some(Rise::Histogram(count, sum)) => {
                members.insert("count".to_owned(), whole(count));
                members.extend(sum.map(|sum| ("sum".to_owned(), json!(sum))));
            }
            None => {
                members.insert("restarted".to_owned(), json!(true));
            }
        }
        if let Some(Json::Array(series)) = family.get_mut("series") {
            series.push(Json::Object(members));
        }
    }
    families
        .into_iter()
        .map(|(name, family)| (name.to_owned(), Json::Object(family)))
        .collect::<Map<_, _>>()
        .into()
}

fn gpu_phase(run: &FinishedRun<'_>, phase: &FinishedPhase, summary: &Summary) -> Option<Json> {
    let (used, metrics) = energy::of_phase(run, phase, gpu_window(run, phase), summary);
    used.power_w.or(used.energy_j)?;
    let mut members = Map::new();
    members.insert("phase_name".to_owned(), json!(phase.name));
    members.insert("phase_index".to_owned(), json!(phase.index));
    let source = if used.is_counted { "counter" } else { "power" };
    members.insert("energy_from".to_owned(), json!(source));
    members.extend(metrics.into_iter().map(|(tag, value)| (tag.to_owned(), json!(value))));
    Some(Json::Object(members))
}
