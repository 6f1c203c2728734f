//! [`Space`]: the free addresses of one region of a device.
//!
//! Lowest first fit in units of 2 MiB, with coalescing: the placement of the stand-in runtime under which
//! PyTorch's own allocator is recorded, so that addresses can be compared.

use std::collections::{BTreeMap, VecDeque};

use crate::driver::DevicePtr;

/// The unit of placement, of capacity and of mappings, in bytes.
pub(super) const GRANULARITY: u64 = 2 << 20;

/// `bytes` rounded up to whole units, unless that is no number.
pub(super) fn round_up(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(GRANULARITY)
}

/// The free ranges of a region, and the addresses that the next requests are told to take.
#[derive(Debug)]
pub(super) struct Space {
    /// Length by first address; no two touch.
    free: BTreeMap<u64, u64>,
    region: (u64, u64),
    script: VecDeque<DevicePtr>,
}

impl Space {
    /// All of `[base, base + bytes)` free.
    pub(super) fn new(base: u64, bytes: u64) -> Self {
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(base, bytes)]) };
        Self { free, region: (base, base + bytes), script: VecDeque::new() }
    }

    /// Replaces the addresses that the next requests take.
    pub(super) fn set_script(&mut self, addresses: Vec<DevicePtr>) {
        self.script = addresses.into();
    }

    /// The address that the next request is told to take.
    pub(super) fn scripted(&self) -> Option<DevicePtr> {
        self.script.front().copied()
    }

    /// The request has taken it.
    pub(super) fn scripted_taken(&mut self) {
        self.script.pop_front();
    }

    /// The lowest aligned place for `bytes` bytes, still free.
    pub(super) fn find(&self, bytes: u64) -> Option<u64> {
        self.free.iter().find_map(|(&base, &len)| {
            let at = round_up(base)?;
            let end = at.checked_add(bytes)?;
            (end <= base + len).then_some(at)
        })
    }

    /// Takes out what of the range lies in the region. All of that is free.
    pub(super) fn take(&mut self, at: u64, bytes: u64) {
        let Some((at, end)) = self.clip(at, bytes) else { return };
        let (&base, &len) = self.free.range(..=at).next_back().expect("the range is free");
        debug_assert!(end <= base + len, "the range is free");
        self.free.remove(&base);
        if base < at {
            self.free.insert(base, at - base);
        }
        if end < base + len {
            self.free.insert(end, base + len - end);
        }
    }

    /// Puts back what of the range lies in the region.
    pub(super) fn give(&mut self, at: u64, bytes: u64) {
        let Some((mut at, mut end)) = self.clip(at, bytes) else { return };
        if let Some(len) = self.free.remove(&end) {
            end += len;
        }
        if let Some((&base, &len)) = self.free.range(..at).next_back()
            && base + len == at
        {
            self.free.remove(&base);
            at = base;
        }
        self.free.insert(at, end - at);
    }

    fn clip(&self, at: u64, bytes: u64) -> Option<(u64, u64)> {
        let start = at.max(self.region.0);
        let end = at.saturating_add(bytes).min(self.region.1);
        (start < end).then_some((start, end))
    }
}
