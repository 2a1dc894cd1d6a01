//! The config as meant: every default filled in, every value in its unit, every name checked.

mod dataset;
mod endpoint;
mod output;
mod phase;
mod sweep;

use crate::config::places::Places;

pub use dataset::{
    BatchSizes, CacheBust, Corpus, Dataset, DatasetSource, Distribution, FileDataset, LengthMix, Prefix,
    Prompts, PublicDataset, RandomRange, RangeStyle, Rankings, Replay, Sampling, Shape, Synthesis,
    SyntheticDataset, SystemPrompt, Weighted,
};
pub use endpoint::{
    ContentType, Endpoint, EndpointKind, Model, ModelStrategy, Models, Probe, ProbeMode, ReplyTemplate,
    ResetCache, Reuse, ServerProfiler, Url,
};
pub use output::{
    Artifacts, GpuCollector, GpuMode, GpuTelemetry, LogLevel, MetricsFormat, NetworkLatency, Runtime,
    ServerMetrics, Tokenizer, Ui, UserFile, UserFileFormat,
};
pub use phase::{
    AdaptiveScale, Cancellation, Control, Load, Phase, PhaseKind, Ramp, RampStrategy, RatePoint, SlaRule,
    StepPolicy, StopRules, TimingMode,
};
pub use sweep::{
    Convergence, ConvergenceMode, Dimension, Direction, IterationOrder, MultiRun, Objective, ScenarioRun,
    Search, Sweep, SweepKind, TrialStat,
};

/// A whole benchmark, ready to be planned.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the first model, as sent in request bodies.
    pub model: String,
    /// All models, and how requests choose among them.
    pub models: Models,
    /// Where the load goes.
    pub endpoint: Endpoint,
    /// What is sent.
    pub dataset: Dataset,
    /// The load phases, in order; at least one, the first not seamless, one at least of kind profiling.
    pub phases: Vec<Phase>,
    /// Where the files go.
    pub artifacts: Artifacts,
    /// Limits by metric tag that a request must keep to count as good, in the metric's unit (ms for
    /// latencies); absent: no goodput.
    pub slos: Option<Vec<(String, f64)>>,
    /// How tokens are counted.
    pub tokenizer: Tokenizer,
    /// What is read from the server's GPUs.
    pub gpu_telemetry: GpuTelemetry,
    /// What is read from the server's own metrics.
    pub server_metrics: ServerMetrics,
    /// How the network's share of latencies is found.
    pub network_latency: NetworkLatency,
    /// The process itself.
    pub runtime: Runtime,
    /// The least level that is logged.
    pub log_level: LogLevel,
    /// A named scenario whose rules the run must keep, and whether they may be broken.
    pub scenario: Option<String>,
    /// What is varied from run to run.
    pub sweep: Option<Sweep>,
    /// How often each run is repeated.
    pub multi_run: MultiRun,
    /// Whether the table of a sweep is not printed while it runs.
    pub no_sweep_table: bool,
    /// Root of every seeded stream; absent: streams are seeded from the operating system.
    pub random_seed: Option<u64>,
    /// The fields that were set, in AIPerf's normal form (spec/artifacts 4.3): the `input_config` member.
    pub input_config: serde_json::Value,
    /// Where each field stands, for what is found out later.
    pub places: Places,
}

impl Config {
    /// A config of `endpoint` and `phases` around which everything else has its default.
    pub fn new(model: &str, endpoint: Endpoint, dataset: Dataset, phases: Vec<Phase>) -> Self {
        Self {
            model: model.to_owned(),
            models: Models::of(model),
            endpoint,
            dataset,
            phases,
            artifacts: Artifacts::default(),
            slos: None,
            tokenizer: Tokenizer::default(),
            gpu_telemetry: GpuTelemetry::default(),
            server_metrics: ServerMetrics::default(),
            network_latency: NetworkLatency::default(),
            runtime: Runtime::default(),
            log_level: LogLevel::Info,
            scenario: None,
            sweep: None,
            multi_run: MultiRun::default(),
            no_sweep_table: false,
            random_seed: None,
            input_config: serde_json::Value::Object(serde_json::Map::new()),
            places: Places::default(),
        }
    }

    /// Whether the user wrote something about telemetry, so that its absence is worth showing.
    pub fn names_telemetry(&self) -> bool {
        ["gpu_telemetry", "server_metrics"]
            .iter()
            .any(|section| self.places.written(&format!("benchmark.{section}")))
    }

    /// Turns the load to `address`; the request target stays. The config as shown in files follows.
    pub fn redirect(&mut self, address: std::net::SocketAddr) {
        self.redirect_as("http", address);
    }

    /// As [`Config::redirect`], over TLS.
    pub fn redirect_tls(&mut self, address: std::net::SocketAddr) {
        self.redirect_as("https", address);
    }

    fn redirect_as(&mut self, scheme: &str, address: std::net::SocketAddr) {
        for url in &mut self.endpoint.urls {
            url.text = format!("{scheme}://{address}{}", url.target);
            url.host = address.ip().to_string();
            url.port = address.port();
            url.tls = scheme == "https";
            url.socket = None;
            url.user_info = None;
        }
        let texts: Vec<&str> = self.endpoint.urls.iter().map(|url| url.text.as_str()).collect();
        if let Some(urls) = self.input_config.pointer_mut("/endpoint/urls") {
            *urls = serde_json::json!(texts);
        }
    }
}
