//! The controller: raises the load until a window breaks a limit, goes back to the last one that did not, and
//! holds it.

use crate::adaptive::Scale;
use crate::adaptive::rules::{Rule, Rules};
use crate::adaptive::window::{Timing, Window};
use crate::config::{Control, StepPolicy};
use crate::time::Stamp;
use std::sync::Arc;

/// What the controller is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The end is reached.
    Complete,
    /// Looking for the first load that is too much.
    Discover,
    /// Holding the load found.
    Sustain,
}

impl Stage {
    /// As written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Discover => "discover",
            Self::Sustain => "sustain",
        }
    }
}

/// How the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The greatest value was within the limits.
    MaxReached,
    /// Not even the least value was.
    NothingSustainable,
    /// The phase ended first.
    PhaseCancelled,
    /// The limits broke again right after a step back.
    SustainFailed,
    /// The limits broke at the least value.
    SustainUnrecoverable,
    /// The load found held.
    Sustained,
}

impl Ending {
    /// The reason as written in files.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::MaxReached => "max_control_value_reached_without_saturation",
            Self::NothingSustainable => "no_sustainable_concurrency_found",
            Self::PhaseCancelled => "phase_cancelled",
            Self::SustainFailed => "sustain_failed_after_recovery",
            Self::SustainUnrecoverable => "sustain_failed_sla_unrecoverable",
            Self::Sustained => "sustain_duration_completed",
        }
    }

    /// The status as written in files.
    pub const fn status(self) -> &'static str {
        match self {
            Self::MaxReached => "incomplete",
            Self::NothingSustainable
            | Self::PhaseCancelled
            | Self::SustainFailed
            | Self::SustainUnrecoverable => "failed",
            Self::Sustained => "completed",
        }
    }
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventName {
    /// The first load that is too much is known.
    BoundaryDiscovered,
    /// The load is changed or kept.
    Decision,
    /// The end.
    Ended(Ending),
    /// The phase has started.
    Started,
    /// The load found is being held.
    SustainStarted,
    /// A window was looked at.
    Window,
}

impl EventName {
    /// As written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BoundaryDiscovered => "boundary_discovered",
            Self::Decision => "adaptive_decision",
            Self::Ended(Ending::Sustained) => "adaptive_complete",
            Self::Ended(Ending::MaxReached) => "adaptive_incomplete",
            Self::Ended(
                Ending::NothingSustainable
                | Ending::PhaseCancelled
                | Ending::SustainFailed
                | Ending::SustainUnrecoverable,
            ) => "adaptive_failed",
            Self::Started => "adaptive_phase_started",
            Self::SustainStarted => "sustain_started",
            Self::Window => "adaptive_window",
        }
    }
}

/// What one window said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Each limit by name with its value.
    pub values: Vec<(String, f64)>,
    /// The limit that is closest, or broken most, and its value.
    pub binding: Option<(String, f64)>,
    /// Good requests.
    pub good: u64,
    /// Failed requests.
    pub errors: u64,
    /// Requests that the end of the phase cut.
    pub cancelled: u64,
    /// Good requests per second.
    pub throughput: f64,
}

/// One thing told, with where the search stands after it.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub name: EventName,
    /// When.
    pub at: Stamp,
    /// What the controller is about now.
    pub stage: Stage,
    /// The load before.
    pub before: f64,
    /// The load after.
    pub after: f64,
    /// By how much it was changed.
    pub step: Option<f64>,
    /// Whether the window was within the limits; only of a window that was enough to judge.
    pub passed: Option<bool>,
    /// The number of the window, from 0.
    pub iteration: u32,
    /// Whether the values of the limits belong to it.
    pub tells_limits: bool,
    /// What the last window said.
    pub seen: Seen,
    /// Where the search stands.
    pub standing: Standing,
    /// Why, for people.
    pub reason: String,
}

/// Where the search stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The greatest load found to be within the limits, once it is known that more is not.
    pub boundary: Option<f64>,
    /// The last load that was within the limits.
    pub last_passing: Option<f64>,
    /// The first load that was not.
    pub first_failing: Option<f64>,
}

/// Why a load was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Nothing but failures came back.
    Errors,
    /// Too few requests came back.
    TooFew,
    /// A limit was broken.
    Limit,
}

impl Rejection {
    /// As written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Errors => "error_threshold",
            Self::Limit => "sla_miss",
            Self::TooFew => "insufficient_samples",
        }
    }
}

/// A load that was tried for one window.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The number of the window, from 0.
    pub iteration: u32,
    /// The load.
    pub value: f64,
    /// The window.
    pub begun: Stamp,
    /// Its end.
    pub ended: Stamp,
    /// Good requests.
    pub good: u64,
    /// Failed requests.
    pub errors: u64,
    /// Requests that the end of the phase cut.
    pub cancelled: u64,
    /// Good requests per second.
    pub throughput: f64,
    /// Mean latency; absent where nothing good came back.
    pub latency_avg_ns: Option<f64>,
    /// Median, 95th and 99th percentile of latency, time to the first token and between tokens.
    pub percentiles_ns: [[Option<f64>; 3]; 3],
    /// Why it was not taken; absent: it was.
    pub rejection: Option<Rejection>,
}

/// What comes of a window.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The load from now on.
    pub value: f64,
    /// Requests issued before this stamp count for no window to come.
    pub ignore_before: Option<Stamp>,
    /// Nothing more is to be sent.
    pub ends: Option<Ending>,
    /// What is to be told, in order.
    pub events: Vec<Event>,
}

/// Looks for the highest load within the limits.
#[derive(Debug)]
pub struct Controller {
    scale: Arc<Scale>,
    value: f64,
    stage: Stage,
    standing: Standing,
    iteration: u32,
    sustain_begun: Option<Stamp>,
    sustain_windows: u32,
    sustain_passed: u32,
    /// The last window of the sustain was not within the limits.
    failed_last: bool,
    last: Seen,
    candidates: Vec<Candidate>,
    ending: Option<Ending>,
}

impl Controller {
    /// A controller at the least load.
    pub fn new(scale: Arc<Scale>) -> Self {
        Self {
            value: scale.min,
            scale,
            stage: Stage::Discover,
            standing: Standing::default(),
            iteration: 0,
            sustain_begun: None,
            sustain_windows: 0,
            sustain_passed: 0,
            failed_last: false,
            last: Seen::default(),
            candidates: Vec::new(),
            ending: None,
        }
    }

    /// What the config wants.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The load now.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Where the search stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// How it ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// When holding began.
    pub fn sustain_begun(&self) -> Option<Stamp> {
        self.sustain_begun
    }

    /// Windows while holding, and how many of them were within the limits.
    pub fn sustain_windows(&self) -> (u32, u32) {
        (self.sustain_windows, self.sustain_passed)
    }

    /// What the last window said.
    pub fn last(&self) -> &Seen {
        &self.last
    }

    /// The loads tried so far, a window each.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The phase has started.
    pub fn start(&self, at: Stamp) -> Event {
        let reason = "adaptive scale discover phase started".to_owned();
        self.event(EventName::Started, at, self.value, reason)
    }

    /// The phase has ended before the search did.
    pub fn cancel(&mut self, at: Stamp) -> Option<Event> {
        if self.ending.is_some() {
            return None;
        }
        Some(self.end(Ending::PhaseCancelled, at, self.value))
    }

    /// Looks at a window and decides.
    pub fn handle_window(&mut self, window: &Window) -> Decision {
        let at = window.ended;
        let before = self.value;
        let verdict = self.judge(window);
        self.candidates.push(self.candidate(window, verdict));
        let passed = match verdict {
            Verdict::Inconclusive => None,
            Verdict::Failed(_) => Some(false),
            Verdict::Passed => Some(true),
        };
        let mut seen = self.event(EventName::Window, at, before, "SLA window evaluated".to_owned());
        (seen.passed, seen.tells_limits) = (passed, true);
        let mut events = vec![seen];
        let mut ignore_before = None;
        match (self.stage, verdict) {
            (Stage::Complete, _) | (_, Verdict::Inconclusive) => {}
            (Stage::Discover, Verdict::Passed) => self.rise(at, &mut events),
            (Stage::Discover, Verdict::Failed(_)) => {
                self.standing.first_failing = Some(self.value);
                match self.standing.last_passing {
                    None => events.push(self.end(Ending::NothingSustainable, at, before)),
                    Some(last) => {
                        self.value = last;
                        self.standing.boundary = Some(last);
                        self.stage = Stage::Sustain;
                        self.sustain_begun = Some(at);
                        ignore_before = Some(at);
                        let reason = format!("holding boundary_value={last}");
                        events.push(self.event(EventName::SustainStarted, at, before, reason));
                        let reason = self.broken("");
                        events.push(self.event(EventName::BoundaryDiscovered, at, self.value, reason));
                    }
                }
            }
            (Stage::Sustain, Verdict::Passed) => self.hold(at, &mut events),
            (Stage::Sustain, Verdict::Failed(_)) => self.step_back(at, &mut events),
        }
        self.iteration += 1;
        Decision { value: self.value, ignore_before, ends: self.ending, events }
    }

    fn rise(&mut self, at: Stamp, events: &mut Vec<Event>) {
        let before = self.value;
        self.standing.last_passing = Some(before);
        if before >= self.scale.max {
            events.push(self.end(Ending::MaxReached, at, before));
            return;
        }
        self.value = (before + self.step()).min(self.scale.max);
        let reason = format!("SLA value {:.3} passes configured filters", self.binding_value());
        events.push(self.changed(at, before, reason));
    }

    fn hold(&mut self, at: Stamp, events: &mut Vec<Event>) {
        self.sustain_windows += 1;
        self.sustain_passed += 1;
        self.failed_last = false;
        self.standing.last_passing = Some(self.value);
        let held = self.sustain_begun.map_or(0, |begun| at.since(begun).0);
        if held >= self.scale.sustain.0 {
            events.push(self.end(Ending::Sustained, at, self.value));
        }
    }

    fn step_back(&mut self, at: Stamp, events: &mut Vec<Event>) {
        self.sustain_windows += 1;
        let before = self.value;
        if self.failed_last {
            events.push(self.end(Ending::SustainFailed, at, before));
            return;
        }
        if before <= self.scale.min {
            events.push(self.end(Ending::SustainUnrecoverable, at, before));
            return;
        }
        self.failed_last = true;
        let lower = self.standing.last_passing.filter(|last| *last < before);
        self.value = lower.unwrap_or_else(|| (before - self.step()).max(self.scale.min));
        let reason = self.broken(" during sustain");
        events.push(self.changed(at, before, reason));
    }

    /// The step from here.
    fn step(&self) -> f64 {
        let Scale { policy, base_step, max_step_multiplier, step_percent, .. } = *self.scale;
        let step = match policy {
            StepPolicy::FixedPercentStep => (self.value * step_percent / 100.0).ceil().max(1.0),
            StepPolicy::SlaMargin => {
                let margins = self.scale.rules.all().iter().zip(&self.last.values);
                let least = margins
                    .filter_map(|(rule, (_, value))| rule.margin(*value))
                    .fold(f64::INFINITY, f64::min)
                    .max(0.0);
                let most = max_step_multiplier as f64;
                // Without a margin to go by, the step is the greatest.
                base_step as f64 * (least * most).floor().clamp(1.0, most)
            }
        };
        match self.scale.control {
            Control::Concurrency | Control::PrefillConcurrency | Control::Users => step.round(),
            Control::RequestRate => step,
        }
    }

    fn judge(&mut self, window: &Window) -> Verdict {
        let rules: &Rules = &self.scale.rules;
        let values: Vec<(String, f64)> =
            rules.all().iter().map(|rule| (rule.name(), rule.value(window))).collect();
        let tightness = |rule: &Rule, value: f64| {
            let margin =
                rule.margin(value).unwrap_or_else(|| if rule.holds(value) { 0.0 } else { f64::NEG_INFINITY });
            (rule.holds(value), margin)
        };
        let binding = rules
            .all()
            .iter()
            .zip(&values)
            .map(|(rule, (name, value))| (tightness(rule, *value), name, *value))
            .min_by(|left, right| left.0.0.cmp(&right.0.0).then(left.0.1.total_cmp(&right.0.1)))
            .map(|(_, name, value)| (name.clone(), value));
        let holds = rules.all().iter().zip(&values).all(|(rule, (_, value))| rule.holds(*value));
        let (good, errors, cancelled) = (window.good(), window.errors(), window.cancelled());
        let throughput = window.throughput();
        let nothing_good = good == 0 && errors + cancelled > 0;
        let verdict = if nothing_good && !rules.only_failures() {
            Verdict::Failed(Rejection::Errors)
        } else if good < self.scale.least && !(nothing_good && rules.only_failures()) {
            Verdict::Inconclusive
        } else if holds {
            Verdict::Passed
        } else {
            Verdict::Failed(Rejection::Limit)
        };
        self.last = Seen { values, binding, good, errors, cancelled, throughput };
        verdict
    }

    fn candidate(&self, window: &Window, verdict: Verdict) -> Candidate {
        let percentiles = |timing| [0.5, 0.95, 0.99].map(|q| window.quantile(timing, q));
        Candidate {
            iteration: self.iteration,
            value: self.value,
            begun: window.begun,
            ended: window.ended,
            good: window.good(),
            errors: window.errors(),
            cancelled: window.cancelled(),
            throughput: window.throughput(),
            latency_avg_ns: window.mean(Timing::Latency),
            percentiles_ns: [Timing::Latency, Timing::FirstToken, Timing::InterToken].map(percentiles),
            rejection: match verdict {
                Verdict::Failed(why) => Some(why),
                Verdict::Inconclusive => Some(Rejection::TooFew),
                Verdict::Passed => None,
            },
        }
    }

    fn binding_value(&self) -> f64 {
        self.last.binding.as_ref().map_or(f64::INFINITY, |(_, value)| *value)
    }

    fn broken(&self, when: &str) -> String {
        format!("SLA value {:.3} breaches configured filters{when}", self.binding_value())
    }

    fn end(&mut self, ending: Ending, at: Stamp, before: f64) -> Event {
        self.ending = Some(ending);
        self.stage = Stage::Complete;
        self.event(EventName::Ended(ending), at, before, ending.reason().to_owned())
    }

    fn changed(&self, at: Stamp, before: f64, reason: String) -> Event {
        let mut event = self.event(EventName::Decision, at, before, reason);
        event.step = Some((self.value - before).abs());
        event.tells_limits = true;
        event
    }

    fn event(&self, name: EventName, at: Stamp, before: f64, reason: String) -> Event {
        Event {
            name,
            at,
            stage: self.stage,
            before,
            after: self.value,
            step: None,
            passed: None,
            iteration: self.iteration,
            tells_limits: false,
            seen: self.last.clone(),
            standing: self.standing,
            reason,
        }
    }
}

/// What a window says about its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Failed(Rejection),
    Inconclusive,
    Passed,
}
