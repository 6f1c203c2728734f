//! [`Rng`]: chance that a seed decides (SplitMix64).

#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Whether to take the `count`th of several equals, so that each is as likely in the end.
    pub(super) fn takes(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}
