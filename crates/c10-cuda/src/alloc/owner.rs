#![expect(unsafe_code, reason = "contexts of DataPtrs are pointers to records that outlive them")]
//! The context of a `DataPtr`: a record that leads back to the device and the block, with no look-up.
//!
//! Records stand in chunks that never move. The record of a slot of the block table is made when the slot is
//! first handed out, never changes, and goes with the device; [`DeviceState::keepalive`] keeps the device while
//! any context is out.
//!
//! [`DeviceState::keepalive`]: super::device::DeviceState::keepalive

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use c10_core::data_ptr::{DataPtr, DeleterEntry};

use super::context::{Context, RecordContext};
use super::device::{Device, DeviceState, Locked};
use super::ids::BlockId;
use crate::sync::Arc;

/// The deleter of the caching allocator's memory; its context is a [`Record`].
pub(crate) static DELETER: DeleterEntry = DeleterEntry::new("cuda_caching_allocator", run);

const CHUNK: usize = 256;

/// Leads to a slot of a device's block table.
struct Record {
    device: *const Device,
    index: u32,
}

/// The records of a device, by slot.
#[derive(Debug, Default)]
pub(crate) struct OwnerTable {
    chunks: Vec<NonNull<[Record; CHUNK]>>,
}

// SAFETY: the chunks are owned by the table and hold plain values, which nobody changes.
unsafe impl Send for OwnerTable {}

impl OwnerTable {
    /// The context for the block in slot `index` of `device`.
    #[inline]
    pub(crate) fn context(&mut self, device: &Arc<Device>, index: u32) -> *mut c_void {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.grow(device, chunk);
        }
        let records: *mut Record = self.chunks[chunk].as_ptr().cast();
        // SAFETY: `at` is below the chunk's length.
        unsafe { records.add(at) }.cast()
    }

    /// Makes the records up to a chunk.
    #[cold]
    fn grow(&mut self, device: &Arc<Device>, chunk: usize) {
        let device = Arc::as_ptr(device);
        while self.chunks.len() <= chunk {
            let first = self.chunks.len() * CHUNK;
            let records = Box::new(std::array::from_fn(|i| Record { device, index: (first + i) as u32 }));
            self.chunks.push(NonNull::from(Box::leak(records)));
        }
    }
}

impl Drop for OwnerTable {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: the chunk was leaked from a box here, once; its device is ending, so no context is out.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

/// The device and the slot of this allocator's memory, however many adaptors hold it; `None` for memory from
/// elsewhere.
pub(crate) fn block_of(ptr: &DataPtr) -> Option<(&Device, u32)> {
    // SAFETY: contexts under `DELETER` are records.
    let record = unsafe { ptr.root().cast_context::<Record>(&DELETER) }?;
    // SAFETY: `ptr` has not ended, so that the record and its device are there.
    let record = unsafe { record.as_ref() };
    // SAFETY: as above.
    Some((unsafe { &*record.device }, record.index))
}

impl DeviceState {
    /// The owner of a block that has just been handed out.
    #[inline]
    pub(crate) fn own(&mut self, device: &Arc<Device>, id: BlockId, address: u64) -> DataPtr {
        if self.keepalive.is_none() {
            self.keepalive = Some(Arc::clone(device));
        }
        self.owned += 1;
        let context = self.owners.context(device, id.index);
        let address = ptr::without_provenance_mut(address as usize);
        // SAFETY: the block's memory is the owner's until `run` frees the block, on whatever thread; the record
        // and the device are kept until then.
        unsafe { DataPtr::new(address, context, &DELETER, c10_core::Device::cuda(device.index)) }
    }
}

unsafe fn run(context: *mut c_void) {
    // SAFETY: the context is a record, and its `DataPtr` kept the device until now.
    let record = unsafe { &*context.cast::<Record>() };
    // SAFETY: as above.
    let device = unsafe { &*record.device };
    let caller = device.contexts.gather(RecordContext::All);
    let mut guard = device.lock_unsettled();
    if caller.is_none() {
        if guard.park_owned(record.index) {
            return;
        }
        if !guard.is_hot_and_used(record.index) && guard.free_plain_owned(record.index) {
            return;
        }
    }
    run_slowly(device.unsettled(guard), record.index, caller);
}

/// Frees the block in a slot, where that is not done quickly.
#[inline(never)]
fn run_slowly(mut locked: Locked<'_>, index: u32, caller: Option<Context>) {
    if caller.is_some() {
        locked.settle();
        locked.trace.set_caller(caller);
    } else if locked.free_used(index) {
        return;
    }
    let id = locked.blocks.id_at(index).expect("a context is out, so its slot holds a block");
    let freed = locked.free(id);
    let last = locked.disown();
    drop(locked);
    // With the lock given up, whoever frees the last block may end the device: it is not touched from here on.
    // That is why this is no method of it. Only now may the last reference go, which takes the lock.
    freed.report();
    last.into_iter().for_each(Device::let_go);
}
