//! What each file is about: the scopes of a run and their numbers, computed once for every format.

use crate::artifact::{FinishedPhase, FinishedRun, telemetry};
use crate::config::{Config, Load, PhaseKind};
use crate::measure::PhaseTally;
use crate::measure::summary::{DurationRule, Summary, Terms, Timing};
use crate::measure::tally::ErrorGroup;
use crate::measure::weighted::Window;
use crate::time::{Clock, Nanos, Stamp};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The numbers of a scope: one phase, or all phases of one kind together.
#[derive(Clone, Debug)]
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
    /// Computes everything that is reported of a run, on as many threads as there are cores: the run has
    /// ended, and each scope is for itself.
    pub fn of(run: &FinishedRun<'_>) -> Self {
        let kind = |kind: PhaseKind| -> Vec<&FinishedPhase> {
            run.phases.iter().filter(|phase| phase.kind == kind).collect()
        };
        let (profiling, warmups) = (kind(PhaseKind::Profiling), kind(PhaseKind::Warmup));
        // Those of several phases first: they take longest.
        let mut groups: Vec<Vec<&FinishedPhase>> =
            [&profiling, &warmups].into_iter().filter(|group| group.len() != 1).cloned().collect();
        let pooled = groups.len();
        groups.extend(run.phases.iter().map(|phase| vec![phase]));
        let mut scopes = scopes(run.config, run.clock, &groups).into_iter();
        let mut several: Vec<Scope> = scopes.by_ref().take(pooled).collect();
        let phases: Vec<Scope> = scopes.collect();

        // The pool of one phase is that phase.
        let mut pool = |group: &[&FinishedPhase]| match *group {
            [only] => run
                .phases
                .iter()
                .position(|phase| std::ptr::eq(phase, only))
                .and_then(|at| phases.get(at))
                .cloned(),
            _ => (!several.is_empty()).then(|| several.remove(0)),
        };
        let root = pool(&profiling).map(|root| Scope { interrupted: run.interrupted, ..root });
        let warmup = pool(&warmups).filter(|warmup| warmup.summary.counts().completed() > 0);
        let mut root = root.unwrap_or_else(|| Scope::of(run.config, run.clock, &[]));
        telemetry::add_energy(run, &mut root.summary);
        Self { root, warmup, phases }
    }
}

/// The scope of each group of phases, in order.
fn scopes(config: &Config, clock: Clock, groups: &[Vec<&FinishedPhase>]) -> Vec<Scope> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(groups.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(group) = groups.get(at) else { return done };
            done.push((at, Scope::of(config, clock, group)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            match other.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, scope)| scope).collect()
}

impl Scope {
    /// Pools phases: their windows add up, and two or more of them make the sum the benchmark's duration.
    fn of(config: &Config, clock: Clock, phases: &[&FinishedPhase]) -> Self {
        let streaming = config.endpoint.streams_tokens();
        let is_replayed = |phase: &&FinishedPhase| {
            let configured = config.phases.get(usize::from(phase.index));
            configured.is_some_and(|phase| matches!(phase.load, Load::FixedSchedule { .. }))
        };
        let replayed = !phases.is_empty() && phases.iter().all(is_replayed);
        let timing = if replayed { Timing::Replayed } else { Timing::Made };
        let tallies: Vec<&PhaseTally> = phases.iter().map(|phase| &phase.tally).collect();
        let window = Nanos(phases.iter().map(|phase| phase.ended.since(phase.started).0).sum());
        let rule = if phases.len() > 1 { DurationRule::Window } else { DurationRule::FirstToLast };
        let start = phases.iter().map(|phase| phase.started).min();
        let end = phases.iter().map(|phase| phase.ended).max();
        let span = start.zip(end).map(|(start, end)| Window { clock, start, end, streaming });
        Self {
            summary: Summary::of(&tallies, &Terms { window, rule, streaming, span, timing }),
            errors: PhaseTally::pooled_errors(tallies.iter().copied()),
            span: start.zip(end),
            interrupted: phases.iter().any(|phase| phase.interrupted),
        }
    }
}
