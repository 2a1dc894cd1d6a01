//! What the metrics read off one record: computed once, so that every metric agrees with every other.

use crate::measure::{Outcome, Record};
use crate::time::Stamp;

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

/// Token counts: as the server reports them, else by messages with content and by the dataset's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt; absent when nobody counted it.
    pub input: Option<u64>,
    /// The input is the server's count.
    pub input_by_usage: bool,
    /// Whole reply, reasoning included.
    pub sequence: u64,
    /// The sequence is the server's count.
    pub sequence_by_usage: bool,
    /// Reply without reasoning; absent when messages were counted and some carried reasoning.
    pub output: Option<u64>,
    /// Reasoning, if the server reports it.
    pub reasoning: Option<u64>,
}

impl Tokens {
    /// The counts of a record.
    pub fn of(record: &Record) -> Self {
        let usage = record.usage.unwrap_or_default();
        let (sequence, output) = if let Some(completion) = usage.completion_tokens {
            let reasoning = usage.reasoning_tokens.unwrap_or(0);
            let output = completion.saturating_sub(reasoning);
            (output + reasoning, Some(output))
        } else {
            // Messages with content are counted; how many of them were reasoning is known only when the
            // first one already was output.
            let contents = u64::from(record.contents);
            (contents, (record.first_output == record.first_content).then_some(contents))
        };
        Self {
            input: usage.prompt_tokens.or_else(|| record.isl_tokens.map(u64::from)),
            input_by_usage: usage.prompt_tokens.is_some(),
            sequence,
            sequence_by_usage: usage.completion_tokens.is_some(),
            output,
            reasoning: usage.reasoning_tokens,
        }
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

    /// Decode time per token after the first, in nanoseconds; needs two tokens.
    pub fn inter_token_ns(&self) -> Option<f64> {
        let after_first = self.tokens.sequence.checked_sub(1).filter(|after_first| *after_first > 0)?;
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
