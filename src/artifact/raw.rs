//! `profile_export_raw.jsonl`: each request and its reply as they went over the wire (spec/artifacts 6.2).
//!
//! Header values that are secrets are masked. A reply for which there was no room on the way has no
//! `responses`, and the run says at its end how many those are.

use crate::artifact::line_file::LineFile;
use crate::artifact::records::{Metadata, render_failure};
use crate::artifact::sink::Sink;
use crate::config::Config;
use crate::dataset::Dataset;
use crate::measure::{Outcome, RawReads, Record, RecordBatch, Said};
use crate::time::{Clock, Stamp};
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What stands in the place of a secret.
const REDACTED: &str = "<redacted>";
/// Header names that hold secrets.
const SECRET_NAMES: [&str; 2] = ["ocp-apim-subscription-key", "x-functions-key"];
/// Parts of header names that hold secrets.
const SECRET_PARTS: [&str; 15] = [
    "access-key",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "cookie",
    "credential",
    "passwd",
    "password",
    "private-key",
    "sas-key",
    "secret",
    "session",
    "signature",
    "token",
];

/// A header of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawHeader {
    /// The same in every request.
    Fixed(String, String),
    /// The request's identifier.
    RequestId(String),
    /// The session's identifier.
    SessionId(String),
}

/// The file in the making.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    out: LineFile,
    missing: u64,
    metadata: Metadata,
    headers: Vec<RawHeader>,
    dataset: Arc<Dataset>,
    line: Vec<u8>,
    /// Good requests whose reply found no room on the way.
    without_reply: u64,
}

impl RawFile {
    /// Opens `path`; `headers` are those of every request, in their order.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(
        path: PathBuf,
        headers: Vec<RawHeader>,
        config: &Config,
        dataset: &Arc<Dataset>,
        clock: Clock,
    ) -> io::Result<Self> {
        Ok(Self {
            out: LineFile::create(&path)?,
            missing: 0,
            path,
            metadata: Metadata::new(config, dataset, clock),
            headers,
            dataset: Arc::clone(dataset),
            line: Vec::new(),
            without_reply: 0,
        })
    }

    fn render(&mut self, record: &Record, said: &Said<'_>) -> io::Result<bool> {
        let Self { metadata, headers, dataset, line, .. } = self;
        line.clear();
        line.extend_from_slice(b"{\"metadata\":");
        metadata.render(line, record)?;
        write!(line, ",\"start_perf_ns\":{},\"request_headers\":", nanos(record.issued))?;
        serde_json::to_writer(&mut *line, &request_headers(headers, record))?;
        if let Some(status) = record.status {
            write!(line, ",\"status\":{status}")?;
        }
        let is_good = matches!(record.outcome, Outcome::Ok);
        if let (Some(raw), Some(reads)) = (said.raw, said.reads) {
            line.extend_from_slice(b",\"responses\":");
            serde_json::to_writer(&mut *line, &responses(raw, reads))?;
        } else if !is_good {
            line.extend_from_slice(b",\"responses\":[]");
        }
        render_failure(line, record)?;
        line.extend_from_slice(b",\"payload\":");
        write_payload(line, dataset, record, said.history.unwrap_or_default());
        line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line)?;
        Ok(said.raw.is_some() || !is_good)
    }
}

impl Sink for RawFile {
    fn take(&mut self, batch: &RecordBatch) -> io::Result<u64> {
        let mut lines = 0;
        for (record, said) in batch.said() {
            if !matches!(record.outcome, Outcome::Abandoned) {
                let is_whole = self.render(record, &said)?;
                self.without_reply += u64::from(!is_whole);
                lines += 1;
            }
        }
        Ok(lines)
    }

    fn end(&mut self) -> io::Result<()> {
        let finished = self.out.finish();
        self.missing = finished.lost;
        if let Some(fault) = finished.fault {
            return Err(io::Error::other(fault));
        }
        match self.without_reply {
            0 => Ok(()),
            missing => Err(io::Error::other(format!(
                "{missing} lines are without their reply: it was longer than 512 KiB, or too much came at once"
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

fn nanos(stamp: Stamp) -> u64 {
    stamp.since(Stamp::ORIGIN).0
}

/// Whether a header's value is not to be shown.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.contains(&name.as_str()) || SECRET_PARTS.iter().any(|part| name.contains(part))
}

pub(super) fn request_headers(headers: &[RawHeader], record: &Record) -> Json {
    let id = |id: u128| {
        let digits = format!("{id:032x}");
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    };
    let members = headers.iter().map(|header| {
        let (name, value) = match header {
            RawHeader::Fixed(name, value) => (name, value.clone()),
            RawHeader::RequestId(name) => (name, id(record.request_id)),
            RawHeader::SessionId(name) => (name, id(record.correlation_id)),
        };
        let shown = if is_secret(name) { REDACTED.to_owned() } else { value };
        (name.clone(), json!(shown))
    });
    Json::Object(members.collect::<Map<_, _>>())
}

/// The messages of a stream with the times at which they were whole, or the body with the time of its end.
fn responses(raw: &[u8], reads: &[u8]) -> Json {
    let unpacked = RawReads::unpack(reads);
    let reads: Vec<(Stamp, usize)> = unpacked.reads().collect();
    let whole_at = |end: usize| {
        let read = reads.iter().find(|(_, bytes)| *bytes >= end).or_else(|| reads.last());
        read.map_or(0, |(stamp, _)| nanos(*stamp))
    };
    if !unpacked.is_stream {
        let mut item = json!({"perf_ns": whole_at(raw.len()), "text": String::from_utf8_lossy(raw)});
        let media_type = String::from_utf8_lossy(unpacked.media_type).to_lowercase();
        if let (Some(members), false) = (item.as_object_mut(), media_type.is_empty()) {
            members.insert("content_type".to_owned(), json!(media_type));
        }
        return json!([item]);
    }
    let mut messages = Vec::new();
    let mut packets = Vec::new();
    let mut at = 0;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        if !line.is_empty() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let name = if name.is_empty() { "comment" } else { name.trim() };
            packets.push(json!({"name": name, "value": value.trim()}));
        } else if !packets.is_empty() {
            messages.push(json!({"perf_ns": whole_at(at), "packets": std::mem::take(&mut packets)}));
        }
    }
    if !packets.is_empty() {
        messages.push(json!({"perf_ns": whole_at(raw.len()), "packets": packets}));
    }
    Json::Array(messages)
}

/// Appends the body as it was sent behind `history`.
fn write_payload(line: &mut Vec<u8>, dataset: &Dataset, record: &Record, history: &[u8]) {
    let Some(row) = dataset.rows().get(record.row as usize) else {
        line.extend_from_slice(b"null");
        return;
    };
    let own = dataset.details().get(record.row as usize).and_then(|details| details.own_items.clone());
    let cut = own.filter(|_| !history.is_empty()).map_or(row.body.start, |own| own.start);
    let block = dataset.block();
    line.extend_from_slice(block.get(row.body.start..cut).unwrap_or_default());
    line.extend_from_slice(history);
    line.extend_from_slice(block.get(cut..row.body.end).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_the_time_at_which_they_were_whole() {
        let mut reads = RawReads::default();
        reads.begin(true, b"text/event-stream");
        reads.push(Stamp::from_nanos(10), 12);
        reads.push(Stamp::from_nanos(20), 40);
        let raw = b"data: {\"a\":1}\n\n: ping\r\n\r\ndata: [DONE]\n\n";
        assert_eq!(
            responses(raw, reads.packed()),
            json!([
                {"perf_ns": 20, "packets": [{"name": "data", "value": "{\"a\":1}"}]},
                {"perf_ns": 20, "packets": [{"name": "comment", "value": "ping"}]},
                {"perf_ns": 20, "packets": [{"name": "data", "value": "[DONE]"}]},
            ])
        );
        reads.begin(false, b"Application/JSON");
        reads.push(Stamp::from_nanos(30), 2);
        let whole = json!([{"perf_ns": 30, "text": "{}", "content_type": "application/json"}]);
        assert_eq!(responses(b"{}", reads.packed()), whole);
        reads.begin(false, b"");
        reads.push(Stamp::from_nanos(30), 2);
        assert_eq!(responses(b"{}", reads.packed()), json!([{"perf_ns": 30, "text": "{}"}]));
    }

    #[test]
    fn secrets_are_recognised_by_name() {
        for name in ["Authorization", "X-API-Key", "X-Session-Affinity", "Set-Cookie", "x-functions-key"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["Accept", "X-Request-ID", "User-Agent", "Content-Type"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
