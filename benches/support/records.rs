//! The client's record file.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Reads each line of the record file in `directory`.
pub(crate) fn records<T>(directory: &Path, read: impl Fn(&Value) -> T) -> Vec<T> {
    let file = BufReader::new(std::fs::File::open(directory.join("profile_export.jsonl")).unwrap());
    file.lines().map(|line| read(&serde_json::from_str(&line.unwrap()).unwrap())).collect()
}

/// A time of a record, in nanoseconds since the Unix epoch.
pub(crate) fn time_ns(record: &Value, name: &str) -> u64 {
    record["metadata"][name].as_u64().unwrap()
}
