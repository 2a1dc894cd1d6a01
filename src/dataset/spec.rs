//! What a dataset is asked to be. The config's own types are converted into these in one place.

use std::path::PathBuf;

use serde_json::Value;

pub use crate::config::meant::{
    BatchSizes, Prefix as PrefixSpec, RandomRange as RangeRatio, RangeStyle, Synthesis,
};
use crate::dataset::{Corpus, Distribution};

/// What all datasets have in common.
#[derive(Clone, Debug, Default)]
pub struct CommonSpec {
    /// The run's seed; absent: the draws are seeded from the operating system.
    pub seed: Option<u64>,
    /// Conversations are numbered although the run has no seed (`dataset.random_seed` is set).
    pub numbered_sessions: bool,
    /// The models, in order; never empty.
    pub models: Vec<String>,
    /// Which of them a turn asks.
    pub model_choice: ModelChoice,
    /// `dataset.system_prompt`, or the text of its file.
    pub system_prompt: Option<String>,
    /// `osl`: the limit of turns that have none of their own; absent: no limit.
    pub osl: Option<Distribution>,
}

/// Which model a turn asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ModelChoice {
    /// Any of them.
    Random,
    /// One after another, turn by turn.
    #[default]
    RoundRobin,
    /// Any of them, with chances by these weights.
    Weighted(Vec<f64>),
}

/// A dataset made by phasor.
#[derive(Clone, Debug)]
pub struct SyntheticSpec {
    /// What all datasets have.
    pub common: CommonSpec,
    /// Conversations.
    pub entries: u32,
    /// Length of a prompt; absent: there are no prompts.
    pub isl: Option<Distribution>,
    /// Prompts per turn, at least 1.
    pub batch_size: u32,
    /// What prompts are made of.
    pub corpus: Corpus,
    /// Pairs of prompt and reply length by probability; empty for none.
    pub sequences: Vec<SequencePair>,
    /// Lengths anywhere around the means.
    pub range_ratio: Option<RangeRatio>,
    /// Turns of a conversation.
    pub turns: Distribution,
    /// Milliseconds between an answer and the next turn.
    pub turn_delay_ms: Distribution,
    /// What each delay is multiplied by.
    pub turn_delay_ratio: f64,
    /// Texts that conversations share.
    pub prefix: Option<PrefixSpec>,
    /// Where a mark goes that keeps servers from using their cache.
    pub cache_bust: CacheBust,
    /// A query and passages instead of prompts (ranking endpoints).
    pub rankings: Option<RankingsSpec>,
}

impl SyntheticSpec {
    /// `entries` conversations of one turn with `isl` tokens.
    pub fn new(entries: u32, isl: Distribution, model: &str) -> Self {
        Self {
            common: CommonSpec { models: vec![model.to_owned()], ..CommonSpec::default() },
            entries,
            isl: Some(isl),
            batch_size: 1,
            corpus: Corpus::Words,
            sequences: Vec::new(),
            range_ratio: None,
            turns: Distribution::fixed(1.0),
            turn_delay_ms: Distribution::fixed(0.0),
            turn_delay_ratio: 1.0,
            prefix: None,
            cache_bust: CacheBust::None,
            rankings: None,
        }
    }
}

/// A prompt length and a reply length that belong together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequencePair {
    /// Mean prompt length.
    pub isl: f64,
    /// Its standard deviation.
    pub isl_stddev: f64,
    /// Mean reply length.
    pub osl: f64,
    /// Its standard deviation.
    pub osl_stddev: f64,
    /// In percent; all together 100.
    pub probability_percent: f64,
}

/// Where a cache-bust mark goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheBust {
    /// In front of the first turn's text.
    FirstTurnPrefix,
    /// Behind the first turn's text.
    FirstTurnSuffix,
    /// Nowhere.
    #[default]
    None,
    /// In front of the system message.
    SystemPrefix,
    /// Behind the system message.
    SystemSuffix,
}

/// A query and the passages to rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankingsSpec {
    /// Passages per entry.
    pub passages: Distribution,
    /// Tokens of a passage.
    pub passage_tokens: Distribution,
    /// Tokens of the query.
    pub query_tokens: Distribution,
}

/// A dataset that stands in a file, a directory or the config itself.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// What all datasets have.
    pub common: CommonSpec,
    /// Where it stands.
    pub source: FileSource,
    /// Its format; absent: it is found out.
    pub format: Option<FileFormat>,
    /// Conversations drawn from a random pool (100 unless written); other formats load every row.
    pub entries: Option<u32>,
    /// Tokens of a block of a trace; absent: the format's own.
    pub block_size: Option<u32>,
    /// What texts of traces are made of.
    pub corpus: Corpus,
    /// Changes to a trace.
    pub synthesis: Synthesis,
    /// Texts, images, audios and videos drawn per turn of a random pool; 1 unless written.
    pub batch_sizes: BatchSizes,
    /// Rows of a trace outside of this window of timestamps (milliseconds, both ends inside) are left out.
    pub window_ms: (Option<f64>, Option<f64>),
    /// The endpoint type takes system messages.
    pub takes_system: bool,
}

impl FileSpec {
    /// The dataset in the file or directory `path`.
    pub fn new(path: PathBuf, model: &str) -> Self {
        Self {
            common: CommonSpec { models: vec![model.to_owned()], ..CommonSpec::default() },
            source: FileSource::Path(path),
            format: None,
            entries: None,
            block_size: None,
            corpus: Corpus::Words,
            synthesis: Synthesis::default(),
            batch_sizes: BatchSizes::default(),
            window_ms: (None, None),
            takes_system: true,
        }
    }
}

/// Where a file dataset stands.
#[derive(Clone, Debug)]
pub enum FileSource {
    /// In the config itself: pools by name (one without a name unless it is a random pool).
    Inline(Vec<(String, Vec<Value>)>),
    /// In a file or a directory.
    Path(PathBuf),
}

/// Formats of file datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Chats of a hosted assistant as a trace of lengths.
    BailianTrace,
    /// A CSV trace of lengths.
    BurstGptTrace,
    /// The document that phasor and AIPerf write as `inputs.json`.
    InputsJson,
    /// A trace of lengths, texts, messages or payloads.
    MooncakeTrace,
    /// Conversations.
    MultiTurn,
    /// Rows to draw from.
    RandomPool,
    /// Whole request bodies.
    RawPayload,
    /// Conversations of people with an assistant, as `ShareGPT` has them.
    ShareGpt,
    /// Single requests.
    SingleTurn,
}

impl FileFormat {
    /// Every format, in the order in which they are tried.
    pub const ALL: [Self; 9] = [
        Self::BailianTrace,
        Self::BurstGptTrace,
        Self::InputsJson,
        Self::MooncakeTrace,
        Self::MultiTurn,
        Self::RandomPool,
        Self::RawPayload,
        Self::ShareGpt,
        Self::SingleTurn,
    ];

    /// As `dataset.format` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BailianTrace => "bailian_trace",
            Self::BurstGptTrace => "burst_gpt_trace",
            Self::InputsJson => "inputs_json",
            Self::MooncakeTrace => "mooncake_trace",
            Self::MultiTurn => "multi_turn",
            Self::RandomPool => "random_pool",
            Self::RawPayload => "raw_payload",
            Self::ShareGpt => "sharegpt",
            Self::SingleTurn => "single_turn",
        }
    }

    /// The format `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether it is a trace, which [`Synthesis`] can change.
    pub const fn is_trace(self) -> bool {
        match self {
            Self::BailianTrace | Self::BurstGptTrace | Self::MooncakeTrace => true,
            Self::InputsJson
            | Self::MultiTurn
            | Self::RandomPool
            | Self::RawPayload
            | Self::ShareGpt
            | Self::SingleTurn => false,
        }
    }

    /// Whether the rows are requests already, so that saying again what is sent says nothing.
    pub const fn is_verbatim(self) -> bool {
        matches!(self, Self::InputsJson | Self::RawPayload)
    }

    /// Tokens of a block unless the dataset says otherwise.
    pub const fn block_size(self) -> u32 {
        match self {
            Self::BailianTrace => 16,
            Self::BurstGptTrace
            | Self::InputsJson
            | Self::MooncakeTrace
            | Self::MultiTurn
            | Self::RandomPool
            | Self::RawPayload
            | Self::ShareGpt
            | Self::SingleTurn => 512,
        }
    }
}
