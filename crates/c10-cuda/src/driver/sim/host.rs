//! Pinned host memory: which ranges are live, and the limit.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};

use super::host_bytes::alloc_pinned;
use super::state::State;
use crate::driver::Status;

/// The live ranges. What is never freed outlives the driver: the program may still use it.
#[derive(Debug)]
pub(super) struct Pinned {
    /// Length by address, of what the driver gave.
    ranges: BTreeMap<usize, u64>,
    /// The same of what was registered.
    registered: BTreeMap<usize, u64>,
    /// What was freed while work was under way: addresses, their provenance exposed, and lengths.
    retired: Vec<(usize, u64)>,
    in_use: u64,
    limit: u64,
}

impl Pinned {
    pub(super) const fn new(limit: u64) -> Self {
        Self { ranges: BTreeMap::new(), registered: BTreeMap::new(), retired: Vec::new(), in_use: 0, limit }
    }

    /// Forgets a live range; gives its length.
    pub(super) fn forget(&mut self, ptr: NonNull<u8>) -> Result<u64, Status> {
        let bytes = self.ranges.remove(&ptr.as_ptr().addr()).ok_or(Status::InvalidValue)?;
        self.in_use -= bytes;
        Ok(bytes)
    }

    /// Keeps a range that was forgotten until no work is under way.
    pub(super) fn retire(&mut self, ptr: NonNull<u8>, bytes: u64) {
        self.retired.push((ptr.as_ptr().expose_provenance(), bytes));
    }

    /// All that was kept.
    pub(super) fn take_retired(&mut self) -> impl Iterator<Item = (NonNull<u8>, u64)> {
        let retired = std::mem::take(&mut self.retired).into_iter();
        retired.filter_map(|(at, bytes)| Some((NonNull::new(ptr::with_exposed_provenance_mut(at))?, bytes)))
    }

    /// Counts the program's own memory as pinned.
    pub(super) fn register(&mut self, ptr: NonNull<u8>, bytes: u64) -> Result<(), Status> {
        let at = ptr.as_ptr().addr();
        let length = usize::try_from(bytes).ok().filter(|&n| n != 0);
        let end = length.and_then(|n| at.checked_add(n)).ok_or(Status::InvalidValue)?;
        let touches = |ranges: &BTreeMap<usize, u64>| {
            ranges.range(..end).next_back().is_some_and(|(&base, &len)| base + len as usize > at)
        };
        if touches(&self.ranges) || touches(&self.registered) {
            return Err(Status::AlreadyMapped);
        }
        if bytes > self.limit - self.in_use {
            return Err(Status::OutOfMemory);
        }
        self.in_use += bytes;
        self.registered.insert(at, bytes);
        Ok(())
    }

    /// Forgets registered memory; gives its length.
    pub(super) fn unregister(&mut self, ptr: NonNull<u8>) -> Result<u64, Status> {
        let bytes = self.registered.remove(&ptr.as_ptr().addr()).ok_or(Status::InvalidValue)?;
        self.in_use -= bytes;
        Ok(bytes)
    }
}

impl State {
    pub(super) fn host_alloc(&mut self, bytes: u64) -> Result<NonNull<u8>, Status> {
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        self.forbid_in_capture()?;
        let pinned = &mut self.pinned;
        if bytes > pinned.limit - pinned.in_use {
            return Err(Status::OutOfMemory);
        }
        let ptr = alloc_pinned(bytes).ok_or(Status::OutOfMemory)?;
        pinned.in_use += bytes;
        pinned.ranges.insert(ptr.as_ptr().addr(), bytes);
        Ok(ptr)
    }
}
