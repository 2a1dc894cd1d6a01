//! What is sent: generated, read from a file, or a public collection.

/// A dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its name.
    pub name: String,
    /// Number of conversations, at least 1: 100 for a synthetic one unless written; absent: all there are.
    pub entries: Option<u32>,
    /// In which order entries are taken.
    pub sampling: Sampling,
    /// Seed of its own streams; absent: the run's.
    pub random_seed: Option<u64>,
    /// Put in front of every conversation.
    pub system_prompt: Option<SystemPrompt>,
    /// How recorded times are used.
    pub replay: Replay,
    /// Lengths and texts of what is asked and answered.
    pub prompts: Prompts,
    /// Where it comes from.
    pub source: DatasetSource,
}

impl Dataset {
    /// Conversations of a synthetic dataset unless written.
    pub const ENTRIES: u32 = 100;

    /// A synthetic dataset of `entries` prompts of `isl` tokens, answered by `osl`.
    pub fn synthetic(entries: u32, isl: u32, osl: Option<u32>) -> Self {
        let prompts = Prompts {
            isl: Distribution::fixed(isl.into()),
            osl: osl.map(|osl| Distribution::fixed(osl.into())),
            ..Prompts::default()
        };
        Self {
            name: "default".to_owned(),
            entries: Some(entries),
            sampling: Sampling::Sequential,
            random_seed: None,
            system_prompt: None,
            replay: Replay::default(),
            prompts,
            source: DatasetSource::Synthetic(SyntheticDataset::default()),
        }
    }
}

/// Where a dataset comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum DatasetSource {
    /// Records of the user.
    File(FileDataset),
    /// A collection with a well-known name.
    Public(PublicDataset),
    /// Made by phasor.
    Synthetic(SyntheticDataset),
}

impl DatasetSource {
    /// The type as written in configs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Public(_) => "public",
            Self::Synthetic(_) => "synthetic",
        }
    }
}

/// In which order entries are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Any, each time.
    Random,
    /// In dataset order, from the start again.
    Sequential,
    /// In a random order, all before one comes again.
    Shuffle,
}

impl Sampling {
    /// As written in configs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
            Self::Shuffle => "shuffle",
        }
    }
}

/// Where the system prompt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemPrompt {
    /// In this file; a `~` in front is the home directory.
    File(String),
    /// Here.
    Text(String),
}

/// How the recorded times of a dataset are used; a member is absent unless written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Factor on the delays between turns (1 unless written).
    pub turn_delay_ratio: Option<f64>,
    /// Longest delay between turns in seconds.
    pub inter_turn_delay_cap_s: Option<f64>,
    /// Delays of the trace are left out.
    pub ignore_trace_delays: bool,
    /// Only the time a user thinks counts.
    pub use_think_time_only: bool,
    /// Other fields for recorded traces that were set, by name.
    pub others: Vec<String>,
}

/// Lengths and texts of what is asked and answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    /// Input sequence length in tokens (550 unless written).
    pub isl: Distribution,
    /// Output sequence length in tokens, sent as `max_completion_tokens`; absent: the server decides.
    pub osl: Option<Distribution>,
    /// Tokens of a block of equal text, above 0.
    pub block_size: Option<u32>,
    /// Prompts in one request, at least 1.
    pub batch_size: u32,
    /// Where a mark that defeats the server's cache is put.
    pub cache_bust: CacheBust,
    /// What the words are taken from; absent: the default.
    pub corpus: Option<Corpus>,
    /// Pairs of lengths with their shares, in place of `isl` and `osl`; empty without.
    pub mix: Vec<LengthMix>,
    /// Lengths drawn evenly around `isl` and `osl`.
    pub random_range: Option<RandomRange>,
}

impl Prompts {
    /// Prompt length unless written, in tokens.
    pub const ISL_TOKENS: f64 = 550.0;
}

impl Default for Prompts {
    fn default() -> Self {
        Self {
            isl: Distribution::fixed(Self::ISL_TOKENS),
            osl: None,
            block_size: None,
            batch_size: 1,
            cache_bust: CacheBust::None,
            corpus: None,
            mix: Vec::new(),
            random_range: None,
        }
    }
}

/// Where a mark that defeats the server's cache is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheBust {
    /// In front of the first prompt of a conversation.
    FirstTurnPrefix,
    /// Behind it.
    FirstTurnSuffix,
    /// Nowhere.
    None,
    /// In front of the system prompt.
    SystemPrefix,
    /// Behind it.
    SystemSuffix,
    /// In front of the first prompt, in warmups only.
    WarmupIsolationFirstTurn,
    /// In front of the system prompt, in warmups only.
    WarmupIsolationSystem,
}

/// What words are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corpus {
    /// Source text.
    Coding,
    /// Random tokens.
    Random,
    /// Shakespeare.
    Sonnet,
}

/// One pair of lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct LengthMix {
    /// Input sequence length in tokens.
    pub isl: Distribution,
    /// Output sequence length in tokens.
    pub osl: Distribution,
    /// Share in percent; all shares sum to 100.
    pub percent: f64,
}

/// Lengths drawn evenly around a middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomRange {
    /// How far input lengths may be from `isl`, as a share of it.
    pub input: f64,
    /// How far output lengths may be from `osl`, as a share of it.
    pub output: f64,
    /// Whose rule it is.
    pub style: RangeStyle,
}

/// Whose rule of random ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeStyle {
    /// Of `SGLang`'s benchmark.
    Sglang,
    /// Of vLLM's benchmark.
    Vllm,
}

/// What only a generated dataset has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyntheticDataset {
    /// Texts shared by several prompts.
    pub prefix: Option<Prefix>,
    /// Turns of a conversation; absent: one.
    pub turns: Option<Distribution>,
    /// Time between turns in ms; absent: none.
    pub turn_delay_ms: Option<Distribution>,
    /// Sections of other media that were written: `images`, `audio`, `video`.
    pub media: Vec<&'static str>,
    /// Queries and passages of ranking endpoints.
    pub rankings: Rankings,
}

/// A query and the passages to rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Rankings {
    /// Passages per entry (10 unless written).
    pub passages: Distribution,
    /// Tokens of a passage (128 unless written).
    pub passage_tokens: Distribution,
    /// Tokens of the query (32 unless written).
    pub query_tokens: Distribution,
}

impl Default for Rankings {
    fn default() -> Self {
        Self {
            passages: Distribution::fixed(10.0),
            passage_tokens: Distribution::fixed(128.0),
            query_tokens: Distribution::fixed(32.0),
        }
    }
}

/// Texts shared by several prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// One of a pool stands in front of each prompt.
    Pool {
        /// Texts in the pool.
        size: u32,
        /// Tokens of each.
        length: u32,
    },
    /// A system prompt for all, and a context for each user.
    Shared {
        /// Tokens of the system prompt.
        system_length: Option<u32>,
        /// Tokens of a user's context.
        user_context_length: Option<u32>,
    },
}

/// Records of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDataset {
    /// Where they are; absent when they stand in the config.
    pub path: Option<String>,
    /// The records in the config.
    pub records: Vec<serde_json::Value>,
    /// Their format, as AIPerf names it; absent: records in the config are `single_turn`, those of a file are
    /// looked at.
    pub format: Option<String>,
    /// Changes to a trace.
    pub synthesis: Synthesis,
    /// Items drawn per turn of a random pool.
    pub batch_sizes: BatchSizes,
}

/// Changes to a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthesis {
    /// Timestamps and delays are divided by it; above 0.
    pub speedup_ratio: f64,
    /// Scales the part of a prompt that rows share; above 0.
    pub prefix_len_multiplier: f64,
    /// So many copies of the shared parts, disjoint; at least 1.
    pub prefix_root_multiplier: u32,
    /// Scales the part of a prompt that is its own; above 0.
    pub prompt_len_multiplier: f64,
    /// Scales reply lengths.
    pub output_len_multiplier: f64,
    /// Rows with longer prompts are left out.
    pub max_isl: Option<u64>,
    /// Longer replies are cut to it.
    pub max_osl: Option<u64>,
}

impl Default for Synthesis {
    fn default() -> Self {
        Self {
            speedup_ratio: 1.0,
            prefix_len_multiplier: 1.0,
            prefix_root_multiplier: 1,
            prompt_len_multiplier: 1.0,
            output_len_multiplier: 1.0,
            max_isl: None,
            max_osl: None,
        }
    }
}

/// Items drawn per turn of a random pool; 1 of each unless written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Texts.
    pub prompts: u32,
    /// Images.
    pub images: u32,
    /// Audios.
    pub audios: u32,
    /// Videos.
    pub videos: u32,
}

impl Default for BatchSizes {
    fn default() -> Self {
        Self { prompts: 1, images: 1, audios: 1, videos: 1 }
    }
}

/// A collection with a well-known name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicDataset {
    /// Its name.
    pub dataset: String,
}

/// A distribution of lengths, delays or counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Its law.
    pub shape: Shape,
    /// No draw is below this.
    pub min: Option<f64>,
    /// No draw is above this.
    pub max: Option<f64>,
}

/// The law of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Values with their weights, as counted somewhere.
    Empirical(Vec<(f64, f64)>),
    /// Always the same.
    Fixed(f64),
    /// Its logarithm is normal.
    LogNormal {
        /// At least the median.
        mean: f64,
        /// Above 0.
        median: f64,
    },
    /// One of several; at least two.
    Multimodal(Vec<Weighted>),
    /// A bell.
    Normal {
        /// At least 0.
        mean: f64,
        /// At least 0.
        stddev: f64,
    },
}

/// A distribution and its weight among others.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// Above 0.
    pub weight: f64,
    /// The distribution.
    pub distribution: Distribution,
}

impl Distribution {
    /// Always `value`.
    pub const fn fixed(value: f64) -> Self {
        Self { shape: Shape::Fixed(value), min: None, max: None }
    }

    /// The value when every draw gives the same whole number, at least 1.
    pub fn fixed_tokens(&self) -> Option<u32> {
        let value = match &self.shape {
            Shape::Fixed(value) => *value,
            Shape::Normal { mean, stddev } if *stddev <= 0.0 => *mean,
            Shape::Empirical(_) | Shape::LogNormal { .. } | Shape::Multimodal(_) | Shape::Normal { .. } => {
                return None;
            }
        };
        let value = self.min.map_or(value, |least| value.max(least));
        let value = self.max.map_or(value, |most| value.min(most));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
        Some(value.ceil().clamp(1.0, f64::from(u32::MAX)) as u32)
    }

    /// The mean of draws, clamps left aside.
    pub fn mean(&self) -> f64 {
        match &self.shape {
            Shape::Fixed(value) => *value,
            Shape::LogNormal { mean, .. } | Shape::Normal { mean, .. } => *mean,
            Shape::Empirical(points) => weighted_mean(points.iter().map(|(value, weight)| (*value, *weight))),
            Shape::Multimodal(peaks) => {
                weighted_mean(peaks.iter().map(|peak| (peak.distribution.mean(), peak.weight)))
            }
        }
    }
}

fn weighted_mean(items: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weights) =
        items.fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
    if weights > 0.0 { sum / weights } else { 0.0 }
}
