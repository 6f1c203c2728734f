#![expect(unsafe_code, reason = "declares the allocator's contract: an unsafe trait, raw calls as unsafe fn")]
//! [`Allocator`]: where a [`DataPtr`] comes from (`c10::Allocator`), and the host's allocators and adaptors.

mod cpu;
mod system;

mod caching;
// Its cache is a static, and loom's locks do not outlast one run of a model.
#[cfg(not(loom))]
pub(crate) mod host;
mod size_class;

#[cfg(feature = "mapped")]
mod backing;
#[cfg(feature = "mapped")]
pub mod confine;
#[cfg(feature = "mapped")]
pub mod mapped;
#[cfg(feature = "mapped")]
mod temp_file;

mod deferred;
#[cfg(loom)]
pub mod hand_over;
#[cfg(not(loom))]
mod hand_over;

mod count;
mod fault;
mod limit;
mod meta;

mod registry;

use std::fmt;
use std::ptr;

pub use caching::{CachingCpuAllocator, CachingCpuConfig, CachingCpuStats};
#[cfg(feature = "mapped")]
pub use confine::ConfinedRoot;
pub use count::{AllocationCounts, CountingAllocator};
pub use cpu::CpuAllocator;
pub use deferred::{DeferredFreeAllocator, DeferredFreeConfig, MaxPending};
pub use fault::{Fault, FaultAllocator};
#[cfg(not(loom))]
pub use host::HostAllocator;
pub use limit::LimitAllocator;
#[cfg(feature = "mapped")]
pub use mapped::{MapMode, Mapped, MappedFile};
pub use meta::MetaAllocator;
#[cfg(not(loom))]
pub(crate) use registry::default_host_allocator;
pub use registry::{
    AllocatorRegistry, get_allocator, get_pinned_allocator, set_allocator, set_pinned_allocator,
};
#[cfg(feature = "mapped")]
pub use temp_file::TempFileAllocator;

use crate::data_ptr::{DataPtr, Deleter};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};

/// Gives out memory of one device type.
///
/// # Safety
/// The memory of the `DataPtr` that `allocate(bytes)` returns is on the device that it names and valid for
/// `bytes` bytes, by nobody else used, until its deleter runs. Host memory is initialised (zeroed when it
/// first comes from the system, arbitrary when recycled) and aligned to 64 bytes. What `raw_deleter`
/// returns ends the result of `raw_allocate`.
pub unsafe trait Allocator: fmt::Debug + Send + Sync {
    /// The device on which the next allocation of this thread would be.
    fn device(&self) -> Device;

    /// `bytes` bytes of memory. For 0 bytes the address is null and the device is right all the same.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] with the size, when there is no memory for it. Nothing changes then.
    fn allocate(&self, bytes: usize) -> Result<DataPtr>;

    /// Copies `bytes` bytes from `src` to `dst`, both of this allocator's device. The copy is done when it returns,
    /// on a device with streams too, so that either end can be freed at once.
    ///
    /// # Safety
    /// `src` is valid for reads and `dst` for writes of `bytes` bytes, and they do not overlap.
    ///
    /// # Errors
    /// What the device's driver reports.
    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()>;

    /// New memory with the bytes of `src` in it (`c10::Allocator::clone`). The source's context is ignored.
    ///
    /// # Safety
    /// `src` is valid for reads of `bytes` bytes.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate) and [`copy_data`](Self::copy_data).
    unsafe fn clone_data(&self, src: *const u8, bytes: usize) -> Result<DataPtr> {
        let copy = self.allocate(bytes)?;
        if bytes > 0 {
            // SAFETY: `allocate` promises `bytes` fresh bytes, which overlap nothing; the caller answers for `src`.
            unsafe { self.copy_data(copy.as_ptr(), src, bytes) }?;
        }
        Ok(copy)
    }

    /// Whether address and context of this allocator's memory are one, so that the address alone can be
    /// passed about and freed.
    fn is_simple_data_ptr(&self, ptr: &DataPtr) -> bool {
        ptr::eq(ptr.context(), ptr.as_ptr().cast())
    }

    /// The deleter of all this allocator's memory if that is always [simple](Self::is_simple_data_ptr);
    /// `None` when the raw calls are not supported. An adaptor whose context is not the address returns
    /// `None`. Always the same for one allocator.
    fn raw_deleter(&self) -> Option<Deleter> {
        None
    }

    /// The address of new memory, whose owner the caller now is.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`] without a [`raw_deleter`](Self::raw_deleter); else as
    /// [`allocate`](Self::allocate).
    fn raw_allocate(&self, bytes: usize) -> Result<*mut u8> {
        if self.raw_deleter().is_none() {
            return Err(no_raw_calls(self));
        }
        let mut ptr = self.allocate(bytes)?;
        assert!(
            self.is_simple_data_ptr(&ptr),
            "{self:?} has a raw deleter and memory whose context is not its address"
        );
        let _ = ptr.release_context();
        Ok(ptr.as_ptr())
    }

    /// Frees what [`raw_allocate`](Self::raw_allocate) returned. Null is nothing.
    ///
    /// # Safety
    /// `ptr` is null, or came from this allocator's `raw_allocate`, was not freed, and is not used again.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`] without a [`raw_deleter`](Self::raw_deleter).
    unsafe fn raw_deallocate(&self, ptr: *mut u8) -> Result<()> {
        let deleter = self.raw_deleter().ok_or_else(|| no_raw_calls(self))?;
        if !ptr.is_null() {
            // SAFETY: the address is its own context, and the caller gives it up for the first time.
            unsafe { (deleter.run)(ptr.cast()) };
        }
        Ok(())
    }
}

/// Copies `bytes` bytes of host memory (`c10::Allocator::default_copy_data`): what a host allocator's
/// [`copy_data`](Allocator::copy_data) is.
///
/// # Safety
/// As [`Allocator::copy_data`], both being the host's.
pub unsafe fn default_copy_data(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller answers for both.
    unsafe { ptr::copy_nonoverlapping(src, dst, bytes) };
}

fn no_raw_calls(allocator: &(impl fmt::Debug + ?Sized)) -> Error {
    Error::new(
        ErrorKind::NotImplemented,
        format!("{allocator:?} has no raw calls: its memory has a context of its own"),
    )
}
