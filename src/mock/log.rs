//! The arrival log: one line per chat completion request, for holding the server's account against a
//! client's. Format: `docs/mock.md`.

use crate::mock::reply::Decimal;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines are collected until there are this many bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// Names of the columns.
const COLUMNS: &str = "arrival_ns\tfirst_byte_ns\tlast_byte_ns\tconnection\trequest\tx_request_id\toutcome\n";

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client went away.
    Cancelled,
    /// Bytes that are not HTTP, on purpose.
    Garbage,
    /// No answer, on purpose, until the client went away or the server stopped.
    Hang,
    /// The body was no chat completion request.
    Invalid,
    /// Answered in full.
    Ok,
    /// Closed without an answer, on purpose.
    Refused,
    /// Reset in the middle, on purpose.
    Reset,
    /// Answered in full after a slow head, on purpose.
    SlowHeaders,
    /// An error status, on purpose.
    Status,
    /// The server stopped.
    Stopped,
    /// Closed in the middle, on purpose.
    Truncated,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Garbage => "garbage",
            Self::Hang => "hang",
            Self::Invalid => "invalid",
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::SlowHeaders => "slow_headers",
            Self::Status => "status",
            Self::Stopped => "stopped",
            Self::Truncated => "truncated",
        }
    }
}

/// One line; times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) arrival_ns: u64,
    pub(super) first_byte_ns: Option<u64>,
    pub(super) last_byte_ns: Option<u64>,
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) request_id: &'a [u8],
    pub(super) outcome: Outcome,
}

/// The file that all threads write to, a block at a time.
#[derive(Clone, Debug)]
pub(super) struct LogFile(Arc<Mutex<File>>);

impl LogFile {
    /// Makes the file and writes the names of the columns.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(COLUMNS.as_bytes())?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }
}

/// One thread's part of the log.
#[derive(Debug)]
pub(super) struct Log {
    file: LogFile,
    block: Vec<u8>,
    failure: Option<io::Error>,
}

impl Log {
    pub(super) fn new(file: LogFile) -> Self {
        Self { file, block: Vec::with_capacity(BLOCK_BYTES + 4_096), failure: None }
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: &Line<'_>) {
        let out = &mut self.block;
        let mut number = |number: Option<u64>| {
            match number {
                Some(number) => out.extend_from_slice(Decimal::new(number).digits()),
                None => out.push(b'-'),
            }
            out.push(b'\t');
        };
        number(Some(line.arrival_ns));
        number(line.first_byte_ns);
        number(line.last_byte_ns);
        number(Some(line.connection));
        number(Some(line.request));
        if line.request_id.is_empty() {
            out.push(b'-');
        } else {
            // A tab in the identifier must not look like the next column.
            out.extend(line.request_id.iter().map(|&byte| if byte == b'\t' { b' ' } else { byte }));
        }
        out.push(b'\t');
        out.extend_from_slice(line.outcome.name().as_bytes());
        out.push(b'\n');
        if out.len() >= BLOCK_BYTES {
            self.flush();
        }
    }

    /// Writes what has been collected. After a failure nothing more is written.
    fn flush(&mut self) {
        if self.failure.is_none() {
            let mut file = self.file.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.failure = file.write_all(&self.block).err();
        }
        self.block.clear();
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first failure of any write.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.failure.map_or(Ok(()), Err)
    }
}
