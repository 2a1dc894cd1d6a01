//! `NumPy`'s default generator, bit for bit: what AIPerf shuffles with and draws whole lists of lengths from.
//!
//! `default_rng(seed)` is a PCG64 (XSL-RR 128/64) whose state comes out of a `SeedSequence`.

use std::num::Wrapping;

/// The multiplier of the 128-bit linear congruential generator.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The generator that `numpy.random.default_rng(seed)` is.
#[derive(Clone, Debug)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of the last draw, when only the lower one was asked for.
    kept: Option<u32>,
}

impl Pcg64 {
    /// The generator of `default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let wide = |high: u64, low: u64| (u128::from(high) << 64) | u128::from(low);
        let [a, b, c, d] = words;
        let increment = (wide(c, d) << 1) | 1;
        let mut generator = Self { state: 0, increment, kept: None };
        generator.step();
        generator.state = generator.state.wrapping_add(wide(a, b));
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let (high, low) = halves_128(self.state);
        (high ^ low).rotate_right(u32::try_from(self.state >> 122).unwrap_or(0))
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        let (high, low) = halves_64(self.next_u64());
        self.kept = Some(high);
        low
    }

    /// A whole number in `[low, low + range]`, both ends possible, as `integers` draws it.
    pub fn integer(&mut self, low: u64, range: u64) -> u64 {
        low.wrapping_add(self.bounded(range))
    }

    /// Lemire's method: 32 bits at a time where they are enough.
    fn bounded(&mut self, range: u64) -> u64 {
        if range == 0 {
            return 0;
        }
        let Ok(narrow) = u32::try_from(range) else { return self.bounded_64(range) };
        if narrow == u32::MAX {
            return u64::from(self.next_u32());
        }
        let exclusive = narrow + 1;
        let mut product = u64::from(self.next_u32()) * u64::from(exclusive);
        let (_, mut low) = halves_64(product);
        if low < exclusive {
            let threshold = (u32::MAX - narrow) % exclusive;
            while low < threshold {
                product = u64::from(self.next_u32()) * u64::from(exclusive);
                (_, low) = halves_64(product);
            }
        }
        product >> 32
    }

    fn bounded_64(&mut self, range: u64) -> u64 {
        if range == u64::MAX {
            return self.next_u64();
        }
        let exclusive = range + 1;
        let threshold = (u64::MAX - range) % exclusive;
        loop {
            let (high, low) = halves_128(u128::from(self.next_u64()) * u128::from(exclusive));
            if low >= threshold {
                return high;
            }
        }
    }

    /// Shuffles as `Generator.shuffle` does a list.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.interval(last as u64);
            items.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }

    /// A whole number up to `last`: draws beyond it are thrown away.
    fn interval(&mut self, last: u64) -> u64 {
        let mask = u64::MAX >> last.leading_zeros().min(63);
        loop {
            let drawn =
                if u32::try_from(last).is_ok() { u64::from(self.next_u32()) } else { self.next_u64() };
            if drawn & mask <= last {
                return drawn & mask;
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "halves are what is asked for")]
const fn halves_128(value: u128) -> (u64, u64) {
    ((value >> 64) as u64, value as u64)
}

#[expect(clippy::cast_possible_truncation, reason = "halves are what is asked for")]
const fn halves_64(value: u64) -> (u32, u32) {
    ((value >> 32) as u32, value as u32)
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_words(seed: u64) -> [u64; 4] {
    const POOL: usize = 4;
    const MIX_LEFT: Wrapping<u32> = Wrapping(0xca01_f9dd);
    const MIX_RIGHT: Wrapping<u32> = Wrapping(0x4973_f715);
    let (high, low) = halves_64(seed);
    let entropy = if high == 0 { vec![low] } else { vec![low, high] };
    let mut constant = Wrapping(0x43b0_d7e5_u32);
    let mut hash = |value: u32| {
        let mut value = Wrapping(value) ^ constant;
        constant *= 0x931e_8875;
        value *= constant;
        value ^ (value >> 16)
    };
    let mut pool = [Wrapping(0_u32); POOL];
    for (index, word) in pool.iter_mut().enumerate() {
        *word = hash(entropy.get(index).copied().unwrap_or(0));
    }
    for source in 0..POOL {
        for target in (0..POOL).filter(|target| *target != source) {
            let mixed = pool[target] * MIX_LEFT - hash(pool[source].0) * MIX_RIGHT;
            pool[target] = mixed ^ (mixed >> 16);
        }
    }
    let mut constant = Wrapping(0x8b51_f9dd_u32);
    let mut words = pool.iter().cycle().map(|word| {
        let mut value = *word ^ constant;
        constant *= 0x58f3_8ded;
        value *= constant;
        (value ^ (value >> 16)).0
    });
    let mut next = || u64::from(words.next().unwrap_or(0)) | (u64::from(words.next().unwrap_or(0)) << 32);
    std::array::from_fn(|_| next())
}
