//! Flags of the warmup: they change the first warmup phase, or put one in front.

use crate::config::diagnostic::Diagnostic;
use crate::config::flags::edit::{member, place, set};
use crate::config::flags::load::{Flags, phases, ramp, text};
use crate::config::flags::{Edited, Given, LoadFlag, Sets, WarmupFlag, text_node};
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

/// Applies the warmup flags among `given` to both trees.
pub(super) fn apply(trees: &mut Edited<'_>, given: &[Given], has_file: bool, faults: &mut Vec<Diagnostic>) {
    let flags: Vec<(&Given, WarmupFlag)> = given
        .iter()
        .filter_map(|given| match given.flag.sets {
            Sets::Warmup(flag) => Some((given, flag)),
            _ => None,
        })
        .collect();
    let Some((first, _)) = flags.first() else { return };
    let Some(Value::Sequence(known)) = phases(trees.rendered).map(|node| &node.value) else { return };
    let is_warmup = |phase: &Node| match text(phase, "kind") {
        Some(kind) => kind == "warmup",
        None => text(phase, "name").as_deref() == Some("warmup"),
    };
    let at = known.iter().position(is_warmup);
    let triggers = flags
        .iter()
        .any(|(_, flag)| matches!(flag, WarmupFlag::Requests | WarmupFlag::Duration | WarmupFlag::Sessions));
    if at.is_none() && !triggers {
        let grace = flags.iter().find(|(_, flag)| *flag == WarmupFlag::GracePeriod);
        if has_file || grace.is_some() {
            let given = grace.map_or(*first, |(given, _)| given);
            faults.push(given.fault(
                format!("`{}` has no warmup phase to change", given.typed),
                "no warmup",
                "add `--warmup-request-count` or `--warmup-duration`",
            ));
        } else {
            faults.push(
                Diagnostic::warning(format!("`{}` is not used: there is no warmup", first.typed))
                    .at(first.place(), "not used")
                    .with_help("add `--warmup-request-count` or `--warmup-duration`"),
            );
        }
        return;
    }
    for (index, tree) in [&mut *trees.rendered, &mut *trees.raw].into_iter().enumerate() {
        let mut found = Vec::new();
        let span = first.place();
        let list = place(tree, "benchmark.phases", &span);
        let Value::Sequence(list) = &mut list.value else { return };
        let at = at.unwrap_or_else(|| {
            list.insert(0, added(first, &Flags(given), &flags));
            0
        });
        if let Some(phase) = list.get_mut(at) {
            change(phase, &flags, &mut found);
        }
        if index == 0 {
            faults.append(&mut found);
        }
    }
}

/// A warmup that takes over from the load flags what no warmup flag says.
fn added(first: &Given, load: &Flags<'_>, flags: &[(&Given, WarmupFlag)]) -> Node {
    let span = first.place();
    let mut phase = Node { span: span.clone(), value: Value::Mapping(Vec::new()) };
    let said = |flag: WarmupFlag| flags.iter().any(|(_, found)| *found == flag);
    // A list is for the profiling phase alone.
    let single = |flag: LoadFlag| {
        let given = load.given(flag)?;
        let mut nodes = given.nodes().ok()?;
        if nodes.len() == 1 { nodes.pop() } else { None }
    };
    let rate = single(LoadFlag::RequestRate).filter(|_| !said(WarmupFlag::RequestRate));
    let has_rate = rate.is_some() || said(WarmupFlag::RequestRate);
    let pattern = load.node(LoadFlag::ArrivalPattern).and_then(|node| match node.value {
        Value::Scalar(Scalar::Text(text)) => Some(text.to_ascii_lowercase().replace('-', "_")),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
    });
    let smooth = load.node(LoadFlag::ArrivalSmoothness);
    let kind = match (has_rate, pattern.as_deref()) {
        (false, _) => "concurrency",
        (true, Some("gamma")) => "gamma",
        (true, Some("constant")) => "constant",
        (true, None) if smooth.is_some() => "gamma",
        (true, Some(_) | None) => "poisson",
    };
    set(&mut phase, "name", text_node("warmup", &span));
    set(&mut phase, "kind", text_node("warmup", &span));
    set(&mut phase, "type", text_node(kind, &span));
    if let Some(rate) = rate {
        set(&mut phase, "rate", rate);
    }
    if let Some(smooth) = smooth.filter(|_| kind == "gamma") {
        set(&mut phase, "smoothness", smooth);
    }
    for (flag, own, name) in [
        (LoadFlag::Concurrency, WarmupFlag::Concurrency, "concurrency"),
        (LoadFlag::PrefillConcurrency, WarmupFlag::PrefillConcurrency, "prefill_concurrency"),
    ] {
        if let Some(node) = single(flag).filter(|_| !said(own)) {
            set(&mut phase, name, node);
        }
    }
    for (flag, own, name) in [
        (LoadFlag::ConcurrencyRamp, WarmupFlag::ConcurrencyRamp, "concurrency_ramp"),
        (LoadFlag::PrefillRamp, WarmupFlag::PrefillRamp, "prefill_ramp"),
        (LoadFlag::RateRamp, WarmupFlag::RateRamp, "rate_ramp"),
    ] {
        let fits = name != "rate_ramp" || has_rate;
        if let Some(node) = single(flag).filter(|_| fits && !said(own)) {
            ramp(&mut phase, name, node);
        }
    }
    phase
}

fn change(phase: &mut Node, flags: &[(&Given, WarmupFlag)], faults: &mut Vec<Diagnostic>) {
    let find = |flag: WarmupFlag| flags.iter().find(|(_, found)| *found == flag).map(|(given, _)| *given);
    if let Some(given) = find(WarmupFlag::ArrivalPattern) {
        let has_rate = find(WarmupFlag::RequestRate).is_some() || member(phase, "rate").is_some();
        let word = given.values.first().map(|value| value.value.to_ascii_lowercase().replace('-', "_"));
        let kind = match word.as_deref() {
            Some("gamma") => "gamma",
            Some("constant") => "constant",
            _ => "poisson",
        };
        if has_rate {
            set(phase, "type", text_node(kind, &given.place()));
        } else {
            faults.push(given.fault(
                format!("`{}` needs a warmup with a rate", given.typed),
                "no rate",
                "add `--warmup-request-rate`",
            ));
        }
    }
    let kind = text(phase, "type").unwrap_or_default();
    if kind == "concurrency"
        && let Some(given) = find(WarmupFlag::RequestRate).or_else(|| find(WarmupFlag::RateRamp))
    {
        faults.push(given.fault(
            format!("`{}` needs a warmup whose type has a rate", given.typed),
            "the warmup is of type `concurrency`",
            "add `--warmup-arrival-pattern poisson`",
        ));
        return;
    }
    for (given, flag) in flags {
        let Some(node) = given.nodes().ok().and_then(|nodes| nodes.into_iter().next()) else { continue };
        match flag {
            WarmupFlag::ArrivalPattern => {}
            WarmupFlag::Concurrency => set(phase, "concurrency", node),
            WarmupFlag::ConcurrencyRamp => ramp(phase, "concurrency_ramp", node),
            WarmupFlag::Duration => set(phase, "duration", node),
            WarmupFlag::GracePeriod => set(phase, "grace_period", node),
            WarmupFlag::PrefillConcurrency => set(phase, "prefill_concurrency", node),
            WarmupFlag::PrefillRamp => ramp(phase, "prefill_ramp", node),
            WarmupFlag::RateRamp => ramp(phase, "rate_ramp", node),
            WarmupFlag::RequestRate => set(phase, "rate", node),
            WarmupFlag::Requests => set(phase, "requests", node),
            WarmupFlag::Sessions => set(phase, "sessions", node),
        }
    }
}
