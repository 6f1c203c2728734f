#![expect(unsafe_code, reason = "implements c10-core's unsafe Allocator")]
//! The allocator as `c10-core` sees it.

use c10_core::DataPtr;
use c10_core::allocator::{Allocator, default_copy_data};

use super::PinnedAllocator;

// SAFETY: a block is its owner's alone from `allocate` until its deleter runs, as long as asked for or longer,
// zeroed by the driver when it is new, and aligned to a page.
unsafe impl Allocator for PinnedAllocator {
    fn device(&self) -> c10_core::Device {
        c10_core::Device::CPU
    }

    fn allocate(&self, bytes: usize) -> c10_core::Result<DataPtr> {
        Ok(Self::allocate(self, bytes as u64)?)
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> c10_core::Result<()> {
        // SAFETY: the caller answers for both ends.
        unsafe { default_copy_data(dst, src, bytes) };
        Ok(())
    }

    /// Contexts are records of the allocator, and never the address.
    fn is_simple_data_ptr(&self, _: &DataPtr) -> bool {
        false
    }
}
