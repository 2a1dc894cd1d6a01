//! The counters that shards share while running.

use crate::plan::Dial;
use crate::plan::PhasePlan;
use crate::plan::Plan;
use crate::schedule::InFlight;
use crate::schedule::Ticket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Requests of a phase that must have ended before its failures are judged, at the least: as in AIPerf.
const JUDGED_MIN: u64 = 10;

/// The counters that shards share while running.
#[derive(Debug)]
pub struct Shared {
    phases: Vec<Counters>,
    dials: Vec<Dial>,
    /// Sessions of all counted phases.
    pub in_flight: InFlight,
    /// Requests without content yet of all phases that count them.
    pub prefills: InFlight,
    /// Position of the phase that failed too often, plus 1.
    given_up: AtomicU32,
    /// A shard has failed: the others end too.
    stopped_early: AtomicBool,
}

#[derive(Debug, Default)]
struct Counters {
    requests: Ticket,
    sessions: Ticket,
    ended: AtomicU64,
    failed: AtomicU64,
    /// Sessions begun, as far as shards have stopped sending.
    begun: AtomicU64,
}

/// A phase in which too many requests failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The phase.
    pub phase: u16,
    /// Requests that had ended by now.
    pub ended: u64,
    /// Of those, failed and cancelled ones.
    pub failed: u64,
}

impl Shared {
    /// Fresh counters for `plan`.
    pub fn new(plan: &Plan) -> Self {
        Self {
            phases: plan.phases.iter().map(|_| Counters::default()).collect(),
            dials: plan.phases.iter().map(Dial::new).collect(),
            in_flight: InFlight::default(),
            prefills: InFlight::default(),
            given_up: AtomicU32::new(0),
            stopped_early: AtomicBool::new(false),
        }
    }

    /// The ticket that numbers the requests of phase `index`.
    pub fn ticket(&self, index: u16) -> &Ticket {
        // A phase index always comes from the plan these counters were made for.
        &self.phases[usize::from(index)].requests
    }

    /// The ticket that numbers the sessions of phase `index`.
    pub fn session_ticket(&self, index: u16) -> &Ticket {
        &self.phases[usize::from(index)].sessions
    }

    /// How the load of phase `index` is turned while it runs.
    pub fn dial(&self, index: u16) -> &Dial {
        &self.dials[usize::from(index)]
    }

    /// A shard has stopped sending phase `index`, of which it had begun `sessions`.
    pub fn stopped(&self, index: u16, sessions: u64) {
        self.phases[usize::from(index)].begun.fetch_add(sessions, Relaxed);
    }

    /// Sessions of all phases before `index`, which have stopped sending on every shard.
    pub fn sessions_before(&self, index: u16) -> u64 {
        self.phases.iter().take(usize::from(index)).map(|phase| phase.begun.load(Relaxed)).sum()
    }

    /// A request of a phase with a threshold has ended. Gives the run up when too many have failed.
    pub fn ended(&self, phase: &PhasePlan, failed: bool) {
        let Some(threshold) = phase.failed_request_threshold else { return };
        let counters = &self.phases[usize::from(phase.index)];
        let failures = counters.failed.fetch_add(u64::from(failed), Relaxed) + u64::from(failed);
        let ended = counters.ended.fetch_add(1, Relaxed) + 1;
        let judged_min = phase.concurrency().unwrap_or(0).max(JUDGED_MIN);
        if ended >= judged_min && failures as f64 / ended as f64 > threshold {
            let mark = u32::from(phase.index) + 1;
            // The first phase to fail is the reason.
            let _ = self.given_up.compare_exchange(0, mark, Relaxed, Relaxed);
        }
    }

    /// Ends this run on every shard, as an interrupt does, and no other run.
    pub fn stop_early(&self) {
        self.stopped_early.store(true, Relaxed);
    }

    /// Whether every shard is to end now: the run was given up, or stopped early.
    pub fn is_over(&self) -> bool {
        self.given_up.load(Relaxed) != 0 || self.stopped_early.load(Relaxed)
    }

    /// The phase for which the run has been given up, if it has.
    pub fn given_up(&self) -> Option<GivenUp> {
        let index = self.given_up.load(Relaxed).checked_sub(1)?;
        let counters = self.phases.get(index as usize)?;
        Some(GivenUp {
            phase: u16::try_from(index).ok()?,
            ended: counters.ended.load(Relaxed),
            failed: counters.failed.load(Relaxed),
        })
    }
}
