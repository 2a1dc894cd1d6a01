//! Flags of the load: they change the one profiling phase.

use crate::config::diagnostic::Diagnostic;
use crate::config::flags::edit::{add_sweep, member, place, remove, set};
use crate::config::flags::{Edited, Given, LoadFlag, Sets, SpecialFlag, text_node};
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value, shown};

/// Seconds that requests in flight get after a duration that a flag gives.
const GRACE_S: f64 = 30.0;

/// What belongs to a rate, and to schedules and users.
const OF_SERIES: &[&str] = &["rate_series"];
const OF_SCHEDULES: &[&str] = &["auto_offset", "start_offset", "end_offset"];
const OF_RATES: &[&str] = &["rate", "rate_ramp", "rate_series", "smoothness", "users"];

/// Applies the load flags among `given` to both trees.
pub(super) fn apply(trees: &mut Edited<'_>, given: &[Given], faults: &mut Vec<Diagnostic>) {
    let flags = Flags(given);
    let Some(first) = flags.first() else { return };
    let Some(Value::Sequence(phases)) = phases(trees.rendered).map(|node| &node.value) else { return };
    let profiling: Vec<usize> =
        phases.iter().enumerate().filter(|(_, phase)| is_profiling(phase)).map(|(at, _)| at).collect();
    let &[at] = profiling.as_slice() else {
        if profiling.len() > 1 {
            faults.push(several(&flags, first, phases, &profiling));
        }
        return;
    };
    let name = phases.get(at).and_then(|phase| text(phase, "name")).unwrap_or_else(|| at.to_string());
    for (index, tree) in [&mut *trees.rendered, &mut *trees.raw].into_iter().enumerate() {
        let mut found = Vec::new();
        let span = first.place();
        let phase = place(tree, &format!("benchmark.phases.{at}"), &span);
        change(phase, &flags, &mut found);
        for (given, field) in flags.lists() {
            let Ok(nodes) = given.nodes() else { continue };
            if nodes.len() > 1
                && let Err(fault) = add_sweep(tree, given, &format!("phases.{name}.{field}"), &nodes)
            {
                found.push(*fault);
            }
        }
        entries(tree, &flags, given);
        if index == 0 {
            faults.append(&mut found);
        }
    }
}

/// The list of phases.
pub(super) fn phases(tree: &Node) -> Option<&Node> {
    tree.entry("benchmark")?.node.entry("phases").map(|entry| &entry.node)
}

/// The text at the key `name` of `node`.
pub(super) fn text(node: &Node, name: &str) -> Option<String> {
    match member(node, name).map(|node| &node.value) {
        Some(Value::Scalar(Scalar::Text(text))) => Some(text.clone()),
        Some(_) | None => None,
    }
}

fn is_profiling(phase: &Node) -> bool {
    match text(phase, "kind") {
        Some(kind) => kind == "profiling",
        None => text(phase, "name").as_deref() == Some("profiling"),
    }
}

fn several(flags: &Flags<'_>, first: &Given, phases: &[Node], profiling: &[usize]) -> Diagnostic {
    let names: Vec<String> = profiling
        .iter()
        .filter_map(|at| phases.get(*at).and_then(|phase| text(phase, "name")))
        .map(|name| format!("`{}`", shown(&name)))
        .collect();
    let typed: Vec<String> = flags.all().map(|given| format!("`{}`", given.typed)).collect();
    let field = match first.flag.sets {
        Sets::Load(load) => field(load),
        _ => "...",
    };
    let fault = Diagnostic::error(format!(
        "{} changes the profiling phase, but this config has {}: {}",
        typed.join(", "),
        profiling.len(),
        names.join(", ")
    ))
    .at(first.place(), "which phase is meant?")
    .with_help(format!("write `{field}` into the phase that is meant"));
    match profiling.first().and_then(|at| phases.get(*at)).and_then(|phase| member(phase, "name")) {
        Some(name) => fault.with_context(name.span.clone(), "one of them"),
        None => fault,
    }
}

/// The key of a phase that a flag writes.
const fn field(flag: LoadFlag) -> &'static str {
    match flag {
        LoadFlag::ArrivalPattern | LoadFlag::FixedSchedule => "type",
        LoadFlag::ArrivalSmoothness => "smoothness",
        LoadFlag::CancellationDelay | LoadFlag::CancellationRate => "cancellation",
        LoadFlag::Concurrency => "concurrency",
        LoadFlag::ConcurrencyRamp => "concurrency_ramp",
        LoadFlag::Duration => "duration",
        LoadFlag::FixedScheduleAutoOffset => "auto_offset",
        LoadFlag::FixedScheduleEndOffset => "end_offset",
        LoadFlag::FixedScheduleStartOffset => "start_offset",
        LoadFlag::GracePeriod => "grace_period",
        LoadFlag::Other(name) => name,
        LoadFlag::PrefillConcurrency => "prefill_concurrency",
        LoadFlag::PrefillRamp => "prefill_ramp",
        LoadFlag::RateRamp => "rate_ramp",
        LoadFlag::RequestRate | LoadFlag::UserCentricRate => "rate",
        LoadFlag::RequestRateSeries => "rate_series",
        LoadFlag::Requests => "requests",
        LoadFlag::Sessions => "sessions",
        LoadFlag::Users => "users",
    }
}

/// The flags given, by what they change.
pub(super) struct Flags<'g>(pub(super) &'g [Given]);

impl<'g> Flags<'g> {
    fn all(&self) -> impl Iterator<Item = &'g Given> {
        self.0.iter().filter(|given| matches!(given.flag.sets, Sets::Load(_)))
    }

    fn first(&self) -> Option<&'g Given> {
        self.all().next()
    }

    /// The flag, if it was given.
    pub(super) fn given(&self, flag: LoadFlag) -> Option<&'g Given> {
        self.0.iter().find(|given| matches!(given.flag.sets, Sets::Load(found) if found == flag))
    }

    /// Its first value, if it was given and is good.
    pub(super) fn node(&self, flag: LoadFlag) -> Option<Node> {
        self.given(flag)?.nodes().ok()?.into_iter().next()
    }

    fn is_on(&self, flag: LoadFlag) -> Option<&'g Given> {
        let on = self.node(flag)?.value == Value::Scalar(Scalar::Bool(true));
        self.given(flag).filter(|_| on)
    }

    fn lists(&self) -> impl Iterator<Item = (&'g Given, &'static str)> {
        self.all().filter_map(|given| match given.flag.sets {
            Sets::Load(flag) => Some((given, field(flag))),
            _ => None,
        })
    }
}

/// Changes the phase.
pub(super) fn change(phase: &mut Node, flags: &Flags<'_>, faults: &mut Vec<Diagnostic>) {
    change_type(phase, flags, faults);
    let kind = text(phase, "type").unwrap_or_default();
    let has_rate = matches!(kind.as_str(), "poisson" | "gamma" | "constant" | "user_centric");
    let mut refuse = |flag: LoadFlag, why: &str, help: &str| {
        if let Some(given) = flags.given(flag) {
            faults.push(given.fault(format!("`{}` {why}", given.typed), "does not fit the phase", help));
        }
    };
    if kind != "user_centric" {
        refuse(LoadFlag::Users, "needs a phase of type `user_centric`", "add `--user-centric-rate`");
    }
    if kind == "user_centric" && member(phase, "users").is_none() && flags.given(LoadFlag::Users).is_none() {
        refuse(LoadFlag::UserCentricRate, "needs to know how many users there are", "add `--num-users`");
    }
    if !has_rate {
        refuse(LoadFlag::RateRamp, "needs a phase with a rate", "add `--request-rate`");
    }
    if kind != "fixed_schedule" {
        for flag in [
            LoadFlag::FixedScheduleAutoOffset,
            LoadFlag::FixedScheduleStartOffset,
            LoadFlag::FixedScheduleEndOffset,
        ] {
            refuse(flag, "needs a phase of type `fixed_schedule`", "add `--fixed-schedule`");
        }
    }
    let cancels =
        flags.given(LoadFlag::CancellationRate).is_some() || member(phase, "cancellation").is_some();
    if !cancels {
        refuse(LoadFlag::CancellationDelay, "needs a cancellation rate", "add `--request-cancellation-rate`");
    }
    if faults.is_empty() {
        write_fields(phase, flags);
    }
}

fn write_fields(phase: &mut Node, flags: &Flags<'_>) {
    for given in flags.all() {
        let (Sets::Load(flag), Ok(nodes)) = (given.flag.sets, given.nodes()) else { continue };
        let Some(node) = nodes.into_iter().next() else { continue };
        match flag {
            LoadFlag::ConcurrencyRamp | LoadFlag::PrefillRamp | LoadFlag::RateRamp => {
                ramp(phase, field(flag), node);
            }
            LoadFlag::CancellationRate => set(phase, "cancellation.rate", node),
            LoadFlag::CancellationDelay => set(phase, "cancellation.delay", node),
            LoadFlag::Duration => {
                let span = node.span.clone();
                set(phase, "duration", node);
                if member(phase, "grace_period").is_none() && flags.given(LoadFlag::GracePeriod).is_none() {
                    set(phase, "grace_period", Node { span, value: Value::Scalar(Scalar::Float(GRACE_S)) });
                }
            }
            LoadFlag::FixedScheduleStartOffset => {
                let span = node.span.clone();
                set(phase, "start_offset", node);
                if flags.given(LoadFlag::FixedScheduleAutoOffset).is_none() {
                    set(phase, "auto_offset", Node { span, value: Value::Scalar(Scalar::Bool(false)) });
                }
            }
            LoadFlag::ArrivalPattern
            | LoadFlag::ArrivalSmoothness
            | LoadFlag::FixedSchedule
            | LoadFlag::RequestRate
            | LoadFlag::RequestRateSeries
            | LoadFlag::UserCentricRate => {}
            LoadFlag::Concurrency
            | LoadFlag::FixedScheduleAutoOffset
            | LoadFlag::FixedScheduleEndOffset
            | LoadFlag::GracePeriod
            | LoadFlag::Other(_)
            | LoadFlag::PrefillConcurrency
            | LoadFlag::Requests
            | LoadFlag::Sessions
            | LoadFlag::Users => {
                set(phase, field(flag), node);
            }
        }
    }
}

/// A new duration for a ramp; its strategy stays.
pub(super) fn ramp(phase: &mut Node, name: &str, duration: Node) {
    let span = duration.span.clone();
    let target = place(phase, name, &span);
    if !matches!(target.value, Value::Mapping(_)) {
        *target = Node { span, value: Value::Mapping(Vec::new()) };
    }
    set(target, "duration", duration);
}

/// What the flags of type and rate make of the phase.
fn change_type(phase: &mut Node, flags: &Flags<'_>, faults: &mut Vec<Diagnostic>) {
    let rate = flags.given(LoadFlag::RequestRate);
    let series = flags.given(LoadFlag::RequestRateSeries);
    let users_rate = flags.given(LoadFlag::UserCentricRate);
    let schedule = flags.is_on(LoadFlag::FixedSchedule);
    let sources: Vec<&Given> = [rate, series, users_rate, schedule].into_iter().flatten().collect();
    if let [first, second, ..] = sources.as_slice() {
        faults.push(second.fault(
            format!("`{}` and `{}` exclude each other", first.typed, second.typed),
            "one of the two",
            "leave one of them out",
        ));
        return;
    }
    let kind = text(phase, "type").unwrap_or_default();
    if let Some(given) = users_rate {
        remove(phase, OF_SERIES);
        remove(phase, OF_SCHEDULES);
        remove(phase, &["smoothness"]);
        set(phase, "type", text_node("user_centric", &given.place()));
        write_first(phase, "rate", given);
    } else if let Some(given) = schedule {
        remove(phase, OF_RATES);
        set(phase, "type", text_node("fixed_schedule", &given.place()));
    } else if let Some(given) = rate.or(series) {
        remove(phase, OF_SCHEDULES);
        remove(phase, &["rate_series"]);
        if !matches!(kind.as_str(), "poisson" | "gamma" | "constant" | "user_centric") {
            remove(phase, &["smoothness", "users"]);
            set(phase, "type", text_node("poisson", &given.place()));
        }
        if series.is_some() {
            remove(phase, &["rate"]);
        }
        write_first(phase, if series.is_some() { "rate_series" } else { "rate" }, given);
    }
    change_pattern(phase, flags, faults);
}

fn write_first(phase: &mut Node, name: &str, given: &Given) {
    if let Some(node) = given.nodes().ok().and_then(|nodes| nodes.into_iter().next()) {
        set(phase, name, node);
    }
}

/// What `--arrival-pattern` and `--arrival-smoothness` make of the phase.
fn change_pattern(phase: &mut Node, flags: &Flags<'_>, faults: &mut Vec<Diagnostic>) {
    let pattern = flags.given(LoadFlag::ArrivalPattern);
    let smoothness = flags.given(LoadFlag::ArrivalSmoothness);
    let Some(given) = pattern.or(smoothness) else { return };
    let kind = text(phase, "type").unwrap_or_default();
    if !matches!(kind.as_str(), "poisson" | "gamma" | "constant") {
        faults.push(given.fault(
            format!("`{}` needs a phase with a rate", given.typed),
            "no rate",
            "add `--request-rate`",
        ));
        return;
    }
    let wanted = match pattern.and_then(|pattern| pattern.values.first().map(|value| (pattern, value))) {
        Some((pattern, value)) => {
            let word = value.value.to_ascii_lowercase().replace('-', "_");
            let Some(known) = ["poisson", "gamma", "constant", "concurrency_burst"]
                .into_iter()
                .find(|known| *known == word)
            else {
                faults.push(pattern.fault(
                    format!(
                        "`{}` takes `poisson`, `gamma` or `constant`, found `{}`",
                        pattern.typed,
                        shown(&value.value)
                    ),
                    "no arrival pattern",
                    "write `poisson`",
                ));
                return;
            };
            Some(if known == "concurrency_burst" { "poisson" } else { known })
        }
        None => None,
    };
    if let (Some(smoothness), Some(wanted)) = (smoothness, wanted)
        && wanted != "gamma"
    {
        faults.push(smoothness.fault(
            format!("`{}` belongs to the pattern `gamma`, not to `{wanted}`", smoothness.typed),
            "not with this pattern",
            "write `--arrival-pattern gamma`",
        ));
        return;
    }
    let kind = wanted.unwrap_or("gamma");
    set(phase, "type", text_node(kind, &given.place()));
    if kind != "gamma" {
        remove(phase, &["smoothness"]);
    }
    if let Some(smoothness) = smoothness {
        write_first(phase, "smoothness", smoothness);
    }
}

/// `--num-sessions` is the size of the dataset too, unless that is given.
fn entries(tree: &mut Node, flags: &Flags<'_>, given: &[Given]) {
    let named = given.iter().any(|given| matches!(given.flag.sets, Sets::Special(SpecialFlag::Entries)));
    let Some(sessions) = flags.given(LoadFlag::Sessions).filter(|_| !named) else { return };
    if let Some(node) = largest(sessions) {
        set(tree, "benchmark.datasets.0.entries", node);
    }
}

/// The largest of the whole numbers given.
pub(super) fn largest(given: &Given) -> Option<Node> {
    let nodes = given.nodes().ok()?.into_iter();
    nodes.max_by_key(|node| match &node.value {
        Value::Scalar(Scalar::Integer(value)) => *value,
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => 0,
    })
}
