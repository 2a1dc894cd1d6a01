//! Which conversation a new session takes.

use crate::config::Sampling;
use crate::rng::Mt;
use crate::rng::SAMPLER_RANDOM;
use crate::rng::child_seed;
use crate::rng::numpy::Pcg64;

/// The stream that shuffles.
const SAMPLER_SHUFFLE: &str = "dataset.sampler.shuffle";

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
    /// All in one order, then all again in another.
    Shuffle(Box<Shuffled>),
}

/// An order of all conversations that changes with each pass.
#[derive(Clone, Debug)]
struct Shuffled {
    stream: Pcg64,
    order: Box<[u32]>,
    /// The pass that `order` is for.
    pass: u64,
}

impl Shuffled {
    fn new(conversations: u32, seed: u64) -> Self {
        let mut stream = Pcg64::new(child_seed(seed, SAMPLER_SHUFFLE));
        let mut order: Box<[u32]> = (0..conversations).collect();
        stream.shuffle(&mut order);
        Self { stream, order, pass: 0 }
    }

    fn at(&mut self, position: u64) -> u32 {
        let (pass, place) = (position / self.order.len() as u64, position % self.order.len() as u64);
        while self.pass < pass {
            self.stream.shuffle(&mut self.order);
            self.pass += 1;
        }
        usize::try_from(place).ok().and_then(|place| self.order.get(place)).copied().unwrap_or(0)
    }
}

impl Cursor {
    /// The order of `conversations` (at least 1) that `seed` plans.
    pub fn new(sampling: Sampling, conversations: u32, seed: u64) -> Self {
        let order = match sampling {
            Sampling::Random => Order::Random(Box::new(Mt::for_stream(seed, SAMPLER_RANDOM))),
            Sampling::Sequential => Order::Sequential,
            Sampling::Shuffle => Order::Shuffle(Box::new(Shuffled::new(conversations.max(1), seed))),
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
            Order::Shuffle(shuffled) => {
                self.next = position;
                shuffled.at(position)
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
        for sampling in [Sampling::Random, Sampling::Sequential, Sampling::Shuffle] {
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
