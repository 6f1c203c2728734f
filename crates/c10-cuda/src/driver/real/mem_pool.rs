#![expect(unsafe_code, reason = "allocates and frees in stream order, and asks pools what they hold")]
//! Memory in stream order: the default pool of each device, and what graphs hold.

use std::ffi::{c_uint, c_void};
use std::ptr;

use c10_core::DeviceIndex;

use super::abi::{self, CUdevice, CUmemoryPool, MemAccessDesc, graph_memory, pool};
use super::driver::RealDriver;
use super::memory::length;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{DevicePtr, MemPoolInfo, Status, StreamHandle};
use crate::sync::lock;

/// The pool that a device allocates from in stream order, as long as nobody sets another.
fn default_pool(symbols: &Symbols, device: CUdevice) -> Result<CUmemoryPool, Status> {
    let mut pool: CUmemoryPool = ptr::null_mut();
    // SAFETY: there is room for one pool, and the device is one that the driver gave.
    check(unsafe { (symbols.device_get_default_mem_pool)(&mut pool, device) })?;
    Ok(pool)
}

fn pool_number(symbols: &Symbols, pool: CUmemoryPool, which: c_uint) -> Result<u64, Status> {
    let mut value = 0_u64;
    let room = (&raw mut value).cast::<c_void>();
    // SAFETY: the attributes asked for here are numbers of 64 bits; the device's default pool lives as long as it.
    check(unsafe { (symbols.mem_pool_get_attribute)(pool, which, room) })?;
    Ok(value)
}

fn set_pool_number(symbols: &Symbols, pool: CUmemoryPool, which: c_uint, value: u64) -> Result<(), Status> {
    let mut value = value;
    let room = (&raw mut value).cast::<c_void>();
    // SAFETY: the attributes set here are numbers of 64 bits; the device's default pool lives as long as it.
    check(unsafe { (symbols.mem_pool_set_attribute)(pool, which, room) })
}

fn graph_number(symbols: &Symbols, device: CUdevice, which: c_uint) -> Result<u64, Status> {
    let mut value = 0_u64;
    let room = (&raw mut value).cast::<c_void>();
    // SAFETY: the attributes are numbers of 64 bits, and the device is one that the driver gave.
    check(unsafe { (symbols.device_get_graph_mem_attribute)(device, which, room) })?;
    Ok(value)
}

impl RealDriver {
    pub(super) fn allocate_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr, Status> {
        let ptr = self.on_stream(stream, |symbols, stream| {
            let length = length(bytes)?;
            let mut ptr = 0;
            // SAFETY: there is room for one address, and the stream is live.
            check(unsafe { (symbols.mem_alloc_async)(&mut ptr, length, stream) })?;
            Ok(ptr)
        })?;
        lock(&self.memory).pooled.insert(ptr, (stream.device, bytes));
        Ok(DevicePtr(ptr))
    }

    /// # Safety
    /// As [`Driver::free_async`](crate::driver::Driver::free_async).
    pub(super) unsafe fn free_async_on(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<(), Status> {
        self.on_stream(stream, |symbols, stream| {
            let known = {
                let mut book = lock(&self.memory);
                if ptr.is_null() || book.allocations.contains_key(&ptr.0) {
                    return Err(Status::InvalidValue);
                }
                book.pooled.remove(&ptr.0)
            };
            // SAFETY: the stream is live, and the caller says that nothing unordered uses the memory. An address that
            // is not in the book may be one that a graph allocated anew; any other the driver refuses.
            let freed = check(unsafe { (symbols.mem_free_async)(ptr.0, stream) });
            if let (Err(_), Some(known)) = (freed, known) {
                lock(&self.memory).pooled.insert(ptr.0, known);
            }
            freed
        })
    }

    pub(super) fn pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo, Status> {
        self.on(device, |symbols, device| {
            let pool = default_pool(symbols, device.ordinal)?;
            Ok(MemPoolInfo {
                used: pool_number(symbols, pool, pool::USED)?,
                used_peak: pool_number(symbols, pool, pool::USED_HIGH)?,
                reserved: pool_number(symbols, pool, pool::RESERVED)?,
                reserved_peak: pool_number(symbols, pool, pool::RESERVED_HIGH)?,
            })
        })
    }

    pub(super) fn reset_pool_peaks(&self, device: DeviceIndex) -> Result<(), Status> {
        self.on(device, |symbols, device| {
            let pool = default_pool(symbols, device.ordinal)?;
            set_pool_number(symbols, pool, pool::USED_HIGH, 0)?;
            set_pool_number(symbols, pool, pool::RESERVED_HIGH, 0)
        })
    }

    pub(super) fn set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<(), Status> {
        self.on(device, |symbols, device| {
            let pool = default_pool(symbols, device.ordinal)?;
            set_pool_number(symbols, pool, pool::RELEASE_THRESHOLD, bytes)
        })
    }

    pub(super) fn trim_pool(&self, device: DeviceIndex, keep: u64) -> Result<(), Status> {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        self.on(device, |symbols, device| {
            let pool = default_pool(symbols, device.ordinal)?;
            // SAFETY: the device's default pool lives as long as it.
            check(unsafe { (symbols.mem_pool_trim_to)(pool, keep) })
        })
    }

    pub(super) fn let_into_pool(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<(), Status> {
        let access = MemAccessDesc::read_write(self.device(peer)?.ordinal);
        if device == peer {
            // A device reaches its own pool, and CUDA refuses to be told so.
            return self.device(device).map(drop);
        }
        self.on(device, |symbols, device| {
            let pool = default_pool(symbols, device.ordinal)?;
            // SAFETY: there is one description, and the device's default pool lives as long as it.
            check(unsafe { (symbols.mem_pool_set_access)(pool, &access, 1) })
        })
    }

    pub(super) fn graph_info(&self, device: DeviceIndex) -> Result<MemPoolInfo, Status> {
        self.on(device, |symbols, device| {
            let number = |which| graph_number(symbols, device.ordinal, which);
            Ok(MemPoolInfo {
                used: number(graph_memory::USED)?,
                used_peak: number(graph_memory::USED_HIGH)?,
                reserved: number(graph_memory::RESERVED)?,
                reserved_peak: number(graph_memory::RESERVED_HIGH)?,
            })
        })
    }

    pub(super) fn reset_graph_peaks(&self, device: DeviceIndex) -> Result<(), Status> {
        self.on(device, |symbols, device| {
            for which in [graph_memory::USED_HIGH, graph_memory::RESERVED_HIGH] {
                let mut zero = 0_u64;
                let room = (&raw mut zero).cast::<c_void>();
                // SAFETY: the attributes are numbers of 64 bits, and the device is one that the driver gave.
                check(unsafe { (symbols.device_set_graph_mem_attribute)(device.ordinal, which, room) })?;
            }
            Ok(())
        })
    }
}

// The book counts in what the handles carry.
const _: () = assert!(size_of::<abi::CUdeviceptr>() == size_of::<u64>());
