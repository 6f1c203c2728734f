#![expect(unsafe_code, reason = "passes on the contract of the allocator that it wraps")]
//! [`LimitAllocator`]: an adaptor that caps the bytes given out.

use std::sync::Arc;

use super::Allocator;
use crate::data_ptr::{DataPtr, Wrapping};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Wraps any allocator and refuses requests that would take the bytes given out above a limit.
///
/// Bytes count as they are asked for, whatever the inner allocator rounds them to, from before the inner
/// allocator is called until the memory is free again. Memory may outlive the adaptor.
#[derive(Debug)]
pub struct LimitAllocator {
    inner: Arc<dyn Allocator>,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Budget {
    limit: usize,
    live: AtomicUsize,
}

/// A part of the budget, given back at its end.
#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

static LIMIT: Wrapping<Share> = Wrapping::new("limit_allocator");

impl LimitAllocator {
    /// At most `limit` bytes of `inner`'s memory at once.
    pub fn new(inner: Arc<dyn Allocator>, limit: usize) -> Self {
        Self { inner, budget: Arc::new(Budget { limit, live: AtomicUsize::new(0) }) }
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.budget.limit
    }

    /// The bytes that are given out now.
    pub fn live_bytes(&self) -> usize {
        self.budget.live.load(Ordering::Relaxed)
    }

    /// The allocator behind this one.
    pub fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }
}

// SAFETY: the memory is the inner allocator's, whose pointer is owned whole and dropped by the deleter.
unsafe impl Allocator for LimitAllocator {
    fn device(&self) -> Device {
        self.inner.device()
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return self.inner.allocate(0);
        }
        let share = Budget::take(&self.budget, bytes)?;
        let inner = self.inner.allocate(bytes)?;
        Ok(LIMIT.wrap(inner, share))
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { self.inner.copy_data(dst, src, bytes) }
    }
}

impl Budget {
    fn take(budget: &Arc<Self>, bytes: usize) -> Result<Share> {
        let within = |live: usize| live.checked_add(bytes).filter(|&sum| sum <= budget.limit);
        match budget.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(Share { budget: Arc::clone(budget), bytes }),
            Err(live) => Err(budget.exceeded(bytes, live)),
        }
    }

    #[cold]
    fn exceeded(&self, bytes: usize, live: usize) -> Error {
        let limit = self.limit;
        Error::out_of_memory(
            bytes as u64,
            format!(
                "tried to allocate {bytes} bytes with {live} bytes in use under a limit of {limit} bytes"
            ),
        )
        .with_limit_bytes(limit as u64)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.live.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
