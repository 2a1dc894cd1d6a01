//! `profile_export.jsonl`: one compact line per finished request (spec/artifacts 6.1).
//!
//! Lines are built in one reused buffer from texts prepared once, so that a writer keeps up with many
//! shards. It opens no file: the caller owns the writer, and what is lost when it fails.

mod trace;

use crate::artifact::raw::RawHeader;
use crate::config::Config;
use crate::dataset::Dataset;
pub use crate::measure::RecordBatch;
use crate::measure::catalogue::{Feed, Metric, SAMPLED, Source};
use crate::measure::facts::{Facts, request_end};
use crate::measure::{Failure, Judgement, Outcome, Record};
use crate::time::{Clock, Stamp};
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

/// Turns batches of records into lines.
#[derive(Debug)]
pub struct RecordLines {
    metadata: Metadata,
    metrics: Vec<MetricText>,
    judgement: Arc<Judgement>,
    trace: bool,
    /// Where requests went, if all went to one address.
    remote: Option<SocketAddr>,
    /// What every request says of itself, where that is known.
    headers: Option<Vec<RawHeader>>,
    line: Vec<u8>,
}

#[derive(Debug)]
struct MetricText {
    metric: &'static Metric,
    /// `"tag":{"value":`
    before: String,
    /// `,"unit":"ms"}`
    after: String,
}

/// The `error` member.
#[derive(Serialize)]
struct ErrorText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    r#type: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    cause_chain: &'a [String],
}

impl RecordLines {
    /// Prepares the texts that lines share. Lines say of each good request whether it met the objectives of
    /// `judgement`, if there are any.
    pub fn new(config: &Config, dataset: &Dataset, clock: Clock, judgement: Arc<Judgement>) -> Self {
        let metrics = SAMPLED
            .iter()
            .filter(|metric| config.endpoint.streams_tokens() || !metric.streaming)
            .map(|metric| MetricText {
                metric,
                before: format!("\"{}\":{{\"value\":", metric.tag),
                after: format!(",\"unit\":\"{}\"}}", metric.unit.name()),
            })
            // What the queueing metrics say is in the metadata: AIPerf has them in the results only.
            .filter(|text| !matches!(text.metric.source, Source::Record(Feed::All, _)))
            .collect();
        Self {
            metadata: Metadata::new(config, dataset, clock),
            metrics,
            judgement,
            trace: config.artifacts.trace,
            remote: None,
            headers: None,
            line: Vec::with_capacity(8 * 1_024),
        }
    }

    /// All requests go to `remote`, and traces name it.
    #[must_use]
    pub fn towards(mut self, remote: Option<SocketAddr>) -> Self {
        self.remote = remote;
        self
    }

    /// Requests have `headers`, in their order; traces list them, secrets taken out.
    #[must_use]
    pub fn sending(mut self, headers: Vec<RawHeader>) -> Self {
        self.headers = Some(headers);
        self
    }

    /// Writes a line for each record of the batch but the abandoned ones, and returns how many there were.
    ///
    /// # Errors
    /// Whatever the writer fails with, and [`io::ErrorKind::InvalidData`] for a record whose phase or row
    /// the config and the dataset do not have. Lines before the failed one may have been written.
    pub fn write(&mut self, out: &mut impl Write, batch: &RecordBatch) -> io::Result<u64> {
        let mut lines = 0;
        for (record, gaps_ns) in batch.iter() {
            if matches!(record.outcome, Outcome::Abandoned) {
                continue;
            }
            self.line.clear();
            self.render(record, gaps_ns)?;
            out.write_all(&self.line)?;
            lines += 1;
        }
        Ok(lines)
    }

    fn render(&mut self, record: &Record, gaps_ns: &[u64]) -> io::Result<()> {
        let Self { metadata, metrics, judgement, trace, remote, headers, line } = self;
        line.extend_from_slice(b"{\"metadata\":");
        metadata.render(line, record)?;
        line.extend_from_slice(b",\"metrics\":{");
        render_metrics(line, metrics, record, gaps_ns)?;
        if matches!(record.outcome, Outcome::Ok) && judgement.has_objectives() {
            let held = u8::from(judgement.holds(&Facts::of(record)));
            // A good request has metrics, so something stands before it.
            write!(line, ",\"good_request_count\":{{\"value\":{held},\"unit\":\"requests\"}}")?;
        }
        line.push(b'}');
        if *trace {
            trace::render(line, record, metadata.clock, *remote, headers.as_deref())?;
        }
        render_failure(line, record)?;
        line.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// The member `metadata` of the files that have one object per request.
#[derive(Debug)]
pub(in crate::artifact) struct Metadata {
    clock: Clock,
    /// Each dataset row's members `conversation_id` and `turn_index`, without the name of the first.
    conversations: Vec<String>,
    /// Each phase's members, from `benchmark_phase` to `phase_kind`.
    phases: Vec<String>,
}

impl Metadata {
    /// Prepares the texts that objects share.
    pub(in crate::artifact) fn new(config: &Config, dataset: &Dataset, clock: Clock) -> Self {
        Self { clock, conversations: conversations(dataset), phases: phases(config) }
    }

    /// Appends the object of one request.
    ///
    /// # Errors
    /// A record whose phase or row the config and the dataset do not have.
    pub(in crate::artifact) fn render(&self, line: &mut Vec<u8>, record: &Record) -> io::Result<()> {
        let missing =
            |what| io::Error::new(io::ErrorKind::InvalidData, format!("a record's {what} is unknown"));
        let phase = self.phases.get(usize::from(record.phase)).ok_or_else(|| missing("phase"))?;
        let conversation =
            self.conversations.get(record.row as usize).ok_or_else(|| missing("dataset row"))?;
        let unix = |stamp: Stamp| self.clock.unix_ns(stamp);
        let cancelled = matches!(record.outcome, Outcome::Cancelled { .. });
        let end = request_end(record);

        write!(line, "{{\"session_num\":{},\"x_request_id\":", record.number)?;
        uuid(line, record.request_id);
        line.extend_from_slice(b",\"x_correlation_id\":");
        uuid(line, record.correlation_id);
        write!(
            line,
            ",\"conversation_id\":{conversation},\"credit_issued_ns\":{},\"request_start_ns\":{}",
            unix(record.planned),
            unix(record.issued)
        )?;
        let accepted = record.status.is_some_and(|status| (200..300).contains(&status));
        if let Some(headers) = record.headers.filter(|_| accepted && !cancelled) {
            write!(line, ",\"request_ack_ns\":{}", unix(headers))?;
        }
        write!(
            line,
            ",\"request_end_ns\":{},\"worker_id\":\"phasor_shard_{shard}\",\
             \"record_processor_id\":\"phasor_records_{shard}\",{phase},\"was_cancelled\":{cancelled}",
            unix(end),
            shard = record.shard,
        )?;
        if cancelled {
            write!(line, ",\"cancellation_time_ns\":{}", unix(end))?;
        }
        line.extend_from_slice(
            b",\"context_overflow_skip\":false,\"agent_depth\":0,\"root_correlation_id\":",
        );
        uuid(line, record.correlation_id);
        line.push(b'}');
        Ok(())
    }
}

/// The members of each phase.
fn phases(config: &Config) -> Vec<String> {
    let mut profiling = 0_u16;
    let phases = config.phases.iter().enumerate().map(|(index, phase)| {
        let kind = phase.kind.name();
        let profiling_index = match phase.kind {
            crate::config::PhaseKind::Profiling => {
                let text = format!("\"profiling_index\":{profiling},");
                profiling += 1;
                text
            }
            crate::config::PhaseKind::Warmup => String::new(),
        };
        let name = json_string(&phase.name);
        format!(
            "\"benchmark_phase\":\"{kind}\",\"phase_index\":{index},{profiling_index}\
             \"phase_name\":{name},\"phase_kind\":\"{kind}\""
        )
    });
    phases.collect()
}

/// Appends the member `error` of a request that has one, with a comma in front.
pub(in crate::artifact) fn render_failure(line: &mut Vec<u8>, record: &Record) -> io::Result<()> {
    match &record.outcome {
        Outcome::Abandoned | Outcome::Ok => Ok(()),
        Outcome::Cancelled { delay } => render_error(line, &Failure::cancelled(*delay)),
        Outcome::Failed(failure) => render_error(line, failure),
    }
}

fn render_metrics(
    line: &mut Vec<u8>,
    metrics: &[MetricText],
    record: &Record,
    gaps_ns: &[u64],
) -> io::Result<()> {
    let good = matches!(record.outcome, Outcome::Ok);
    let facts = Facts::of(record);
    let mut first = true;
    let mut begin = |line: &mut Vec<u8>, text: &MetricText| {
        if !std::mem::take(&mut first) {
            line.push(b',');
        }
        line.extend_from_slice(text.before.as_bytes());
    };
    for text in metrics {
        let divisor = text.metric.unit.divisor();
        match text.metric.source {
            Source::Gaps if good && !gaps_ns.is_empty() => {
                begin(line, text);
                line.push(b'[');
                for (number, gap) in gaps_ns.iter().enumerate() {
                    if number > 0 {
                        line.push(b',');
                    }
                    serde_json::to_writer(&mut *line, &(*gap as f64 / divisor))?;
                }
                line.push(b']');
            }
            Source::Record(feed, read) if feed.takes(good) => {
                let Some(value) = read(&facts) else { continue };
                begin(line, text);
                if text.metric.unit.is_whole() {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "whole units hold counts below 2^53"
                    )]
                    serde_json::to_writer(&mut *line, &(value as u64))?;
                } else {
                    serde_json::to_writer(&mut *line, &(value / divisor))?;
                }
            }
            Source::Adjusted(_)
            | Source::Curve(_)
            | Source::Derived(_)
            | Source::Elsewhere
            | Source::Gaps
            | Source::Record(..) => continue,
        }
        line.extend_from_slice(text.after.as_bytes());
    }
    Ok(())
}

fn render_error(line: &mut Vec<u8>, failure: &Failure) -> io::Result<()> {
    line.extend_from_slice(b",\"error\":");
    let text = ErrorText {
        code: failure.code,
        r#type: &failure.kind,
        message: &failure.message,
        cause: failure.cause.as_deref(),
        cause_chain: &failure.cause_chain,
    };
    serde_json::to_writer(line, &text)?;
    Ok(())
}

/// What is said of each row's place in the dataset.
fn conversations(dataset: &Dataset) -> Vec<String> {
    let turns = dataset.sessions().iter().flat_map(|session| 0..session.rows.len());
    let rows = dataset.rows().iter().zip(turns);
    rows.map(|(row, turn)| format!("{},\"turn_index\":{turn}", json_string(&row.conversation_id))).collect()
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends a UUID as a JSON string.
pub(in crate::artifact) fn uuid(line: &mut Vec<u8>, id: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    line.push(b'"');
    for (at, byte) in id.to_be_bytes().into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            line.push(b'-');
        }
        line.push(DIGITS[usize::from(byte >> 4)]);
        line.push(DIGITS[usize::from(byte & 15)]);
    }
    line.push(b'"');
}
