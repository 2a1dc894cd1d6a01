//! A phase on one shard, from its start to its close.

use crate::config::Load;
use crate::engine::chain::Chain;
use crate::measure::PhaseTally;
use crate::plan::PhasePlan;
use crate::schedule::Arrival;
use crate::schedule::CancelDraws;
use crate::schedule::PoissonArrivals;
use crate::schedule::Share;
use crate::time::Stamp;

/// When a phase starts and where its dataset cursor stands: agreed on by all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseStart {
    /// The common start.
    pub at: Stamp,
    /// Row of the dataset that request 0 of the phase sends (before wrapping).
    pub first_row: u64,
}

/// An edge in the life of a phase on this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseEvent {
    /// Every request of this shard has ended; the tally can be taken.
    Closed {
        /// The phase.
        phase: u16,
        /// When the last one ended, or sending if there was none.
        at: Stamp,
    },
    /// This shard sends no more of it.
    SendingEnded {
        /// The phase.
        phase: u16,
        /// From when on nothing was sent.
        at: Stamp,
        /// Requests this shard sent.
        sent: u64,
        /// Whether the phase ended by its duration or an interrupt, rather than by its count.
        by_time: bool,
    },
}

/// Where a phase stands. Each state is entered once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PhaseState {
    /// Its start is known and lies ahead.
    Waiting,
    /// Requests are sent.
    Sending,
    /// Nothing more is sent; requests are in flight.
    Draining,
    /// Every request has ended.
    Closed,
}

/// Where the requests of a phase come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Slots of this shard that carry no request now.
    Closed {
        /// How many.
        free: u32,
    },
    /// Arrivals of this shard, the next one drawn already.
    Open {
        arrivals: Box<PoissonArrivals>,
        /// `None`: the plan has no more.
        next: Option<Arrival>,
    },
}

/// A phase that this shard has begun and not handed over yet.
#[derive(Debug)]
pub(crate) struct LivePhase {
    pub(crate) plan: PhasePlan,
    pub(crate) start: PhaseStart,
    pub(crate) state: PhaseState,
    pub(crate) source: Source,
    pub(crate) draws: Option<Box<CancelDraws>>,
    pub(crate) in_flight: u32,
    pub(crate) sent: u64,
    /// When the last request was let go.
    pub(crate) last_issued: Stamp,
    /// Set when sending ended.
    pub(crate) sending_ended: Stamp,
    /// The plan has no more requests for this shard, whatever time is left.
    pub(crate) counted_out: bool,
    /// A request waits for the process to be below its cap.
    pub(crate) blocked: bool,
    /// Written requests that will be cancelled, in the order of their deadlines.
    pub(crate) cancels: Chain,
    pub(crate) tally: PhaseTally,
}

impl LivePhase {
    pub(crate) fn new(plan: PhasePlan, start: PhaseStart, share: Share, tally: PhaseTally) -> Self {
        let source = match plan.load {
            Load::Concurrency { concurrency } => Source::Closed { free: share.slots(concurrency) },
            // `config::support` keeps the types that are for later from getting here.
            Load::Constant { .. }
            | Load::FixedSchedule { .. }
            | Load::Gamma { .. }
            | Load::UserCentric { .. } => Source::Closed { free: share.slots(0) },
            Load::Poisson { rate_per_s, .. } => {
                let mut arrivals = Box::new(PoissonArrivals::new(plan.stream_seed, rate_per_s, share));
                let next = arrivals.next();
                Source::Open { arrivals, next }
            }
        };
        let draws = plan
            .cancellation
            .filter(|cancellation| cancellation.rate_percent > 0.0)
            .map(|cancellation| Box::new(CancelDraws::new(plan.stream_seed, cancellation.rate_percent)));
        let mut phase = Self {
            plan,
            start,
            state: PhaseState::Waiting,
            source,
            draws,
            in_flight: 0,
            sent: 0,
            last_issued: Stamp::ORIGIN,
            sending_ended: Stamp::NEVER,
            counted_out: false,
            blocked: false,
            cancels: Chain::default(),
            tally,
        };
        phase.trim_source();
        phase
    }

    /// When sending ends by duration.
    pub(crate) fn sending_end(&self) -> Option<Stamp> {
        self.plan.stop.duration.map(|duration| self.start.at.plus(duration))
    }

    /// When requests still in flight are abandoned.
    pub(crate) fn deadline(&self) -> Option<Stamp> {
        let end = self.sending_end()?;
        self.plan.grace.map(|grace| end.plus(grace))
    }

    /// The next planned arrival of an open loop.
    pub(crate) fn next_arrival(&self) -> Option<Arrival> {
        match &self.source {
            Source::Closed { .. } => None,
            Source::Open { next, .. } => *next,
        }
    }

    /// Takes the next planned arrival and draws the one after it.
    pub(crate) fn advance(&mut self) {
        if let Source::Open { arrivals, next } = &mut self.source {
            *next = arrivals.next();
        }
        self.trim_source();
    }

    /// Ends the source where the plan ends: arrivals at or after the duration, or beyond the count, are not
    /// planned.
    fn trim_source(&mut self) {
        let Some(arrival) = self.next_arrival() else { return };
        let stop = self.plan.stop;
        let by_arrival = !self.plan.numbered_by_ticket();
        let beyond_count = by_arrival && stop.requests.is_some_and(|requests| arrival.index >= requests);
        let beyond_time = stop.duration.is_some_and(|duration| arrival.offset >= duration);
        self.counted_out |= beyond_count;
        if (beyond_count || beyond_time)
            && let Source::Open { next, .. } = &mut self.source
        {
            *next = None;
        }
    }
}
