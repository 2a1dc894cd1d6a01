//! The document that flags alone start from.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::flags::edit::{member, place, set};
use crate::config::flags::load::{largest, text};
use crate::config::flags::{Given, LoadFlag, Sets, SpecialFlag, text_node};
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

/// Where the load goes unless given.
const URL: &str = "http://localhost:8000";
/// Requests of a run that nothing else ends.
const REQUESTS: i128 = 10;

/// A document with the defaults of a run without a file, before flags are applied. `end` is the place where
/// something that is missing is shown.
pub fn document(given: &[Given], end: &Span) -> Node {
    let mut root = Node { span: end.clone(), value: Value::Mapping(Vec::new()) };
    let node = |value: Value| Node { span: end.clone(), value };
    let list = |item: Node| node(Value::Sequence(vec![item]));
    let url = node(Value::Scalar(Scalar::Text(URL.to_owned())));
    set(&mut root, "benchmark.endpoint.urls", list(url));
    let mut dataset = node(Value::Mapping(Vec::new()));
    set(&mut dataset, "name", text_node("main", end));
    let file = given.iter().find(|given| matches!(given.flag.sets, Sets::Special(SpecialFlag::InputFile)));
    set(&mut dataset, "type", text_node(if file.is_some() { "file" } else { "synthetic" }, end));
    if file.is_none() {
        if let Some(entries) = entries(given) {
            set(&mut dataset, "entries", entries);
        }
        let isl = Value::Scalar(Scalar::Float(crate::config::meant::Prompts::ISL_TOKENS));
        set(&mut dataset, "prompts.isl.mean", node(isl));
    }
    set(&mut root, "benchmark.datasets", list(dataset));
    let mut phase = node(Value::Mapping(Vec::new()));
    set(&mut phase, "name", text_node("profiling", end));
    set(&mut phase, "kind", text_node("profiling", end));
    set(&mut phase, "type", text_node("concurrency", end));
    set(&mut root, "benchmark.phases", list(phase));
    root
}

/// How many conversations the flags mean, where they say so.
fn entries(given: &[Given]) -> Option<Node> {
    let find = |wanted: &dyn Fn(&Sets) -> bool| given.iter().find(|given| wanted(&given.flag.sets));
    find(&|sets| matches!(sets, Sets::Special(SpecialFlag::Entries)))
        .or_else(|| find(&|sets| matches!(sets, Sets::Load(LoadFlag::Sessions))))
        .or_else(|| find(&|sets| matches!(sets, Sets::Load(LoadFlag::Requests))))
        .and_then(largest)
}

/// Makes the phase a fixed schedule when the records to send have times, unless the flags forbid it.
/// `directory` is where relative paths start.
pub fn promote(tree: &mut Node, given: &[Given], directory: &Path, faults: &mut Vec<Diagnostic>) {
    let find = |wanted: &dyn Fn(&Sets) -> bool| given.iter().find(|given| wanted(&given.flag.sets));
    let forbidden = find(&|sets| matches!(sets, Sets::Special(SpecialFlag::NoFixedSchedule)));
    let input = find(&|sets| matches!(sets, Sets::Special(SpecialFlag::InputFile)));
    let path = input.and_then(|given| given.values.first());
    let Some(path) = path else {
        if let Some(forbidden) = forbidden {
            faults.push(
                Diagnostic::warning(format!("`{}` is not used: there is no trace", forbidden.typed))
                    .at(forbidden.place(), "not used"),
            );
        }
        return;
    };
    let entries = timed_entries(&directory.join(&path.value));
    let Some(entries) = entries.filter(|_| forbidden.is_none()) else { return };
    let paced = find(&|sets| {
        matches!(
            sets,
            Sets::Load(LoadFlag::RequestRate | LoadFlag::RequestRateSeries | LoadFlag::UserCentricRate)
        )
    });
    if let Some(paced) = paced {
        faults.push(paced.fault(
            format!("`{}` gives the arrivals, and so do the times in `{}`", paced.typed, path.value),
            "one of the two",
            "add `--no-fixed-schedule`, or leave the rate out",
        ));
        return;
    }
    let list = place(tree, "benchmark.phases", &path.key);
    let Value::Sequence(phases) = &mut list.value else { return };
    if let Some(phase) = phases.first_mut() {
        set(phase, "type", text_node("fixed_schedule", &path.key));
        let value = Value::Scalar(Scalar::Integer(entries));
        set(phase, "requests", Node { span: path.key.clone(), value });
    }
}

/// How many records a file has, if the first one says when it was sent.
fn timed_entries(path: &Path) -> Option<i128> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    first.get("timestamp").filter(|time| time.is_number())?;
    let rest = lines.map_while(Result::ok).filter(|line| !line.trim().is_empty()).count();
    i128::try_from(rest).ok().map(|rest| rest + 1)
}

/// What a run without a file gets when the flags are applied: an end, and a rule for users.
pub fn complete(tree: &mut Node, given: &[Given], end: &Span, faults: &mut Vec<Diagnostic>) {
    let list = place(tree, "benchmark.phases", end);
    let Value::Sequence(phases) = &mut list.value else { return };
    let profiling = phases.iter_mut().find(|phase| text(phase, "kind").as_deref() == Some("profiling"));
    let Some(phase) = profiling else { return };
    let kind = text(phase, "type").unwrap_or_default();
    let ends = ["requests", "duration", "sessions"].iter().any(|name| member(phase, name).is_some());
    if !ends && kind != "fixed_schedule" {
        let value = Value::Scalar(Scalar::Integer(REQUESTS));
        set(phase, "requests", Node { span: end.clone(), value });
    }
    let users = given.iter().find(|given| matches!(given.flag.sets, Sets::Load(LoadFlag::UserCentricRate)));
    let turns =
        member(place(tree, "benchmark.datasets.0", end), "turns").and_then(|turns| member(turns, "mean"));
    let several = match turns.map(|turns| &turns.value) {
        Some(Value::Scalar(Scalar::Integer(turns))) => *turns >= 2,
        Some(Value::Scalar(Scalar::Float(turns))) => *turns >= 2.0,
        Some(_) | None => false,
    };
    let is_file = text(place(tree, "benchmark.datasets.0", end), "type").as_deref() == Some("file");
    if let Some(users) = users.filter(|_| !several && !is_file) {
        faults.push(users.fault(
            format!("`{}` needs conversations of at least two turns", users.typed),
            "one turn each",
            "add `--session-turns-mean 2`",
        ));
    }
}
