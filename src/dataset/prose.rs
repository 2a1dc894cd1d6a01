//! Texts of an exact number of tokens.
//!
//! They are made of phasor's own words (`tokenizer::words`) or, for `coding`, of lines that look like code.
//! With most tokenizers a word behind a blank is one token whatever stands before it; then a text of n tokens
//! is n such words and nothing has to be counted again. Whether that holds is tried out on several thousand
//! words when a [`Prose`] is made. Where it does not, and for code and random tokens, a text is decoded,
//! encoded again, and trimmed or topped up until it counts right, as AIPerf does it.

use fastrand::Rng;

use crate::tokenizer::Tokenizer;
use crate::tokenizer::words::WORDS;

/// Rounds of trimming and topping up before a text is taken as it is.
const ROUNDS_MAX: u32 = 10;
/// Words of the text that a corpus is cut from.
const CORPUS_WORDS: usize = 60_000;
/// Fewest words that are one token each, for texts made of such words.
const SINGLE_WORDS_MIN: usize = 100;
/// Words that it is tried out with.
const TRIED_WORDS: usize = 4_096;
/// The corpus is the same in every run: what varies is where a text is cut from it.
const CORPUS_SEED: u64 = 0x0070_6861_736f_7200;

/// What texts are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Corpus {
    /// Lines that look like code.
    Coding,
    /// Any tokens of the vocabulary.
    Random,
    /// Words (`sonnet` in configs).
    #[default]
    Words,
}

/// Makes texts; shared by threads as it is.
#[derive(Clone, Debug)]
pub struct Prose {
    tokenizer: Tokenizer,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Words that are one token each behind anything.
    Singles(Singles),
    /// Tokens to cut pieces from.
    Tokens { tokens: Vec<u32> },
    /// Tokens to draw one by one.
    Vocabulary { tokens: Vec<u32> },
}

/// Words of one token each.
#[derive(Clone, Debug)]
struct Singles {
    /// At the beginning of a text.
    firsts: Vec<&'static str>,
    /// Behind a blank.
    others: Vec<&'static str>,
}

/// A text in front of others, and what it was made of.
#[derive(Clone, Debug)]
pub struct Prefix {
    text: String,
    tokens: Vec<u32>,
    count: usize,
}

impl Prefix {
    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its length in tokens.
    pub const fn count(&self) -> usize {
        self.count
    }
}

impl Prose {
    /// Texts of `corpus` for `tokenizer`.
    pub fn new(tokenizer: &Tokenizer, corpus: Corpus) -> Self {
        let source = match corpus {
            Corpus::Coding => Source::Tokens { tokens: tokenizer.encode(&code()) },
            Corpus::Random => Source::Vocabulary { tokens: tokenizer.ordinary_tokens() },
            Corpus::Words => Singles::of(tokenizer)
                .map_or_else(|| Source::Tokens { tokens: tokenizer.encode(&words()) }, Source::Singles),
        };
        Self { tokenizer: tokenizer.clone(), source }
    }

    /// The tokenizer by which texts count.
    pub const fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether texts are exact without being counted again.
    pub const fn is_exact_by_construction(&self) -> bool {
        matches!(self.source, Source::Singles(_))
    }

    /// A text of `count` tokens.
    pub fn text(&self, random: &mut Rng, count: usize) -> String {
        match &self.source {
            Source::Singles(words) => {
                let mut text = String::with_capacity(count * 6);
                words.push(&mut text, random, count);
                text
            }
            Source::Tokens { .. } | Source::Vocabulary { .. } => {
                self.settle(self.sample(random, count), count, random)
            }
        }
    }

    /// A text to put in front of others.
    pub fn prefix(&self, random: &mut Rng, count: usize) -> Prefix {
        let text = self.text(random, count);
        let tokens = match self.source {
            Source::Singles(_) => Vec::new(),
            Source::Tokens { .. } | Source::Vocabulary { .. } => self.tokenizer.encode(&text),
        };
        Prefix { text, tokens, count }
    }

    /// `prefix` and behind it `count` more tokens: exactly as many together.
    pub fn text_behind(&self, prefix: &Prefix, random: &mut Rng, count: usize) -> String {
        match &self.source {
            Source::Singles(words) => {
                let mut text = String::with_capacity(prefix.text.len() + count * 6);
                text.push_str(&prefix.text);
                words.push(&mut text, random, count);
                text
            }
            Source::Tokens { .. } | Source::Vocabulary { .. } => {
                let mut tokens = prefix.tokens.clone();
                tokens.extend(self.sample(random, count));
                self.settle(tokens, prefix.count + count, random)
            }
        }
    }

    /// `before` and behind it `count` more tokens; exact where [`Prose::is_exact_by_construction`] and `before`
    /// ends where a word behind a blank is one token.
    pub(in crate::dataset) fn text_behind_text(
        &self,
        before: String,
        random: &mut Rng,
        count: usize,
    ) -> String {
        let mut text = before;
        match &self.source {
            Source::Singles(words) => words.push(&mut text, random, count),
            Source::Tokens { .. } | Source::Vocabulary { .. } => text.push_str(&self.text(random, count)),
        }
        text
    }

    /// A block of a trace: the tokenizer's separator as text, if it has one, and words; `count` tokens.
    pub fn block(&self, random: &mut Rng, count: usize) -> Vec<u32> {
        let separator = self.tokenizer.separator().filter(|_| count > 0);
        let rest = count - usize::from(separator.is_some());
        let mut tokens: Vec<u32> = separator.into_iter().collect();
        match &self.source {
            Source::Singles(words) => {
                // Behind a separator a word has a blank before it, at the beginning it has none.
                let mut text = if separator.is_some() { ".".to_owned() } else { String::new() };
                words.push(&mut text, random, rest);
                tokens.extend(self.tokenizer.encode(text.trim_start_matches('.')));
            }
            Source::Tokens { .. } | Source::Vocabulary { .. } => tokens.extend(self.sample(random, rest)),
        }
        tokens.truncate(count);
        tokens
    }

    /// The text of `tokens`, corrected until it counts `count`.
    pub fn settled(&self, tokens: Vec<u32>, random: &mut Rng) -> String {
        let count = tokens.len();
        self.settle(tokens, count, random)
    }

    /// Any `count` tokens of the source.
    pub fn sample(&self, random: &mut Rng, count: usize) -> Vec<u32> {
        match &self.source {
            Source::Singles(words) => {
                let mut text = String::with_capacity(count * 6);
                words.push(&mut text, random, count);
                self.tokenizer.encode(&text)
            }
            Source::Tokens { tokens } if !tokens.is_empty() => {
                let start = random.usize(..tokens.len());
                tokens.iter().copied().cycle().skip(start).take(count).collect()
            }
            Source::Vocabulary { tokens } if !tokens.is_empty() => {
                (0..count).map(|_| random.choice(tokens).copied().unwrap_or_default()).collect()
            }
            Source::Tokens { .. } | Source::Vocabulary { .. } => Vec::new(),
        }
    }

    fn settle(&self, mut tokens: Vec<u32>, count: usize, random: &mut Rng) -> String {
        let mut text = String::new();
        for _ in 0..ROUNDS_MAX {
            text = self.tokenizer.decode(&tokens).unwrap_or_default();
            tokens = self.tokenizer.encode(&text);
            match tokens.len() {
                found if found == count => return text,
                found if found > count => tokens.truncate(count),
                found => tokens.extend(self.sample(random, count - found)),
            }
        }
        self.tokenizer.decode(&tokens).unwrap_or(text)
    }
}

impl Singles {
    /// Appends `count` words, with a blank in front of each that has something before it.
    fn push(&self, text: &mut String, random: &mut Rng, count: usize) {
        for _ in 0..count {
            let words = if text.is_empty() {
                &self.firsts
            } else {
                text.push(' ');
                &self.others
            };
            text.push_str(random.choice(words).map_or("", |word| word));
        }
    }

    /// The words that are one token each, if a text of them counts as many tokens as words.
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let before = tokenizer.count("a");
        let other = |word: &&&str| tokenizer.count(&format!("a {word}")) == before + 1;
        // A first word is one behind a blank as well, so that joined texts count what they count alone.
        let first = |word: &&&str| tokenizer.count(word) == 1 && other(word);
        let singles = Self {
            firsts: WORDS.iter().filter(first).copied().collect(),
            others: WORDS.iter().filter(other).copied().collect(),
        };
        if singles.firsts.is_empty() || singles.others.len() < SINGLE_WORDS_MIN {
            return None;
        }
        let mut random = Rng::with_seed(CORPUS_SEED);
        for length in [1, 1, 1, 1, 2, 2, 3, 17, 256, TRIED_WORDS] {
            let mut text = String::new();
            singles.push(&mut text, &mut random, length);
            if tokenizer.count(&text) != length {
                return None;
            }
        }
        Some(singles)
    }
}

/// Plain words.
fn words() -> String {
    let mut random = Rng::with_seed(CORPUS_SEED);
    let mut text = String::new();
    let all = Singles { firsts: WORDS.to_vec(), others: WORDS.to_vec() };
    all.push(&mut text, &mut random, CORPUS_WORDS);
    text
}

/// Functions, loops and conditions over plain words.
fn code() -> String {
    let mut random = Rng::with_seed(CORPUS_SEED);
    let mut text = String::new();
    while text.len() < CORPUS_WORDS * 6 {
        let mut word = || random.choice(WORDS).map_or("", |word| word);
        let (name, first, second, third) = (word(), word(), word(), word());
        let (number, form) = (random.u32(..1_000), random.u32(..5));
        let piece = match form {
            0 => format!(
                "def {name}_{first}({second}, {third}=None):\n    if {third} is None:\n        {third} = []\n    \
                 return {second} + {number}\n\n"
            ),
            1 => format!(
                "for {first} in {second}.values():\n    {third}[{first}] = {name}({first}, {number})\n\n"
            ),
            2 => format!(
                "fn {name}({first}: &str, {second}: u64) -> u64 {{\n    let {third} = {first}.len() as u64;\n    \
                 {third} * {second} + {number}\n}}\n\n"
            ),
            3 => format!(
                "try {{\n  const {first} = await {name}.{second}({number});\n  console.log({first}.{third});\n}} \
                 catch (error) {{\n  throw error;\n}}\n\n"
            ),
            _ => format!("class {name}:\n    {first} = \"{second}\"\n    {third}: int = {number}\n\n"),
        };
        text.push_str(&piece);
    }
    text
}
