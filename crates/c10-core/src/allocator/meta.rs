#![expect(unsafe_code, reason = "gives out no memory at all, which it promises to be valid")]
//! [`MetaAllocator`]: the memory of `meta` tensors, which is none.

use super::Allocator;
use crate::data_ptr::DataPtr;
use crate::device::Device;
use crate::error::Result;

/// Null addresses on the device `meta`, for any number of bytes: tensors of shapes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaAllocator;

// SAFETY: `meta` has no memory, so that nobody reads or writes at the address.
unsafe impl Allocator for MetaAllocator {
    fn device(&self) -> Device {
        Device::META
    }

    fn allocate(&self, _bytes: usize) -> Result<DataPtr> {
        Ok(DataPtr::null(Device::META))
    }

    unsafe fn copy_data(&self, _dst: *mut u8, _src: *const u8, _bytes: usize) -> Result<()> {
        Ok(())
    }
}
