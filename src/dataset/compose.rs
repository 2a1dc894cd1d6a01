//! Synthetic conversations: first all lengths, in AIPerf's order of draws, then each conversation by its number.
//!
//! The lengths are drawn one after another from the run's streams and are few bytes per prompt. A conversation
//! is made from its number alone, so that any thread can make any of them, twice the same.

use fastrand::Rng;

use crate::dataset::draw::{Draws, chosen, to_count};
use crate::dataset::prose::{Prefix, Prose};
use crate::dataset::spec::{
    CacheBust, CommonSpec, ModelChoice, PrefixSpec, RangeRatio, RangeStyle, RankingsSpec, SyntheticSpec,
};
use crate::dataset::{BLOCK_BYTES_MAX, Corpus, DatasetError, Distribution};
use crate::endpoint::{Conversation, Dialect, Media, Turn};
use crate::rng::child_seed;
use crate::rng::numpy::Pcg64;
use crate::tokenizer::Tokenizer;

/// Most turns that a dataset may have.
pub const TURNS_MAX: usize = 100_000_000;
/// What a cache-bust mark looks like; its digits are set when it is sent.
pub const MARK: &str = "[rid:000000000000]";

const LENGTH: &str = "dataset.prompt.length";
const CORPUS: &str = "dataset.prompt.corpus";
const PREFIX: &str = "dataset.prompt.prefix";
const TURN_COUNT: &str = "composer.conversation.turn_count";
const TURN_DELAY: &str = "composer.conversation.turn_delay";
const MODEL: &str = "composer.turn.model_selection";
pub(in crate::dataset) const MAX_TOKENS: &str = "composer.turn.max_tokens";
const SEQUENCE: &str = "models.sequence.distribution";
const RANGE: &str = "models.range_ratio.distribution";
const PASSAGES: &str = "dataset.rankings.passages";
const PASSAGE_TOKENS: &str = "dataset.rankings.passages.tokens";
const QUERY_TOKENS: &str = "dataset.rankings.query.tokens";

/// Makes the conversations of a synthetic dataset.
#[derive(Debug)]
pub struct Composer {
    prose: Prose,
    names: SessionNames,
    models: Vec<String>,
    /// First turn of each conversation, and behind them the number of all turns.
    firsts: Vec<u32>,
    turns: Vec<TurnPlan>,
    /// Prompt lengths, turn by turn.
    lengths: Vec<u32>,
    /// Texts are a query and passages.
    ranks: bool,
    pool: Vec<Prefix>,
    /// The entry of the pool that each prompt of a first turn begins with, in order.
    pool_choices: Vec<u32>,
    batch_size: usize,
    system_message: Option<String>,
    /// The system message has words that are not phasor's.
    has_own_system: bool,
    shared_system_tokens: usize,
    user_context_tokens: Option<usize>,
    cache_bust: CacheBust,
    corpus_seed: u64,
}

/// One turn before it has words.
#[derive(Clone, Copy, Debug)]
struct TurnPlan {
    model: u16,
    max_tokens: Option<u32>,
    /// Absent for a first turn and where no delay is asked for.
    delay_ms: Option<f64>,
    /// End of its lengths.
    lengths_end: u32,
}

/// Names of conversations: numbers when there is a seed, random ones otherwise.
#[derive(Clone, Debug)]
pub(in crate::dataset) struct SessionNames {
    random: Option<u64>,
}

impl SessionNames {
    pub(in crate::dataset) fn new(common: &CommonSpec, root: u64) -> Self {
        let numbered = common.seed.is_some() || common.numbered_sessions;
        Self { random: (!numbered).then(|| child_seed(root, "sessions")) }
    }

    pub(in crate::dataset) fn name(&self, index: usize) -> String {
        match self.random {
            None => format!("session_{index:06}"),
            Some(seed) => uuid_v4(&mut numbered_random(seed, index)),
        }
    }
}

/// A generator for the thing number `index`, whatever came before it.
pub(in crate::dataset) fn numbered_random(seed: u64, index: usize) -> Rng {
    const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
    Rng::with_seed(seed ^ (index as u64 + 1).wrapping_mul(STRIDE))
}

/// A random UUID in its text form.
pub(in crate::dataset) fn uuid_v4(random: &mut Rng) -> String {
    let bits = random.u128(..);
    let versioned = bits & !(0xf << 76) | (0x4 << 76);
    let varied = versioned & !(0x3 << 62) | (0x2 << 62);
    let digits = format!("{varied:032x}");
    let mut text = String::with_capacity(36);
    for (position, digit) in digits.chars().enumerate() {
        if matches!(position, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

/// Which model each turn asks, turn after turn.
#[derive(Debug)]
pub(in crate::dataset) struct Models {
    count: usize,
    next: usize,
    choice: ModelChoice,
    draws: Draws,
}

impl Models {
    pub(in crate::dataset) fn new(common: &CommonSpec, root: u64) -> Self {
        let choice = common.model_choice.clone();
        Self { count: common.models.len().max(1), next: 0, choice, draws: Draws::new(root, MODEL) }
    }

    pub(in crate::dataset) fn next(&mut self) -> usize {
        match &self.choice {
            ModelChoice::Random => self.draws.below(self.count),
            ModelChoice::RoundRobin => {
                let model = self.next;
                self.next = (model + 1) % self.count;
                model
            }
            ModelChoice::Weighted(weights) => chosen(weights.iter().copied(), &mut self.draws),
        }
    }
}

/// Lengths of prompts and replies, turn after turn.
struct Lengths<'a> {
    spec: &'a SyntheticSpec,
    isl: &'a Distribution,
    special: f64,
    mark: f64,
    has_prefix_pool: bool,
    draws: Draws,
    max_tokens: Draws,
    sequence: Draws,
    range: Pcg64,
    /// Pairs drawn ahead, last first (random corpus).
    ahead: Vec<(u64, u64)>,
}

impl<'a> Lengths<'a> {
    fn new(spec: &'a SyntheticSpec, isl: &'a Distribution, prose: &Prose, root: u64) -> Self {
        let tokenizer = prose.tokenizer();
        let special = tokenizer.special_tokens_added() as f64;
        let mark = match spec.cache_bust {
            CacheBust::FirstTurnPrefix | CacheBust::FirstTurnSuffix => mark_tokens(tokenizer),
            CacheBust::None | CacheBust::SystemPrefix | CacheBust::SystemSuffix => 0.0,
        };
        let mut lengths = Self {
            spec,
            isl,
            special,
            mark,
            has_prefix_pool: matches!(spec.prefix, Some(PrefixSpec::Pool { .. })),
            draws: Draws::new(root, LENGTH),
            max_tokens: Draws::new(root, MAX_TOKENS),
            sequence: Draws::new(root, SEQUENCE),
            range: Pcg64::new(child_seed(root, RANGE)),
            ahead: Vec::new(),
        };
        if let (Some(ratio), Corpus::Random) = (spec.range_ratio, spec.corpus) {
            // All prompt lengths first, then all reply lengths, from the run's seed itself.
            let mut stream = Pcg64::new(root);
            let inputs: Vec<u64> = (0..spec.entries).map(|_| lengths.input(ratio, &mut stream)).collect();
            let outputs: Vec<u64> = (0..spec.entries).map(|_| lengths.output(ratio, &mut stream)).collect();
            lengths.ahead = inputs.into_iter().zip(outputs).rev().collect();
        }
        lengths
    }

    fn input(&self, ratio: RangeRatio, stream: &mut Pcg64) -> u64 {
        let mean = self.isl.mean().trunc();
        match ratio.style {
            RangeStyle::Vllm => even((mean - self.special).max(0.0), ratio.input, ratio.style, stream),
            RangeStyle::Sglang => {
                even(mean, ratio.input, ratio.style, stream).saturating_sub(to_count(self.special))
            }
        }
    }

    fn output(&self, ratio: RangeRatio, stream: &mut Pcg64) -> u64 {
        let mean = self.spec.common.osl.as_ref().map_or(1.0, |osl| osl.mean().trunc());
        even(mean, ratio.output, ratio.style, stream)
    }

    /// Appends the prompt lengths of the next turn and says its reply length.
    fn next(&mut self, first: bool, lengths: &mut Vec<u32>) -> Option<u64> {
        let floor = u64::from(!(self.has_prefix_pool && first));
        let mark = if first { self.mark } else { 0.0 };
        let exact = |length: u64| length.saturating_sub(to_count(mark)).max(floor);
        let batch = usize::try_from(self.spec.batch_size).unwrap_or(1);
        if let Some(ratio) = self.spec.range_ratio {
            let pair = self.ahead.pop().unwrap_or_else(|| {
                let mut stream = self.range.clone();
                let pair = (self.input(ratio, &mut stream), self.output(ratio, &mut stream));
                self.range = stream;
                pair
            });
            lengths.extend(std::iter::repeat_n(narrow(exact(pair.0)), batch));
            return Some(pair.1.max(1));
        }
        if !self.spec.sequences.is_empty() {
            let weights = self.spec.sequences.iter().map(|pair| pair.probability_percent);
            let place = chosen(weights, &mut self.sequence);
            let pair = self.spec.sequences.get(place)?;
            let isl = self.sequence.positive(pair.isl, pair.isl_stddev);
            let osl = self.sequence.positive(pair.osl, pair.osl_stddev);
            lengths.extend(std::iter::repeat_n(narrow(exact(isl)), batch));
            return Some(osl);
        }
        for _ in 0..batch {
            lengths.push(narrow(self.isl.positive(&mut self.draws, self.special + mark, floor)));
        }
        limit(self.spec.common.osl.as_ref(), &mut self.max_tokens)
    }
}

/// What a mark costs: its digits vary, and with them its tokens; this is their mean, rounded down.
fn mark_tokens(tokenizer: &Tokenizer) -> f64 {
    const SAMPLES: u64 = 256;
    let tokens: usize = (0..SAMPLES)
        .map(|sample| tokenizer.count(&format!("[rid:{:012x}]\n\n", child_seed(sample, "mark") >> 16)))
        .sum();
    (tokens as f64 / SAMPLES as f64).floor()
}

/// A reply length; absent when there is no limit.
pub(in crate::dataset) fn limit(osl: Option<&Distribution>, draws: &mut Draws) -> Option<u64> {
    let osl = osl.filter(|osl| osl.mean() >= 1.0)?;
    Some(osl.positive(draws, 0.0, 1))
}

/// A whole number around or below `mean`, each as likely as the next.
fn even(mean: f64, ratio: f64, style: RangeStyle, stream: &mut Pcg64) -> u64 {
    let (low, high) = match style {
        RangeStyle::Vllm => ((mean * (1.0 - ratio)).floor(), (mean * (1.0 + ratio)).ceil()),
        RangeStyle::Sglang => ((mean * ratio).trunc().max(1.0), mean),
    };
    let (low, high) = (to_count(low), to_count(high));
    stream.integer(low, high.saturating_sub(low))
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Composer {
    /// Draws everything but the words.
    ///
    /// # Errors
    /// A dataset without a prompt, a prefix that has no length, or more turns than can be.
    pub fn new(spec: &SyntheticSpec, tokenizer: &Tokenizer) -> Result<Self, DatasetError> {
        let root = spec.common.seed.unwrap_or_else(|| fastrand::u64(..));
        let prose = Prose::new(tokenizer, spec.corpus);
        if spec.entries == 0 {
            return Err(DatasetError::Empty);
        }
        check(spec)?;
        let corpus_seed = child_seed(root, CORPUS);
        let mut prefixes = Rng::with_seed(child_seed(root, PREFIX));
        let (mut pool, mut system_message, mut user_context_tokens) = (Vec::new(), None, None);
        let mut shared_system_tokens = 0;
        let count = |tokens: u32| usize::try_from(tokens).unwrap_or(usize::MAX);
        match spec.prefix {
            None => {}
            Some(PrefixSpec::Pool { size, length }) => {
                pool = (0..size).map(|_| prose.prefix(&mut prefixes, count(length))).collect();
            }
            Some(PrefixSpec::Shared { system_length, user_context_length }) => {
                shared_system_tokens = system_length.map_or(0, count);
                system_message = system_length.map(|tokens| prose.text(&mut prefixes, count(tokens)));
                user_context_tokens = user_context_length.map(count);
            }
        }
        let system_message = match (&spec.common.system_prompt, system_message) {
            (Some(own), Some(shared)) => Some(format!("{own}\n\n{shared}")),
            (Some(own), None) => Some(own.clone()),
            (None, shared) => shared,
        };
        let mut composer = Self {
            prose,
            names: SessionNames::new(&spec.common, root),
            models: spec.common.models.clone(),
            firsts: vec![0],
            turns: Vec::new(),
            lengths: Vec::new(),
            ranks: spec.rankings.is_some(),
            pool,
            pool_choices: Vec::new(),
            batch_size: usize::try_from(spec.batch_size).unwrap_or(1),
            system_message,
            has_own_system: spec.common.system_prompt.is_some(),
            shared_system_tokens,
            user_context_tokens,
            cache_bust: spec.cache_bust,
            corpus_seed,
        };
        match &spec.rankings {
            Some(rankings) => composer.plan_rankings(spec, rankings, root),
            None => composer.plan(spec, root)?,
        }
        Ok(composer)
    }

    fn plan(&mut self, spec: &SyntheticSpec, root: u64) -> Result<(), DatasetError> {
        let isl = spec.isl.as_ref().ok_or(DatasetError::NothingEnabled)?;
        let mut lengths = Lengths::new(spec, isl, &self.prose, root);
        let mut turn_counts = Draws::new(root, TURN_COUNT);
        let mut delays = Draws::new(root, TURN_DELAY);
        let mut choices = Draws::new(root, PREFIX);
        let mut models = Models::new(&spec.common, root);
        let has_delay = spec.turn_delay_ms.mean() >= 1.0;
        for _ in 0..spec.entries {
            let count = spec.turns.positive(&mut turn_counts, 0.0, 1);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if self.turns.len().saturating_add(count) > TURNS_MAX {
                return Err(DatasetError::TooManyTurns { entries: spec.entries });
            }
            for index in 0..count {
                let first = index == 0;
                let max_tokens = lengths.next(first, &mut self.lengths);
                if first && !self.pool.is_empty() {
                    let prompts = spec.batch_size;
                    self.pool_choices
                        .extend((0..prompts).map(|_| narrow(choices.below(self.pool.len()) as u64)));
                }
                let delay_ms = (!first && has_delay)
                    .then(|| spec.turn_delay_ms.positive(&mut delays, 0.0, 1) as f64 * spec.turn_delay_ratio);
                self.push_turn(models.next(), max_tokens, delay_ms);
            }
            self.firsts.push(narrow(self.turns.len() as u64));
        }
        Ok(())
    }

    fn plan_rankings(&mut self, spec: &SyntheticSpec, rankings: &RankingsSpec, root: u64) {
        let mut passages = Draws::new(root, PASSAGES);
        let mut passage_tokens = Draws::new(root, PASSAGE_TOKENS);
        let mut query_tokens = Draws::new(root, QUERY_TOKENS);
        let mut models = Models::new(&spec.common, root);
        for _ in 0..spec.entries {
            self.lengths.push(narrow(rankings.query_tokens.positive(&mut query_tokens, 0.0, 1)));
            for _ in 0..rankings.passages.positive(&mut passages, 0.0, 1) {
                self.lengths.push(narrow(rankings.passage_tokens.positive(&mut passage_tokens, 0.0, 1)));
            }
            self.push_turn(models.next(), None, None);
            self.firsts.push(narrow(self.turns.len() as u64));
        }
    }

    fn push_turn(&mut self, model: usize, max_tokens: Option<u64>, delay_ms: Option<f64>) {
        self.turns.push(TurnPlan {
            model: u16::try_from(model).unwrap_or(0),
            max_tokens: max_tokens.map(narrow),
            delay_ms,
            lengths_end: narrow(self.lengths.len() as u64),
        });
    }

    /// How many conversations there are.
    pub fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    /// Never: a dataset has at least one conversation.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a conversation is made in about the time that copying it takes.
    pub(in crate::dataset) const fn is_cheap(&self) -> bool {
        self.prose.is_exact_by_construction()
    }

    /// Whether some text has a mark in it.
    pub(in crate::dataset) const fn has_mark(&self) -> bool {
        !matches!(self.cache_bust, CacheBust::None)
    }

    /// The prompt length of a turn, when it is known without being counted: when every text is made of words
    /// of one token each, texts joined by a blank count together what they count alone.
    pub(in crate::dataset) fn known_tokens(
        &self,
        index: usize,
        turn: usize,
        dialect: &Dialect,
    ) -> Option<u32> {
        /// Endpoint types whose payloads are counted text by text.
        const COUNTED: [&str; 8] = [
            "chat",
            "chat_embeddings",
            "completions",
            "embeddings",
            "huggingface_generate",
            "messages",
            "nim_embeddings",
            "responses",
        ];
        let foreign = self.ranks || self.has_mark() || self.has_own_system;
        if foreign || !self.is_cheap() || !COUNTED.contains(&dialect.name) {
            return None;
        }
        let place = self.firsts.get(index).map(|first| *first as usize)? + turn;
        let begin = place.checked_sub(1).and_then(|before| self.turns.get(before));
        let begin = begin.map_or(0, |turn| turn.lengths_end as usize);
        let lengths = self.lengths.get(begin..self.turns.get(place)?.lengths_end as usize)?;
        let mut tokens: usize = lengths.iter().map(|length| *length as usize).sum();
        if turn == 0 && !self.pool.is_empty() {
            let choices = self.pool_choices.get(index * self.batch_size..(index + 1) * self.batch_size)?;
            tokens += choices
                .iter()
                .filter_map(|choice| self.pool.get(*choice as usize))
                .map(Prefix::count)
                .sum::<usize>();
        }
        if dialect.can.take_system {
            tokens += self.shared_system_tokens + self.user_context_tokens.unwrap_or(0);
        }
        u32::try_from(tokens).ok()
    }

    /// All prompt tokens together, prefixes left out: what the work of rendering is measured by.
    pub fn tokens(&self) -> u64 {
        self.lengths.iter().map(|length| u64::from(*length)).sum()
    }

    /// Conversation number `index`, below [`Composer::len`].
    pub fn conversation(&self, index: usize) -> Conversation {
        let at = |place: usize| self.firsts.get(place).map_or(0, |first| *first as usize);
        let (first, end) = (at(index), at(index + 1));
        let mut random = numbered_random(self.corpus_seed, index);
        let user_context_message =
            self.user_context_tokens.map(|tokens| self.prose.text(&mut random, tokens));
        let turns = (first..end).map(|place| self.turn(index, place, place == first, &mut random)).collect();
        Conversation {
            session_id: self.names.name(index),
            system_message: self.marked_system(),
            user_context_message,
            context_mode: None,
            turns,
        }
    }

    fn turn(&self, conversation: usize, place: usize, first: bool, random: &mut Rng) -> Turn {
        let Some(plan) = self.turns.get(place) else { return Turn::default() };
        let begin = place.checked_sub(1).and_then(|before| self.turns.get(before));
        let begin = begin.map_or(0, |turn| turn.lengths_end as usize);
        let lengths = self.lengths.get(begin..plan.lengths_end as usize).unwrap_or_default();
        let texts = if self.ranks {
            let mut texts =
                lengths.iter().map(|length| self.prose.text(random, *length as usize)).collect::<Vec<_>>();
            let passages = texts.split_off(1.min(texts.len()));
            let named = |name: &str, contents| Media { name: name.to_owned(), ..Media::new(contents) };
            vec![named("query", texts), named("passages", passages)]
        } else {
            let prompts = lengths.iter().enumerate().map(|(batch, length)| {
                let choice = self.pool_choices.get(conversation * self.batch_size + batch);
                let prefix = choice.filter(|_| first).and_then(|choice| self.pool.get(*choice as usize));
                let text = match prefix {
                    Some(prefix) => self.prose.text_behind(prefix, random, *length as usize),
                    None => self.prose.text(random, *length as usize),
                };
                if first && batch == 0 { self.marked_turn(text) } else { text }
            });
            vec![Media { name: "text".to_owned(), ..Media::new(prompts.collect()) }]
        };
        Turn {
            // The first model is what the endpoint says anyway.
            model: self.models.get(usize::from(plan.model)).cloned(),
            texts,
            max_tokens: plan.max_tokens.map(u64::from),
            delay_ms: plan.delay_ms,
            ..Turn::default()
        }
    }

    fn marked_turn(&self, text: String) -> String {
        match self.cache_bust {
            CacheBust::FirstTurnPrefix => format!("{MARK}\n\n{text}"),
            CacheBust::FirstTurnSuffix => format!("{text}\n\n{MARK}"),
            CacheBust::None | CacheBust::SystemPrefix | CacheBust::SystemSuffix => text,
        }
    }

    fn marked_system(&self) -> Option<String> {
        let system = self.system_message.clone();
        match self.cache_bust {
            CacheBust::SystemPrefix => {
                Some(system.map_or_else(|| MARK.to_owned(), |system| format!("{MARK}\n\n{system}")))
            }
            CacheBust::SystemSuffix => {
                Some(system.map_or_else(|| MARK.to_owned(), |system| format!("{system}\n\n{MARK}")))
            }
            CacheBust::FirstTurnPrefix | CacheBust::FirstTurnSuffix | CacheBust::None => system,
        }
    }
}

/// What cannot be drawn.
fn check(spec: &SyntheticSpec) -> Result<(), DatasetError> {
    /// The probabilities make 100 within this.
    const SUM_TOLERANCE: f64 = 1e-6;
    if spec.rankings.is_some() {
        return Ok(());
    }
    let isl = spec.isl.as_ref().filter(|isl| isl.mean() > 0.0);
    // A word has four letters at least, with its blank.
    let bytes = spec.isl.as_ref().map_or(0.0, Distribution::mean)
        * spec.turns.mean().max(1.0)
        * f64::from(spec.batch_size)
        * f64::from(spec.entries)
        * 4.0;
    if bytes > BLOCK_BYTES_MAX as f64 {
        return Err(DatasetError::TooLarge {
            needed_bytes: u128::from(to_count(bytes)),
            entries: spec.entries,
            isl_tokens: narrow(to_count(spec.isl.as_ref().map_or(0.0, Distribution::mean))),
        });
    }
    if isl.is_none() && spec.sequences.is_empty() {
        return Err(DatasetError::NothingEnabled);
    }
    if !spec.sequences.is_empty() {
        let sum: f64 = spec.sequences.iter().map(|pair| pair.probability_percent).sum();
        if (sum - 100.0).abs() > SUM_TOLERANCE {
            return Err(DatasetError::Probabilities { sum_percent: sum });
        }
    }
    match spec.prefix {
        Some(PrefixSpec::Pool { size: 0, .. } | PrefixSpec::Pool { length: 0, .. }) => {
            Err(DatasetError::EmptyPrefix)
        }
        Some(PrefixSpec::Pool { .. } | PrefixSpec::Shared { .. }) | None => Ok(()),
    }
}
