//! From finished requests to numbers.
//!
//! [`record`] is one finished request, [`catalogue`] the one table of metrics and how each is computed
//! from a record, [`samples`] a bounded set of values (exact first, a histogram beyond), [`tally`] all of
//! that for one phase on one shard. Merging tallies is associative and the order of shards does not show.
//! It reads no clock and writes no file.

pub mod arrivals;
pub mod batch;
pub mod catalogue;
pub mod confidence;
pub mod cost;
pub mod facts;
pub mod failure;
pub mod handshakes;
pub mod intervals;
pub mod judgement;
mod late;
pub mod latency;
pub mod record;
mod runs;
pub mod samples;
pub mod slices;
pub mod statistics;
pub mod summary;
pub mod tally;
pub mod trials;
pub mod verdict;
pub mod weighted;

pub use batch::{RawReads, RecordBatch, Said};
pub use cost::{Cost, ReapDelay};
pub use failure::Failure;
pub use judgement::Judgement;
pub use record::{Counted, Outcome, Record};
pub use tally::PhaseTally;
