//! Prompts of an exact number of words, rendered into request bodies.
//!
//! Everything is drawn from one seeded generator in dataset order, so the same seed gives the same bytes. The
//! words are not those that AIPerf draws for the same seed; the counts are.

use std::sync::Arc;

use serde::Serialize;

use crate::config::{Config, EndpointKind};
use crate::dataset::{Dataset, Row};
use crate::tokenizer::words::WORDS;

/// Most bytes of all bodies together. They stay in memory for the whole run, and the kernel reads sends from
/// them.
pub const BLOCK_BYTES_MAX: usize = 8 << 30;

/// What keeps a dataset from being made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// A text could not be written as JSON.
    #[error("a request body could not be written: {0}")]
    Body(String),
}

/// Makes the dataset of `config`: `entries` conversations of one turn with `isl` words each.
///
/// # Errors
/// When it would be empty, larger than [`BLOCK_BYTES_MAX`], or larger than memory.
pub fn synthetic(config: &Config) -> Result<Dataset, DatasetError> {
    let mut random = match config.random_seed {
        Some(seed) => fastrand::Rng::with_seed(seed),
        None => fastrand::Rng::new(),
    };
    let entries = config.dataset.entries;
    let isl_tokens = config.dataset.prompts.isl;
    let frame = Frame::new(config)?;
    if entries == 0 || isl_tokens == 0 {
        return Err(DatasetError::Empty);
    }
    let body_bytes = u128::from(isl_tokens) * mean_word_bytes() + frame.bytes() as u128;
    let needed_bytes = u128::from(entries) * body_bytes;
    let capacity = usize::try_from(needed_bytes).ok().filter(|bytes| *bytes <= BLOCK_BYTES_MAX);
    let Some(capacity) = capacity else {
        return Err(DatasetError::TooLarge { needed_bytes, entries, isl_tokens });
    };
    let mut block = Vec::new();
    block.try_reserve(capacity).map_err(|_| DatasetError::Memory { needed_bytes })?;
    let mut rows = Vec::with_capacity(usize::try_from(entries).unwrap_or(usize::MAX));
    for _ in 0..entries {
        let conversation_id = uuid_v4(&mut random);
        let start = block.len();
        block.extend_from_slice(&frame.before);
        for position in 0..isl_tokens {
            if position > 0 {
                block.push(b' ');
            }
            // The words are plain letters, which JSON takes as they are.
            block.extend_from_slice(random.choice(WORDS).map_or("", |word| word).as_bytes());
        }
        block.extend_from_slice(&frame.after);
        rows.push(Row {
            conversation_id,
            body: start..block.len(),
            isl_tokens,
            osl_tokens: config.dataset.prompts.osl,
        });
    }
    Ok(Dataset::new(rows, Arc::from(block)))
}

/// What stands before and behind the prompt in every body.
struct Frame {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Frame {
    fn new(config: &Config) -> Result<Self, DatasetError> {
        // A character that occurs nowhere else in the body marks the place of the prompt.
        const MARK: &str = "\u{10fffe}";
        let body = match config.endpoint.kind {
            EndpointKind::Chat => serde_json::to_vec(&ChatBody {
                messages: [Message { role: "user", content: MARK }],
                model: &config.model,
                stream: config.endpoint.streaming,
                max_completion_tokens: config.dataset.prompts.osl,
                stream_options: config.endpoint.streaming.then_some(StreamOptions { include_usage: true }),
            }),
        };
        let body = body.map_err(|error| DatasetError::Body(error.to_string()))?;
        let mark = MARK.as_bytes();
        let at = body
            .windows(mark.len())
            .position(|window| window == mark)
            .ok_or_else(|| DatasetError::Body("the prompt has no place in it".to_owned()))?;
        let (before, rest) = body.split_at(at);
        Ok(Self { before: before.to_vec(), after: rest.get(mark.len()..).unwrap_or_default().to_vec() })
    }

    fn bytes(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

/// A chat completion request; the order of the fields is the order of the keys on the wire.
#[derive(Serialize)]
struct ChatBody<'a> {
    messages: [Message<'a>; 1],
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Bytes of a word with the blank behind it, rounded up.
fn mean_word_bytes() -> u128 {
    let letters: usize = WORDS.iter().map(|word| word.len()).sum();
    (letters.div_ceil(WORDS.len()) + 1) as u128
}

/// A random UUID in its text form.
fn uuid_v4(random: &mut fastrand::Rng) -> String {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::config;

    fn config(seed: &str, endpoint: &str, dataset: &str) -> Config {
        let text = format!(
            "{seed}\nbenchmark:\n  model: 'de\"mo'\n  endpoint: {{url: h, {endpoint}}}\n  dataset: {{{dataset}}}\n  \
             phases: {{type: concurrency, requests: 1}}\n"
        );
        config::parse("test.yaml", &text).map_or_else(|faults| panic!("{faults}"), |loaded| loaded.config)
    }

    fn made(config: &Config) -> Dataset {
        synthetic(config).unwrap_or_else(|error| panic!("{error}"))
    }

    fn content(body: &[u8]) -> String {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn every_prompt_has_exactly_the_words_asked_for() {
        let dataset = made(&config("randomSeed: 3", "streaming: true", "entries: 7, isl: 33, osl: 5"));
        assert_eq!(dataset.rows().len(), 7);
        for row in dataset.rows() {
            assert_eq!(content(dataset.body(row)).split(' ').count(), 33);
            assert_eq!((row.isl_tokens, row.osl_tokens), (33, Some(5)));
        }
    }

    #[test]
    fn the_body_is_compact_json_in_the_agreed_order() {
        let dataset = made(&config("", "streaming: true", "entries: 1, isl: 1, osl: 32"));
        let body = String::from_utf8_lossy(dataset.body(&dataset.rows()[0])).into_owned();
        let word = content(body.as_bytes());
        assert_eq!(
            body,
            format!(
                "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{word}\"}}],\"model\":\"de\\\"mo\",\
                 \"stream\":true,\"max_completion_tokens\":32,\"stream_options\":{{\"include_usage\":true}}}}"
            )
        );
    }

    #[test]
    fn without_streaming_and_osl_their_keys_are_not_there() {
        let dataset = made(&config("", "streaming: false", "entries: 1, isl: 2"));
        let body = String::from_utf8_lossy(dataset.body(&dataset.rows()[0])).into_owned();
        assert!(body.ends_with("],\"model\":\"de\\\"mo\",\"stream\":false}"), "{body}");
    }

    #[test]
    fn a_seed_gives_the_same_bytes_and_no_seed_gives_others() {
        let seeded = config("randomSeed: 9", "", "entries: 3, isl: 20");
        let (one, two) = (made(&seeded), made(&seeded));
        assert_eq!((one.block(), one.rows()), (two.block(), two.rows()));
        let free = config("", "", "entries: 3, isl: 20");
        assert_ne!(made(&free).block(), made(&free).block());
        let other = made(&config("randomSeed: 10", "", "entries: 3, isl: 20"));
        assert_ne!(one.block(), other.block());
    }

    #[test]
    fn conversation_ids_are_distinct_random_uuids() {
        let dataset = made(&config("randomSeed: 1", "", "entries: 500, isl: 1"));
        let ids: HashSet<&str> = dataset.rows().iter().map(|row| row.conversation_id.as_str()).collect();
        assert_eq!(ids.len(), 500);
        for id in ids {
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        }
    }

    #[test]
    fn a_dataset_beyond_memory_is_refused_with_the_keys_to_lower() {
        let huge = config("", "", "entries: 4000000000, isl: 4000000000");
        let message = synthetic(&huge).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(message.contains("dataset.entries") && message.contains("dataset.prompts.isl"), "{message}");
    }

    #[test]
    fn all_bodies_lie_end_to_end_in_one_block() {
        let dataset = made(&config("", "", "entries: 10, isl: 4"));
        let mut end = 0;
        for row in dataset.rows() {
            assert_eq!(row.body.start, end);
            end = row.body.end;
        }
        assert_eq!(end, dataset.block().len());
    }
}
