//! `sharegpt`: people's conversations with an assistant; the answers say how long answers may be.

use serde_json::{Map, Value};

use crate::dataset::FileFormat;
use crate::dataset::file::row::{Rows, present};
use crate::dataset::file::{FileError, Reading};
use crate::endpoint::{Conversation, Turn};
use crate::tokenizer::Tokenizer;

/// Shortest prompt and shortest answer in tokens.
const TOKENS_MIN: usize = 4;
/// Longest prompt in tokens.
const PROMPT_TOKENS_MAX: usize = 1_024;
/// Longest prompt and answer together in tokens.
const PAIR_TOKENS_MAX: usize = 2_048;

/// Entries whose pairs all have usable lengths.
pub(in crate::dataset) fn sharegpt(
    reading: &mut Reading<'_>,
    sources: &[Rows],
) -> Result<Vec<Conversation>, FileError> {
    let tokenizer =
        reading.tokenizer.ok_or(FileError::NoTokenizer { format: FileFormat::ShareGpt.name() })?;
    let entries_max = reading.spec.entries.map_or(usize::MAX, |entries| entries as usize);
    let mut conversations = Vec::new();
    let mut left_out = 0_usize;
    for source in sources {
        for (line, row) in &source.lines {
            if conversations.len() == entries_max {
                break;
            }
            let Some(Value::Array(messages)) = present(row, "conversations") else {
                let reason = "`conversations` is missing: it is the list of messages".to_owned();
                reading.fault(&source.label, *line, reason);
                continue;
            };
            match turns(messages, tokenizer) {
                Some(turns) => conversations.push(Conversation {
                    session_id: reading.next_name(),
                    turns,
                    ..Conversation::default()
                }),
                None => left_out += 1,
            }
        }
    }
    if left_out > 0 {
        reading
            .warnings
            .push(format!("{left_out} conversations have no pairs of usable length and were left out"));
    }
    Ok(conversations)
}

/// Each prompt with the length of its answer; none when a pair is too short or too long.
fn turns(messages: &[Value], tokenizer: &Tokenizer) -> Option<Vec<Turn>> {
    let pairs = pairs(messages);
    if pairs.is_empty() {
        return None;
    }
    pairs
        .into_iter()
        .map(|(prompt, answer)| {
            let (asked, answered) = (tokenizer.count(prompt), tokenizer.count(answer));
            let usable = asked >= TOKENS_MIN
                && answered >= TOKENS_MIN
                && asked <= PROMPT_TOKENS_MAX
                && asked + answered <= PAIR_TOKENS_MAX;
            usable.then(|| Turn { max_tokens: Some(answered as u64), ..Turn::text(prompt.to_owned()) })
        })
        .collect()
}

/// A person's message and the assistant's right behind it; without such senders, the first two messages.
fn pairs(messages: &[Value]) -> Vec<(&str, &str)> {
    let member = |message: &'_ Value, key: &str| {
        message.as_object().and_then(|message: &Map<String, Value>| message.get(key)).cloned()
    };
    let sender = |message: &Value| member(message, "from").and_then(|from| from.as_str().map(str::to_owned));
    let value = |message: &Value| message.get("value").is_some_and(Value::is_string);
    let of = |message: &'_ Value| -> bool { matches!(sender(message).as_deref(), Some("gpt" | "human")) };
    let texts = |first: &'_ Value, second: &'_ Value| value(first) && value(second);
    let known: Vec<&Value> = messages.iter().filter(|message| of(message)).collect();
    if known.is_empty() {
        return match messages {
            [first, second, ..] if texts(first, second) => vec![(text(first), text(second))],
            _ => Vec::new(),
        };
    }
    known
        .windows(2)
        .filter_map(|pair| match pair {
            [first, second]
                if sender(first).as_deref() == Some("human")
                    && sender(second).as_deref() == Some("gpt")
                    && texts(first, second) =>
            {
                Some((text(first), text(second)))
            }
            _ => None,
        })
        .collect()
}

fn text(message: &Value) -> &str {
    message.get("value").and_then(Value::as_str).unwrap_or_default()
}
