//! Rendered requests: every body is bytes before the first phase starts.
//!
//! Bodies lie end to end in one shared block, so that a send names a range of it and copies nothing. A dataset
//! is made in two steps: conversations, composed by [`Composer`] or read by [`load`], then bodies, rendered by
//! [`Rendering`] on all cores. It measures no time and knows no phase.

mod compose;
mod draw;
mod error;
mod file;
mod meant;
mod prose;
mod render;
mod spec;

use std::ops::Range;
use std::sync::Arc;

use crate::endpoint::ContextMode;

pub use compose::{Composer, MARK, TURNS_MAX};
pub use draw::{Distribution, Draws, Law};
pub use error::DatasetError;
pub use file::{FAULTS_MAX, FILE_BYTES_MAX, FileError, Loaded, RowFault, load};
pub use meant::{Made, endpoint_settings, make};
pub use prose::{Corpus, Prefix, Prose};
pub use render::{BLOCK_BYTES_MAX, Conversations, Rendering};
pub use spec::{
    BatchSizes, CacheBust, CommonSpec, FileFormat, FileSource, FileSpec, ModelChoice, PrefixSpec, RangeRatio,
    RangeStyle, RankingsSpec, SequencePair, Synthesis, SyntheticSpec,
};

/// What is sent, in dataset order.
#[derive(Clone, Debug)]
pub struct Dataset {
    rows: Vec<Row>,
    details: Vec<TurnDetails>,
    sessions: Vec<Session>,
    block: Arc<[u8]>,
    /// What prompts were counted with.
    counted_with: String,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the conversation: `session_id` in `inputs.json`, `conversation_id` in records.
    pub conversation_id: String,
    /// Where the body lies in the block.
    pub body: Range<usize>,
    /// Prompt length without history, in tokens of the dataset's tokenizer; absent when there is nothing to
    /// count or nothing to count with.
    pub isl_tokens: Option<u32>,
    /// Reply length asked for.
    pub osl_tokens: Option<u32>,
}

/// What else there is to a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnDetails {
    /// What it carries of the turns before it.
    pub context_mode: ContextMode,
    /// Where in the block the turn's own items of the conversation stand: the history of the session goes in
    /// front of them, each item with a comma behind it. Absent when the body cannot take a history.
    pub own_items: Option<Range<usize>>,
    /// Where in the block the twelve digits of the cache-bust mark stand.
    pub mark_at: Option<usize>,
    /// Milliseconds from the answer to the turn before until this one is sent.
    pub delay_ms: Option<f64>,
    /// When it is sent, in milliseconds of the trace's own time.
    pub timestamp_ms: Option<f64>,
    /// The number of the tokenizer that counts it (see [`Tokenizers`](crate::tokenizer::Tokenizers)).
    pub tokenizer: u16,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its turns in order.
    pub rows: Range<usize>,
    /// What the later ones carry.
    pub context_mode: ContextMode,
}

impl Dataset {
    /// Assembles a dataset of conversations of one turn; each row's `body` must lie inside `block`.
    pub fn new(rows: Vec<Row>, block: Arc<[u8]>) -> Self {
        let details = vec![TurnDetails::default(); rows.len()];
        let context_mode = ContextMode::DeltasWithoutResponses;
        let sessions = (0..rows.len()).map(|row| Session { rows: row..row + 1, context_mode }).collect();
        Self::with_sessions(rows, details, sessions, block)
    }

    /// Assembles a dataset of conversations; each row's `body` must lie inside `block`, there are as many
    /// details as rows, and the sessions cover the rows in order.
    pub fn with_sessions(
        rows: Vec<Row>,
        details: Vec<TurnDetails>,
        sessions: Vec<Session>,
        block: Arc<[u8]>,
    ) -> Self {
        assert!(rows.iter().all(|row| row.body.start <= row.body.end && row.body.end <= block.len()));
        assert!(details.len() == rows.len(), "every row has its details");
        let covered = sessions.iter().try_fold(0, |end, session: &Session| {
            (session.rows.start == end && session.rows.end >= end).then_some(session.rows.end)
        });
        assert!(covered == Some(rows.len()), "the sessions cover the rows in order");
        Self { rows, details, sessions, block, counted_with: "words".to_owned() }
    }

    /// Says which tokenizer the prompts were counted with; `words` unless said.
    #[must_use]
    pub fn counted_with(mut self, tokenizer: &str) -> Self {
        tokenizer.clone_into(&mut self.counted_with);
        self
    }

    /// The name of the tokenizer that the prompts were counted with.
    pub fn isl_rule(&self) -> &str {
        &self.counted_with
    }

    /// The rows in dataset order; never empty.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What else there is to each row.
    pub fn details(&self) -> &[TurnDetails] {
        &self.details
    }

    /// The conversations in dataset order.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
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
