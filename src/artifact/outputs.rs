//! `outputs.json`: what good requests of profiling phases were answered (spec/artifacts 6.3).
//!
//! Texts go to a scratch file without a name while the run goes on; of each request only its place in there is
//! remembered, so that the file can be put in order at the end. What a full disk does not take stays in memory as
//! long as there is room, and what finds none is counted.

use crate::artifact::file::write_with;
use crate::artifact::line_file::LineFile;
use crate::artifact::records::uuid;
use crate::artifact::sink::Sink;
use crate::config::{Config, PhaseKind};
use crate::dataset::Dataset;
use crate::measure::facts::{Facts, request_end};
use crate::measure::{Outcome, Record, RecordBatch};
use crate::time::Clock;
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
pub const OUTPUTS: &str = "outputs.json";
/// Where texts lie until the end; the name is gone as soon as the file is there.
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
    scratch: LineFile,
    at: u64,
    entries: Vec<Entry>,
    /// Good requests that the file lacks.
    missing: u64,
    /// Whether replies are texts, so that one without any has lost it on the way.
    are_texts: bool,
    /// Good requests whose text found no room on the way.
    without_text: u64,
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
        let scratch = LineFile::create(&directory.join(SCRATCH))?;
        scratch.forget_name()?;
        Ok(Self {
            directory: directory.to_owned(),
            path: directory.join(OUTPUTS),
            clock,
            streaming: config.endpoint.streams_tokens(),
            profiling: config.phases.iter().map(|phase| phase.kind == PhaseKind::Profiling).collect(),
            rows: rows.map(|(row, turn)| (row.conversation_id.clone(), turn)).collect(),
            scratch,
            at: 0,
            entries: Vec::new(),
            missing: 0,
            are_texts: config.endpoint.kind.produces_tokens(),
            without_text: 0,
        })
    }

    fn add(&mut self, record: &Record, text: Option<&[u8]>) -> io::Result<()> {
        let is_lost = self.are_texts && text.is_none() && record.first_output.is_some();
        self.without_text += u64::from(is_lost);
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
        let mut entry = json!({
            "session_num": record.number,
            "conversation_id": conversation,
            "turn_index": turn,
            "x_request_id": serde_json::from_slice::<Json>(&request_id)?,
            "request_start_ns": self.clock.unix_ns(record.issued),
            "request_end_ns": self.clock.unix_ns(request_end(record)),
            "metrics": metrics,
        });
        if let (Some(members), false) = (entry.as_object_mut(), is_lost) {
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            members.insert("response_text".to_owned(), json!(text));
        }
        let mut line = entry.to_string();
        line.push('\n');
        let lost = self.scratch.lost();
        self.scratch.write_all(line.as_bytes())?;
        if self.scratch.lost() > lost {
            self.missing += 1;
            return Ok(());
        }
        self.entries.push(Entry { number: record.number, turn, at: self.at, bytes: line.len() });
        self.at += line.len() as u64;
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.entries.sort_unstable();
        let (scratch, entries) = (&mut self.scratch, &self.entries);
        let written = write_with(&self.directory, OUTPUTS, |out| {
            out.write_all(b"{\n  \"schema_version\": \"1.0\",\n  \"data\": [")?;
            let mut bytes = Vec::new();
            for (place, entry) in entries.iter().enumerate() {
                out.write_all(if place == 0 { b"\n    " } else { b",\n    " })?;
                bytes.resize(entry.bytes, 0);
                scratch.read_at(entry.at, &mut bytes)?;
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
                self.add(record, said.output)?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    fn end(&mut self) -> io::Result<()> {
        if let Err(error) = self.write() {
            self.missing += self.entries.len() as u64;
            return Err(error);
        }
        match (self.missing, self.without_text) {
            (0, 0) => Ok(()),
            (0, texts) => Err(io::Error::other(format!(
                "{texts} entries are without their text: it was too long, or too much came at once"
            ))),
            (missing, _) => Err(io::Error::other(format!(
                "{missing} replies are missing: the disk took nothing and memory had no more room"
            ))),
        }
    }

    fn missing(&self) -> u64 {
        self.missing
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
