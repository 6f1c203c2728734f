#![expect(unsafe_code, reason = "declares the raw calls, which take addresses back, as unsafe fn")]
//! The raw calls: addresses that the caller gives back by hand.

use super::context::{Context, RecordContext};
use super::device::{DeviceState, Locked};
use super::hot::Holder;
use super::ids::BlockId;
use super::{CachingAllocator, handed_out, oom, uncached};
use crate::driver::{DevicePtr, StreamHandle};
use crate::error::Result;
use crate::stream::AsStream;
use crate::sync::lock;

impl CachingAllocator {
    /// `bytes` bytes on the current device, for the current stream (`raw_alloc`). For 0 bytes null.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn raw_alloc(&self, bytes: u64) -> Result<DevicePtr> {
        let current = self.0.runtime.current();
        self.raw_alloc_for(bytes, current.stream)
    }

    /// `bytes` bytes on the device of a stream, for that stream (`raw_alloc_with_stream`).
    ///
    /// # Errors
    /// As [`allocate_on`](Self::allocate_on).
    pub fn raw_alloc_with_stream(&self, bytes: u64, stream: impl AsStream) -> Result<DevicePtr> {
        self.raw_alloc_for(bytes, self.0.runtime.owning_handle(stream)?)
    }

    #[inline]
    fn raw_alloc_for(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        let device = self.device(stream.device)?;
        if bytes == 0 {
            return Ok(DevicePtr::NULL);
        }
        if !self.caches() {
            if let Some(pool) = &self.0.async_pool {
                return pool.malloc(bytes, stream, true, &self.0.callbacks);
            }
            let ptr = uncached::malloc(device, bytes)?;
            lock(&self.0.uncached).insert(ptr.0, device.index);
            return Ok(ptr);
        }
        let caller = device.contexts.gather(RecordContext::State);
        let mut guard = device.lock_unsettled();
        if caller.is_none() {
            if let Some((_, address)) = guard.take_parked(bytes, stream.raw, Holder::Raw) {
                return Ok(DevicePtr(address));
            }
            if let Some((id, address)) = guard.take_plain(bytes, stream.raw, Holder::Raw) {
                let DeviceState { raw, blocks, .. } = &mut *guard;
                raw.insert(blocks, id.index);
                return Ok(DevicePtr(address));
            }
        }
        self.raw_alloc_slowly(device.settled(guard), caller, bytes, stream)
    }

    #[inline(never)]
    fn raw_alloc_slowly(
        &self,
        locked: Locked<'_>,
        caller: Option<Context>,
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<DevicePtr> {
        let (mut locked, id) = self.obtain(locked, caller, bytes, stream.raw)?;
        let (address, reported) = handed_out(&locked, id);
        let DeviceState { raw, blocks, .. } = &mut *locked;
        raw.insert(blocks, id.index);
        locked.hold_raw();
        drop(locked);
        reported.report();
        Ok(DevicePtr(address))
    }

    /// Gives memory of a raw call back (`raw_delete`). Null is nothing.
    ///
    /// # Safety
    /// Nobody uses the memory any more, but work that its own stream orders before what comes, and work that
    /// was declared by [`record_stream_raw`](Self::record_stream_raw).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an address that no raw call gave
    /// out, or that has been given back. What the driver reports, with caching off. Nothing is changed then.
    pub unsafe fn raw_delete(&self, ptr: DevicePtr) -> Result<()> {
        if ptr.is_null() {
            return Ok(());
        }
        if let Some(pool) = &self.0.async_pool {
            return pool.raw_delete(ptr);
        }
        let current = self.0.devices.get(usize::from(self.0.runtime.current().device));
        let caller = current.and_then(|device| device.contexts.gather(RecordContext::All));
        if let Some(device) = current
            && caller.is_none()
        {
            let mut guard = device.lock_unsettled();
            if guard.park_raw(ptr.0) || guard.free_plain_raw(ptr.0) {
                return Ok(());
            }
        }
        // SAFETY: the caller promises the same.
        unsafe { self.raw_delete_slowly(ptr, caller) }
    }

    /// As [`raw_delete`](Self::raw_delete), for whatever has to look further.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn raw_delete_slowly(&self, ptr: DevicePtr, caller: Option<Context>) -> Result<()> {
        if let Some((mut locked, id)) = self.find_raw(ptr) {
            let DeviceState { raw, blocks, .. } = &mut *locked;
            raw.remove(blocks, ptr.0);
            locked.trace.set_caller(caller);
            let freed = locked.free(id);
            drop(locked);
            freed.report();
            return Ok(());
        }
        let device = lock(&self.0.uncached).remove(&ptr.0);
        let device = device.ok_or_else(|| oom::foreign("raw_delete", &ptr.to_string()))?;
        // SAFETY: the map has given up the address, once; the caller answers for its use.
        let freed = unsafe { uncached::free(self.device(device)?, ptr) };
        if freed.is_err() {
            // The memory is still there, and nobody else can have got its address.
            lock(&self.0.uncached).insert(ptr.0, device);
        }
        freed
    }

    /// [`record_stream`](Self::record_stream) for memory of a raw call.
    ///
    /// # Errors
    /// As there.
    pub fn record_stream_raw(&self, ptr: DevicePtr, stream: impl AsStream) -> Result<()> {
        let stream = self.use_of(stream)?;
        if self.0.async_pool.as_ref().is_some_and(|pool| pool.record_stream(ptr, stream)) {
            return Ok(());
        }
        if let Some((mut locked, id)) = self.find_raw(ptr) {
            return Ok(locked.record_stream(id, stream)?);
        }
        // Freeing straight to the driver waits for all of the device.
        let is_uncached = lock(&self.0.uncached).contains_key(&ptr.0);
        if is_uncached { Ok(()) } else { Err(oom::foreign("record_stream_raw", &ptr.to_string())) }
    }

    /// The device that gave out an address in a raw call, locked, and the block. An address does not say which device
    /// it is of; the thread's current one is looked at first, which usually has it.
    pub(super) fn find_raw(&self, ptr: DevicePtr) -> Option<(Locked<'_>, BlockId)> {
        let current = usize::from(self.0.runtime.current().device);
        let (before, from) = self.0.devices.split_at(current.min(self.0.devices.len()));
        from.iter().chain(before).find_map(|device| raw_block(device.lock(), ptr))
    }
}

/// The block at an address that a raw call gave out, with its device.
fn raw_block(locked: Locked<'_>, ptr: DevicePtr) -> Option<(Locked<'_>, BlockId)> {
    let index = locked.raw.get(&locked.blocks, ptr.0)?;
    let id = locked.blocks.id_of(index);
    Some((locked, id))
}
