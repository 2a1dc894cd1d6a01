//! A file of lines that grows during a run and holds on to them when the disk fails.
//!
//! Lines are gathered and written in large pieces. Those that the disk refuses stay in memory, up to a bound,
//! and are offered again with the next piece; what the file has always ends with a whole line. When the file
//! was removed or replaced meanwhile, what was written is still reachable through the open descriptor and is
//! written to its place again. Nothing here knows what a line says.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes gathered before they are written.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes held at most while the disk takes none.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The open file. Each call of [`Write::write`] is one whole line.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    file: File,
    /// Lines that are not in the file yet.
    held: Vec<u8>,
    held_lines: u64,
    /// Bytes of the file, up to the end of a line.
    written_bytes: u64,
    written_lines: u64,
    lost_lines: u64,
    /// Offer what is held when it has grown to this.
    offer_at: usize,
    fault: Option<io::Error>,
}

/// What became of the lines.
#[derive(Debug)]
#[must_use = "lines may be missing"]
pub struct Finished {
    /// Lines in the file.
    pub lines: u64,
    /// Lines that it lacks.
    pub lost: u64,
    /// The first thing that went wrong, even if nothing was lost in the end.
    pub fault: Option<String>,
}

impl LineFile {
    /// Makes the file, or empties the one that is there.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            held: Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8),
            held_lines: 0,
            written_bytes: 0,
            written_lines: 0,
            lost_lines: 0,
            offer_at: PIECE_BYTES,
            fault: None,
        })
    }

    /// Takes away the file's name. Its lines can be read by [`Self::read_at`] and go with the program, whatever
    /// becomes of it or of the directory.
    ///
    /// # Errors
    /// The name cannot be taken away.
    pub fn forget_name(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// Lines for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost_lines
    }

    /// Reads what was written from the byte `at` of all that was taken, be it in the file or still held.
    ///
    /// # Errors
    /// The file cannot be read, or there is less than that.
    pub fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let in_file = usize::try_from(self.written_bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let (of_file, of_held) = into.split_at_mut(in_file.min(into.len()));
        if !of_file.is_empty() {
            self.file.read_exact_at(of_file, at)?;
        }
        if !of_held.is_empty() {
            let from = usize::try_from(at.saturating_sub(self.written_bytes)).unwrap_or(usize::MAX);
            let held = self.held.get(from..).and_then(|held| held.get(..of_held.len()));
            of_held.copy_from_slice(held.ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(())
    }

    /// Writes what is held, and puts the file back in its place if it is no longer there.
    pub fn finish(&mut self) -> Finished {
        if let Err(error) = self.offer() {
            self.fault.get_or_insert(error);
        }
        let mut fault = self.fault.take().map(|error| error.to_string());
        if !self.is_in_place() {
            match self.restore() {
                Ok(()) => {
                    fault.get_or_insert_with(|| "it was removed during the run and written again".to_owned());
                }
                Err(error) => {
                    self.lost_lines += std::mem::take(&mut self.written_lines);
                    fault =
                        Some(format!("it was removed during the run and cannot be written again: {error}"));
                }
            }
        }
        Finished { lines: self.written_lines, lost: self.lost_lines + self.held_lines, fault }
    }

    /// Writes what is held; what could not be written stays, and the file ends with a whole line.
    fn offer(&mut self) -> io::Result<()> {
        let mut taken = 0;
        let refused = loop {
            let Some(rest) = self.held.get(taken..).filter(|rest| !rest.is_empty()) else { break None };
            match self.file.write(rest) {
                Ok(0) => break Some(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(error),
            }
        };
        let end_of_line = |bytes: &[u8]| memchr::memrchr(b'\n', bytes).map_or(0, |position| position + 1);
        let whole = end_of_line(self.held.get(..taken).unwrap_or_default());
        let whole_end = self.written_bytes + whole as u64;
        let cut = |file: &mut File| {
            file.set_len(whole_end).and_then(|()| file.seek(SeekFrom::Start(whole_end))).is_ok()
        };
        // What cannot be cut, such as a pipe, gets the rest of its line next.
        let gone = if taken > whole && !cut(&mut self.file) { taken } else { whole };
        let lines = lines_in(self.held.get(..gone).unwrap_or_default());
        self.written_bytes += gone as u64;
        self.written_lines += lines;
        self.held_lines -= lines;
        self.held.drain(..gone);
        self.offer_at = if refused.is_some() { self.held.len() } else { 0 } + PIECE_BYTES;
        refused.map_or(Ok(()), Err)
    }

    /// Whether the path still names the file that is open.
    fn is_in_place(&self) -> bool {
        let here = self.file.metadata().map(|meta| (meta.dev(), meta.ino()));
        let there = fs::metadata(&self.path).map(|meta| (meta.dev(), meta.ino()));
        match (here, there) {
            (Ok(here), Ok(there)) => here == there,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Copies the open file to its place, with the directories that lead there.
    fn restore(&mut self) -> io::Result<()> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut again = open(&self.path)?;
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.file, &mut again).map(drop)
    }
}

impl Write for LineFile {
    /// Takes a whole line. A disk that fails is no error here: see [`Self::finish`].
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.held.len() + line.len() > HELD_BYTES_MAX {
            self.lost_lines += 1;
            return Ok(line.len());
        }
        self.held.extend_from_slice(line);
        self.held_lines += 1;
        if self.held.len() >= self.offer_at
            && let Err(error) = self.offer()
        {
            self.fault.get_or_insert(error);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.offer()
    }
}

/// Readable too, so that a file without a name can be copied.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
}

fn lines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn line(number: u64) -> Vec<u8> {
        format!("{{\"number\":{number},\"filler\":\"{}\"}}\n", "x".repeat(1_000)).into_bytes()
    }

    #[test]
    fn lines_come_out_as_they_went_in() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let mut file = LineFile::create(&path).unwrap();
        let mut expected = Vec::new();
        for number in 0..3_000 {
            file.write_all(&line(number)).unwrap();
            expected.extend(line(number));
        }
        let Finished { lines, lost, fault } = file.finish();
        assert_eq!((lines, lost, fault), (3_000, 0, None));
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn lines_without_a_name_are_read_back_from_the_file_and_from_memory() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().join("lines"), directory.path().join("full")] {
            if path.ends_with("full") {
                std::os::unix::fs::symlink("/dev/full", &path).unwrap();
            }
            let mut file = LineFile::create(&path).unwrap();
            file.forget_name().unwrap();
            assert!(!path.exists());
            for number in 0..3_000 {
                file.write_all(&line(number)).unwrap();
            }
            assert_eq!((file.lost(), file.written_bytes > 0), (0, path.ends_with("lines")));
            let mut at = 0;
            for number in 0..3_000 {
                let expected = line(number);
                let mut read = vec![0; expected.len()];
                file.read_at(at, &mut read).unwrap();
                assert_eq!(read, expected);
                at += expected.len() as u64;
            }
            assert!(file.read_at(at, &mut [0]).is_err());
        }
    }

    #[test]
    fn a_full_disk_costs_what_memory_cannot_hold_and_every_line_is_accounted_for() {
        let mut file = LineFile::create(Path::new("/dev/full")).unwrap();
        let total = 2 * HELD_BYTES_MAX as u64 / line(0).len() as u64;
        for number in 0..total {
            file.write_all(&line(number)).unwrap();
        }
        assert!(file.held.len() <= HELD_BYTES_MAX && file.lost_lines > 0 && file.held_lines > 0);
        let Finished { lines, lost, fault } = file.finish();
        assert_eq!((lines, lost), (0, total));
        assert!(fault.is_some_and(|fault| fault.contains("No space left")));
    }

    #[test]
    fn what_a_disk_refused_for_a_while_is_written_when_it_takes_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let mut file = LineFile::create(Path::new("/dev/full")).unwrap();
        let mut expected = Vec::new();
        for number in 0..3_000 {
            file.write_all(&line(number)).unwrap();
            expected.extend(line(number));
        }
        assert!(file.fault.is_some());
        // The disk has room from here on.
        file.file = open(&path).unwrap();
        file.path.clone_from(&path);
        let Finished { lines, lost, fault } = file.finish();
        assert_eq!((lines, lost), (3_000, 0));
        assert!(fault.is_some(), "it is said that there was trouble");
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn a_file_that_was_removed_with_its_directory_is_there_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep").join("lines");
        fs::create_dir(path.parent().unwrap()).unwrap();
        let mut file = LineFile::create(&path).unwrap();
        let mut expected = Vec::new();
        for number in 0..3_000 {
            file.write_all(&line(number)).unwrap();
            expected.extend(line(number));
            if number == 2_000 {
                fs::remove_dir_all(path.parent().unwrap()).unwrap();
            }
        }
        let Finished { lines, lost, fault } = file.finish();
        assert_eq!((lines, lost), (3_000, 0));
        assert!(fault.is_some_and(|fault| fault.contains("removed during the run")));
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn a_removed_file_whose_place_is_taken_is_lost_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        let mut file = LineFile::create(&path).unwrap();
        file.write_all(&line(1)).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let Finished { lines, lost, fault } = file.finish();
        assert_eq!((lines, lost), (0, 1));
        assert!(fault.is_some_and(|fault| fault.contains("cannot be written again")));
    }
}
