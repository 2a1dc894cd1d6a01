//! `phase_manifest.json` (spec/artifacts 8): the phases that ran, their windows and their files.

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
    let mut entry = json!({
        "phase_index": phase.index,
        "profiling_index": phase.profiling_index,
        "phase_name": phase.name,
        "phase_kind": phase.kind.name(),
        "start_ns": run.clock.unix_ns(phase.started),
        "end_ns": run.clock.unix_ns(phase.ended),
        "was_cancelled": phase.interrupted,
        "successful_request_count": counts.ok,
        "error_request_count": counts.errors(),
        "total_request_count": counts.completed(),
        "error_summary": scope.errors.iter().map(error).collect::<Vec<_>>(),
        "metrics_csv": path(names::csv(artifacts)),
    });
    if let Some(members) = entry.as_object_mut() {
        if artifacts.summary_json {
            members.insert("metrics_json".to_owned(), json!(path(names::json(artifacts))));
        }
        let files = telemetry::files_of(run, phase).into_iter();
        members.extend(files.map(|(member, path)| (member.to_owned(), json!(path))));
    }
    entry
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

/// The same with the members of every object by name.
pub(super) fn sorted(value: Json) -> Json {
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
