//! The two counters that shards share.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Hands out request numbers of one phase, each once. Its line of the cache is its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Ticket {
    next: AtomicU64,
}

impl Ticket {
    /// The next number, if it is below `limit`.
    ///
    /// Numbers are handed out without a gap: the count of numbers taken is [`Ticket::taken`].
    pub fn take(&self, limit: Option<u64>) -> Option<u64> {
        let Some(limit) = limit else {
            return Some(self.next.fetch_add(1, Relaxed));
        };
        // A look first: after the last number the line is only read, by any number of shards.
        if self.next.load(Relaxed) >= limit {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        (number < limit).then_some(number)
    }

    /// How many numbers below `limit` have been taken.
    pub fn taken(&self, limit: Option<u64>) -> u64 {
        let next = self.next.load(Relaxed);
        limit.map_or(next, |limit| next.min(limit))
    }

    /// Whether all numbers below `limit` have been taken.
    pub fn exhausted(&self, limit: Option<u64>) -> bool {
        limit.is_some_and(|limit| self.next.load(Relaxed) >= limit)
    }
}

/// Requests in flight over all shards and phases that must be counted together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct InFlight {
    count: AtomicU64,
}

impl InFlight {
    /// Counts one more request in, unless that many are in flight already.
    pub fn enter(&self, limit: Option<u32>) -> bool {
        match limit {
            None => {
                self.count.fetch_add(1, Relaxed);
                true
            }
            Some(limit) => self
                .count
                .fetch_update(Relaxed, Relaxed, |count| (count < u64::from(limit)).then_some(count + 1))
                .is_ok(),
        }
    }

    /// Counts one request out.
    pub fn leave(&self) {
        let before = self.count.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "more requests left than entered");
    }

    /// How many are in flight.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_limit_exactly() {
        let ticket = Ticket::default();
        let numbers: Vec<u64> = std::iter::from_fn(|| ticket.take(Some(5))).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        assert_eq!(ticket.take(Some(5)), None);
        assert_eq!(ticket.taken(Some(5)), 5);
        assert!(ticket.exhausted(Some(5)));
    }
}
