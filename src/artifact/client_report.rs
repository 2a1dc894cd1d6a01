//! `client_report.json`: what only phasor knows (docs/artifacts.md has every member).

use crate::artifact::{FinishedPhase, FinishedRun, ShardReport};
use crate::dataset::ISL_RULE;
use crate::measure::PhaseTally;
use crate::measure::tally::{Counts, Lateness};
use serde_json::{Map, Value as Json, json};

/// Name of the file.
pub const CLIENT_REPORT: &str = "client_report.json";

/// The report.
pub(super) fn report(run: &FinishedRun<'_>) -> Json {
    let counts = Counts::sum(run.phases.iter().map(|phase| phase.tally.counts()));
    let exact = run.phases.iter().all(|phase| phase.tally.is_exact());
    let lateness = PhaseTally::pooled_lateness(run.phases.iter().map(|phase| &phase.tally));
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("schema_version", json!(1));
    add("phasor_version", json!(env!("CARGO_PKG_VERSION")));
    add("benchmark_id", json!(run.benchmark_id));
    if let Some(seed) = run.config.random_seed {
        add("random_seed", json!(seed));
    }
    add("interrupted", json!(run.interrupted));
    add("total", Json::Object(numbers(&counts, lateness, exact)));
    add("phases", run.phases.iter().map(|one| phase(run, one)).collect());
    add("records_lost", json!(run.records_lost));
    add("shards", run.shards.iter().map(shard_cost).collect());
    Json::Object(members)
}

fn phase(run: &FinishedRun<'_>, phase: &FinishedPhase) -> Json {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("phase_index", json!(phase.index));
    if let Some(index) = phase.profiling_index {
        add("profiling_index", json!(index));
    }
    add("phase_name", json!(phase.name));
    add("phase_kind", json!(phase.kind.name()));
    add("interrupted", json!(phase.interrupted));
    add("start_ns", json!(run.clock.unix_ns(phase.started)));
    add("sending_end_ns", json!(run.clock.unix_ns(phase.sending_ended)));
    add("end_ns", json!(run.clock.unix_ns(phase.ended)));
    let tally = &phase.tally;
    members.extend(numbers(tally.counts(), tally.lateness_summary(), tally.is_exact()));
    Json::Object(members)
}

fn numbers(counts: &Counts, lateness: Option<Lateness>, exact: bool) -> Map<String, Json> {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("planned", json!(counts.planned()));
    add("sent", json!(counts.sent));
    add("dropped", json!({ "at_capacity": counts.dropped_at_capacity, "late": counts.dropped_late }));
    add("ok", json!(counts.ok));
    add("failed", json!(counts.failed));
    add("cancelled", json!(counts.cancelled));
    add("abandoned", json!(counts.abandoned));
    if let Some(lateness) = lateness {
        let value = json!({
            "p50": lateness.p50.0,
            "p90": lateness.p90.0,
            "p99": lateness.p99.0,
            "p99_9": lateness.p99_9.0,
            "max": lateness.max.0,
            "count": lateness.count,
        });
        add("lateness_ns", value);
    }
    add("percentile_method", json!(if exact { "exact" } else { "hdr3" }));
    let counting = json!({
        "isl": { "usage": counts.isl_by_usage, "rule": counts.isl_by_rule },
        "osl": { "usage": counts.osl_by_usage, "chunks": counts.osl_by_chunks },
        "isl_rule": ISL_RULE,
    });
    add("token_counting", counting);
    add("request_body_bytes", json!(counts.request_body_bytes));
    add("reply_body_bytes", json!(counts.reply_body_bytes));
    members
}

/// What one shard cost; what the system did not tell is absent.
fn shard_cost(shard: &ShardReport) -> Json {
    let mut cost = json!({
        "shard": shard.shard,
        "cpu": shard.cpu,
        "busy_share": shard.busy_share,
        "longest_gap_ns": shard.longest_gap.0,
    });
    for (name, span) in [("cpu_time_ns", shard.cpu_time), ("run_delay_ns", shard.run_delay)] {
        if let (Some(span), Some(members)) = (span, cost.as_object_mut()) {
            members.insert(name.to_owned(), json!(span.0));
        }
    }
    cost
}
