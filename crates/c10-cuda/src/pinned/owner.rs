#![expect(unsafe_code, reason = "the contexts of DataPtrs are boxes that lead to the pool and the block")]
//! The context of a `DataPtr` of pinned memory.

use std::ffi::c_void;

use c10_core::data_ptr::{DataPtr, DeleterEntry};

use super::pool::Pool;
use crate::sync::Arc;

/// The deleter of pinned memory; its context is an [`Owner`].
static DELETER: DeleterEntry = DeleterEntry::new("cuda_pinned_allocator", run);

/// Leads to a block, and keeps its pool.
struct Owner {
    pool: Arc<Pool>,
    at: usize,
}

impl Pool {
    /// The owner of a block that has just been handed out.
    pub(super) fn own(pool: &Arc<Self>, at: usize) -> DataPtr {
        let owner = Box::into_raw(Box::new(Owner { pool: Arc::clone(pool), at }));
        let address = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: the block's memory is the owner's until `run` gives it back, on whatever thread, and is
        // initialised; the pool is kept until then.
        unsafe { DataPtr::new(address, owner.cast(), &DELETER, c10_core::Device::CPU) }
    }
}

/// The block of memory that is this pool's.
pub(super) fn block_of(ptr: &DataPtr, pool: &Arc<Pool>) -> Option<usize> {
    // SAFETY: contexts under `DELETER` are owners.
    let owner = unsafe { ptr.root().cast_context::<Owner>(&DELETER) }?;
    // SAFETY: `ptr` has not ended, so that its owner is there; owners are never written.
    let owner = unsafe { owner.as_ref() };
    Arc::ptr_eq(&owner.pool, pool).then_some(owner.at)
}

unsafe fn run(context: *mut c_void) {
    // SAFETY: `own` made the context from a box of this type, and a deleter runs once.
    let owner = unsafe { Box::from_raw(context.cast::<Owner>()) };
    owner.pool.free(owner.at);
}
