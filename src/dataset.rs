//! Rendered requests: every body is bytes before the first phase starts.
//!
//! Bodies lie end to end in one shared block, so that a send names a range of it and copies nothing.
//! It measures no time and knows no phase.

mod draw;
mod prose;
mod sampler;
mod synthetic;

use std::ops::Range;
use std::sync::Arc;

pub use draw::{Distribution, Draws, Law};
pub use prose::{Corpus, Prefix, Prose};
pub use sampler::{Sampler, Sampling};
pub use synthetic::{BLOCK_BYTES_MAX, DatasetError, synthetic};

/// What is sent, in dataset order.
#[derive(Clone, Debug)]
pub struct Dataset {
    rows: Vec<Row>,
    block: Arc<[u8]>,
}

/// One conversation of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// UUID (version 4) of the conversation: `session_id` in `inputs.json`, `conversation_id` in records.
    pub conversation_id: String,
    /// Where the body lies in the block.
    pub body: Range<usize>,
    /// Prompt length by [`ISL_RULE`].
    pub isl_tokens: u32,
    /// Reply length asked for.
    pub osl_tokens: Option<u32>,
}

/// The name of the rule by which synthetic prompts are counted until a tokenizer is configured: a prompt
/// of n tokens is n words of phasor's word list, joined by single blanks.
pub const ISL_RULE: &str = "words";

impl Dataset {
    /// Assembles a dataset; each row's `body` must lie inside `block`.
    pub fn new(rows: Vec<Row>, block: Arc<[u8]>) -> Self {
        assert!(rows.iter().all(|row| row.body.start <= row.body.end && row.body.end <= block.len()));
        Self { rows, block }
    }

    /// The rows in dataset order; never empty.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The block that holds all bodies.
    pub fn block(&self) -> &Arc<[u8]> {
        &self.block
    }

    /// The body of `row` as sent.
    pub fn body(&self, row: &Row) -> &[u8] {
        self.block.get(row.body.clone()).unwrap_or_default()
    }
}
