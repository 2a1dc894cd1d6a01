//! What the built-in server says of the requests that a client sent it.

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A line of the server's arrival log. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The request's last byte had arrived.
    pub(crate) at_ns: u64,
    /// The last write of the reply was handed to the kernel.
    pub(crate) last_byte_ns: u64,
    /// The connection it came on.
    pub(crate) connection: u64,
    /// Its number on that connection.
    pub(crate) request: u64,
}

/// Reads the server's log, by the requests' identifiers. Every request of it was answered in full.
pub(crate) fn arrivals(path: &Path) -> HashMap<String, Arrival> {
    let file = BufReader::new(std::fs::File::open(path).unwrap());
    let line = |line: std::io::Result<String>| {
        let line = line.unwrap();
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |column: usize| fields[column].parse::<u64>().unwrap();
        assert_eq!(fields[6], "ok", "{line}");
        let arrival =
            Arrival { at_ns: number(0), last_byte_ns: number(2), connection: number(3), request: number(4) };
        (fields[5].to_owned(), arrival)
    };
    // The first line names the columns.
    file.lines().skip(1).map(line).collect()
}

/// The identifier that both sides know a request by.
pub(crate) fn request_id(record: &Value) -> String {
    record["metadata"]["x_request_id"].as_str().unwrap().to_owned()
}
