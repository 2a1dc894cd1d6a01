//! How much of the calibrated ceiling each phase used, and the floor below which no latency can be measured.
//!
//! The figures come from `phasor calibrate`; this module only holds a finished run against them.

use crate::artifact::{FinishedPhase, FinishedRun};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// What a calibration of this machine says, as far as a run is held against it. Rates are those of one
/// shard that does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Whole replies per second; absent if it could not be measured.
    pub requests_per_s: Option<f64>,
    /// Reads with a token each per second; absent if it could not be measured.
    pub reads_per_s: Option<f64>,
    /// Request latency at concurrency 1 against a server that answers at once.
    pub request_latency: Floor,
    /// Time to first token there.
    pub time_to_first_token: Floor,
}

/// The least that can be measured, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Half were no longer.
    pub p50: f64,
    /// 99 % were no longer.
    pub p99: f64,
}

impl Floor {
    fn json(self) -> Json {
        json!({ "p50": self.p50, "p99": self.p99 })
    }
}

/// What a phase spends its ceiling on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spent {
    Reads,
    Requests,
}

impl Spent {
    const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Requests => "requests",
        }
    }
}

impl Calibration {
    /// The larger of two shares: of requests and of reads. Replies that come in one piece are bound by the
    /// first, those that come token by token by the second.
    fn used(&self, run: &FinishedRun<'_>, phase: &FinishedPhase) -> Option<(Spent, f64)> {
        let seconds = phase.ended.since(phase.started).as_secs_f64();
        let shards = run.shards.len() as f64;
        if seconds <= 0.0 || shards <= 0.0 {
            return None;
        }
        let counts = phase.tally.counts();
        let share = |count: u64, ceiling: Option<f64>| {
            let ceiling = ceiling.filter(|ceiling| *ceiling > 0.0)?;
            Some(count as f64 / seconds / (ceiling * shards))
        };
        let requests = share(counts.completed(), self.requests_per_s).map(|share| (Spent::Requests, share));
        let reads = share(counts.body_reads, self.reads_per_s).map(|share| (Spent::Reads, share));
        requests.into_iter().chain(reads).max_by(|left, right| left.1.total_cmp(&right.1))
    }

    /// The member `calibration` of a phase.
    pub(super) fn json(&self, run: &FinishedRun<'_>, phase: &FinishedPhase) -> Json {
        let mut floor = json!({ "request_latency": self.request_latency.json() });
        if run.config.endpoint.streams_tokens() {
            floor["time_to_first_token"] = self.time_to_first_token.json();
        }
        let mut member = json!({ "floor_ns": floor });
        if let Some((spent, share)) = self.used(run, phase) {
            member["used_share"] = json!(share);
            member["used_of"] = json!(spent.name());
        }
        member
    }
}

/// A line for each phase, for the end of what is printed; none without a calibration.
pub fn lines(run: &FinishedRun<'_>) -> String {
    let mut text = String::new();
    let Some(calibration) = &run.calibration else { return text };
    let shards = run.shards.len();
    for phase in &run.phases {
        if let Some((spent, share)) = calibration.used(run, phase) {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "Head-room: {} used {:.0} % of the calibrated ceiling of {shards} shard(s) ({})",
                phase.name,
                share * 100.0,
                spent.name()
            );
        }
    }
    let [latency, first] = [calibration.request_latency, calibration.time_to_first_token];
    let micros = |nanos: f64| nanos / 1e3;
    let _ = writeln!(
        text,
        "Floor of this client: TTFT p50 {:.0} us, p99 {:.0} us; request latency p50 {:.0} us, p99 {:.0} us",
        micros(first.p50),
        micros(first.p99),
        micros(latency.p50),
        micros(latency.p99)
    );
    text
}
