//! AIPerf's seeded random streams, bit for bit.
//!
//! Every stream is named by its purpose: SHA-256 of the run's seed and the name gives the stream's own
//! seed, an MT19937 in `CPython`'s seeding gives the draws. The same seed and name give the same draws on
//! every machine and for any number of shards. This module takes no entropy: what has no seed does not
//! come here. Vectors of AIPerf itself stand in `tests/rng_vectors.rs`.

pub mod numpy;

use sha2::{Digest, Sha256};

/// Gaps between requests of a Poisson phase.
pub const POISSON_INTERVAL: &str = "timing.request.poisson_interval";
/// Gaps between requests of a gamma phase.
pub const GAMMA_INTERVAL: &str = "timing.request.gamma_interval";
/// Which requests of a phase are cancelled.
pub const CANCELLATION: &str = "timing.request.cancellation";
/// Steps of a Poisson ramp.
pub const RAMP_POISSON: &str = "timing.ramp.poisson";
/// Which dataset entry comes next when entries are drawn with replacement.
pub const SAMPLER_RANDOM: &str = "dataset.sampler.random";

/// The seed of the stream `identifier` under the run's seed: the first 8 bytes, big-endian, of SHA-256 over
/// `"{seed}:{identifier}"`.
pub fn child_seed(seed: u64, identifier: &str) -> u64 {
    let digest = Sha256::new().chain_update(format!("{seed}:")).chain_update(identifier).finalize();
    digest.iter().take(8).fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

/// A Mersenne Twister (MT19937) whose draws equal those of `CPython`'s `random.Random(seed)`.
///
/// It is two and a half kilobytes large: keep one per stream, not per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mt {
    words: rand_mt::Mt,
}

impl Mt {
    /// The generator that `random.Random(seed)` is.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (low_word(seed), low_word(seed >> 32));
        let words =
            if high == 0 { rand_mt::Mt::new_with_key([low]) } else { rand_mt::Mt::new_with_key([low, high]) };
        Self { words }
    }

    /// The stream `identifier` of a run with this seed, at its start.
    pub fn for_stream(seed: u64, identifier: &str) -> Self {
        Self::new(child_seed(seed, identifier))
    }

    /// A number in `[0, 1)`, all 53 bits of it random.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        let high = f64::from(self.words.next_u32() >> 5);
        let low = f64::from(self.words.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// Seconds to the next event of a Poisson process of `rate_per_s` events per second (positive).
    #[inline]
    pub fn exponential(&mut self, rate_per_s: f64) -> f64 {
        -(1.0 - self.uniform()).ln() / rate_per_s
    }

    /// A gamma variate of `shape` and `scale` (both positive); its mean is `shape * scale`.
    ///
    /// The method follows the shape as in `CPython`: Cheng 1977 above 1, an exponential at 1, Kennedy and
    /// Gentle's GS below 1. The number of draws it takes varies.
    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape > 1.0 {
            self.gamma_above_one(shape) * scale
        } else if shape < 1.0 {
            self.gamma_below_one(shape) * scale
        } else {
            -(1.0 - self.uniform()).ln() * scale
        }
    }

    fn gamma_above_one(&mut self, shape: f64) -> f64 {
        // Kept in CPython's order of operations: each rounding is part of the contract.
        let spread = (2.0 * shape - 1.0).sqrt();
        let offset = shape - 4.0_f64.ln();
        let weight = shape + spread;
        let squeeze = 1.0 + 4.5_f64.ln();
        loop {
            let first = self.uniform();
            if !(1e-7 < first && first < 0.999_999_9) {
                continue;
            }
            let second = 1.0 - self.uniform();
            let v = (first / (1.0 - first)).ln() / spread;
            let x = shape * v.exp();
            let z = first * first * second;
            let r = offset + weight * v - x;
            if r + squeeze - 4.5 * z >= 0.0 || r >= z.ln() {
                return x;
            }
        }
    }

    fn gamma_below_one(&mut self, shape: f64) -> f64 {
        loop {
            let b = (std::f64::consts::E + shape) / std::f64::consts::E;
            let p = b * self.uniform();
            let x = if p <= 1.0 { p.powf(1.0 / shape) } else { -((b - p) / shape).ln() };
            let trial = self.uniform();
            let accepted = if p > 1.0 { trial <= x.powf(shape - 1.0) } else { trial <= (-x).exp() };
            if accepted {
                return x;
            }
        }
    }

    /// A whole number below `n`, each as likely as the next; what `random.choice` takes from a list of `n`.
    ///
    /// Draws are rejected rather than folded, so their number varies. An `n` of zero has no answer and
    /// gives 0 without a draw.
    pub fn choice_index(&mut self, n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let drawn = self.bits(bits);
            if let Ok(index) = usize::try_from(drawn)
                && index < n
            {
                return index;
            }
        }
    }

    /// `bits` random bits, 1 to 64 of them, in the low end; the least significant word is drawn first.
    fn bits(&mut self, bits: u32) -> u64 {
        debug_assert!((1..=64).contains(&bits), "a draw has 1 to 64 bits");
        if bits <= 32 {
            return u64::from(self.words.next_u32() >> (32 - bits));
        }
        let low = u64::from(self.words.next_u32());
        let high = u64::from(self.words.next_u32() >> (64 - bits));
        (high << 32) | low
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
const fn low_word(value: u64) -> u32 {
    value as u32
}
