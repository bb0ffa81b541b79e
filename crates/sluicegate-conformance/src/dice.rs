//! A seeded random generator that is identical on every platform and in every version.
//!
//! Seeds in bug reports stay valid when a dependency changes.

/// A `SplitMix64` generator (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator seeded with a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        // FNV-1a: any function that spreads the bytes is good enough.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Returns any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if that is 0. The bias doesn't matter here.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Returns a number from `least` to `most`, inclusive.
    pub const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns an index into a collection of this length.
    pub fn below_len(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        usize::try_from(self.below(length)).unwrap_or(0)
    }

    /// Returns `true` once in `count` calls, on average.
    pub const fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns one of these choices, all equally likely.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below_len(choices.len())].clone()
    }
}
