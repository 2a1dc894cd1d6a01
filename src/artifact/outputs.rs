//! `outputs.json`: what good requests of profiling phases were answered (spec/artifacts 6.3).
//!
//! Texts go to a scratch file while the run goes on; of each request only its place in there is remembered, so
//! that the file can be put in order at the end.

use crate::artifact::file::write_with;
use crate::artifact::records::uuid;
use crate::artifact::sink::Sink;
use crate::config::{Config, PhaseKind};
use crate::dataset::Dataset;
use crate::measure::facts::{Facts, request_end};
use crate::measure::{Outcome, Record, RecordBatch};
use crate::time::Clock;
use serde_json::{Map, Value as Json, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
pub const OUTPUTS: &str = "outputs.json";
/// Where texts lie until the end.
const SCRATCH: &str = ".outputs.json.scratch";

/// The file in the making.
#[derive(Debug)]
pub struct Outputs {
    directory: PathBuf,
    path: PathBuf,
    clock: Clock,
    streaming: bool,
    /// Whether the phase in this place is a profiling one.
    profiling: Vec<bool>,
    /// Conversation and turn of each row of the dataset.
    rows: Vec<(String, u32)>,
    scratch: BufWriter<File>,
    at: u64,
    entries: Vec<Entry>,
}

/// Where an entry lies, and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    number: u64,
    turn: u32,
    at: u64,
    bytes: usize,
}

impl Outputs {
    /// Opens the scratch file in `directory`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(directory: &Path, config: &Config, dataset: &Dataset, clock: Clock) -> io::Result<Self> {
        let turns = dataset.sessions().iter().flat_map(|session| (0_u32..).take(session.rows.len()));
        let rows = dataset.rows().iter().zip(turns);
        let options = File::options().read(true).write(true).create(true).truncate(true).clone();
        Ok(Self {
            directory: directory.to_owned(),
            path: directory.join(OUTPUTS),
            clock,
            streaming: config.endpoint.streams_tokens(),
            profiling: config.phases.iter().map(|phase| phase.kind == PhaseKind::Profiling).collect(),
            rows: rows.map(|(row, turn)| (row.conversation_id.clone(), turn)).collect(),
            scratch: BufWriter::new(options.open(directory.join(SCRATCH))?),
            at: 0,
            entries: Vec::new(),
        })
    }

    fn add(&mut self, record: &Record, text: &[u8]) -> io::Result<()> {
        let (conversation, turn) = self.rows.get(record.row as usize).cloned().unwrap_or_default();
        let facts = Facts::of(record);
        let mut metrics = Map::new();
        let ms = |nanos: f64| nanos / 1e6;
        let counts = [
            ("input_sequence_length", facts.tokens.input),
            ("output_token_count", facts.tokens.output),
            ("output_sequence_length", facts.tokens.sequence),
        ];
        let times = [
            ("request_latency", facts.latency_ns.map(|latency| latency as f64)),
            ("time_to_first_token", facts.ttft_ns.filter(|_| self.streaming).map(|ttft| ttft as f64)),
            ("inter_token_latency", facts.inter_token_ns().filter(|_| self.streaming)),
        ];
        metrics.extend(counts.into_iter().filter_map(|(tag, count)| Some((tag.to_owned(), json!(count?)))));
        metrics.extend(times.into_iter().filter_map(|(tag, time)| Some((tag.to_owned(), json!(ms(time?))))));
        let mut request_id = Vec::new();
        uuid(&mut request_id, record.request_id);
        let entry = json!({
            "session_num": record.number,
            "conversation_id": conversation,
            "turn_index": turn,
            "x_request_id": serde_json::from_slice::<Json>(&request_id)?,
            "request_start_ns": self.clock.unix_ns(record.issued),
            "request_end_ns": self.clock.unix_ns(request_end(record)),
            "metrics": metrics,
            "response_text": String::from_utf8_lossy(text),
        });
        let entry = entry.to_string();
        self.scratch.write_all(entry.as_bytes())?;
        self.entries.push(Entry { number: record.number, turn, at: self.at, bytes: entry.len() });
        self.at += entry.len() as u64;
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.scratch.flush()?;
        self.entries.sort_unstable();
        let (scratch, entries) = (self.scratch.get_mut(), &self.entries);
        let written = write_with(&self.directory, OUTPUTS, |out| {
            out.write_all(b"{\n  \"schema_version\": \"1.0\",\n  \"data\": [")?;
            let mut bytes = Vec::new();
            for (place, entry) in entries.iter().enumerate() {
                out.write_all(if place == 0 { b"\n    " } else { b",\n    " })?;
                bytes.resize(entry.bytes, 0);
                scratch.seek(SeekFrom::Start(entry.at))?;
                scratch.read_exact(&mut bytes)?;
                let entry: Json = serde_json::from_slice(&bytes)?;
                let pretty = serde_json::to_string_pretty(&entry)?;
                out.write_all(pretty.replace('\n', "\n    ").as_bytes())?;
            }
            out.write_all(if entries.is_empty() { b"]\n}" } else { b"\n  ]\n}" })
        });
        written.map_err(|failure| failure.source)
    }
}

impl Sink for Outputs {
    fn take(&mut self, batch: &RecordBatch) -> io::Result<u64> {
        let mut taken = 0;
        for (record, said) in batch.said() {
            let profiling = self.profiling.get(usize::from(record.phase)).copied().unwrap_or(false);
            if profiling && matches!(record.outcome, Outcome::Ok) {
                self.add(record, said.output.unwrap_or_default())?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    fn end(&mut self) -> io::Result<()> {
        let written = self.write();
        // What is left of it is of no use; that it cannot be removed changes nothing.
        let _ = fs::remove_file(self.directory.join(SCRATCH));
        written
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
