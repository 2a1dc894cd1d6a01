//! What one phase came to, on one shard or merged over all.

use crate::measure::Record;
use crate::time::{Nanos, Stamp};

/// Counters, samples and errors of one phase. A shard fills its own; at the phase's close it moves (is not
/// copied) to the conductor and is merged there.
///
/// Invariants at close: `planned == sent + dropped`, `sent == ok + failed + cancelled + abandoned`.
#[derive(Debug)]
pub struct PhaseTally {}

/// Why an arrival was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The process was at its concurrency cap.
    AtCapacity,
    /// The phase ended while the arrival was still waiting for a client that was late.
    Late,
}

impl PhaseTally {
    /// An empty tally that keeps at most `samples_max` exact values per metric. Reserves what it needs, so
    /// that recording does not allocate.
    pub fn new(_samples_max: usize) -> Self {
        todo!()
    }

    /// An arrival or a free slot was turned into a request, `late` after its planned time.
    /// `late` is known when the first byte is written; see [`Self::record`].
    pub fn sent(&mut self) {
        todo!()
    }

    /// A planned arrival was not sent.
    pub fn dropped(&mut self, _why: Drop) {
        todo!()
    }

    /// The first byte of a request was accepted by the kernel this long after its planned time.
    pub fn lateness(&mut self, _late: Nanos) {
        todo!()
    }

    /// A request ended. `gaps_ns` are the spans between its content messages, in order.
    pub fn record(&mut self, _record: &Record, _gaps_ns: &[u64]) {
        todo!()
    }

    /// Takes in another shard's tally of the same phase, or another phase's for pooled results.
    pub fn merge(&mut self, _other: Self) {
        todo!()
    }

    /// The latest end of any request recorded.
    pub fn last_end(&self) -> Option<Stamp> {
        todo!()
    }
}
