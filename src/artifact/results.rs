//! What each file is about: the scopes of a run and their numbers, computed once for every format.

use crate::artifact::{FinishedPhase, FinishedRun, telemetry};
use crate::config::PhaseKind;
use crate::measure::PhaseTally;
use crate::measure::summary::{DurationRule, Summary, Terms};
use crate::measure::tally::ErrorGroup;
use crate::measure::weighted::Window;
use crate::time::{Clock, Nanos, Stamp};

/// The numbers of a scope: one phase, or all phases of one kind together.
#[derive(Debug)]
pub struct Scope {
    /// Every metric that has a value.
    pub summary: Summary,
    /// The errors, in order of first occurrence.
    pub errors: Vec<ErrorGroup>,
    /// Earliest start and latest end of the phases.
    pub span: Option<(Stamp, Stamp)>,
    /// Cut short.
    pub interrupted: bool,
}

/// The numbers of a run.
#[derive(Debug)]
pub struct Results {
    /// The profiling phases together.
    pub root: Scope,
    /// The warmups together; absent when none left a record.
    pub warmup: Option<Scope>,
    /// Each phase, in order.
    pub phases: Vec<Scope>,
}

impl Results {
    /// Computes everything that is reported of a run.
    pub fn of(run: &FinishedRun<'_>) -> Self {
        let kind = |kind: PhaseKind| -> Vec<&FinishedPhase> {
            run.phases.iter().filter(|phase| phase.kind == kind).collect()
        };
        let streaming = run.config.endpoint.streams_tokens();
        let clock = run.clock;
        let mut root = Scope::of(&kind(PhaseKind::Profiling), clock, streaming);
        root.interrupted = run.interrupted;
        telemetry::add_energy(run, &mut root.summary);
        let warmup = Scope::of(&kind(PhaseKind::Warmup), clock, streaming);
        Self {
            root,
            warmup: (warmup.summary.counts().completed() > 0).then_some(warmup),
            phases: run.phases.iter().map(|phase| Scope::of(&[phase], clock, streaming)).collect(),
        }
    }
}

impl Scope {
    /// Pools phases: their windows add up, and two or more of them make the sum the benchmark's duration.
    fn of(phases: &[&FinishedPhase], clock: Clock, streaming: bool) -> Self {
        let tallies: Vec<&PhaseTally> = phases.iter().map(|phase| &phase.tally).collect();
        let window = Nanos(phases.iter().map(|phase| phase.ended.since(phase.started).0).sum());
        let rule = if phases.len() > 1 { DurationRule::Window } else { DurationRule::FirstToLast };
        let start = phases.iter().map(|phase| phase.started).min();
        let end = phases.iter().map(|phase| phase.ended).max();
        let span = start.zip(end).map(|(start, end)| Window { clock, start, end, streaming });
        Self {
            summary: Summary::of(&tallies, &Terms { window, rule, streaming, span }),
            errors: PhaseTally::pooled_errors(tallies.iter().copied()),
            span: start.zip(end),
            interrupted: phases.iter().any(|phase| phase.interrupted),
        }
    }
}
