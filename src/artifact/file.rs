//! One file at a time, whole or not at all.

use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A result file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; choose another directory with artifacts.dir, or make room and run again", path = path.display())]
pub struct WriteFailure {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Writes `directory/name` under a temporary name beside it and renames it. `name` may have directories in
/// front, which are made.
pub(super) fn write_with(
    directory: &Path,
    name: &str,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), WriteFailure> {
    let path = directory.join(name);
    write_to(&path, content).map_err(|source| WriteFailure { path, source })
}

fn write_to(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    fs::create_dir_all(parent)?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(".tmp");
    let temporary = parent.join(temporary_name);
    let written = File::create(&temporary).map(BufWriter::new).and_then(|mut out| {
        content(&mut out)?;
        out.flush()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // What is left of a failed file is of no use; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes bytes.
pub(super) fn write_bytes(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), WriteFailure> {
    write_with(directory, name, |out| out.write_all(bytes))
}

/// Writes JSON indented by two spaces, with `end` behind it.
pub(super) fn write_json(directory: &Path, name: &str, json: &Json, end: &str) -> Result<(), WriteFailure> {
    write_with(directory, name, |out| {
        serde_json::to_writer_pretty(&mut *out, json)?;
        out.write_all(end.as_bytes())
    })
}
