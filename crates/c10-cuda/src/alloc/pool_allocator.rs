#![expect(unsafe_code, reason = "declares a trait whose implementers promise that memory is memory")]
//! [`PoolAllocator`]: where the memory of a private pool comes from, if not from the driver's `malloc`.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use c10_core::DeviceIndex;

use crate::driver::{DevicePtr, StreamHandle};

/// A source of segments for private pools (`torch.cuda.MemPool(allocator)`).
///
/// It is called with no lock of the allocator held, and may use it, though not for memory of the same pool: that
/// would ask it again. It does not wait for a thread that begins a capture, which may have to wait for this call. What
/// [`alloc`](Self::alloc) is asked for are whole segments, so that it is called as seldom as the driver would be.
///
/// # Safety
/// What `alloc` gives is memory of the device, at a multiple of 512 bytes, of at least as many bytes, and of nobody
/// else's, until it is given to `free`.
pub unsafe trait PoolAllocator: fmt::Debug + Send + Sync {
    /// `bytes` bytes of the device for work on `stream`; `None` where there are none, which is out of memory.
    fn alloc(&self, bytes: u64, device: DeviceIndex, stream: StreamHandle) -> Option<DevicePtr>;

    /// Takes back what [`alloc`](Self::alloc) gave, with the numbers that it was given. Work on `stream` may still
    /// use it. Once all blocks of a device have ended it may be called by whoever ends the last.
    fn free(&self, ptr: DevicePtr, bytes: u64, device: DeviceIndex, stream: StreamHandle);
}

/// Asks for memory. An allocator that panics has none.
pub(crate) fn alloc(from: &dyn PoolAllocator, bytes: u64, stream: StreamHandle) -> Option<DevicePtr> {
    let asked = catch_unwind(AssertUnwindSafe(|| from.alloc(bytes, stream.device, stream)));
    asked.unwrap_or_else(forget).filter(|ptr| !ptr.is_null())
}

/// Gives memory back. Deleters end here, which may not unwind: what an allocator that panics keeps is its own.
pub(crate) fn free(to: &dyn PoolAllocator, ptr: DevicePtr, bytes: u64, stream: StreamHandle) {
    let given = catch_unwind(AssertUnwindSafe(|| to.free(ptr, bytes, stream.device, stream)));
    given.unwrap_or_else(|payload| forget::<()>(payload).unwrap_or_default());
}

/// A payload's destructor may panic too.
fn forget<T>(payload: Box<dyn std::any::Any + Send>) -> Option<T> {
    std::mem::forget(payload);
    None
}
