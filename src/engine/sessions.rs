//! Sessions of several turns on one shard: who is at which turn, and whose next turn is due.
//!
//! Conversations of one turn have no session here.

use crate::engine::ConnectionId;
use crate::time::Stamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

/// No session.
pub(crate) const NO_SESSION: u32 = u32::MAX;

/// A conversation under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// Row of the next turn.
    pub(crate) next_row: u32,
    /// One past the row of its last turn.
    pub(crate) end_row: u32,
    pub(crate) correlation_id: u128,
    /// All turns go to one URL.
    pub(crate) url: u16,
    /// When the turn under way, or the last one, was planned.
    pub(crate) planned: Stamp,
    /// When the next turn is due.
    pub(crate) due: Stamp,
    /// The connection kept for it.
    pub(crate) connection: Option<ConnectionId>,
}

/// The sessions of one phase.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    slots: Vec<Session>,
    /// By slot: what its later turns carry. The memory stays with the slot.
    histories: Vec<Vec<u8>>,
    free: Vec<u32>,
    /// Sessions between two turns, by due time and, where that is the same, by the end of the last turn.
    thinking: BinaryHeap<Reverse<(Stamp, u64, u32)>>,
    /// Sessions whose next turn is due, in the order in which it fell due.
    ready: VecDeque<u32>,
    /// Sessions with turns that have not been sent.
    unsent: usize,
    thought: u64,
}

impl Sessions {
    /// Begins a session whose first turn is being sent.
    pub(crate) fn begin(&mut self, session: Session) -> u32 {
        self.unsent += usize::from(session.next_row < session.end_row);
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = session;
            self.history(slot).clear();
            return slot;
        }
        let slot = u32::try_from(self.slots.len()).unwrap_or(NO_SESSION);
        self.slots.push(session);
        self.histories.push(Vec::new());
        // Ending and waiting must find room without asking for memory.
        let room = self.slots.capacity();
        self.free.reserve(room - self.free.len());
        self.ready.reserve(room - self.ready.len());
        self.thinking.reserve(room - self.thinking.len());
        slot
    }

    /// The session in `slot`, which [`Sessions::begin`] named.
    pub(crate) fn at(&mut self, slot: u32) -> &mut Session {
        &mut self.slots[slot as usize]
    }

    /// What later turns of the session in `slot` carry: empty before its first turn has ended.
    pub(crate) fn history(&mut self, slot: u32) -> &mut Vec<u8> {
        &mut self.histories[slot as usize]
    }

    /// The history of the session in `slot`, if there is such a slot.
    pub(crate) fn history_of(&self, slot: u32) -> &[u8] {
        self.histories.get(slot as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the session has turns that have not been sent.
    pub(crate) fn has_more(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|session| session.next_row < session.end_row)
    }

    /// Sessions with turns that have not been sent.
    pub(crate) const fn unsent(&self) -> usize {
        self.unsent
    }

    /// Ends a session that is neither thinking nor ready.
    pub(crate) fn end(&mut self, slot: u32) -> Session {
        let session = self.slots[slot as usize];
        self.unsent -= usize::from(session.next_row < session.end_row);
        self.free.push(slot);
        session
    }

    /// A turn has ended and the next one is due at `due`.
    pub(crate) fn think(&mut self, slot: u32, now: Stamp, due: Stamp) {
        self.at(slot).due = due;
        if due <= now && self.thinking.is_empty() {
            self.ready.push_back(slot);
        } else {
            self.thought += 1;
            self.thinking.push(Reverse((due, self.thought, slot)));
        }
    }

    /// Moves on whose next turn has fallen due.
    pub(crate) fn wake(&mut self, now: Stamp) {
        while let Some(Reverse((due, _, slot))) = self.thinking.peek().copied() {
            if due > now {
                return;
            }
            self.thinking.pop();
            self.ready.push_back(slot);
        }
    }

    /// When the next turn falls due; the past if one is due.
    pub(crate) fn next_due(&self) -> Option<Stamp> {
        match self.ready.front() {
            Some(slot) => self.slots.get(*slot as usize).map(|session| session.due),
            None => self.thinking.peek().map(|Reverse((due, ..))| *due),
        }
    }

    /// The session whose next turn has been due longest.
    pub(crate) fn first_ready(&self) -> Option<u32> {
        self.ready.front().copied()
    }

    /// The next turn of the first ready session is being sent; tells its row.
    pub(crate) fn send_first_ready(&mut self) -> Option<u32> {
        let slot = self.ready.pop_front()?;
        let session = &mut self.slots[slot as usize];
        let row = session.next_row;
        session.next_row += 1;
        self.unsent -= usize::from(session.next_row == session.end_row);
        Some(row)
    }

    /// Takes one session that waits for its next turn, which will not come.
    pub(crate) fn give_up_waiting(&mut self) -> Option<Session> {
        let slot =
            self.ready.pop_front().or_else(|| self.thinking.pop().map(|Reverse((_, _, slot))| slot))?;
        Some(self.end(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(turns: u32) -> Session {
        Session {
            next_row: 1,
            end_row: turns,
            correlation_id: 0,
            url: 0,
            planned: Stamp::ORIGIN,
            due: Stamp::ORIGIN,
            connection: None,
        }
    }

    #[test]
    fn turns_become_ready_in_the_order_of_their_due_times() {
        let mut sessions = Sessions::default();
        let at = Stamp::from_nanos;
        let slots: Vec<u32> = (0..3).map(|_| sessions.begin(session(2))).collect();
        assert_eq!(sessions.unsent(), 3);
        sessions.think(slots[0], at(10), at(30));
        sessions.think(slots[1], at(10), at(20));
        sessions.think(slots[2], at(20), at(20));
        assert_eq!(sessions.next_due(), Some(at(20)));
        sessions.wake(at(25));
        assert_eq!(sessions.first_ready(), Some(slots[1]));
        assert_eq!(sessions.send_first_ready(), Some(1));
        assert_eq!(
            sessions.first_ready(),
            Some(slots[2]),
            "of two at one time the earlier to think is first"
        );
        sessions.wake(at(30));
        assert_eq!(sessions.unsent(), 2);
        let waiting = std::iter::from_fn(|| sessions.give_up_waiting()).count();
        assert_eq!(waiting, 2);
        assert_eq!(sessions.unsent(), 0);
    }

    #[test]
    fn slots_are_used_again() {
        let mut sessions = Sessions::default();
        let first = sessions.begin(session(1));
        assert!(!sessions.has_more(first));
        sessions.end(first);
        assert_eq!(sessions.begin(session(3)), first);
        assert!(sessions.has_more(first));
    }
}
