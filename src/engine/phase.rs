//! A phase on one shard, from its start to its close.

use crate::adaptive::WindowTally;
use crate::adaptive::whole;
use crate::config::Control;
use crate::config::Load;
use crate::engine::chain::Chain;
use crate::engine::sessions::Sessions;
use crate::measure::PhaseTally;
use crate::plan::AtCapacity;
use crate::plan::PhasePlan;
use crate::plan::Plan;
use crate::plan::Turned;
use crate::schedule::Arrival;
use crate::schedule::Arrivals;
use crate::schedule::CancelDraws;
use crate::schedule::CountRamp;
use crate::schedule::Script;
use crate::schedule::Share;
use crate::time::Nanos;
use crate::time::Stamp;

/// When a phase starts and where its dataset cursor stands: agreed on by all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseStart {
    /// The common start.
    pub at: Stamp,
    /// Position, in the order in which sessions take conversations, of the phase's first session.
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
        /// Sessions this shard began.
        sessions: u64,
        /// Requests it sent.
        sent: u64,
        /// Of those, in flight now.
        in_flight: u32,
        /// Whether the phase had drawn a conversation that it did not begin.
        drawn_ahead: bool,
    },
    /// A window of an adaptive phase was cut off; it can be taken.
    WindowCut {
        /// The phase.
        phase: u16,
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

/// Where the sessions of a phase come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Slots of this shard that carry no session now.
    Closed {
        /// How many.
        free: u32,
    },
    /// Arrivals of this shard, the next one drawn already.
    Open {
        arrivals: Box<Arrivals>,
        /// `None`: the plan has no more.
        next: Option<Arrival>,
    },
}

/// When the next turn of a session is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// After its delay, from the end of the turn before it; in an open loop it then takes the next arrival.
    Delay,
    /// This long after the turn before was planned.
    Gap(Nanos),
    /// At its own time in the trace, whose time at the phase's start this is; else after its delay.
    Trace(Nanos),
}

/// A phase that this shard has begun and not handed over yet.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the sending")]
pub(crate) struct LivePhase {
    pub(crate) plan: PhasePlan,
    pub(crate) start: PhaseStart,
    pub(crate) state: PhaseState,
    pub(crate) source: Source,
    pub(crate) pace: Pace,
    pub(crate) at_capacity: AtCapacity,
    pub(crate) sessions: Sessions,
    pub(crate) draws: Option<Box<CancelDraws>>,
    /// The limit of sessions on its way up.
    pub(crate) ramp: Option<Box<CountRamp>>,
    /// The limit of requests without content on its way up.
    pub(crate) prefill_ramp: Option<Box<CountRamp>>,
    pub(crate) in_flight: u32,
    pub(crate) sent: u64,
    /// Sessions begun on this shard.
    pub(crate) sessions_begun: u64,
    /// Sessions of the phases before, over all shards.
    pub(crate) sessions_before: u64,
    /// When the last request was let go.
    pub(crate) last_issued: Stamp,
    /// The last request let go, or the last one of the count, was not the first turn of its session.
    pub(crate) last_continued: bool,
    /// Set when sending ended.
    pub(crate) sending_ended: Stamp,
    /// The plan begins no more sessions on this shard, whatever time is left.
    pub(crate) counted_out: bool,
    /// A request waits for a slot that another shard may free.
    pub(crate) blocked: bool,
    /// A slot is free and the server cannot be reached: the next try is at `probe_at`.
    pub(crate) probes: bool,
    pub(crate) probe_at: Stamp,
    /// Since when how many slots have stood empty for that.
    pub(crate) probes_since: Option<(Stamp, u32)>,
    /// A request of this shard waits for a slot.
    pub(crate) held: bool,
    /// When a request last got a slot that it had waited for: what was planned before was kept waiting too.
    pub(crate) held_until: Stamp,
    /// Written requests that will be cancelled, in the order of their deadlines.
    pub(crate) cancels: Chain,
    pub(crate) tally: PhaseTally,
    /// Of an adaptive phase.
    pub(crate) looking: Option<Box<Looking>>,
}

/// What an adaptive phase keeps on one shard.
#[derive(Debug)]
pub(crate) struct Looking {
    /// The load now.
    pub(crate) value: f64,
    /// Turns of the dial that were followed.
    pub(crate) turns: u32,
    /// What returned since the last cut.
    pub(crate) window: WindowTally,
    /// Windows cut off and not taken yet, oldest first.
    pub(crate) cut: Vec<WindowTally>,
    /// Windows cut off so far.
    pub(crate) windows: u32,
    /// Slots that are to vanish when what they carry has ended.
    pub(crate) debt: u32,
    /// Arrivals of this shard that were taken from the sequence.
    pub(crate) taken: u64,
}

impl LivePhase {
    pub(crate) fn new(
        index: u16,
        run: &Plan,
        start: PhaseStart,
        share: Share,
        sessions_before: u64,
        mut tally: PhaseTally,
    ) -> Option<Self> {
        let plan = run.phase(index)?.clone();
        let seed = plan.stream_seed;
        let to = |ramp, target: Option<u32>| Some(Box::new(CountRamp::new(ramp, target?, seed)));
        let ramp = plan.concurrency_ramp.and_then(|ramp| to(ramp, plan.in_flight_max));
        let prefill_ramp = plan.prefill_ramp.and_then(|ramp| to(ramp, plan.prefill_max));
        let source = match plan.arrivals(run, start.first_row, share) {
            None => {
                let first = plan.first_value(Control::Concurrency).map(whole);
                let ramped = ramp.as_ref().map(|ramp| ramp.value());
                let slots = first.or(ramped).or(plan.in_flight_max).unwrap_or(0);
                if ramp.is_none() {
                    tally.expect_start(share.slots(slots).into());
                }
                Source::Closed { free: share.slots(slots) }
            }
            Some(mut arrivals) => {
                let next = arrivals.next();
                Source::Open { arrivals: Box::new(arrivals), next }
            }
        };
        let (pace, at_capacity) = match plan.load {
            Load::Concurrency { .. } | Load::Constant { .. } | Load::Gamma { .. } | Load::Poisson { .. } => {
                (Pace::Delay, run.at_capacity)
            }
            Load::FixedSchedule { .. } => (Pace::Trace(plan.trace_zero(&run.script)), AtCapacity::Queue),
            Load::UserCentric { rate_per_s, users, .. } => {
                (Pace::Gap(Nanos::from_secs_f64(f64::from(users) / rate_per_s)), AtCapacity::Queue)
            }
        };
        let draws = plan
            .cancellation
            .filter(|cancellation| cancellation.rate_percent > 0.0)
            .map(|cancellation| Box::new(CancelDraws::new(seed, cancellation.rate_percent)));
        let looking = plan.adaptive.as_ref().map(|scale| {
            Box::new(Looking {
                value: scale.min,
                turns: 0,
                window: WindowTally::new(share.shards()),
                cut: Vec::new(),
                windows: 0,
                debt: 0,
                taken: 0,
            })
        });
        let mut phase = Self {
            plan,
            start,
            state: PhaseState::Waiting,
            source,
            pace,
            at_capacity,
            sessions: Sessions::default(),
            draws,
            ramp,
            prefill_ramp,
            in_flight: 0,
            sent: 0,
            sessions_begun: 0,
            sessions_before,
            last_issued: Stamp::ORIGIN,
            last_continued: false,
            sending_ended: Stamp::NEVER,
            counted_out: false,
            blocked: false,
            probes: false,
            probe_at: Stamp::ORIGIN,
            probes_since: None,
            held: false,
            held_until: Stamp::ORIGIN,
            cancels: Chain::default(),
            tally,
            looking,
        };
        phase.trim_source();
        Some(phase)
    }

    /// When sending ends by duration.
    pub(crate) fn sending_end(&self) -> Option<Stamp> {
        self.plan.stop.duration.map(|duration| self.start.at.plus(duration))
    }

    /// Whether the duration is over.
    pub(crate) fn past_end(&self, now: Stamp) -> bool {
        self.sending_end().is_some_and(|end| now >= end)
    }

    /// When requests still in flight are abandoned.
    pub(crate) fn deadline(&self) -> Option<Stamp> {
        let end = self.sending_end()?;
        self.plan.grace.map(|grace| end.plus(grace))
    }

    /// What the dial says of `control`, where that is what is looked for.
    fn dialled(&self, control: Control) -> Option<u32> {
        let scale = self.plan.adaptive.as_ref().filter(|scale| scale.control == control)?;
        Some(whole(self.looking.as_ref().map_or(scale.min, |looking| looking.value)))
    }

    /// Follows the dial: slots come and go, arrivals get other times. A slot that carries a request goes when
    /// that has ended.
    pub(crate) fn follow(&mut self, turned: Turned, share: Share) {
        let Some(control) = self.plan.adaptive.as_ref().map(|scale| scale.control) else { return };
        let Some(looking) = &mut self.looking else { return };
        let before = std::mem::replace(&mut looking.value, turned.value);
        looking.turns = turned.turns;
        let from_s = turned.from.since(self.start.at).as_secs_f64();
        match (&mut self.source, control) {
            (Source::Closed { free }, Control::Concurrency) => {
                let (had, has) = (share.slots(whole(before)), share.slots(whole(turned.value)));
                if has >= had {
                    let forgiven = looking.debt.min(has - had);
                    looking.debt -= forgiven;
                    *free += has - had - forgiven;
                } else {
                    let at_once = (*free).min(had - has);
                    *free -= at_once;
                    looking.debt += had - has - at_once;
                }
            }
            (Source::Open { arrivals, next }, Control::RequestRate) => {
                if let Arrivals::Paced(paced) = arrivals.as_mut()
                    && let Some(arrival) = paced.turn(from_s, turned.value)
                    && !self.counted_out
                {
                    *next = Some(arrival);
                }
                self.trim_source();
            }
            (Source::Open { arrivals, next }, Control::Users) => {
                if let Arrivals::Users(users) = arrivals.as_mut()
                    && let Some(fresh) = users.turned(from_s, whole(turned.value), looking.taken)
                {
                    *users = fresh;
                    *next = arrivals.next();
                }
                self.trim_source();
            }
            // The limits are read when they are asked for.
            (
                Source::Closed { .. } | Source::Open { .. },
                Control::Concurrency | Control::PrefillConcurrency | Control::RequestRate | Control::Users,
            ) => {}
        }
    }

    /// Most sessions at once, now.
    pub(crate) fn limit(&self) -> Option<u32> {
        if let Some(limit) = self.dialled(Control::Concurrency) {
            return Some(limit);
        }
        self.ramp.as_ref().map(|ramp| ramp.value()).or(self.plan.in_flight_max)
    }

    /// Most requests without content at once, now.
    pub(crate) fn prefill_limit(&self) -> Option<u32> {
        if let Some(limit) = self.dialled(Control::PrefillConcurrency) {
            return Some(limit);
        }
        self.prefill_ramp.as_ref().map(|ramp| ramp.value()).or(self.plan.prefill_max)
    }

    /// The next planned arrival of an open loop.
    pub(crate) fn next_arrival(&self) -> Option<Arrival> {
        match &self.source {
            Source::Closed { .. } => None,
            Source::Open { next, .. } => *next,
        }
    }

    /// Whether the next turn of a session takes an arrival, as a new session does.
    pub(crate) fn turns_take_arrivals(&self) -> bool {
        match self.source {
            Source::Closed { .. } => false,
            Source::Open { .. } => self.pace == Pace::Delay,
        }
    }

    /// When something is planned next, as far as this shard can tell.
    pub(crate) fn next_due(&self) -> Option<Stamp> {
        let arrival = self.next_arrival().map(|arrival| self.start.at.plus(arrival.offset));
        let turn = if self.turns_take_arrivals() { None } else { self.sessions.next_due() };
        let slot = match &self.source {
            Source::Closed { .. } => self.ramp.as_ref().and_then(|ramp| ramp.next()),
            Source::Open { .. } => None,
        };
        [arrival, turn, slot.map(|slot| self.start.at.plus(slot))].into_iter().flatten().min()
    }

    /// When the next turn of a session, in `row`, is due, if the one before it ended at `now`.
    pub(crate) fn due_of_turn(&self, script: &Script, row: u32, planned: Stamp, now: Stamp) -> Stamp {
        let turn = script.turn(row);
        let after_delay = now.plus(turn.delay.unwrap_or(Nanos::ZERO));
        match self.pace {
            Pace::Delay => after_delay,
            Pace::Gap(gap) => planned.plus(gap).max(now),
            Pace::Trace(zero) => match turn.at {
                Some(at) => self.start.at.plus(Nanos(at.0.saturating_sub(zero.0))).max(now),
                None => after_delay,
            },
        }
    }

    /// From when on a request planned for `planned` could have been sent, now that it has its slots.
    pub(crate) fn held_base(&mut self, planned: Stamp, now: Stamp) -> Stamp {
        if std::mem::take(&mut self.held) {
            self.held_until = now;
        }
        planned.max(self.held_until)
    }

    /// Whether what is due must wait all the same, so that its time is no reason to hurry.
    pub(crate) fn waits(&self) -> bool {
        self.held || self.probes
    }

    /// A request must wait for a slot.
    pub(crate) fn hold(&mut self) {
        self.blocked = true;
        self.held = true;
    }

    /// Takes the next planned arrival and draws the one after it.
    pub(crate) fn advance(&mut self) {
        if let Source::Open { arrivals, next } = &mut self.source {
            *next = arrivals.next();
        }
        if let Some(looking) = &mut self.looking {
            looking.taken += 1;
        }
        self.trim_source();
    }

    /// Ends the source where the plan ends: arrivals after the duration, or beyond the count, are not
    /// planned.
    fn trim_source(&mut self) {
        let stop = self.plan.stop;
        let Source::Open { next, .. } = &mut self.source else { return };
        let Some(arrival) = *next else {
            self.counted_out = true;
            return;
        };
        let beyond_count =
            !self.plan.numbered_by_ticket && stop.requests.is_some_and(|requests| arrival.index >= requests);
        // An arrival due at the very end belongs to the phase: 30 per second for 30 seconds are 900.
        let beyond_time = stop.duration.is_some_and(|duration| arrival.offset > duration);
        self.counted_out |= beyond_count;
        if beyond_count || beyond_time {
            *next = None;
        }
    }
}
