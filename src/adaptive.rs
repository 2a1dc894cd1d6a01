//! Phases that look for the highest load within their limits: windows in, decisions out.
//!
//! A [`Scale`] is what the config wants; each shard gathers what returned in a [`WindowTally`]; the merged
//! [`Window`] goes to the [`Controller`], which answers with the load to come and what is to be told about it. It
//! changes no load itself and knows neither shards nor files.

mod controller;
mod rules;
mod search;
mod window;

pub use controller::{
    Candidate, Controller, Decision, Ending, Event, EventName, Rejection, Seen, Stage, Standing,
};
pub use rules::{Rule, RuleError, Rules};
pub use search::{Axis, KneeSearch, PatternSearch, Stopped};
pub use window::{Timing, Window, WindowTally};

use crate::config::{Control, Load, Phase, StepPolicy};
use crate::time::Nanos;

/// Seconds of a window unless written.
const PERIOD_S: f64 = 30.0;

/// A phase whose load is looked for.
#[derive(Clone, Debug)]
pub struct Scale {
    /// What is changed.
    pub control: Control,
    /// Its least value, above 0, from which it starts.
    pub min: f64,
    /// Its greatest value, above the least.
    pub max: f64,
    /// Length of a window.
    pub period: Nanos,
    /// Good requests that a window needs to say anything, at least 1.
    pub least: u64,
    /// How long the load found must hold.
    pub sustain: Nanos,
    /// How steps are chosen.
    pub policy: StepPolicy,
    /// Least step, at least 1.
    pub base_step: u64,
    /// Greatest step as a multiple of the least, at least 1.
    pub max_step_multiplier: u64,
    /// Step in percent, above 0.
    pub step_percent: f64,
    /// The limits, at least one.
    pub rules: Rules,
}

impl Scale {
    /// What a phase wants looked for; `None` when its load is fixed.
    ///
    /// # Errors
    /// A limit on a metric or statistic that windows do not have.
    pub fn of(phase: &Phase) -> Result<Option<Self>, RuleError> {
        let Some(scale) = &phase.adaptive else { return Ok(None) };
        let own = match scale.control {
            Control::Concurrency => phase.load.concurrency().map(f64::from),
            Control::PrefillConcurrency => phase.prefill_concurrency.map(f64::from),
            Control::RequestRate => phase.load.rate_per_s(),
            Control::Users => match phase.load {
                Load::UserCentric { users, .. } => Some(f64::from(users)),
                Load::Concurrency { .. }
                | Load::Constant { .. }
                | Load::FixedSchedule { .. }
                | Load::Gamma { .. }
                | Load::Poisson { .. } => None,
            },
        };
        Ok(Some(Self {
            control: scale.control,
            min: scale.control_min,
            max: scale.control_max.or(own).unwrap_or(scale.control_min),
            period: Nanos::from_secs_f64(scale.assessment_period_s.unwrap_or(PERIOD_S)),
            least: scale.min_completed_requests,
            sustain: Nanos::from_secs_f64(scale.sustain_s),
            policy: scale.step_policy,
            base_step: scale.base_step,
            max_step_multiplier: scale.max_step_multiplier,
            step_percent: scale.step_percent,
            rules: Rules::new(&phase.sla)?,
        }))
    }

    /// The greatest value as a limit of slots; absent where something else is changed.
    pub fn slots_max(&self, control: Control) -> Option<u32> {
        (self.control == control).then(|| whole(self.max))
    }
}

/// A value of the control as a number of slots.
pub fn whole(value: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and values are whole and not negative"
    )]
    let whole = value.round() as u32;
    whole
}
