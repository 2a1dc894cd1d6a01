//! Files that grow while requests finish.

use crate::artifact::line_file::LineFile;
use crate::artifact::records::RecordLines;
use crate::measure::RecordBatch;
use std::io;
use std::path::{Path, PathBuf};

/// A file that takes one batch of requests after another.
pub trait Sink: Send {
    /// Takes a batch; tells how many requests of it the file has now.
    ///
    /// # Errors
    /// Whatever keeps the batch from being written; the next one is tried again.
    fn take(&mut self, batch: &RecordBatch) -> io::Result<u64>;

    /// Nothing more comes.
    ///
    /// # Errors
    /// The file is not whole.
    fn end(&mut self) -> io::Result<()>;

    /// Requests that were taken and that the file lacks, once nothing more comes.
    fn missing(&self) -> u64 {
        0
    }

    /// The file.
    fn path(&self) -> &Path;
}

/// `profile_export.jsonl`.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    out: LineFile,
    lines: RecordLines,
    missing: u64,
}

impl RecordFile {
    /// Opens `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: PathBuf, lines: RecordLines) -> io::Result<Self> {
        let out = LineFile::create(&path)?;
        Ok(Self { path, out, lines, missing: 0 })
    }
}

impl Sink for RecordFile {
    fn take(&mut self, batch: &RecordBatch) -> io::Result<u64> {
        self.lines.write(&mut self.out, batch)
    }

    fn end(&mut self) -> io::Result<()> {
        let finished = self.out.finish();
        self.missing = finished.lost;
        finished.fault.map_or(Ok(()), |fault| Err(io::Error::other(fault)))
    }

    fn missing(&self) -> u64 {
        self.missing
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
