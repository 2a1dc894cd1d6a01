//! A finished run into files: AIPerf's, with its names and shapes, and phasor's own.
//!
//! Files are written under a temporary name and renamed, so that a reader never sees half of one.

pub mod records;

use crate::config::{Config, PhaseKind};
use crate::dataset::Dataset;
use crate::measure::PhaseTally;
use crate::time::{Clock, Stamp};
use std::path::Path;

/// A run that ended, however it ended.
#[derive(Debug)]
pub struct FinishedRun<'a> {
    /// What was meant.
    pub config: &'a Config,
    /// What was sent.
    pub dataset: &'a Dataset,
    /// Turns stamps into wall time.
    pub clock: Clock,
    /// 12 hex digits.
    pub benchmark_id: String,
    /// The command line, secrets taken out.
    pub cli_command: String,
    /// The phases that started, in order.
    pub phases: Vec<FinishedPhase>,
    /// Ended before all phases were done.
    pub interrupted: bool,
    /// Lines that the record file lacks because the disk was too slow or failed.
    pub records_lost: u64,
    /// The shards that drove it.
    pub shards: Vec<ShardReport>,
}

/// A phase that started.
#[derive(Debug)]
pub struct FinishedPhase {
    /// Position in the config.
    pub index: u16,
    /// Position among the profiling phases; absent for warmups.
    pub profiling_index: Option<u16>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PhaseKind,
    /// The common start of all shards.
    pub started: Stamp,
    /// Nothing was sent from here on.
    pub sending_ended: Stamp,
    /// The last request had ended.
    pub ended: Stamp,
    /// The phase was cut short by an interrupt or abort.
    pub interrupted: bool,
    /// All shards' numbers.
    pub tally: PhaseTally,
}

/// What one shard cost.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// Number of the shard, from 0.
    pub shard: u16,
    /// Core it was pinned to.
    pub cpu: usize,
    /// Share of its time that the loop was not waiting, 0 to 1.
    pub busy_share: f64,
    /// Longest time between two looks at the ring.
    pub longest_gap: crate::time::Nanos,
}

/// Writes every result file of a run except `inputs.json` and the record file, which exist already.
pub fn write_results(_directory: &Path, _run: &FinishedRun<'_>) -> Result<(), std::io::Error> {
    todo!()
}
