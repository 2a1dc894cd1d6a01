//! Token counts as servers report them, under every vendor's names.

use std::num::NonZeroU32;

use serde_json::{Map, Value};

/// Token counts as the server reports them, whatever names it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the reply, reasoning included.
    pub completion_tokens: Option<u64>,
    /// As reported; never summed here.
    pub total_tokens: Option<u64>,
    /// Part of the completion that was reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Part of the prompt that came from the server's cache.
    pub cached_tokens: Option<u64>,
    /// What few servers report.
    pub details: UsageDetails,
}

/// Counts that few servers report. They are kept small: every message that is read carries room for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageDetails {
    /// Tokens of the prompt that went into the server's cache.
    pub cache_write_tokens: Option<Detail>,
    /// Tokens of the prompt that the cache did not have.
    pub cache_miss_tokens: Option<Detail>,
    /// Tokens of the prompt that were sound.
    pub prompt_audio_tokens: Option<Detail>,
    /// Length of the sound in the prompt, in whole seconds.
    pub prompt_audio_seconds: Option<Detail>,
    /// Tokens of the prompt that describe the use of tools.
    pub tool_use_prompt_tokens: Option<Detail>,
    /// Tokens of the reply that were sound.
    pub completion_audio_tokens: Option<Detail>,
    /// Tokens of a prediction sent along that the reply took over.
    pub accepted_prediction_tokens: Option<Detail>,
    /// Tokens of it that the reply did not take.
    pub rejected_prediction_tokens: Option<Detail>,
}

impl UsageDetails {
    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A count from 0 to [`Detail::MAX`] that takes no more room when it may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail(NonZeroU32);

impl Detail {
    /// The largest count that can be kept.
    pub const MAX: u64 = u32::MAX as u64 - 1;

    /// Keeps `count`; absent when it is larger than [`Self::MAX`].
    pub fn new(count: u64) -> Option<Self> {
        u32::try_from(count.checked_add(1)?).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The count.
    pub const fn count(self) -> u64 {
        self.0.get() as u64 - 1
    }
}

/// Names of the prompt's token count, the first one present wins.
pub const PROMPT_KEYS: [&str; 5] =
    ["prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens", "input_token_count"];
/// Prompt names under which the vendor leaves out what its cache read or wrote: it is added back.
pub const PROMPT_KEYS_WITHOUT_CACHE: [&str; 2] = ["input_tokens", "inputTokens"];
/// What is added back.
pub const CACHE_KEYS_ADDED: [&str; 4] = [
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
];
/// Names of the reply's token count.
pub const COMPLETION_KEYS: [&str; 5] =
    ["completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens", "generated_token_count"];
/// Names of the sum.
pub const TOTAL_KEYS: [&str; 3] = ["total_tokens", "totalTokenCount", "totalTokens"];
/// Objects that hold parts of the prompt's count.
pub const PROMPT_DETAILS_KEYS: [&str; 2] = ["prompt_tokens_details", "input_tokens_details"];
/// Objects that hold parts of the reply's count.
pub const COMPLETION_DETAILS_KEYS: [&str; 2] = ["completion_tokens_details", "output_tokens_details"];
/// Names of the count read from the cache, outside the details.
pub const CACHED_KEYS: [&str; 5] = [
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
    "cacheReadInputTokens",
    "cached_tokens",
];
/// Names of the count written to the cache.
pub const CACHE_WRITE_KEYS: [&str; 2] = ["cache_creation_input_tokens", "cacheWriteInputTokens"];
/// Name of the count that the cache did not have.
pub const CACHE_MISS_KEY: &str = "prompt_cache_miss_tokens";
/// Name of the length of sound.
pub const AUDIO_SECONDS_KEY: &str = "prompt_audio_seconds";
/// Name of the count for tools.
pub const TOOL_USE_KEY: &str = "toolUsePromptTokenCount";
/// Name of the count of sound, inside the details of prompt and reply.
pub const AUDIO_KEY: &str = "audio_tokens";
/// Name of the count taken over from a prediction, inside the reply's details.
pub const ACCEPTED_KEY: &str = "accepted_prediction_tokens";
/// Name of the count not taken over, inside the reply's details.
pub const REJECTED_KEY: &str = "rejected_prediction_tokens";
/// Name of the reasoning count, outside the details.
pub const REASONING_KEY: &str = "thoughtsTokenCount";
/// Objects that some vendors put around the counts.
pub const WRAPPER_KEYS: [&str; 3] = ["usageMetadata", "meta", "tokens"];

impl Usage {
    /// How many counts there are.
    pub const COUNTS: usize = 5;

    /// All counts but the details, in one order.
    pub const fn counts(&self) -> [Option<u64>; Self::COUNTS] {
        let Self {
            prompt_tokens,
            completion_tokens,
            total_tokens,
            reasoning_tokens,
            cached_tokens,
            details: _,
        } = *self;
        [prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens]
    }

    /// The counts in the order of [`Usage::counts`], without details.
    pub const fn of_counts(counts: [Option<u64>; Self::COUNTS]) -> Self {
        let [prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens] = counts;
        let details = UsageDetails {
            cache_write_tokens: None,
            cache_miss_tokens: None,
            prompt_audio_tokens: None,
            prompt_audio_seconds: None,
            tool_use_prompt_tokens: None,
            completion_audio_tokens: None,
            accepted_prediction_tokens: None,
            rejected_prediction_tokens: None,
        };
        Self { prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens, details }
    }

    /// Reads a `usage` object; absent when it is none or empty.
    pub fn read(usage: &Value) -> Option<Self> {
        let Value::Object(outer) = usage else { return None };
        if outer.is_empty() {
            return None;
        }
        let usage = unwrapped(outer);
        let count = |key: &&str| usage.get(*key).and_then(Value::as_u64);
        let detail = |objects: &[&str], key: &str| {
            objects.iter().find_map(|object| usage.get(*object)?.get(key)?.as_u64())
        };
        let prompt = PROMPT_KEYS.iter().find_map(|key| Some((*key, count(key)?)));
        Some(Self {
            prompt_tokens: prompt.map(|(key, tokens)| {
                if PROMPT_KEYS_WITHOUT_CACHE.contains(&key) {
                    CACHE_KEYS_ADDED.iter().filter_map(count).fold(tokens, u64::saturating_add)
                } else {
                    tokens
                }
            }),
            completion_tokens: COMPLETION_KEYS.iter().find_map(count),
            total_tokens: TOTAL_KEYS.iter().find_map(count),
            reasoning_tokens: detail(&COMPLETION_DETAILS_KEYS, "reasoning_tokens")
                .or_else(|| count(&REASONING_KEY)),
            cached_tokens: detail(&PROMPT_DETAILS_KEYS, "cached_tokens")
                .or_else(|| CACHED_KEYS.iter().find_map(count)),
            details: UsageDetails {
                cache_write_tokens: CACHE_WRITE_KEYS.iter().find_map(count).and_then(Detail::new),
                cache_miss_tokens: count(&CACHE_MISS_KEY).and_then(Detail::new),
                prompt_audio_tokens: detail(&PROMPT_DETAILS_KEYS, AUDIO_KEY).and_then(Detail::new),
                prompt_audio_seconds: count(&AUDIO_SECONDS_KEY).and_then(Detail::new),
                tool_use_prompt_tokens: count(&TOOL_USE_KEY).and_then(Detail::new),
                completion_audio_tokens: detail(&COMPLETION_DETAILS_KEYS, AUDIO_KEY).and_then(Detail::new),
                accepted_prediction_tokens: detail(&COMPLETION_DETAILS_KEYS, ACCEPTED_KEY)
                    .and_then(Detail::new),
                rejected_prediction_tokens: detail(&COMPLETION_DETAILS_KEYS, REJECTED_KEY)
                    .and_then(Detail::new),
            },
        })
    }
}

/// The object with the counts themselves.
fn unwrapped(usage: &Map<String, Value>) -> &Map<String, Value> {
    let [metadata, meta, tokens] = WRAPPER_KEYS;
    let inner = usage
        .get(metadata)
        .filter(|inner| inner.is_object())
        .or_else(|| usage.get(meta).and_then(|meta| meta.get(tokens)).filter(|inner| inner.is_object()))
        .or_else(|| usage.get(tokens));
    match inner {
        Some(Value::Object(inner)) => inner,
        _ => usage,
    }
}

/// Counts under the names of Anthropic and of responses, as they stand in one message or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageParts {
    /// `input_tokens`: without those below.
    pub input: Option<u64>,
    /// `output_tokens`.
    pub output: Option<u64>,
    /// `total_tokens`.
    pub total: Option<u64>,
    /// `cache_read_input_tokens`.
    pub cache_read: Option<u64>,
    /// `cache_creation_input_tokens`.
    pub cache_creation: Option<u64>,
    /// `input_tokens_details.cached_tokens`.
    pub cached: Option<u64>,
    /// `output_tokens_details.reasoning_tokens`.
    pub reasoning: Option<u64>,
}

impl UsageParts {
    /// Whether there are counts of the details.
    pub const fn has_details(&self) -> bool {
        self.cached.is_some() || self.reasoning.is_some()
    }

    /// As [`Usage::read`] reads them.
    pub fn usage(&self) -> Usage {
        let beside = [self.cache_read, self.cache_creation].into_iter().flatten();
        Usage {
            prompt_tokens: self.input.map(|input| beside.fold(input, u64::saturating_add)),
            completion_tokens: self.output,
            total_tokens: self.total,
            reasoning_tokens: self.reasoning,
            cached_tokens: self.cached.or(self.cache_read),
            details: UsageDetails {
                cache_write_tokens: self.cache_creation.and_then(Detail::new),
                ..UsageDetails::default()
            },
        }
    }

    /// Puts later counts over these.
    pub(in crate::endpoint) fn put(&mut self, later: &Self) {
        *self = Self {
            input: later.input.or(self.input),
            output: later.output.or(self.output),
            total: later.total.or(self.total),
            cache_read: later.cache_read.or(self.cache_read),
            cache_creation: later.cache_creation.or(self.cache_creation),
            cached: later.cached.or(self.cached),
            reasoning: later.reasoning.or(self.reasoning),
        };
    }

    /// Makes them members of a usage object; those of details never come here.
    pub(in crate::endpoint) fn pour_into(self, usage: &mut Map<String, Value>) {
        let counts = [
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("total_tokens", self.total),
            ("cache_read_input_tokens", self.cache_read),
            ("cache_creation_input_tokens", self.cache_creation),
        ];
        for (name, count) in counts {
            usage.extend(count.map(|count| (name.to_owned(), Value::from(count))));
        }
    }
}
