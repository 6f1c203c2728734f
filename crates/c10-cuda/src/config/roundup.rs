//! [`RoundupPower2Divisions`]: into how many parts the step from one power of two to the next is divided.

use std::fmt;

/// The number of divisions for each interval of sizes: up to 1 MiB, 2 MiB, and so on to 64 GiB and more, by
/// powers of two, as PyTorch has it. 0 and 1 do not round.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundupPower2Divisions([u64; Self::INTERVALS]);

impl RoundupPower2Divisions {
    /// How many intervals there are.
    pub const INTERVALS: usize = 16;
    /// No rounding at all.
    pub const OFF: Self = Self([0; Self::INTERVALS]);

    /// Divisions for each interval; each is 0 or a power of two, or `None` results.
    pub fn new(divisions: [u64; Self::INTERVALS]) -> Option<Self> {
        divisions.iter().all(|d| *d == 0 || d.is_power_of_two()).then_some(Self(divisions))
    }

    /// The divisions of every interval.
    pub fn as_array(&self) -> [u64; Self::INTERVALS] {
        self.0
    }

    /// The divisions that a request of `bytes` is rounded by.
    pub fn of(&self, bytes: u64) -> u64 {
        let log2 = bytes.max(1).ilog2() as usize;
        self.0[log2.saturating_sub(20).min(Self::INTERVALS - 1)]
    }
}

impl fmt::Debug for RoundupPower2Divisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0).finish()
    }
}
