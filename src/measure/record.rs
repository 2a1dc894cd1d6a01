//! One finished request.

use crate::measure::Failure;
use crate::time::{Nanos, Stamp};
use crate::wire::{TokenSource, Usage};

/// Everything that is kept of one request that ended.
///
/// Gaps between content messages live beside the record (in the caller's arena), since their number varies.
#[derive(Clone, Debug)]
pub struct Record {
    /// Position of the phase in the config.
    pub phase: u16,
    /// The shard that sent it.
    pub shard: u16,
    /// Request number in its phase, from 0: AIPerf's `session_num`.
    pub number: u64,
    /// Row of the dataset.
    pub row: u32,
    /// UUID of the request.
    pub request_id: u128,
    /// UUID of the session.
    pub correlation_id: u128,
    /// When the plan wanted it sent: the due time of an open loop, the moment its slot fell free of a
    /// closed one.
    pub planned: Stamp,
    /// When the engine let it go (before connecting): AIPerf's request start.
    pub issued: Stamp,
    /// A new connection was made for it: start and end of connecting, TLS included.
    pub connect: Option<(Stamp, Stamp)>,
    /// Of that, TLS began here and took the rest; absent where the connection speaks none or was there.
    pub handshake_begun: Option<Stamp>,
    /// The request was handed to the kernel, which takes its first bytes in that call. Absent if it never
    /// was, or if the kernel took nothing.
    pub first_byte_written: Option<Stamp>,
    /// The kernel had taken the last byte.
    pub written: Option<Stamp>,
    /// Status line and headers were read.
    pub headers: Option<Stamp>,
    /// First byte of the decoded body.
    pub first_body: Option<Stamp>,
    /// Last byte of the decoded body.
    pub last_body: Option<Stamp>,
    /// First message with content: end of TTFT.
    pub first_content: Option<Stamp>,
    /// Second message with content.
    pub second_content: Option<Stamp>,
    /// First message with content that is not reasoning alone.
    pub first_output: Option<Stamp>,
    /// Last message with content: end of the request latency.
    pub last_content: Option<Stamp>,
    /// Last message of any kind, or the moment of failure or cancellation: AIPerf's request end.
    pub ended: Stamp,
    /// How it ended.
    pub outcome: Outcome,
    /// HTTP status, if one was read.
    pub status: Option<u16>,
    /// Messages of any kind.
    pub messages: u32,
    /// Messages with content.
    pub contents: u32,
    /// Reads that brought body bytes.
    pub body_reads: u32,
    /// Decoded body bytes.
    pub body_bytes: u64,
    /// Bytes of the request body.
    pub request_body_bytes: u64,
    /// Token counts reported by the server.
    pub usage: Option<Usage>,
    /// Tokens of the reply that its first message with content brought, if the server told.
    pub first_content_tokens: Option<u64>,
    /// Prompt length by the dataset's rule; absent when it has no tokens or none that can be counted.
    pub isl_tokens: Option<u32>,
    /// Reply length asked for.
    pub osl_tokens: Option<u32>,
    /// Who counts the tokens of its reply.
    pub token_source: TokenSource,
    /// What the client counted of a reply that it counts.
    pub counted: Counted,
}

/// Tokens of a reply by the client's tokenizer; absent where there was no such text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of the output.
    pub output: Option<u32>,
    /// Of the thoughts.
    pub reasoning: Option<u32>,
}

impl Record {
    /// A record with nothing measured yet: abandoned, as long as nothing better is known.
    pub fn blank() -> Self {
        Self {
            phase: 0,
            shard: 0,
            number: 0,
            row: 0,
            request_id: 0,
            correlation_id: 0,
            planned: Stamp::ORIGIN,
            issued: Stamp::ORIGIN,
            connect: None,
            handshake_begun: None,
            first_byte_written: None,
            written: None,
            headers: None,
            first_body: None,
            last_body: None,
            first_content: None,
            second_content: None,
            first_output: None,
            last_content: None,
            ended: Stamp::ORIGIN,
            outcome: Outcome::Abandoned,
            status: None,
            messages: 0,
            contents: 0,
            body_reads: 0,
            body_bytes: 0,
            request_body_bytes: 0,
            usage: None,
            first_content_tokens: None,
            isl_tokens: None,
            osl_tokens: None,
            token_source: TokenSource::Estimate,
            counted: Counted::default(),
        }
    }
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Cut by the client without having been asked to by the plan: grace expired, or the run was
    /// interrupted. Leaves no line in the record file.
    Abandoned,
    /// Cancelled by the plan, this long after its last byte was written.
    Cancelled {
        /// The configured delay.
        delay: Nanos,
    },
    /// It failed.
    Failed(Box<Failure>),
    /// At least one message with content, and a whole reply.
    Ok,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A good request of which nothing but its number is known.
    pub(crate) fn record(number: u64) -> Record {
        Record { number, outcome: Outcome::Ok, ..Record::blank() }
    }
}
