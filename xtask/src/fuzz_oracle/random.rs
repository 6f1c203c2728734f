//! Pseudorandom numbers by SplitMix64: a seed gives the same trace on every machine and in every version.

/// The generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed` alone.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..end`. What modulo favours is far too little to matter here.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// An index into something of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// One of the numbers.
    pub(crate) fn one_of(&mut self, numbers: &[u64]) -> u64 {
        numbers[self.index(numbers.len())]
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}
