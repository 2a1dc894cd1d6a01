//! Phases as written into phases as meant: names, kinds, and the rules between the fields of a phase and
//! between phases. It reads no tree and knows no section but `phases`.

use std::collections::HashMap;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Spanned, Written};
use crate::config::meant::{Cancellation, Load, Phase, PhaseKind, StopRules};
use crate::config::written;
use crate::time::Nanos;

/// Requests in flight of a closed loop unless written.
const CONCURRENCY: u32 = 1;
/// Seconds from the request to its cancellation unless written.
const CANCELLATION_DELAY_S: f64 = 0.0;

/// Names that Windows keeps for devices, in lower case: phases become directories.
const DEVICE_NAMES: &[&str] = &[
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
    "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// Checks and converts the phases; absent when one of them has a fault.
pub fn convert(phases: &Spanned<Vec<written::Phase>>, faults: &mut Vec<Diagnostic>) -> Option<Vec<Phase>> {
    check_names_differ(&phases.value, faults);
    if let Some(first) = phases.value.first()
        && let Some(seamless) = first.seamless.present().filter(|seamless| seamless.value)
    {
        faults.push(
            Diagnostic::error(format!(
                "`{}.seamless`: the first phase cannot be seamless, there is no phase before it",
                first.path
            ))
            .at(seamless.span.clone(), "first phase")
            .with_help("take `seamless` out"),
        );
    }
    let kinds: Vec<Option<PhaseKind>> = phases.value.iter().map(|phase| kind(phase, faults)).collect();
    if kinds.iter().all(|kind| *kind == Some(PhaseKind::Warmup)) {
        faults.push(
            Diagnostic::error("all phases are of kind warmup: a benchmark needs a profiling phase")
                .at(phases.key.clone(), "warmups only")
                .with_help("add a phase of `kind: profiling`"),
        );
    }
    let converted: Option<Vec<Phase>> =
        phases.value.iter().zip(&kinds).map(|(phase, kind)| convert_one(phase, *kind, faults)).collect();
    if let Some(converted) = &converted {
        warn_of_inherited_cancellation(&phases.value, converted, faults);
        warn_of_cut_requests(&phases.value, converted, faults);
    }
    converted
}

fn convert_one(
    phase: &written::Phase,
    kind: Option<PhaseKind>,
    faults: &mut Vec<Diagnostic>,
) -> Option<Phase> {
    let before = faults.len();
    check_name(phase, faults);
    check_exclusion(phase, kind, faults);
    if phase.requests.is_absent() && phase.duration_s.is_absent() && phase.load.value().is_some() {
        faults.push(
            Diagnostic::error(format!(
                "`{}` never ends: it has neither `requests` nor `duration`",
                phase.path
            ))
            .at(phase.place.clone(), "nothing ends this phase")
            .with_help("add `duration: 30s` or `requests: 100`"),
        );
    }
    if let Some(grace) = phase.grace_s.present().filter(|_| phase.duration_s.is_absent()) {
        faults.push(
            Diagnostic::error(format!("`{}.grace_period` needs a `duration` to follow", phase.path))
                .at(grace.key.clone(), "no `duration` in this phase")
                .with_help("add `duration`, or take the grace period out"),
        );
    }
    let load = load(phase, faults);
    if faults.len() > before {
        return None;
    }
    Some(Phase {
        name: phase.name.value()?.clone(),
        kind: kind?,
        load: load?,
        stop: StopRules {
            requests: optional(&phase.requests)?.copied(),
            duration: optional(&phase.duration_s)?.map(|seconds| Nanos::from_secs_f64(*seconds)),
        },
        // An infinite grace period waits until the last request has ended, as none does.
        grace: optional(&phase.grace_s)?
            .filter(|seconds| seconds.is_finite())
            .map(|seconds| Nanos::from_secs_f64(*seconds)),
        cancellation: cancellation(&phase.cancellation)?,
        seamless: optional(&phase.seamless)?.copied().unwrap_or(false),
    })
}

/// What was written, if anything was; absent for a value with a fault.
#[expect(clippy::option_option, reason = "the outer one is the fault, the inner one the absence")]
fn optional<T>(written: &Written<T>) -> Option<Option<&T>> {
    match written {
        Written::Present(present) => Some(Some(&present.value)),
        Written::Absent => Some(None),
        Written::Faulty => None,
    }
}

fn load(phase: &written::Phase, faults: &mut Vec<Diagnostic>) -> Option<Load> {
    let concurrency = optional(&phase.concurrency)?.copied();
    match phase.load.value()? {
        written::LoadKind::Concurrency => {
            Some(Load::Concurrency { concurrency: concurrency.unwrap_or(CONCURRENCY) })
        }
        written::LoadKind::Poisson => {
            if phase.rate_per_s.is_absent() {
                faults.push(
                    Diagnostic::error(format!(
                        "`{}.rate` is missing: a phase of type `poisson` needs it",
                        phase.path
                    ))
                    .at(phase.place.clone(), "no `rate` in this phase")
                    .with_help("add `rate`, the mean number of arrivals per second"),
                );
            }
            Some(Load::Poisson { rate_per_s: *phase.rate_per_s.value()?, concurrency })
        }
    }
}

#[expect(clippy::option_option, reason = "the outer one is the fault, the inner one the absence")]
fn cancellation(written: &Written<written::Cancellation>) -> Option<Option<Cancellation>> {
    let Some(block) = optional(written)? else { return Some(None) };
    let rate_percent = *block.rate_percent.value()?;
    let delay_s = optional(&block.delay_s)?.copied().unwrap_or(CANCELLATION_DELAY_S);
    let cancellation = Cancellation { rate_percent, delay: Nanos::from_secs_f64(delay_s) };
    Some((rate_percent > 0.0).then_some(cancellation))
}

/// The kind written, or the one that the name means.
fn kind(phase: &written::Phase, faults: &mut Vec<Diagnostic>) -> Option<PhaseKind> {
    let canonical = phase.name.value().and_then(|name| {
        [PhaseKind::Warmup, PhaseKind::Profiling].into_iter().find(|kind| kind.name() == name)
    });
    match (&phase.kind, canonical) {
        (Written::Present(kind), Some(meant)) if kind.value != meant => {
            faults.push(
                Diagnostic::error(format!(
                    "`{}`: the name `{}` is reserved for phases of kind {}, found kind {}",
                    phase.path,
                    meant.name(),
                    meant.name(),
                    kind.value.name()
                ))
                .at(kind.span.clone(), format!("must be `{}` for this name", meant.name()))
                .with_help("change the name or the kind"),
            );
            Some(kind.value)
        }
        (Written::Present(kind), _) => Some(kind.value),
        (Written::Absent, Some(meant)) => Some(meant),
        (Written::Absent, None) => {
            if let Some(name) = phase.name.present() {
                faults.push(
                    Diagnostic::error(format!(
                        "`{}.kind` is missing: only the names `warmup` and `profiling` say their kind themselves",
                        phase.path
                    ))
                    .at(name.span.clone(), "warmup or profiling?")
                    .with_help("add `kind: profiling`, or `kind: warmup` to keep it out of the results"),
                );
            }
            None
        }
        (Written::Faulty, _) => None,
    }
}

fn check_name(phase: &written::Phase, faults: &mut Vec<Diagnostic>) {
    let Some(name) = phase.name.present() else { return };
    let letters = name.value.as_bytes();
    let starts = letters.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    if !starts || !letters.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        faults.push(
            Diagnostic::error(format!(
                "`{}.name` must be letters, digits, `_` and `-`, starting with a letter or `_`, found `{}`",
                phase.path,
                crate::config::source::shown(&name.value)
            ))
            .at(name.span.clone(), "not a phase name")
            .with_help(
                "the name becomes a directory and part of sweep paths: write for example `baseline_traffic`",
            ),
        );
    } else if DEVICE_NAMES.contains(&name.value.to_ascii_lowercase().as_str()) {
        faults.push(
            Diagnostic::error(format!(
                "`{}.name`: `{}` is the name of a device on Windows and cannot be a directory there",
                phase.path, name.value
            ))
            .at(name.span.clone(), "reserved by Windows")
            .with_help("choose another name"),
        );
    }
}

fn check_exclusion(phase: &written::Phase, kind: Option<PhaseKind>, faults: &mut Vec<Diagnostic>) {
    let (Some(exclude), Some(kind)) = (phase.exclude_from_results.present(), kind) else { return };
    let truth = match kind {
        PhaseKind::Warmup => true,
        PhaseKind::Profiling => false,
    };
    if exclude.value != truth {
        faults.push(
            Diagnostic::error(format!(
                "`{}.exclude_from_results` is always {truth} for a phase of kind {}",
                phase.path,
                kind.name()
            ))
            .at(exclude.span.clone(), format!("must be {truth}"))
            .with_help("take it out: the kind says it"),
        );
    }
}

fn check_names_differ(phases: &[written::Phase], faults: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<String, (&str, Span)> = HashMap::new();
    for (phase, name) in phases.iter().filter_map(|phase| phase.name.present().map(|name| (phase, name))) {
        let folded = name.value.to_lowercase();
        if let Some((first, place)) = seen.get(&folded) {
            faults.push(
                Diagnostic::error(format!(
                    "`{}.name`: `{}` is taken by `{first}`: names must differ by more than case",
                    phase.path,
                    crate::config::source::shown(&name.value)
                ))
                .at(name.span.clone(), "used again")
                .with_context(place.clone(), "used first here")
                .with_help("give this phase another name"),
            );
        } else {
            seen.insert(folded, (&name.value, name.span.clone()));
        }
    }
}

/// AIPerf gives a profiling phase without cancellation the first block it finds in any other one.
fn warn_of_inherited_cancellation(written: &[written::Phase], meant: &[Phase], faults: &mut Vec<Diagnostic>) {
    let profiling = || written.iter().zip(meant).filter(|(_, phase)| phase.kind == PhaseKind::Profiling);
    let Some((_, donor)) = profiling().find(|(written, _)| !written.cancellation.is_absent()) else { return };
    let Some(block) = donor.cancellation else { return };
    let without: Vec<_> = profiling().filter(|(written, _)| written.cancellation.is_absent()).collect();
    let Some((first, _)) = without.first() else { return };
    faults.push(
        Diagnostic::warning(format!(
            "{} without `cancellation` cancels nothing; AIPerf would have used the block of phase `{}` ({} %)",
            listed(without.iter().map(|(_, phase)| phase.name.as_str())),
            donor.name,
            block.rate_percent
        ))
        .at(first.place.clone(), "no cancellation")
        .with_help("write `cancellation: {rate: 0}` to mean the same to both"),
    );
}

/// AIPerf cuts the requests in flight at the end of a duration when no grace period is written.
fn warn_of_cut_requests(written: &[written::Phase], meant: &[Phase], faults: &mut Vec<Diagnostic>) {
    let cut: Vec<_> = written
        .iter()
        .zip(meant)
        .filter(|(written, phase)| {
            phase.kind == PhaseKind::Profiling
                && written.grace_s.is_absent()
                && written.duration_s.value().is_some_and(|seconds| seconds.is_finite())
        })
        .collect();
    let Some(place) = cut.first().and_then(|(written, _)| written.duration_s.present()) else { return };
    faults.push(
        Diagnostic::warning(format!(
            "at the end of its duration {} waits for requests in flight; AIPerf would have cut them",
            listed(cut.iter().map(|(_, phase)| phase.name.as_str()))
        ))
        .at(place.span.clone(), "no `grace_period` beside it")
        .with_help("write `grace_period` to bound the wait"),
    );
}

/// "phase `a`" or "each of the phases `a`, `b`".
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if quoted.len() == 1 {
        format!("phase {}", quoted.concat())
    } else {
        format!("each of the phases {}", quoted.join(", "))
    }
}
