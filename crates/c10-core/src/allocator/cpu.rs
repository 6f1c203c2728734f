#![expect(unsafe_code, reason = "pairs blocks of system memory with the deleter that frees them")]
//! [`CpuAllocator`]: host memory straight from the system (`c10::DefaultCPUAllocator`).

use std::ffi::c_void;
use std::ptr::NonNull;

use super::system::SystemBlock;
use super::{Allocator, default_copy_data};
use crate::data_ptr::{DataPtr, Deleter, DeleterEntry};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::reporting::{MemoryEvent, OutOfMemoryEvent, report, report_out_of_memory};
use crate::sync::global::atomic::{AtomicU64, Ordering};

/// Host memory from the system, one request each: 64-byte aligned, zeroed, freed at once.
///
/// Address and context are one, so that the raw calls work. All values of this type are the same allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuAllocator;

/// What all `CpuAllocator`s have given out. One count for the process: a deleter knows its memory alone, and
/// the memory's owner is the system.
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

static FREE: DeleterEntry = DeleterEntry::new("cpu_allocator", free);

impl CpuAllocator {
    /// The bytes that are given out now, in the whole process.
    pub fn live_bytes() -> u64 {
        LIVE_BYTES.load(Ordering::Relaxed)
    }
}

// SAFETY: a system block has as many bytes as were asked for, zeroed and aligned to 64, and is nobody else's
// until `free` runs. Its address is its context, which `free` takes.
unsafe impl Allocator for CpuAllocator {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let Some(block) = SystemBlock::allocate(bytes) else {
            return Err(no_memory(bytes));
        };
        let live = LIVE_BYTES.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        report(|| event(block.address(), bytes as i64, live));
        let address = block.into_address().as_ptr();
        // SAFETY: the block is valid until `free` takes it back by its address, on whatever thread.
        Ok(unsafe { DataPtr::new(address, address.cast(), &FREE, Device::CPU) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { default_copy_data(dst, src, bytes) };
        Ok(())
    }

    fn raw_deleter(&self) -> Option<Deleter> {
        Some(&FREE)
    }
}

unsafe fn free(context: *mut c_void) {
    let address = NonNull::new(context.cast()).expect("a deleter is not run on null");
    // SAFETY: the context is the address of a block that `allocate` gave away, and comes back once.
    let block = unsafe { SystemBlock::from_address(address) };
    let (address, bytes) = (block.address(), block.bytes());
    let live = LIVE_BYTES.fetch_sub(bytes as u64, Ordering::Relaxed) - bytes as u64;
    // Before the system has it back: another thread may be given the same address at once, and an observer
    // should not hear of that first.
    report(|| event(address, -(bytes as i64), live));
    block.free();
}

fn event(address: usize, bytes: i64, live: u64) -> MemoryEvent {
    MemoryEvent { address, bytes, total_allocated: live, total_reserved: live, device: Device::CPU }
}

#[cold]
fn no_memory(bytes: usize) -> Error {
    let live = CpuAllocator::live_bytes();
    report_out_of_memory(|| OutOfMemoryEvent {
        requested: bytes as u64,
        total_allocated: live,
        total_reserved: live,
        device: Device::CPU,
    });
    host_out_of_memory(bytes)
}

/// The error of a host allocator that the system has no memory for. PyTorch's words, without the place in
/// its source that they begin with.
#[cold]
pub(super) fn host_out_of_memory(bytes: usize) -> Error {
    Error::out_of_memory(
        bytes as u64,
        format!(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. \
             Error code 12 (Cannot allocate memory)"
        ),
    )
}
