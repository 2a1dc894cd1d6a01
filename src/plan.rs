//! What will be run: a config turned into phases that any number of shards can share.
//!
//! A [`Plan`] is read-only and shared by all shards; the few counters that they share while running are in
//! [`Shared`]. It decides nothing at run time.

mod dial;
mod shared;

use crate::adaptive::RuleError;
use crate::adaptive::Scale;
use crate::adaptive::whole;
use crate::config::Cancellation;
use crate::config::Config;
use crate::config::Control;
use crate::config::Load;
use crate::config::Phase;
use crate::config::PhaseKind;
use crate::config::Ramp;
use crate::config::RatePoint;
use crate::config::Reuse;
use crate::config::Sampling;
use crate::config::StopRules;
use crate::config::Url;
use crate::dataset::Dataset;
use crate::rng::child_seed;
use crate::schedule::Arrivals;
use crate::schedule::Cursor;
use crate::schedule::Entry;
use crate::schedule::Gaps;
use crate::schedule::Intensity;
use crate::schedule::PacedArrivals;
use crate::schedule::Rates;
use crate::schedule::ScheduledArrivals;
use crate::schedule::Script;
use crate::schedule::Share;
use crate::schedule::Turn;
use crate::schedule::UserArrivals;
use crate::schedule::users::population_size;
use crate::time::Nanos;
use std::sync::Arc;

pub use dial::{Dial, Turned};
pub use shared::{GivenUp, Shared};

/// Most phases of one run.
pub const PHASES_MAX: usize = 4_096;

/// A run, ready to be driven.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The phases in order.
    pub phases: Vec<PhasePlan>,
    /// Root of all seeded streams.
    pub seed: u64,
    /// The URLs that sessions go round, at least one.
    pub urls: Vec<Url>,
    /// The conversations of the dataset.
    pub script: Arc<Script>,
    /// In which order sessions take conversations.
    pub sampling: Sampling,
    /// A request older than this has failed.
    pub timeout: Option<Nanos>,
    /// How long an unused connection is kept.
    pub idle_lifetime: Nanos,
    /// What becomes of connections between requests.
    pub reuse: Reuse,
    /// What becomes of an arrival that finds no free slot.
    pub at_capacity: AtCapacity,
    /// An arrival later than this is given up, as AIPerf does; absent: nothing is.
    pub catch_up: Option<Nanos>,
    /// Most connections of one shard, for which requests then wait; absent: as many as are needed. Only where
    /// they are pooled.
    pub connections_max: Option<u32>,
}

/// What becomes of an arrival that finds no free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCapacity {
    /// It is dropped and counted.
    #[default]
    Drop,
    /// It waits, in order; the wait is part of its response latency.
    Queue,
}

/// What a plan takes from the environment rather than from the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How long an unused connection is kept.
    pub idle_lifetime: Nanos,
    /// The first step of a rate ramp: where AIPerf's ramps begin.
    pub ramp_step: Nanos,
    /// An arrival later than this is given up; absent: nothing is.
    pub catch_up: Option<Nanos>,
    /// What becomes of an arrival that finds no free slot.
    pub at_capacity: AtCapacity,
    /// Most connections of one shard, for which requests then wait; absent: as many as are needed.
    pub connections_max: Option<u32>,
    /// No connection carries a second request, whatever the config says.
    pub never_reuse: bool,
}

impl Default for Tuning {
    /// AIPerf's defaults, but that no arrival is given up.
    fn default() -> Self {
        Self {
            idle_lifetime: Nanos::from_millis(300_000),
            ramp_step: Nanos::from_millis(100),
            catch_up: None,
            at_capacity: AtCapacity::Drop,
            connections_max: None,
            never_reuse: false,
        }
    }
}

/// Why a config cannot be planned for a dataset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A limit of an adaptive phase that no window can be held against.
    #[error("`phases.{phase}.sla`: {source}")]
    Limit {
        /// The phase.
        phase: String,
        /// Why.
        #[source]
        source: RuleError,
    },
    /// A schedule without times.
    #[error(
        "`phases.{phase}`: conversation {conversation} of the dataset has no `timestamp`, which a phase of type \
         `fixed_schedule` sends it by: add one to its first turn, or choose another type"
    )]
    NoTimestamp {
        /// The phase.
        phase: String,
        /// Position of the conversation, from 1.
        conversation: u32,
    },
    /// A schedule without entries.
    #[error(
        "`phases.{phase}`: no entry of the dataset lies between `start_offset` and `end_offset`: widen them"
    )]
    NothingScheduled {
        /// The phase.
        phase: String,
    },
}

/// One phase, ready to be driven.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question that the engine asks of a phase")]
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
    /// Its sessions are counted over all shards, because a cap or a seamless neighbour needs it.
    pub counted: bool,
    /// Most sessions over all shards and live phases while this phase sends; only if `counted`.
    pub in_flight_max: Option<u32>,
    /// How that rises from 1.
    pub concurrency_ramp: Option<Ramp>,
    /// Its requests without content yet are counted over all shards.
    pub prefill_counted: bool,
    /// Most requests without content yet over all shards and live phases; only if `prefill_counted`.
    pub prefill_max: Option<u32>,
    /// How that rises from 1.
    pub prefill_ramp: Option<Ramp>,
    /// How the rate rises to its target.
    pub rate_ramp: Option<Ramp>,
    /// Where a rate ramp begins: see [`Tuning::ramp_step`].
    pub ramp_step: Nanos,
    /// Rates over time; empty without.
    pub rate_series: Arc<[RatePoint]>,
    /// Entries of a fixed schedule by time; empty for other types.
    pub schedule: Arc<[Entry]>,
    /// The load is looked for while the phase runs; absent: it is as configured.
    pub adaptive: Option<Arc<Scale>>,
    /// Share of failed requests above which the run is given up.
    pub failed_request_threshold: Option<f64>,
    /// Request numbers come from the shared ticket rather than from the arrival's position, because not
    /// every arrival is a request.
    pub numbered_by_ticket: bool,
    /// Conversations that the phase takes from the order of the dataset at least; absent: it takes none.
    pub conversations_min: Option<u64>,
    /// Seed of this phase's streams.
    pub stream_seed: u64,
}

impl Plan {
    /// Plans a config for a dataset of `rows` conversations of one turn. `fallback_seed` seeds the streams
    /// of a config without a seed. The rows have no times of their own: a fixed schedule sends all of them at
    /// its start.
    pub fn new(config: &Config, rows: usize, fallback_seed: u64) -> Self {
        let scheduled = config.phases.iter().any(|phase| matches!(phase.load, Load::FixedSchedule { .. }));
        let at_once: &[Turn] = &[Turn { at: Some(Nanos::ZERO), delay: None }];
        let script = if scheduled { Script::new(vec![at_once; rows.max(1)]) } else { Script::single(rows) };
        match Self::drawn_up(config, &Arc::new(script), fallback_seed, &Tuning::default()) {
            Ok(plan) => plan,
            // Every row has a time, and nothing else can be wrong.
            Err(error) => panic!("{error}"),
        }
    }

    /// Plans a config for the conversations of `script`.
    pub fn for_script(
        config: &Config,
        script: &Arc<Script>,
        fallback_seed: u64,
        tuning: &Tuning,
    ) -> Result<Self, PlanError> {
        let plan = Self::drawn_up(config, script, fallback_seed, tuning)?;
        let empty = plan
            .phases
            .iter()
            .find(|phase| matches!(phase.load, Load::FixedSchedule { .. }) && phase.schedule.is_empty());
        match empty {
            None => Ok(plan),
            Some(phase) => Err(PlanError::NothingScheduled { phase: phase.name.clone() }),
        }
    }

    fn drawn_up(
        config: &Config,
        script: &Arc<Script>,
        fallback_seed: u64,
        tuning: &Tuning,
    ) -> Result<Self, PlanError> {
        let seed = config.random_seed.unwrap_or(fallback_seed);
        let mut profiling = 0;
        let mut phases = Vec::with_capacity(config.phases.len());
        for (position, phase) in config.phases.iter().enumerate() {
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
            let before = position.checked_sub(1).and_then(|before| config.phases.get(before));
            let after = config.phases.get(position + 1);
            let mut neighbours = before.filter(|_| phase.seamless).into_iter();
            let mut followers = after.filter(|next| next.seamless).into_iter();
            let overlaps = neighbours.len() + followers.len() > 0;
            let prefill_beside = neighbours
                .by_ref()
                .chain(followers.by_ref())
                .any(|phase| phase.prefill_concurrency.is_some());
            let mut plan = PhasePlan::new(phase, script, tuning)?;
            plan.index = index;
            plan.profiling_index = profiling_index;
            plan.stream_seed = stream_seed;
            plan.counted |= overlaps;
            plan.prefill_counted |= prefill_beside;
            phases.push(plan);
        }
        let reuse = if tuning.never_reuse { Reuse::Never } else { config.endpoint.reuse };
        Ok(Self {
            phases,
            seed,
            urls: config.endpoint.urls.clone(),
            script: Arc::clone(script),
            sampling: config.dataset.sampling,
            timeout: config.endpoint.timeout,
            idle_lifetime: tuning.idle_lifetime,
            reuse,
            at_capacity: tuning.at_capacity,
            catch_up: tuning.catch_up,
            // As in AIPerf it is the limit of the pool: other connections belong to one request or session.
            connections_max: tuning.connections_max.filter(|_| reuse == Reuse::Pooled),
        })
    }

    /// The phase at `index`.
    pub fn phase(&self, index: u16) -> Option<&PhasePlan> {
        self.phases.get(usize::from(index))
    }

    /// The order in which sessions take conversations.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.sampling, self.script.conversations(), self.seed)
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

impl PhasePlan {
    /// The phase by itself; its position and neighbours are the caller's.
    fn new(phase: &Phase, script: &Script, tuning: &Tuning) -> Result<Self, PlanError> {
        let adaptive = Scale::of(phase)
            .map_err(|source| PlanError::Limit { phase: phase.name.clone(), source })?
            .map(Arc::new);
        // Of a load that is looked for the greatest value counts.
        let found = |control| adaptive.as_ref().and_then(|scale| scale.slots_max(control));
        let cap = found(Control::Concurrency).or_else(|| phase.load.concurrency());
        let prefill_cap = found(Control::PrefillConcurrency).or(phase.prefill_concurrency);
        let closed = matches!(phase.load, Load::Concurrency { .. });
        let mut stop = phase.stop;
        let schedule = match phase.load {
            Load::FixedSchedule { auto_offset, start_offset_ms, end_offset_ms, .. } => {
                // The trace says how much is sent; as in AIPerf, counts do not.
                stop.requests = None;
                stop.sessions = None;
                entries(&phase.name, script, auto_offset, start_offset_ms, end_offset_ms)?
            }
            Load::Concurrency { .. }
            | Load::Constant { .. }
            | Load::Gamma { .. }
            | Load::Poisson { .. }
            | Load::UserCentric { .. } => Arc::default(),
        };
        if !script.has_sessions()
            && let Some(sessions) = stop.sessions.take()
        {
            // A session of one turn is a request.
            stop.requests = Some(stop.requests.map_or(sessions, |requests| requests.min(sessions)));
        }
        let limited = cap.is_some() || prefill_cap.is_some();
        Ok(Self {
            index: 0,
            profiling_index: None,
            name: phase.name.clone(),
            kind: phase.kind,
            load: phase.load,
            stop,
            grace: phase.grace,
            cancellation: match phase.kind {
                PhaseKind::Profiling => phase.cancellation,
                PhaseKind::Warmup => None,
            },
            seamless: phase.seamless,
            counted: !closed && cap.is_some(),
            in_flight_max: cap,
            concurrency_ramp: phase.concurrency_ramp,
            prefill_counted: prefill_cap.is_some(),
            prefill_max: prefill_cap,
            prefill_ramp: phase.prefill_ramp,
            rate_ramp: phase.rate_ramp,
            ramp_step: tuning.ramp_step,
            rate_series: phase.rate_series.as_slice().into(),
            schedule,
            adaptive: adaptive.clone(),
            failed_request_threshold: match phase.kind {
                PhaseKind::Profiling => phase.failed_request_threshold,
                PhaseKind::Warmup => None,
            },
            numbered_by_ticket: closed
                || limited
                || adaptive.is_some()
                || script.has_sessions()
                || tuning.catch_up.is_some(),
            conversations_min: match phase.load {
                Load::FixedSchedule { .. } => None,
                Load::UserCentric { users, .. } => {
                    let first = found(Control::Users).and(adaptive.as_ref()).map(|scale| whole(scale.min));
                    Some(population_size(first.unwrap_or(users), script))
                }
                Load::Concurrency { .. }
                | Load::Constant { .. }
                | Load::Gamma { .. }
                | Load::Poisson { .. } => Some(0),
            },
            stream_seed: 0,
        })
    }

    /// A warmup that sends `requests` one after the other.
    pub fn closed(requests: u64) -> Self {
        Self {
            index: 0,
            profiling_index: None,
            name: String::new(),
            kind: PhaseKind::Warmup,
            load: Load::Concurrency { concurrency: 1 },
            stop: StopRules { requests: Some(requests), ..StopRules::default() },
            grace: None,
            cancellation: None,
            seamless: false,
            counted: false,
            in_flight_max: Some(1),
            concurrency_ramp: None,
            prefill_counted: false,
            prefill_max: None,
            prefill_ramp: None,
            rate_ramp: None,
            ramp_step: Nanos::ZERO,
            rate_series: Arc::default(),
            schedule: Arc::default(),
            adaptive: None,
            failed_request_threshold: None,
            numbered_by_ticket: true,
            conversations_min: Some(0),
            stream_seed: 0,
        }
    }

    /// The value from which `control` is raised; absent where it is not what is looked for.
    pub fn first_value(&self, control: Control) -> Option<f64> {
        self.adaptive.as_ref().filter(|scale| scale.control == control).map(|scale| scale.min)
    }

    /// Most requests of this phase in flight; absent without a cap.
    pub fn concurrency(&self) -> Option<u64> {
        self.in_flight_max.map(u64::from)
    }

    /// Whether every arrival of a rate that never changes is sent when it is due.
    pub fn keeps_its_rate(&self) -> bool {
        let changes = self.rate_ramp.is_some() || !self.rate_series.is_empty() || self.adaptive.is_some();
        !changes && !self.prefill_counted && !self.seamless && self.stop.sessions.is_none()
    }

    /// Whether each slot of a closed loop may carry a request from the start on.
    pub const fn keeps_its_slots(&self) -> bool {
        self.concurrency_ramp.is_none() && !self.prefill_counted && self.adaptive.is_none()
    }

    /// The arrivals of `share`; `None` for a closed loop. The phase begins at position `first` of the order
    /// of conversations.
    pub fn arrivals(&self, plan: &Plan, first: u64, share: Share) -> Option<Arrivals> {
        let paced = |gaps, rate_per_s| {
            let rates = Rates {
                target_per_s: rate_per_s,
                ramp: self.rate_ramp,
                ramp_step: self.ramp_step,
                series: &self.rate_series,
                seed: self.stream_seed,
            };
            if let Some(min) = self.first_value(Control::RequestRate) {
                let intensity = Intensity::steady(min);
                return Some(Arrivals::Paced(PacedArrivals::changing(
                    self.stream_seed,
                    gaps,
                    intensity,
                    share,
                )));
            }
            Some(Arrivals::Paced(match Intensity::new(&rates) {
                None => PacedArrivals::steady(self.stream_seed, gaps, rate_per_s, share),
                Some(intensity) => PacedArrivals::changing(self.stream_seed, gaps, intensity, share),
            }))
        };
        match self.load {
            Load::Concurrency { .. } => None,
            Load::Constant { rate_per_s, .. } => paced(Gaps::Constant, rate_per_s),
            Load::FixedSchedule { .. } => {
                Some(Arrivals::Scheduled(ScheduledArrivals::new(Arc::clone(&self.schedule), share)))
            }
            Load::Gamma { rate_per_s, smoothness, .. } => paced(Gaps::Gamma(smoothness), rate_per_s),
            Load::Poisson { rate_per_s, .. } => paced(Gaps::Exponential, rate_per_s),
            Load::UserCentric { rate_per_s, users, .. } => {
                let script = Arc::clone(&plan.script);
                let cursor = plan.cursor();
                let arrivals = match self.first_value(Control::Users) {
                    None => UserArrivals::new(users, rate_per_s, script, cursor, first, share),
                    Some(min) => {
                        UserArrivals::changing(whole(min), users, rate_per_s, script, cursor, first, share)
                    }
                };
                Some(Arrivals::Users(arrivals))
            }
        }
    }
}

/// What the schedule must know of `dataset`.
pub fn script_of(dataset: &Dataset) -> Script {
    let nanos = |milliseconds: f64| Nanos::from_secs_f64(milliseconds.max(0.0) / 1_000.0);
    let turns: Vec<Turn> = dataset
        .details()
        .iter()
        .map(|turn| Turn { at: turn.timestamp_ms.map(nanos), delay: turn.delay_ms.map(nanos) })
        .collect();
    let sessions = dataset.sessions().iter();
    Script::new(sessions.map(|session| turns.get(session.rows.clone()).unwrap_or_default()))
}

/// The conversations of a trace with the times at which each begins, in order.
fn entries(
    phase: &str,
    script: &Script,
    auto_offset: bool,
    start_offset_ms: Option<u64>,
    end_offset_ms: Option<u64>,
) -> Result<Arc<[Entry]>, PlanError> {
    let start = start_offset_ms.map(Nanos::from_millis);
    let end = end_offset_ms.map(Nanos::from_millis);
    let mut entries = Vec::new();
    for conversation in 0..script.conversations() {
        let first = script.turn(script.rows(conversation).start);
        let Some(at) = first.at else {
            return Err(PlanError::NoTimestamp { phase: phase.to_owned(), conversation: conversation + 1 });
        };
        if start.is_none_or(|start| at >= start) && end.is_none_or(|end| at <= end) {
            entries.push(Entry { offset: at, conversation });
        }
    }
    // Stable: entries of one time keep the order of the dataset.
    entries.sort_by_key(|entry| entry.offset);
    let earliest = entries.first().map_or(Nanos::ZERO, |entry| entry.offset);
    let zero = if auto_offset { earliest } else { start.unwrap_or(Nanos::ZERO) };
    for entry in &mut entries {
        entry.offset = Nanos(entry.offset.0.saturating_sub(zero.0));
    }
    Ok(entries.into())
}

impl PhasePlan {
    /// The time in the trace at which the phase starts.
    pub fn trace_zero(&self, script: &Script) -> Nanos {
        let first = self.schedule.first();
        let at = first.and_then(|entry| script.turn(script.rows(entry.conversation).start).at);
        first.zip(at).map_or(Nanos::ZERO, |(entry, at)| Nanos(at.0.saturating_sub(entry.offset.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dataset as DatasetConfig;
    use crate::config::Endpoint;

    fn plan(phase: Phase, script: Script) -> Result<Plan, PlanError> {
        let dataset = DatasetConfig::synthetic(1, 1, None);
        let config = Config::new("m", Endpoint::new(Vec::new()), dataset, vec![phase]);
        Plan::for_script(&config, &Arc::new(script), 1, &Tuning::default())
    }

    fn schedule(start_offset_ms: Option<u64>) -> Phase {
        let load = Load::FixedSchedule {
            auto_offset: start_offset_ms.is_none(),
            start_offset_ms,
            end_offset_ms: None,
            concurrency: None,
        };
        Phase::new("trace", PhaseKind::Profiling, load)
    }

    #[test]
    fn a_schedule_without_times_names_the_conversation_that_lacks_one() {
        let timed: &[Turn] = &[Turn { at: Some(Nanos(5)), delay: None }];
        let untimed: &[Turn] = &[Turn::default()];
        let refused = plan(schedule(None), Script::new([timed, untimed]));
        let expected = PlanError::NoTimestamp { phase: "trace".to_owned(), conversation: 2 };
        assert_eq!(refused.err(), Some(expected));
    }

    #[test]
    fn a_schedule_that_its_offsets_leave_empty_is_refused() {
        let timed: &[Turn] = &[Turn { at: Some(Nanos::from_millis(5)), delay: None }];
        let refused = plan(schedule(Some(6)), Script::new([timed]));
        assert_eq!(refused.err(), Some(PlanError::NothingScheduled { phase: "trace".to_owned() }));
        assert!(plan(schedule(Some(5)), Script::new([timed])).is_ok());
    }

    #[test]
    fn times_that_are_out_of_order_are_sorted_and_equal_ones_keep_their_order() {
        let turns =
            [30, 10, 20, 10].map(|millis| [Turn { at: Some(Nanos::from_millis(millis)), delay: None }]);
        let planned = plan(schedule(None), Script::new(turns.iter().map(<[Turn; 1]>::as_slice)));
        let schedule = planned.map(|plan| plan.phases[0].schedule.to_vec());
        let entry = |millis, conversation| Entry { offset: Nanos::from_millis(millis), conversation };
        assert_eq!(schedule, Ok(vec![entry(0, 1), entry(0, 3), entry(10, 2), entry(20, 0)]));
    }

    #[test]
    fn a_session_of_one_turn_is_a_request() {
        let mut phase = Phase::new("load", PhaseKind::Profiling, Load::Concurrency { concurrency: 1 });
        phase.stop = StopRules { requests: Some(9), sessions: Some(7), duration: None };
        let stop = |script| plan(phase.clone(), script).map(|plan| plan.phases[0].stop);
        assert_eq!(stop(Script::single(3)).map(|stop| (stop.requests, stop.sessions)), Ok((Some(7), None)));
        let turns: &[Turn] = &[Turn::default(); 2];
        assert_eq!(
            stop(Script::new([turns])).map(|stop| (stop.requests, stop.sessions)),
            Ok((Some(9), Some(7)))
        );
    }
}
