//! Prompts with a history, each turn counted once.
//!
//! A session's history only grows, so what an earlier turn's counted is kept and the new part added. That is
//! exact where a token never reaches over the blank between two texts: with tiktoken's encodings and words, if
//! every text ends in something else than white space. Everywhere else the whole prompt is counted, as AIPerf
//! does. It reads no payload of an endpoint by itself.

use crate::dataset::{Dataset, TurnDetails};
use crate::endpoint::{InputTexts, input_texts};
use crate::tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Most sessions whose counts are kept; of further ones some are counted whole again.
const SESSIONS_MAX: usize = 16_384;

/// Stands for the history in a body: an item of chat, messages and responses.
const MARK_ITEM: &[u8] = br#"{"role":"user","type":"message","content":"\u0001history\u0001"},"#;

/// The text of [`MARK_ITEM`].
const MARK: &str = "\u{1}history\u{1}";

/// What is in a list of tools' results is counted behind all messages; its place is for the whole count.
const APART: [&[u8]; 2] = [b"tool_use", b"tool_result"];

/// What histories counted so far, by session.
#[derive(Debug, Default)]
pub(super) struct Histories {
    known: Mutex<BTreeMap<u128, Counted>>,
}

/// A history and what it counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes: usize,
    hash: u64,
    /// Tokens of its texts, each with a blank in front.
    tokens: u64,
    /// Tokens that the first text saves when no blank stands in front of it.
    saved: Option<i64>,
}

/// A body that a history goes into.
struct Body<'d> {
    front: &'d [u8],
    rest: &'d [u8],
}

impl Histories {
    /// The tokens of the body of `row` as it was sent behind `history` in the session `id`.
    pub(super) fn count(
        &self,
        dataset: &Dataset,
        row: u32,
        id: u128,
        history: &[u8],
        tokenizer: &Tokenizer,
    ) -> Option<u32> {
        let (row, details) = (dataset.rows().get(row as usize)?, dataset.details().get(row as usize)?);
        let body = Body::of(dataset.block(), &row.body, details)?;
        let tokens = self.by_turns(&body, id, history, tokenizer).or_else(|| body.whole(history, tokenizer));
        tokens.and_then(|tokens| u32::try_from(tokens).ok())
    }

    /// Counts what is new in the history; absent where that is not exact.
    fn by_turns(&self, body: &Body<'_>, id: u128, history: &[u8], tokenizer: &Tokenizer) -> Option<u64> {
        let is_apart = |part: &[u8]| APART.iter().any(|word| memchr::memmem::find(part, word).is_some());
        if !tokenizer.splits_at_blanks() {
            return None;
        }
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied();
        let before = before
            .filter(|before| history.get(..before.bytes).is_some_and(|known| hash(known) == before.hash))
            .unwrap_or_default();
        let new = history.get(before.bytes..)?;
        let own = body.with(MARK_ITEM)?;
        if is_apart(new) || is_apart(body.front) || is_apart(body.rest) {
            return None;
        }
        let added = texts_of_items(new)?;
        let counted = Counted {
            bytes: history.len(),
            hash: hash(history),
            tokens: added
                .iter()
                .try_fold(before.tokens, |sum, text| Some(sum + behind_blank(text, tokenizer)?))?,
            saved: before.saved.or_else(|| added.first().map(|text| saved(text, tokenizer))),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, counted);
        if known.len() > SESSIONS_MAX {
            known.pop_first();
        }
        drop(known);
        let at = own.texts.iter().position(|text| text == MARK)?;
        let mut tokens = counted.tokens + own.pretokenised;
        for text in own.texts.iter().filter(|text| *text != MARK) {
            tokens += behind_blank(text, tokenizer)?;
        }
        let first = own.texts.iter().find(|text| *text != MARK);
        let of_own = || first.map(|text| saved(text, tokenizer));
        let saved = if at == 0 { counted.saved.or_else(of_own) } else { of_own() };
        tokens.checked_add_signed(-saved.unwrap_or(0))
    }
}

impl<'d> Body<'d> {
    fn of(block: &'d [u8], body: &Range<usize>, details: &TurnDetails) -> Option<Self> {
        let own = details.own_items.as_ref()?;
        Some(Self { front: block.get(body.start..own.start)?, rest: block.get(own.start..body.end)? })
    }

    /// The texts of the body with `items` in the place of the history.
    fn with(&self, items: &[u8]) -> Option<InputTexts> {
        let body = serde_json::from_slice(&[self.front, items, self.rest].concat()).ok()?;
        Some(input_texts(&body))
    }

    fn whole(&self, history: &[u8], tokenizer: &Tokenizer) -> Option<u64> {
        let texts = self.with(history)?;
        Some(tokenizer.count(&texts.joined()?) as u64 + texts.pretokenised)
    }
}

/// The texts of items with a comma behind each.
fn texts_of_items(items: &[u8]) -> Option<Vec<String>> {
    let items = items.strip_suffix(b",").unwrap_or(items);
    let list = [&br#"{"messages":["#[..], items, b"]}"].concat();
    Some(input_texts(&serde_json::from_slice(&list).ok()?).texts)
}

/// Tokens of a text that stands behind another one; absent where what follows may reach into it.
fn behind_blank(text: &str, tokenizer: &Tokenizer) -> Option<u64> {
    let ends_plain = text.chars().next_back().is_some_and(|last| !last.is_whitespace());
    ends_plain.then(|| tokenizer.count(&format!(" {text}")) as u64)
}

/// Tokens that a text takes less when no blank stands in front of it.
fn saved(text: &str, tokenizer: &Tokenizer) -> i64 {
    let count = |text: &str| i64::try_from(tokenizer.count(text)).unwrap_or(0);
    count(&format!(" {text}")) - count(text)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::dataset::{Row, Session};
    use crate::endpoint::ContextMode;
    use std::sync::Arc;

    const TEXTS: [&str; 8] = [
        "Name two rivers.",
        "1234567 and 8!",
        " leading blank",
        "Ünïcödé 😀",
        "tab\tinside\r\nand lines",
        "it's <|endoftext|>",
        "...",
        "x",
    ];

    /// A dataset of one turn with a system message or without.
    fn dataset(system: bool, own: &str) -> Dataset {
        let system = if system { r#"{"role":"system","content":"Be kind."},"# } else { "" };
        let front = format!(r#"{{"messages":[{system}"#);
        let own = serde_json::json!({"role": "user", "content": own}).to_string();
        let body = format!(r#"{front}{own}],"model":"m"}}"#);
        let own_items = Some(front.len()..front.len() + own.len());
        let row =
            Row { conversation_id: String::new(), body: 0..body.len(), isl_tokens: None, osl_tokens: None };
        let details = TurnDetails { own_items, ..TurnDetails::default() };
        let context_mode = ContextMode::DeltasWithoutResponses;
        let block = Arc::from(body.into_bytes());
        Dataset::with_sessions(vec![row], vec![details], vec![Session { rows: 0..1, context_mode }], block)
    }

    fn grow(history: &mut Vec<u8>, role: &str, text: &str) {
        history.extend_from_slice(serde_json::json!({"role": role, "content": text}).to_string().as_bytes());
        history.push(b',');
    }

    #[test]
    fn turn_by_turn_counts_what_the_whole_prompt_does() {
        for tokenizer in ["o200k_base", "cl100k_base", "p50k_base", "r50k_base", "none"] {
            let tokenizer = Tokenizer::load(tokenizer).unwrap();
            let mut rng = fastrand::Rng::with_seed(7);
            for session in 0..40_u128 {
                let (histories, mut history) = (Histories::default(), Vec::new());
                for turn in 0..6 {
                    let dataset = dataset(session % 2 == 0, TEXTS[rng.usize(..TEXTS.len())]);
                    let details = &dataset.details()[0];
                    let body = Body::of(dataset.block(), &dataset.rows()[0].body, details).unwrap();
                    let turns = histories.by_turns(&body, session, &history, &tokenizer);
                    assert_eq!(turns, body.whole(&history, &tokenizer), "{turn} of {session}");
                    assert!(turns.is_some());
                    grow(&mut history, "user", TEXTS[rng.usize(..TEXTS.len())]);
                    grow(&mut history, "assistant", TEXTS[rng.usize(..TEXTS.len())]);
                }
                assert!(histories.known.lock().unwrap()[&session].bytes > 0);
            }
        }
    }

    #[test]
    fn what_is_not_exact_or_has_changed_is_counted_whole() {
        let tokenizer = Tokenizer::load("o200k_base").unwrap();
        let (histories, dataset) = (Histories::default(), dataset(false, "Hello"));
        let body = Body::of(dataset.block(), &dataset.rows()[0].body, &dataset.details()[0]).unwrap();
        let count = |history: &[u8]| histories.count(&dataset, 0, 1, history, &tokenizer).map(u64::from);
        let mut history = Vec::new();
        for text in ["ends in a blank ", "", "lines\n"] {
            grow(&mut history, "assistant", text);
            assert_eq!(histories.by_turns(&body, 1, &history, &tokenizer), None);
            assert_eq!(count(&history), body.whole(&history, &tokenizer));
        }
        // Another history under the same identifier.
        for text in ["one", "another one"] {
            let mut history = Vec::new();
            grow(&mut history, "user", text);
            assert_eq!(count(&history), body.whole(&history, &tokenizer));
        }
    }
}
