//! [`Rng`]: chance that a seed decides (SplitMix64).

/// A sequence of numbers that its seed fixes.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with the probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        // 53 bits fill a double's mantissa.
        ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// Whether to take the `count`th of several equals, so that each is as likely in the end.
    pub(crate) fn takes(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}
