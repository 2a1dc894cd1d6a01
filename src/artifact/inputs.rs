//! `inputs.json` (spec/artifacts 3): what will be sent, written before the first request.

use crate::artifact::file::{WriteFailure, write_with};
use crate::dataset::{Dataset, Session};
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use std::path::Path;

/// Name of the file.
pub const INPUTS: &str = "inputs.json";

#[derive(Serialize)]
struct Document<'a> {
    data: Rows<'a>,
}

struct Rows<'a>(&'a Dataset);

#[derive(Serialize)]
struct Conversation<'a> {
    session_id: &'a str,
    payloads: Vec<Json>,
}

impl Serialize for Rows<'_> {
    /// One conversation at a time, so that a large dataset is not held twice.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.sessions().len()))?;
        for session in self.0.sessions() {
            rows.serialize_element(&conversation(self.0, session).map_err(S::Error::custom)?)?;
        }
        rows.end()
    }
}

/// Each turn alone, without the history that it is sent with.
fn conversation<'a>(dataset: &'a Dataset, session: &Session) -> Result<Conversation<'a>, serde_json::Error> {
    let rows = dataset.rows().get(session.rows.clone()).unwrap_or_default();
    let payloads = rows.iter().map(|row| serde_json::from_slice(dataset.body(row)));
    Ok(Conversation {
        session_id: rows.first().map_or("", |row| &row.conversation_id),
        payloads: payloads.collect::<Result<_, _>>()?,
    })
}

/// Writes `inputs.json` into `directory`, which is made if it is not there.
///
/// # Errors
/// The file cannot be written, or a body of the dataset is not JSON.
pub fn write_inputs(directory: &Path, dataset: &Dataset) -> Result<(), WriteFailure> {
    write_with(directory, INPUTS, |out| {
        serde_json::to_writer_pretty(&mut *out, &Document { data: Rows(dataset) })?;
        Ok(())
    })
}
