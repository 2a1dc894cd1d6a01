//! Which conversation a new session takes.

use crate::config::Sampling;
use crate::rng::Mt;
use crate::rng::SAMPLER_RANDOM;

/// The order of conversations over the whole run. Positions are asked for in ascending order; those in
/// between belong to other shards and are drawn on the way.
#[derive(Clone, Debug)]
pub struct Cursor {
    conversations: u32,
    order: Order,
    /// The position drawn next.
    next: u64,
}

#[derive(Clone, Debug)]
enum Order {
    Random(Box<Mt>),
    Sequential,
}

impl Cursor {
    /// The order of `conversations` (at least 1) that `seed` plans.
    pub fn new(sampling: Sampling, conversations: u32, seed: u64) -> Self {
        let order = match sampling {
            Sampling::Random => Order::Random(Box::new(Mt::for_stream(seed, SAMPLER_RANDOM))),
            // A shuffled dataset is refused before a run (see `config::support`).
            Sampling::Sequential | Sampling::Shuffle => Order::Sequential,
        };
        Self { conversations, order, next: 0 }
    }

    /// The conversation at `position` of the order.
    pub fn conversation(&mut self, position: u64) -> u32 {
        debug_assert!(position >= self.next, "position {position} after {}", self.next);
        match &mut self.order {
            Order::Random(stream) => {
                let mut drawn = 0;
                while self.next <= position {
                    drawn = stream.choice_index(self.conversations as usize);
                    self.next += 1;
                }
                u32::try_from(drawn).unwrap_or(0)
            }
            Order::Sequential => {
                self.next = position;
                u32::try_from(position % u64::from(self.conversations)).unwrap_or(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_42_draws_the_conversations_that_aiperf_draws() {
        let mut cursor = Cursor::new(Sampling::Random, 20, 42);
        let drawn: Vec<u32> = (0..10).map(|position| cursor.conversation(position)).collect();
        assert_eq!(drawn, [0, 18, 9, 2, 0, 0, 9, 0, 11, 15]);
    }

    #[test]
    fn shards_that_skip_positions_draw_alike() {
        for sampling in [Sampling::Random, Sampling::Sequential] {
            let mut whole = Cursor::new(sampling, 7, 1);
            let expected: Vec<u32> = (0..60).map(|position| whole.conversation(position)).collect();
            for shards in [2_u64, 5] {
                for shard in 0..shards {
                    let mut cursor = Cursor::new(sampling, 7, 1);
                    for position in (0..60).filter(|position| position % shards == shard) {
                        assert_eq!(
                            cursor.conversation(position),
                            expected[usize::try_from(position).unwrap_or(0)]
                        );
                    }
                }
            }
        }
    }
}
