//! What the allocator tells the process's memory observers, after its lock is given up.

use c10_core::Device;
use c10_core::reporting::{self, MemoryEvent, OutOfMemoryEvent};

use super::device::DeviceState;
use crate::error::OutOfMemory;

/// A block that was handed out or came back, with the totals after it; nothing where nobody listens.
#[derive(Clone, Copy, Debug)]
#[must_use = "observers are told once the lock is given up"]
pub(crate) struct Reported(Option<MemoryEvent>);

impl Reported {
    /// `bytes` is negative for a block that came back.
    #[inline]
    pub(crate) fn new(state: &DeviceState, address: u64, bytes: i64) -> Self {
        Self(reporting::is_observed().then(|| event(state, address, bytes)))
    }

    /// Tells the observers. Not to be called under a lock.
    #[inline]
    pub(crate) fn report(self) {
        if let Some(event) = self.0 {
            reporting::report(|| event);
        }
    }
}

#[cold]
fn event(state: &DeviceState, address: u64, bytes: i64) -> MemoryEvent {
    MemoryEvent {
        address: address as usize,
        bytes,
        total_allocated: state.usage.allocated_bytes(),
        total_reserved: state.stats.reserved_bytes.all.current as u64,
        device: Device::cuda(state.index),
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
