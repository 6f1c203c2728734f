#![expect(unsafe_code, reason = "implements c10-core's unsafe DeviceHooks over the driver's raw layer")]
//! [`CudaHooks`]: what upper layers may ask of CUDA devices (`c10::cuda::impl::CUDAGuardImpl`).

use c10_core::allocator::{Allocator, set_allocator, set_pinned_allocator};
use c10_core::hooks::{DeviceHooks, Place, register_hooks};
use c10_core::storage::PendingUse;
use c10_core::{DataPtr, DeviceIndex, DeviceType, Event, EventFlags, Result, Stream};

use crate::alloc::CachingAllocator;
use crate::driver::{CopyEnd, DevicePtr, DriverError, StreamHandle};
use crate::error::Error;
use crate::pinned::PinnedAllocator;
use crate::runtime::Runtime;
use crate::stream::CudaStream;
use crate::stream::id::StreamKind;
use crate::sync::Arc;

mod events;
mod stream_work;

use events::EventTable;
use stream_work::StreamWork;

/// The priority by which the allocator is registered, as PyTorch's is: above allocators that are set without one.
const PRIORITY: u8 = 1;

/// The hooks of the CUDA device type, over a caching allocator and its [`Runtime`]. Any number may live in a
/// process; what is [registered](Self::register) serves `c10_core`'s storages and guards.
#[derive(Debug)]
pub struct CudaHooks {
    allocator: CachingAllocator,
    /// The same, as `c10_core` takes it.
    shared: Arc<dyn Allocator>,
    pinned: PinnedAllocator,
    events: EventTable,
}

impl CudaHooks {
    /// Hooks that use the current devices and streams of the allocator's runtime.
    pub fn new(allocator: CachingAllocator) -> Arc<Self> {
        let shared = Arc::new(allocator.clone());
        let settings = allocator.config().pinned.clone();
        let pinned = PinnedAllocator::new(allocator.runtime().clone(), settings);
        let pinned = pinned.expect("the allocator has checked its configuration");
        Arc::new(Self { allocator, shared, pinned, events: EventTable::default() })
    }

    /// Makes these the process's hooks of the CUDA type, in the place of any before, and the allocator the
    /// process's allocator, unless one of a priority above 1 is set already. Says whether the allocator was set. The
    /// process's allocator of pinned memory is set likewise.
    ///
    /// What is registered lives as long as the process.
    pub fn register(self: Arc<Self>) -> bool {
        let shared = Arc::clone(&self.shared);
        set_pinned_allocator(DeviceType::Cuda, Arc::new(self.pinned.clone()), PRIORITY);
        register_hooks(self).expect("only the host and `meta` take no hooks");
        set_allocator(DeviceType::Cuda, shared, PRIORITY)
    }

    /// The runtime whose current devices and streams they use.
    pub fn runtime(&self) -> &Runtime {
        self.allocator.runtime()
    }

    /// The allocator of pinned host memory, with the settings of the other's configuration.
    pub fn pinned_allocator(&self) -> &PinnedAllocator {
        &self.pinned
    }

    /// The allocator.
    pub fn caching_allocator(&self) -> &CachingAllocator {
        &self.allocator
    }

    fn handle(&self, stream: Stream) -> Result<StreamHandle> {
        Ok(self.runtime().handle(stream)?)
    }

    /// An end of a copy.
    fn end(&self, place: Place) -> Result<CopyEnd> {
        let device = place.device;
        match (device.device_type(), device.index()) {
            (DeviceType::Cpu, _) => Ok(CopyEnd::Host(place.address)),
            (DeviceType::Cuda, Some(index)) => {
                self.runtime().check(index)?;
                Ok(CopyEnd::Device(DevicePtr(place.address.addr() as u64)))
            }
            _ => Err(c10_core::Error::invalid_argument(format!("CUDA's copies reach no memory on {device}"))),
        }
    }
}

#[cold]
fn refused(error: DriverError) -> c10_core::Error {
    Error::from(error).into()
}

// SAFETY: the allocator gives memory of the runtime's current device. Streams, synchronising calls and queries are
// the driver's, which promises their order (R3) and that a refused call did nothing (R4). `record_stream` is the
// caching allocator's, which holds a freed block back until an event recorded behind the stream's work has passed.
// What `work_of_stream` gives waits for such an event, too.
unsafe impl DeviceHooks for CudaHooks {
    fn device_type(&self) -> DeviceType {
        DeviceType::Cuda
    }

    fn device_count(&self) -> Result<DeviceIndex> {
        Ok(self.runtime().device_count())
    }

    fn current_device(&self) -> Result<DeviceIndex> {
        Ok(self.runtime().current_device())
    }

    fn set_device(&self, index: DeviceIndex) -> Result<()> {
        Ok(self.runtime().set_device(index)?)
    }

    fn synchronize_device(&self, index: DeviceIndex) -> Result<()> {
        Ok(self.runtime().synchronize(index)?)
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        Arc::clone(&self.shared)
    }

    unsafe fn copy(&self, dst: Place, src: Place, bytes: usize, stream: Stream) -> Result<()> {
        let on = self.handle(stream)?;
        let (dst, src) = (self.end(dst)?, self.end(src)?);
        if let (CopyEnd::Host(_), CopyEnd::Host(_)) = (dst, src) {
            return Err(c10_core::Error::invalid_argument("a copy within the host is not CUDA's"));
        }
        // SAFETY: the caller keeps both ends valid until the stream has done the copy.
        unsafe { self.runtime().driver().copy(dst, src, bytes as u64, on) }.map_err(refused)
    }

    unsafe fn fill(&self, dst: Place, value: u8, bytes: usize, stream: Stream) -> Result<()> {
        let on = self.handle(stream)?;
        let CopyEnd::Device(ptr) = self.end(dst)? else {
            return Err(c10_core::Error::invalid_argument("a fill of host memory is not CUDA's"));
        };
        // SAFETY: the caller keeps the memory valid until the stream has done the fill.
        unsafe { self.runtime().driver().fill(ptr, value, bytes as u64, on) }.map_err(refused)
    }

    fn current_stream(&self, index: DeviceIndex) -> Result<Stream> {
        Ok(self.runtime().current_stream(index)?)
    }

    fn set_current_stream(&self, stream: Stream) -> Result<()> {
        if let Some(StreamKind::External(_)) = StreamKind::of(stream.id()) {
            // Only the driver knows whether it is there.
            self.runtime().driver().capture_state(self.handle(stream)?).map_err(refused)?;
        }
        Ok(self.runtime().set_current_stream(stream)?)
    }

    fn stream_from_pool(&self, index: DeviceIndex, priority: i32) -> Result<Stream> {
        Ok(self.runtime().stream_from_pool(index, priority)?)
    }

    fn query_stream(&self, stream: Stream) -> Result<bool> {
        Ok(CudaStream::new(self.runtime(), stream)?.query()?)
    }

    fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        Ok(CudaStream::new(self.runtime(), stream)?.synchronize()?)
    }

    /// The driver's event is made when it is first recorded.
    fn create_event(&self, index: DeviceIndex, flags: EventFlags) -> Result<Event> {
        Ok(self.events.create(self.runtime(), index, flags)?)
    }

    fn destroy_event(&self, event: Event) -> Result<()> {
        Ok(self.events.destroy(event)?)
    }

    fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        let found = self.events.get(event)?;
        if event.device() != stream.device() {
            return Err(c10_core::Error::invalid_argument(format!(
                "{event} cannot be recorded on {stream}, which is of another device"
            )));
        }
        Ok(found.record(stream)?)
    }

    fn wait_event(&self, event: Event, stream: Stream) -> Result<()> {
        Ok(self.events.get(event)?.wait(stream)?)
    }

    fn query_event(&self, event: Event) -> Result<bool> {
        Ok(self.events.get(event)?.query()?)
    }

    fn synchronize_event(&self, event: Event) -> Result<()> {
        Ok(self.events.get(event)?.synchronize()?)
    }

    fn elapsed_ms(&self, start: Event, end: Event) -> Result<f64> {
        Ok(self.events.get(start)?.elapsed_ms(&*self.events.get(end)?)?)
    }

    /// Memory of any caching allocator on the same driver is its own, and pinned memory that of its allocator.
    fn record_stream(&self, ptr: &DataPtr, stream: Stream) -> Result<()> {
        if self.pinned.record_event(ptr, stream)? {
            return Ok(());
        }
        Ok(self.allocator.record_stream_of_any(ptr, stream)?)
    }

    fn work_of_stream(&self, stream: Stream) -> Result<Arc<dyn PendingUse>> {
        Ok(Arc::new(StreamWork::new(self.runtime(), stream)?))
    }

    fn check_reachable(&self, ptr: &DataPtr) -> Result<()> {
        Ok(self.allocator.check_same_driver(ptr)?)
    }
}
