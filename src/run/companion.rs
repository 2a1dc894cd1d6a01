//! What goes along with a run on the conductor's thread: displays, collectors, controllers.
//!
//! A companion is told of the edges of the run and of each phase, and looks around between them. It never
//! stands in the way of the shards, which find from phase to phase by themselves.

use crate::adaptive::WindowTally;
use crate::artifact::FinishedPhase;
use crate::plan::PhasePlan;
use crate::plan::Plan;
use crate::plan::Shared;
use crate::shard::barrier::Barrier;
use crate::shard::driver::Gauges;
use crate::shard::driver::Stopped;
use crate::time::Clock;
use crate::time::Stamp;
use std::path::Path;
use std::sync::Arc;

/// The run that a companion goes along with.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// What is run.
    pub plan: &'a Plan,
    /// The counters that the shards share.
    pub shared: &'a Shared,
    /// Live counts of each shard.
    pub gauges: &'a [Arc<Gauges>],
    /// Where the shards meet at the edges of phases.
    pub barrier: &'a Arc<Barrier>,
    /// Where the run's files go.
    pub directory: &'a Path,
    /// The process's clock.
    pub clock: Clock,
}

/// Something that goes along with a run. The order of the calls: [`before_first_phase`], for each phase
/// [`phase_started`], [`sending_ended`], [`phase_drained`] and [`phase_ended`] (of two phases that overlap both starts come
/// first), in between [`look`] several times a second, [`after_last_phase`]. Of an interrupted run the phases that no shard began
/// are left out.
///
/// [`before_first_phase`]: Companion::before_first_phase
/// [`phase_started`]: Companion::phase_started
/// [`sending_ended`]: Companion::sending_ended
/// [`phase_drained`]: Companion::phase_drained
/// [`phase_ended`]: Companion::phase_ended
/// [`look`]: Companion::look
/// [`after_last_phase`]: Companion::after_last_phase
pub trait Companion {
    /// No request has been sent; the shards do not run yet and wait for this to return.
    fn before_first_phase(&mut self, stage: &Stage<'_>) {
        let _ = stage;
    }

    /// All shards have agreed to start the phase at `at`, which may lie a little ahead.
    fn phase_started(&mut self, stage: &Stage<'_>, phase: &PhasePlan, at: Stamp) {
        let _ = (stage, phase, at);
    }

    /// Time has passed.
    fn look(&mut self, stage: &Stage<'_>, now: Stamp) {
        let _ = (stage, now);
    }

    /// When [`Companion::look`] is to be called at the latest; [`Stamp::NEVER`]: whenever it suits.
    fn wants_to_look(&self) -> Stamp {
        Stamp::NEVER
    }

    /// Whether it is this companion that has windows of the phase cut off.
    fn wants_windows(&self, phase: u16) -> bool {
        let _ = phase;
        false
    }

    /// A shard has handed over a window that this companion wanted.
    fn window(&mut self, stage: &Stage<'_>, phase: u16, tally: WindowTally) {
        let _ = (stage, phase, tally);
    }

    /// No shard sends anything more of the phase.
    fn sending_ended(&mut self, stage: &Stage<'_>, phase: &PhasePlan, stopped: Stopped) {
        let _ = (stage, phase, stopped);
    }

    /// Every request of the phase has ended on every shard; what was measured is not put together yet, and
    /// the next phase may begin at any moment.
    fn phase_drained(&mut self, stage: &Stage<'_>, phase: &PhasePlan) {
        let _ = (stage, phase);
    }

    /// The numbers of a phase that has drained are put together.
    fn phase_ended(&mut self, stage: &Stage<'_>, phase: &PhasePlan, finished: &FinishedPhase) {
        let _ = (stage, phase, finished);
    }

    /// The shards are done; the results are not written yet.
    fn after_last_phase(&mut self, stage: &Stage<'_>) {
        let _ = stage;
    }
}
