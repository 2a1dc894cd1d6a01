//! What the metrics read off one record: computed once, so that every metric agrees with every other.

use crate::measure::{Outcome, Record};
use crate::time::Stamp;
use crate::wire::{TokenSource, Usage};

/// A record with what several metrics share.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The record.
    pub record: &'a Record,
    /// From the issue to the last content.
    pub latency_ns: Option<u64>,
    /// From the issue to the first content.
    pub ttft_ns: Option<u64>,
    /// Token counts of a good reply.
    pub tokens: Tokens,
}

/// Token counts, by who counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt; absent when nobody counted it.
    pub input: Option<u64>,
    /// The input is the server's count.
    pub input_by_usage: bool,
    /// Whole reply, reasoning included; absent when nobody counted it.
    pub sequence: Option<u64>,
    /// Where the sequence comes from.
    pub sequence_by: SequenceBy,
    /// Reply without reasoning; absent when messages were counted and some carried reasoning.
    pub output: Option<u64>,
    /// Reasoning, if there is any.
    pub reasoning: Option<u64>,
}

/// Where the length of a reply comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequenceBy {
    /// The number of messages with content.
    Chunks,
    /// Nowhere: it has none.
    #[default]
    Nothing,
    /// The client's tokenizer.
    Tokenizer,
    /// The server's usage.
    Usage,
}

impl Tokens {
    /// The counts of a record.
    pub fn of(record: &Record) -> Self {
        let usage = record.usage.unwrap_or_default();
        let ruled = record.isl_tokens.map(u64::from);
        match record.token_source {
            TokenSource::Absent => Self { input: ruled, ..Self::default() },
            TokenSource::Client => {
                let (output, reasoning) =
                    (record.counted.output.map(u64::from), record.counted.reasoning.map(u64::from));
                let parts = [output, reasoning].into_iter().flatten();
                Self {
                    input: ruled,
                    input_by_usage: false,
                    sequence: parts.reduce(|left, right| left + right),
                    sequence_by: SequenceBy::Tokenizer,
                    output,
                    reasoning,
                }
            }
            TokenSource::Estimate => {
                let estimated = Self::by_usage(&usage);
                let input = estimated.input.or(ruled);
                if estimated.sequence.is_some() {
                    return Self { input, ..estimated };
                }
                // Messages with content are counted; how many of them were reasoning is known only when the
                // first one already was output.
                let contents = u64::from(record.contents);
                Self {
                    input,
                    sequence: Some(contents),
                    sequence_by: SequenceBy::Chunks,
                    output: (record.first_output == record.first_content).then_some(contents),
                    ..estimated
                }
            }
            TokenSource::Server => Self::by_usage(&usage),
        }
    }

    /// What the server says, and nothing else.
    fn by_usage(usage: &Usage) -> Self {
        let output = usage
            .completion_tokens
            .map(|completion| completion.saturating_sub(usage.reasoning_tokens.unwrap_or(0)));
        Self {
            input: usage.prompt_tokens,
            input_by_usage: usage.prompt_tokens.is_some(),
            sequence: output.map(|output| output + usage.reasoning_tokens.unwrap_or(0)),
            sequence_by: if output.is_some() { SequenceBy::Usage } else { SequenceBy::Nothing },
            output,
            reasoning: usage.reasoning_tokens,
        }
    }
}

/// How far the server's counts are from the client's own, in per cent of those; absent where one of the two
/// is not known or the client's is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageDifference {
    /// Of the prompt.
    pub prompt: Option<f64>,
    /// Of the reply, reasoning included.
    pub completion: Option<f64>,
    /// Of the reasoning.
    pub reasoning: Option<f64>,
}

impl UsageDifference {
    /// The differences of a request that the client counted.
    pub fn of(facts: &Facts<'_>) -> Self {
        let (TokenSource::Client, Some(usage)) = (facts.record.token_source, facts.record.usage) else {
            return Self::default();
        };
        let percent = |server: Option<u64>, client: Option<u64>| {
            let client = client.filter(|client| *client > 0)?;
            Some(server?.abs_diff(client) as f64 / client as f64 * 100.0)
        };
        Self {
            prompt: percent(usage.prompt_tokens, facts.tokens.input),
            completion: percent(usage.completion_tokens, facts.tokens.sequence),
            reasoning: percent(usage.reasoning_tokens, facts.tokens.reasoning),
        }
    }

    /// The largest of the three.
    pub fn largest(&self) -> Option<f64> {
        [self.prompt, self.completion, self.reasoning].into_iter().flatten().reduce(f64::max)
    }
}

impl<'a> Facts<'a> {
    /// Reads a record.
    pub fn of(record: &'a Record) -> Self {
        let since_issue = |stamp: Option<Stamp>| stamp.map(|stamp| stamp.since(record.issued).0);
        Self {
            record,
            latency_ns: since_issue(record.last_content),
            ttft_ns: since_issue(record.first_content),
            tokens: Tokens::of(record),
        }
    }

    /// From the first to the last content.
    pub fn decode_ns(&self) -> Option<u64> {
        Some(self.latency_ns?.saturating_sub(self.ttft_ns?))
    }

    /// Decode time per token after the first, in nanoseconds; needs two tokens. Where the server told how many
    /// the first message with content brought, per token after those, if any are left.
    pub fn inter_token_ns(&self) -> Option<f64> {
        let sequence = self.tokens.sequence.filter(|sequence| *sequence > 1)?;
        let told = self.record.first_content_tokens.filter(|first| (1..sequence).contains(first));
        let after_first = sequence - told.unwrap_or(1);
        Some(self.decode_ns()? as f64 / after_first as f64)
    }

    /// From the issue to the last byte written: connecting included, as AIPerf's sending is.
    pub fn sending_ns(&self) -> Option<u64> {
        Some(self.record.written?.since(self.record.issued).0)
    }

    /// From the last byte written to the first byte of the body.
    pub fn waiting_ns(&self) -> Option<u64> {
        Some(self.record.first_body?.since(self.record.written?).0)
    }

    /// From the first byte of the body to its last.
    pub fn receiving_ns(&self) -> Option<u64> {
        Some(self.record.last_body?.since(self.record.first_body?).0)
    }

    /// Time spent connecting; zero on a connection that was there.
    pub fn connecting_ns(&self) -> u64 {
        self.record.connect.map_or(0, |(start, end)| end.since(start).0)
    }
}

/// AIPerf's `request_end_ns`: the end of the request, but its start when the status was an error.
pub fn request_end(record: &Record) -> Stamp {
    match record.outcome {
        Outcome::Failed(_) if record.status.is_some_and(|status| !(200..300).contains(&status)) => {
            record.issued
        }
        Outcome::Abandoned | Outcome::Cancelled { .. } | Outcome::Failed(_) | Outcome::Ok => record.ended,
    }
}
