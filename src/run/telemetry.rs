//! Reading servers and GPUs while a run goes on.
//!
//! Each source has a thread of its own on a core that no shard uses ([`source`]), so that a slow one neither
//! delays another nor anything of the load: shards and conductor never wait for a page. Before the first
//! phase at most [`BASELINE_WAIT`] is given to the first fetches, at the end at most [`FINISH_MAX`] to the
//! last ones of sources that have been quick so far. What the pages mean is decided in `telemetry`.

pub mod http;
mod line_file;
pub mod nvml;
mod probe;
pub mod settings;
mod source;

pub use settings::TelemetrySettings;

use crate::artifact::names;
use crate::config::{Config, GpuCollector, MetricsFormat};
use crate::plan::{PhasePlan, Plan};
use crate::run::companion::{Companion, Stage};
use crate::run::progress::{Audience, Display};
use crate::run::telemetry::line_file::LineFile;
use crate::run::telemetry::nvml::{Binding, Library, LibraryError};
use crate::run::telemetry::probe::{DcgmProbe, LibraryProbe, Probe, ServerProbe, locked};
use crate::run::telemetry::source::{Command, Limits, Report, Source};
use crate::shard::barrier::Barrier;
use crate::telemetry::gpu::{GpuHistory, Signal, extra, signals};
use crate::telemetry::history::History;
use crate::telemetry::{GpuSource, PhaseKey, ServerSource, SourceAccount, Telemetry, address};
use crate::time::{Clock, Nanos};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest wait for the first fetches before the shards are started.
pub const BASELINE_WAIT: Nanos = Nanos::from_millis(100);

/// Shortest and longest wait for the last fetches: four times the slowest one so far, within these.
const FINISH_MIN: Nanos = Nanos::from_millis(100);
/// See [`FINISH_MIN`].
pub const FINISH_MAX: Nanos = Nanos::from_millis(1_000);

/// Why telemetry cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The file of DCGM's fields.
    #[error("`gpu_telemetry.metrics_file`: cannot read {path}: {source}")]
    MetricsFile {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What is read, and the threads that read it.
pub struct Collector {
    clock: Clock,
    phases: Arc<[PhaseKey]>,
    servers: Vec<Arc<Mutex<ServerSource>>>,
    gpus: Vec<Meant>,
    signals: Arc<[Signal]>,
    edges: Arc<Mutex<Vec<(u16, u64)>>>,
    threads: Vec<Thread>,
    reports: Receiver<Report>,
    files: Vec<Arc<LineFile>>,
    settings: TelemetrySettings,
    longest_hold_ns: Arc<AtomicU64>,
    notices: Vec<Notice>,
}

/// A GPU source; one that nobody asked for is not missed.
struct Meant {
    source: Arc<Mutex<GpuSource>>,
    asked_for: bool,
}

struct Thread {
    commands: Sender<Command>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first fetch goes on.
    Starting,
    /// Fetches in its turns.
    Reading,
    /// Does nothing more.
    Done,
}

/// Something the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notice {
    text: String,
    /// It is shown, not only logged: the user asked for what is missing.
    shown: bool,
}

/// What came of collecting.
#[derive(Debug, Default)]
pub struct Collected {
    /// What was read.
    pub telemetry: Telemetry,
    /// Files that could not be written.
    pub faults: Vec<String>,
}

impl Collector {
    /// Starts a thread for every source that the config means. `cpu` is a core that no shard uses.
    ///
    /// # Errors
    /// A file that the config names cannot be read.
    pub fn start(
        config: &Config,
        plan: &Plan,
        settings: &TelemetrySettings,
        directory: &Path,
        cpu: Option<usize>,
        clock: Clock,
    ) -> Result<Self, TelemetryError> {
        Self::start_with(config, plan, settings, directory, cpu, clock, || {
            Binding::load().map(|binding| Box::new(binding) as Box<dyn Library>)
        })
    }

    /// The same with another library for the GPUs of this machine.
    ///
    /// # Errors
    /// As above.
    pub fn start_with(
        config: &Config,
        plan: &Plan,
        settings: &TelemetrySettings,
        directory: &Path,
        cpu: Option<usize>,
        clock: Clock,
        library: impl FnOnce() -> Result<Box<dyn Library>, LibraryError>,
    ) -> Result<Self, TelemetryError> {
        let phases: Arc<[PhaseKey]> = plan
            .phases
            .iter()
            .map(|phase| PhaseKey {
                index: phase.index,
                profiling_index: phase.profiling_index,
                name: phase.name.clone(),
                kind: phase.kind,
                seamless: phase.seamless,
            })
            .collect();
        let (extra, extra_faults) = extra_fields(config)?;
        let (reports_to, reports) = mpsc::channel();
        let mut collector = Self {
            clock,
            phases,
            servers: Vec::new(),
            gpus: Vec::new(),
            signals: signals(&extra).into(),
            edges: Arc::default(),
            threads: Vec::new(),
            reports,
            files: Vec::new(),
            settings: settings.clone(),
            longest_hold_ns: Arc::default(),
            notices: extra_faults
                .into_iter()
                .map(|fault| Notice { text: format!("gpu_telemetry.metrics_file: {fault}"), shown: true })
                .collect(),
        };
        let mut probes: Vec<(Box<dyn Probe>, Limits, bool)> = Vec::new();
        if config.server_metrics.enabled {
            let limits = settings.server_limits();
            let made = collector.server_probes(config, directory).into_iter();
            probes.extend(made.map(|probe| (Box::new(probe) as Box<dyn Probe>, limits, true)));
        }
        if config.gpu_telemetry.enabled {
            let limits = settings.gpu_limits();
            let lines = Arc::new(LineFile::new(directory.join(names::gpu_lines(&config.artifacts))));
            collector.files.push(Arc::clone(&lines));
            let made = match config.gpu_telemetry.collector {
                GpuCollector::Dcgm => collector.dcgm_probes(config, &lines, &extra.into()),
                GpuCollector::Pynvml => collector.library_probe(&lines, library()).into_iter().collect(),
                // Refused before the run (config::support).
                GpuCollector::Amdsmi => Vec::new(),
            };
            probes.extend(made.into_iter().map(|probe| (probe, limits, false)));
        }
        collector.spawn(probes, &reports_to, cpu);
        Ok(collector)
    }

    fn server_probes(&mut self, config: &Config, directory: &Path) -> Vec<ServerProbe> {
        let wants_lines = config.server_metrics.formats.contains(&MetricsFormat::Jsonl);
        let path = directory.join(names::server_lines(&config.artifacts));
        let lines = wants_lines.then(|| Arc::new(LineFile::new(path)));
        self.files.extend(lines.clone());
        let mut places: Vec<Vec<String>> = Vec::new();
        // Pages of metrics are fetched from ports alone.
        let over_internet = config.endpoint.urls.iter().filter(|url| url.socket.is_none());
        let from_endpoint =
            over_internet.map(|url| address::candidates(address::origin(&url.text), &url.text));
        let asked_for =
            config.server_metrics.urls.iter().filter_map(|url| Some(vec![address::metrics_url(url)?]));
        for candidates in from_endpoint.chain(asked_for) {
            let known = |one: &Vec<String>| one.first() == candidates.first();
            if !places.iter().any(known) {
                places.push(candidates);
            }
        }
        let mut probes = Vec::with_capacity(places.len());
        for candidates in places {
            let url = candidates.first().cloned().unwrap_or_default();
            let source = ServerSource { history: History::new(url), account: SourceAccount::default() };
            let shared = Arc::new(Mutex::new(source));
            self.servers.push(Arc::clone(&shared));
            probes.push(ServerProbe {
                clock: self.clock,
                shared,
                lines: lines.clone(),
                candidates,
                at: 0,
                client: None,
                last_body: Vec::new(),
            });
        }
        probes
    }

    fn gpu_source(&mut self, url: String, asked_for: bool) -> Arc<Mutex<GpuSource>> {
        let source = GpuSource { history: GpuHistory::new(url), account: SourceAccount::default() };
        let source = Arc::new(Mutex::new(source));
        self.gpus.push(Meant { source: Arc::clone(&source), asked_for });
        source
    }

    fn dcgm_probes(
        &mut self,
        config: &Config,
        lines: &Arc<LineFile>,
        extra: &Arc<[extra::Extra]>,
    ) -> Vec<Box<dyn Probe>> {
        let usual = self.settings.dcgm_endpoints.iter().map(|url| (url.clone(), false));
        let asked_for = config.gpu_telemetry.urls.iter().map(|url| (url.clone(), true));
        let mut urls: Vec<(String, bool)> = Vec::new();
        for (url, asked_for) in usual.chain(asked_for) {
            let Some(url) = address::metrics_url(&url) else { continue };
            match urls.iter_mut().find(|(known, _)| *known == url) {
                Some((_, known)) => *known |= asked_for,
                None => urls.push((url, asked_for)),
            }
        }
        urls.into_iter()
            .map(|(url, asked_for)| {
                let shared = self.gpu_source(url.clone(), asked_for);
                Box::new(DcgmProbe {
                    clock: self.clock,
                    shared,
                    edges: Arc::clone(&self.edges),
                    lines: Arc::clone(lines),
                    signals: Arc::clone(&self.signals),
                    extra: Arc::clone(extra),
                    url,
                    client: None,
                    last_body: Vec::new(),
                }) as Box<dyn Probe>
            })
            .collect()
    }

    fn library_probe(
        &mut self,
        lines: &Arc<LineFile>,
        library: Result<Box<dyn Library>, LibraryError>,
    ) -> Option<Box<dyn Probe>> {
        match library {
            Ok(library) => Some(Box::new(LibraryProbe {
                clock: self.clock,
                shared: self.gpu_source(nvml::SOURCE.to_owned(), true),
                edges: Arc::clone(&self.edges),
                lines: Arc::clone(lines),
                signals: Arc::clone(&self.signals),
                library,
            })),
            Err(error) => {
                self.notices.push(Notice { text: format!("GPU telemetry is off: {error}"), shown: true });
                None
            }
        }
    }

    fn spawn(
        &mut self,
        probes: Vec<(Box<dyn Probe>, Limits, bool)>,
        reports: &Sender<Report>,
        cpu: Option<usize>,
    ) {
        let holds: Arc<[AtomicU64]> = probes.iter().map(|_| AtomicU64::new(0)).collect();
        for (number, (probe, limits, held)) in probes.into_iter().enumerate() {
            let (commands_to, commands) = mpsc::channel();
            let source = Source {
                number,
                probe,
                limits,
                phases: Arc::clone(&self.phases),
                clock: self.clock,
                commands,
                reports: reports.clone(),
                holds: held.then(|| Arc::clone(&holds)),
                longest_hold_ns: Arc::clone(&self.longest_hold_ns),
            };
            let thread = std::thread::Builder::new().name(format!("telemetry-{number}")).spawn(move || {
                if let Some(id) = cpu {
                    // Without it the thread runs where the system puts it, which is no fault.
                    let _ = core_affinity::set_for_current(core_affinity::CoreId { id });
                }
                source.run();
            });
            let state = match thread {
                Ok(_) => State::Starting,
                Err(error) => {
                    let text = format!("a source of telemetry is not read: no thread: {error}");
                    self.notices.push(Notice { text, shown: true });
                    State::Done
                }
            };
            self.threads.push(Thread { commands: commands_to, state });
        }
    }

    /// Waits until every source has answered once or cannot, at most [`BASELINE_WAIT`].
    fn await_baseline(&mut self) {
        let deadline = self.clock.now().plus(BASELINE_WAIT);
        while self.threads.iter().any(|thread| thread.state == State::Starting) {
            let left = deadline.since(self.clock.now());
            if left == Nanos::ZERO {
                return;
            }
            match self.reports.recv_timeout(Duration::from(left)) {
                Ok(report) => self.take(report),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, report: Report) {
        let (number, state) = match report {
            Report::Ready(number, true) => (number, State::Reading),
            Report::Ready(number, false) | Report::Done(number) => (number, State::Done),
        };
        if let Some(thread) = self.threads.get_mut(number) {
            thread.state = state;
        }
    }

    /// From now on phases are watched.
    fn begin(&mut self, barrier: &Arc<Barrier>) {
        for thread in &self.threads {
            // A thread that has ended has no use for it.
            let _ = thread.commands.send(Command::Begin(Arc::clone(barrier)));
        }
    }

    /// Every shard has closed `phase`.
    fn phase_closed(&self, phase: u16) {
        let now = self.clock.now();
        for thread in &self.threads {
            let _ = thread.commands.send(Command::Closed(phase, now));
        }
    }

    /// Ends the threads and takes what they read. A source that is slow or hangs is left behind with what it
    /// had read before.
    pub fn finish(mut self, display: &mut Display) -> Collected {
        for thread in &self.threads {
            let _ = thread.commands.send(Command::Finish);
        }
        let slowest = self.servers.iter().map(|source| locked(source).account.slowest_ns);
        let slowest = slowest.chain(self.gpus.iter().map(|gpu| locked(&gpu.source).account.slowest_ns));
        let slowest = slowest.flatten().max().unwrap_or(0);
        let wait = Nanos(slowest.saturating_mul(4)).max(FINISH_MIN).min(FINISH_MAX);
        let deadline = self.clock.now().plus(wait);
        loop {
            while let Ok(report) = self.reports.try_recv() {
                self.take(report);
            }
            let left = deadline.since(self.clock.now());
            // One that has not answered even once is not waited for.
            let waiting = self.threads.iter().any(|thread| thread.state == State::Reading);
            if !waiting || left == Nanos::ZERO {
                break;
            }
            match self.reports.recv_timeout(Duration::from(left)) {
                Ok(report) => self.take(report),
                Err(_) => break,
            }
        }
        let telemetry = self.telemetry();
        self.missing(&telemetry);
        self.tell(display);
        let faults = self.files.iter().filter_map(|file| file.finish()).collect();
        Collected { telemetry, faults }
    }

    fn telemetry(&mut self) -> Telemetry {
        let server = |source: &Arc<Mutex<ServerSource>>| {
            let mut source = locked(source);
            let empty = History::new(source.history.url().to_owned());
            let account = source.account.clone();
            ServerSource { history: std::mem::replace(&mut source.history, empty), account }
        };
        let gpu = |source: &Arc<Mutex<GpuSource>>| {
            let mut source = locked(source);
            let empty = GpuHistory::new(source.history.url().to_owned());
            let account = source.account.clone();
            GpuSource { history: std::mem::replace(&mut source.history, empty), account }
        };
        let servers: Vec<ServerSource> = self.servers.iter().map(server).collect();
        let gpus: Vec<(GpuSource, bool)> =
            self.gpus.iter().map(|meant| (gpu(&meant.source), meant.asked_for)).collect();
        let seen = |source: &GpuSource| !source.history.tracks().is_empty();
        Telemetry {
            phases: self.phases.to_vec(),
            servers_configured: servers
                .iter()
                .map(|source| address::redacted(source.history.url()))
                .collect(),
            servers,
            gpus_configured: gpus
                .iter()
                .filter(|(source, asked_for)| *asked_for || seen(source))
                .map(|(source, _)| address::redacted(source.history.url()))
                .collect(),
            gpus: gpus
                .into_iter()
                .filter(|(source, asked_for)| *asked_for || seen(source))
                .map(|(source, _)| source)
                .collect(),
            signals: self.signals.to_vec(),
            gpu_edges: std::mem::take(&mut *locked(&self.edges)),
            gpu_grace_ns: self.settings.gpu_grace.0,
            interval_ns: self.settings.server_interval.0,
            longest_hold_ns: self.longest_hold_ns.load(Relaxed),
        }
    }

    /// Notes what was meant and brought nothing, once.
    fn missing(&mut self, telemetry: &Telemetry) {
        let why = |account: &SourceAccount| {
            let given_up = account.given_up.clone();
            given_up.or_else(|| account.failures.last().map(|(message, _)| message.clone()))
        };
        let servers = telemetry.servers.iter().filter(|source| source.history.fetches().is_empty());
        let mut missing: Vec<String> = servers
            .map(|source| {
                let why = why(&source.account).unwrap_or_else(|| "no page of metrics came".to_owned());
                format!("no server metrics from {}: {why}", address::redacted(source.history.url()))
            })
            .collect();
        let gpus = telemetry.gpus.iter().filter(|source| source.history.tracks().is_empty());
        missing.extend(gpus.map(|source| {
            let why = why(&source.account).unwrap_or_else(|| "no sample of a GPU came".to_owned());
            format!("no GPU telemetry from {}: {why}", address::redacted(source.history.url()))
        }));
        if !missing.is_empty() {
            self.notices.push(Notice { text: missing.join("; "), shown: self.settings.asked_for });
        }
    }

    fn tell(&mut self, display: &mut Display) {
        for Notice { text, shown } in std::mem::take(&mut self.notices) {
            display.doubt(&text, if shown { Audience::User } else { Audience::Log });
        }
    }
}

impl Companion for Collector {
    fn before_first_phase(&mut self, stage: &Stage<'_>) {
        self.await_baseline();
        self.begin(stage.barrier);
    }

    fn phase_drained(&mut self, _stage: &Stage<'_>, phase: &PhasePlan) {
        self.phase_closed(phase.index);
    }
}

/// The fields that the user adds, and the faults of their file.
fn extra_fields(config: &Config) -> Result<(Vec<extra::Extra>, Vec<String>), TelemetryError> {
    let gpu = &config.gpu_telemetry;
    let Some(path) = gpu.metrics_file.as_ref().filter(|_| gpu.enabled) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|source| TelemetryError::MetricsFile { path: path.clone(), source })?;
    Ok(extra::read(&text))
}
