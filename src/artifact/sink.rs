//! Files that grow while requests finish.

use crate::artifact::records::RecordLines;
use crate::measure::RecordBatch;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

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

    /// The file.
    fn path(&self) -> &Path;
}

/// `profile_export.jsonl`.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    out: BufWriter<File>,
    lines: RecordLines,
}

impl RecordFile {
    /// Opens `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: PathBuf, lines: RecordLines) -> io::Result<Self> {
        let out = BufWriter::with_capacity(WRITE_BYTES, File::create(&path)?);
        Ok(Self { path, out, lines })
    }
}

impl Sink for RecordFile {
    fn take(&mut self, batch: &RecordBatch) -> io::Result<u64> {
        self.lines.write(&mut self.out, batch)
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
