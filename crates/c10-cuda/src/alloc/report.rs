//! What the allocator tells the process's memory observers, after its lock is given up.

use c10_core::Device;
use c10_core::reporting::{self, MemoryEvent, OutOfMemoryEvent};

use super::device::DeviceState;
use crate::error::OutOfMemory;

/// A block that was handed out or came back, with the totals after it.
#[derive(Clone, Copy, Debug)]
#[must_use = "observers are told once the lock is given up"]
pub(crate) struct Reported {
    device: u8,
    address: u64,
    bytes: i64,
    total_allocated: i64,
    total_reserved: i64,
}

impl Reported {
    /// `bytes` is negative for a block that came back.
    pub(crate) fn new(state: &DeviceState, address: u64, bytes: i64) -> Self {
        Self {
            device: state.index,
            address,
            bytes,
            total_allocated: state.allocated_now(),
            total_reserved: state.stats.reserved_bytes.all.current,
        }
    }

    /// Tells the observers. Not to be called under a lock.
    #[inline]
    pub(crate) fn report(self) {
        reporting::report(|| MemoryEvent {
            address: self.address as usize,
            bytes: self.bytes,
            total_allocated: self.total_allocated as u64,
            total_reserved: self.total_reserved as u64,
            device: Device::cuda(self.device),
        });
    }
}

/// Tells the observers that a request failed. Not to be called under a lock.
pub(crate) fn report_out_of_memory(numbers: &OutOfMemory) {
    reporting::report_out_of_memory(|| OutOfMemoryEvent {
        requested: numbers.requested,
        total_allocated: numbers.allocated,
        total_reserved: numbers.reserved,
        device: Device::cuda(numbers.device),
    });
}
