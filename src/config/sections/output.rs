//! Artifacts, telemetry, tokenizer, runtime and logging.

use std::path::PathBuf;

use serde_json::json;

use crate::config::diagnostic::Diagnostic;
use crate::config::keys::{Bound, Keys, Spelling, Words, Written};
use crate::config::meant::{
    Artifacts, GpuCollector, GpuMode, GpuTelemetry, LogLevel, MetricsFormat, NetworkLatency, Runtime,
    ServerMetrics, Tokenizer, Ui, UserFile, UserFileFormat,
};
use crate::config::scalar::Scalar;
use crate::config::sections::require;
use crate::config::source::{Node, Value};
use crate::time::Nanos;

/// The sections behind the phases.
pub(super) struct Sections {
    pub(super) artifacts: Artifacts,
    pub(super) slos: Option<Vec<(String, f64)>>,
    pub(super) tokenizer: Tokenizer,
    pub(super) gpu_telemetry: GpuTelemetry,
    pub(super) server_metrics: ServerMetrics,
    pub(super) network_latency: NetworkLatency,
    pub(super) runtime: Runtime,
    pub(super) log_level: LogLevel,
    pub(super) scenario: Option<String>,
}

/// Endings that are taken off a prefix, the first that fits.
const PREFIX_ENDINGS: &[&str] = &[
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_network_latency.jsonl",
    "_gpu_telemetry.jsonl",
    "_timeslices.csv",
    "_timeslices.json",
    "_console.txt",
    "_raw.jsonl",
    ".parquet",
    ".csv",
    ".json",
    ".jsonl",
];

const USER_FORMATS: Words<UserFileFormat> = Words {
    known: &[("json", UserFileFormat::Json), ("yaml", UserFileFormat::Yaml), ("text", UserFileFormat::Text)],
    spelling: Spelling::Lenient,
};

pub(super) fn artifacts(mut keys: Keys<'_>) -> Artifacts {
    let dir = keys.key("dir").text_or_empty();
    let prefix = keys.key("prefix").or_null().text_or_empty();
    let summary_json = files(&mut keys, "summary", "json");
    let records = files(&mut keys, "records", "jsonl");
    let raw = keys.key("raw").switch().or(false);
    let trace = keys.key("trace").switch().or(false);
    let show_trace_timing = keys.key("show_trace_timing").switch().or(false);
    let auto_plot = keys.key("auto_plot").switch().or(false);
    let plot_required = keys.key("plot_required").switch().or(false);
    let outputs = keys.key("export_outputs_json").switch();
    let slice_duration = keys.key("slice_duration").or_null().duration_s(Bound::Above(0.0)).optional();
    let stem = prefix.value().map(|prefix| {
        let ending = PREFIX_ENDINGS.iter().find(|ending| prefix.ends_with(**ending));
        ending.map_or(prefix.as_str(), |ending| prefix.strip_suffix(*ending).unwrap_or(prefix)).to_owned()
    });
    if outputs.value() == Some(&true) && stem.as_deref() == Some("outputs") {
        let message =
            format!("`{}`: `prefix: outputs` and `export_outputs_json` name one file twice", keys.path());
        keys.fault_at(&prefix, message, "`outputs.json` is taken", "choose another prefix");
    }
    let user_files =
        if keys.key("user_files").or_null().entry().is_some_and(|entry| is_empty_list(&entry.node)) {
            Vec::new()
        } else {
            keys.items("user_files", "a list of files", user_file).or(Vec::new())
        };
    keys.finish();
    Artifacts {
        // An empty text is the working directory, as for AIPerf.
        dir: dir.optional().map(|dir| PathBuf::from(if dir.is_empty() { "." } else { dir.as_str() })),
        prefix: stem,
        summary_json,
        records,
        raw,
        trace,
        show_trace_timing,
        auto_plot,
        plot_required,
        export_outputs_json: outputs.or(false),
        slice_duration: slice_duration.map(Nanos::from_secs_f64),
        user_files,
    }
}

fn is_empty_list(node: &Node) -> bool {
    matches!(&node.value, Value::Sequence(items) if items.is_empty())
}

/// `[ending]` for writing the file, `false` for not.
fn files(keys: &mut Keys<'_>, name: &'static str, ending: &'static str) -> bool {
    let key = keys.key(name);
    let Some(entry) = key.entry() else { return true };
    match &entry.node.value {
        Value::Scalar(Scalar::Bool(false)) => key.switch().or(true),
        Value::Sequence(items) if !items.is_empty() => {
            let expected = format!("`[{ending}]` or `false`");
            key.list(&expected, |node| match &node.value {
                Value::Scalar(Scalar::Text(text)) if text == ending => Some(((), json!(ending))),
                Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
            });
            true
        }
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => {
            key.refuse(&format!("`[{ending}]` or `false`"));
            true
        }
    }
}

fn user_file(mut keys: Keys<'_>) -> UserFile {
    let path = keys.key("path").text();
    require(&mut keys, &path, "path");
    let format = keys.key("format").or_null().word(USER_FORMATS).or(UserFileFormat::Text);
    let content = keys.key("content").any();
    require(&mut keys, &content, "content");
    if path.value().is_some_and(|path| path.starts_with('/') || path.split('/').any(|part| part == "..")) {
        let message = format!("`{}.path` must stay below the artifact directory", keys.path());
        keys.fault_at(&path, message, "leads out of it", "write a relative path without `..`");
    }
    keys.finish();
    UserFile { path: path.or(String::new()), format, content: content.or(serde_json::Value::Null) }
}

/// The tokenizer, and whether anything of it was written.
pub(super) fn tokenizer(mut keys: Keys<'_>) -> (Tokenizer, bool) {
    let name = keys.key("name").or_null().text_or_empty().optional();
    let revision = keys.key("revision").text_or_empty();
    let trust_remote_code = keys.key("trust_remote_code").switch().or(false);
    let apply_chat_template = keys.key("apply_chat_template").switch().or(false);
    let written = !keys.is_unset();
    keys.finish();
    let revision = revision.or("main".to_owned());
    (Tokenizer { name, revision, trust_remote_code, apply_chat_template }, written)
}

const COLLECTORS: Words<GpuCollector> = Words {
    known: &[
        ("dcgm", GpuCollector::Dcgm),
        ("pynvml", GpuCollector::Pynvml),
        ("amdsmi", GpuCollector::Amdsmi),
    ],
    spelling: Spelling::Lenient,
};
const GPU_MODES: Words<GpuMode> = Words {
    known: &[("summary", GpuMode::Summary), ("realtime_dashboard", GpuMode::RealtimeDashboard)],
    spelling: Spelling::Lenient,
};

pub(super) fn gpu_telemetry(mut keys: Keys<'_>) -> GpuTelemetry {
    let enabled = keys.key("enabled").switch().or(true);
    let urls = addresses(&mut keys);
    let metrics_file = keys.key("metrics_file").or_null().text_or_empty().optional();
    let collector = keys.key("collector").or_null().word(COLLECTORS);
    let mode = keys.key("mode").word(GPU_MODES).or(GpuMode::Summary);
    if collector.value().is_some_and(|collector| *collector != GpuCollector::Dcgm) && !urls.is_empty() {
        let message = format!("`{}`: a collector on this machine needs no `urls`", keys.path());
        keys.fault_at(&collector, message, "reads no address", "keep one of the two");
    }
    keys.finish();
    GpuTelemetry { enabled, urls, metrics_file, collector: collector.or(GpuCollector::Dcgm), mode }
}

fn addresses(keys: &mut Keys<'_>) -> Vec<String> {
    if keys.key("urls").entry().is_some_and(|entry| is_empty_list(&entry.node)) {
        return Vec::new();
    }
    keys.texts("urls").or(Vec::new()).into_iter().map(|url| url.value).collect()
}

const FORMATS: &[(&str, MetricsFormat)] = &[
    ("json", MetricsFormat::Json),
    ("csv", MetricsFormat::Csv),
    ("jsonl", MetricsFormat::Jsonl),
    ("parquet", MetricsFormat::Parquet),
];
const DISCOVERIES: Words<&str> = Words {
    known: &[("auto", "auto"), ("kubernetes", "kubernetes"), ("disabled", "disabled")],
    spelling: Spelling::Lenient,
};

pub(super) fn server_metrics(mut keys: Keys<'_>) -> ServerMetrics {
    let defaults = ServerMetrics::default();
    let enabled = keys.key("enabled").switch().or(true);
    let urls = addresses(&mut keys);
    let formats = keys.key("formats").list("`json`, `csv`, `jsonl` or `parquet`", |node| match &node.value {
        Value::Scalar(Scalar::Text(text)) => FORMATS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(name, format)| (*format, json!(name))),
        Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => None,
    });
    let discovery = keys.key("discovery").or_null().section(|mut keys| {
        let mode = keys.key("mode").word(DISCOVERIES);
        let selector = keys.key("label_selector").or_null().text_or_empty();
        let namespace = keys.key("namespace").or_null().text_or_empty();
        keys.key("timeout_seconds").seconds(Bound::Above(0.0));
        if mode.value() == Some(&"disabled") && !(selector.is_absent() && namespace.is_absent()) {
            let message = format!("`{}`: nothing is looked for with `mode: disabled`", keys.path());
            keys.fault_at(&mode, message, "disabled", "take `namespace` and `label_selector` out");
        }
        keys.finish();
        mode.or("auto").to_owned()
    });
    keys.finish();
    ServerMetrics { enabled, urls, formats: formats.or(defaults.formats), discovery: discovery.optional() }
}

pub(super) fn network_latency(mut keys: Keys<'_>) -> NetworkLatency {
    let enabled = keys.key("enabled").switch().or(false);
    let ping_interval_s = keys.key("ping_interval").or_null().seconds(Bound::Above(0.0)).optional();
    let mean_ms = keys.key("mean_ms").or_null().number(Bound::AtLeast(0.0)).optional();
    keys.finish();
    NetworkLatency { enabled, ping_interval_s, mean_ms }
}

const UIS: Words<Ui> = Words {
    known: &[("none", Ui::None), ("simple", Ui::Simple), ("dashboard", Ui::Dashboard)],
    spelling: Spelling::Lenient,
};

/// The process's settings, and where `ui` stands.
pub(super) fn runtime(mut keys: Keys<'_>) -> (Runtime, Written<Ui>) {
    let ui = keys.key("ui").word(UIS);
    let workers = keys.key("workers").or_null().whole(1..=u32::MAX);
    let workers_min = keys.key("workers_min").or_null().whole(1..=u32::MAX);
    let processors = keys.key("record_processors").or_null().whole(1..=u32::MAX);
    if let (Some(workers), Some(least)) = (workers.value(), workers_min.value())
        && least > workers
    {
        let message = format!("`{}.workers_min` ({least}) is above `workers` ({workers})", keys.path());
        keys.fault_at(&workers_min, message, "above `workers`", "exchange the two");
    }
    let api_port = keys.key("api_port").or_null().whole(1..=u16::MAX);
    let api_host = keys.key("api_host").or_null().text_or_empty();
    if api_host.value().is_some() && api_port.is_absent() {
        let message = format!("`{}.api_host` needs `api_port`", keys.path());
        keys.fault_at(&api_host, message, "no port", "add `api_port`");
    }
    let interval = keys.key("stats_interval").or_null().seconds(Bound::Within(0.0, 1_000.0));
    let cluster = keys.key("service_run_type").or_null().word(RUN_TYPES).or(false);
    let communication = keys.key("communication").or_null().any();
    for name in ["workers_per_pod", "record_processors_per_pod"] {
        keys.key(name).or_null().whole(1..=100_u32);
    }
    keys.key("dataset_api_base_url").or_null().text_or_empty();
    let unused = workers.is_absent()
        && workers_min.is_absent()
        && processors.is_absent()
        && interval.is_absent()
        && communication.is_absent();
    if !unused {
        let place = keys.place();
        keys.fault(
            Diagnostic::warning(
                "`benchmark.runtime`: the counts and intervals of AIPerf's processes have no meaning here and \
                 are not used: phasor runs one thread per core in one process",
            )
            .at(place, "in part not used"),
        );
    }
    keys.finish();
    (Runtime { ui: ui.value().copied(), api_port: api_port.optional(), cluster }, ui)
}

const RUN_TYPES: Words<bool> =
    Words { known: &[("multiprocessing", false), ("kubernetes", true)], spelling: Spelling::Lenient };

const LEVELS: Words<LogLevel> = Words {
    known: &[
        ("TRACE", LogLevel::Trace),
        ("DEBUG", LogLevel::Debug),
        ("INFO", LogLevel::Info),
        ("NOTICE", LogLevel::Notice),
        ("WARNING", LogLevel::Warning),
        ("SUCCESS", LogLevel::Success),
        ("ERROR", LogLevel::Error),
        ("CRITICAL", LogLevel::Critical),
    ],
    spelling: Spelling::Lenient,
};

pub(super) fn logging(mut keys: Keys<'_>) -> LogLevel {
    let level = keys.key("level").word(LEVELS).or(LogLevel::Info);
    keys.finish();
    level
}
