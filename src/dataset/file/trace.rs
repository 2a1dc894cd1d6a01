//! `mooncake_trace`, `bailian_trace` and `burst_gpt_trace`: recorded lengths and times.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::dataset::FileFormat;
use crate::dataset::file::row::{self, Rows, present};
use crate::dataset::file::synthesis::{LengthRow, reshape};
use crate::dataset::file::trace_text::TraceText;
use crate::dataset::file::turns::Sessions;
use crate::dataset::file::{Content, FileError, Reading, RowFault, Source};
use crate::dataset::prose::Prose;
use crate::endpoint::{ContextMode, Conversation, Turn};

/// Members of which a mooncake row has exactly one.
pub(in crate::dataset) const MOONCAKE_INPUTS: [&str; 4] =
    ["input_length", "messages", "payload", "text_input"];
/// Columns of a `BurstGPT` trace.
const BURST_COLUMNS: [&str; 3] = ["Timestamp", "Request tokens", "Response tokens"];

/// What a row sends.
enum Input {
    /// So many tokens, some of them shared.
    Length(LengthRow),
    Messages {
        messages: Vec<Value>,
        tools: Option<Vec<Value>>,
    },
    Payload(Value),
    Text(String),
}

/// A row of any trace.
struct Traced {
    file: String,
    line: usize,
    session: Option<String>,
    input: Input,
    turn: Turn,
}

/// Rows of lengths, texts, messages or payloads.
pub(in crate::dataset) fn mooncake(
    reading: &mut Reading<'_>,
    sources: &[Rows],
) -> Result<Vec<Conversation>, FileError> {
    let mut traced = Vec::new();
    for source in sources {
        for (line, row) in &source.lines {
            match mooncake_row(row) {
                Ok((session, input, turn)) => {
                    traced.push(Traced { file: source.label.clone(), line: *line, session, input, turn });
                }
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
    }
    conversations(reading, traced, FileFormat::MooncakeTrace)
}

fn mooncake_row(row: &Map<String, Value>) -> Result<(Option<String>, Input, Turn), String> {
    let given: Vec<&str> = MOONCAKE_INPUTS.into_iter().filter(|key| present(row, key).is_some()).collect();
    let input = match given.as_slice() {
        ["input_length"] => Input::Length(LengthRow {
            input_length: row::count(row, "input_length", 1)?.unwrap_or(1),
            hash_ids: hash_ids(row)?,
        }),
        ["messages"] => Input::Messages {
            messages: row::list(row, "messages")?.cloned().unwrap_or_default(),
            tools: row::list(row, "tools")?.cloned(),
        },
        ["payload"] => {
            Input::Payload(Value::Object(row::object(row, "payload")?.cloned().unwrap_or_default()))
        }
        ["text_input"] => Input::Text(row::text(row, "text_input")?.unwrap_or_default()),
        [] => {
            return Err(
                "a row needs one of `input_length`, `text_input`, `messages` and `payload`".to_owned()
            );
        }
        several => {
            return Err(format!("`{}` cannot stand together: write one of them", several.join("` and `")));
        }
    };
    if present(row, "hash_ids").is_some() && !matches!(input, Input::Length(_)) {
        return Err("`hash_ids` belong to `input_length`".to_owned());
    }
    if present(row, "tools").is_some() && !matches!(input, Input::Messages { .. }) {
        return Err("`tools` belong to `messages`".to_owned());
    }
    let turn = Turn {
        max_tokens: row::count(row, "output_length", 0)?,
        timestamp_ms: row::number(row, "timestamp")?,
        delay_ms: row::number(row, "delay")?,
        extra_body: row::object(row, "extra")?.cloned().unwrap_or_default(),
        ..Turn::default()
    };
    Ok((session_name(row)?, input, turn))
}

/// A session's name is a text or a number.
fn session_name(row: &Map<String, Value>) -> Result<Option<String>, String> {
    match present(row, "session_id") {
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) | None => row::text(row, "session_id"),
    }
}

fn hash_ids(row: &Map<String, Value>) -> Result<Vec<i64>, String> {
    let ids = row::list(row, "hash_ids")?.map(Vec::as_slice).unwrap_or_default();
    let ids: Option<Vec<i64>> = ids.iter().map(Value::as_i64).collect();
    ids.ok_or_else(|| "`hash_ids` must be a list of whole numbers".to_owned())
}

/// Chats; a session is a chain of them.
pub(in crate::dataset) fn bailian(
    reading: &mut Reading<'_>,
    sources: &[Rows],
) -> Result<Vec<Conversation>, FileError> {
    let mut parents: HashMap<i64, i64> = HashMap::new();
    let mut found: Vec<(i64, u64, Traced)> = Vec::new();
    for source in sources {
        for (line, row) in &source.lines {
            let read = || -> Result<(i64, u64, Traced), String> {
                let missing = |key: &str| format!("`{key}` is missing");
                let chat = row::whole(row, "chat_id")?.ok_or_else(|| missing("chat_id"))?;
                let timestamp = row::number(row, "timestamp")?.ok_or_else(|| missing("timestamp"))?;
                let input_length =
                    row::count(row, "input_length", 1)?.ok_or_else(|| missing("input_length"))?;
                let output = row::count(row, "output_length", 0)?.ok_or_else(|| missing("output_length"))?;
                let turn = Turn {
                    max_tokens: Some(output),
                    timestamp_ms: Some(timestamp * 1_000.0),
                    ..Turn::default()
                };
                let input = Input::Length(LengthRow { input_length, hash_ids: hash_ids(row)? });
                let number = row::count(row, "turn", 0)?.unwrap_or(1);
                let traced = Traced { file: source.label.clone(), line: *line, session: None, input, turn };
                Ok((chat, number, traced))
            };
            match read() {
                Ok((chat, number, traced)) => {
                    match row::whole(row, "parent_chat_id") {
                        Ok(parent) => {
                            if let Some(parent) = parent.filter(|parent| *parent >= 0) {
                                parents.insert(chat, parent);
                            }
                        }
                        Err(reason) => reading.fault(&source.label, *line, reason),
                    }
                    found.push((chat, number, traced));
                }
                Err(reason) => reading.fault(&source.label, *line, reason),
            }
        }
    }
    let root = |chat: i64| {
        let mut root = chat;
        // A chain longer than there are rows goes round in a circle.
        for _ in 0..=parents.len() {
            match parents.get(&root) {
                Some(parent) => root = *parent,
                None => break,
            }
        }
        root
    };
    let mut order: HashMap<i64, usize> = HashMap::new();
    let mut sorted: Vec<(usize, u64, Traced)> = Vec::with_capacity(found.len());
    for (chat, number, mut traced) in found {
        let root = root(chat);
        let next = order.len();
        traced.session = Some(root.to_string());
        sorted.push((*order.entry(root).or_insert(next), number, traced));
    }
    sorted.sort_by_key(|(session, number, _)| (*session, *number));
    let traced = sorted.into_iter().map(|(_, _, traced)| traced).collect();
    conversations(reading, traced, FileFormat::BailianTrace)
}

/// Whether a line is the head of a `BurstGPT` trace.
pub(in crate::dataset) fn is_burst_gpt(head: &str) -> bool {
    let columns: Vec<&str> = head.split(',').map(|column| column.trim().trim_matches('"')).collect();
    BURST_COLUMNS.iter().all(|column| columns.contains(column))
}

/// Lines of a table.
pub(in crate::dataset) fn burst_gpt(
    reading: &mut Reading<'_>,
    sources: &[Source],
) -> Result<Vec<Conversation>, FileError> {
    let mut traced = Vec::new();
    for source in sources {
        let Content::Text(text) = &source.content else { continue };
        let mut table =
            csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
        let heads = table.headers().cloned().unwrap_or_default();
        let places = BURST_COLUMNS.map(|column| heads.iter().position(|head| head == column));
        let [Some(at), Some(input), Some(output)] = places else {
            let reason = format!("the first line must name the columns `{}`", BURST_COLUMNS.join("`, `"));
            reading.fault(&source.label, 1, reason);
            continue;
        };
        for record in table.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = error.position().map_or(0, csv::Position::line);
                    let line = usize::try_from(line).unwrap_or(0);
                    reading.fault(&source.label, line, format!("this is not CSV: {error}"));
                    continue;
                }
            };
            let line = record.position().map_or(0, csv::Position::line);
            let line = usize::try_from(line).unwrap_or(0);
            let number = |place: usize, name: &str| -> Result<f64, String> {
                let text = record.get(place).unwrap_or_default();
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
                number.ok_or_else(|| format!("`{name}` is `{text}`, it must be a number of at least 0"))
            };
            let read = || -> Result<(f64, u64, u64), String> {
                let whole = |value: f64| crate::dataset::draw::to_count(value);
                Ok((
                    number(at, BURST_COLUMNS[0])?,
                    whole(number(input, BURST_COLUMNS[1])?),
                    whole(number(output, BURST_COLUMNS[2])?),
                ))
            };
            match read() {
                Ok((seconds, input_length, output)) => traced.push(Traced {
                    file: source.label.clone(),
                    line,
                    session: None,
                    input: Input::Length(LengthRow {
                        input_length: input_length.max(1),
                        hash_ids: Vec::new(),
                    }),
                    turn: Turn {
                        max_tokens: Some(output),
                        timestamp_ms: Some(seconds * 1_000.0),
                        ..Turn::default()
                    },
                }),
                Err(reason) => reading.fault(&source.label, line, reason),
            }
        }
    }
    conversations(reading, traced, FileFormat::BurstGptTrace)
}

/// Rows into conversations: changed as asked, left out when outside of the window, with texts.
fn conversations(
    reading: &mut Reading<'_>,
    mut traced: Vec<Traced>,
    format: FileFormat,
) -> Result<Vec<Conversation>, FileError> {
    let block_size = u64::from(reading.spec.block_size.unwrap_or_else(|| format.block_size()).max(1));
    let synthesis = reading.spec.synthesis;
    let lengths = traced.iter_mut().filter_map(|row| match &mut row.input {
        Input::Length(row) => Some(row),
        Input::Messages { .. } | Input::Payload(_) | Input::Text(_) => None,
    });
    reshape(lengths.collect(), &synthesis, block_size);
    let before = traced.len();
    traced.retain(|row| match &row.input {
        Input::Length(length) => synthesis.max_isl.is_none_or(|max| length.input_length <= max),
        Input::Messages { .. } | Input::Payload(_) | Input::Text(_) => true,
    });
    if traced.len() < before {
        let count = before - traced.len();
        reading.warnings.push(format!("{count} rows are longer than `synthesis.max_isl` and were left out"));
    }
    for row in &mut traced {
        let speed = |time: &mut Option<f64>| *time = time.map(|time| time / synthesis.speedup_ratio);
        speed(&mut row.turn.timestamp_ms);
        speed(&mut row.turn.delay_ms);
        row.turn.max_tokens = row.turn.max_tokens.map(|tokens| {
            let scaled =
                crate::dataset::draw::to_count((tokens as f64 * synthesis.output_len_multiplier).round());
            scaled.min(synthesis.max_osl.unwrap_or(u64::MAX)).max(1)
        });
    }
    let (start, end) = reading.spec.window_ms;
    traced.retain(|row| {
        row.turn.timestamp_ms.is_none_or(|stamp| {
            start.is_none_or(|start| stamp >= start) && end.is_none_or(|end| stamp <= end)
        })
    });
    let has_lengths = traced.iter().any(|row| matches!(row.input, Input::Length(_)));
    let mut texts = match (has_lengths, reading.tokenizer) {
        (false, _) => None,
        (true, None) => return Err(FileError::NoTokenizer { format: format.name() }),
        (true, Some(tokenizer)) => {
            let prose = Prose::new(tokenizer, reading.spec.corpus);
            Some(TraceText::new(prose, reading.root, &reading.digest, block_size))
        }
    };
    let mut sessions = Sessions::new();
    let mut kinds: HashMap<String, &'static str> = HashMap::new();
    for (number, row) in traced.into_iter().enumerate() {
        let Traced { file, line, session, input, mut turn } = row;
        let (kind, mode) = match &input {
            Input::Length(_) | Input::Text(_) => ("texts", None),
            Input::Messages { .. } => ("messages", Some(ContextMode::MessageArrayWithResponses)),
            Input::Payload(_) => ("payloads", Some(ContextMode::MessageArrayWithResponses)),
        };
        if let Some(session) = &session
            && *kinds.entry(session.clone()).or_insert(kind) != kind
        {
            let reason =
                format!("the session `{session}` has {kind} and something else: give it one kind of rows");
            reading.fault_at(RowFault { file, line, column: None, reason });
            continue;
        }
        match input {
            Input::Length(length) => {
                let text =
                    texts.as_mut().map(|texts| texts.text(&length.hash_ids, length.input_length, number));
                match text {
                    Some(Ok(text)) => turn.texts = Turn::text(text).texts,
                    Some(Err(reason)) => {
                        reading.fault_at(RowFault { file, line, column: None, reason });
                        continue;
                    }
                    None => {}
                }
            }
            Input::Messages { messages, tools } => {
                turn.raw_messages = Some(messages);
                turn.raw_tools = tools;
            }
            Input::Payload(payload) => turn.raw_payload = Some(payload),
            Input::Text(text) => turn.texts = Turn::text(text).texts,
        }
        let conversation = sessions.of(session, reading);
        conversation.context_mode = mode;
        conversation.turns.push(turn);
    }
    Ok(sessions.conversations)
}
