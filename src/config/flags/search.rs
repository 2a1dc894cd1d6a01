//! Flags that make a search: each adds to a `sweep` of type `adaptive_search`.

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::flags::edit::{member, place, set};
use crate::config::flags::{Given, text_node};
use crate::config::scalar::{self, Scalar};
use crate::config::source::{Entry, Node, Value, shown};

/// What a flag adds to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchFlag {
    /// The greatest concurrency.
    ConcurrencyMax,
    /// The least concurrency.
    ConcurrencyMin,
    /// A field of the sweep.
    Field(&'static str),
    /// Limits as `metric:stat:op:threshold`.
    Limit,
    /// An upper limit on a statistic of a metric.
    LimitOn(&'static str, &'static str),
    /// A field of the first objective.
    Objective(&'static str),
    /// Dimensions as `path:low:high[:kind]`.
    Space,
}

/// What is wanted unless a flag says otherwise.
const OBJECTIVE: &str = "request_throughput";

/// What is searched where only bounds are given.
const CONCURRENCY: &str = "phases.profiling.concurrency";

/// Adds what `given` says.
pub(super) fn apply(
    tree: &mut Node,
    given: &Given,
    what: SearchFlag,
    node: Node,
) -> Result<(), Box<Diagnostic>> {
    let span = node.span.clone();
    set(tree, "sweep.type", text_node("adaptive_search", &span));
    let sweep = place(tree, "sweep", &span);
    if member(sweep, "objectives").is_none() {
        let objective = mapping(vec![("metric", text_node(OBJECTIVE, &span))], &span);
        set(sweep, "objectives", list(vec![objective], &span));
    }
    match what {
        SearchFlag::ConcurrencyMax | SearchFlag::ConcurrencyMin => {
            if member(sweep, "search_space").is_none() {
                let one = Node { span: span.clone(), value: Value::Scalar(Scalar::Integer(1)) };
                let dimension = mapping(
                    vec![
                        ("path", text_node(CONCURRENCY, &span)),
                        ("lo", one),
                        ("kind", text_node("int", &span)),
                    ],
                    &span,
                );
                set(sweep, "search_space", list(vec![dimension], &span));
            }
            let end = if what == SearchFlag::ConcurrencyMin { "lo" } else { "hi" };
            set(sweep, &format!("search_space.0.{end}"), node);
        }
        SearchFlag::Field(name) => set(sweep, name, node),
        SearchFlag::Limit => {
            for limit in texts(&node) {
                let parts: Vec<&str> = limit.split(':').collect();
                let [metric, stat, op, threshold] = parts.as_slice() else {
                    return Err(refused(given, limit, "a limit such as `request_latency:p95:le:500`"));
                };
                add_limit(sweep, [metric, stat, op], number(threshold, &span), &span);
            }
        }
        SearchFlag::LimitOn(metric, stat) => add_limit(sweep, [metric, stat, "le"], node, &span),
        SearchFlag::Objective(field) => set(sweep, &format!("objectives.0.{field}"), node),
        SearchFlag::Space => {
            let mut space = Vec::new();
            for dimension in texts(&node) {
                let parts: Vec<&str> = dimension.split(':').collect();
                let (path, low, high, kind) = match parts.as_slice() {
                    [path, low, high] => (path, low, high, None),
                    [path, low, high, kind] => (path, low, high, Some(kind)),
                    _ => {
                        let expected = "a path with its ends such as `phases.profiling.concurrency:1:200`";
                        return Err(refused(given, dimension, expected));
                    }
                };
                let mut members = vec![
                    ("path", text_node(path, &span)),
                    ("lo", number(low, &span)),
                    ("hi", number(high, &span)),
                ];
                members.extend(kind.map(|kind| ("kind", text_node(kind, &span))));
                space.push(mapping(members, &span));
            }
            set(sweep, "search_space", list(space, &span));
        }
    }
    Ok(())
}

fn refused(given: &Given, found: &str, expected: &str) -> Box<Diagnostic> {
    let message = format!("`{}` takes {expected}, found `{}`", given.typed, shown(found));
    Box::new(given.fault(message, "not understood", &format!("write {expected}")))
}

fn add_limit(sweep: &mut Node, [metric, stat, op]: [&str; 3], threshold: Node, span: &Span) {
    let limit = mapping(
        vec![
            ("metric_tag", text_node(metric, span)),
            ("stat", text_node(stat, span)),
            ("op", text_node(op, span)),
            ("threshold", threshold),
        ],
        span,
    );
    let limits = place(sweep, "sla_filters", span);
    match &mut limits.value {
        Value::Sequence(items) => items.push(limit),
        Value::Scalar(_) | Value::Mapping(_) => *limits = list(vec![limit], span),
    }
}

fn texts(node: &Node) -> Vec<&str> {
    let Value::Sequence(items) = &node.value else { return Vec::new() };
    items
        .iter()
        .filter_map(|item| match &item.value {
            Value::Scalar(Scalar::Text(text)) => Some(text.as_str()),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
        })
        .collect()
}

/// A number as YAML reads it; what is none is refused where the field is read.
fn number(text: &str, span: &Span) -> Node {
    Node { span: span.clone(), value: Value::Scalar(scalar::resolve(text)) }
}

fn list(items: Vec<Node>, span: &Span) -> Node {
    Node { span: span.clone(), value: Value::Sequence(items) }
}

fn mapping(members: Vec<(&str, Node)>, span: &Span) -> Node {
    let entries = members
        .into_iter()
        .map(|(key, node)| Entry { key: key.to_owned(), key_span: span.clone(), node })
        .collect();
    Node { span: span.clone(), value: Value::Mapping(entries) }
}
