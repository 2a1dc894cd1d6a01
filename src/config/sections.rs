//! The sections of a config: each key with its type, bounds and default, read into what is meant.
//!
//! One function per mapping asks [`Keys`] for every key it knows, in AIPerf's order of fields; rules between
//! the fields of one mapping stand behind them. The phases have rules of their own in
//! [`crate::config::phases`].

mod adaptive;
mod dataset;
mod distribution;
mod endpoint;
mod models;
mod output;
pub(super) mod phase;
mod sweep;

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use crate::config::diagnostic::{Diagnostic, Severity, Texts};
use crate::config::keys::{Bound, Keys, Reading, Spanned, Spelling, Words, Written, join, mismatch};
use crate::config::lax;
use crate::config::meant::{CacheBust, Config, Endpoint, EndpointKind, LogLevel, MultiRun, Sweep, Ui};
use crate::config::phases;
use crate::config::places::Places;
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

/// The root of a tree whose short forms are expanded into a config; absent when a fault of a kind that leaves
/// nothing to convert is among the faults. A config that comes with faults may not be used.
pub fn read(root: &Node, texts: &Texts, reading: &mut Reading) -> Option<Config> {
    let before = reading.faults.len();
    let start = root.span.start..root.span.start;
    let mut keys = Keys::open(root, "", "", start, reading)?;
    // The version is text: the number 2.0 is a common slip, and AIPerf refuses it too.
    keys.key("schema_version").word(SCHEMA_VERSION);
    let benchmark = keys.key("benchmark").section(benchmark);
    if benchmark.is_absent() {
        let place = keys.place();
        keys.fault(
            Diagnostic::error("`benchmark` is missing")
                .at(place, "no `benchmark` in this file")
                .with_help("add a `benchmark:` mapping with `model`, `endpoint`, `dataset` and `phases`"),
        );
    }
    let sweep_written = keys.has("sweep");
    let sweep = keys.key("sweep").or_null().section(sweep::sweep);
    let multi_run = keys.key("multi_run").section(sweep::multi_run).or((MultiRun::default(), None));
    let random_seed = keys.key("random_seed").or_null().whole(0..=u64::MAX).optional();
    let variables = keys.key("variables");
    if let Some(entry) = variables.entry()
        && !matches!(entry.node.value, Value::Mapping(_))
    {
        let fault = mismatch("variables", "a mapping", &entry.node, &entry.key_span);
        keys.fault(fault);
    }
    let no_sweep_table = keys.key("no_sweep_table").switch().or(false);
    plot(&mut keys);
    keys.finish();
    let mut form = reading.take_form().unwrap_or_default();
    let Written::Present(Spanned { value: parts, .. }) = benchmark else { return None };

    let (multi_run, convergence_place) = multi_run;
    let sweep: Option<Sweep> = sweep.optional().flatten();
    let faulty = reading.faults.iter().skip(before).any(|fault| fault.severity == Severity::Error);
    if !faulty {
        between_sections(&parts, sweep.as_ref(), &multi_run, convergence_place, reading);
    }
    let Parts { models, endpoint, dataset, phases, section, .. } = parts;
    let endpoint = endpoint?;
    let model = models.as_ref()?.items.first()?.name.clone();
    let mut config = Config::new(&model, endpoint, dataset?, phases?);
    config.models = models?;
    config.artifacts = section.artifacts;
    config.slos = section.slos;
    config.tokenizer = section.tokenizer;
    config.gpu_telemetry = section.gpu_telemetry;
    config.server_metrics = section.server_metrics;
    config.network_latency = section.network_latency;
    config.runtime = section.runtime;
    config.log_level = section.log_level;
    config.scenario = section.scenario;
    let varied = sweep_written && sweep.is_some() || multi_run.runs > 1;
    config.random_seed = random_seed.or_else(|| (varied && multi_run.set_consistent_seed).then_some(SEED));
    config.sweep = sweep;
    config.multi_run = multi_run;
    config.no_sweep_table = no_sweep_table;
    config.input_config = normal_form(form.remove("benchmark"), &config.endpoint);
    config.places = Places::new(std::mem::take(&mut reading.spans), texts.clone());
    Some(config)
}

/// Seed of runs that are compared with each other, unless written.
const SEED: u64 = 42;

const SCHEMA_VERSION: Words<()> = Words { known: &[("2.0", ())], spelling: Spelling::Exact };

/// What `benchmark` holds.
struct Parts {
    models: Option<crate::config::meant::Models>,
    endpoint: Option<Endpoint>,
    dataset: Option<crate::config::meant::Dataset>,
    phases: Option<Vec<crate::config::meant::Phase>>,
    section: output::Sections,
    scenario: Written<String>,
    ui: Written<Ui>,
}

fn benchmark(mut keys: Keys<'_>) -> Parts {
    let models = models::models(&mut keys);
    let endpoint = keys.key("endpoint").section(endpoint::endpoint);
    let dataset = keys.only_item("datasets", dataset::dataset);
    let phases = phase::phases(&mut keys);
    let artifacts = keys.key("artifacts").section(output::artifacts).or_default();
    let slos = slos(&mut keys);
    let tokenizer = keys.key("tokenizer").or_null().section(output::tokenizer);
    let gpu_telemetry = keys.key("gpu_telemetry").or_null().section(output::gpu_telemetry).or_default();
    let server_metrics = keys.key("server_metrics").or_null().section(output::server_metrics).or_default();
    let network_latency = keys.key("network_latency").or_null().section(output::network_latency).or_default();
    keys.unused(&["otel", "mlflow", "wandb"]);
    let runtime = keys.key("runtime").section(output::runtime);
    let log_level = keys.key("logging").section(output::logging).or(LogLevel::Info);
    keys.key("metrics").or_null().section(|keys: Keys<'_>| keys.finish());
    accuracy(&mut keys);
    let scenario = keys.key("scenario").or_null().text();
    keys.key("unsafe_override").switch();
    for (missing, name, what) in [
        (models.is_absent(), "model", "write the model's name as the server knows it"),
        (endpoint.is_absent(), "endpoint", "write at least `endpoint: {url: http://127.0.0.1:8000}`"),
        (
            dataset.is_absent(),
            "dataset",
            "write for example `dataset: {type: synthetic, isl: 512, osl: 128}`",
        ),
        (
            phases.is_absent(),
            "phases",
            "write at least one phase: `- {name: profiling, type: concurrency, ...}`",
        ),
    ] {
        if missing {
            let place = keys.place();
            keys.fault(
                Diagnostic::error(format!("`benchmark.{name}` is missing"))
                    .at(place, format!("no `{name}` in it"))
                    .with_help(what),
            );
        }
    }
    let endpoint_meant = endpoint.value().cloned();
    if let (Some(endpoint), Some(written)) = (&endpoint_meant, tokenizer.present())
        && !endpoint.kind.counts_tokens()
        && written.value.1
    {
        keys.fault(
            Diagnostic::error(format!(
                "`benchmark.tokenizer` has nothing to do: an endpoint of type `{}` has no tokens",
                endpoint.kind.name()
            ))
            .at(written.key.clone(), "not with this endpoint")
            .with_help("take it out"),
        );
    }
    if let (Some(endpoint), Some(slos)) = (&endpoint_meant, &slos)
        && !endpoint.streaming
    {
        for (metric, _) in slos.iter().filter(|(metric, _)| STREAM_METRICS.contains(&metric.as_str())) {
            let place = keys.place();
            keys.fault(
                Diagnostic::warning(format!("`benchmark.slos.{metric}` is never measured without streaming"))
                    .at(place, "no streaming")
                    .with_help("write `endpoint.streaming: true`"),
            );
        }
    }
    let dataset = dataset.optional();
    if let (Some(endpoint), Some(dataset)) = (&endpoint_meant, &dataset) {
        between_endpoint_and_dataset(endpoint, dataset, &mut keys);
    }
    let mut faults = Vec::new();
    let phases = phases
        .present()
        .and_then(|phases| phases::convert(phases, endpoint_meant.as_ref(), dataset.as_ref(), &mut faults));
    for fault in faults {
        keys.fault(fault);
    }
    keys.finish();
    let (runtime, ui) = match runtime {
        Written::Present(present) => present.value,
        Written::Absent | Written::Faulty => (crate::config::meant::Runtime::default(), Written::Absent),
    };
    Parts {
        models: models.optional(),
        endpoint: endpoint_meant,
        dataset,
        phases,
        section: output::Sections {
            artifacts,
            slos,
            tokenizer: tokenizer.optional().map(|(tokenizer, _)| tokenizer).unwrap_or_default(),
            gpu_telemetry,
            server_metrics,
            network_latency,
            runtime,
            log_level,
            scenario: scenario.value().cloned(),
        },
        scenario,
        ui,
    }
}

/// Texts and marks of a dataset need a place in the dialect's bodies.
fn between_endpoint_and_dataset(
    endpoint: &Endpoint,
    dataset: &crate::config::meant::Dataset,
    keys: &mut Keys<'_>,
) {
    let kind = endpoint.kind;
    let marked = matches!(kind, EndpointKind::Chat | EndpointKind::Messages | EndpointKind::Responses);
    let misplaced = [
        (dataset.system_prompt.is_some() && !kind.has_system_role(), "system_prompt"),
        (dataset.prompts.cache_bust != CacheBust::None && !marked, "prompts.cache_bust"),
    ];
    for (_, name) in misplaced.into_iter().filter(|(misplaced, _)| *misplaced) {
        let place = keys.place_of(&format!("datasets.0.{name}"));
        keys.fault(
            Diagnostic::error(format!(
                "`benchmark.dataset.{name}` has no place in requests of type `{}`",
                kind.name()
            ))
            .at(place, "not with this endpoint")
            .with_help("take it out, or write `endpoint.type: chat`"),
        );
    }
}

/// Rules between the sections of the envelope, checked only when everything else is well.
fn between_sections(
    parts: &Parts,
    sweep: Option<&Sweep>,
    multi_run: &MultiRun,
    convergence: Option<crate::config::diagnostic::Span>,
    reading: &mut Reading,
) {
    use crate::config::meant::{IterationOrder, SweepKind};
    let Some(sweep) = sweep else { return };
    if let Some(scenario) = parts.scenario.present() {
        reading.faults.push(
            Diagnostic::error("`benchmark.scenario` and `sweep` cannot stand together")
                .at(scenario.span.clone(), "a scenario fixes what a sweep would vary")
                .with_help("keep one of the two"),
        );
    } else if let Some(ui) = parts.ui.present().filter(|ui| ui.value == Ui::Dashboard) {
        reading.faults.push(
            Diagnostic::error("`benchmark.runtime.ui: dashboard` does not go with a sweep")
                .at(ui.span.clone(), "one screen for several runs")
                .with_help("write `ui: simple`, or take it out"),
        );
    }
    let adapts = |kind: &SweepKind| matches!(kind, SweepKind::AdaptiveSearch(_));
    if adapts(&sweep.kind)
        && let Some(phase) = parts.phases.iter().flatten().position(|phase| phase.adaptive.is_some())
    {
        let place = reading.spans.get(&format!("benchmark.phases.{phase}.adaptive_scale")).cloned();
        let fault = Diagnostic::error(
            "a sweep of type `adaptive_search` and a phase with `adaptive_scale` both search the load",
        )
        .with_help("keep one of the two");
        reading.faults.push(match place {
            Some(place) => fault.at(place, "searches too"),
            None => fault,
        });
    }
    if let (Some(place), false, IterationOrder::Repeated) = (convergence, adapts(&sweep.kind), sweep.order)
        && multi_run.convergence.is_some()
    {
        reading.faults.push(
            Diagnostic::error(
                "`multi_run.convergence` cannot end trials early when a sweep runs all variations before the next trial",
            )
            .at(place, "not in this order")
            .with_help("write `sweep.iterationOrder: independent`"),
        );
    }
}

/// Metric tag to limit.
fn slos(keys: &mut Keys<'_>) -> Option<Vec<(String, f64)>> {
    let number = |node: &Node| match &node.value {
        Value::Scalar(
            scalar @ (Scalar::Integer(_) | Scalar::Float(_) | Scalar::Bool(_) | Scalar::Text(_)),
        ) => lax::number(scalar).map(|value| (value, json!(value))),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
    };
    keys.key("slos").or_null().free("a number in the metric's unit (ms for latencies)", number).optional()
}

/// Null, or a part of AIPerf that changes what is sent.
fn accuracy(keys: &mut Keys<'_>) {
    if let Some(present) = keys.key("accuracy").or_null().node().present() {
        let place = present.key.clone();
        keys.fault(
            Diagnostic::error(
                "`benchmark.accuracy` sends the questions of an accuracy benchmark, which phasor does not have",
            )
            .at(place, "changes the load")
            .with_help("take it out to measure speed alone"),
        );
    }
}

/// Null, a path, or a mapping: plots are no part of phasor, but a file that is named must be there.
fn plot(keys: &mut Keys<'_>) {
    keys.unused(&["plot"]);
    let directory = keys.directory();
    let written = keys.key("plot").or_null().node();
    let Some(Spanned { value: (node, path), .. }) = written.present() else { return };
    let missing = match &node.value {
        Value::Scalar(Scalar::Text(name)) => (!directory.join(name).is_file()).then_some("an existing file"),
        Value::Mapping(_) => None,
        Value::Scalar(_) | Value::Sequence(_) => Some("a path or a mapping"),
    };
    if let Some(expected) = missing {
        let fault = mismatch(path, expected, node, &node.span);
        keys.fault(fault);
    }
}

/// Metrics that only streams have.
const STREAM_METRICS: &[&str] = &["time_to_first_token", "inter_token_latency"];

/// The sections in the order in which AIPerf writes them.
const ORDER: &[&str] = &[
    "models",
    "endpoint",
    "datasets",
    "phases",
    "artifacts",
    "slos",
    "tokenizer",
    "gpu_telemetry",
    "server_metrics",
    "network_latency",
    "runtime",
    "logging",
];

/// The normal form of `benchmark`: what was set and what normalisation sets, in AIPerf's order of fields.
fn normal_form(form: Option<Json>, endpoint: &Endpoint) -> Json {
    let Some(Json::Object(mut written)) = form else { return Json::Object(Map::new()) };
    if let Some(Json::Object(section)) = written.get_mut("endpoint") {
        let urls: Vec<&str> = endpoint.urls.iter().map(|url| url.text.as_str()).collect();
        section.insert("urls".to_owned(), json!(urls));
        if section.contains_key("api_key") {
            section.insert("api_key".to_owned(), json!("<redacted>"));
        }
        if section.contains_key("streaming") {
            section.insert("streaming".to_owned(), json!(endpoint.streaming));
        }
    }
    // AIPerf sets this one in every file.
    written.entry("network_latency").or_insert_with(|| json!({ "enabled": false }));
    let mut ordered = Map::new();
    for name in ORDER {
        if let Some(section) = written.remove(*name) {
            ordered.insert((*name).to_owned(), section);
        }
    }
    let known: HashSet<&str> = ORDER.iter().copied().collect();
    ordered.extend(written.into_iter().filter(|(name, _)| !known.contains(name.as_str())));
    Json::Object(ordered)
}

/// Reports `name` as missing when it is absent.
fn require<T>(keys: &mut Keys<'_>, written: &Written<T>, name: &str) {
    if written.is_absent() {
        let (path, place) = (join(keys.path(), name), keys.place());
        keys.fault(
            Diagnostic::error(format!("`{path}` is missing"))
                .at(place, format!("no `{name}` here"))
                .with_help(format!("add `{name}`")),
        );
    }
}

/// A bound that every number with a lower limit of zero has.
const NOT_NEGATIVE: Bound = Bound::AtLeast(0.0);
