//! The conductor's part in adaptive phases: cuts windows off, lets the controller look at them, turns the dial,
//! writes down what happens.
//!
//! The shards are never stopped for it: each hands its part of a window over when it next looks at the dial.

use crate::adaptive::Controller;
use crate::adaptive::Event;
use crate::adaptive::Window;
use crate::adaptive::WindowTally;
use crate::artifact::FinishedPhase;
use crate::artifact::WriteFailure;
use crate::artifact::adaptive::AdaptiveFiles;
use crate::artifact::adaptive::AdaptivePhase;
use crate::artifact::adaptive::write_manifest;
use crate::plan::PhasePlan;
use crate::run::companion::Companion;
use crate::run::companion::Stage;
use crate::time::Nanos;
use crate::time::Stamp;
use std::sync::Arc;

/// From a decision to the stamp at which all shards change over: longer than a shard may look away.
const LEAD: Nanos = Nanos::from_millis(5);

/// The searches of one run.
#[derive(Debug, Default)]
pub(super) struct Searches {
    running: Vec<Search>,
    known: Vec<AdaptivePhase>,
    faults: Vec<String>,
}

#[derive(Debug)]
struct Search {
    phase: u16,
    controller: Controller,
    files: Option<AdaptiveFiles>,
    /// When the window under way began.
    begun: Stamp,
    /// When it was cut off, while shards have not handed all of it over.
    cut: Option<Stamp>,
    gathered: Option<WindowTally>,
    /// Shards that have handed their part over.
    parts: usize,
}

impl Searches {
    /// What could not be written.
    pub(super) fn into_faults(self) -> Vec<String> {
        self.faults
    }

    fn note(faults: &mut Vec<String>, written: Result<(), WriteFailure>) {
        faults.extend(written.err().map(|failure| failure.to_string()));
    }
}

impl Search {
    fn tell(&mut self, events: &[Event]) {
        if let Some(files) = &mut self.files {
            for event in events {
                files.tell(event, self.controller.scale());
            }
        }
    }

    fn due(&self) -> Stamp {
        if self.cut.is_some() || self.controller.ending().is_some() {
            return Stamp::NEVER;
        }
        self.begun.plus(self.controller.scale().period)
    }

    /// All shards have handed their parts of the window over.
    fn decide(&mut self, stage: &Stage<'_>, tally: WindowTally, cut: Stamp) {
        let window = Window::new(self.begun, cut, tally);
        let decision = self.controller.handle_window(&window);
        let dial = stage.shared.dial(self.phase);
        if let Some(stamp) = decision.ignore_before {
            dial.ignore_before(stamp);
        }
        dial.turn(decision.value, stage.clock.now().plus(LEAD));
        if decision.ends.is_some() {
            dial.stop();
        }
        self.begun = cut;
        self.tell(&decision.events);
    }
}

impl Companion for Searches {
    fn phase_started(&mut self, stage: &Stage<'_>, phase: &PhasePlan, at: Stamp) {
        let Some(scale) = &phase.adaptive else { return };
        let about = AdaptivePhase {
            index: phase.index,
            profiling_index: phase.profiling_index,
            name: phase.name.clone(),
            kind: phase.kind,
        };
        self.known.push(about.clone());
        Self::note(&mut self.faults, write_manifest(stage.directory, &self.known));
        let files = AdaptiveFiles::create(stage.directory, about, stage.clock);
        let files = files.map_err(|failure| self.faults.push(failure.to_string())).ok();
        let controller = Controller::new(Arc::clone(scale));
        let event = controller.start(at);
        let mut search =
            Search { phase: phase.index, controller, files, begun: at, cut: None, gathered: None, parts: 0 };
        search.tell(&[event]);
        self.running.push(search);
    }

    fn look(&mut self, stage: &Stage<'_>, now: Stamp) {
        for search in self.running.iter_mut().filter(|search| search.due() <= now) {
            search.cut = Some(now);
            stage.shared.dial(search.phase).cut_window();
        }
    }

    fn wants_to_look(&self) -> Stamp {
        self.running.iter().map(Search::due).min().unwrap_or(Stamp::NEVER)
    }

    fn wants_windows(&self, phase: u16) -> bool {
        self.running.iter().any(|search| search.phase == phase)
    }

    fn window(&mut self, stage: &Stage<'_>, phase: u16, tally: WindowTally) {
        let Some(search) = self.running.iter_mut().find(|search| search.phase == phase) else { return };
        search.parts += 1;
        match &mut search.gathered {
            None => search.gathered = Some(tally),
            Some(gathered) => gathered.merge(tally),
        }
        if search.parts < stage.gauges.len() {
            return;
        }
        search.parts = 0;
        if let Some((tally, cut)) = search.gathered.take().zip(search.cut.take()) {
            search.decide(stage, tally, cut);
        }
    }

    fn phase_ended(&mut self, stage: &Stage<'_>, phase: &PhasePlan, finished: &FinishedPhase) {
        let _ = stage;
        let position = self.running.iter().position(|search| search.phase == phase.index);
        let Some(mut search) = position.map(|position| self.running.swap_remove(position)) else { return };
        if let Some(event) = search.controller.cancel(finished.sending_ended) {
            search.tell(&[event]);
        }
        if let Some(files) = search.files {
            Self::note(&mut self.faults, files.finish(&search.controller));
        }
    }
}
