//! The built-in inference server: OpenAI chat completions with chosen timing and chosen faults.
//!
//! It runs in its own process (`phasor mock`) or beside a run (`phasor profile --mock`), on the same ring
//! layer as the client, and keeps a log of arrivals that a test can hold against the client's own account.

use crate::time::Nanos;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct MockOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Threads, each with a listener of its own on the same port.
    pub threads: u16,
    /// Cores to pin the threads to, in turn; empty: not pinned.
    pub cpus: Vec<usize>,
    /// From the request's last byte to the first content.
    pub ttft: Delay,
    /// Between content messages.
    pub itl: Delay,
    /// Reply length when the request names none.
    pub default_tokens: u32,
    /// Tokens in one message.
    pub tokens_per_chunk: u32,
    /// How messages meet the socket.
    pub writes: Writes,
    /// Sends a usage message when the request asks for one.
    pub usage: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// One line per request: see `docs/mock.md`.
    pub arrival_log: Option<PathBuf>,
    /// Seed of delays and faults.
    pub seed: u64,
}

/// A delay law, with its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Memoryless with this mean.
    Exponential(Nanos),
    /// Always this long.
    Fixed(Nanos),
    /// Log-normal with this median and the sigma of the logarithm.
    LogNormal {
        /// Median.
        median: Nanos,
        /// Sigma of the natural logarithm.
        sigma: f64,
    },
    /// Even between two bounds.
    Uniform {
        /// Shortest.
        low: Nanos,
        /// Longest.
        high: Nanos,
    },
}

/// How messages meet the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// One write for each message when it is due.
    PerMessage,
    /// The whole reply in one write, when its last message is due.
    Whole,
}

/// Shares of requests, in percent, that go wrong in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// An error status (`status_code`) with a JSON body.
    pub status_percent: f64,
    /// The status to answer (503 unless set).
    pub status_code: u16,
    /// The connection is accepted and closed before a byte is answered.
    pub refuse_percent: f64,
    /// The connection is reset in the middle of the reply.
    pub reset_percent: f64,
    /// No answer ever.
    pub hang_percent: f64,
    /// The connection closes in the middle of the reply.
    pub truncate_percent: f64,
    /// Bytes that are not HTTP.
    pub garbage_percent: f64,
    /// The head comes a byte at a time.
    pub slow_headers_percent: f64,
}

/// A running server.
#[derive(Debug)]
pub struct Mock {}

impl Mock {
    /// Binds and starts the threads; returns once connections are accepted.
    pub fn start(_options: MockOptions) -> Result<Self, std::io::Error> {
        todo!()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        todo!()
    }

    /// Requests answered or failed on purpose so far.
    pub fn requests(&self) -> u64 {
        todo!()
    }

    /// Stops the threads and flushes the log.
    pub fn stop(self) -> Result<(), std::io::Error> {
        todo!()
    }
}
impl Default for MockOptions { fn default() -> Self { Self{listen:"127.0.0.1:0".parse().unwrap(),threads:1,cpus:vec![],ttft:Delay::Fixed(Nanos(1)),itl:Delay::Fixed(Nanos(1)),default_tokens:16,tokens_per_chunk:1,writes:Writes::Whole,usage:true,faults:Faults::default(),arrival_log:None,seed:0} } }
impl std::str::FromStr for Delay { type Err = String; fn from_str(_: &str) -> Result<Self, String> { todo!() } }
