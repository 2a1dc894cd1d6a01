//! The `trace_data` member of a record line (spec/artifacts 6.1): the stamps, bytes and counts of the exchange,
//! where it went and what an error status was called.

use crate::artifact::raw::{RawHeader, request_headers};
use crate::measure::facts::Facts;
use crate::measure::{Outcome, Record};
use crate::time::{Clock, Stamp};
use std::io::{self, Write};
use std::net::SocketAddr;

/// Appends `,"trace_data":{...}`. Stamps that were never taken are left out. The kind is the one whose
/// members these are.
pub(super) fn render(
    line: &mut Vec<u8>,
    record: &Record,
    clock: Clock,
    remote: Option<SocketAddr>,
    headers: Option<&[RawHeader]>,
) -> io::Result<()> {
    line.extend_from_slice(
        b",\"trace_data\":{\"trace_type\":\"aiohttp\",\"request_chunks\":[],\"response_chunks\":[]",
    );
    let mut number = |name: &str, value: Option<u64>| match value {
        Some(value) => write!(line, ",\"{name}\":{value}"),
        None => Ok(()),
    };
    let wall = |stamp: Option<Stamp>| stamp.map(|stamp| clock.unix_ns(stamp));
    number("request_send_start_ns", wall(Some(record.issued)))?;
    number("request_headers_sent_ns", wall(record.first_byte_written))?;
    number("request_send_end_ns", wall(record.written))?;
    number("request_chunks_count", record.written.map(|_| 1))?;
    number("request_bytes_total", Some(record.request_body_bytes))?;
    number("response_status_code", record.status.map(u64::from))?;
    number("response_headers_received_ns", wall(record.headers))?;
    number("response_receive_start_ns", wall(record.first_body))?;
    number("response_chunks_count", Some(u64::from(record.body_reads)))?;
    number("response_bytes_total", Some(record.body_bytes))?;
    number("response_receive_end_ns", wall(record.last_body))?;
    match record.connect {
        Some((start, end)) => {
            number("tcp_connect_start_ns", wall(Some(start)))?;
            number("tcp_connect_end_ns", wall(Some(end)))?;
        }
        // A request that never reached a connection has reused none.
        None => number("connection_reused_ns", wall(record.first_byte_written.map(|_| record.issued)))?,
    }
    match record.outcome {
        Outcome::Cancelled { .. } | Outcome::Failed(_) => {
            number("error_timestamp_ns", wall(Some(record.ended)))?;
        }
        Outcome::Abandoned | Outcome::Ok => {}
    }
    let facts = Facts::of(record);
    number("sending_ns", facts.sending_ns())?;
    number("waiting_ns", facts.waiting_ns())?;
    number("receiving_ns", facts.receiving_ns())?;
    number("duration_ns", record.last_body.map(|last| last.since(record.issued).0))?;
    number("connecting_ns", record.connect.map(|_| facts.connecting_ns()))?;
    if let (Outcome::Failed(failure), Some(status)) = (&record.outcome, record.status)
        && failure.code == Some(status)
        && !(200..300).contains(&status)
    {
        // The reason phrase of an error status is its kind; that of a good one is not kept.
        line.extend_from_slice(b",\"response_reason\":");
        serde_json::to_writer(&mut *line, &failure.kind)?;
    }
    if let Some(headers) = headers {
        line.extend_from_slice(b",\"request_headers\":");
        serde_json::to_writer(&mut *line, &request_headers(headers, record))?;
    }
    // A request that never had a connection was nowhere.
    if let (Some(remote), Some(_)) = (remote, record.first_byte_written) {
        write!(line, ",\"remote_ip\":\"{}\",\"remote_port\":{}", remote.ip(), remote.port())?;
    }
    line.push(b'}');
    Ok(())
}
