//! Which entry a new session takes: AIPerf's three ways, entry by entry the same for the same seed.
//!
//! One sampler serves all phases: its place moves on across them. It never ends.

use crate::dataset::draw::Draws;
use crate::rng::numpy::Pcg64;
use crate::rng::{SAMPLER_RANDOM, child_seed};

/// The stream that shuffles.
const SAMPLER_SHUFFLE: &str = "dataset.sampler.shuffle";

/// How entries are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Each as likely as the next, with replacement.
    Random,
    /// In order, again and again.
    #[default]
    Sequential,
    /// All in random order, then all again in another.
    Shuffle,
}

/// Hands out entries.
#[derive(Clone, Debug)]
pub struct Sampler {
    entries: usize,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Random(Box<Draws>),
    Sequential { next: usize },
    Shuffle { stream: Pcg64, order: Vec<usize>, next: usize },
}

impl Sampler {
    /// A sampler of `entries` entries (at least 1) under the run's seed.
    pub fn new(sampling: Sampling, entries: usize, seed: u64) -> Self {
        assert!(entries > 0, "a sampler needs an entry");
        let way = match sampling {
            Sampling::Random => Way::Random(Box::new(Draws::new(seed, SAMPLER_RANDOM))),
            Sampling::Sequential => Way::Sequential { next: 0 },
            Sampling::Shuffle => {
                let mut stream = Pcg64::new(child_seed(seed, SAMPLER_SHUFFLE));
                let mut order: Vec<usize> = (0..entries).collect();
                stream.shuffle(&mut order);
                Way::Shuffle { stream, order, next: 0 }
            }
        };
        Self { entries, way }
    }

    /// The entry of the next session.
    pub fn entry(&mut self) -> usize {
        match &mut self.way {
            Way::Random(draws) => draws.below(self.entries),
            Way::Sequential { next } => {
                let entry = *next;
                *next = (entry + 1) % self.entries;
                entry
            }
            Way::Shuffle { stream, order, next } => {
                if *next == order.len() {
                    stream.shuffle(order);
                    *next = 0;
                }
                let entry = order.get(*next).copied().unwrap_or(0);
                *next += 1;
                entry
            }
        }
    }
}
