//! Watching the shards through the phases of one run.
//!
//! The conductor starts nothing and decides nothing: it tells the companions what happens, gathers what the
//! shards hand over and merges it.

use crate::adaptive::WindowTally;
use crate::artifact::FinishedPhase;
use crate::artifact::ShardReport;
use crate::plan::GivenUp;
use crate::plan::Plan;
use crate::run::companion::Companion;
use crate::run::companion::Stage;
use crate::run::counting::Counter;
use crate::run::merge::finish_phase;
use crate::run::progress::Display;
use crate::shard::barrier::Barrier;
use crate::shard::driver::ClosedPhase;
use crate::shard::driver::Message;
use crate::shard::driver::Stopped;
use crate::time::Nanos;
use crate::time::Stamp;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;

/// How often the conductor looks around, at the least.
const TICK: Nanos = Nanos::from_millis(100);

/// How often it looks between two phases, so that companions hear of a start soon after it.
const TICK_BETWEEN: Nanos = Nanos::from_millis(5);

/// What the shards handed over.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The phases that started, in order.
    pub(super) phases: Vec<FinishedPhase>,
    /// What each shard cost.
    pub(super) shards: Vec<ShardReport>,
    /// Records that were lost on the way to the writer.
    pub(super) records_lost: u64,
    /// Ended before all phases were done.
    pub(super) interrupted: bool,
    /// The phase that gave the run up, and why.
    pub(super) given_up: Option<(String, String)>,
    /// What went wrong.
    pub(super) faults: Vec<String>,
}

/// One run as the conductor sees it.
pub(super) struct Conductor<'r, 'c> {
    pub(super) stage: Stage<'r>,
    pub(super) barrier: &'r Barrier,
    pub(super) messages: mpsc::Receiver<Message>,
    /// Core of each shard that takes part.
    pub(super) cpus: &'r [usize],
    pub(super) interrupt: &'r AtomicBool,
    /// Whoever counts tokens.
    pub(super) counter: Option<&'r Counter>,
    pub(super) display: &'r mut Display,
    /// All others that go along.
    pub(super) companions: &'r mut [&'c mut dyn Companion],
}

impl Conductor<'_, '_> {
    /// Watches the shards to their end and merges what they hand over.
    pub(super) fn conduct(mut self) -> Gathered {
        let plan = self.stage.plan;
        let shards = self.cpus.len();
        let mut parts: Vec<Vec<ClosedPhase>> = plan.phases.iter().map(|_| Vec::new()).collect();
        let mut stopped: Vec<(usize, Stopped)> = plan.phases.iter().map(|_| Default::default()).collect();
        let mut gathered = Gathered::default();
        let mut closed = vec![false; plan.phases.len()];
        let (mut ended, mut next_phase, mut told) = (0, 0, false);
        while ended < shards {
            self.notice_starts(&mut next_phase, &closed);
            self.look();
            if self.interrupt.load(Relaxed) && !told {
                told = true;
                self.display.notice(
                    "Interrupted: ending the run and writing what was measured (once more: leave at once)",
                );
            }
            let between = next_phase == 0 || closed.get(usize::from(next_phase) - 1) == Some(&true);
            let patience = self.until_next_look().min(if between { TICK_BETWEEN } else { TICK });
            match self.messages.recv_timeout(patience.into()) {
                Ok(Message::Phase(part)) => {
                    self.notice_starts(&mut next_phase, &closed);
                    let Some(of_phase) = parts.get_mut(usize::from(part.phase)) else { continue };
                    let index = part.phase;
                    of_phase.push(*part);
                    if of_phase.len() == shards {
                        self.notice_drained(index);
                        complete(self.counter, index, of_phase);
                    }
                    if of_phase.len() == shards
                        && let Some(finished) = finish_phase(plan, index, std::mem::take(of_phase))
                    {
                        self.notice_end(&finished);
                        gathered.phases.push(finished);
                        if let Some(closed) = closed.get_mut(usize::from(index)) {
                            *closed = true;
                        }
                    }
                }
                Ok(Message::Window { phase, tally }) => self.notice_window(phase, *tally),
                Ok(Message::Stopped { phase, stopped: part }) => {
                    self.notice_starts(&mut next_phase, &closed);
                    let Some((count, all)) = stopped.get_mut(usize::from(phase)) else { continue };
                    *count += 1;
                    all.sent += part.sent;
                    all.in_flight += part.in_flight;
                    all.sessions += part.sessions;
                    if *count == shards {
                        let all = *all;
                        self.notice_stop(phase, all);
                    }
                }
                Ok(Message::Ended { shard, cost, records_lost, fault }) => {
                    ended += 1;
                    gathered.records_lost += records_lost;
                    let cpu = self.cpus.get(usize::from(shard)).copied().unwrap_or(0);
                    gathered.shards.push(ShardReport { shard, cpu, cost });
                    if let Some(fault) = fault {
                        gathered.faults.push(format!("shard {shard} stopped: {fault}"));
                        self.stage.shared.stop_early();
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.notice_starts(&mut next_phase, &vec![true; plan.phases.len()]);
        // Phases that some shards never handed over: what there is of them is still shown.
        for (index, mut of_phase) in (0_u16..).zip(parts) {
            complete(self.counter, index, &mut of_phase);
            if let Some(finished) = finish_phase(plan, index, of_phase) {
                self.notice_end(&finished);
                gathered.phases.push(finished);
            }
        }
        gathered.phases.sort_by_key(|phase| phase.index);
        gathered.shards.sort_by_key(|shard| shard.shard);
        gathered.interrupted = self.interrupt.load(Relaxed) || self.stage.shared.is_over();
        gathered.given_up = self.stage.shared.given_up().and_then(|given_up| given_up_texts(plan, given_up));
        gathered.faults.extend(gathered.given_up.iter().map(|(_, why)| why.clone()));
        gathered
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Companion> {
        let display: &mut dyn Companion = self.display;
        std::iter::once(display).chain(self.companions.iter_mut().map(|companion| &mut **companion as _))
    }

    /// Tells of phases that have started. One that waits for the end of the phase before it is told of after that
    /// end, though the shards may be a moment ahead; `closed` says which phases have ended.
    fn notice_starts(&mut self, next: &mut u16, closed: &[bool]) {
        let stage = self.stage;
        while let Some((start, phase)) = self.barrier.start_of(*next).zip(stage.plan.phase(*next)) {
            let before = usize::from(*next).checked_sub(1).and_then(|before| closed.get(before));
            if !phase.seamless && before == Some(&false) {
                return;
            }
            *next += 1;
            self.all().for_each(|companion| companion.phase_started(&stage, phase, start.at));
        }
    }

    fn notice_stop(&mut self, phase: u16, stopped: Stopped) {
        let stage = self.stage;
        if let Some(phase) = stage.plan.phase(phase) {
            self.all().for_each(|companion| companion.sending_ended(&stage, phase, stopped));
        }
    }

    fn notice_drained(&mut self, phase: u16) {
        let stage = self.stage;
        if let Some(phase) = stage.plan.phase(phase) {
            self.all().for_each(|companion| companion.phase_drained(&stage, phase));
        }
    }

    fn notice_end(&mut self, finished: &FinishedPhase) {
        let stage = self.stage;
        if let Some(phase) = stage.plan.phase(finished.index) {
            self.all().for_each(|companion| companion.phase_ended(&stage, phase, finished));
        }
    }

    fn notice_window(&mut self, phase: u16, tally: WindowTally) {
        let stage = self.stage;
        let wanting = self.companions.iter_mut().find(|companion| companion.wants_windows(phase));
        if let Some(companion) = wanting {
            companion.window(&stage, phase, tally);
        }
    }

    fn look(&mut self) {
        let stage = self.stage;
        let now = stage.clock.now();
        self.all().for_each(|companion| companion.look(&stage, now));
    }

    fn until_next_look(&mut self) -> Nanos {
        let wanted = self.all().map(|companion| companion.wants_to_look()).min().unwrap_or(Stamp::NEVER);
        TICK.min(wanted.since(self.stage.clock.now()))
    }
}

/// Adds to the shards' parts of a phase what was counted of it elsewhere.
fn complete(counter: Option<&Counter>, phase: u16, parts: &mut [ClosedPhase]) {
    let expected = parts.iter().map(|part| part.tally.handed_over()).sum();
    if let (Some(counter), Some(part)) = (counter, parts.first_mut())
        && let Some(tally) = counter.complete(phase, expected)
    {
        part.tally.merge(tally);
    }
}

/// The phase in which the run was given up, and why.
fn given_up_texts(plan: &Plan, given_up: GivenUp) -> Option<(String, String)> {
    let phase = plan.phase(given_up.phase)?;
    let why = format!(
        "the run was given up in phase `{}`: {} of {} requests failed, more than its \
         `failed_request_threshold` of {} allows",
        phase.name,
        given_up.failed,
        given_up.ended,
        phase.failed_request_threshold.unwrap_or_default()
    );
    Some((phase.name.clone(), why))
}
