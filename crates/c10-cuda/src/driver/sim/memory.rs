//! Memory that `malloc` gives: which ranges are live, and how much of a device is in use.

use std::collections::BTreeMap;

use c10_core::DeviceIndex;

use super::space::round_up;
use super::state::State;
use crate::driver::{DevicePtr, MemoryInfo, Status};

/// A range that `malloc` gave.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) device: DeviceIndex,
    /// What it takes of the addresses: whole units where the simulator chose the place.
    pub(super) extent: u64,
    /// What it takes of the device's memory.
    pub(super) capacity: u64,
}

/// What lives at which address.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By first address; no two overlap, on any device.
    pub(super) allocations: BTreeMap<u64, Allocation>,
    /// How many ranges have come to life.
    pub(super) births: u64,
}

impl Memory {
    /// Whether any live range or reservation touches `[at, at + bytes)`.
    fn is_taken(&self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        self.allocations.range(..end).next_back().is_some_and(|(&base, a)| base + a.extent > at)
    }
}

impl State {
    pub(super) fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo, Status> {
        let device = self.device(device)?;
        Ok(MemoryInfo { free: device.total - device.in_use, total: device.total })
    }

    pub(super) fn malloc(&mut self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr, Status> {
        let state = self.device(device)?;
        if bytes == 0 {
            return Err(Status::InvalidValue);
        }
        let capacity = round_up(bytes).ok_or(Status::OutOfMemory)?;
        if capacity > state.total - state.in_use {
            return Err(Status::OutOfMemory);
        }
        let scripted = state.malloc_space.scripted();
        let (at, extent) = match scripted {
            Some(at) => (self.check_scripted(at, bytes)?, bytes),
            None => (state.malloc_space.find(capacity).ok_or(Status::OutOfMemory)?, capacity),
        };
        self.take_addresses(at, extent);
        let state = self.device_mut(device)?;
        state.in_use += capacity;
        if scripted.is_some() {
            state.malloc_space.scripted_taken();
        }
        self.memory.allocations.insert(at, Allocation { device, extent, capacity });
        Ok(DevicePtr(at))
    }

    /// Frees a range; the work that is under way goes on. Gives its device and capacity.
    pub(super) fn free(&mut self, ptr: DevicePtr) -> Result<(), Status> {
        let allocation = self.memory.allocations.remove(&ptr.0).ok_or(Status::InvalidValue)?;
        self.give_addresses(ptr.0, allocation.extent);
        self.device_mut(allocation.device)?.in_use -= allocation.capacity;
        Ok(())
    }

    /// Whether a range can lie where a script puts it.
    pub(super) fn check_scripted(&self, at: DevicePtr, bytes: u64) -> Result<u64, Status> {
        let fits = !at.is_null() && at.0.checked_add(bytes).is_some() && !self.memory.is_taken(at.0, bytes);
        if fits { Ok(at.0) } else { Err(Status::InvalidValue) }
    }

    /// Takes a range out of the regions that it touches: a scripted one may lie in any.
    pub(super) fn take_addresses(&mut self, at: u64, bytes: u64) {
        for device in &mut self.devices {
            device.malloc_space.take(at, bytes);
            device.va_space.take(at, bytes);
        }
    }

    pub(super) fn give_addresses(&mut self, at: u64, bytes: u64) {
        for device in &mut self.devices {
            device.malloc_space.give(at, bytes);
            device.va_space.give(at, bytes);
        }
    }
}
