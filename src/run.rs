//! The run: shards conducted through the phases, tallies merged, files written.
//!
//! [`fleet`] tells the story of a run: find out whether it can be run, write what is sent, open the record
//! file, give each shard its part, watch ([`conductor`]), merge what they hand over ([`merge`]), write the
//! results. The shards find their way through the phases by themselves (see the barrier in the shard's
//! module); whatever else goes on meanwhile is a [`companion`]. [`conduct`] is a run by itself.

mod adaptive;
pub mod calibrate;
pub mod companion;
mod conductor;
mod context;
pub mod cores;
pub mod counting;
pub mod demand;
pub mod doctor;
pub mod environment;
pub mod fleet;
mod histories;
pub mod interrupt;
pub mod limits;
pub mod machine;
mod merge;
pub mod ports;
pub mod progress;
pub mod recording;
pub mod search;
pub mod sweep;
pub mod telemetry;
pub mod tls;
pub mod traffic;

pub use demand::{in_flight_peak, port_shortage, resolve, useful_shards};

use crate::artifact::FinishedPhase;
use crate::artifact::Results;
use crate::artifact::WriteFailure;
use crate::artifact::calibration::Calibration;
use crate::config::Config;
use crate::endpoint::EndpointError;
use crate::plan::PHASES_MAX;
use crate::plan::PlanError;
use crate::plan::Tuning;
use crate::run::adaptive::Searches;
use crate::run::cores::Cores;
use crate::run::fleet::Assignment;
use crate::run::fleet::Fleet;
use crate::run::progress::Ui;
use crate::run::telemetry::TelemetrySettings;
use crate::run::tls::TlsOptions;
use crate::run::traffic::Traffic;
use crate::shard;
use crate::shard::driver::Idle;
use crate::shard::ring::RingError;
use crate::shard::socket::SocketOptions;
use crate::shard::sources::Sources;
use crate::time::Clock;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exact samples kept per metric and phase, over all shards.
pub const SAMPLES_MAX: usize = 1 << 20;

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
    /// What TLS needs, where an address speaks it.
    pub tls: TlsOptions,
    /// What this machine can do, if that is known: phases are held against it.
    pub calibration: Option<Calibration>,
    /// How servers and GPUs are read.
    pub telemetry: TelemetrySettings,
    /// Progress on stderr.
    pub ui: Ui,
    /// Columns of the result tables.
    pub console_width: usize,
    /// Where the files go; exists. Of a sweep: where the directories of its runs do.
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
    /// The numbers, as they stand in the files.
    pub results: Results,
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
    /// Another run writes to the directory.
    #[error(
        "another run is writing to {directory}: the two would overwrite each other's files; wait for it, or name \
         another directory with `artifacts.dir`"
    )]
    Busy {
        /// The directory.
        directory: String,
    },
    /// The thread that writes records cannot be started.
    #[error("the thread that writes records cannot be started: {0}")]
    Recording(#[source] std::io::Error),
    /// The threads that count tokens cannot be started.
    #[error("the threads that count tokens cannot be started: {0}")]
    Counting(#[source] std::io::Error),
    /// Requests to the endpoint cannot be made.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
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
    /// No prompt fits into the model's context.
    #[error(transparent)]
    Context(#[from] context::ContextError),
    /// A unix socket cannot be named to the kernel.
    #[error("`endpoint.url`: the unix socket {} cannot be used: {source}", .path.display())]
    Socket {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
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
    /// TLS cannot work.
    #[error(transparent)]
    Tls(#[from] tls::TlsRunError),
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

impl RunError {
    fn from_write(failure: WriteFailure) -> Self {
        Self::Artifact { path: failure.path.display().to_string(), source: failure.source }
    }
}

/// Runs `config` from the first phase to the last file.
///
/// # Errors
/// The run cannot start. What happens to it later is in the outcome.
pub fn conduct(config: &Config, traffic: &Traffic, options: &RunOptions) -> Result<RunOutcome, RunError> {
    let assignment = Assignment { config, traffic, directory: &options.directory, cell: None };
    run_with_companions(&mut Fleet::start(options)?, &assignment)
}

/// One run with everything that its config wants to go along.
fn run_with_companions(fleet: &mut Fleet<'_>, assignment: &Assignment<'_>) -> Result<RunOutcome, RunError> {
    let mut searches = Searches::default();
    let mut outcome = fleet.run(assignment, &mut [&mut searches])?;
    outcome.faults.extend(searches.into_faults());
    Ok(outcome)
}

/// Makes the artifact directory, with all that leads to it.
pub fn make_directory(directory: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| RunError::Artifact { path: directory.display().to_string(), source })
}
