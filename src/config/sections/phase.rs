//! A phase as written: every key with its type and bounds, before the rules between them.

use std::path::Path;

use serde_json::json;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, mismatch};
use crate::config::lax;
use crate::config::meant::{AdaptiveScale, PhaseKind, Ramp, RampStrategy, RatePoint, SlaRule, TimingMode};
use crate::config::scalar::Scalar;
use crate::config::sections::adaptive::{self, Adaptive};
use crate::config::sections::{NOT_NEGATIVE, require};
use crate::config::source::{self, Value, shown};
use crate::time::Nanos;

/// A phase.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Where a fault of the phase as a whole is shown.
    pub place: Span,
    /// Dotted path.
    pub path: String,
    /// Name, of any spelling.
    pub name: Written<String>,
    /// Kind.
    pub kind: Written<PhaseKind>,
    /// Type.
    pub load: Written<LoadKind>,
    /// May only repeat what the kind says.
    pub exclude_from_results: Written<bool>,
    /// Requests to send.
    pub requests: Written<u64>,
    /// Seconds to send for.
    pub duration_s: Written<f64>,
    /// Sessions to start.
    pub sessions: Written<u64>,
    /// Requests in flight.
    pub concurrency: Written<u32>,
    /// Rise of the concurrency.
    pub concurrency_ramp: Written<Ramp>,
    /// Requests in flight that wait for their first token.
    pub prefill_concurrency: Written<u32>,
    /// Rise of the prefill concurrency.
    pub prefill_ramp: Written<Ramp>,
    /// Seconds to wait for requests in flight after the duration.
    pub grace_s: Written<f64>,
    /// Requests cancelled on purpose.
    pub cancellation: Written<Cancellation>,
    /// Limits for adaptive scale.
    pub sla: Vec<SlaRule>,
    /// Whether it starts as soon as the phase before it stops sending.
    pub seamless: Written<bool>,
    /// Strategy in place of the type's own.
    pub timing_mode: Written<TimingMode>,
    /// Share of failures that ends the run.
    pub failed_request_threshold: Option<f64>,
    /// Least and greatest start of replayed agents in their recordings.
    pub trajectory: (Written<f64>, Written<f64>),
    /// Belongs to replayed agents.
    pub cache_warmup: Written<f64>,
    /// Arrivals per second.
    pub rate_per_s: Written<f64>,
    /// Rise of the rate.
    pub rate_ramp: Written<Ramp>,
    /// Rates over time.
    pub rate_series: Written<Vec<RatePoint>>,
    /// Shape of gamma gaps.
    pub smoothness: Written<f64>,
    /// Users.
    pub users: Written<u32>,
    /// Whether a trace starts at its first entry.
    pub auto_offset: Written<bool>,
    /// Start in the trace in ms.
    pub start_offset_ms: Written<u64>,
    /// End in the trace in ms.
    pub end_offset_ms: Written<u64>,
    /// The controller, and where it stands.
    pub adaptive: Option<(AdaptiveScale, Span)>,
}

/// A phase's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Closed loop.
    Concurrency,
    /// Open loop with equal gaps.
    Constant,
    /// Open loop at the times of a trace.
    FixedSchedule,
    /// Open loop with gamma gaps.
    Gamma,
    /// Open loop with exponential gaps.
    Poisson,
    /// Users in turn.
    UserCentric,
}

impl LoadKind {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Constant => "constant",
            Self::FixedSchedule => "fixed_schedule",
            Self::Gamma => "gamma",
            Self::Poisson => "poisson",
            Self::UserCentric => "user_centric",
        }
    }
}

const LOADS: Words<LoadKind> = Words {
    known: &[
        ("concurrency", LoadKind::Concurrency),
        ("poisson", LoadKind::Poisson),
        ("gamma", LoadKind::Gamma),
        ("constant", LoadKind::Constant),
        ("user_centric", LoadKind::UserCentric),
        ("fixed_schedule", LoadKind::FixedSchedule),
    ],
    spelling: Spelling::Exact,
};
const KINDS: Words<PhaseKind> = Words {
    known: &[("warmup", PhaseKind::Warmup), ("profiling", PhaseKind::Profiling)],
    spelling: Spelling::Exact,
};
const TIMING_MODES: Words<TimingMode> = Words {
    known: &[
        ("fixed_schedule", TimingMode::FixedSchedule),
        ("request_rate", TimingMode::RequestRate),
        ("adaptive_scale", TimingMode::AdaptiveScale),
        ("user_centric_rate", TimingMode::UserCentricRate),
        ("agentic_replay", TimingMode::AgenticReplay),
    ],
    spelling: Spelling::Lenient,
};
const STRATEGIES: Words<RampStrategy> = Words {
    known: &[
        ("linear", RampStrategy::Linear),
        ("exponential", RampStrategy::Exponential),
        ("poisson", RampStrategy::Poisson),
    ],
    spelling: Spelling::Lenient,
};

/// Requests cancelled on purpose.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// Share of requests in percent.
    pub rate_percent: Written<f64>,
    /// Seconds from the last byte of the request to the cancellation.
    pub delay_s: Written<f64>,
}

/// What a file may ask for at most: AIPerf's own counters end there.
const REQUESTS_MAX: u64 = (1 << 63) - 1;
/// Latest time of a fixed schedule, in ms.
const OFFSET_MS_MAX: u64 = (1 << 53) - 1;

/// Keys that belong to some types only.
const OF_SOME_TYPES: &[&str] =
    &["rate", "rate_ramp", "rate_series", "smoothness", "users", "auto_offset", "start_offset", "end_offset"];

/// The phases of a benchmark as written.
pub(super) fn phases(keys: &mut Keys<'_>) -> Written<Vec<Phase>> {
    keys.items("phases", "a list of phases", phase)
}

fn phase(mut keys: Keys<'_>) -> Phase {
    let (place, path) = (keys.place(), keys.path().to_owned());
    let adaptive = adaptive::adaptive(&mut keys);
    let name = keys.key("name").text_or_empty();
    require(&mut keys, &name, "name");
    let kind = keys.key("kind").or_null().word(KINDS);
    let means = |kind: &PhaseKind| name.value().is_some_and(|name| name == kind.name());
    let implied =
        [PhaseKind::Warmup, PhaseKind::Profiling].into_iter().find(means).filter(|_| kind.is_absent());
    if let Some(kind) = implied {
        keys.set_form("kind", json!(kind.name()));
    }
    let load = keys.key("type").word(LOADS);
    if load.is_absent() {
        let fault = Diagnostic::error(format!("`{path}.type` is missing"))
            .at(place.clone(), "this phase has no type")
            .with_help("write `type: concurrency` (closed loop) or `type: poisson` (open loop)");
        keys.fault(fault);
    }
    let exclude_from_results = keys.key("exclude_from_results").or_null().switch();
    if kind.value().copied().or(implied) == Some(PhaseKind::Warmup) {
        keys.set_form("exclude_from_results", json!(true));
    }
    let requests = keys.key("requests").or_null().whole(1..=REQUESTS_MAX);
    let duration_s = keys.key("duration").or_null().duration_s(Bound::Above(0.0));
    let sessions = keys.key("sessions").or_null().whole(1..=REQUESTS_MAX);
    // Without a cap an open loop is well defined, a closed loop is not.
    let closed = load.value() == Some(&LoadKind::Concurrency);
    let concurrency = keys.key("concurrency");
    let concurrency = if closed { concurrency } else { concurrency.or_null() }.whole(1..=u32::MAX);
    let concurrency_ramp = ramp(&mut keys, "concurrency_ramp");
    let prefill_concurrency = keys.key("prefill_concurrency").or_null().whole(1..=u32::MAX);
    let prefill_ramp = ramp(&mut keys, "prefill_ramp");
    let grace_s = keys.key("grace_period").or_null().duration_s(Bound::AtLeast(0.0));
    let cancellation = keys.key("cancellation").or_null().section(cancellation);
    let sla = adaptive::sla(&mut keys, "sla");
    let seamless = keys.key("seamless").switch();
    let timing_mode = keys.key("timing_mode").or_null().word(TIMING_MODES);
    let failed_request_threshold =
        keys.key("failed_request_threshold").or_null().number(Bound::Within(0.0, 1.0)).optional();
    let trajectory = (
        keys.key("trajectory_start_min_ratio").number(Bound::Within(0.0, 1.0)),
        keys.key("trajectory_start_max_ratio").number(Bound::Within(0.0, 1.0)),
    );
    keys.key("burst_phase_starts").switch();
    keys.key("system_idle_gap_cap_seconds").or_null().seconds(NOT_NEGATIVE);
    let cache_warmup = keys.key("agentic_cache_warmup_duration").or_null().seconds(Bound::Above(0.0));
    keys.key("agentic_warmup_grace_period").or_null().seconds(NOT_NEGATIVE);
    let mut phase = Phase {
        place,
        path,
        name,
        kind,
        load,
        exclude_from_results,
        requests,
        duration_s,
        sessions,
        concurrency,
        concurrency_ramp,
        prefill_concurrency,
        prefill_ramp,
        grace_s,
        cancellation,
        sla,
        seamless,
        timing_mode,
        failed_request_threshold,
        trajectory,
        cache_warmup,
        rate_per_s: Written::Absent,
        rate_ramp: Written::Absent,
        rate_series: Written::Absent,
        smoothness: Written::Absent,
        users: Written::Absent,
        auto_offset: Written::Absent,
        start_offset_ms: Written::Absent,
        end_offset_ms: Written::Absent,
        adaptive: None,
    };
    of_type(&mut keys, &mut phase);
    if let Some(adaptive) = adaptive {
        phase.adaptive = adaptive_scale(&mut keys, &mut phase, adaptive);
    }
    if phase.load.value().is_some() {
        keys.finish();
    } else {
        // Which keys belong here is not known.
        keys.forgive();
        keys.finish();
    }
    phase
}

/// Reads the keys that belong to the phase's type, and refuses those that do not.
fn of_type(keys: &mut Keys<'_>, phase: &mut Phase) {
    let Some(load) = phase.load.value().copied() else { return };
    let own: &[&str] = match load {
        LoadKind::Concurrency => &[],
        LoadKind::Constant | LoadKind::Poisson => &["rate", "rate_ramp", "rate_series"],
        LoadKind::Gamma => &["rate", "rate_ramp", "rate_series", "smoothness"],
        LoadKind::UserCentric => &["rate", "rate_ramp", "rate_series", "users"],
        LoadKind::FixedSchedule => &["auto_offset", "start_offset", "end_offset"],
    };
    let has = |name: &str| own.contains(&name);
    if has("rate") {
        phase.rate_per_s = keys.key("rate").or_null().number(Bound::PositiveFinite);
        phase.rate_ramp = ramp(keys, "rate_ramp");
        phase.rate_series = rate_series(keys);
    }
    if has("smoothness") {
        phase.smoothness = keys.key("smoothness").or_null().number(Bound::PositiveFinite);
    }
    if has("users") {
        phase.users = keys.key("users").whole(1..=u32::MAX);
        require(keys, &phase.users, "users");
    }
    if has("auto_offset") {
        phase.auto_offset = keys.key("auto_offset").switch();
        phase.start_offset_ms = keys.key("start_offset").or_null().whole(0..=OFFSET_MS_MAX);
        phase.end_offset_ms = keys.key("end_offset").or_null().whole(0..=OFFSET_MS_MAX);
    }
    let foreign: Vec<&'static str> = OF_SOME_TYPES.iter().copied().filter(|name| !has(name)).collect();
    keys.foreign(&foreign, load.name());
}

fn adaptive_scale(
    keys: &mut Keys<'_>,
    phase: &mut Phase,
    adaptive: Adaptive,
) -> Option<(AdaptiveScale, Span)> {
    if !adaptive.enabled {
        return None;
    }
    let own = !phase.sla.is_empty();
    if !adaptive.sla.is_empty() {
        phase.sla.clone_from(&adaptive.sla);
    }
    let place = adaptive.place.clone();
    adaptive::checked(keys, phase, adaptive, own).map(|scale| (scale, place))
}

fn cancellation(mut keys: Keys<'_>) -> Cancellation {
    let rate_percent = keys.key("rate").number(Bound::Within(0.0, 100.0));
    require(&mut keys, &rate_percent, "rate");
    let delay_s = keys.key("delay").seconds(Bound::AtLeast(0.0));
    keys.finish();
    Cancellation { rate_percent, delay_s }
}

/// A duration, or `{duration, strategy}`.
fn ramp(keys: &mut Keys<'_>, name: &'static str) -> Written<Ramp> {
    let key = keys.key(name).or_null();
    let Some(entry) = key.entry() else { return Written::Absent };
    if !matches!(entry.node.value, Value::Mapping(_)) {
        let read = key.duration_s(Bound::Above(0.0));
        if let Some(duration_s) = read.value() {
            keys.set_form(name, json!({ "duration": duration_s }));
        }
        return read.map(|duration_s| Ramp {
            duration: Nanos::from_secs_f64(duration_s),
            strategy: RampStrategy::Linear,
        });
    }
    let read = key.section(|mut keys| {
        let duration_s = keys.key("duration").duration_s(Bound::Above(0.0));
        require(&mut keys, &duration_s, "duration");
        let strategy = keys.key("strategy").word(STRATEGIES).or(RampStrategy::Linear);
        keys.finish();
        duration_s.optional().map(|duration_s| (duration_s, strategy))
    });
    match read {
        Written::Present(Spanned { key, span, value: Some((duration_s, strategy)) }) => {
            let value = Ramp { duration: Nanos::from_secs_f64(duration_s), strategy };
            Written::Present(Spanned { key, span, value })
        }
        Written::Present(_) | Written::Absent | Written::Faulty => Written::Faulty,
    }
}

/// A list of points, `{points}`, a path, or `{path}` to a JSON file of points.
fn rate_series(keys: &mut Keys<'_>) -> Written<Vec<RatePoint>> {
    let directory = keys.directory();
    let key = keys.key("rate_series").or_null();
    let Some(entry) = key.entry() else { return Written::Absent };
    let read = match &entry.node.value {
        Value::Sequence(_) => keys.items("rate_series", "a list of at least two points", point),
        Value::Scalar(Scalar::Text(path)) => {
            let (path, span) = (path.clone(), entry.node.span.clone());
            of_file(keys, &directory, &path, &span, entry.key_span.clone())
        }
        Value::Mapping(_) => {
            let read = keys.key("rate_series").section(|mut keys| {
                let path = keys.key("path").or_null().text();
                let points = if keys.key("points").or_null().entry().is_some() {
                    keys.items("points", "a list of at least two points", point)
                } else {
                    Written::Absent
                };
                let read = match (&path, points) {
                    (Written::Present(path), Written::Absent) => {
                        of_file(&mut keys, &directory, &path.value, &path.span, path.key.clone())
                    }
                    (Written::Absent, points @ Written::Present(_)) => points,
                    (Written::Absent, Written::Absent) => {
                        let message = format!("`{}` has neither `points` nor `path`", keys.path());
                        keys.fault_at(&path, message, "no rates", "add `points: [{timeS: 0, qps: 1}, ...]`");
                        Written::Faulty
                    }
                    (Written::Present(_), Written::Present(_)) => {
                        let message = format!("`{}`: `path` and `points` exclude each other", keys.path());
                        keys.fault_at(&path, message, "one of the two", "keep one of the two");
                        Written::Faulty
                    }
                    (Written::Faulty, _) | (_, Written::Faulty) => Written::Faulty,
                };
                keys.finish();
                read
            });
            match read {
                Written::Present(present) => present.value,
                Written::Absent | Written::Faulty => Written::Faulty,
            }
        }
        Value::Scalar(_) => {
            key.refuse("a list of points or a path");
            Written::Faulty
        }
    };
    checked_series(keys, read)
}

fn point(mut keys: Keys<'_>) -> Option<RatePoint> {
    let time_s = keys.key("time_s").number(NOT_NEGATIVE);
    let rate_per_s = keys.key("qps").number(Bound::PositiveFinite);
    require(&mut keys, &time_s, "time_s");
    require(&mut keys, &rate_per_s, "qps");
    keys.finish();
    Some(RatePoint { time_s: time_s.optional()?, rate_per_s: rate_per_s.optional()? })
}

fn checked_series(keys: &mut Keys<'_>, read: Written<Vec<Option<RatePoint>>>) -> Written<Vec<RatePoint>> {
    let series: Vec<RatePoint> = read.value().into_iter().flatten().filter_map(|point| *point).collect();
    if read.value().is_none_or(|read| read.len() > series.len()) {
        return Written::Faulty;
    }
    let at = keys.path().to_owned();
    if series.len() < 2 {
        let message = format!("`{at}.rate_series` needs at least two points");
        keys.fault_at(&read, message, "too few", "write `rate` for a rate that stays");
        return Written::Faulty;
    }
    let rises = series.windows(2).all(|pair| matches!(pair, [left, right] if left.time_s < right.time_s));
    if !rises || series.iter().any(|point| !point.time_s.is_finite()) {
        let message = format!("`{at}.rate_series`: times must rise from point to point");
        keys.fault_at(&read, message, "times do not rise", "put the points in order of time");
        return Written::Faulty;
    }
    read.map(|_| series)
}

/// Reads the points of a JSON file: a list, or an object whose one key is `points`.
fn of_file(
    keys: &mut Keys<'_>,
    directory: &Path,
    path: &str,
    span: &Span,
    key: Span,
) -> Written<Vec<Option<RatePoint>>> {
    let mut refuse = |why: &str| {
        let at = keys.path().to_owned();
        keys.fault(
            Diagnostic::error(format!("`{at}.rate_series`: the file `{}` {why}", shown(path)))
                .at(span.clone(), "read as a file of rates")
                .with_help(
                    "name a JSON file such as `[{\"time_s\": 0, \"qps\": 1}, {\"time_s\": 9, \"qps\": 5}]`",
                ),
        );
        Written::Faulty
    };
    let Ok(text) = std::fs::read_to_string(directory.join(path)) else { return refuse("cannot be read") };
    let Ok(root) = serde_json::from_str::<serde_json::Value>(&text) else { return refuse("is not JSON") };
    let points = match &root {
        serde_json::Value::Array(points) => points,
        serde_json::Value::Object(members) if members.len() == 1 => match members.get("points") {
            Some(serde_json::Value::Array(points)) => points,
            Some(_) | None => return refuse("has no list of points"),
        },
        _ => return refuse("has no list of points"),
    };
    let number = |point: &serde_json::Value, names: [&str; 2]| {
        names.iter().find_map(|name| point.get(name)).and_then(serde_json::Value::as_f64)
    };
    let read: Option<Vec<_>> = points
        .iter()
        .map(|point| {
            let time_s = number(point, ["time_s", "timeS"]).filter(|time| *time >= 0.0)?;
            let rate_per_s = number(point, ["qps", "qps"]).filter(|rate| *rate > 0.0)?;
            Some(Some(RatePoint { time_s, rate_per_s }))
        })
        .collect();
    match read {
        Some(value) => Written::Present(Spanned { key, span: span.clone(), value }),
        None => refuse("has a point without `time_s` and `qps`"),
    }
}

/// Whether `node` is a switch that is off, or nothing.
pub(super) fn is_off(node: &source::Node) -> Option<bool> {
    match &node.value {
        Value::Scalar(Scalar::Null) => Some(true),
        Value::Scalar(scalar) => lax::switch(scalar).map(|on| !on),
        Value::Sequence(_) | Value::Mapping(_) => None,
    }
}

/// The fault of a value that is neither a switch nor a mapping.
pub(super) fn no_switch(path: &str, node: &source::Node, place: &Span) -> Diagnostic {
    mismatch(path, "true, false or a mapping", node, place)
}
