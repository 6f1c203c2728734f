#![expect(unsafe_code, reason = "declares the hooks' contract: an unsafe trait, raw copies as unsafe fn")]
//! [`DeviceHooks`]: what upper layers may ask of a device type (`c10::impl::DeviceGuardImplInterface`, and of
//! `at::DeviceAllocator` what concerns streams), and the registry with one slot per type.
//!
//! The host needs no hooks: its memory is copied by the processor, and it has no streams.

use std::fmt;
use std::sync::Arc;

use crate::allocator::Allocator;
use crate::data_ptr::DataPtr;
use crate::device::{Device, DeviceIndex, DeviceType};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventFlags};
use crate::storage::PendingUse;
use crate::stream::{Stream, StreamId};

mod registry;

pub use registry::{hooks, register_hooks, require_hooks, unregister_hooks};

/// What upper layers may ask of one type of device.
///
/// Current device and current stream are the calling thread's. Streams, events and indices are plain values
/// that anybody can make up: a call that is given one which this type does not know returns
/// [`ErrorKind::InvalidArgument`]. Every other error is what the driver reports ([`ErrorKind::Driver`]); the
/// call then did nothing.
///
/// # Safety
/// - [`allocator`](Self::allocator) gives memory of this type, on the thread's current device.
/// - Work on one stream runs in the order in which it was enqueued. When
///   [`synchronize_stream`](Self::synchronize_stream) or [`synchronize_event`](Self::synchronize_event)
///   returns `Ok`, or a query `Ok(true)`, the work enqueued before has ended, and touches no memory any more.
/// - A [`copy`](Self::copy) or [`fill`](Self::fill) that returned an error enqueued nothing.
/// - When what [`work_of_stream`](Self::work_of_stream) gives is done, so is the work that the stream held then.
/// - After [`record_stream`](Self::record_stream) the memory is not given out anew before the work that is
///   on the stream when it is freed has ended.
pub unsafe trait DeviceHooks: fmt::Debug + Send + Sync {
    /// The type these hooks are for.
    fn device_type(&self) -> DeviceType;

    /// How many devices there are.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn device_count(&self) -> Result<DeviceIndex>;

    /// The calling thread's current device.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn current_device(&self) -> Result<DeviceIndex>;

    /// Makes `index` the calling thread's current device.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn set_device(&self, index: DeviceIndex) -> Result<()>;

    /// Makes `index` the current device and returns the one before (`exchangeDevice`).
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn exchange_device(&self, index: DeviceIndex) -> Result<DeviceIndex> {
        let before = self.current_device()?;
        if before != index {
            self.set_device(index)?;
        }
        Ok(before)
    }

    /// Waits until all work of a device has ended.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn synchronize_device(&self, index: DeviceIndex) -> Result<()>;

    /// The allocator of the type's memory.
    fn allocator(&self) -> Arc<dyn Allocator>;

    /// Enqueues a copy of `bytes` bytes on `stream`, between memory of this type and memory of this type or
    /// the host's. It may return before the copy is done.
    ///
    /// # Safety
    /// `src` is valid for reads and `dst` for writes of `bytes` bytes, in the way of the device each is said
    /// to be on, until the copy is done. They do not overlap.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    unsafe fn copy(&self, dst: Place, src: Place, bytes: usize, stream: Stream) -> Result<()>;

    /// Enqueues the setting of `bytes` bytes at `dst` to `value` on `stream`.
    ///
    /// # Safety
    /// `dst` is memory of this type, valid for writes of `bytes` bytes until the fill is done.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    unsafe fn fill(&self, dst: Place, value: u8, bytes: usize, stream: Stream) -> Result<()>;

    /// The stream that is current on a device for the calling thread.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn current_stream(&self, index: DeviceIndex) -> Result<Stream>;

    /// Makes `stream` the current one of its device. The current device stays.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn set_current_stream(&self, stream: Stream) -> Result<()>;

    /// Makes `stream` the current one of its device and returns the one before (`exchangeStream`).
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn exchange_stream(&self, stream: Stream) -> Result<Stream> {
        let before = self.current_stream(stream.device_index())?;
        if before != stream {
            self.set_current_stream(stream)?;
        }
        Ok(before)
    }

    /// The default stream of a device.
    fn default_stream(&self, index: DeviceIndex) -> Stream {
        Stream::new(self.device_type(), index, StreamId(0))
    }

    /// A stream of the device's pool (`getStreamFromGlobalPool`). Lower numbers come first; 0 is the lowest
    /// priority.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn stream_from_pool(&self, index: DeviceIndex, priority: i32) -> Result<Stream>;

    /// Whether all work of a stream has ended.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn query_stream(&self, stream: Stream) -> Result<bool>;

    /// Waits until the work that is on a stream now has ended.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn synchronize_stream(&self, stream: Stream) -> Result<()>;

    /// A new event of a device, not yet recorded.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn create_event(&self, index: DeviceIndex, flags: EventFlags) -> Result<Event>;

    /// Ends an event. What waits for it already still does.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn destroy_event(&self, event: Event) -> Result<()>;

    /// Makes `event` the place after the work that is on `stream` now; a place it was before is forgotten.
    ///
    /// # Errors
    /// As [the trait](Self) says; [`ErrorKind::InvalidArgument`] too when they are of different devices.
    fn record_event(&self, event: Event, stream: Stream) -> Result<()>;

    /// Makes what is enqueued on `stream` from now on wait for `event` (`block`). An event that was never
    /// recorded is not waited for.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn wait_event(&self, event: Event, stream: Stream) -> Result<()>;

    /// Whether the work before `event` has ended; `true` when it was never recorded.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn query_event(&self, event: Event) -> Result<bool>;

    /// Waits on the host for `event`; at once when it was never recorded.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn synchronize_event(&self, event: Event) -> Result<()>;

    /// The time from `start` to `end`, in milliseconds (`elapsedTime`).
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`] where the type has no clock; [`ErrorKind::InvalidArgument`] when one of
    /// them was made without timing or is not recorded, [`ErrorKind::Busy`] when one is not reached yet.
    fn elapsed_ms(&self, start: Event, end: Event) -> Result<f64> {
        let _ = (start, end);
        Err(Error::new(ErrorKind::NotImplemented, format!("{} events have no clock", self.device_type())))
    }

    /// Tells the owner of `ptr` that work on `stream` uses it (`recordDataPtrOnStream`), so that it is not
    /// given out anew too early. It looks for its own at [`DataPtr::root`]; memory of others is left alone.
    ///
    /// # Errors
    /// As [the trait](Self) says.
    fn record_stream(&self, ptr: &DataPtr, stream: Stream) -> Result<()>;

    /// What a stream holds now, as something that host memory can wait for: whoever enqueues a copy that uses host
    /// memory, and does not wait for it, defers to this
    /// ([`AccessSet::defer_read`](crate::storage::AccessSet::defer_read)). Unlike an [`Event`], nobody else can
    /// record it anew.
    ///
    /// By default it waits at once, and gives what is done.
    ///
    /// # Errors
    /// As [the trait](Self) says. The work may be under way then.
    fn work_of_stream(&self, stream: Stream) -> Result<Arc<dyn PendingUse>> {
        self.synchronize_stream(stream)?;
        Ok(Arc::new(Done))
    }

    /// Refuses memory of this type that these hooks cannot reach, as that of another driver. What they do not know
    /// is taken to be reachable: whoever made it has promised that.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it cannot be reached.
    fn check_reachable(&self, ptr: &DataPtr) -> Result<()> {
        let _ = ptr;
        Ok(())
    }
}

/// Work that has ended.
#[derive(Debug)]
struct Done;

// SAFETY: there is no work that could touch memory.
unsafe impl PendingUse for Done {
    fn is_done(&self) -> Result<bool> {
        Ok(true)
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }
}

/// An address and the device that it is an address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address. Not to be dereferenced by the host unless the device is the host.
    pub address: *mut u8,
    /// The device, with its index if it is not the host.
    pub device: Device,
}
