//! [`Addresses`]: ranges of addresses for many windows each, so that a window costs no call to reserve some.

use crate::driver::{DevicePtr, VaRange};

/// The ranges that windows are in.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    ranges: Vec<Shared>,
}

/// A range, taken from its beginning on. It is of use again when no window is in it.
#[derive(Debug)]
struct Shared {
    range: VaRange,
    taken: u64,
    windows: usize,
}

impl Addresses {
    /// Takes in a range with no window.
    pub(super) fn insert(&mut self, range: VaRange) {
        self.ranges.push(Shared { range, taken: 0, windows: 0 });
    }

    /// Addresses for a window, if there are so many.
    pub(super) fn take(&mut self, bytes: u64) -> Option<VaRange> {
        let shared = self.ranges.iter_mut().find(|shared| shared.range.bytes - shared.taken >= bytes)?;
        let base = shared.range.base.offset(shared.taken);
        shared.taken += bytes;
        shared.windows += 1;
        Some(VaRange { base, bytes })
    }

    /// Notes that a window is gone.
    pub(super) fn leave(&mut self, window: VaRange) {
        let holds = |shared: &&mut Shared| shared.holds(window.base);
        let shared = self.ranges.iter_mut().find(holds).expect("a window has its addresses from a range");
        shared.windows -= 1;
        if shared.windows == 0 {
            shared.taken = 0;
        }
    }

    /// A range that no window is in.
    pub(super) fn unused(&self) -> Option<VaRange> {
        self.ranges.iter().find(|shared| shared.windows == 0).map(|shared| shared.range)
    }

    /// Lets a range go.
    pub(super) fn remove(&mut self, range: VaRange) {
        self.ranges.retain(|shared| shared.range.base != range.base);
    }
}

impl Shared {
    fn holds(&self, at: DevicePtr) -> bool {
        at.0.checked_sub(self.range.base.0).is_some_and(|offset| offset < self.range.bytes)
    }
}
