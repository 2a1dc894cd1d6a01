//! The run: shards conducted through the phases, tallies merged, files written.
//!
//! [`conduct`] is the whole story: give out cores, render what is sent, open the record file, start the
//! shards, watch them, merge what they hand over, write the results. The shards find their way through the
//! phases by themselves (see the barrier in the shard's module); the conductor never stands between them.

pub mod calibrate;
pub mod cores;
pub mod doctor;
pub mod environment;
pub mod interrupt;
pub mod limits;
pub mod machine;
pub mod ports;
pub mod progress;
pub mod recording;
pub mod telemetry;

use crate::artifact;
use crate::artifact::FinishedPhase;
use crate::artifact::FinishedRun;
use crate::artifact::ShardReport;
use crate::artifact::calibration;
use crate::artifact::calibration::Calibration;
use crate::artifact::log::Level;
use crate::artifact::log::Log;
use crate::artifact::records::RecordLines;
use crate::config::Config;
use crate::config::Load;
use crate::dataset::Dataset;
use crate::engine::Engine;
use crate::engine::EngineOptions;
use crate::measure::Cost;
use crate::measure::Judgement;
use crate::measure::PhaseTally;
use crate::measure::verdict;
use crate::measure::verdict::Evidence;
use crate::measure::verdict::LoadShape;
use crate::plan;
use crate::plan::GivenUp;
use crate::plan::PHASES_MAX;
use crate::plan::Plan;
use crate::plan::PlanError;
use crate::plan::Shared;
use crate::plan::Tuning;
use crate::run::cores::Cores;
use crate::run::progress::Display;
use crate::run::progress::Ui;
use crate::run::recording::BATCH_RECORDS;
use crate::run::recording::Recorder;
use crate::run::telemetry::Collector;
use crate::run::telemetry::TelemetrySettings;
use crate::schedule::Share;
use crate::shard;
use crate::shard::barrier::Barrier;
use crate::shard::driver::ClosedPhase;
use crate::shard::driver::Gauges;
use crate::shard::driver::Idle;
use crate::shard::driver::Message;
use crate::shard::driver::RecordPort;
use crate::shard::driver::Shard;
use crate::shard::ring::RingError;
use crate::shard::ring::RingOptions;
use crate::shard::socket::SocketOptions;
use crate::shard::sources::Sources;
use crate::time::Clock;
use crate::time::Stamp;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

/// Exact samples kept per metric and phase, over all shards.
pub const SAMPLES_MAX: usize = 1 << 20;

/// Connections of a shard beyond its slots: those that are closing, and idle ones of other URLs.
const CONNECTIONS_BESIDES: u64 = 1_024;

/// Connections of one shard when an open loop has no cap.
const CONNECTIONS_UNCAPPED: u64 = 60_000;

/// How often the conductor looks at the gauges.
const TICK: Duration = Duration::from_millis(100);

/// How a run is to be done, beside its config.
#[derive(Debug)]
pub struct RunOptions {
    /// The cores given out.
    pub cores: Cores,
    /// What the environment and the command line say about the plan.
    pub tuning: Tuning,
    /// Options of the client's sockets.
    pub sockets: SocketOptions,
    /// What a shard does while it has nothing to do; absent: it spins if its core is its own.
    pub idle: Option<Idle>,
    /// Addresses that connections come from, in turn; empty: the kernel chooses.
    pub sources: Sources,
    /// What this machine can do, if that is known: phases are held against it.
    pub calibration: Option<Calibration>,
    /// How servers and GPUs are read.
    pub telemetry: TelemetrySettings,
    /// Progress on stderr.
    pub ui: Ui,
    /// Where the files go; exists.
    pub directory: PathBuf,
    /// The command line for the files, secrets taken out.
    pub cli_command: String,
    /// The built-in server runs in this process and needs a descriptor for each connection too.
    pub server_inside: bool,
    /// Set from outside: end now.
    pub interrupt: Arc<AtomicBool>,
    /// The process's clock.
    pub clock: Clock,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// What is shown at the end.
    pub console: String,
    /// Good requests of profiling phases.
    pub ok: u64,
    /// Failed or cancelled ones of profiling phases.
    pub errors: u64,
    /// Ended by a signal.
    pub interrupted: bool,
    /// What could not be done: a shard's fault, a file that could not be written, records lost.
    pub faults: Vec<String>,
    /// The phases that started, in order.
    pub phases: Vec<FinishedPhase>,
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the run cannot be made.
    #[error("cannot write {path}: {source}; name another directory with `artifacts.dir`")]
    Artifact {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A limit of the system is too low.
    #[error(transparent)]
    Limit(#[from] limits::LimitError),
    /// The host name has no address.
    #[error("`endpoint.url`: the host `{host}` has no address: {reason}")]
    Resolve {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
    /// A source address is of no use.
    #[error(transparent)]
    Source(#[from] ports::SourceAddressError),
    /// The system lets this process have no ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A shard could not be started.
    #[error(transparent)]
    Spawn(#[from] shard::SpawnError),
    /// What requests are to be held against makes no sense.
    #[error(transparent)]
    Judgement(#[from] crate::measure::judgement::JudgementError),
    /// What is to be read of GPUs cannot be prepared.
    #[error(transparent)]
    Telemetry(#[from] telemetry::TelemetryError),
    /// The phases cannot be planned for the dataset.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// More phases than fit.
    #[error("{count} phases are more than the {PHASES_MAX} that one run can have: split the workflow")]
    TooManyPhases {
        /// How many there are.
        count: usize,
    },
}

/// Runs `config` from the first phase to the last file.
pub fn conduct(
    config: &Config,
    dataset: &Arc<Dataset>,
    options: &RunOptions,
) -> Result<RunOutcome, RunError> {
    if config.phases.len() > PHASES_MAX {
        return Err(RunError::TooManyPhases { count: config.phases.len() });
    }
    let script = Arc::new(plan::script_of(dataset));
    let plan = Arc::new(Plan::for_script(config, &script, fastrand::u64(..), &options.tuning)?);
    let addresses = resolve(config)?;
    ports::check(&options.sources, &addresses)?;
    let shards = u16::try_from(options.cores.shards.len()).unwrap_or(u16::MAX);
    let ends = if options.server_inside { 2 } else { 1 };
    let peak = plan.in_flight_peak().map(|peak| peak * ends);
    shard::probe()?;
    let connections = limits::prepare(u64::from(shards), peak)? / ends;

    let (directory, cpu) = (&options.directory, options.cores.spare());
    let mut collector = Collector::start(config, &plan, &options.telemetry, directory, cpu, options.clock)?;

    artifact::write_inputs(&options.directory, dataset).map_err(|failure| RunError::Artifact {
        path: failure.path.display().to_string(),
        source: failure.source,
    })?;
    let slos = config.slos.iter().flatten().map(|(tag, limit)| (tag.as_str(), *limit));
    let judgement = Judgement::new(slos)?.with_environment(|name| std::env::var(name).ok())?;
    let judgement = Arc::new(judgement);
    let record_path = options.directory.join(artifact::names::records(&config.artifacts));
    let records_failed = |source| RunError::Artifact { path: record_path.display().to_string(), source };
    let (recorder, ports) = if config.artifacts.records {
        let lines = RecordLines::new(config, dataset, options.clock, Arc::clone(&judgement));
        let (recorder, ports) =
            Recorder::start(&record_path, lines, usize::from(shards)).map_err(records_failed)?;
        (Some(recorder), ports.into_iter().map(Some).collect())
    } else {
        (None, (0..shards).map(|_| None).collect())
    };

    let log = Log::create(&options.directory, options.clock).map_err(|failure| RunError::Artifact {
        path: failure.path.display().to_string(),
        source: failure.source,
    })?;
    collector.await_baseline();
    let team = Team::start(&plan, dataset, &addresses, connections, ports, &judgement, options)?;
    collector.begin(&team.barrier);
    let (gathered, mut log) = team.conduct(&plan, options, log, &collector);
    let collected = collector.finish(log.as_mut());
    let recorded = recorder.map(Recorder::finish).unwrap_or_default();

    let mut faults = gathered.faults;
    let records_lost = gathered.records_lost + recorded.lost;
    faults.extend(recorded.fault);
    faults.extend(collected.faults);
    if records_lost > 0 {
        faults.push(format!("{records_lost} lines of {} were lost", record_path.display()));
    }
    let run = FinishedRun {
        config,
        dataset,
        clock: options.clock,
        benchmark_id: format!("{:012x}", fastrand::u64(..) >> 16),
        cli_command: options.cli_command.clone(),
        phases: gathered.phases,
        interrupted: gathered.interrupted,
        records_lost,
        shards: gathered.shards,
        calibration: options.calibration,
        telemetry: collected.telemetry,
    };
    let (ok, errors) = profiling_counts(&run);
    let written = artifact::write_results(&options.directory, &run);
    faults.extend(written.failures.iter().map(ToString::to_string));
    faults.extend(written.missing);
    faults.extend(log.and_then(|log| end_log(log, ok, errors, &faults)));
    let console = format!("{}\n{}{}", written.tables, written.footer, calibration::lines(&run));
    let FinishedRun { phases, interrupted, .. } = run;
    Ok(RunOutcome { console, ok, errors, interrupted, faults, phases })
}

/// Says in the log how the run ended; what went wrong with the log itself.
fn end_log(mut log: Log, ok: u64, errors: u64, faults: &[String]) -> Option<String> {
    for fault in faults {
        log.line(Level::Error, fault);
    }
    let total = ok + errors;
    log.line(Level::Notice, &format!("Processed {ok} valid requests and {errors} errors ({total} total)."));
    log.close().err().map(|failure| failure.to_string())
}

/// How many shards the plan can keep busy: its largest closed loop, or any number for an open loop.
pub fn useful_shards(config: &Config) -> u64 {
    config
        .phases
        .iter()
        .map(|phase| match phase.load {
            Load::Concurrency { concurrency } => u64::from(concurrency),
            Load::Constant { .. }
            | Load::FixedSchedule { .. }
            | Load::Gamma { .. }
            | Load::Poisson { .. }
            | Load::UserCentric { .. } => u64::MAX,
        })
        .max()
        .unwrap_or(1)
}

fn profiling_counts(run: &FinishedRun<'_>) -> (u64, u64) {
    let profiling = run.phases.iter().filter(|phase| phase.profiling_index.is_some());
    profiling.fold((0, 0), |(ok, errors), phase| {
        let counts = phase.tally.counts();
        (ok + counts.ok, errors + counts.errors())
    })
}

/// More connections in flight than this machine has ports for, if the plan says how many there are and the
/// system how many ports.
pub fn port_shortage(config: &Config, sources: &Sources) -> Result<Option<ports::Shortage>, RunError> {
    let peak = in_flight_peak(config);
    let range = ports::PortRange::read(Path::new("/"));
    let Some((peak, range)) = peak.zip(range) else { return Ok(None) };
    Ok(ports::shortage(range, peak, &resolve(config)?, sources))
}

/// Most requests in flight by plan; absent when an open loop has no cap.
pub fn in_flight_peak(config: &Config) -> Option<u64> {
    // Neither the rows nor the seed have a part in it.
    Plan::new(config, 1, 0).in_flight_peak()
}

/// The address of each URL, IPv4 first as AIPerf does.
pub fn resolve(config: &Config) -> Result<Vec<SocketAddr>, RunError> {
    let address = |url: &crate::config::Url| {
        let resolve = |reason: String| RunError::Resolve { host: url.host.clone(), reason };
        let mut found: Vec<SocketAddr> = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .map_err(|error| resolve(error.to_string()))?
            .collect();
        found.sort_by_key(SocketAddr::is_ipv6);
        found.first().copied().ok_or_else(|| resolve("none found".to_owned()))
    };
    config.endpoint.urls.iter().map(address).collect()
}

/// The shards of a run.
#[derive(Debug)]
struct Team {
    shared: Arc<Shared>,
    running: Vec<shard::Running>,
    messages: mpsc::Receiver<Message>,
    gauges: Vec<Arc<Gauges>>,
    barrier: Arc<Barrier>,
}

/// What the shards handed over.
#[derive(Debug, Default)]
struct Gathered {
    phases: Vec<FinishedPhase>,
    shards: Vec<ShardReport>,
    records_lost: u64,
    interrupted: bool,
    faults: Vec<String>,
}

impl Team {
    fn start(
        plan: &Arc<Plan>,
        dataset: &Arc<Dataset>,
        addresses: &[SocketAddr],
        connections: u64,
        ports: Vec<Option<RecordPort>>,
        judgement: &Arc<Judgement>,
        options: &RunOptions,
    ) -> Result<Self, RunError> {
        let shards = u16::try_from(options.cores.shards.len()).unwrap_or(u16::MAX);
        let shared = Arc::new(Shared::new(plan));
        let barrier = Arc::new(Barrier::new(plan, shards));
        let (sender, messages) = mpsc::channel();
        let per_shard = connections_per_shard(plan, shards, connections);
        let idle = options.idle.unwrap_or(if options.cores.own { Idle::Spin } else { Idle::Sleep });
        let mut team = Self {
            shared: Arc::clone(&shared),
            running: Vec::new(),
            messages,
            gauges: Vec::new(),
            barrier: Arc::clone(&barrier),
        };
        for ((number, cpu), port) in (0_u16..).zip(options.cores.shards.iter().copied()).zip(ports) {
            let engine = Engine::new(EngineOptions {
                plan: Arc::clone(plan),
                shared: Arc::clone(&shared),
                dataset: Arc::clone(dataset),
                share: Share::new(number, shards),
                connections_max: usize::try_from(per_shard).unwrap_or(usize::MAX),
                samples_max: SAMPLES_MAX.div_ceil(usize::from(shards)),
                batch_records: BATCH_RECORDS,
                identifier_seed: fastrand::u64(..),
            })
            .judging(Arc::clone(judgement));
            let gauges = Arc::new(Gauges::default());
            team.gauges.push(Arc::clone(&gauges));
            let shard = Shard {
                engine,
                phases: u16::try_from(plan.phases.len()).unwrap_or(u16::MAX),
                shard: number,
                cpu,
                addresses: addresses.to_vec(),
                sources: options.sources.starting_at(number),
                sockets: options.sockets,
                barrier: Arc::clone(&barrier),
                interrupt: Arc::clone(&options.interrupt),
                gauges,
                messages: sender.clone(),
                records: port,
                clock: options.clock,
                idle,
            };
            match shard::spawn(shard, ring_options(per_shard)) {
                Ok(running) => team.running.push(running),
                Err(error) => {
                    // The shards that did start wait at the barrier for this one.
                    options.interrupt.store(true, Relaxed);
                    for running in team.running {
                        running.join();
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(team)
    }

    /// Watches the shards to their end and merges what they hand over.
    fn conduct(
        self,
        plan: &Plan,
        options: &RunOptions,
        log: Log,
        collector: &Collector,
    ) -> (Gathered, Option<Log>) {
        let clock = options.clock;
        let mut display = Display::new(options.ui, self.gauges, Some(log));
        let mut parts: Vec<Vec<ClosedPhase>> = plan.phases.iter().map(|_| Vec::new()).collect();
        let mut gathered = Gathered::default();
        let shards = self.running.len();
        let mut ended = 0;
        let mut told = false;
        while ended < shards {
            display.tick(plan, clock.now());
            if options.interrupt.load(Relaxed) && !told {
                told = true;
                display.notice(
                    "Interrupted: ending the run and writing what was measured (once more: leave at once)",
                );
            }
            match self.messages.recv_timeout(TICK) {
                Ok(Message::Phase(part)) => {
                    let Some(of_phase) = parts.get_mut(usize::from(part.phase)) else { continue };
                    let index = part.phase;
                    of_phase.push(*part);
                    if of_phase.len() == shards {
                        // First of all: what the server counted is read before the next phase sends.
                        collector.phase_closed(index);
                    }
                    display.tick(plan, clock.now());
                    if of_phase.len() == shards {
                        let finished = finish_phase(plan, index, std::mem::take(of_phase));
                        if let Some(finished) = finished {
                            show_complete(&mut display, plan, &finished);
                            gathered.phases.push(finished);
                        }
                    }
                }
                Ok(Message::Ended { shard, cost, records_lost, fault }) => {
                    ended += 1;
                    gathered.records_lost += records_lost;
                    gathered.shards.push(ShardReport {
                        shard,
                        cpu: options.cores.shards.get(usize::from(shard)).copied().unwrap_or(0),
                        cost,
                    });
                    if let Some(fault) = fault {
                        gathered.faults.push(format!("shard {shard} stopped: {fault}"));
                        options.interrupt.store(true, Relaxed);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        for (number, running) in self.running.into_iter().enumerate() {
            if !running.join() {
                gathered
                    .faults
                    .push(format!("shard {number} failed; this is a fault of phasor, please report it"));
            }
        }
        // Phases that some shards never handed over: what there is of them is still shown.
        for (index, of_phase) in (0_u16..).zip(parts) {
            gathered.phases.extend(finish_phase(plan, index, of_phase));
        }
        gathered.phases.sort_by_key(|phase| phase.index);
        gathered.shards.sort_by_key(|shard| shard.shard);
        gathered.interrupted = options.interrupt.load(Relaxed);
        if let Some(given_up) = self.shared.given_up() {
            gathered.interrupted = true;
            gathered.faults.extend(given_up_text(plan, given_up));
        }
        (gathered, display.into_log())
    }
}

/// Why the run was given up.
fn given_up_text(plan: &Plan, given_up: GivenUp) -> Option<String> {
    let phase = plan.phase(given_up.phase)?;
    Some(format!(
        "the run was given up in phase `{}`: {} of {} requests failed, more than its \
         `failed_request_threshold` of {} allows",
        phase.name,
        given_up.failed,
        given_up.ended,
        phase.failed_request_threshold.unwrap_or_default()
    ))
}

fn show_complete(display: &mut Display, plan: &Plan, finished: &FinishedPhase) {
    if let Some(phase) = plan.phase(finished.index) {
        let took = finished.ended.since(finished.started);
        display.phase_complete(phase, finished.tally.counts(), took);
    }
}

/// Merges the shards' parts of a phase.
fn finish_phase(plan: &Plan, index: u16, mut parts: Vec<ClosedPhase>) -> Option<FinishedPhase> {
    let phase = plan.phase(index)?;
    parts.sort_by_key(|part| part.shard);
    let shards: Vec<ShardReport> =
        parts.iter().map(|part| ShardReport { shard: part.shard, cpu: part.cpu, cost: part.cost }).collect();
    let first = parts.first()?;
    let started = first.started;
    let latest = |of: fn(&ClosedPhase) -> Stamp| parts.iter().map(of).max().unwrap_or(started);
    let sending_ended = latest(|part| part.sending_ended);
    let ended = latest(|part| part.closed);
    let interrupted = parts.iter().any(|part| part.interrupted);
    let mut tallies = parts.into_iter().map(|part| part.tally);
    let mut tally: PhaseTally = tallies.next()?;
    for other in tallies {
        tally.merge(other);
    }
    tally.settle();
    let arrivals = match phase.load {
        // Arrivals that a limit took away or kept waiting leave another process behind.
        Load::Poisson { rate_per_s, concurrency: None }
            if phase.keeps_its_rate() && tally.counts().dropped() == 0 =>
        {
            tally.arrivals().poisson_test(rate_per_s)
        }
        Load::Concurrency { .. }
        | Load::Constant { .. }
        | Load::FixedSchedule { .. }
        | Load::Gamma { .. }
        | Load::Poisson { .. }
        | Load::UserCentric { .. } => None,
    };
    let costs: Vec<Cost> = shards.iter().map(|shard| shard.cost).collect();
    let (verdict, reasons) = verdict::judge(&Evidence {
        tally: &tally,
        shape: match phase.load {
            // A seamless start waits for the requests of the phase before, and a session may think.
            Load::Concurrency { concurrency } => {
                let always_busy = !phase.seamless && phase.keeps_its_slots() && !plan.script.has_sessions();
                LoadShape::Closed { slots: always_busy.then_some(concurrency) }
            }
            Load::Constant { .. }
            | Load::FixedSchedule { .. }
            | Load::Gamma { .. }
            | Load::Poisson { .. }
            | Load::UserCentric { .. } => LoadShape::Open,
        },
        sending: sending_ended.since(started),
        costs: &costs,
        arrivals,
    });
    Some(FinishedPhase {
        shards,
        verdict,
        reasons,
        arrivals,
        index,
        profiling_index: phase.profiling_index,
        name: phase.name.clone(),
        kind: phase.kind,
        started,
        sending_ended,
        ended,
        interrupted,
        tally,
    })
}

fn connections_per_shard(plan: &Plan, shards: u16, descriptors: u64) -> u64 {
    let shards = u64::from(shards);
    let wanted = match plan.in_flight_peak() {
        Some(peak) => peak.div_ceil(shards) * 2 + CONNECTIONS_BESIDES,
        None => CONNECTIONS_UNCAPPED,
    };
    let wanted = plan.connections_max.map_or(wanted, |most| wanted.min(most.into()));
    wanted.min((descriptors / shards).max(1))
}

fn ring_options(connections: u64) -> RingOptions {
    RingOptions {
        sockets_max: u32::try_from(connections).unwrap_or(u32::MAX),
        entries: 1_024,
        buffers: if connections > 2_048 { 4_096 } else { 1_024 },
        buffer_bytes: 16 * 1_024,
    }
}

/// Makes the artifact directory, with all that leads to it.
pub fn make_directory(directory: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| RunError::Artifact { path: directory.display().to_string(), source })
}
