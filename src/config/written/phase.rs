//! A phase as written.

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spelling, Words, Written};
use crate::config::meant::PhaseKind;
use crate::config::written::require;

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
    /// Requests in flight.
    pub concurrency: Written<u32>,
    /// Seconds to wait for requests in flight after the duration.
    pub grace_s: Written<f64>,
    /// Requests cancelled on purpose.
    pub cancellation: Written<Cancellation>,
    /// Whether it starts as soon as the phase before it stops sending.
    pub seamless: Written<bool>,
    /// Arrivals per second.
    pub rate_per_s: Written<f64>,
}

/// A phase's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Closed loop.
    Concurrency,
    /// Open loop with exponential gaps.
    Poisson,
}

/// Requests cancelled on purpose.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// Share of requests in percent.
    pub rate_percent: Written<f64>,
    /// Seconds from the last byte of the request to the cancellation.
    pub delay_s: Written<f64>,
}

pub(super) fn phase(mut keys: Keys<'_>) -> Phase {
    let (place, path) = (keys.place(), keys.path().to_owned());
    let name = keys.key("name").text_or_empty();
    require(&mut keys, &name, "name");
    let kind = keys.key("kind").or_null().word(Words {
        known: &[("warmup", PhaseKind::Warmup), ("profiling", PhaseKind::Profiling)],
        not_yet: &[],
        spelling: Spelling::Exact,
    });
    let load = keys.key("type").word(Words {
        known: &[("concurrency", LoadKind::Concurrency), ("poisson", LoadKind::Poisson)],
        not_yet: &["gamma", "constant", "user_centric", "fixed_schedule"],
        spelling: Spelling::Exact,
    });
    if load.is_absent() {
        let fault = Diagnostic::error(format!("`{path}.type` is missing"))
            .at(place.clone(), "this phase has no type")
            .with_help("write `type: concurrency` (closed loop) or `type: poisson` (open loop)");
        keys.fault(fault);
    }
    let exclude_from_results = keys.key("exclude_from_results").or_null().switch();
    let requests = keys.key("requests").or_null().whole(1..=REQUESTS_MAX);
    let duration_s = keys.key("duration").or_null().duration_s(Bound::Above(0.0));
    // Without a cap an open loop is well defined, a closed loop is not.
    let closed = load.value() == Some(&LoadKind::Concurrency);
    let concurrency = keys.key("concurrency");
    let concurrency = if closed { concurrency } else { concurrency.or_null() }.whole(1..=u32::MAX);
    let grace_s = keys.key("grace_period").or_null().duration_s(Bound::AtLeast(0.0));
    let cancellation = keys.key("cancellation").or_null().section(cancellation);
    let seamless = keys.key("seamless").switch();
    // A stop rule that is refused is a stop rule all the same.
    let requests = if keys.not_yet(&["sessions"]) { Written::Faulty } else { requests };
    keys.not_yet(&[
        "concurrency_ramp",
        "prefill_concurrency",
        "prefill_ramp",
        "sla",
        "failed_request_threshold",
        "timing_mode",
        "trajectory_start_min_ratio",
        "trajectory_start_max_ratio",
        "system_idle_gap_cap_seconds",
        "agentic_cache_warmup_duration",
        "agentic_warmup_grace_period",
        "adaptive_sustain_duration",
    ]);
    keys.not_yet_unless_false(&["adaptive_scale", "burst_phase_starts"]);
    let mut rate_per_s = Written::Absent;
    match load.value() {
        Some(LoadKind::Concurrency) => {
            keys.foreign(&["rate", "rate_ramp", "rate_series", "smoothness"], "concurrency");
            keys.foreign(FOREIGN_TO_BOTH, "concurrency");
        }
        Some(LoadKind::Poisson) => {
            rate_per_s = keys.key("rate").or_null().number(Bound::PositiveFinite);
            keys.not_yet(&["rate_ramp"]);
            if keys.not_yet(&["rate_series"]) {
                rate_per_s = Written::Faulty;
            }
            keys.foreign(&["smoothness"], "poisson");
            keys.foreign(FOREIGN_TO_BOTH, "poisson");
        }
        // Which keys belong here is not known.
        None => keys.forgive(),
    }
    if load.value().is_some() {
        keys.finish();
    }
    Phase {
        place,
        path,
        name,
        kind,
        load,
        exclude_from_results,
        requests,
        duration_s,
        concurrency,
        grace_s,
        cancellation,
        seamless,
        rate_per_s,
    }
}

/// What a file may ask for at most: AIPerf's own counters end there.
const REQUESTS_MAX: u64 = (1 << 63) - 1;

/// Keys of the types that phasor does not support yet.
const FOREIGN_TO_BOTH: &[&str] = &["users", "auto_offset", "start_offset", "end_offset"];

fn cancellation(mut keys: Keys<'_>) -> Cancellation {
    let rate_percent = keys.key("rate").number(Bound::Within(0.0, 100.0));
    require(&mut keys, &rate_percent, "rate");
    let delay_s = keys.key("delay").seconds(Bound::AtLeast(0.0));
    keys.finish();
    Cancellation { rate_percent, delay_s }
}
