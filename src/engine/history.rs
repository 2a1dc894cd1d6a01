//! What a session's later turns carry: the bytes of the turns before and of the server's answers.
//!
//! A body is rendered for its turn alone and says where the turn's own items stand. A history is put in front
//! of them when the request is sent, without rendering anything again; what stands before that place is
//! copied, what stands behind it is sent from the block as it is.

use crate::dataset::{Dataset, TurnDetails};
use crate::endpoint::{Capture, ContextMode};
use crate::wire::write_hex;
use std::ops::Range;

/// Longest history, in bytes. What would make it longer is left out.
pub(crate) const HISTORY_BYTES_MAX: usize = 64 << 20;

/// Digits of a cache-bust mark.
const MARK_DIGITS: usize = 12;

/// How one body is put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Part of the block that is copied behind the head; empty when the whole body is sent from the block.
    pub(crate) front: Range<usize>,
    /// Where in the block, inside `front`, the digits of a cache-bust mark stand.
    pub(crate) mark_at: Option<usize>,
    /// Part of the block that is sent from it.
    pub(crate) rest: Range<usize>,
}

/// The pieces of the body of `row`, in front of whose own items a history goes or does not.
pub(crate) fn pieces(dataset: &Dataset, row: u32, has_history: bool) -> Pieces {
    let Some(body) = dataset.rows().get(row as usize).map(|row| row.body.clone()) else {
        return Pieces { front: 0..0, mark_at: None, rest: 0..0 };
    };
    let details = details(dataset, row);
    let mark_at = details.and_then(|details| details.mark_at);
    let history_at = details.and_then(|details| details.own_items.as_ref()).filter(|_| has_history);
    let cut = match (history_at, mark_at) {
        // A mark behind the history would have to be copied too; it never is: only a session's first turn has
        // one among its own items.
        (Some(items), _) => items.start,
        (None, Some(mark)) => mark + MARK_DIGITS,
        (None, None) => body.start,
    };
    Pieces { front: body.start..cut, mark_at: mark_at.filter(|mark| *mark < cut), rest: cut..body.end }
}

/// Whether the body of `row` can carry a history and is to.
pub(crate) fn carries(dataset: &Dataset, row: u32) -> bool {
    details(dataset, row).is_some_and(|details| {
        details.own_items.is_some() && details.context_mode != ContextMode::MessageArrayWithResponses
    })
}

/// Adds the turn in `row` to the history, and behind it the answer, where answers are the server's.
pub(crate) fn append(
    history: &mut Vec<u8>,
    dataset: &Dataset,
    row: u32,
    correlation_id: u128,
    answer: Option<&Capture>,
) {
    let Some(details) = details(dataset, row) else { return };
    let Some(items) = details.own_items.clone() else { return };
    let own = dataset.block().get(items.clone()).unwrap_or_default();
    if details.context_mode == ContextMode::MessageArrayWithResponses
        || history.len() + own.len() >= HISTORY_BYTES_MAX
    {
        return;
    }
    let begin = history.len();
    history.extend_from_slice(own);
    history.push(b',');
    let mark = details.mark_at.and_then(|mark| mark.checked_sub(items.start));
    if let Some(digits) = mark.and_then(|mark| history.get_mut(begin + mark..begin + mark + MARK_DIGITS)) {
        write_hex(digits, correlation_id);
    }
    match details.context_mode {
        ContextMode::DeltasWithoutResponses => {
            let end = history.len();
            if let Some(answer) = answer {
                answer.write_items(history);
            }
            if history.len() > HISTORY_BYTES_MAX {
                history.truncate(end);
            }
        }
        ContextMode::DeltasWithResponses | ContextMode::MessageArrayWithResponses => {}
    }
}

/// Appends the part of a body in front of its own items, its mark set to the session's.
pub(crate) fn write_front(out: &mut Vec<u8>, block: &[u8], pieces: &Pieces, correlation_id: u128) {
    let begin = out.len();
    out.extend_from_slice(block.get(pieces.front.clone()).unwrap_or_default());
    let mark = pieces.mark_at.and_then(|mark| mark.checked_sub(pieces.front.start));
    if let Some(digits) = mark.and_then(|mark| out.get_mut(begin + mark..begin + mark + MARK_DIGITS)) {
        write_hex(digits, correlation_id);
    }
}

fn details(dataset: &Dataset, row: u32) -> Option<&TurnDetails> {
    dataset.details().get(row as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Row, Session};
    use std::sync::Arc;

    /// Two turns of one session; the first one's own item holds a mark.
    fn dataset(context_mode: ContextMode) -> Dataset {
        let first = "{\"messages\":[{\"c\":\"[rid:000000000000] a\"}]}";
        let second = "{\"messages\":[{\"c\":\"b\"}]}";
        let items = |body: &str, at: usize| {
            let start = body.find('[').map_or(0, |start| start + 1);
            Some(at + start..at + body.len() - 2)
        };
        let row = |body: Range<usize>| Row {
            conversation_id: "one".to_owned(),
            body,
            isl_tokens: None,
            osl_tokens: None,
        };
        let details = vec![
            TurnDetails {
                own_items: items(first, 0),
                mark_at: first.find("000000000000"),
                context_mode,
                ..TurnDetails::default()
            },
            TurnDetails { own_items: items(second, first.len()), context_mode, ..TurnDetails::default() },
        ];
        let block: Arc<[u8]> = Arc::from([first.as_bytes(), second.as_bytes()].concat());
        let rows = vec![row(0..first.len()), row(first.len()..block.len())];
        Dataset::with_sessions(rows, details, vec![Session { rows: 0..2, context_mode }], block)
    }

    fn body(dataset: &Dataset, row: u32, history: &[u8], id: u128) -> String {
        let pieces = pieces(dataset, row, !history.is_empty());
        let mut out = Vec::new();
        write_front(&mut out, dataset.block(), &pieces, id);
        out.extend_from_slice(history);
        out.extend_from_slice(dataset.block().get(pieces.rest).unwrap_or_default());
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_later_turn_carries_what_was_sent_mark_included() {
        let dataset = dataset(ContextMode::DeltasWithoutResponses);
        let id = 0xffff_0123_4567_89ab;
        assert_eq!(body(&dataset, 0, b"", id), "{\"messages\":[{\"c\":\"[rid:0123456789ab] a\"}]}");
        let mut answer = Capture::new(crate::endpoint::Reader::default());
        answer.piece("yes \"x\"");
        let mut history = Vec::new();
        append(&mut history, &dataset, 0, id, Some(&answer));
        assert!(carries(&dataset, 1));
        assert_eq!(
            body(&dataset, 1, &history, id),
            "{\"messages\":[{\"c\":\"[rid:0123456789ab] a\"},{\"role\":\"assistant\",\"content\":\"yes \\\"x\\\"\"},\
             {\"c\":\"b\"}]}"
        );
    }

    #[test]
    fn answers_of_the_dataset_are_not_doubled_and_whole_turns_carry_nothing() {
        let mut answer = Capture::new(crate::endpoint::Reader::default());
        answer.piece("yes");
        let with = dataset(ContextMode::DeltasWithResponses);
        let mut history = Vec::new();
        append(&mut history, &with, 0, 0, Some(&answer));
        assert_eq!(history, b"{\"c\":\"[rid:000000000000] a\"},");
        let whole = dataset(ContextMode::MessageArrayWithResponses);
        assert!(!carries(&whole, 1));
        history.clear();
        append(&mut history, &whole, 0, 0, Some(&answer));
        assert!(history.is_empty());
    }
}
