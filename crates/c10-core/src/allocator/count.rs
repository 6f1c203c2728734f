#![expect(unsafe_code, reason = "passes on the contract of the allocator that it wraps")]
//! [`CountingAllocator`]: an adaptor that counts bytes and calls.

use std::sync::Arc;

use super::Allocator;
use crate::data_ptr::{DataPtr, Wrapping};
use crate::device::Device;
use crate::error::Result;
use crate::stat::Stat;
use crate::sync::{Mutex, lock};

/// What a [`CountingAllocator`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// The bytes asked for: given out now, at most, and in all.
    pub bytes: Stat,
    /// The pieces of memory likewise. Requests of 0 bytes get none and are not counted.
    pub allocations: Stat,
    /// How many requests failed.
    pub failures: u64,
}

/// Wraps any allocator and counts what goes through it.
///
/// Bytes count as they are asked for, until the memory is free again, which may be after the adaptor's end.
#[derive(Debug)]
pub struct CountingAllocator {
    inner: Arc<dyn Allocator>,
    counts: Arc<Mutex<AllocationCounts>>,
}

/// A piece of memory that is counted as given out.
struct Counted {
    counts: Arc<Mutex<AllocationCounts>>,
    bytes: usize,
}

static COUNT: Wrapping<Counted> = Wrapping::new("counting_allocator");

impl CountingAllocator {
    /// Counts what `inner` gives out from now on.
    pub fn new(inner: Arc<dyn Allocator>) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// The counts, all of one moment.
    pub fn counts(&self) -> AllocationCounts {
        *lock(&self.counts)
    }

    /// Makes the peaks the current values.
    pub fn reset_peak(&self) {
        let mut counts = lock(&self.counts);
        counts.bytes.reset_peak();
        counts.allocations.reset_peak();
    }

    /// The allocator behind this one.
    pub fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }
}

// SAFETY: the memory is the inner allocator's, whose pointer is owned whole and dropped by the deleter.
unsafe impl Allocator for CountingAllocator {
    fn device(&self) -> Device {
        self.inner.device()
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return self.inner.allocate(0);
        }
        let inner = self.inner.allocate(bytes).inspect_err(|_| lock(&self.counts).failures += 1)?;
        {
            let mut counts = lock(&self.counts);
            counts.bytes.increase(bytes as i64);
            counts.allocations.increase(1);
        }
        Ok(COUNT.wrap(inner, Counted { counts: Arc::clone(&self.counts), bytes }))
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.inner.copy_data(dst, src, bytes) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        counts.bytes.decrease(self.bytes as i64);
        counts.allocations.decrease(1);
    }
}
