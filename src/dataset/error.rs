//! What keeps a dataset from being made.

use crate::dataset::file::FileError;
use crate::dataset::render::BLOCK_BYTES_MAX;
use crate::endpoint::EndpointError;

/// What keeps a dataset from being made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DatasetError {
    /// The bodies would not fit.
    #[error(
        "the dataset would take about {needed_bytes} bytes, more than the {BLOCK_BYTES_MAX} it may have: lower \
         `dataset.entries` ({entries}) or `dataset.prompts.isl` ({isl_tokens})"
    )]
    TooLarge {
        /// Bytes of all bodies, estimated.
        needed_bytes: u128,
        /// Conversations asked for.
        entries: u32,
        /// Prompt length asked for.
        isl_tokens: u32,
    },
    /// A cache-bust target that phasor does not know.
    #[error("the cache-bust target `{0}` cannot be made yet: use `first_turn_prefix` or `system_prefix`")]
    CacheBust(&'static str),
    /// An endpoint type whose bodies are for later.
    #[error("bodies for `endpoint.type: {0}` cannot be made yet: write `type: chat`")]
    Dialect(&'static str),
    /// The dataset's file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A format of file datasets that phasor does not read.
    #[error(
        "the dataset format `{0}` cannot be read: use `single_turn`, `multi_turn`, `mooncake_trace`, \
         `random_pool`, `raw_payload`, `inputs_json`, `sharegpt`, `bailian_trace` or `burst_gpt_trace`"
    )]
    Format(String),
    /// A collection that would have to be fetched.
    #[error("the public dataset `{0}` is not fetched: download it and use `type: file`")]
    Public(String),
    /// A file that the dataset or the endpoint names.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The bodies of a file do not fit.
    #[error(
        "the request bodies take more than the {BLOCK_BYTES_MAX} bytes they may have: use fewer or shorter rows"
    )]
    BlockFull,
    /// The machine has not that much memory.
    #[error(
        "there is no memory for a dataset of about {needed_bytes} bytes: lower `dataset.entries` or \
         `dataset.prompts.isl`"
    )]
    Memory {
        /// Bytes of all bodies, estimated.
        needed_bytes: u128,
    },
    /// No conversation was asked for.
    #[error("the dataset is empty: `dataset.entries` must be at least 1")]
    Empty,
    /// A prefix pool of no prefixes or of empty ones.
    #[error("`dataset.prefix_prompts` needs both `pool_size` and `length`, each at least 1")]
    EmptyPrefix,
    /// No kind of content was asked for.
    #[error("the dataset has nothing to say: set `dataset.prompts.isl` to a positive length")]
    NothingEnabled,
    /// Probabilities that do not make a whole.
    #[error(
        "the probabilities of `dataset.prompts.sequence_distribution` make {sum_percent} percent: they must make 100"
    )]
    Probabilities {
        /// Their sum.
        sum_percent: f64,
    },
    /// More turns than a dataset may have.
    #[error(
        "{entries} conversations of that many turns are too many: lower `dataset.entries` or `dataset.turns`"
    )]
    TooManyTurns {
        /// Conversations asked for.
        entries: u32,
    },
    /// A text could not be written as JSON.
    #[error("a request body could not be written: {0}")]
    Body(String),
    /// A turn that the endpoint cannot send.
    #[error("turn {turn} of conversation `{conversation}` cannot be sent: {source}")]
    Endpoint {
        /// The conversation.
        conversation: String,
        /// The turn, from 0.
        turn: usize,
        /// What the endpoint says.
        source: EndpointError,
    },
}
