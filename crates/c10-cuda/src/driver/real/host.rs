#![expect(unsafe_code, reason = "pins memory of the host")]
//! Pinned memory of the host: allocated here, or the program's own, registered. Both are pinned for all devices.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use c10_core::DeviceIndex;
use cudarc::driver::sys::{CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE};

use super::driver::RealDriver;
use super::memory::length;
use super::status::check;
use crate::driver::Status;
use crate::sync::lock;

/// Pinned memory by address: its length, and the device in whose context it was pinned.
#[derive(Debug, Default)]
pub(super) struct HostMemory {
    allocated: BTreeMap<usize, (u64, DeviceIndex)>,
    registered: BTreeMap<usize, (u64, DeviceIndex)>,
}

impl HostMemory {
    /// Whether any byte of `[at, at + bytes)` is pinned.
    fn touches(&self, at: usize, bytes: usize) -> bool {
        let end = at.saturating_add(bytes);
        [&self.allocated, &self.registered].into_iter().any(|ranges| {
            let before = ranges.range(..end).next_back();
            before.is_some_and(|(&base, &(length, _))| base as u64 + length > at as u64)
        })
    }
}

impl RealDriver {
    /// The device in whose context the host's memory is pinned: one that is in use, so that no other becomes so.
    fn host_device(&self) -> DeviceIndex {
        let in_use = self.devices.iter().position(|device| device.is_in_use());
        in_use.and_then(|index| DeviceIndex::try_from(index).ok()).unwrap_or(0)
    }

    pub(super) fn allocate_host(&self, bytes: u64) -> Result<NonNull<u8>, Status> {
        let length = length(bytes)?;
        let device = self.host_device();
        let ptr = self.on(device, |symbols, _| {
            let mut ptr: *mut c_void = ptr::null_mut();
            // SAFETY: there is room for one address.
            check(unsafe { (symbols.mem_host_alloc)(&mut ptr, length, CU_MEMHOSTALLOC_PORTABLE) })?;
            NonNull::new(ptr.cast::<u8>()).ok_or(Status::OutOfMemory)
        })?;
        // SAFETY: the memory is new, so long, and nobody else's.
        unsafe { ptr::write_bytes(ptr.as_ptr(), 0, length) };
        lock(&self.host_memory).allocated.insert(ptr.as_ptr().expose_provenance(), (bytes, device));
        Ok(ptr)
    }

    /// # Safety
    /// As [`Driver::host_free`](crate::driver::Driver::host_free).
    pub(super) unsafe fn free_host(&self, ptr: NonNull<u8>) -> Result<(), Status> {
        let at = ptr.as_ptr().addr();
        let known = lock(&self.host_memory).allocated.remove(&at).ok_or(Status::InvalidValue)?;
        // SAFETY: it was allocated here and is live, and the caller says that nobody uses it.
        let freed = self.on(known.1, |s, _| check(unsafe { (s.mem_free_host)(ptr.as_ptr().cast()) }));
        if freed.is_err() {
            lock(&self.host_memory).allocated.insert(at, known);
        }
        freed
    }

    /// # Safety
    /// As [`Driver::host_register`](crate::driver::Driver::host_register).
    pub(super) unsafe fn register_host(&self, ptr: NonNull<u8>, bytes: u64) -> Result<(), Status> {
        let at = ptr.as_ptr().expose_provenance();
        let length = length(bytes).map_err(|_| Status::InvalidValue)?;
        let device = self.host_device();
        let mut book = lock(&self.host_memory);
        if at.checked_add(length).is_none() {
            return Err(Status::InvalidValue);
        }
        if book.touches(at, length) {
            return Err(Status::AlreadyMapped);
        }
        self.on(device, |symbols, _| {
            let ptr = ptr.as_ptr().cast::<c_void>();
            // SAFETY: the caller keeps the memory valid until it is unregistered.
            check(unsafe { (symbols.mem_host_register)(ptr, length, CU_MEMHOSTREGISTER_PORTABLE) })
        })?;
        book.registered.insert(at, (bytes, device));
        Ok(())
    }

    /// # Safety
    /// As [`Driver::host_unregister`](crate::driver::Driver::host_unregister).
    pub(super) unsafe fn unregister_host(&self, ptr: NonNull<u8>) -> Result<(), Status> {
        let at = ptr.as_ptr().addr();
        let mut book = lock(&self.host_memory);
        let &(_, device) = book.registered.get(&at).ok_or(Status::InvalidValue)?;
        // SAFETY: it is registered, and the caller says that no work uses it.
        self.on(device, |s, _| check(unsafe { (s.mem_host_unregister)(ptr.as_ptr().cast()) }))?;
        book.registered.remove(&at);
        Ok(())
    }
}
