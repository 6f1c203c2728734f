#![expect(unsafe_code, reason = "allocates and frees memory of devices")]
//! Memory that `malloc` gives, and the book of all device memory: which device an address is on.

use std::collections::{BTreeMap, HashMap};

use c10_core::DeviceIndex;

use super::driver::RealDriver;
use super::status::check;
use crate::driver::{DevicePtr, Status};
use crate::sync::lock;

/// Live memory by first address, without that of reservations.
#[derive(Debug, Default)]
pub(super) struct DeviceMemory {
    /// What `malloc` gave: the device and the length.
    pub(super) allocations: BTreeMap<u64, (DeviceIndex, u64)>,
    /// What `malloc_async` gave. A graph's address leaves when it is first freed, and is the driver's to know then.
    pub(super) pooled: BTreeMap<u64, (DeviceIndex, u64)>,
    /// What was opened of other processes; how long it is they know.
    pub(super) opened: HashMap<u64, DeviceIndex>,
}

/// No memory is longer: what asks for more is out of memory, and not a number that the driver might wrap.
const LONGEST: u64 = 1 << 62;

/// A length as the driver takes it.
pub(super) fn length(bytes: u64) -> Result<usize, Status> {
    match usize::try_from(bytes) {
        Ok(0) => Err(Status::InvalidValue),
        Ok(length) if bytes <= LONGEST => Ok(length),
        _ => Err(Status::OutOfMemory),
    }
}

impl DeviceMemory {
    /// The device of an address, of those that are known here.
    pub(super) fn device_of(&self, ptr: DevicePtr) -> Option<DeviceIndex> {
        let within = |ranges: &BTreeMap<u64, (DeviceIndex, u64)>| {
            let (&base, &(device, bytes)) = ranges.range(..=ptr.0).next_back()?;
            (ptr.0 - base < bytes).then_some(device)
        };
        within(&self.allocations)
            .or_else(|| within(&self.pooled))
            .or_else(|| self.opened.get(&ptr.0).copied())
    }
}

impl RealDriver {
    pub(super) fn allocate(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr, Status> {
        self.device(device)?;
        let length = length(bytes)?;
        let ptr = self.on(device, |symbols, _| {
            let mut ptr = 0;
            // SAFETY: there is room for one address.
            check(unsafe { (symbols.mem_alloc)(&mut ptr, length) })?;
            Ok(ptr)
        })?;
        lock(&self.memory).allocations.insert(ptr, (device, bytes));
        Ok(DevicePtr(ptr))
    }

    /// The device of what `malloc` gave.
    pub(super) fn device_of_allocation(&self, ptr: DevicePtr) -> Result<DeviceIndex, Status> {
        lock(&self.memory).allocations.get(&ptr.0).map(|&(device, _)| device).ok_or(Status::InvalidValue)
    }

    /// # Safety
    /// As [`Driver::free`](crate::driver::Driver::free).
    pub(super) unsafe fn free_allocation(&self, ptr: DevicePtr) -> Result<(), Status> {
        // It leaves the book first: the driver may give the address out anew before this call returns.
        let known = lock(&self.memory).allocations.remove(&ptr.0).ok_or(Status::InvalidValue)?;
        // SAFETY: it is live, and the caller says that nothing will use it.
        let freed = self.on(known.0, |symbols, _| check(unsafe { (symbols.mem_free)(ptr.0) }));
        if freed.is_err() {
            lock(&self.memory).allocations.insert(ptr.0, known);
        }
        freed
    }
}
