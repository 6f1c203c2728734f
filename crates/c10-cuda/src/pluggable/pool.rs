#![expect(unsafe_code, reason = "promises what the giver of the functions promised")]
//! C functions as the source of a private pool (`torch.cuda.MemPool(allocator)`).

use c10_core::DeviceIndex;

use super::PluggableAllocator;
use crate::alloc::PoolAllocator;
use crate::driver::{DevicePtr, StreamHandle};

/// Where a pool's blocks may begin.
const ALIGNMENT: u64 = 512;

// SAFETY: the giver of the functions said that what `alloc` gives is memory of the device, that long and nobody
// else's until `free`; what does not lie at a multiple of 512 bytes is given back at once.
unsafe impl PoolAllocator for PluggableAllocator {
    fn alloc(&self, bytes: u64, device: DeviceIndex, stream: StreamHandle) -> Option<DevicePtr> {
        debug_assert_eq!(device, stream.device, "a stream is of its device");
        let size = usize::try_from(bytes).ok()?;
        let ptr = self.functions().call_alloc(size, stream)?;
        if ptr.0.is_multiple_of(ALIGNMENT) {
            return Some(ptr);
        }
        self.functions().call_free(ptr, size, stream);
        None
    }

    fn free(&self, ptr: DevicePtr, bytes: u64, _: DeviceIndex, stream: StreamHandle) {
        self.functions().call_free(ptr, bytes as usize, stream);
    }
}
