#![expect(unsafe_code, reason = "declares the raw calls, which take addresses back, as unsafe fn")]
//! The raw calls: addresses that the caller gives back by hand.

use c10_core::Stream;

use super::address_map::Place;
use super::device::DeviceState;
use super::{CachingAllocator, handed_out, oom, record_use, uncached};
use crate::driver::{DevicePtr, StreamHandle};
use crate::error::Result;

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
    pub fn raw_alloc_with_stream(&self, bytes: u64, stream: Stream) -> Result<DevicePtr> {
        self.raw_alloc_for(bytes, self.0.runtime.handle(stream)?)
    }

    fn raw_alloc_for(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        let device = self.device(stream.device)?;
        if bytes == 0 {
            return Ok(DevicePtr::NULL);
        }
        if !self.is_enabled() {
            let ptr = uncached::malloc(&device.driver, device.index, bytes)?;
            self.0.raw.insert(ptr.0, Place::Uncached { device: device.index });
            return Ok(ptr);
        }
        let (locked, id) = self.obtain(device, bytes, stream.raw)?;
        let (address, reported) = handed_out(&locked, id);
        drop(locked);
        self.0.raw.insert(address, Place::Block { device: device.index, id });
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
        let place = self.0.raw.remove(ptr.0).ok_or_else(|| oom::foreign("raw_delete", &ptr.to_string()))?;
        match place {
            Place::Block { device, id } => {
                let mut locked = self.device(device)?.lock();
                let freed = locked.free(id);
                drop(locked);
                freed.report();
                Ok(())
            }
            Place::Uncached { device } => {
                // SAFETY: the map has given up the address, once; the caller answers for its use.
                let freed = unsafe { uncached::free(&self.device(device)?.driver, ptr) };
                if freed.is_err() {
                    // The memory is still there, and nobody else can have got its address.
                    self.0.raw.insert(ptr.0, place);
                }
                freed
            }
        }
    }

    /// [`record_stream`](Self::record_stream) for memory of a raw call.
    ///
    /// # Errors
    /// As there.
    pub fn record_stream_raw(&self, ptr: DevicePtr, stream: Stream) -> Result<()> {
        let stream = self.0.runtime.handle(stream)?;
        match self.0.raw.find(ptr.0) {
            Some(Place::Block { device, id }) => {
                // Another thread may have freed it meanwhile: its id lives on while it is free.
                let find = |state: &DeviceState| state.is_handed_out(id).then_some(id);
                record_use(self.device(device)?, find, stream)
            }
            // Freeing straight to the driver waits for all of the device.
            Some(Place::Uncached { .. }) => Ok(()),
            None => Err(oom::foreign("record_stream_raw", &ptr.to_string())),
        }
    }
}
