//! `adaptive_scale` and `sla` of a phase.

use serde_json::json;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spelling, Words, Written, mismatch, value_place};
use crate::config::lax;
use crate::config::meant::{AdaptiveScale, Control, SlaRule, StepPolicy};
use crate::config::sections::phase::{LoadKind, Phase, is_off, no_switch};
use crate::config::sections::require;
use crate::config::source::{Node, Value, shown};

/// The controller as written.
pub(super) struct Adaptive {
    pub(super) enabled: bool,
    pub(super) place: Span,
    control: Written<Control>,
    min: Written<f64>,
    max: Written<f64>,
    period_s: Option<f64>,
    completed: u64,
    sustain_s: Written<f64>,
    policy: StepPolicy,
    base_step: u64,
    multiplier: u64,
    percent: f64,
    pub(super) sla: Vec<SlaRule>,
    /// Whether limits were written, good or not.
    sla_written: bool,
}

const CONTROLS: Words<Control> = Words {
    known: &[
        ("concurrency", Control::Concurrency),
        ("prefill_concurrency", Control::PrefillConcurrency),
        ("request_rate", Control::RequestRate),
        ("users", Control::Users),
    ],
    spelling: Spelling::Lenient,
};
const POLICIES: Words<StepPolicy> = Words {
    known: &[("sla_margin", StepPolicy::SlaMargin), ("fixed_percent_step", StepPolicy::FixedPercentStep)],
    spelling: Spelling::Lenient,
};
const STRATEGY_TYPES: Words<()> = Words { known: &[("ramp_until_fail", ())], spelling: Spelling::Lenient };
const OPS: &[&str] = &["lt", "le", "gt", "ge"];

/// The short names of one phase's own fields, beside the mapping.
const FLAT: &[&str] = &[
    "adaptive_sustain_duration",
    "adaptive_assessment_period",
    "adaptive_min_completed_requests",
    "adaptive_control_variable",
    "adaptive_control_min",
    "adaptive_control_max",
    "adaptive_scale_strategy_type",
    "adaptive_scale_step_policy",
    "adaptive_scale_base_step",
    "adaptive_scale_max_step_multiplier",
    "adaptive_scale_step_percent",
];

/// Reads the controller of a phase, if one is written.
pub(super) fn adaptive(keys: &mut Keys<'_>) -> Option<Adaptive> {
    let flat = FLAT.iter().any(|name| keys.has(name));
    let key = keys.key("adaptive_scale").or_null();
    let Some(entry) = key.entry() else {
        // The flat names alone set up a controller that is off.
        if flat {
            let place = keys.place();
            let written = flat_fields(keys, place);
            return Some(Adaptive { enabled: false, ..written });
        }
        return None;
    };
    let place = value_place(entry);
    match &entry.node.value {
        Value::Mapping(_) => {
            let read = key.section(|keys| of_mapping(keys, place.clone()));
            keys.set_form("adaptive_scale", json!(true));
            let nested = read.optional()?;
            if flat {
                flat_fields(keys, place);
            }
            Some(nested)
        }
        Value::Scalar(_) | Value::Sequence(_) => {
            if let Some(off) = is_off(&entry.node) {
                key.switch();
                let written = flat_fields(keys, place);
                Some(Adaptive { enabled: !off, ..written })
            } else {
                let fault = no_switch("adaptive_scale", &entry.node, &place);
                keys.fault(fault);
                None
            }
        }
    }
}

fn flat_fields(keys: &mut Keys<'_>, place: Span) -> Adaptive {
    Adaptive {
        enabled: false,
        place,
        sustain_s: keys.key("adaptive_sustain_duration").or_null().number(Bound::Above(0.0)),
        period_s: keys.key("adaptive_assessment_period").or_null().number(Bound::AtLeast(1.0)).optional(),
        completed: keys.key("adaptive_min_completed_requests").whole(1..=u64::MAX).or(1),
        control: keys.key("adaptive_control_variable").word(CONTROLS),
        min: keys.key("adaptive_control_min").number(Bound::Above(0.0)),
        max: keys.key("adaptive_control_max").or_null().number(Bound::Above(0.0)),
        policy: {
            keys.key("adaptive_scale_strategy_type").word(STRATEGY_TYPES);
            keys.key("adaptive_scale_step_policy").word(POLICIES).or(StepPolicy::SlaMargin)
        },
        base_step: keys.key("adaptive_scale_base_step").whole(1..=u64::MAX).or(BASE_STEP),
        multiplier: keys.key("adaptive_scale_max_step_multiplier").whole(1..=u64::MAX).or(MULTIPLIER),
        percent: keys.key("adaptive_scale_step_percent").number(Bound::Above(0.0)).or(PERCENT),
        sla: Vec::new(),
        sla_written: false,
    }
}

const BASE_STEP: u64 = 10;
const MULTIPLIER: u64 = 4;
const PERCENT: f64 = 25.0;

fn of_mapping(mut keys: Keys<'_>, place: Span) -> Adaptive {
    let enabled = keys.key("enabled").switch().or(true);
    let mut control = Written::Absent;
    let (mut min, mut max) = (Written::Absent, Written::Absent);
    keys.key("control").or_null().section(|mut keys| {
        control = keys.key("variable").word(CONTROLS);
        min = keys.key("min").number(Bound::Above(0.0));
        max = keys.key("max").or_null().number(Bound::Above(0.0));
        keys.finish();
    });
    let short = keys.key("control_variable").word(CONTROLS);
    control = if short.is_absent() { control } else { short };
    for name in ["control_min", "min_concurrency"] {
        let short = keys.key(name).number(Bound::Above(0.0));
        min = if short.is_absent() { min } else { short };
    }
    for name in ["control_max", "max_concurrency"] {
        let short = keys.key(name).number(Bound::Above(0.0));
        max = if short.is_absent() { max } else { short };
    }
    let window = keys.key("window").number(Bound::AtLeast(1.0));
    let period = keys.key("assessment_period").number(Bound::AtLeast(1.0));
    let completed = keys.key("min_completed_requests").whole(1..=u64::MAX).or(1);
    let sustain_s = keys.key("sustain_duration").number(Bound::Above(0.0));
    let strategy = keys.key("strategy").or_null().section(|mut keys| {
        keys.key("type").word(STRATEGY_TYPES);
        let policy = keys.key("step_policy").word(POLICIES).or(StepPolicy::SlaMargin);
        let base_step = keys.key("base_step").whole(1..=u64::MAX).or(BASE_STEP);
        let multiplier = keys.key("max_step_multiplier").whole(1..=u64::MAX).or(MULTIPLIER);
        let percent = keys.key("step_percent").number(Bound::Above(0.0)).or(PERCENT);
        keys.finish();
        (policy, base_step, multiplier, percent)
    });
    let sla_written = keys.has("sla");
    let sla = sla(&mut keys, "sla");
    keys.finish();
    let (policy, base_step, multiplier, percent) =
        strategy.or((StepPolicy::SlaMargin, BASE_STEP, MULTIPLIER, PERCENT));
    Adaptive {
        enabled,
        place,
        control,
        min,
        max,
        period_s: period.optional().or_else(|| window.optional()),
        completed,
        sustain_s,
        policy,
        base_step,
        multiplier,
        percent,
        sla,
        sla_written,
    }
}

/// The rules between the controller and its phase; absent when one is broken. `has_own_limits` says whether the
/// phase has limits beside the controller's.
pub(super) fn checked(
    keys: &mut Keys<'_>,
    phase: &Phase,
    written: Adaptive,
    has_own_limits: bool,
) -> Option<AdaptiveScale> {
    let control = written.control.value().copied().unwrap_or(Control::Concurrency);
    let own = match control {
        Control::Concurrency => phase
            .concurrency
            .value()
            .copied()
            .or_else(|| (phase.load.value() == Some(&LoadKind::Concurrency)).then_some(1))
            .map(f64::from),
        Control::PrefillConcurrency => phase.prefill_concurrency.value().copied().map(f64::from),
        Control::RequestRate => phase.rate_per_s.value().copied(),
        Control::Users => phase.users.value().copied().map(f64::from),
    };
    let ramped = match control {
        Control::Concurrency => !phase.concurrency_ramp.is_absent(),
        Control::PrefillConcurrency => !phase.prefill_ramp.is_absent(),
        Control::RequestRate => !phase.rate_ramp.is_absent() || !phase.rate_series.is_absent(),
        Control::Users => false,
    };
    let min = written.min.value().copied().unwrap_or(1.0);
    let max = written.max.value().copied();
    let whole = |value: f64| value.fract() == 0.0;
    let name = control.name();
    let broken = if phase.load.value() == Some(&LoadKind::FixedSchedule) {
        Some(("a fixed schedule has nothing to scale".to_owned(), "take it out"))
    } else if phase.duration_s.is_absent() {
        Some(("it needs a `duration`".to_owned(), "add `duration` to the phase"))
    } else if written.sustain_s.is_absent() {
        Some(("it needs `sustain_duration`".to_owned(), "add `sustainDuration: 30`"))
    } else if !has_own_limits && !written.sla_written {
        Some(("it needs an `sla` to keep".to_owned(), "add `sla: {request_latency: {p95: {lt: 500}}}`"))
    } else if ramped {
        Some((format!("it changes `{name}`, which a ramp or series changes too"), "keep one of the two"))
    } else if control != Control::RequestRate && !(whole(min) && max.is_none_or(whole)) {
        Some((format!("the limits of `{name}` are whole numbers"), "write whole numbers"))
    } else if max.or(own).is_none() {
        Some((format!("it needs a greatest value of `{name}`"), "add `control: {max: ...}`"))
    } else if max.or(own).is_some_and(|most| most <= min) || own.is_some_and(|own| own < min) {
        Some((
            format!("the least value of `{name}` ({min}) is not below the greatest and the phase's own"),
            "lower `min`",
        ))
    } else {
        None
    };
    if let Some((why, help)) = broken {
        let at = keys.path().to_owned();
        keys.fault(
            Diagnostic::error(format!("`{at}.adaptive_scale`: {why}"))
                .at(written.place, "cannot work like this")
                .with_help(help),
        );
        return None;
    }
    Some(AdaptiveScale {
        control,
        control_min: min,
        control_max: max,
        assessment_period_s: written.period_s,
        min_completed_requests: written.completed,
        sustain_s: written.sustain_s.optional()?,
        step_policy: written.policy,
        base_step: written.base_step,
        max_step_multiplier: written.multiplier,
        step_percent: written.percent,
    })
}

/// A list of rules, or metric to statistic to comparison to number.
pub(super) fn sla(keys: &mut Keys<'_>, name: &'static str) -> Vec<SlaRule> {
    let key = keys.key(name).or_null();
    let Some(entry) = key.entry() else { return Vec::new() };
    match &entry.node.value {
        Value::Sequence(items) if items.is_empty() => Vec::new(),
        Value::Sequence(_) => {
            let rules = keys.items(name, "a list of limits", rule);
            rules.or(Vec::new()).into_iter().flatten().collect()
        }
        Value::Mapping(_) => {
            let path = format!("{}.{name}", keys.path());
            let rules = nested(keys, &path, &entry.node);
            let form: Vec<_> = rules
                .iter()
                .map(|rule| json!({"metric_tag": rule.metric, "stat": rule.stat, "op": rule.op, "threshold": rule.threshold}))
                .collect();
            keys.set_form(name, form.into());
            rules
        }
        Value::Scalar(_) => {
            key.refuse("a list of limits, or a mapping from metrics to them");
            Vec::new()
        }
    }
}

const COMPARISONS: Words<&str> =
    Words { known: &[("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge")], spelling: Spelling::Exact };

fn rule(mut keys: Keys<'_>) -> Option<SlaRule> {
    let metric = keys.key("metric_tag").text();
    let stat = keys.key("stat").text().or("p95".to_owned());
    let op = keys.key("op").word(COMPARISONS);
    let threshold = keys.key("threshold").number(Bound::Finite);
    require(&mut keys, &metric, "metric_tag");
    require(&mut keys, &op, "op");
    require(&mut keys, &threshold, "threshold");
    keys.finish();
    Some(SlaRule { metric: metric.optional()?, stat, op: op.optional()?, threshold: threshold.optional()? })
}

fn nested(keys: &mut Keys<'_>, path: &str, node: &Node) -> Vec<SlaRule> {
    let mut rules = Vec::new();
    let Value::Mapping(metrics) = &node.value else { return rules };
    for metric in metrics {
        let path = format!("{path}.{}", shown(&metric.key));
        let Value::Mapping(stats) = &metric.node.value else {
            keys.fault(mismatch(
                &path,
                "a mapping such as `{p95: {lt: 500}}`",
                &metric.node,
                &metric.key_span,
            ));
            continue;
        };
        for stat in stats {
            let path = format!("{path}.{}", shown(&stat.key));
            let Value::Mapping(ops) = &stat.node.value else {
                keys.fault(mismatch(&path, "a mapping such as `{lt: 500}`", &stat.node, &stat.key_span));
                continue;
            };
            for op in ops {
                let threshold = match &op.node.value {
                    Value::Scalar(scalar) => lax::number(scalar).filter(|value| value.is_finite()),
                    Value::Sequence(_) | Value::Mapping(_) => None,
                };
                match (OPS.iter().find(|known| **known == op.key), threshold) {
                    (Some(op), Some(threshold)) => rules.push(SlaRule {
                        metric: metric.key.clone(),
                        stat: stat.key.clone(),
                        op,
                        threshold,
                    }),
                    (Some(_), None) => {
                        let path = format!("{path}.{}", op.key);
                        keys.fault(mismatch(&path, "a number", &op.node, &op.key_span));
                    }
                    (None, _) => keys.fault(
                        Diagnostic::error(format!("`{path}.{}` is no comparison", shown(&op.key)))
                            .at(op.key_span.clone(), "must be `lt`, `le`, `gt` or `ge`")
                            .with_help("for example `{p95: {lt: 500}}`"),
                    ),
                }
            }
        }
    }
    rules
}
