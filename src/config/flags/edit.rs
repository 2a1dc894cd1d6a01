//! Edits of a tree: one field, or what is no single field.

use crate::config::diagnostic::Diagnostic;
use crate::config::flags::{Given, Part, Sets, SpecialFlag, text_node, value};
use crate::config::keys::camel_case;
use crate::config::scalar::Scalar;
use crate::config::source::{Entry, Node, Value};

/// Applies `given` unless it is of a phase.
pub(super) fn apply(tree: &mut Node, given: &Given) -> Result<(), Box<Diagnostic>> {
    let mut nodes = given.nodes()?;
    if nodes.is_empty() {
        return Ok(());
    }
    match given.flag.sets {
        Sets::Dataset(path) => set(tree, &format!("benchmark.datasets.0.{path}"), nodes.swap_remove(0)),
        Sets::Distribution(path, part) => {
            let (full, field) = (format!("benchmark.datasets.0.{path}"), part_name(part));
            if nodes.len() > 1 {
                let name = dataset_name(tree);
                add_sweep(tree, given, &format!("datasets.{name}.{path}.{field}"), &nodes)?;
            }
            distribution(tree, &full, part, nodes.swap_remove(0));
        }
        Sets::Field(path) => set(tree, &format!("benchmark.{path}"), nodes.swap_remove(0)),
        Sets::Root(path) => set(tree, path, nodes.swap_remove(0)),
        Sets::Special(special) => self::special(tree, given, special, nodes.swap_remove(0))?,
        Sets::Load(_) | Sets::Nothing(_) | Sets::Refused(_) | Sets::Warmup(_) => {}
    }
    Ok(())
}

const fn part_name(part: Part) -> &'static str {
    match part {
        Part::Deviation => "stddev",
        Part::Mean => "mean",
    }
}

fn dataset_name(tree: &Node) -> String {
    let name = tree
        .entry("benchmark")
        .and_then(|benchmark| benchmark.node.entry("datasets"))
        .and_then(|datasets| match &datasets.node.value {
            Value::Sequence(items) => items.first(),
            Value::Scalar(_) | Value::Mapping(_) => None,
        })
        .and_then(|dataset| dataset.entry("name"));
    match name.map(|entry| &entry.node.value) {
        Some(Value::Scalar(Scalar::Text(name))) => name.clone(),
        Some(_) | None => "0".to_owned(),
    }
}

/// The node at the dotted `path`, made of mappings where it is not there; in the spelling the tree has.
pub(super) fn place<'n>(
    tree: &'n mut Node,
    path: &str,
    span: &crate::config::diagnostic::Span,
) -> &'n mut Node {
    let mut node = tree;
    for part in path.split('.') {
        if let (Value::Sequence(items), Ok(at)) = (&node.value, part.parse::<usize>())
            && at < items.len()
        {
            let Value::Sequence(items) = &mut node.value else { unreachable!("it was a list above") };
            node = &mut items[at];
            continue;
        }
        if !matches!(node.value, Value::Mapping(_)) {
            node.value = Value::Mapping(Vec::new());
        }
        let Value::Mapping(entries) = &mut node.value else { unreachable!("it was made a mapping above") };
        let camel = camel_case(part);
        let at =
            entries.iter().position(|entry| entry.key == part || entry.key == camel).unwrap_or_else(|| {
                let node = Node { span: span.clone(), value: Value::Scalar(Scalar::Null) };
                entries.push(Entry { key: part.to_owned(), key_span: span.clone(), node });
                entries.len() - 1
            });
        node = &mut entries[at].node;
    }
    node
}

/// Puts `value` at `path`.
pub(super) fn set(tree: &mut Node, path: &str, value: Node) {
    let span = value.span.clone();
    *place(tree, path, &span) = value;
}

/// Takes the keys `names` out of the mapping `node`, in either spelling.
pub(super) fn remove(node: &mut Node, names: &[&str]) {
    if let Value::Mapping(entries) = &mut node.value {
        entries.retain(|entry| !names.iter().any(|name| entry.key == *name || entry.key == camel_case(name)));
    }
}

/// The value of the key `name` of the mapping `node`, in either spelling, unless it is null.
pub(super) fn member<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let camel = camel_case(name);
    node.entry(name).or_else(|| node.entry(&camel)).map(|entry| &entry.node).filter(|node| !node.is_null())
}

/// Changes one part of a normal distribution; another law gives way.
fn distribution(tree: &mut Node, path: &str, part: Part, value: Node) {
    let span = value.span.clone();
    let target = place(tree, path, &span);
    let number = |value: f64| Node { span: span.clone(), value: Value::Scalar(Scalar::Float(value)) };
    let plain = match &target.value {
        Value::Scalar(Scalar::Integer(_) | Scalar::Float(_)) => Some(target.clone()),
        Value::Mapping(_) => member(target, "value").cloned(),
        Value::Scalar(_) | Value::Sequence(_) => None,
    };
    let is_normal = member(target, "mean").is_some() && member(target, "median").is_none();
    if !is_normal {
        let mean = match part {
            Part::Mean => None,
            // A deviation alone is around the value there is, or the one there would be.
            Part::Deviation => plain.or_else(|| {
                let leaf = path.rsplit('.').next().unwrap_or(path);
                match leaf {
                    "isl" => Some(number(crate::config::meant::Prompts::ISL_TOKENS)),
                    "turns" => Some(number(1.0)),
                    "turn_delay" => Some(number(0.0)),
                    _ => None,
                }
            }),
        };
        target.value = Value::Mapping(Vec::new());
        if let Some(mean) = mean {
            set(target, "mean", mean);
        }
    }
    set(target, part_name(part), value);
}

/// Adds the values of a list as a parameter of a grid.
pub(super) fn add_sweep(
    tree: &mut Node,
    given: &Given,
    path: &str,
    values: &[Node],
) -> Result<(), Box<Diagnostic>> {
    let span = given.place();
    let sweep = place(tree, "sweep", &span);
    if sweep.is_null() {
        sweep.value = Value::Mapping(Vec::new());
    }
    match member(sweep, "type").map(|node| &node.value) {
        None => set(sweep, "type", text_node("grid", &span)),
        Some(Value::Scalar(Scalar::Text(kind))) if matches!(kind.as_str(), "grid" | "zip") => {}
        Some(_) => {
            return Err(given
                .fault(
                    format!(
                        "`{}` with several values makes a grid, but the file has a sweep of another type",
                        given.typed
                    ),
                    "several values",
                    "give one value, or vary it in the file's sweep",
                )
                .into());
        }
    }
    let parameters = place(sweep, "parameters", &span);
    if !matches!(parameters.value, Value::Mapping(_)) {
        parameters.value = Value::Mapping(Vec::new());
    }
    if let Value::Mapping(entries) = &mut parameters.value {
        let node = Node { span: span.clone(), value: Value::Sequence(values.to_vec()) };
        match entries.iter_mut().find(|entry| entry.key == path) {
            Some(entry) => entry.node = node,
            None => entries.push(Entry { key: path.to_owned(), key_span: span, node }),
        }
    }
    Ok(())
}

fn special(tree: &mut Node, given: &Given, special: SpecialFlag, node: Node) -> Result<(), Box<Diagnostic>> {
    let span = node.span.clone();
    let text = |text: &str| text_node(text, &span);
    let switch = |on: bool| Node { span: span.clone(), value: Value::Scalar(Scalar::Bool(on)) };
    let is_on = node.value == Value::Scalar(Scalar::Bool(true));
    match special {
        SpecialFlag::Models => {
            let Value::Sequence(names) = node.value else { return Ok(()) };
            let items = names.into_iter().map(|name| Node {
                span: name.span.clone(),
                value: Value::Mapping(vec![Entry {
                    key: "name".to_owned(),
                    key_span: name.span.clone(),
                    node: name,
                }]),
            });
            let items = Node { span: span.clone(), value: Value::Sequence(items.collect()) };
            models(tree, &span);
            set(tree, "benchmark.models.items", items);
        }
        SpecialFlag::Urls => {
            remove(place(tree, "benchmark.endpoint", &span), &["url"]);
            set(tree, "benchmark.endpoint.urls", node);
        }
        SpecialFlag::Headers => merge(tree, "benchmark.endpoint.headers", node),
        SpecialFlag::ExtraInputs => merge(tree, "benchmark.endpoint.extra", node),
        SpecialFlag::Goodput => merge(tree, "benchmark.slos", node),
        SpecialFlag::ResetCache | SpecialFlag::ServerProfiler => {
            let name = if special == SpecialFlag::ResetCache { "reset_kv_cache" } else { "server_profiler" };
            let target = place(tree, &format!("benchmark.endpoint.{name}"), &span);
            if !(is_on && matches!(target.value, Value::Mapping(_))) {
                *target = node;
            }
        }
        SpecialFlag::Entries => set(tree, "benchmark.datasets.0.entries", node),
        SpecialFlag::Search(what) => super::search::apply(tree, given, what, node)?,
        SpecialFlag::RandomSeed => {
            set(tree, "random_seed", node.clone());
            set(tree, "benchmark.datasets.0.random_seed", node);
        }
        SpecialFlag::InputFile | SpecialFlag::CustomDatasetType => file(tree, given, special, node)?,
        SpecialFlag::PublicDataset => {
            set(tree, "benchmark.datasets.0.type", text("public"));
            set(tree, "benchmark.datasets.0.dataset", node);
            remove(place(tree, "benchmark.datasets.0", &span), &["prompts"]);
        }
        SpecialFlag::RandomRange => {
            let Value::Scalar(Scalar::Text(written)) = &node.value else { return Ok(()) };
            let read = serde_json::from_str(written).map(|json| value::json_node(&json, &span));
            set(tree, "benchmark.datasets.0.prompts.random_range_ratio", read.unwrap_or(node));
        }
        SpecialFlag::SequenceDistribution => {
            let Value::Scalar(Scalar::Text(written)) = &node.value else { return Ok(()) };
            let pairs = pairs_of_lengths(written).ok_or_else(|| {
                given.fault(
                    format!(
                        "`{}` takes pairs of lengths, found `{}`",
                        given.typed,
                        crate::config::source::shown(written)
                    ),
                    "not pairs of lengths",
                    "write for example `256,64:60;1024|100,128:40`, shares in percent",
                )
            })?;
            set(tree, "benchmark.datasets.0.prompts.sequence_distribution", value::json_node(&pairs, &span));
        }
        SpecialFlag::ExportLevel => {
            let Value::Scalar(Scalar::Text(level)) = &node.value else { return Ok(()) };
            let (records, raw) = match level.to_ascii_lowercase().as_str() {
                "summary" => (false, false),
                "records" => (true, false),
                "raw" => (true, true),
                _ => {
                    return Err(given
                        .fault(
                            format!(
                                "`{}` takes `summary`, `records` or `raw`, found `{}`",
                                given.typed,
                                crate::config::source::shown(level)
                            ),
                            "no export level",
                            "write `records`",
                        )
                        .into());
                }
            };
            let list = Node { span: span.clone(), value: Value::Sequence(vec![text("jsonl")]) };
            set(tree, "benchmark.artifacts.records", if records { list } else { switch(false) });
            if raw {
                set(tree, "benchmark.artifacts.raw", switch(true));
            }
        }
        SpecialFlag::Verbose | SpecialFlag::ExtraVerbose if is_on => {
            let level = if special == SpecialFlag::Verbose { "DEBUG" } else { "TRACE" };
            set(tree, "benchmark.logging.level", text(level));
            set(tree, "benchmark.runtime.ui", text("simple"));
        }
        SpecialFlag::NoGpuTelemetry => set(tree, "benchmark.gpu_telemetry.enabled", switch(!is_on)),
        SpecialFlag::NoServerMetrics => set(tree, "benchmark.server_metrics.enabled", switch(!is_on)),
        SpecialFlag::GpuTelemetry => gpu_telemetry(tree, &node),
        SpecialFlag::ServerMetrics => {
            set(tree, "benchmark.server_metrics.enabled", switch(true));
            set(tree, "benchmark.server_metrics.urls", metrics_urls(node));
        }
        SpecialFlag::ProfileRuns => set(tree, "multi_run.num_runs", node),
        SpecialFlag::SweepType => {
            let sweep = place(tree, "sweep", &span);
            if matches!(sweep.value, Value::Mapping(_)) {
                set(sweep, "type", node);
            }
        }
        SpecialFlag::Set => {
            let Value::Sequence(assignments) = node.value else { return Ok(()) };
            for assignment in assignments {
                let Value::Mapping(entries) = assignment.value else { continue };
                for entry in entries {
                    assign(tree, &entry.key, &entry.node)?;
                }
            }
        }
        // The one acts where the phases are made, the others only when they are on.
        SpecialFlag::NoFixedSchedule | SpecialFlag::Verbose | SpecialFlag::ExtraVerbose => {}
    }
    Ok(())
}

/// Writes a field of the envelope, or one below `benchmark` by the rules of sweep paths.
fn assign(tree: &mut Node, path: &str, value: &Node) -> Result<(), Box<Diagnostic>> {
    const ENVELOPE: &[&str] = &[
        "sweep",
        "multi_run",
        "multiRun",
        "random_seed",
        "randomSeed",
        "no_sweep_table",
        "noSweepTable",
        "variables",
    ];
    let path = path.strip_prefix("benchmark.").unwrap_or(path);
    let path =
        path.strip_prefix("dataset.").map_or_else(|| path.to_owned(), |rest| format!("datasets.0.{rest}"));
    if path.split('.').any(str::is_empty) {
        return Err(Diagnostic::error(format!(
            "the path `{}` has an empty part",
            crate::config::source::shown(&path)
        ))
        .at(value.span.clone(), "not a path")
        .with_help("write for example `phases.profiling.rate=4`")
        .into());
    }
    if ENVELOPE.contains(&path.split('.').next().unwrap_or_default()) {
        set(tree, &path, value.clone());
        return Ok(());
    }
    crate::config::expand::write(tree, &path, value)
}

/// Brings `models` into the form of a strategy with items.
fn models(tree: &mut Node, span: &crate::config::diagnostic::Span) {
    let models = place(tree, "benchmark.models", span);
    if !matches!(models.value, Value::Mapping(_)) {
        models.value = Value::Mapping(Vec::new());
    }
}

/// Merges the mapping `node` key by key into the one at `path`.
fn merge(tree: &mut Node, path: &str, node: Node) {
    let target = place(tree, path, &node.span.clone());
    if !matches!(target.value, Value::Mapping(_)) {
        *target = Node { span: node.span.clone(), value: Value::Mapping(Vec::new()) };
    }
    let (Value::Mapping(known), Value::Mapping(added)) = (&mut target.value, node.value) else { return };
    for entry in added {
        match known.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = entry,
            None => known.push(entry),
        }
    }
}

fn file(tree: &mut Node, given: &Given, special: SpecialFlag, node: Node) -> Result<(), Box<Diagnostic>> {
    let span = node.span.clone();
    let dataset = place(tree, "benchmark.datasets.0", &span);
    let is_file = matches!(
        member(dataset, "type").map(|node| &node.value),
        Some(Value::Scalar(Scalar::Text(kind))) if kind == "file"
    );
    if !is_file {
        return Err(given
            .fault(
                format!("`{}` needs a dataset of `type: file` in the config", given.typed),
                "no file dataset",
                "write `dataset: {type: file, path: ...}`",
            )
            .into());
    }
    let name = if special == SpecialFlag::InputFile { "path" } else { "format" };
    if name == "path" {
        remove(dataset, &["records"]);
    }
    let node = match (&node.value, name) {
        (Value::Scalar(Scalar::Text(format)), "format") => {
            text_node(&format.to_ascii_lowercase().replace('-', "_"), &span)
        }
        _ => node,
    };
    set(dataset, name, node);
    Ok(())
}

/// `isl[|deviation],osl[|deviation]:percent` parted by `;`, or JSON.
fn pairs_of_lengths(written: &str) -> Option<serde_json::Value> {
    use serde_json::json;
    if written.trim_start().starts_with(['[', '{']) {
        return serde_json::from_str(written).ok();
    }
    let length = |text: &str| -> Option<serde_json::Value> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        Some(match text.split_once('|') {
            Some((mean, deviation)) => json!({"mean": number(mean)?, "stddev": number(deviation)?}),
            None => json!(number(text)?),
        })
    };
    let pairs = written.split(';').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (lengths, percent) = pair.rsplit_once(':')?;
        let (isl, osl) = lengths.split_once(',')?;
        Some(json!({"isl": length(isl)?, "osl": length(osl)?, "probability": percent.trim().parse::<f64>().ok()?}))
    });
    pairs.collect()
}

fn gpu_telemetry(tree: &mut Node, node: &Node) {
    let Value::Sequence(items) = &node.value else { return };
    let mut urls = Vec::new();
    for item in items {
        let Value::Scalar(Scalar::Text(text)) = &item.value else { continue };
        match text.as_str() {
            "pynvml" | "amdsmi" => set(tree, "benchmark.gpu_telemetry.collector", item.clone()),
            "dashboard" => {
                set(tree, "benchmark.gpu_telemetry.mode", text_node("realtime_dashboard", &item.span));
            }
            text if std::path::Path::new(text)
                .extension()
                .is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) =>
            {
                set(tree, "benchmark.gpu_telemetry.metrics_file", item.clone());
            }
            _ => urls.push(item.clone()),
        }
    }
    let on = Node { span: node.span.clone(), value: Value::Scalar(Scalar::Bool(true)) };
    set(tree, "benchmark.gpu_telemetry.enabled", on);
    if !urls.is_empty() {
        set(
            tree,
            "benchmark.gpu_telemetry.urls",
            Node { span: node.span.clone(), value: Value::Sequence(urls) },
        );
    }
}

/// Addresses of metrics, with `http://` and `/metrics` where they are missing.
fn metrics_urls(node: Node) -> Node {
    let Value::Sequence(items) = node.value else { return node };
    let whole = items.into_iter().map(|item| {
        let Value::Scalar(Scalar::Text(text)) = &item.value else { return item };
        let text = if text.contains("://") { text.clone() } else { format!("http://{text}") };
        let text = text.trim_end_matches('/');
        let has_path = text.ends_with("/metrics");
        text_node(&if has_path { text.to_owned() } else { format!("{text}/metrics") }, &item.span)
    });
    Node { span: node.span, value: Value::Sequence(whole.collect()) }
}
