#![expect(unsafe_code, reason = "promises what the giver of the functions promised")]
//! C functions as the source of a private pool (`torch.cuda.MemPool(allocator)`).

use c10_core::DeviceIndex;

use super::{Given, PluggableAllocator};
use crate::alloc::PoolAllocator;
use crate::driver::{DevicePtr, StreamHandle};

/// Where a pool's blocks may begin.
const ALIGNMENT: u64 = 512;

// SAFETY: the giver of the functions said that what `alloc` gives is memory of the device, that long and nobody
// else's until `free`; what does not lie at a multiple of 512 bytes is given back at once, and what
// lies where something is out already is no memory.
unsafe impl PoolAllocator for PluggableAllocator {
    fn alloc(&self, bytes: u64, device: DeviceIndex, stream: StreamHandle) -> Option<DevicePtr> {
        debug_assert_eq!(device, stream.device, "a stream is of its device");
        let size = usize::try_from(bytes).ok()?;
        let ptr = self.functions().call_alloc(size, stream)?;
        // An address that is out already is not given back: that would take it from whoever has it.
        self.plugged.give_out(ptr, Given { bytes: size, stream, raw: false })?;
        if ptr.0.is_multiple_of(ALIGNMENT) {
            return Some(ptr);
        }
        self.plugged.take_back(ptr);
        None
    }

    fn free(&self, ptr: DevicePtr, _: u64, _: DeviceIndex, _: StreamHandle) {
        self.plugged.take_back(ptr);
    }
}
