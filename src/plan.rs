//! What will be run: a config turned into phases that any number of shards can share.
//!
//! A [`Plan`] is read-only and shared by all shards; the few counters that they share while running are in
//! [`Shared`]. It decides nothing at run time.

use crate::config::Cancellation;
use crate::config::Config;
use crate::config::Load;
use crate::config::Phase;
use crate::config::PhaseKind;
use crate::config::StopRules;
use crate::config::Url;
use crate::rng::child_seed;
use crate::schedule::InFlight;
use crate::schedule::Ticket;
use crate::time::Nanos;

/// Most phases of one run.
pub const PHASES_MAX: usize = 4_096;

/// A run, ready to be driven.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The phases in order.
    pub phases: Vec<PhasePlan>,
    /// Root of all seeded streams.
    pub seed: u64,
    /// The URLs that requests go round, at least one.
    pub urls: Vec<Url>,
    /// How many rows the dataset has.
    pub rows: u64,
    /// A request older than this has failed.
    pub timeout: Option<Nanos>,
    /// How long an unused connection is kept.
    pub idle_lifetime: Nanos,
    /// Whether replies are streams.
    pub streaming: bool,
}

/// One phase, ready to be driven.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Position in the plan.
    pub index: u16,
    /// Position among the profiling phases.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
    /// How requests arrive.
    pub load: Load,
    /// What ends sending.
    pub stop: StopRules,
    /// How long after its duration requests in flight are waited for; absent: until they end.
    pub grace: Option<Nanos>,
    /// Requests cancelled on purpose; warmups have none.
    pub cancellation: Option<Cancellation>,
    /// Starts when the phase before it stops sending.
    pub seamless: bool,
    /// Its requests in flight are counted over all shards, because a cap or a seamless neighbour needs it.
    pub counted: bool,
    /// Most requests in flight over all shards and live phases while this phase sends; only if `counted`.
    pub in_flight_max: Option<u32>,
    /// Seed of this phase's streams.
    pub stream_seed: u64,
}

impl Plan {
    /// Plans a config for a dataset of `rows` rows. `fallback_seed` seeds the streams of a config without
    /// a seed.
    pub fn new(config: &Config, rows: usize, fallback_seed: u64) -> Self {
        let seed = config.random_seed.unwrap_or(fallback_seed);
        let mut profiling = 0;
        let phases = config
            .phases
            .iter()
            .enumerate()
            .map(|(position, phase)| {
                let index = u16::try_from(position).unwrap_or(u16::MAX);
                let profiling_index = (phase.kind == PhaseKind::Profiling).then(|| {
                    profiling += 1;
                    profiling - 1
                });
                // With a seed every phase replays the same streams, as AIPerf does, so that plans can be
                // compared; without one each phase has streams of its own.
                let stream_seed = match config.random_seed {
                    Some(seed) => seed,
                    None => child_seed(seed, &format!("phasor.phase.{index}")),
                };
                let followed = config.phases.get(position + 1).is_some_and(|next| next.seamless);
                PhasePlan::new(phase, index, profiling_index, stream_seed, followed)
            })
            .collect();
        Self {
            phases,
            seed,
            urls: config.endpoint.urls.clone(),
            rows: rows as u64,
            timeout: config.endpoint.timeout,
            idle_lifetime: IDLE_LIFETIME,
            streaming: config.endpoint.streaming,
        }
    }

    /// The phase at `index`.
    pub fn phase(&self, index: u16) -> Option<&PhasePlan> {
        self.phases.get(usize::from(index))
    }

    /// Most requests in flight by plan, over all shards and overlapping phases; `None` when an open loop
    /// has no cap.
    pub fn in_flight_peak(&self) -> Option<u64> {
        let limits: Option<Vec<u64>> = self.phases.iter().map(PhasePlan::concurrency).collect();
        let limits = limits?;
        // A hand-over holds the old requests beside the new ones, never more than the larger limit; the sum
        // of neighbours is a bound for any order of events.
        let single = limits.iter().copied().max().unwrap_or(0);
        let pairs = limits.windows(2).zip(self.phases.iter().skip(1)).filter(|(_, next)| next.seamless);
        Some(pairs.map(|(pair, _)| pair.iter().sum()).max().unwrap_or(0).max(single))
    }
}

/// How long an unused connection is kept (AIPerf's default).
const IDLE_LIFETIME: Nanos = Nanos::from_millis(300_000);

impl PhasePlan {
    fn new(
        phase: &Phase,
        index: u16,
        profiling_index: Option<u16>,
        stream_seed: u64,
        followed_seamlessly: bool,
    ) -> Self {
        let cap = phase.load.concurrency();
        let overlaps = phase.seamless || followed_seamlessly;
        let closed = matches!(phase.load, Load::Concurrency { .. });
        let counted = overlaps || (!closed && cap.is_some());
        Self {
            index,
            profiling_index,
            name: phase.name.clone(),
            kind: phase.kind,
            load: phase.load,
            stop: phase.stop,
            grace: phase.grace,
            cancellation: match phase.kind {
                PhaseKind::Profiling => phase.cancellation,
                PhaseKind::Warmup => None,
            },
            seamless: phase.seamless,
            counted,
            in_flight_max: cap,
            stream_seed,
        }
    }

    /// Most requests of this phase in flight; absent without a cap.
    pub fn concurrency(&self) -> Option<u64> {
        self.in_flight_max.map(u64::from)
    }

    /// Whether request numbers come from the shared ticket (a closed loop, or an open loop whose arrivals
    /// may be dropped) rather than from the arrival's position.
    pub fn numbered_by_ticket(&self) -> bool {
        self.load.concurrency().is_some()
    }
}

/// The counters that shards share while running.
#[derive(Debug)]
pub struct Shared {
    tickets: Vec<Ticket>,
    /// Requests in flight of all counted phases.
    pub in_flight: InFlight,
}

impl Shared {
    /// Fresh counters for `plan`.
    pub fn new(plan: &Plan) -> Self {
        Self {
            tickets: plan.phases.iter().map(|_| Ticket::default()).collect(),
            in_flight: InFlight::default(),
        }
    }

    /// The ticket of phase `index`.
    pub fn ticket(&self, index: u16) -> &Ticket {
        // A phase index always comes from the plan these counters were made for.
        &self.tickets[usize::from(index)]
    }
}
