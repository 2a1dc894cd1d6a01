//! `phasor calibrate`: what this client can do on this machine, measured against a server that costs as
//! little as it can.
//!
//! Every load is a config made here and run by [`crate::run::conduct`], on one shard, with its files in a
//! directory that is removed afterwards: what is calibrated is what runs. The servers are started by the
//! caller. Two figures need no load: the clock's cost and how late the kernel ends a wait (`idle`).

pub mod client_profile;
mod idle;

use crate::artifact::FinishedPhase;
use crate::config;
use crate::measure::Cost;
use crate::measure::latency::Latencies;
use crate::measure::latency::Latency;
use crate::plan::Tuning;
use crate::run;
use crate::run::RunError;
use crate::run::RunOptions;
use crate::run::calibrate::client_profile::Ceiling;
use crate::run::calibrate::client_profile::Ceilings;
use crate::run::calibrate::client_profile::ClientProfile;
use crate::run::calibrate::client_profile::FloorSpread;
use crate::run::calibrate::client_profile::Floors;
use crate::run::calibrate::client_profile::LatenessAt;
use crate::run::cores::Cores;
use crate::run::limits;
use crate::run::machine::Machine;
use crate::run::machine::Tree;
use crate::run::progress::Ui;
use crate::run::telemetry::TelemetrySettings;
use crate::run::tls::TlsOptions;
use crate::run::traffic::Traffic;
use crate::shard::driver::Idle;
use crate::shard::socket::SocketOptions;
use crate::shard::sources::Sources;
use crate::time::Clock;
use crate::time::Nanos;
use serde::Deserialize;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Words of a prompt: about 2 kB of text.
const PROMPT_WORDS: u32 = 350;

/// Connections of the closed loop with whole replies.
const CONNECTIONS: u64 = 64;

/// Tokens of a whole reply.
const TOKENS_WHOLE: u32 = 32;

/// Tokens of a reply that comes token by token.
const TOKENS_PACED: u32 = 25;

/// Most requests in flight of the open loops, so that a server that cannot follow does not fill the memory.
const OPEN_LOOP_CAP: u32 = 1_024;

/// How long a load's last requests are waited for, in seconds: the bound of a server that stands still.
const GRACE_S: f64 = 2.0;

/// Parts of the ceiling at which the open loop's lateness is measured.
const SHARES: [f64; 3] = [0.25, 0.5, 0.75];

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Length {
    /// About 20 s.
    Full,
    /// About 3 s: real figures with more noise.
    Quick,
}

impl Length {
    /// Times of the server that sends token by token: to the first token, and between two.
    pub const fn pace(self) -> (Nanos, Nanos) {
        match self {
            Self::Full => (Nanos::from_millis(20), Nanos::from_millis(40)),
            Self::Quick => (Nanos::from_millis(2), Nanos::from_millis(2)),
        }
    }

    /// Most streams open at once.
    const fn streams_max(self) -> u64 {
        match self {
            Self::Full => 4_000,
            Self::Quick => 200,
        }
    }

    /// How long each load runs, in seconds.
    const fn seconds(self) -> Seconds {
        match self {
            Self::Full => Seconds { whole: 2.5, paced: 2.5, floor: 1.5, open: 2.5 },
            Self::Quick => Seconds { whole: 0.4, paced: 0.4, floor: 0.3, open: 0.3 },
        }
    }

    const fn waits(self) -> u32 {
        match self {
            Self::Full => 4_000,
            Self::Quick => 400,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Seconds {
    whole: f64,
    paced: f64,
    floor: f64,
    open: f64,
}

/// The servers and cores of a calibration.
#[derive(Debug)]
pub struct CalibrateOptions {
    /// One shard's core, and the server's where there is another.
    pub cores: Cores,
    /// A server that answers at once, each reply in one write.
    pub whole: SocketAddr,
    /// A server that sends token by token, at [`Length::pace`].
    pub paced: SocketAddr,
    /// How long everything takes.
    pub length: Length,
    /// Set from outside: end now.
    pub interrupt: Arc<AtomicBool>,
    /// The process's clock.
    pub clock: Clock,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The generated config or its dataset does not hold.
    #[error("the load `{name}` could not be made; this is a fault of phasor, please report it: {reason}")]
    Config {
        /// The load.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// A load ran and something of it went wrong.
    #[error("the load `{name}` did not run well: {reason}")]
    Faults {
        /// The load.
        name: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// What needs no load could not be measured.
    #[error(transparent)]
    Idle(#[from] idle::IdleError),
    /// Ended by a signal.
    #[error("interrupted: nothing was written")]
    Interrupted,
    /// A load did not start.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is no place for the files of the loads.
    #[error("cannot make {path}: {source}; name another directory with TMPDIR")]
    Scratch {
        /// The directory.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Measures everything, one after the other.
pub fn calibrate(options: &CalibrateOptions) -> Result<ClientProfile, CalibrateError> {
    let scratch = Scratch::make()?;
    let seconds = options.length.seconds();
    let cpu = options.cores.shards.first().copied().unwrap_or(0);
    let idle = idle::measure(cpu, options.length.waits(), options.clock)?;

    let run = |load: &Load| run_load(options, &scratch, load);
    let closed = |name, server, tokens, connections, seconds| Load {
        name,
        server,
        tokens,
        phase: format!(
            "type: concurrency, concurrency: {connections}, duration: {seconds}, grace_period: {GRACE_S}"
        ),
        idle: Some(Idle::Sleep),
    };
    let whole = run(&closed("whole_replies", options.whole, TOKENS_WHOLE, CONNECTIONS, seconds.whole))?;
    let streams = options.length.streams_max().min(streams_that_fit());
    let paced = run(&closed("token_per_write", options.paced, TOKENS_PACED, streams, seconds.paced))?;
    let ceiling =
        Ceilings { one_token_per_write: paced.ceiling(streams), whole_replies: whole.ceiling(CONNECTIONS) };

    // From here on a shard does what it does in any run.
    let floor = run(&Load { idle: None, ..closed("floor", options.whole, 1, 1, seconds.floor) })?;
    let floor_ns = Floors {
        request_latency: floor.floor(Latency::Service)?,
        time_to_first_token: floor.floor(Latency::ServiceFirstToken)?,
    };
    let mut delays = vec![whole.delay_share(), paced.delay_share(), floor.delay_share()];
    let mut lateness = Vec::new();
    // Without the ceiling there is nothing to take a part of; what was delivered is surely possible.
    let most = ceiling.whole_replies.requests_per_s.unwrap_or(ceiling.whole_replies.delivered_requests_per_s);
    for (share, name) in SHARES.into_iter().zip(["open_loop_25", "open_loop_50", "open_loop_75"]) {
        let rate = most * share;
        let phase = format!(
            "type: poisson, rate: {rate:.3}, concurrency: {OPEN_LOOP_CAP}, duration: {}, grace_period: \
             {GRACE_S}",
            seconds.open
        );
        let load = Load { name, server: options.whole, tokens: TOKENS_WHOLE, phase, idle: None };
        let ran = run(&load)?;
        lateness.push(ran.lateness(share, rate)?);
        delays.push(ran.delay_share());
    }
    Ok(ClientProfile {
        schema_version: client_profile::SCHEMA_VERSION,
        phasor_version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: Machine::read(&Tree::here()),
        shard_cpu: cpu,
        server_cpu: options.cores.mock,
        length: options.length,
        ceiling,
        floor_ns,
        wake_up_ns: idle.wake_up,
        clock_ns: idle.clock_ns,
        lateness,
        run_delay_share: delays.into_iter().flatten().reduce(f64::max),
    })
}

/// Streams for which both ends find descriptors in this process.
fn streams_that_fit() -> u64 {
    let hard = limits::open_files_hard().unwrap_or(u64::MAX);
    let room = hard.saturating_sub(limits::descriptors_needed(1, 0));
    // A quarter on top of both ends, as a run asks for.
    (room / 5 * 2).max(1)
}

/// One load.
#[derive(Debug)]
struct Load {
    name: &'static str,
    server: SocketAddr,
    tokens: u32,
    phase: String,
    /// Absent: as any run would.
    idle: Option<Idle>,
}

/// What came of a load.
#[derive(Debug)]
struct Ran {
    name: &'static str,
    phase: FinishedPhase,
    /// What the shard paid for the phase.
    cost: Cost,
}

fn run_load(options: &CalibrateOptions, scratch: &Scratch, load: &Load) -> Result<Ran, CalibrateError> {
    let name = load.name;
    let broken = |reason: String| CalibrateError::Config { name, reason };
    let faulty = |reason: String| CalibrateError::Faults { name, reason };
    let text = format!(
        "randomSeed: 42\nbenchmark:\n  model: calibration\n  endpoint: {{url: 'http://{}/v1/chat/completions', \
         type: chat, streaming: true}}\n  dataset: {{type: synthetic, entries: 64, prompts: {{isl: \
         {PROMPT_WORDS}, osl: {}}}}}\n  gpuTelemetry: {{enabled: false}}\n  serverMetrics: {{enabled: false}}\n  phases:\n    - {{name: {name}, kind: profiling, {}}}\n",
        load.server, load.tokens, load.phase
    );
    let config = config::parse("calibration", &text)
        .map_err(|faults| broken(faults.render(config::Colour::Never)))?
        .config;
    let traffic = Traffic::in_words(&config).map_err(|error| broken(error.to_string()))?;
    let directory = scratch.path.join(name);
    run::make_directory(&directory)?;
    let options = RunOptions {
        tuning: Tuning::default(),
        sockets: SocketOptions::default(),
        cores: options.cores.clone(),
        idle: load.idle,
        sources: Sources::default(),
        tls: TlsOptions::default(),
        calibration: None,
        telemetry: TelemetrySettings::default(),
        ui: Ui::None,
        console_width: crate::artifact::console::WIDTH,
        directory: directory.clone(),
        cli_command: "phasor calibrate".to_owned(),
        server_inside: true,
        interrupt: Arc::clone(&options.interrupt),
        clock: options.clock,
    };
    let outcome = run::conduct(&config, &traffic, &options)?;
    // The records of a load may be large; a directory that stays is removed with the others at the end.
    let _ = std::fs::remove_dir_all(&directory);
    if outcome.interrupted && outcome.faults.is_empty() {
        return Err(CalibrateError::Interrupted);
    }
    if !outcome.faults.is_empty() {
        return Err(faulty(outcome.faults.join("; ")));
    }
    let [phase]: [FinishedPhase; 1] =
        outcome.phases.try_into().map_err(|_| faulty("its phase did not start".to_owned()))?;
    let cost = phase.shards.first().map(|shard| shard.cost);
    let cost = cost.ok_or_else(|| faulty("its shard did not start".to_owned()))?;
    let counts = phase.tally.counts();
    if counts.ok == 0 || counts.failed > 0 {
        let error = phase.tally.error_groups().first().map(|group| group.failure.message.clone());
        return Err(faulty(format!(
            "{} requests were good and {} failed{}",
            counts.ok,
            counts.failed,
            error.map(|message| format!(" ({message})")).unwrap_or_default()
        )));
    }
    Ok(Ran { name, phase, cost })
}

impl Ran {
    fn seconds(&self) -> f64 {
        self.phase.ended.since(self.phase.started).as_secs_f64()
    }

    /// What a shard could do in a second of its own processor time, were it never idle.
    fn ceiling(&self, connections: u64) -> Ceiling {
        let counts = self.phase.tally.counts();
        let busy_s = self.cost.cpu_time.map(Nanos::as_secs_f64).filter(|busy| *busy > 0.0);
        let per_busy_second = |count: u64| busy_s.map(|busy| count as f64 / busy);
        Ceiling {
            connections,
            requests_per_s: per_busy_second(counts.ok),
            events_per_s: per_busy_second(counts.messages),
            reads_per_s: per_busy_second(counts.body_reads),
            bytes_per_s: per_busy_second(counts.reply_body_bytes),
            delivered_requests_per_s: counts.ok as f64 / self.seconds(),
            delivered_events_per_s: counts.messages as f64 / self.seconds(),
            busy_share: busy_s.map(|busy| (busy / self.seconds()).min(1.0)),
        }
    }

    /// Share of the time that the shard could have run and did not.
    fn delay_share(&self) -> Option<f64> {
        self.cost.run_delay_share()
    }

    fn floor(&self, latency: Latency) -> Result<FloorSpread, CalibrateError> {
        let spread = Latencies::spread(std::iter::once(self.phase.tally.latencies()), latency);
        let spread = spread.ok_or_else(|| self.nothing("no latency was measured"))?;
        Ok(FloorSpread { p50: spread.p50, p99: spread.p99, count: spread.count })
    }

    fn lateness(&self, share: f64, planned_per_s: f64) -> Result<LatenessAt, CalibrateError> {
        let late = self.phase.tally.lateness_summary();
        let late = late.ok_or_else(|| self.nothing("no lateness was measured"))?;
        let counts = self.phase.tally.counts();
        let sending_s = self.phase.sending_ended.since(self.phase.started).as_secs_f64();
        Ok(LatenessAt {
            share,
            planned_per_s,
            sent_per_s: counts.sent as f64 / sending_s,
            dropped: counts.dropped(),
            p50_ns: late.p50.0,
            p99_ns: late.p99.0,
            max_ns: late.max.0,
            count: late.count,
        })
    }

    fn nothing(&self, what: &str) -> CalibrateError {
        CalibrateError::Faults { name: self.name, reason: what.to_owned() }
    }
}

/// A directory of one's own that is removed at the end.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make() -> Result<Self, CalibrateError> {
        let name = format!("phasor-calibrate-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)
            .map_err(|source| CalibrateError::Scratch { path: path.display().to_string(), source })?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in a directory for things that may go.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
