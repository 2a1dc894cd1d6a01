//! Was it the server that was measured, or the client?
//!
//! A load generator that is late, starved or out of sockets still prints latencies; they are then its own.
//! [`judge`] holds what is known of the client during a phase against fixed limits and calls the phase by
//! its name, with the reasons. The limits stand in `docs/verdict.md`, each with its why.

use crate::measure::Cost;
use crate::measure::PhaseTally;
use crate::measure::arrivals::PoissonTest;
use crate::measure::catalogue::Sampled;
use crate::measure::statistics::Ordered;
use crate::time::Nanos;

/// What a phase's numbers are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The client kept up; the latencies are the server's.
    Ok,
    /// The client shows in the numbers: read tails with care.
    Degraded,
    /// The client could not make the load that was planned: the numbers are about the client.
    ClientLimited,
}

impl Verdict {
    /// The verdict as written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientLimited => "client_limited",
            Self::Degraded => "degraded",
            Self::Ok => "ok",
        }
    }
}

/// A limit that was crossed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// What was looked at: a stable name, as in `docs/verdict.md`.
    pub what: &'static str,
    /// What it was.
    pub value: f64,
    /// The limit that it crossed.
    pub limit: f64,
    /// What crossing this limit makes of the phase.
    pub verdict: Verdict,
}

/// How the load of a phase was planned, as far as judging it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadShape {
    /// So many slots, each always carrying a request.
    Closed {
        /// Slots over all shards; absent when they may stand empty for a reason of the plan.
        slots: Option<u32>,
    },
    /// Arrivals at planned times.
    Open,
}

/// What is known of the client during a phase.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The phase's numbers, all shards.
    pub tally: &'a PhaseTally,
    /// How the load was planned.
    pub shape: LoadShape,
    /// From the phase's start to the end of sending.
    pub sending: Nanos,
    /// What each shard paid.
    pub costs: &'a [Cost],
    /// The realised arrivals against the planned law, where there is one.
    pub arrivals: Option<PoissonTest>,
}

/// A quantity with the limits at which it degrades a phase and at which it limits it.
struct Limits {
    what: &'static str,
    degraded: f64,
    limited: f64,
}

/// The 99th percentile of an open loop's lateness, in ms.
const LATENESS_P99_MS: Limits = Limits { what: "lateness_p99_ms", degraded: 1.0, limited: 20.0 };
/// The median of an open loop's lateness, in ms: typical requests are late.
const LATENESS_P50_MS: Limits = Limits { what: "lateness_p50_ms", degraded: 0.2, limited: 1.0 };
/// Median lateness of a closed loop over its median request latency: slots stand empty between requests.
const LATENESS_SHARE: Limits = Limits { what: "lateness_share", degraded: 0.05, limited: 0.25 };
/// Share of the slots' time in which they carried no request (Little's law: throughput times residence is
/// the number of slots).
const EMPTY_SLOTS: Limits = Limits { what: "empty_slot_share", degraded: 0.05, limited: 0.25 };
/// Share of the time that the busiest shard's loop had work.
const BUSY_SHARE: Limits = Limits { what: "busy_share", degraded: 0.85, limited: 0.97 };
/// Share of the time that a shard waited for its core.
const RUN_DELAY_SHARE: Limits = Limits { what: "run_delay_share", degraded: 0.02, limited: 0.2 };
/// Longest time between two looks at the ring, in ms.
const LONGEST_GAP_MS: Limits = Limits { what: "longest_gap_ms", degraded: 10.0, limited: 250.0 };
/// Share of the requests that failed for want of a socket, port or descriptor of the client.
const CLIENT_ERROR_SHARE: Limits = Limits { what: "client_error_share", degraded: 0.0, limited: 0.01 };
/// Share of the planned arrivals that were never sent because the client was late.
const DROPPED_LATE_SHARE: Limits = Limits { what: "dropped_late_share", degraded: 0.0, limited: 0.0 };

/// Kind of a failure that is the client's own.
const CLIENT_ERROR: &str = "ClientSocketError";

/// Judges a phase: the worst of its reasons, and all of them.
pub fn judge(evidence: &Evidence<'_>) -> (Verdict, Vec<Reason>) {
    let mut reasons = Vec::new();
    let mut weigh = |limits: &Limits, value: Option<f64>| reasons.extend(crossed(limits, value));
    let counts = evidence.tally.counts();
    if let Some(lateness) = evidence.tally.lateness_summary() {
        match evidence.shape {
            LoadShape::Open => {
                weigh(&LATENESS_P50_MS, Some(lateness.p50.as_millis_f64()));
                weigh(&LATENESS_P99_MS, Some(lateness.p99.as_millis_f64()));
            }
            LoadShape::Closed { .. } => {
                let latencies = Ordered::of(&[evidence.tally.samples(Sampled::RequestLatency)]);
                let median = latencies.quantile(0.5).filter(|median| *median > 0.0);
                weigh(&LATENESS_SHARE, median.map(|median| lateness.p50.0 as f64 / median));
            }
        }
    }
    if let LoadShape::Closed { slots: Some(slots) } = evidence.shape {
        let offered = evidence.sending.as_secs_f64() * f64::from(slots);
        let occupied = evidence.tally.occupied().as_secs_f64();
        weigh(
            &EMPTY_SLOTS,
            (offered > 0.0 && counts.sent >= u64::from(slots)).then(|| 1.0 - occupied / offered),
        );
    }
    let worst = |figure: fn(&Cost) -> Option<f64>| evidence.costs.iter().filter_map(figure).reduce(f64::max);
    weigh(&BUSY_SHARE, worst(|cost| Some(cost.busy_share)));
    weigh(&RUN_DELAY_SHARE, worst(Cost::run_delay_share));
    weigh(&LONGEST_GAP_MS, worst(|cost| Some(cost.longest_gap.as_millis_f64())));
    let of = |part: u64, whole: u64| (part > 0).then(|| part as f64 / whole.max(1) as f64);
    weigh(&CLIENT_ERROR_SHARE, of(client_errors(evidence.tally), counts.sent));
    weigh(&DROPPED_LATE_SHARE, of(counts.dropped_late, counts.planned()));
    if let Some(test) = evidence.arrivals.filter(|test| !test.passes()) {
        reasons.push(Reason {
            what: "arrival_distance",
            value: test.distance,
            limit: test.distance_limit,
            verdict: Verdict::Degraded,
        });
    }
    let verdict = reasons.iter().map(|reason| reason.verdict).max().unwrap_or(Verdict::Ok);
    (verdict, reasons)
}

/// Requests that failed for want of something of the client's.
pub fn client_errors(tally: &PhaseTally) -> u64 {
    let groups = tally.error_groups();
    groups.iter().filter(|group| group.failure.kind == CLIENT_ERROR).map(|group| group.count).sum()
}

fn crossed(limits: &Limits, value: Option<f64>) -> Option<Reason> {
    let value = value?;
    let (limit, verdict) = if value > limits.limited {
        (limits.limited, Verdict::ClientLimited)
    } else if value > limits.degraded {
        (limits.degraded, Verdict::Degraded)
    } else {
        return None;
    };
    Some(Reason { what: limits.what, value, limit, verdict })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::measure::arrivals::Arrivals;
    use crate::measure::record::tests::record;
    use crate::measure::tally::Drop;
    use crate::measure::{Failure, Outcome, Record};
    use crate::time::Stamp;

    fn poisson_test() -> PoissonTest {
        let mut arrivals = Arrivals::new(1_000);
        (0..1_000).for_each(|index| arrivals.push(Nanos::from_millis(index)));
        arrivals.poisson_test(1_000.0).unwrap()
    }

    const CALM: Cost = Cost {
        elapsed: Nanos::from_millis(1_000),
        busy_share: 0.3,
        longest_gap: Nanos::from_micros(400),
        cpu_time: None,
        run_delay: Some(Nanos::from_millis(1)),
        involuntary_switches: None,
        steal: None,
        receive_to_reap: None,
    };

    fn open(tally: &PhaseTally, cost: Cost) -> (Verdict, Vec<&'static str>) {
        let evidence = Evidence {
            tally,
            shape: LoadShape::Open,
            sending: Nanos::from_millis(1_000),
            costs: &[CALM, cost],
            arrivals: None,
        };
        let (verdict, reasons) = judge(&evidence);
        (verdict, reasons.iter().map(|reason| reason.what).collect())
    }

    fn punctual(late: Nanos) -> PhaseTally {
        let mut tally = PhaseTally::new(10);
        for _ in 0..1_000 {
            tally.sent();
            tally.lateness(late);
        }
        tally
    }

    #[test]
    fn a_client_that_keeps_up_is_ok() {
        assert_eq!(open(&punctual(Nanos(700)), CALM), (Verdict::Ok, Vec::new()));
    }

    #[test]
    fn each_limit_is_called_by_its_name() {
        let on_time = punctual(Nanos(700));
        let busy = Cost { busy_share: 0.99, ..CALM };
        assert_eq!(open(&on_time, busy), (Verdict::ClientLimited, vec!["busy_share"]));
        let warm = Cost { busy_share: 0.9, ..CALM };
        assert_eq!(open(&on_time, warm), (Verdict::Degraded, vec!["busy_share"]));
        let neighbour = Cost { run_delay: Some(Nanos::from_millis(480)), ..CALM };
        assert_eq!(open(&on_time, neighbour), (Verdict::ClientLimited, vec!["run_delay_share"]));
        let stalled = Cost { longest_gap: Nanos::from_millis(300), ..CALM };
        assert_eq!(open(&on_time, stalled), (Verdict::ClientLimited, vec!["longest_gap_ms"]));
        let late = punctual(Nanos::from_millis(30));
        assert_eq!(open(&late, CALM), (Verdict::ClientLimited, vec!["lateness_p50_ms", "lateness_p99_ms"]));
        let mut lost = punctual(Nanos(700));
        lost.dropped(Drop::Late);
        assert_eq!(open(&lost, CALM), (Verdict::ClientLimited, vec!["dropped_late_share"]));
        let typical = punctual(Nanos::from_micros(300));
        assert_eq!(open(&typical, CALM), (Verdict::Degraded, vec!["lateness_p50_ms"]));
        let mut starved = punctual(Nanos(700));
        for _ in 0..11 {
            let outcome = Outcome::Failed(Box::new(Failure::client_socket(24)));
            starved.record(&Record { outcome, ..Record::blank() }, &[]);
        }
        assert_eq!(open(&starved, CALM), (Verdict::ClientLimited, vec!["client_error_share"]));
        let mut capped = punctual(Nanos(700));
        capped.dropped(Drop::AtCapacity);
        assert_eq!(open(&capped, CALM).0, Verdict::Ok, "the cap was asked for");
    }

    #[test]
    fn arrivals_of_another_law_degrade_a_phase() {
        let judged = |distance: f64| {
            let test = PoissonTest { distance, ..poisson_test() };
            let evidence = Evidence {
                tally: &punctual(Nanos(700)),
                shape: LoadShape::Open,
                sending: Nanos::from_millis(1_000),
                costs: &[CALM],
                arrivals: Some(test),
            };
            let (verdict, reasons) = judge(&evidence);
            (verdict, reasons.iter().map(|reason| reason.what).collect::<Vec<_>>())
        };
        let limit = poisson_test().distance_limit;
        assert_eq!(judged(limit * 0.9), (Verdict::Ok, Vec::new()));
        assert_eq!(judged(limit * 1.1), (Verdict::Degraded, vec!["arrival_distance"]));
    }

    #[test]
    fn a_closed_loop_that_is_late_for_its_slots_is_called_so() {
        let judged = |late: Nanos| {
            let mut tally = punctual(late);
            let latency = Nanos::from_millis(10);
            for _ in 0..100 {
                let done = Some(Stamp::ORIGIN.plus(latency));
                let record = Record { first_content: done, last_content: done, ..record(0) };
                tally.record(&record, &[]);
            }
            let evidence = Evidence {
                tally: &tally,
                shape: LoadShape::Closed { slots: None },
                sending: Nanos::from_millis(1_000),
                costs: &[CALM],
                arrivals: None,
            };
            let (verdict, reasons) = judge(&evidence);
            (verdict, reasons.iter().map(|reason| reason.what).collect::<Vec<_>>())
        };
        assert_eq!(judged(Nanos::from_micros(300)), (Verdict::Ok, Vec::new()));
        assert_eq!(judged(Nanos::from_millis(1)), (Verdict::Degraded, vec!["lateness_share"]));
        assert_eq!(judged(Nanos::from_millis(4)), (Verdict::ClientLimited, vec!["lateness_share"]));
    }

    #[test]
    fn slots_that_stand_empty_are_the_clients_fault() {
        let judged = |occupied_ms: u64| {
            let mut tally = PhaseTally::new(10);
            for _ in 0..10 {
                tally.sent();
            }
            tally.occupy(Nanos::from_millis(occupied_ms));
            let evidence = Evidence {
                tally: &tally,
                shape: LoadShape::Closed { slots: Some(4) },
                sending: Nanos::from_millis(1_000),
                costs: &[CALM],
                arrivals: None,
            };
            judge(&evidence).0
        };
        assert_eq!(judged(3_990), Verdict::Ok);
        assert_eq!(judged(3_600), Verdict::Degraded);
        assert_eq!(judged(2_000), Verdict::ClientLimited);
    }

    #[test]
    fn what_the_system_does_not_tell_accuses_nobody() {
        let unknown = Cost { run_delay: None, ..CALM };
        assert_eq!(open(&punctual(Nanos(700)), unknown).0, Verdict::Ok);
    }
}
