//! What is written, read along and shown.

use crate::time::Nanos;

/// Where the files go and which there are.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one per switch of the config")]
pub struct Artifacts {
    /// Directory as written; absent: a name made from model and load (spec/artifacts 2.1).
    pub dir: Option<std::path::PathBuf>,
    /// Stem of file names in place of the default ones, known endings taken off.
    pub prefix: Option<String>,
    /// Whether the summary is written as JSON too.
    pub summary_json: bool,
    /// Whether a line per request is written.
    pub records: bool,
    /// Whether requests and replies are written as they were.
    pub raw: bool,
    /// Whether times of the transport are written per request.
    pub trace: bool,
    /// Whether times of the transport are shown.
    pub show_trace_timing: bool,
    /// Whether plots are made at the end.
    pub auto_plot: bool,
    /// Whether a plot that fails makes the run fail.
    pub plot_required: bool,
    /// Whether `outputs.json` is written.
    pub export_outputs_json: bool,
    /// Length of the slices of time that are summed up on their own; absent: none.
    pub slice_duration: Option<Nanos>,
    /// Files of the user written at the start.
    pub user_files: Vec<UserFile>,
}

impl Default for Artifacts {
    fn default() -> Self {
        Self {
            dir: None,
            prefix: None,
            summary_json: true,
            records: true,
            raw: false,
            trace: false,
            show_trace_timing: false,
            auto_plot: false,
            plot_required: false,
            export_outputs_json: false,
            slice_duration: None,
            user_files: Vec::new(),
        }
    }
}

/// A file of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserFile {
    /// Below the artifact directory.
    pub path: String,
    /// How the content is written.
    pub format: UserFileFormat,
    /// The content, with templates as written.
    pub content: serde_json::Value,
}

/// How a user's file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFileFormat {
    /// JSON.
    Json,
    /// As it is.
    Text,
    /// YAML.
    Yaml,
}

/// How tokens are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    /// Its name or path; absent: the model's.
    pub name: Option<String>,
    /// Its revision.
    pub revision: String,
    /// Whether code of its repository may run.
    pub trust_remote_code: bool,
    /// Whether prompts are counted as chat messages.
    pub apply_chat_template: bool,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self { name: None, revision: "main".to_owned(), trust_remote_code: false, apply_chat_template: false }
    }
}

/// What is read from the server's GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuTelemetry {
    /// Whether anything is.
    pub enabled: bool,
    /// Addresses of collectors; empty: the usual ones.
    pub urls: Vec<String>,
    /// Names of metrics in a CSV file.
    pub metrics_file: Option<String>,
    /// Who collects.
    pub collector: GpuCollector,
    /// How it is shown.
    pub mode: GpuMode,
}

impl Default for GpuTelemetry {
    fn default() -> Self {
        Self {
            enabled: true,
            urls: Vec::new(),
            metrics_file: None,
            collector: GpuCollector::Dcgm,
            mode: GpuMode::Summary,
        }
    }
}

/// Who collects GPU metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuCollector {
    /// AMD's library on this machine.
    Amdsmi,
    /// NVIDIA's exporter.
    Dcgm,
    /// NVIDIA's library on this machine.
    Pynvml,
}

/// How GPU metrics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuMode {
    /// While they come.
    RealtimeDashboard,
    /// At the end.
    Summary,
}

/// What is read from the server's own metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerMetrics {
    /// Whether anything is.
    pub enabled: bool,
    /// Addresses; empty: found from the endpoint's.
    pub urls: Vec<String>,
    /// Files written.
    pub formats: Vec<MetricsFormat>,
    /// Whether addresses are looked for in a cluster.
    pub discovery: Option<String>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        Self {
            enabled: true,
            urls: Vec::new(),
            formats: vec![MetricsFormat::Json, MetricsFormat::Csv],
            discovery: None,
        }
    }
}

/// A file of server metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Comma-separated.
    Csv,
    /// One object.
    Json,
    /// One object per line.
    Jsonl,
    /// Columns.
    Parquet,
}

/// How the network's share of latencies is found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkLatency {
    /// Whether it is.
    pub enabled: bool,
    /// Seconds between two measurements, above 0; absent: the default.
    pub ping_interval_s: Option<f64>,
    /// A known value in ms, at least 0.
    pub mean_ms: Option<f64>,
}

/// The process itself.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Runtime {
    /// How progress is shown; absent: not said.
    pub ui: Option<Ui>,
    /// Port of the control interface.
    pub api_port: Option<u16>,
    /// Whether the run is spread over a cluster.
    pub cluster: bool,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ui {
    /// On a whole screen.
    Dashboard,
    /// Not.
    None,
    /// In lines.
    Simple,
}

impl Ui {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dashboard => "dashboard",
            Self::None => "none",
            Self::Simple => "simple",
        }
    }
}

/// The least level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// What helps to find faults.
    Debug,
    /// What happens.
    Info,
    /// What matters more.
    Notice,
    /// What may be wrong.
    Warning,
    /// What went well.
    Success,
    /// What is wrong.
    Error,
    /// What ends the run.
    Critical,
}
