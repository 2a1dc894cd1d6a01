//! Token counts as servers report them, under every vendor's names.

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
/// Name of the reasoning count, outside the details.
pub const REASONING_KEY: &str = "thoughtsTokenCount";
/// Objects that some vendors put around the counts.
pub const WRAPPER_KEYS: [&str; 3] = ["usageMetadata", "meta", "tokens"];

impl Usage {
    /// How many counts there are.
    pub const COUNTS: usize = 5;

    /// All counts in one order.
    pub const fn counts(&self) -> [Option<u64>; Self::COUNTS] {
        let Self { prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens } = *self;
        [prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens]
    }

    /// The counts in the order of [`Usage::counts`].
    pub const fn of_counts(counts: [Option<u64>; Self::COUNTS]) -> Self {
        let [prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens] = counts;
        Self { prompt_tokens, completion_tokens, total_tokens, reasoning_tokens, cached_tokens }
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
