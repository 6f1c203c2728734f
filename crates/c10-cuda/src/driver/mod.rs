#![expect(unsafe_code, reason = "declares the driver's contract: the raw layer is unsafe fn")]
//! [`Driver`]: everything that this crate asks of a CUDA driver, and its rules.
//!
//! - **R1.** Every call names its device, by an index or through a handle, and all may be called from any thread.
//!   None depends on the calling thread, but that a capture knows which thread began it (R7).
//! - **R2.** Handles ([`handle`]) are plain values. One that was never given out, or was destroyed, is refused
//!   with [`Status::InvalidHandle`] or [`Status::InvalidValue`]; each is destroyed once.
//! - **R3.** Work on one stream runs in the order in which it was issued. Between streams only events and
//!   synchronising calls order anything; `free` is one of these. An event stands for the work that its stream
//!   held when it was recorded; one that was never recorded is ready.
//! - **R4.** A call that fails changes nothing, and the next call is not affected by it.
//! - **R5.** [`Status::OutOfMemory`] means that there is no memory for this call; freeing and trying again may
//!   help. No other status does.
//! - **R6.** Ranges that live at one time never overlap, on any device. An address says which device it is on.
//! - **R7.** What is issued on a stream that captures becomes a node of a graph and does not run. Calls that CUDA
//!   forbids then are refused with a capture status, and spoil the captures that forbid them; which do depends on
//!   the modes of the capture and of the calling thread ([`CaptureMode`]). A graph made launchable can be launched
//!   any number of times; a launch is one piece of work of its stream, within which each node runs behind what it
//!   depends on.
//! - **R8.** Physical memory is mapped before it is used, and unmapped before its range is freed; it lives until
//!   it is released and no longer mapped.
//! - **R9.** Each device has a default memory pool, whose memory comes and goes in stream order: it can be used by
//!   work behind its `malloc_async` and before its `free_async`, as R3 orders them. The pool gives a freed range out
//!   anew where that keeps the order.
//! - **R10.** A module and its functions are of one device. A function is launched on streams of that device, with as
//!   many parameters as it takes, and until its module is unloaded.

use std::fmt;
use std::ptr::NonNull;

use c10_core::DeviceIndex;

mod checked;
pub mod handle;
mod launch;
mod props;
pub mod real;
mod record;
pub mod sim;
mod status;
mod witness;

pub use checked::Checked;
pub use handle::{
    DevicePtr, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, ModuleHandle, NodeId, PhysHandle,
    StreamHandle, VaRange,
};
pub use launch::{Access, KernelBody, KernelLaunch, KernelMemory, LaunchConfig};
pub use props::{DeviceProps, MemPoolInfo, MemoryInfo};
pub use record::Record;
pub use status::{DriverError, Status};
pub use witness::Witness;

/// The result of a driver call.
pub type Result<T> = std::result::Result<T, DriverError>;

/// How an event is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventFlags {
    /// Whether it takes the time (`cudaEventDisableTiming`, negated).
    pub timing: bool,
    /// Whether waiting for it gives up the processor (`cudaEventBlockingSync`).
    pub blocking_sync: bool,
    /// Whether other processes may use it (`cudaEventInterprocess`); it takes no time then.
    pub interprocess: bool,
}

/// What a stream is doing with what is issued on it (`cudaStreamCaptureStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureState {
    /// It runs it.
    None,
    /// It records it into the graph of this capture.
    Active {
        /// Tells captures apart.
        id: u64,
    },
    /// It records, and the capture has been spoilt by a forbidden call.
    Invalidated {
        /// Tells captures apart.
        id: u64,
    },
}

/// Which threads a capture keeps from making calls that could disturb it, and, of a thread, which captures keep it
/// from them (`CUstreamCaptureMode`). Every thread begins as [`Global`](Self::Global).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// A capture forbids them to its own thread, and to all others that are `Global` too.
    #[default]
    Global,
    /// A capture forbids them to its own thread; a thread is kept from them by its own captures.
    ThreadLocal,
    /// A capture forbids them to nobody; a thread is kept from them by none.
    Relaxed,
}

/// A stream's part in a capture (`cuStreamGetCaptureInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Tells captures apart; the same for all streams of one, and never 0.
    pub id: u64,
    /// What the stream's next node will depend on.
    pub dependencies: Vec<NodeId>,
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Memory of a device.
    Device(DevicePtr),
    /// Memory of the host.
    Host(*mut u8),
}

/// An exported allocation, as another process can open it (`cudaIpcMemHandle_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpcHandle(pub [u8; 64]);

impl fmt::Debug for IpcHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpcHandle({:02x}{:02x}{:02x}{:02x}…)", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// A CUDA driver, real or simulated. The rules R1 to R10 stand at the head of this module.
///
/// Every call fails with the [`Status`] that names the reason and with [`Status::InvalidDevice`] for a device
/// that is not there. The trait is sealed: it grows without notice.
pub trait Driver: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// A short name: `sim`, `cuda`.
    fn name(&self) -> &'static str;
    /// The newest CUDA that it knows, as 1000 times the major plus 10 times the minor number: 12040 is 12.4
    /// (`cuDriverGetVersion`).
    fn version(&self) -> u32;

    // Devices.

    /// How many devices there are (`cuDeviceGetCount`).
    fn device_count(&self) -> DeviceIndex;
    /// Who wants to be told what allocators do with the driver's memory; nobody, for most drivers.
    fn witness(&self) -> Option<&dyn Witness> {
        None
    }
    /// Drops what kernels that have run owned, where the driver runs them on the host. The caller holds no lock that
    /// such a drop may want.
    fn settle(&self) {}
    /// Whether [`settle`](Self::settle) may have something to do.
    fn has_remains(&self) -> bool {
        false
    }
    /// A device's name, size and limits.
    fn device_props(&self, device: DeviceIndex) -> Result<DeviceProps>;
    /// Free and total bytes of a device (`cuMemGetInfo`).
    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo>;
    /// Waits until all work of a device is complete (`cuCtxSynchronize`).
    fn device_synchronize(&self, device: DeviceIndex) -> Result<()>;

    // Memory.

    /// `bytes` bytes of a device (`cuMemAlloc`). 0 bytes are refused with [`Status::InvalidValue`].
    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr>;
    /// Frees what [`malloc`](Self::malloc) gave, once all work of its device that is under way has ended
    /// (`cuMemFree`).
    ///
    /// # Safety
    /// No work that comes uses the memory, nor any that is under way on another device.
    unsafe fn free(&self, ptr: DevicePtr) -> Result<()>;

    // Virtual memory.

    /// The unit of physical memory and of mappings, in bytes (`cuMemGetAllocationGranularity`).
    fn granularity(&self, device: DeviceIndex) -> Result<u64>;
    /// A range of addresses with nothing behind it (`cuMemAddressReserve`). `bytes` is a multiple of the
    /// granularity.
    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange>;
    /// Gives a range back (`cuMemAddressFree`). Refused while anything is mapped there.
    ///
    /// # Safety
    /// Nobody uses the range's addresses any more.
    unsafe fn free_range(&self, range: VaRange) -> Result<()>;
    /// Physical memory with no address (`cuMemCreate`). `bytes` is a multiple of the granularity.
    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle>;
    /// Gives physical memory back, as soon as it is mapped nowhere (`cuMemRelease`).
    fn release(&self, memory: PhysHandle) -> Result<()>;
    /// Puts physical memory, whole, behind the addresses at `at` (`cuMemMap`).
    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()>;
    /// Lets devices read and write mapped addresses (`cuMemSetAccess`). The range covers whole mappings.
    fn set_access(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<()>;
    /// Takes whole mappings away (`cuMemUnmap`).
    ///
    /// # Safety
    /// No work that is under way, or comes, uses the addresses.
    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()>;

    // Memory in stream order.

    /// `bytes` bytes of a stream's device out of its default pool, for work behind this on the stream
    /// (`cuMemAllocAsync`). 0 bytes are refused with [`Status::InvalidValue`]. Where the stream captures, it is an
    /// address for the graph.
    fn malloc_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr>;
    /// Gives what [`malloc_async`](Self::malloc_async) gave back to its pool, once the stream has come so far
    /// (`cuMemFreeAsync`).
    ///
    /// # Safety
    /// No work uses the memory that is not ordered before this.
    unsafe fn free_async(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<()>;
    /// What the default pool of a device holds (`cuMemPoolGetAttribute`).
    fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo>;
    /// Makes the pool's peaks what is held now (`cuMemPoolSetAttribute`).
    fn mem_pool_reset_peaks(&self, device: DeviceIndex) -> Result<()>;
    /// How many bytes the pool keeps when a synchronising call returns; 0 at first (`cuMemPoolSetAttribute`).
    fn mem_pool_set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<()>;
    /// Gives unused memory of the pool back to the device until it holds `keep` bytes or all that it holds is in
    /// use (`cuMemPoolTrimTo`).
    fn mem_pool_trim(&self, device: DeviceIndex, keep: u64) -> Result<()>;
    /// Lets `peer` reach the pool's memory (`cuMemPoolSetAccess`). Again is no error.
    fn mem_pool_set_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()>;
    /// What graphs hold of a device: `used` is behind addresses of a graph (`cuDeviceGetGraphMemAttribute`).
    fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo>;
    /// Makes its peaks what is held now (`cuDeviceSetGraphMemAttribute`).
    fn graph_memory_reset_peaks(&self, device: DeviceIndex) -> Result<()>;

    // Streams.

    /// The lowest and the highest priority of streams; numerically `least >= greatest`
    /// (`cuCtxGetStreamPriorityRange`).
    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)>;
    /// A stream that does not wait for the default stream (`cuStreamCreateWithPriority`, non-blocking).
    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle>;
    /// Takes note of a stream that somebody else made and will end, so that it can be used here; each time until it
    /// is [disowned](Self::stream_disown) once. A stream that this driver made needs none, and is left as it is.
    ///
    /// # Safety
    /// It is a live stream of the device's primary context, and stays one until it is disowned or the driver is
    /// dropped.
    unsafe fn stream_adopt(&self, stream: StreamHandle) -> Result<()> {
        // A simulated device has no streams that somebody else made.
        let _ = stream;
        Ok(())
    }
    /// Forgets such a stream once no call uses it: from then on it is refused as one that has ended, and whoever made
    /// it may end it.
    fn stream_disown(&self, stream: StreamHandle) -> Result<()> {
        let _ = stream;
        Ok(())
    }
    /// The priority that a stream has: what it was made with, brought into the device's range
    /// (`cuStreamGetPriority`).
    fn stream_priority(&self, stream: StreamHandle) -> Result<i32>;
    /// Ends a stream; what is issued on it still runs (`cuStreamDestroy`).
    fn stream_destroy(&self, stream: StreamHandle) -> Result<()>;
    /// Whether all work of the stream is complete (`cuStreamQuery`).
    fn stream_query(&self, stream: StreamHandle) -> Result<bool>;
    /// Waits until it is (`cuStreamSynchronize`).
    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()>;
    /// Makes what is issued on the stream from here on wait for the event (`cuStreamWaitEvent`).
    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    // Events.

    /// An event, not yet recorded (`cuEventCreate`).
    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle>;
    /// Ends an event (`cuEventDestroy`).
    fn event_destroy(&self, event: EventHandle) -> Result<()>;
    /// Makes the event stand for the work that the stream holds now; both are of one device
    /// (`cuEventRecord`).
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    /// The same; in a capture, a node that records the event whenever the graph runs
    /// (`cuEventRecordWithFlags`, `CU_EVENT_RECORD_EXTERNAL`).
    fn event_record_external(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    /// Whether that work is complete (`cuEventQuery`).
    fn event_query(&self, event: EventHandle) -> Result<bool>;
    /// Waits until it is (`cuEventSynchronize`).
    fn event_synchronize(&self, event: EventHandle) -> Result<()>;
    /// Milliseconds from one event to another (`cuEventElapsedTime`). Both have been recorded, take the time
    /// and are complete; else [`Status::InvalidHandle`] or [`Status::NotReady`].
    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32>;

    // Copies and fills, in stream order.

    /// Copies `bytes` bytes, between any two of host and devices (`cuMemcpyAsync`).
    ///
    /// # Safety
    /// Until the stream has done the copy, both ends are valid for `bytes` bytes, and no unordered work and no
    /// host thread writes either or reads the destination.
    unsafe fn copy(&self, dst: CopyEnd, src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()>;
    /// Sets `bytes` bytes to one value (`cuMemsetD8Async`).
    ///
    /// # Safety
    /// As [`copy`](Self::copy), of the destination.
    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: StreamHandle) -> Result<()>;

    // Pinned host memory.

    /// Host memory that devices can copy from and to without a detour (`cuMemHostAlloc`), zeroed.
    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>>;
    /// Frees what [`host_alloc`](Self::host_alloc) gave (`cuMemFreeHost`).
    ///
    /// # Safety
    /// Neither the host nor work that is under way, or comes, uses the memory.
    unsafe fn host_free(&self, ptr: NonNull<u8>) -> Result<()>;

    /// Makes memory that the host has as good as what [`host_alloc`](Self::host_alloc) gives
    /// (`cuMemHostRegister`). Refused with [`Status::AlreadyMapped`] where any of it is pinned.
    ///
    /// # Safety
    /// The memory stays valid until it is unregistered.
    unsafe fn host_register(&self, ptr: NonNull<u8>, bytes: u64) -> Result<()>;
    /// Ends that (`cuMemHostUnregister`).
    ///
    /// # Safety
    /// No work that is under way, or comes, uses the memory.
    unsafe fn host_unregister(&self, ptr: NonNull<u8>) -> Result<()>;

    // Captures.

    /// Records what is issued on the stream from here on, instead of running it (`cuStreamBeginCapture`). A
    /// default stream is refused with [`Status::CaptureUnsupported`], one that captures with
    /// [`Status::IllegalState`].
    fn stream_begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()>;
    /// Ends the capture that began on the stream, and gives what it recorded (`cuStreamEndCapture`). A capture
    /// that was spoilt, or whose streams have not all been joined, has ended too when this fails.
    fn stream_end_capture(&self, stream: StreamHandle) -> Result<GraphHandle>;
    /// What the stream does with what is issued on it (`cuStreamIsCapturing`).
    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState>;
    /// The capture that the stream takes part in, and where in it it is (`cuStreamGetCaptureInfo`).
    fn capture_info(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>>;
    /// What a node of a graph, or of a capture that is under way, depends on (`cuGraphNodeGetDependencies`).
    fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>>;
    /// How many nodes a graph has (`cuGraphGetNodes`).
    fn graph_node_count(&self, graph: GraphHandle) -> Result<usize>;
    /// Ends a graph (`cuGraphDestroy`).
    fn graph_destroy(&self, graph: GraphHandle) -> Result<()>;
    /// Makes a graph launchable; what is launched stays when the graph ends (`cuGraphInstantiateWithFlags`,
    /// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`: memory that the graph allocates and does not free is freed
    /// before it is launched again).
    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle>;
    /// Makes its next launches do what another graph does (`cuGraphExecUpdate`). Where that graph is of another
    /// shape, [`Status::GraphUpdateFailure`].
    fn graph_exec_update(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<()>;
    /// Does, in stream order, what the first launch would do beforehand (`cuGraphUpload`).
    fn graph_upload(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()>;
    /// Runs the graph, whole, in stream order: each node behind what it depends on (`cuGraphLaunch`). Launches of
    /// one `exec` run one after the other.
    ///
    /// # Safety
    /// Until the stream has run it, what each node uses is valid, and nothing that is not ordered with the launch
    /// uses it in another way.
    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()>;
    /// Ends it; launches that are under way still run (`cuGraphExecDestroy`).
    fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()>;
    /// Changes the mode of the calling thread, and gives what it was (`cuThreadExchangeStreamCaptureMode`).
    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;

    // Peers, other processes.

    /// Whether `device` can reach memory of `peer` (`cuDeviceCanAccessPeer`).
    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool>;
    /// Lets `device` reach memory of `peer` (`cuCtxEnablePeerAccess`). Again is no error.
    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()>;
    /// Makes an allocation known to other processes (`cuIpcGetMemHandle`). `ptr` is one that
    /// [`malloc`](Self::malloc) gave.
    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle>;
    /// Opens another process's allocation (`cuIpcOpenMemHandle`).
    ///
    /// # Safety
    /// The exporting process keeps the allocation until it is closed here.
    unsafe fn ipc_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr>;
    /// Closes it (`cuIpcCloseMemHandle`).
    ///
    /// # Safety
    /// No work that is under way, or comes, uses the memory.
    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()>;
    /// Makes physical memory known to other processes (`cuMemExportToShareableHandle`).
    fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle>;
    /// A handle of another process's physical memory, to be [mapped](Self::map) and [released](Self::release) as an
    /// own one (`cuMemImportFromShareableHandle`). The memory lives while any process has a handle or a mapping.
    fn import_memory(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<PhysHandle>;

    /// Makes an event known to other processes (`cuIpcGetEventHandle`). It was made
    /// [`interprocess`](EventFlags::interprocess); else [`Status::InvalidHandle`] or [`Status::InvalidValue`].
    fn event_export(&self, event: EventHandle) -> Result<IpcHandle>;
    /// Another process's event, to be recorded, waited for and [destroyed](Self::event_destroy) as an own one
    /// (`cuIpcOpenEventHandle`).
    fn event_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle>;

    // Kernels.

    /// Loads an image of kernels on a device: PTX, cubin, fatbin, or what a simulated device has in their place
    /// (`cuModuleLoadData`). What is none that the device can run: [`Status::InvalidImage`].
    fn module_load(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle>;
    /// Ends a module and its functions (`cuModuleUnload`).
    ///
    /// # Safety
    /// No work that is under way, or comes, uses its functions; nor does a graph that will be launched.
    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()>;
    /// The function of that name (`cuModuleGetFunction`); where there is none, [`Status::NotFound`].
    fn module_function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle>;
    /// Issues a function of a module on a stream of its device (`cuLaunchKernel`). `params` are the bytes of each
    /// argument, in order.
    ///
    /// # Safety
    /// `params` are what the function takes, in number, size and meaning. What it reads and writes with them is
    /// valid until the stream has run it, and nothing unordered uses that in another way.
    unsafe fn launch_function(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<()>;

    /// Issues a kernel with a body of the host's, and with what it will read and write. A device that does not run
    /// on the host refuses with [`Status::NotSupported`].
    ///
    /// # Safety
    /// The kernel accesses what it declares and nothing else, and that is valid until the stream has run it.
    unsafe fn launch(&self, stream: StreamHandle, kernel: KernelLaunch) -> Result<()>;
}

pub(crate) mod sealed {
    use crate::captures::Captures;
    use crate::sync::Arc;

    /// Keeps [`Driver`](super::Driver) to this crate, so that it can grow.
    pub trait Sealed {
        /// The captures of the machine that it stands for, which are the process's: another driver of that has the
        /// same.
        fn captures(&self) -> &Arc<Captures>;
    }
}
