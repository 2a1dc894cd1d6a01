//! The shards' parts of a phase, put together.
//!
//! It says what a phase came to; nothing is written here.

use crate::artifact::FinishedPhase;
use crate::artifact::ShardReport;
use crate::config::Load;
use crate::measure::Cost;
use crate::measure::PhaseTally;
use crate::measure::verdict;
use crate::measure::verdict::Evidence;
use crate::measure::verdict::LoadShape;
use crate::plan::Plan;
use crate::shard::driver::ClosedPhase;
use crate::time::Stamp;

/// Merges the shards' parts of phase `index`; absent when there is none.
pub(super) fn finish_phase(plan: &Plan, index: u16, mut parts: Vec<ClosedPhase>) -> Option<FinishedPhase> {
    let phase = plan.phase(index)?;
    parts.sort_by_key(|part| part.shard);
    let shards: Vec<ShardReport> =
        parts.iter().map(|part| ShardReport { shard: part.shard, cpu: part.cpu, cost: part.cost }).collect();
    let first = parts.first()?;
    let started = first.started;
    let latest = |of: fn(&ClosedPhase) -> Stamp| parts.iter().map(of).max().unwrap_or(started);
    let sending_ended = latest(|part| part.sending_ended);
    let ended = latest(|part| part.closed);
    let interrupted = parts.iter().any(|part| part.interrupted);
    let mut tallies = parts.into_iter().map(|part| part.tally);
    let mut tally: PhaseTally = tallies.next()?;
    for other in tallies {
        tally.merge(other);
    }
    tally.settle();
    let arrivals = match phase.load {
        // Arrivals that a limit took away or kept waiting leave another process behind.
        Load::Poisson { rate_per_s, concurrency: None }
            if phase.keeps_its_rate() && tally.counts().dropped() == 0 =>
        {
            tally.arrivals().poisson_test(rate_per_s)
        }
        Load::Concurrency { .. }
        | Load::Constant { .. }
        | Load::FixedSchedule { .. }
        | Load::Gamma { .. }
        | Load::Poisson { .. }
        | Load::UserCentric { .. } => None,
    };
    let costs: Vec<Cost> = shards.iter().map(|shard| shard.cost).collect();
    let (verdict, reasons) = verdict::judge(&Evidence {
        tally: &tally,
        shape: match phase.load {
            // A seamless start waits for the requests of the phase before, and a session may think.
            Load::Concurrency { concurrency } => {
                let always_busy = !phase.seamless && phase.keeps_its_slots() && !plan.script.has_sessions();
                LoadShape::Closed { slots: always_busy.then_some(concurrency) }
            }
            Load::Constant { .. }
            | Load::FixedSchedule { .. }
            | Load::Gamma { .. }
            | Load::Poisson { .. }
            | Load::UserCentric { .. } => LoadShape::Open,
        },
        sending: sending_ended.since(started),
        costs: &costs,
        arrivals,
    });
    Some(FinishedPhase {
        shards,
        verdict,
        reasons,
        arrivals,
        index,
        profiling_index: phase.profiling_index,
        name: phase.name.clone(),
        kind: phase.kind,
        started,
        sending_ended,
        ended,
        interrupted,
        tally,
    })
}
