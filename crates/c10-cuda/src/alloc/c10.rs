#![expect(unsafe_code, reason = "implements c10-core's unsafe Allocator")]
//! The allocator as `c10-core` sees it.

use c10_core::DataPtr;
use c10_core::allocator::Allocator;

use super::CachingAllocator;
use crate::driver::{CopyEnd, DevicePtr};

// SAFETY: a block is its owner's alone from `malloc` until its deleter runs, and as long as asked for or longer.
unsafe impl Allocator for CachingAllocator {
    fn device(&self) -> c10_core::Device {
        c10_core::Device::cuda(self.runtime().current_device())
    }

    fn allocate(&self, bytes: usize) -> c10_core::Result<DataPtr> {
        Ok(Self::allocate(self, bytes as u64)?)
    }

    /// Copies in the order of the current stream, and waits for it.
    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> c10_core::Result<()> {
        let current = self.runtime().current();
        let dst = CopyEnd::Device(DevicePtr(dst.addr() as u64));
        let src = CopyEnd::Device(DevicePtr(src.addr() as u64));
        let driver = self.runtime().driver();
        // SAFETY: the caller answers for both ends until this returns, which is when the copy is done.
        let copied = unsafe { driver.copy(dst, src, bytes as u64, current.stream) };
        let done = copied.and_then(|()| driver.stream_synchronize(current.stream));
        Ok(done.map_err(crate::Error::from)?)
    }

    /// Contexts are records of the allocator, and never the address.
    fn is_simple_data_ptr(&self, _: &DataPtr) -> bool {
        false
    }
}
