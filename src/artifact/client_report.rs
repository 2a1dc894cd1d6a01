//! `client_report.json`: what only phasor knows (docs/artifacts.md has every member).

use crate::artifact::{CountingReport, FinishedPhase, FinishedRun, ShardReport};
use crate::measure::PhaseTally;
use crate::measure::catalogue::Sampled;
use crate::measure::handshakes::Handshakes;
use crate::measure::latency::{Latencies, Latency, Spread};
use crate::measure::statistics::Ordered;
use crate::measure::tally::{Counts, Lateness};
use crate::measure::weighted::Grain;
use serde_json::{Map, Value as Json, json};

/// Name of the file.
pub const CLIENT_REPORT: &str = "client_report.json";

/// The report.
pub(super) fn report(run: &FinishedRun<'_>) -> Json {
    let streaming = run.config.endpoint.streams_tokens();
    let tallies: Vec<&PhaseTally> = run.phases.iter().map(|phase| &phase.tally).collect();
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("schema_version", json!(1));
    add("phasor_version", json!(env!("CARGO_PKG_VERSION")));
    add("benchmark_id", json!(run.benchmark_id));
    if let Some(seed) = run.config.random_seed {
        add("random_seed", json!(seed));
    }
    add("interrupted", json!(run.interrupted));
    add("total", Json::Object(numbers(&tallies, streaming, run.dataset.isl_rule())));
    let before = std::iter::once(None).chain(run.phases.iter().map(Some));
    add("phases", run.phases.iter().zip(before).map(|(one, before)| phase(run, one, before)).collect());
    if let Some(counting) = &run.counting {
        add("counting", self::counting(counting, &tallies));
    }
    add("records_lost", json!(run.records_lost));
    if !run.warnings.is_empty() {
        add("warnings", json!(run.warnings));
    }
    add("shards", run.shards.iter().map(shard_cost).collect());
    Json::Object(members)
}

fn phase(run: &FinishedRun<'_>, phase: &FinishedPhase, before: Option<&FinishedPhase>) -> Json {
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
    if let Some(before) = before {
        let seamless = run.config.phases.get(usize::from(phase.index)).is_some_and(|phase| phase.seamless);
        let free = if seamless { before.sending_ended } else { before.ended };
        add("boundary_gap_ns", json!(phase.started.since(free).0));
    }
    members.extend(proof(phase));
    members.extend(numbers(&[&phase.tally], run.config.endpoint.streams_tokens(), run.dataset.isl_rule()));
    if let Some(calibration) = &run.calibration {
        members.insert("calibration".to_owned(), calibration.json(run, phase));
    }
    Json::Object(members)
}

/// What is said of a phase, and of all phases together.
fn numbers(tallies: &[&PhaseTally], streaming: bool, isl_rule: &str) -> Map<String, Json> {
    let counts = Counts::sum(tallies.iter().map(|tally| tally.counts()));
    let exact = tallies.iter().all(|tally| tally.is_exact());
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("planned", json!(counts.planned()));
    add("sent", json!(counts.sent));
    add("dropped", json!({ "at_capacity": counts.dropped_at_capacity, "late": counts.dropped_late }));
    add("ok", json!(counts.ok));
    add("failed", json!(counts.failed));
    add("cancelled", json!(counts.cancelled));
    add("abandoned", json!(counts.abandoned));
    add("repeated_on_stale_connection", json!(counts.repeated));
    add("client_errors", client_errors(tallies));
    if let Some(lateness) = PhaseTally::pooled_lateness(tallies.iter().copied()) {
        add("lateness_ns", late(&lateness));
    }
    if let Some(tls) = Handshakes::summary(tallies.iter().map(|tally| tally.handshakes())) {
        let took = json!({ "p50": tls.p50.0, "p99": tls.p99.0, "max": tls.max.0, "count": tls.count });
        add("tls", json!({ "handshakes": tls.count, "resumed": tls.resumed, "handshake_ns": took }));
    }
    let [service, response] =
        [(Latency::Service, Latency::ServiceFirstToken), (Latency::Response, Latency::ResponseFirstToken)]
            .map(|(whole, first)| latency(tallies, whole, streaming.then_some(first)));
    if !service.is_empty() {
        add("service_latency_ns", Json::Object(service));
    }
    if !response.is_empty() {
        add("response_latency_ns", Json::Object(response));
    }
    let intervals = intervals(tallies, streaming);
    if !intervals.is_empty() {
        add("confidence_95_ns", Json::Object(intervals));
    }
    let intervals: Vec<_> = tallies.iter().map(|tally| tally.intervals()).collect();
    add("time_weighted_from", json!(Grain::of(&intervals).name()));
    add("percentile_method", json!(if exact { "exact" } else { "hdr3" }));
    let counting = json!({
        "isl": { "usage": counts.isl_by_usage, "rule": counts.isl_by_rule },
        "osl": {
            "usage": counts.osl_by_usage,
            "chunks": counts.osl_by_chunks,
            "tokenizer": counts.osl_by_tokenizer,
        },
        "not_counted": counts.not_counted,
        "isl_rule": isl_rule,
    });
    add("token_counting", counting);
    add("request_body_bytes", json!(counts.request_body_bytes));
    add("reply_body_bytes", json!(counts.reply_body_bytes));
    members
}

/// Failures that are the client's own fault, by the name of the limit they met.
fn client_errors(tallies: &[&PhaseTally]) -> Json {
    let mut counts = Map::new();
    for group in PhaseTally::pooled_errors(tallies.iter().copied()) {
        if let Some(name) = group.failure.client_error() {
            let before = counts.get(name).and_then(Json::as_u64).unwrap_or(0);
            counts.insert(name.to_owned(), json!(before + group.count));
        }
    }
    Json::Object(counts)
}

fn late(lateness: &Lateness) -> Json {
    json!({
        "p50": lateness.p50.0,
        "p90": lateness.p90.0,
        "p99": lateness.p99.0,
        "p99_9": lateness.p99_9.0,
        "max": lateness.max.0,
        "count": lateness.count,
    })
}

/// The spread of a latency to the last content, and of that to the first where there is such.
fn latency(tallies: &[&PhaseTally], whole: Latency, first: Option<Latency>) -> Map<String, Json> {
    let names = [("request_latency", Some(whole)), ("time_to_first_token", first)];
    names
        .into_iter()
        .filter_map(|(name, latency)| {
            let sets = tallies.iter().map(|tally| tally.latencies());
            Some((name.to_owned(), spread(&Latencies::spread(sets, latency?)?)))
        })
        .collect()
}

fn spread(spread: &Spread) -> Json {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("p50", json!(spread.p50));
    add("p90", json!(spread.p90));
    add("p99", json!(spread.p99));
    add("p99_9", json!(spread.p99_9));
    add("max", json!(spread.max.0));
    add("count", json!(spread.count));
    if let Some((low, high)) = spread.p99_interval {
        add("p99_interval", json!([low, high]));
    }
    Json::Object(members)
}

/// Where the true percentiles lie; those that too few values say nothing about are left out.
fn intervals(tallies: &[&PhaseTally], streaming: bool) -> Map<String, Json> {
    const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
    [Sampled::RequestLatency, Sampled::TimeToFirstToken, Sampled::InterTokenLatency]
        .into_iter()
        .filter(|sampled| streaming || !sampled.metric().streaming)
        .filter_map(|sampled| {
            let sets: Vec<_> = tallies.iter().map(|tally| tally.samples(sampled)).collect();
            let ordered = Ordered::of(&sets);
            let intervals: Map<String, Json> = QUANTILES
                .into_iter()
                .filter_map(|(name, q)| Some((name.to_owned(), json!(ordered.confidence(q)?))))
                .collect();
            (!intervals.is_empty()).then(|| (sampled.metric().tag.to_owned(), Json::Object(intervals)))
        })
        .collect()
}

/// What it cost to count tokens, and what found no room in the queue.
fn counting(counting: &CountingReport, tallies: &[&PhaseTally]) -> Json {
    let not_counted: u64 = tallies.iter().map(|tally| tally.counts().not_counted).sum();
    let mut members = json!({
        "tokenizer": counting.tokenizer,
        "threads": counting.threads,
        "requests": counting.requests,
        "not_counted": not_counted,
    });
    if let Some(cpu_time) = counting.cpu_time {
        members["cpu_time_ns"] = json!(cpu_time.0);
    }
    members
}

/// What one shard cost; what the system did not tell is absent.
fn shard_cost(shard: &ShardReport) -> Json {
    let cost = &shard.cost;
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("shard", json!(shard.shard));
    add("cpu", json!(shard.cpu));
    add("busy_share", json!(cost.busy_share));
    add("longest_gap_ns", json!(cost.longest_gap.0));
    let told = [
        ("cpu_time_ns", cost.cpu_time.map(|span| span.0)),
        ("run_delay_ns", cost.run_delay.map(|span| span.0)),
        ("involuntary_switches", cost.involuntary_switches),
        ("steal_ns", cost.steal.map(|span| span.0)),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            add(name, json!(value));
        }
    }
    if let Some(delay) = &cost.receive_to_reap {
        let delay = json!({
            "p50": delay.p50.0, "p99": delay.p99.0, "max": delay.max.0, "count": delay.count,
        });
        add("receive_to_reap_ns", delay);
    }
    Json::Object(members)
}

/// The client's part in the numbers of a phase.
fn proof(phase: &FinishedPhase) -> Map<String, Json> {
    let mut members = Map::new();
    let mut add = |name: &str, value: Json| members.insert(name.to_owned(), value);
    add("verdict", json!(phase.verdict.name()));
    let reasons = phase.reasons.iter().map(|reason| {
        json!({
            "what": reason.what,
            "value": reason.value,
            "limit": reason.limit,
            "verdict": reason.verdict.name(),
        })
    });
    add("reasons", reasons.collect());
    if let Some(peak) = phase.tally.sends().peak() {
        add("peak_sends", json!({ "window_ns": peak.window.0, "requests": peak.sends }));
    }
    if let Some(start) = phase.tally.sends().start() {
        let (first, last) = (start.first.0, start.last.0);
        let spread = last.saturating_sub(first);
        let start = json!({
            "requests": start.requests, "first_ns": first, "last_ns": last, "spread_ns": spread,
        });
        add("start_spread", start);
    }
    if let Some(test) = &phase.arrivals {
        let mut law = json!({
            "law": "poisson",
            "gaps": test.gaps,
            "rate_per_s": test.rate_per_s,
            "distance": test.distance,
            "distance_limit": test.distance_limit,
            "passes": test.passes(),
        });
        if let (Some(dispersion), Some(members)) = (test.dispersion_100ms, law.as_object_mut()) {
            members.insert("dispersion_100ms".to_owned(), json!(dispersion));
        }
        add("arrivals", law);
    }
    add("shards", phase.shards.iter().map(shard_cost).collect());
    members
}
