#![expect(unsafe_code, reason = "hands on the promise of who adopts a stream")]
//! [`CudaStream`]: a stream that knows its runtime (`c10::cuda::CUDAStream`, `torch.cuda.Stream`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use c10_core::{DeviceIndex, EventFlags, Stream};

use super::AsStream;
use super::id::StreamKind;
use crate::driver::{CaptureState, StreamHandle};
use crate::error::Result;
use crate::event::CudaEvent;
use crate::guard::CudaStreamGuard;
use crate::runtime::Runtime;
use crate::sync::Arc;

/// A stream of a [`Runtime`], which it keeps: the streams of a pool are there as long as any of these is. Cheap to
/// clone, and a plain [`Stream`] wherever one is wanted.
///
/// ```
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CudaStream, Runtime};
///
/// let runtime = Runtime::new(SimDriver::new(SimConfig::with_bytes(1 << 30)));
/// let (copies, compute) = (CudaStream::from_pool(&runtime, 0, 0)?, CudaStream::from_pool(&runtime, 0, -1)?);
/// // … copy on `copies` …
/// compute.wait_stream(&copies)?;
/// let done = compute.record_event()?;
/// done.synchronize()?;
/// assert!(copies.query()? && compute.query()?);
/// assert_eq!(compute.priority()?, -1);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
#[derive(Clone)]
pub struct CudaStream {
    runtime: Runtime,
    stream: Stream,
    handle: StreamHandle,
}

/// # Errors
/// All constructors return [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such
/// device.
impl CudaStream {
    /// A stream of the runtime, by its plain value.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) also when it is none of the runtime's.
    pub fn new(runtime: &Runtime, stream: Stream) -> Result<Self> {
        Ok(Self { handle: runtime.handle(stream)?, runtime: runtime.clone(), stream })
    }

    /// The next stream of a device's pool ([`Runtime::stream_from_pool`]).
    ///
    /// # Errors
    /// As there.
    pub fn from_pool(runtime: &Runtime, device: DeviceIndex, priority: i32) -> Result<Self> {
        Self::new(runtime, runtime.stream_from_pool(device, priority)?)
    }

    /// The default stream of a device (`getDefaultCUDAStream`).
    pub fn default_of(runtime: &Runtime, device: DeviceIndex) -> Result<Self> {
        Self::new(runtime, Stream::default_of(c10_core::DeviceType::Cuda, device))
    }

    /// The default stream that a device has for the thread which names it (`cudaStreamPerThread`). It means another
    /// stream on each thread; no memory is allocated for it, for memory is kept by stream.
    pub fn per_thread(runtime: &Runtime, device: DeviceIndex) -> Result<Self> {
        Self::new(runtime, Stream::new(c10_core::DeviceType::Cuda, device, StreamKind::PerThread.id()))
    }

    /// The current stream of a device on this thread ([`Runtime::current_stream`]).
    pub fn current(runtime: &Runtime, device: DeviceIndex) -> Result<Self> {
        Self::new(runtime, runtime.current_stream(device)?)
    }

    /// A stream that somebody else made and ends, and that the driver knows ([`Runtime::external_stream`]).
    ///
    /// # Errors
    /// As there.
    pub fn external(runtime: &Runtime, handle: StreamHandle) -> Result<Self> {
        Self::new(runtime, runtime.external_stream(handle)?)
    }

    /// A stream that somebody else made, to be used as any other until it is given back
    /// ([`Runtime::adopt_stream`]).
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there.
    pub unsafe fn adopt(runtime: &Runtime, handle: StreamHandle) -> Result<Self> {
        // SAFETY: the caller's promise.
        Self::new(runtime, unsafe { runtime.adopt_stream(handle) }?)
    }

    /// The plain value.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// What its id says of it.
    pub fn kind(&self) -> StreamKind {
        StreamKind::of(self.stream.id()).expect("a stream of a runtime is of some kind")
    }

    /// The driver's handle (`cuda_stream`).
    pub fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// The runtime that it is of.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Its priority: 0 is the lowest, lower numbers come first.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn priority(&self) -> Result<i32> {
        self.runtime.ready()?;
        Ok(self.runtime.driver().stream_priority(self.handle)?)
    }

    /// Whether all work of the stream is complete.
    ///
    /// # Errors
    /// What the driver reports; [`ErrorKind::Capture`](crate::ErrorKind::Capture) where it captures, which spoils
    /// the capture.
    pub fn query(&self) -> Result<bool> {
        self.runtime.ready()?;
        Ok(self.runtime.driver().stream_query(self.handle)?)
    }

    /// Waits on the host until it is.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn synchronize(&self) -> Result<()> {
        self.runtime.ready()?;
        let driver = self.runtime.driver();
        let waited = driver.stream_synchronize(self.handle);
        driver.settle();
        Ok(waited?)
    }

    /// Makes what is issued here from now on wait for an event, on whatever device ([`CudaEvent::wait`]).
    ///
    /// # Errors
    /// As there.
    pub fn wait_event(&self, event: &CudaEvent) -> Result<()> {
        event.wait(self)
    }

    /// Makes what is issued here from now on wait for all that another stream holds, on whatever device. An allocator
    /// learns of the wait by [`CachingAllocator::wait_stream`](crate::CachingAllocator::wait_stream), which does the
    /// same.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it is no stream of the runtime; what the
    /// driver reports.
    pub fn wait_stream(&self, other: impl AsStream) -> Result<()> {
        if self.runtime.handle(&other)? == self.handle {
            return Ok(());
        }
        let event = CudaEvent::new(&self.runtime, EventFlags::default())?;
        event.record(other)?;
        event.wait(self)
    }

    /// A new event behind the work that the stream holds now.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn record_event(&self) -> Result<CudaEvent> {
        let event = CudaEvent::new(&self.runtime, EventFlags::default())?;
        event.record(self)?;
        Ok(event)
    }

    /// What it does with what is issued on it: it runs it, or records it into a graph.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn capture_state(&self) -> Result<CaptureState> {
        self.runtime.ready()?;
        Ok(self.runtime.driver().capture_state(self.handle)?)
    }

    /// Makes it and its device current on this thread until the guard is dropped ([`Runtime::stream_guard`]).
    ///
    /// # Errors
    /// As there.
    pub fn guard(&self) -> Result<CudaStreamGuard<'_>> {
        self.runtime.stream_guard(self)
    }

    /// Runs `f` with it and its device current ([`Runtime::with_stream`]).
    ///
    /// # Errors
    /// As there.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        self.runtime.with_stream(self, f)
    }
}

impl Deref for CudaStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl From<&CudaStream> for Stream {
    fn from(stream: &CudaStream) -> Self {
        stream.stream
    }
}

impl From<CudaStream> for Stream {
    fn from(stream: CudaStream) -> Self {
        stream.stream
    }
}

/// The same stream of the same driver, whichever runtime or kind names it.
impl PartialEq for CudaStream {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle && Arc::ptr_eq(self.runtime.driver(), other.runtime.driver())
    }
}

impl Eq for CudaStream {}

impl Hash for CudaStream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.handle.hash(state);
    }
}

impl fmt::Display for CudaStream {
    /// PyTorch's form: `<CudaStream device=cuda:0 cuda_stream=0x0>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<CudaStream device={} cuda_stream={:#x}>", self.stream.device(), self.handle.raw)
    }
}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaStream")
            .field("stream", &self.stream)
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
