#![expect(
    unsafe_code,
    reason = "the contexts of DataPtrs are boxes that lead to the functions and the address"
)]
//! The context of a `DataPtr` of pluggable memory, and the allocator as `c10-core` sees it.

use std::ffi::c_void;

use c10_core::allocator::Allocator;
use c10_core::data_ptr::{DataPtr, DeleterEntry};
use c10_core::{Device, DeviceIndex};

use super::functions::PluggableFunctions;
use super::{Given, PluggableAllocator, Table};
use crate::driver::{CopyEnd, DevicePtr};
use crate::sync::{Arc, lock};

/// What an allocator and its memory have in common.
#[derive(Debug)]
pub(super) struct Plugged {
    pub(super) functions: PluggableFunctions,
    pub(super) table: Table,
}

/// The deleter of such memory; its context is an [`Owner`].
static DELETER: DeleterEntry = DeleterEntry::new("cuda_pluggable_allocator", run);

struct Owner {
    plugged: Arc<Plugged>,
    at: DevicePtr,
}

impl Plugged {
    /// Notes what `alloc` has given; `None` where any of it is out already.
    pub(super) fn give_out(&self, at: DevicePtr, given: Given) -> Option<()> {
        let mut table = lock(&self.table.0);
        let before = table.range(..=at.0).next_back();
        let behind = table.range(at.0..).next();
        let end = at.0.checked_add(given.bytes as u64)?;
        if before.is_some_and(|(from, there)| from + there.bytes as u64 > at.0)
            || behind.is_some_and(|(from, _)| *from < end)
        {
            return None;
        }
        table.insert(at.0, given);
        Some(())
    }

    /// Gives back what is out at an address, if anything is.
    pub(super) fn take_back(&self, at: DevicePtr) {
        let given = lock(&self.table.0).remove(&at.0);
        if let Some(given) = given {
            self.functions.call_free(at, given.bytes, given.stream);
        }
    }

    /// The owner of memory that has just been handed out.
    pub(super) fn own(plugged: &Arc<Self>, at: DevicePtr, device: DeviceIndex) -> DataPtr {
        if at.is_null() {
            return DataPtr::null(Device::cuda(device));
        }
        let owner = Box::into_raw(Box::new(Owner { plugged: Arc::clone(plugged), at }));
        let address = std::ptr::without_provenance_mut(at.0 as usize);
        // SAFETY: the memory is the owner's until `run` gives it back, on whatever thread, as the giver of the
        // functions said.
        unsafe { DataPtr::new(address, owner.cast(), &DELETER, Device::cuda(device)) }
    }
}

/// The address of memory that is this allocator's.
pub(super) fn address_of(ptr: &DataPtr, plugged: &Arc<Plugged>) -> Option<DevicePtr> {
    // SAFETY: contexts under `DELETER` are owners.
    let owner = unsafe { ptr.root().cast_context::<Owner>(&DELETER) }?;
    // SAFETY: `ptr` has not ended, so that its owner is there; owners are never written.
    let owner = unsafe { owner.as_ref() };
    Arc::ptr_eq(&owner.plugged, plugged).then_some(owner.at)
}

unsafe fn run(context: *mut c_void) {
    // SAFETY: `own` made the context from a box of this type, and a deleter runs once.
    let Owner { plugged, at } = *unsafe { Box::from_raw(context.cast::<Owner>()) };
    plugged.take_back(at);
}

// SAFETY: the giver of the functions said that what `alloc` gives is its receiver's alone until `free`, and as long as
// asked for.
unsafe impl Allocator for PluggableAllocator {
    fn device(&self) -> Device {
        Self::device(self)
    }

    fn allocate(&self, bytes: usize) -> c10_core::Result<DataPtr> {
        Ok(Self::allocate(self, bytes as u64)?)
    }

    /// Copies in the order of the current stream, and waits for it.
    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> c10_core::Result<()> {
        let stream = self.runtime.current().stream;
        let dst = CopyEnd::Device(DevicePtr(dst.addr() as u64));
        let src = CopyEnd::Device(DevicePtr(src.addr() as u64));
        let driver = self.runtime.driver();
        // SAFETY: the caller answers for both ends until this returns, which is when the copy is done.
        let copied = unsafe { driver.copy(dst, src, bytes as u64, stream) };
        let done = copied.and_then(|()| driver.stream_synchronize(stream));
        Ok(done.map_err(crate::Error::from)?)
    }

    /// Contexts are records of the allocator, and never the address.
    fn is_simple_data_ptr(&self, _: &DataPtr) -> bool {
        false
    }
}
