//! Phases as written into phases as meant: names, kinds, and the rules between the fields of a phase and
//! between phases. It reads no tree and knows no section but `phases`.

mod doubts;

use std::collections::HashMap;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Spanned, Written};
use crate::config::meant::{
    Cancellation, Dataset, DatasetSource, Endpoint, Load, Phase, PhaseKind, Sampling, StopRules,
};
use crate::config::sections::phase as written;
use crate::config::sections::phase::LoadKind;
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

/// Shape of gamma gaps unless written.
const SMOOTHNESS: f64 = 1.0;
/// Start of a replayed agent in its recording unless written.
const TRAJECTORY: (f64, f64) = (0.25, 0.75);

/// Checks and converts the phases; absent when one of them has a fault. `endpoint` and `dataset` are what the
/// phases must fit, where they are known.
pub fn convert(
    phases: &Spanned<Vec<written::Phase>>,
    endpoint: Option<&Endpoint>,
    dataset: Option<&Dataset>,
    faults: &mut Vec<Diagnostic>,
) -> Option<Vec<Phase>> {
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
    for phase in &phases.value {
        check_surroundings(phase, endpoint, dataset, faults);
    }
    if let Some(converted) = &converted {
        doubts::add(&phases.value, converted, faults);
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
    let endless = phase.requests.is_absent() && phase.duration_s.is_absent() && phase.sessions.is_absent();
    let needs_an_end = phase.load.value().is_some_and(|load| *load != LoadKind::FixedSchedule);
    if endless && needs_an_end && phase.adaptive.is_none() {
        faults.push(
            Diagnostic::error(format!(
                "`{}` never ends: it has neither `requests` nor `duration`, nor `sessions`",
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
    check_fields(phase, faults);
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
            sessions: optional(&phase.sessions)?.copied(),
        },
        // An infinite grace period waits until the last request has ended, as none does.
        grace: optional(&phase.grace_s)?
            .filter(|seconds| seconds.is_finite())
            .map(|seconds| Nanos::from_secs_f64(*seconds)),
        cancellation: cancellation(&phase.cancellation)?,
        seamless: optional(&phase.seamless)?.copied().unwrap_or(false),
        prefill_concurrency: optional(&phase.prefill_concurrency)?.copied(),
        concurrency_ramp: optional(&phase.concurrency_ramp)?.copied(),
        prefill_ramp: optional(&phase.prefill_ramp)?.copied(),
        rate_ramp: optional(&phase.rate_ramp)?.copied(),
        rate_series: optional(&phase.rate_series)?.cloned().unwrap_or_default(),
        failed_request_threshold: phase.failed_request_threshold,
        sla: phase.sla.clone(),
        adaptive: phase.adaptive.as_ref().map(|(adaptive, _)| adaptive.clone()),
        timing_mode: optional(&phase.timing_mode)?.copied(),
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
    let kind = *phase.load.value()?;
    match kind {
        LoadKind::Concurrency => Some(Load::Concurrency { concurrency: concurrency.unwrap_or(CONCURRENCY) }),
        LoadKind::Poisson => {
            rate(phase, kind, faults).map(|rate_per_s| Load::Poisson { rate_per_s, concurrency })
        }
        LoadKind::Constant => {
            rate(phase, kind, faults).map(|rate_per_s| Load::Constant { rate_per_s, concurrency })
        }
        LoadKind::Gamma => {
            let smoothness = optional(&phase.smoothness)?.copied().unwrap_or(SMOOTHNESS);
            rate(phase, kind, faults).map(|rate_per_s| Load::Gamma { rate_per_s, smoothness, concurrency })
        }
        LoadKind::UserCentric => {
            let rate_per_s = rate(phase, kind, faults);
            let users = *phase.users.value()?;
            check_users(phase, users, faults);
            Some(Load::UserCentric { rate_per_s: rate_per_s?, users, concurrency })
        }
        LoadKind::FixedSchedule => fixed_schedule(phase, concurrency, faults),
    }
}

/// The rate, or the first one of a series.
fn rate(phase: &written::Phase, kind: LoadKind, faults: &mut Vec<Diagnostic>) -> Option<f64> {
    let series = phase.rate_series.present();
    match (&phase.rate_per_s, series) {
        (Written::Absent, None) if phase.rate_series.is_absent() => {
            faults.push(
                Diagnostic::error(format!(
                    "`{}.rate` is missing: a phase of type `{}` needs it",
                    phase.path,
                    kind.name()
                ))
                .at(phase.place.clone(), "no `rate` in this phase")
                .with_help("add `rate`, the mean number of arrivals per second"),
            );
            None
        }
        (Written::Present(rate), Some(series)) => {
            faults.push(
                Diagnostic::error(format!("`{}`: `rate` and `rate_series` exclude each other", phase.path))
                    .at(series.key.clone(), "one of the two")
                    .with_context(rate.key.clone(), "the other")
                    .with_help("keep one of the two"),
            );
            None
        }
        (_, Some(series)) if kind == LoadKind::UserCentric => {
            faults.push(
                Diagnostic::error(format!(
                    "`{}.rate_series` is not for phases of type `user_centric`",
                    phase.path
                ))
                .at(series.key.clone(), "not with this type")
                .with_help("write `rate`"),
            );
            None
        }
        (_, Some(series)) => series.value.first().map(|point| point.rate_per_s),
        (written, None) => written.value().copied(),
    }
}

fn fixed_schedule(
    phase: &written::Phase,
    concurrency: Option<u32>,
    faults: &mut Vec<Diagnostic>,
) -> Option<Load> {
    let auto_offset = optional(&phase.auto_offset)?.copied().unwrap_or(true);
    let start = optional(&phase.start_offset_ms)?.copied();
    let end = optional(&phase.end_offset_ms)?.copied();
    if let (Some(written), true) = (phase.start_offset_ms.present(), auto_offset) {
        faults.push(
            Diagnostic::error(format!(
                "`{}`: `start_offset` says where the schedule starts, and so does `auto_offset`, which is true",
                phase.path
            ))
            .at(written.key.clone(), "one of the two")
            .with_help("add `autoOffset: false`"),
        );
    } else if let (Some(written), Some(first), Some(last)) = (phase.start_offset_ms.present(), start, end)
        && first > last
    {
        faults.push(
            Diagnostic::error(format!(
                "`{}`: `start_offset` ({first} ms) is behind `end_offset` ({last} ms)",
                phase.path
            ))
            .at(written.span.clone(), "behind the end")
            .with_help("exchange the two"),
        );
    }
    Some(Load::FixedSchedule { auto_offset, start_offset_ms: start, end_offset_ms: end, concurrency })
}

/// Each user sends at least once.
fn check_users(phase: &written::Phase, users: u32, faults: &mut Vec<Diagnostic>) {
    for (name, written) in [("sessions", &phase.sessions), ("requests", &phase.requests)] {
        if let Some(few) = written.present().filter(|count| count.value < u64::from(users)) {
            faults.push(
                Diagnostic::error(format!(
                    "`{}.{name}` ({}) is less than `users` ({users}): not every user could send",
                    phase.path, few.value
                ))
                .at(few.span.clone(), "too few")
                .with_help(format!("write at least `{name}: {users}`")),
            );
            return;
        }
    }
}

/// Rules between fields that do not depend on the type.
fn check_fields(phase: &written::Phase, faults: &mut Vec<Diagnostic>) {
    let own = match phase.load.value() {
        Some(LoadKind::Concurrency) => Some(CONCURRENCY),
        Some(_) | None => None,
    };
    let cap = phase.concurrency.value().copied().or_else(|| own.filter(|_| phase.concurrency.is_absent()));
    if let (Some(prefill), Some(cap)) = (phase.prefill_concurrency.present(), cap)
        && prefill.value > cap
    {
        faults.push(
            Diagnostic::error(format!(
                "`{}.prefill_concurrency` ({}) is above `concurrency` ({cap})",
                phase.path, prefill.value
            ))
            .at(prefill.span.clone(), "never reached")
            .with_help("lower it, or raise `concurrency`"),
        );
    }
    let least = phase.trajectory.0.value().copied().unwrap_or(TRAJECTORY.0);
    let most = phase.trajectory.1.value().copied().unwrap_or(TRAJECTORY.1);
    if least > most
        && let Some(written) = phase.trajectory.0.present().or_else(|| phase.trajectory.1.present())
    {
        faults.push(
            Diagnostic::error(format!(
                "`{}`: `trajectory_start_min_ratio` ({least}) is above `trajectory_start_max_ratio` ({most})",
                phase.path
            ))
            .at(written.span.clone(), "no range")
            .with_help("exchange the two"),
        );
    }
    if let Some(written) = phase.cache_warmup.present() {
        faults.push(
            Diagnostic::error(format!(
                "`{}.agentic_cache_warmup_duration` belongs to the replay of recorded agents",
                phase.path
            ))
            .at(written.key.clone(), "not with this type")
            .with_help("take it out"),
        );
    }
}

/// Rules between a phase and the sections beside it.
fn check_surroundings(
    phase: &written::Phase,
    endpoint: Option<&Endpoint>,
    dataset: Option<&Dataset>,
    faults: &mut Vec<Diagnostic>,
) {
    if let (Some(prefill), Some(false)) =
        (phase.prefill_concurrency.present(), endpoint.map(|endpoint| endpoint.streaming))
    {
        faults.push(
            Diagnostic::error(format!(
                "`{}.prefill_concurrency` needs `endpoint.streaming: true`: without a stream there is no first token",
                phase.path
            ))
            .at(prefill.key.clone(), "not without streaming")
            .with_help("switch streaming on, or take it out"),
        );
    }
    let Some(Dataset { source: DatasetSource::File(file), sampling, .. }) = dataset else { return };
    let unfit = match phase.load.value() {
        Some(LoadKind::UserCentric) if file.format.as_deref() != Some("multi_turn") => {
            Some("a phase of type `user_centric` needs a file dataset of `format: multi_turn`")
        }
        Some(LoadKind::FixedSchedule) if *sampling != Sampling::Sequential => {
            Some("a phase of type `fixed_schedule` needs a dataset with `sampling: sequential`")
        }
        Some(_) | None => None,
    };
    if let Some(unfit) = unfit {
        faults.push(
            Diagnostic::error(format!("`{}`: {unfit}", phase.path))
                .at(phase.place.clone(), "does not fit the dataset")
                .with_help("change the dataset or the phase's type"),
        );
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
