//! Queues of connection slots that any member can leave in constant time.
//!
//! Deadlines that all lie the same span ahead come due in the order in which they were set, so a queue
//! serves as a timer and needs no heap. Unlike a queue with lazy deletion it never holds more entries than
//! there are slots, however long the span.

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    member: bool,
}

/// The links of all slots for one kind of queue: a slot is in at most one [`Chain`] of these links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
}

/// One queue: its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Chain {
    /// The slot that has been in the queue longest.
    pub(crate) fn front(self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }
}

impl Links {
    /// Makes room for `slots` slots.
    pub(crate) fn grow(&mut self, slots: usize) {
        if self.links.len() < slots {
            self.links.resize(slots, Link { previous: NONE, next: NONE, member: false });
        }
    }

    /// Puts `slot` at the end of `chain`. It must not be in a chain of these links.
    pub(crate) fn push_back(&mut self, chain: &mut Chain, slot: u32) {
        let tail = chain.tail;
        let link = &mut self.links[slot as usize];
        debug_assert!(!link.member, "slot {slot} is queued already");
        *link = Link { previous: tail, next: NONE, member: true };
        if tail == NONE {
            chain.head = slot;
        } else {
            self.links[tail as usize].next = slot;
        }
        chain.tail = slot;
    }

    /// Takes `slot` out of `chain`, if it is in it.
    pub(crate) fn remove(&mut self, chain: &mut Chain, slot: u32) {
        let link = self.links[slot as usize];
        if !link.member {
            return;
        }
        if link.previous == NONE {
            chain.head = link.next;
        } else {
            self.links[link.previous as usize].next = link.next;
        }
        if link.next == NONE {
            chain.tail = link.previous;
        } else {
            self.links[link.next as usize].previous = link.previous;
        }
        self.links[slot as usize].member = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn a_chain_is_a_queue_that_any_member_can_leave(
            operations in prop::collection::vec((any::<bool>(), 0_u32..8), 0..200)
        ) {
            let mut links = Links::default();
            links.grow(8);
            let mut chain = Chain::default();
            let mut model = VecDeque::new();
            for (push, slot) in operations {
                if push && !model.contains(&slot) {
                    links.push_back(&mut chain, slot);
                    model.push_back(slot);
                } else if !push {
                    links.remove(&mut chain, slot);
                    model.retain(|member| *member != slot);
                }
                prop_assert_eq!(chain.front(), model.front().copied());
            }
        }
    }
}
