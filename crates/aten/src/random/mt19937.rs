//! The Mersenne Twister MT19937 of 32 bits (Matsumoto and Nishimura, 1998).

/// Words of state.
pub(super) const WORDS: usize = 624;

/// How far apart the two words are that the recurrence joins.
const SHIFT: usize = 397;

/// The engine: words of state, and which of them come next.
///
/// Invariants, which [`from_parts`](Self::from_parts) checks:
/// - I1: `1 <= left <= WORDS`, where `left - 1` words are left before the state is renewed.
/// - I2: `next + left <= WORDS + 1`, so that no word beyond the last is read.
#[derive(Clone)]
pub(super) struct Mt19937 {
    words: [u32; WORDS],
    left: u32,
    next: u32,
}

impl Mt19937 {
    /// The engine after seeding; of the seed the lower 32 bits count.
    pub(super) fn new(seed: u64) -> Self {
        let mut words = [0; WORDS];
        words[0] = seed as u32;
        for i in 1..WORDS {
            let last = words[i - 1];
            words[i] = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { words, left: 1, next: 0 }
    }

    /// The engine with this state, unless it would break I1 or I2.
    pub(super) fn from_parts(words: [u32; WORDS], left: u32, next: u32) -> Option<Self> {
        let limit = WORDS as u32;
        let valid = (1..=limit).contains(&left) && next <= limit && next + left <= limit + 1;
        // A renewal is due at once: where the next word would have been does not matter.
        (valid || (left == 1 && next <= limit)).then_some(Self { words, left, next })
    }

    /// The words, `left` and `next`.
    pub(super) fn parts(&self) -> (&[u32; WORDS], u32, u32) {
        (&self.words, self.left, self.next)
    }

    /// The next 32 bits.
    #[inline]
    pub(super) fn random(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.renew();
        }
        let mut word = self.words[self.next as usize];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn renew(&mut self) {
        for i in 0..WORDS {
            let joined = (self.words[i] & 0x8000_0000) | (self.words[(i + 1) % WORDS] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[i] = self.words[(i + SHIFT) % WORDS] ^ (joined >> 1) ^ odd;
        }
        (self.left, self.next) = (WORDS as u32, 0);
    }
}
