//! The config as written: every value converted to its type, with its place, and nothing filled in.
//!
//! Each section is a type and a function that asks for its keys; a key's name, bounds, words and treatment of
//! null are said in that function and nowhere else. Short forms are gone already ([`shape`]). Rules between
//! fields and all defaults belong to the conversion into [`Config`].
//!
//! [`shape`]: crate::config::shape
//! [`Config`]: crate::config::Config

mod dataset;
mod phase;

use crate::config::diagnostic::{Diagnostic, Span};
use crate::config::keys::{Bound, Keys, Spanned, Spelling, Words, Written, join, mismatch};
use crate::config::meant::EndpointKind;
use crate::config::scalar::Scalar;
use crate::config::source::{Node, Value};

pub use dataset::{Dataset, DatasetKind, Length};
pub use phase::{Cancellation, LoadKind, Phase};

/// The whole file.
#[derive(Clone, Debug)]
pub struct File {
    /// Root of the seeded streams.
    pub random_seed: Written<u64>,
    /// The one benchmark.
    pub benchmark: Written<Benchmark>,
}

/// What `benchmark` holds.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The model's name.
    pub model: Written<String>,
    /// The server.
    pub endpoint: Written<Endpoint>,
    /// What is sent.
    pub dataset: Written<Dataset>,
    /// The phases in order.
    pub phases: Written<Vec<Phase>>,
    /// Where the files go.
    pub artifacts: Written<Artifacts>,
    /// The tokenizer.
    pub tokenizer: Written<Tokenizer>,
    /// Process settings.
    pub runtime: Written<Runtime>,
    /// The log.
    pub logging: Written<Logging>,
}

/// The server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Addresses, at least one.
    pub urls: Written<Vec<Spanned<String>>>,
    /// The dialect.
    pub kind: Written<EndpointKind>,
    /// Limit per request in seconds; 0 is none.
    pub timeout_s: Written<f64>,
    /// Whether replies are streams.
    pub streaming: Written<bool>,
}

/// Where the files go.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// Directory.
    pub dir: Written<String>,
}

/// The tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// Its name or path.
    pub name: Written<String>,
}

/// Process settings.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// How progress is shown: `none`, `simple` or `dashboard`.
    pub ui: Written<&'static str>,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Logging {
    /// The least level that is logged, in capitals.
    pub level: Written<&'static str>,
}

/// Reads the tree of a file whose short forms are expanded.
pub fn file(root: &Node, faults: &mut Vec<Diagnostic>) -> Option<File> {
    let start = root.span.start..root.span.start;
    let mut keys = Keys::open(root, "", start, faults)?;
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
    let random_seed = keys.key("random_seed").or_null().whole(0..=u64::MAX);
    keys.not_yet(&["sweep", "multi_run", "variables", "plot"]);
    keys.not_yet_unless_false(&["no_sweep_table"]);
    keys.finish();
    Some(File { random_seed, benchmark })
}

const SCHEMA_VERSION: Words<()> = Words { known: &[("2.0", ())], not_yet: &[], spelling: Spelling::Exact };

fn benchmark(mut keys: Keys<'_>) -> Benchmark {
    let model = model(&mut keys);
    let endpoint = keys.key("endpoint").section(endpoint);
    let dataset = dataset_of_list(&mut keys);
    let phases = phases(&mut keys);
    let artifacts = keys.key("artifacts").section(artifacts);
    let tokenizer = keys.key("tokenizer").or_null().section(tokenizer);
    let runtime = keys.key("runtime").section(runtime);
    let logging = keys.key("logging").section(logging);
    for name in ["gpu_telemetry", "server_metrics"] {
        telemetry(&mut keys, name);
    }
    keys.key("network_latency").or_null().section(|mut keys| {
        keys.not_yet_unless_false(&["enabled"]);
        // Without `enabled` these do nothing.
        keys.key("ping_interval").or_null().number(Bound::Above(0.0));
        keys.key("mean_ms").or_null().number(Bound::AtLeast(0.0));
        keys.finish();
    });
    keys.key("metrics").or_null().section(|keys: Keys<'_>| keys.finish());
    keys.not_yet(&["slos", "otel", "mlflow", "wandb", "accuracy", "scenario"]);
    keys.not_yet_unless_false(&["unsafe_override"]);
    for (missing, name, what) in [
        (model.is_absent(), "model", "write the model's name as the server knows it"),
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
    keys.finish();
    Benchmark { model, endpoint, dataset, phases, artifacts, tokenizer, runtime, logging }
}

/// A text, a list of one text, or `{items: [{name}]}` with one item.
fn model(keys: &mut Keys<'_>) -> Written<String> {
    let node = keys.key("models").node();
    let Written::Present(Spanned { key, span, value: (node, path) }) = node else { return Written::Absent };
    let present = |text: &str, span: &Span| {
        Written::Present(Spanned { key: key.clone(), span: span.clone(), value: text.to_owned() })
    };
    let several = |keys: &mut Keys<'_>| {
        keys.fault(
            Diagnostic::error(format!(
                "`{path}`: several models are known to AIPerf, phasor supports one for now"
            ))
            .at(span.clone(), "more than one model")
            .with_help("keep one"),
        );
        Written::Faulty
    };
    match &node.value {
        Value::Scalar(Scalar::Text(text)) if !text.trim().is_empty() => present(text, &node.span),
        Value::Sequence(items) if items.len() > 1 => several(keys),
        Value::Sequence(items) => match items.first().map(|item| (&item.value, &item.span)) {
            Some((Value::Scalar(Scalar::Text(text)), span)) if !text.trim().is_empty() => present(text, span),
            Some(_) | None => {
                keys.fault(mismatch(&path, "the name of a model", items.first().unwrap_or(node), &span));
                Written::Faulty
            }
        },
        Value::Mapping(entries) => {
            let count =
                entries.iter().find(|entry| entry.key == "items").map(|entry| match &entry.node.value {
                    Value::Sequence(items) => items.len(),
                    Value::Scalar(_) | Value::Mapping(_) => 0,
                });
            if count.is_some_and(|count| count > 1) {
                return several(keys);
            }
            let read = keys.key("models").section(|mut keys| {
                keys.key("strategy").word(MODEL_STRATEGIES);
                let name = keys.only_item("items", |mut keys| {
                    let name = keys.key("name").text();
                    keys.not_yet(&["weight", "lora", "modalities", "tokenizer"]);
                    require(&mut keys, &name, "name");
                    keys.finish();
                    name
                });
                require(&mut keys, &name, "items");
                keys.finish();
                name
            });
            match read {
                Written::Present(Spanned { value: Written::Present(Spanned { value, .. }), .. }) => value,
                Written::Present(_) | Written::Absent | Written::Faulty => Written::Faulty,
            }
        }
        Value::Scalar(_) => {
            keys.fault(
                mismatch(&path, "the name of a model", node, &span)
                    .with_help("put the name in quotes if it looks like a number or a date"),
            );
            Written::Faulty
        }
    }
}

// With one model every strategy picks it.
const MODEL_STRATEGIES: Words<()> = Words {
    known: &[("round_robin", ()), ("random", ())],
    not_yet: &["weighted"],
    spelling: Spelling::Lenient,
};

fn endpoint(mut keys: Keys<'_>) -> Endpoint {
    let urls = keys.texts("urls");
    require(&mut keys, &urls, "url");
    keys.key("url_strategy").word(Words {
        known: &[("round_robin", ())],
        not_yet: &[],
        spelling: Spelling::Lenient,
    });
    let kind = keys.key("type").word(Words {
        known: &[("chat", EndpointKind::Chat)],
        not_yet: ENDPOINT_KINDS_NOT_YET,
        spelling: Spelling::Lenient,
    });
    let timeout_s = keys.key("timeout").seconds(Bound::AtLeast(0.0));
    let streaming = keys.key("streaming").switch();
    keys.key("transport").or_null().word(Words {
        known: &[("http", ())],
        not_yet: &[],
        spelling: Spelling::Lenient,
    });
    keys.key("connection_reuse").word(Words {
        known: &[("pooled", ())],
        not_yet: &["never", "sticky-user-sessions"],
        spelling: Spelling::Lenient,
    });
    keys.not_yet(&[
        "path",
        "api_key",
        "template",
        "headers",
        "extra",
        "request_content_type",
        "session_header",
        "wait_for_model_timeout",
        "wait_for_model_interval",
        "wait_for_model_mode",
    ]);
    keys.not_yet_unless_false(&[
        "use_legacy_max_tokens",
        "use_server_token_count",
        "per_chunk_usage",
        "download_video_content",
        "uuid_and_strip",
        "reset_kv_cache",
        "server_profiler",
    ]);
    keys.finish();
    Endpoint { urls, kind, timeout_s, streaming }
}

const ENDPOINT_KINDS_NOT_YET: &[&str] = &[
    "audio_transcription",
    "cohere_rankings",
    "completions",
    "responses",
    "messages",
    "chat_embeddings",
    "embeddings",
    "hf_tei_rankings",
    "huggingface_generate",
    "image_generation",
    "image_edit",
    "video_generation",
    "image_retrieval",
    "nim_embeddings",
    "nim_rankings",
    "solido_rag",
    "raw",
    "template",
];

fn dataset_of_list(keys: &mut Keys<'_>) -> Written<Dataset> {
    keys.only_item("datasets", dataset::dataset)
}

fn phases(keys: &mut Keys<'_>) -> Written<Vec<Phase>> {
    let mut phases = Vec::new();
    let read = keys.items("phases", "a list of phases", |keys| phases.push(phase::phase(keys)));
    match read {
        Written::Present(present) => {
            Written::Present(Spanned { key: present.key, span: present.span, value: phases })
        }
        Written::Absent => Written::Absent,
        Written::Faulty => Written::Faulty,
    }
}

fn artifacts(mut keys: Keys<'_>) -> Artifacts {
    let dir = keys.key("dir").text_or_empty();
    keys.not_yet(&["prefix", "summary", "records", "slice_duration", "user_files"]);
    keys.not_yet_unless_false(&[
        "raw",
        "trace",
        "show_trace_timing",
        "auto_plot",
        "plot_required",
        "export_outputs_json",
    ]);
    keys.finish();
    Artifacts { dir }
}

fn tokenizer(mut keys: Keys<'_>) -> Tokenizer {
    let name = keys.key("name").or_null().text();
    // They say how a tokenizer is loaded, and none is.
    let revision = keys.key("revision").text().is_absent();
    let trust = keys.key("trust_remote_code").switch().is_absent();
    keys.not_yet_unless_false(&["apply_chat_template"]);
    if !(name.is_absent() && revision && trust) {
        let place = keys.place();
        keys.fault(
            Diagnostic::warning(
                "`benchmark.tokenizer` is not used yet: token counts come from the server's usage or, where it \
                 sends none, from the chunks of the reply",
            )
            .at(place, "not used yet"),
        );
    }
    keys.finish();
    Tokenizer { name }
}

fn runtime(mut keys: Keys<'_>) -> Runtime {
    let ui = keys.key("ui").word(Words {
        known: &[("none", "none"), ("simple", "simple"), ("dashboard", "dashboard")],
        not_yet: &[],
        spelling: Spelling::Lenient,
    });
    let workers = keys.key("workers").or_null().whole(1..=u32::MAX);
    let workers_min = keys.key("workers_min").or_null().whole(1..=u32::MAX);
    let processors = keys.key("record_processors").or_null().whole(1..=u32::MAX);
    let interval = keys.key("stats_interval").or_null().seconds(Bound::Within(0.0, 1_000.0));
    if !(workers.is_absent() && workers_min.is_absent() && processors.is_absent() && interval.is_absent()) {
        let place = keys.place();
        keys.fault(
            Diagnostic::warning(
                "`benchmark.runtime`: the counts and intervals of AIPerf's processes have no meaning here and \
                 are not used: phasor runs one thread per core in one process",
            )
            .at(place, "in part not used"),
        );
    }
    keys.not_yet(&[
        "api_port",
        "api_host",
        "service_run_type",
        "communication",
        "workers_per_pod",
        "record_processors_per_pod",
        "dataset_api_base_url",
    ]);
    keys.finish();
    Runtime { ui }
}

fn logging(mut keys: Keys<'_>) -> Logging {
    let level = keys.key("level").word(Words {
        known: &[
            ("INFO", "INFO"),
            ("DEBUG", "DEBUG"),
            ("TRACE", "TRACE"),
            ("NOTICE", "NOTICE"),
            ("WARNING", "WARNING"),
            ("SUCCESS", "SUCCESS"),
            ("ERROR", "ERROR"),
            ("CRITICAL", "CRITICAL"),
        ],
        not_yet: &[],
        spelling: Spelling::Lenient,
    });
    keys.finish();
    Logging { level }
}

/// `gpu_telemetry` and `server_metrics`: whatever is asked for is not collected yet, which is worth a warning
/// unless it is switched off.
fn telemetry(keys: &mut Keys<'_>, name: &'static str) {
    let Written::Present(Spanned { key, value: (node, path), .. }) = keys.key(name).or_null().node() else {
        return;
    };
    let off = match &node.value {
        Value::Mapping(entries) => entries
            .iter()
            .any(|entry| entry.key == "enabled" && entry.node.value == Value::Scalar(Scalar::Bool(false))),
        // A text is the address to scrape.
        Value::Scalar(Scalar::Text(_)) => false,
        Value::Scalar(_) | Value::Sequence(_) => {
            keys.fault(mismatch(&path, "a mapping or an address", node, &key));
            return;
        }
    };
    if !off {
        keys.fault(
            Diagnostic::warning(format!("`{path}` is known to AIPerf, phasor does not collect it yet"))
                .at(key, "not collected")
                .with_help("remove it, or write `{enabled: false}`"),
        );
    }
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
