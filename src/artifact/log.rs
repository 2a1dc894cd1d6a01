//! `logs/aiperf.log`: a line for each thing that happened (spec/artifacts 2).

use crate::artifact::file::WriteFailure;
use crate::artifact::line_file::{Finished, LineFile};
use crate::time::Clock;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
pub const LOG: &str = "logs/aiperf.log";

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// An edge of a phase.
    Notice,
    /// Something is doubtful.
    Warning,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }
}

/// The open log. Each line is written at once, so that it is there even when the process is killed.
#[derive(Debug)]
pub struct Log {
    file: LineFile,
    path: PathBuf,
    clock: Clock,
}

impl Log {
    /// Starts the log of a run in `directory`; one of an earlier run is overwritten.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(directory: &Path, clock: Clock) -> Result<Self, WriteFailure> {
        let path = directory.join(LOG);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| LineFile::create(&path));
        match made {
            Ok(file) => Ok(Self { file, path, clock }),
            Err(source) => Err(WriteFailure { path, source }),
        }
    }

    /// Writes a line. A log that cannot be written does not stop a run: see [`Self::close`].
    pub fn line(&mut self, level: Level, text: &str) {
        let line = render(self.clock.unix_ns(self.clock.now()), &TimeZone::system(), level, text);
        // The file keeps what it could not write, and the reason, until the end.
        let _ = self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush());
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first line that could not be written.
    pub fn close(mut self) -> Result<(), WriteFailure> {
        let Finished { fault, .. } = self.file.finish();
        match fault {
            None => Ok(()),
            Some(fault) => Err(WriteFailure { path: self.path, source: io::Error::other(fault) }),
        }
    }
}

/// One line; line breaks inside a text would look like further lines.
fn render(unix_ns: u64, zone: &TimeZone, level: Level, text: &str) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    let time = stamp.to_zoned_datetime(zone.clone());
    let text: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    format!("{} - phasor - {} - {text}\n", time.strftime("%Y-%m-%d %H:%M:%S%.3f"), level.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_logger_level_and_text() {
        let line = render(1_796_054_523_210_999_999, &TimeZone::UTC, Level::Notice, "Phase a\nstarted");
        assert_eq!(line, "2026-11-30 16:02:03.210 - phasor - NOTICE - Phase a started\n");
    }

    #[test]
    fn a_log_that_cannot_be_made_or_written_names_its_file() {
        let directory = std::env::temp_dir().join(format!("phasor-log-{}", std::process::id()));
        let clock = Clock::with_wall_origin(0);
        let made = fs::create_dir_all(&directory).and_then(|()| fs::write(directory.join("logs"), b""));
        assert!(made.is_ok());
        let refused = Log::create(&directory, clock).map(drop).map_err(|failure| failure.to_string());
        assert!(refused.is_err_and(|message| message.contains("logs/aiperf.log")));
        let _ = fs::remove_dir_all(&directory);

        let path = PathBuf::from("/dev/full");
        if let Ok(file) = LineFile::create(&path) {
            let mut log = Log { file, path, clock };
            log.line(Level::Error, "no room");
            let failed = log.close().map_err(|failure| failure.to_string());
            assert!(failed.is_err_and(|message| message.contains("/dev/full")));
        }
    }
}
