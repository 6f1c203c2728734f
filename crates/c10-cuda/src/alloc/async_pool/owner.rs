#![expect(unsafe_code, reason = "the contexts of DataPtrs are boxes that lead to the pool and the address")]
//! The context of a `DataPtr` of the driver's pool.

use std::ffi::c_void;

use c10_core::data_ptr::{DataPtr, DeleterEntry};

use super::state::AsyncPool;
use crate::driver::DevicePtr;
use crate::sync::Arc;

/// The deleter of such memory; its context is an [`Owner`].
static DELETER: DeleterEntry = DeleterEntry::new("cuda_malloc_async", run);

/// Leads to a block, and keeps its pool.
struct Owner {
    pool: Arc<AsyncPool>,
    at: u64,
}

impl AsyncPool {
    /// The owner of a block that has just been handed out.
    pub(in crate::alloc) fn own(self: &Arc<Self>, ptr: DevicePtr, device: u8) -> DataPtr {
        let owner = Box::into_raw(Box::new(Owner { pool: Arc::clone(self), at: ptr.0 }));
        let address = std::ptr::without_provenance_mut(ptr.0 as usize);
        // SAFETY: the block's memory is the owner's until `run` gives it back, on whatever thread; the pool is kept
        // until then.
        unsafe { DataPtr::new(address, owner.cast(), &DELETER, c10_core::Device::cuda(device)) }
    }
}

/// The pool and the address of memory that came from one.
pub(in crate::alloc) fn pool_of(ptr: &DataPtr) -> Option<(&Arc<AsyncPool>, DevicePtr)> {
    // SAFETY: contexts under `DELETER` are owners.
    let owner = unsafe { ptr.root().cast_context::<Owner>(&DELETER) }?;
    // SAFETY: `ptr` has not ended, so that its owner is there; owners are never written.
    let owner = unsafe { owner.as_ref() };
    Some((&owner.pool, DevicePtr(owner.at)))
}

unsafe fn run(context: *mut c_void) {
    // SAFETY: `own` made the context from a box of this type, and a deleter runs once.
    let owner = unsafe { Box::from_raw(context.cast::<Owner>()) };
    owner.pool.free(owner.at);
}
