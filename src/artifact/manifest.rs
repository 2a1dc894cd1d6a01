//! `phase_manifest.json` (spec/artifacts 8): the phases that ran, their windows and their files.

use crate::artifact::json::sorted;
use crate::artifact::results::{Results, Scope};
use crate::artifact::{FinishedPhase, FinishedRun, names, telemetry};
use crate::measure::tally::ErrorGroup;
use serde_json::{Map, Value as Json, json};

/// The manifest: keys sorted, nulls kept.
pub(super) fn manifest(run: &FinishedRun<'_>, results: &Results) -> Json {
    let mut phases: Vec<(&FinishedPhase, &Scope)> = run.phases.iter().zip(&results.phases).collect();
    phases.sort_by_key(|(phase, _)| phase.index);
    let entries: Vec<Json> = phases.into_iter().map(|(phase, scope)| entry(run, phase, scope)).collect();
    sorted(json!({ "phases": entries, "schema_version": 1 }))
}

fn entry(run: &FinishedRun<'_>, phase: &FinishedPhase, scope: &Scope) -> Json {
    let counts = phase.tally.counts();
    let artifacts = &run.config.artifacts;
    let path = |file: String| format!("phases/{}/{file}", phase.name);
    let mut members = identity(run, phase);
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("successful_request_count", json!(counts.ok));
    add("error_request_count", json!(counts.errors()));
    add("total_request_count", json!(counts.completed()));
    add("error_summary", scope.errors.iter().map(error).collect());
    add("metrics_csv", json!(path(names::csv(artifacts))));
    if artifacts.summary_json {
        add("metrics_json", json!(path(names::json(artifacts))));
    }
    for (member, path) in telemetry::files_of(run, phase) {
        add(member, json!(path));
    }
    Json::Object(members)
}

/// Which phase it is, when it ran, and whether it was cut.
pub(super) fn identity(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Map<String, Json> {
    [
        ("phase_index", json!(phase.index)),
        ("profiling_index", json!(phase.profiling_index)),
        ("phase_name", json!(phase.name)),
        ("phase_kind", json!(phase.kind.name())),
        ("start_ns", json!(run.clock.unix_ns(phase.started))),
        ("end_ns", json!(run.clock.unix_ns(phase.ended))),
        ("was_cancelled", json!(phase.interrupted)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn error(group: &ErrorGroup) -> Json {
    let failure = &group.failure;
    let cause_chain = (!failure.cause_chain.is_empty()).then_some(&failure.cause_chain);
    json!({
        "count": group.count,
        "error_details": {
            "cause": failure.cause,
            "cause_chain": cause_chain,
            "code": failure.code,
            "details": null,
            "message": failure.message,
            "type": failure.kind,
        },
    })
}
