//! [`Fingerprint`]: FNV-1a, 64 bits. It finds accidents, not forgers: whatever it says, a plan is checked.

#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(super) fn of(bytes: &[u8]) -> u64 {
        let mut print = Self::default();
        print.add(bytes);
        print.value()
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}
