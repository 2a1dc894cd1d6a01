//! What was read of servers and their GPUs during a run, and what it says about each phase.
//!
//! A page that was fetched goes into a [`history::History`] (servers) or a [`gpu::GpuHistory`]; when the run
//! is over, [`figures`] and [`gpu::summary`] cut them to phases, [`spans`] gives sums that are exact about
//! their phases, [`energy`] what the GPUs used. Nothing is fetched here, no clock is read, no file written:
//! `run` collects, `artifact` writes.

pub mod address;
pub mod energy;
pub mod figures;
pub mod gpu;
pub mod history;
pub mod numbers;
pub mod spans;

use crate::config::PhaseKind;

/// The phase that a fetch belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseKey {
    /// Position in the config.
    pub index: u16,
    /// Position among the profiling phases; absent for warmups.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
    /// It begins when the phase before it stops sending, not when that has drained.
    pub seamless: bool,
}

/// Why a page was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Before the first phase.
    Baseline,
    /// In its turn.
    Cadence,
    /// The last request of the phase had ended.
    PhaseEnd,
    /// The phase had begun.
    PhaseStart,
}

/// One fetch that brought a page. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The request was sent.
    pub sent_ns: u64,
    /// The first byte of the answer came: the time of the numbers.
    pub at_ns: u64,
    /// From the request to the end of the answer.
    pub latency_ns: u64,
    /// The phase that was running when the fetch began.
    pub phase: Option<u16>,
    /// Why it was made.
    pub occasion: Occasion,
}

/// How the fetches from one address went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceAccount {
    /// Fetches begun.
    pub fetches: u64,
    /// Fetches that brought no page that could be used.
    pub failed: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// The slowest good fetch; absent when there was none.
    pub slowest_ns: Option<u64>,
    /// Turns that passed while a fetch was still going on.
    pub turns_missed: u64,
    /// CPU time of the thread that fetched; absent when the system does not tell.
    pub cpu_time_ns: Option<u64>,
    /// What went wrong, in order of first occurrence, and how often.
    pub failures: Vec<(String, u64)>,
    /// Why nothing more was fetched from some point on.
    pub given_up: Option<String>,
}

/// Different failures that are told apart for one address.
const FAILURES_MAX: usize = 32;

impl SourceAccount {
    /// Notes a failure.
    pub fn fail(&mut self, message: &str) {
        self.failed += 1;
        let room = self.failures.len() < FAILURES_MAX;
        match self.failures.iter_mut().find(|(known, _)| known == message) {
            Some((_, count)) => *count += 1,
            None if room => self.failures.push((message.to_owned(), 1)),
            None => {}
        }
    }
}

/// What was read from one server.
#[derive(Debug)]
pub struct ServerSource {
    /// Its pages.
    pub history: history::History,
    /// How the fetches went.
    pub account: SourceAccount,
}

/// What was read from the GPUs at one address, or on this machine.
#[derive(Debug)]
pub struct GpuSource {
    /// The samples.
    pub history: gpu::GpuHistory,
    /// How the fetches went.
    pub account: SourceAccount,
}

/// Everything that was read during a run.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// The phases of the plan, in order.
    pub phases: Vec<PhaseKey>,
    /// The servers that answered, in the order of their addresses.
    pub servers: Vec<ServerSource>,
    /// Metrics addresses that were meant, answering or not.
    pub servers_configured: Vec<String>,
    /// The GPU sources that answered.
    pub gpus: Vec<GpuSource>,
    /// GPU addresses that were meant, answering or not; default addresses only when they answered.
    pub gpus_configured: Vec<String>,
    /// The signals that GPU samples have, in their order.
    pub signals: Vec<gpu::Signal>,
    /// When the GPUs were asked at the end of a phase: its position, and the time of the sample.
    pub gpu_edges: Vec<(u16, u64)>,
    /// How long after the last phase a GPU's counters still belong to it, in nanoseconds.
    pub gpu_grace_ns: u64,
    /// Time between two fetches from one address, in nanoseconds.
    pub interval_ns: u64,
    /// Longest extension of the pause between two phases that the fetches at their edges were given, in
    /// nanoseconds.
    pub longest_hold_ns: u64,
}

impl Telemetry {
    /// Whether any server gave a page.
    pub fn has_servers(&self) -> bool {
        self.servers.iter().any(|source| !source.history.fetches().is_empty())
    }

    /// Whether any GPU gave a sample.
    pub fn has_gpus(&self) -> bool {
        self.gpus.iter().any(|source| !source.history.tracks().is_empty())
    }
}
