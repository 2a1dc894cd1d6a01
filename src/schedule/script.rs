//! What the schedule must know of the dataset: how many turns each conversation has and when later turns
//! follow.

use crate::time::Nanos;
use std::ops::Range;

/// When a turn is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// In the trace's own time.
    pub at: Option<Nanos>,
    /// From the end of the turn before it.
    pub delay: Option<Nanos>,
}

/// The conversations of a dataset, which lie end to end in its rows: one row per turn.
#[derive(Clone, Debug)]
pub struct Script {
    conversations: u32,
    /// First row of each conversation, and the end; empty when each has one turn.
    starts: Box<[u32]>,
    /// By row; empty when no turn has a time.
    turns: Box<[Turn]>,
}

impl Script {
    /// Conversations of one turn each, without times; at least one.
    pub fn single(rows: usize) -> Self {
        let conversations = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
        Self { conversations, starts: Box::default(), turns: Box::default() }
    }

    /// Conversations with the turns given for each, in dataset order; conversations without a turn are none.
    pub fn new<'a>(conversations: impl IntoIterator<Item = &'a [Turn]>) -> Self {
        let mut starts = Vec::new();
        let mut turns = Vec::new();
        for conversation in conversations.into_iter().filter(|turns| !turns.is_empty()) {
            starts.push(u32::try_from(turns.len()).unwrap_or(u32::MAX));
            turns.extend_from_slice(conversation);
        }
        if turns.is_empty() {
            return Self::single(1);
        }
        let conversations = u32::try_from(starts.len()).unwrap_or(u32::MAX);
        let timed = turns.iter().any(|turn| *turn != Turn::default());
        if turns.len() == starts.len() {
            starts.clear();
        } else {
            starts.push(u32::try_from(turns.len()).unwrap_or(u32::MAX));
        }
        if !timed {
            turns.clear();
        }
        Self { conversations, starts: starts.into(), turns: turns.into() }
    }

    /// How many conversations there are, at least 1.
    pub const fn conversations(&self) -> u32 {
        self.conversations
    }

    /// Whether some conversation has more than one turn.
    pub fn has_sessions(&self) -> bool {
        !self.starts.is_empty()
    }

    /// The rows of a conversation, at least one.
    pub fn rows(&self, conversation: u32) -> Range<u32> {
        let at = conversation as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(start), Some(end)) => *start..*end,
            _ => conversation..conversation + 1,
        }
    }

    /// When the turn in `row` is sent.
    pub fn turn(&self, row: u32) -> Turn {
        self.turns.get(row as usize).copied().unwrap_or_default()
    }

    /// Turns of all conversations.
    pub fn turns_total(&self) -> u64 {
        u64::from(self.starts.last().copied().unwrap_or(self.conversations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_lie_end_to_end_in_the_rows() {
        let turn = Turn::default();
        let late = Turn { at: None, delay: Some(Nanos(5)) };
        let conversations: [&[Turn]; 4] = [&[turn], &[turn, late, turn], &[], &[turn, turn]];
        let script = Script::new(conversations);
        assert_eq!(script.conversations(), 3);
        assert_eq!([0, 1, 2].map(|conversation| script.rows(conversation)), [0..1, 1..4, 4..6]);
        assert_eq!(script.turn(2), late);
        assert_eq!(script.turns_total(), 6);
        assert!(script.has_sessions());
    }

    #[test]
    fn single_turns_need_no_table() {
        let turn: &[Turn] = &[Turn::default()];
        for script in [Script::single(3), Script::new([turn, turn, turn])] {
            assert!(!script.has_sessions());
            assert_eq!((script.conversations(), script.turns_total()), (3, 3));
            assert_eq!(script.rows(2), 2..3);
        }
    }
}
