//! A file of JSON lines that several threads write to; made with its first line, so that it is never empty.

use crate::run::telemetry::probe::locked;
use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// The file.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    file: Option<BufWriter<File>>,
    failure: Option<io::Error>,
}

impl LineFile {
    /// Nothing is made yet. A file of an earlier run is taken away.
    pub(super) fn new(path: PathBuf) -> Self {
        let _ = fs::remove_file(&path);
        Self { path, state: Mutex::default() }
    }

    /// Writes a line. The first failure is kept for [`Self::finish`], and nothing more is written after it.
    pub(super) fn write(&self, line: &Json) {
        let mut state = locked(&self.state);
        if state.failure.is_some() {
            return;
        }
        if let Err(failure) = self.append(&mut state, line) {
            state.failure = Some(failure);
        }
    }

    fn append(&self, state: &mut State, line: &Json) -> io::Result<()> {
        let file = match &mut state.file {
            Some(file) => file,
            none => none.insert(BufWriter::new(File::create(&self.path)?)),
        };
        serde_json::to_writer(&mut *file, line)?;
        file.write_all(b"\n")
    }

    /// Writes what is buffered; what went wrong, if something did.
    pub(super) fn finish(&self) -> Option<String> {
        let mut state = locked(&self.state);
        let flushed = state.file.as_mut().map_or(Ok(()), BufWriter::flush);
        let failure = state.failure.take().or_else(|| flushed.err())?;
        Some(format!("cannot write {}: {failure}; lines of it are missing", self.path.display()))
    }
}
