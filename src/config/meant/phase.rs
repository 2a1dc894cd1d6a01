//! The load phases.

use crate::time::Nanos;

/// Whether a phase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// Part of the results.
    Profiling,
    /// Never part of the root's results.
    Warmup,
}

impl PhaseKind {
    /// The kind as written in configs and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Profiling => "profiling",
            Self::Warmup => "warmup",
        }
    }
}

/// One load phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// `^[A-Za-z_][A-Za-z0-9_-]*$`, unique ignoring case, no Windows device name.
    pub name: String,
    /// Warmup or profiling.
    pub kind: PhaseKind,
    /// How requests arrive.
    pub load: Load,
    /// What ends sending; at least one of its members is there, except for a fixed schedule.
    pub stop: StopRules,
    /// How long after `duration` requests in flight are waited for; absent: until they end.
    pub grace: Option<Nanos>,
    /// Requests that are cancelled on purpose; absent for rate 0 and for none.
    pub cancellation: Option<Cancellation>,
    /// Starts as soon as the phase before it stops sending.
    pub seamless: bool,
    /// Most requests in flight that wait for their first token, at least 1.
    pub prefill_concurrency: Option<u32>,
    /// How the concurrency rises from 1 to its target.
    pub concurrency_ramp: Option<Ramp>,
    /// How the prefill concurrency rises from 1 to its target.
    pub prefill_ramp: Option<Ramp>,
    /// How the rate rises to its target.
    pub rate_ramp: Option<Ramp>,
    /// Rates over time in place of one; empty without, else at least two points with rising times.
    pub rate_series: Vec<RatePoint>,
    /// Share of failed requests, 0 to 1, above which the run is given up.
    pub failed_request_threshold: Option<f64>,
    /// Limits that adaptive scale keeps.
    pub sla: Vec<SlaRule>,
    /// The controller that searches the highest load within the limits.
    pub adaptive: Option<AdaptiveScale>,
    /// Strategy in place of the one that the type means.
    pub timing_mode: Option<TimingMode>,
}

impl Phase {
    /// A phase of `load` that has every default and no stop rule.
    pub fn new(name: &str, kind: PhaseKind, load: Load) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            load,
            stop: StopRules::default(),
            grace: None,
            cancellation: None,
            seamless: false,
            prefill_concurrency: None,
            concurrency_ramp: None,
            prefill_ramp: None,
            rate_ramp: None,
            rate_series: Vec::new(),
            failed_request_threshold: None,
            sla: Vec::new(),
            adaptive: None,
            timing_mode: None,
        }
    }
}

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed loop: this many requests in flight, the next one sent when one ends.
    Concurrency {
        /// At least 1.
        concurrency: u32,
    },
    /// Open loop with equal gaps.
    Constant {
        /// Arrivals per second, above 0; the first point's of a rate series.
        rate_per_s: f64,
        /// Most requests in flight; an arrival that finds that many is dropped. Absent: no cap.
        concurrency: Option<u32>,
    },
    /// Open loop that sends the entries of a trace at their own times.
    FixedSchedule {
        /// Whether the first entry's time is the phase's start.
        auto_offset: bool,
        /// Time in the trace, in ms, before which entries are left out.
        start_offset_ms: Option<u64>,
        /// Time in the trace, in ms, after which entries are left out.
        end_offset_ms: Option<u64>,
        /// Most requests in flight; absent: no cap.
        concurrency: Option<u32>,
    },
    /// Open loop with independent gaps of a gamma distribution.
    Gamma {
        /// Mean arrivals per second, above 0; the first point's of a rate series.
        rate_per_s: f64,
        /// Shape of the distribution, above 0: 1 is Poisson, more is smoother, less is burstier.
        smoothness: f64,
        /// Most requests in flight; absent: no cap.
        concurrency: Option<u32>,
    },
    /// Open loop with independent exponential gaps.
    Poisson {
        /// Mean arrivals per second, above 0; the first point's of a rate series.
        rate_per_s: f64,
        /// Most requests in flight; an arrival that finds that many is dropped. Absent: no cap.
        concurrency: Option<u32>,
    },
    /// Sessions of a fixed number of users, each sending at its share of the rate.
    UserCentric {
        /// Requests per second of all users together, above 0.
        rate_per_s: f64,
        /// At least 1.
        users: u32,
        /// Most requests in flight; absent: no cap.
        concurrency: Option<u32>,
    },
}

impl Load {
    /// The type as written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency { .. } => "concurrency",
            Self::Constant { .. } => "constant",
            Self::FixedSchedule { .. } => "fixed_schedule",
            Self::Gamma { .. } => "gamma",
            Self::Poisson { .. } => "poisson",
            Self::UserCentric { .. } => "user_centric",
        }
    }

    /// Most requests in flight; absent: no cap.
    pub const fn concurrency(self) -> Option<u32> {
        match self {
            Self::Concurrency { concurrency } => Some(concurrency),
            Self::Constant { concurrency, .. }
            | Self::FixedSchedule { concurrency, .. }
            | Self::Gamma { concurrency, .. }
            | Self::Poisson { concurrency, .. }
            | Self::UserCentric { concurrency, .. } => concurrency,
        }
    }

    /// Arrivals per second; absent for loads that have no rate.
    pub const fn rate_per_s(self) -> Option<f64> {
        match self {
            Self::Concurrency { .. } | Self::FixedSchedule { .. } => None,
            Self::Constant { rate_per_s, .. }
            | Self::Gamma { rate_per_s, .. }
            | Self::Poisson { rate_per_s, .. }
            | Self::UserCentric { rate_per_s, .. } => Some(rate_per_s),
        }
    }
}

/// What ends sending; the first one reached does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopRules {
    /// Requests sent, at least 1.
    pub requests: Option<u64>,
    /// Time since the phase started, above 0.
    pub duration: Option<Nanos>,
    /// Sessions started, at least 1; started ones are finished.
    pub sessions: Option<u64>,
}

/// Requests cancelled on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cancellation {
    /// Share of requests in percent, above 0 to 100.
    pub rate_percent: f64,
    /// From the last byte of the request written to the cancellation.
    pub delay: Nanos,
}

/// A rise to a target over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// How long it takes, above 0.
    pub duration: Nanos,
    /// Its shape.
    pub strategy: RampStrategy,
}

/// The shape of a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RampStrategy {
    /// Slow first, fast at the end.
    Exponential,
    /// Even.
    Linear,
    /// Even on average, at random times.
    Poisson,
}

impl RampStrategy {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Linear => "linear",
            Self::Poisson => "poisson",
        }
    }
}

/// One point of a rate series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePoint {
    /// Seconds since the phase started, at least 0.
    pub time_s: f64,
    /// Arrivals per second from there, above 0.
    pub rate_per_s: f64,
}

/// A limit on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct SlaRule {
    /// The metric's tag.
    pub metric: String,
    /// The statistic, such as `p95`.
    pub stat: String,
    /// `lt`, `le`, `gt` or `ge`.
    pub op: &'static str,
    /// In the metric's unit.
    pub threshold: f64,
}

impl SlaRule {
    /// Metrics that a window of an adaptive phase has.
    pub const METRICS: &'static [&'static str] = &[
        "request_latency",
        "time_to_first_token",
        "ttft",
        "inter_token_latency",
        "itl",
        "tpot",
        "throughput",
        "request_throughput",
        "completed_request_throughput",
        "output_token_throughput",
        "goodput",
        "goodput_ratio",
        "success_rate",
        "request_success_rate",
        "error_rate",
        "request_error_rate",
        "cancellation_rate",
    ];

    /// Statistics of such a metric. Rates have one value, whatever it is called.
    pub fn statistics(metric: &str) -> &'static [&'static str] {
        const TIMINGS: &[&str] =
            &["avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"];
        match metric {
            "request_latency" | "time_to_first_token" | "ttft" | "inter_token_latency" | "itl" | "tpot" => {
                TIMINGS
            }
            _ => &["avg", "min", "max"],
        }
    }
}

/// Searching the highest load that keeps the limits, within one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveScale {
    /// What is changed.
    pub control: Control,
    /// Its least value, above 0.
    pub control_min: f64,
    /// Its greatest value; absent: the phase's own.
    pub control_max: Option<f64>,
    /// Seconds of one assessment, at least 1; absent: the default.
    pub assessment_period_s: Option<f64>,
    /// Requests that an assessment needs, at least 1.
    pub min_completed_requests: u64,
    /// Seconds for which the limits must hold, above 0.
    pub sustain_s: f64,
    /// How steps are chosen.
    pub step_policy: StepPolicy,
    /// Least step, at least 1.
    pub base_step: u64,
    /// Greatest step as a multiple of the least, at least 1.
    pub max_step_multiplier: u64,
    /// Step in percent, above 0.
    pub step_percent: f64,
}

/// What adaptive scale changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Requests in flight.
    Concurrency,
    /// Requests in flight that wait for their first token.
    PrefillConcurrency,
    /// Arrivals per second.
    RequestRate,
    /// Users.
    Users,
}

impl Control {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::PrefillConcurrency => "prefill_concurrency",
            Self::RequestRate => "request_rate",
            Self::Users => "users",
        }
    }
}

/// How adaptive scale chooses its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPolicy {
    /// Always the same share.
    FixedPercentStep,
    /// By the distance to the limits.
    SlaMargin,
}

impl StepPolicy {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedPercentStep => "fixed_percent_step",
            Self::SlaMargin => "sla_margin",
        }
    }
}

/// A strategy of timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimingMode {
    /// A controller changes the load.
    AdaptiveScale,
    /// Recorded agents are replayed.
    AgenticReplay,
    /// Entries go at their own times.
    FixedSchedule,
    /// Requests go at a rate or as fast as a concurrency admits.
    RequestRate,
    /// Users send in turn.
    UserCentricRate,
}

impl TimingMode {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdaptiveScale => "adaptive_scale",
            Self::AgenticReplay => "agentic_replay",
            Self::FixedSchedule => "fixed_schedule",
            Self::RequestRate => "request_rate",
            Self::UserCentricRate => "user_centric_rate",
        }
    }
}

impl Phase {
    /// The timing strategy that the phase's type means.
    pub const fn natural_timing(&self) -> TimingMode {
        if self.adaptive.is_some() {
            return TimingMode::AdaptiveScale;
        }
        match (self.kind, self.load) {
            (PhaseKind::Warmup, _)
            | (
                PhaseKind::Profiling,
                Load::Concurrency { .. } | Load::Constant { .. } | Load::Gamma { .. } | Load::Poisson { .. },
            ) => TimingMode::RequestRate,
            (PhaseKind::Profiling, Load::FixedSchedule { .. }) => TimingMode::FixedSchedule,
            (PhaseKind::Profiling, Load::UserCentric { .. }) => TimingMode::UserCentricRate,
        }
    }
}
