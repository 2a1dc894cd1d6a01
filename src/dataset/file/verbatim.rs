//! `raw_payload` and `inputs_json`: whole request bodies, sent as they are.

use serde_json::Value;

use crate::dataset::file::Reading;
use crate::dataset::file::row::{self, Rows, kind};
use crate::endpoint::{ContextMode, Conversation, Turn};

fn conversation(session_id: String, payloads: Vec<Value>) -> Conversation {
    let turn = |payload| Turn { raw_payload: Some(payload), ..Turn::default() };
    Conversation {
        session_id,
        context_mode: Some(ContextMode::MessageArrayWithResponses),
        turns: payloads.into_iter().map(turn).collect(),
        ..Conversation::default()
    }
}

/// Each line of a file is a conversation, or each file of a directory.
pub(in crate::dataset) fn raw_payload(
    reading: &mut Reading<'_>,
    sources: &[Rows],
    directory: bool,
) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    for source in sources {
        let mut payloads = Vec::with_capacity(source.lines.len());
        for (line, row) in &source.lines {
            match row.get("messages") {
                Some(Value::Array(_)) => payloads.push(Value::Object(row.clone())),
                found => {
                    let found = found.map_or("missing", kind);
                    let reason = format!("`messages` is {found}: a request body needs the list of messages");
                    reading.fault(&source.label, *line, reason);
                }
            }
        }
        if directory && !payloads.is_empty() {
            conversations.push(conversation(reading.next_name(), payloads));
        } else {
            for payload in payloads {
                conversations.push(conversation(reading.next_name(), vec![payload]));
            }
        }
    }
    conversations
}

/// The document that phasor writes as `inputs.json`.
pub(in crate::dataset) fn inputs_json(reading: &mut Reading<'_>, sources: &[Rows]) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    for source in sources {
        for (line, row) in &source.lines {
            let read = || -> Result<Conversation, String> {
                let name = row::text(row, "session_id")?.ok_or("`session_id` is missing")?;
                let payloads = row::list(row, "payloads")?.ok_or("`payloads` is missing")?;
                if payloads.is_empty() || !payloads.iter().all(Value::is_object) {
                    return Err("`payloads` must be a list of request bodies, at least one".to_owned());
                }
                Ok(conversation(name, payloads.clone()))
            };
            match read() {
                Ok(conversation) => conversations.push(conversation),
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
    }
    conversations
}
