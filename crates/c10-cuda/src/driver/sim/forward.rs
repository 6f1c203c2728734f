#![expect(
    unsafe_code,
    reason = "implements the trait's unsafe fns, and hands host pointers on as their callers promised"
)]
//! [`Driver`] for [`SimDriver`]: each call names itself and goes to the file of its subject.

use std::ptr::NonNull;
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::call::CallName;
use super::driver::{SimDriver, Site};
use super::host_bytes::{HostPlace, HostRange, free_pinned};
use super::space::GRANULARITY;
use super::stream::PRIORITY_RANGE;
use super::work::End;
use crate::captures::Captures;
use crate::driver::{
    CaptureInfo, CaptureMode, CaptureState, CopyEnd, DeviceProps, DevicePtr, Driver, EventFlags, EventHandle,
    FunctionHandle, GraphExecHandle, GraphHandle, IpcHandle, KernelLaunch, LaunchConfig, MemPoolInfo,
    MemoryInfo, ModuleHandle, NodeId, PhysHandle, Result, Status, StreamHandle, VaRange, Witness, sealed,
};

/// The version that a simulated driver says it has: 12.8.
const VERSION: u32 = 12080;

impl Site {
    fn device(device: DeviceIndex) -> Self {
        Self { device: Some(device), ..Self::default() }
    }

    fn bytes(device: DeviceIndex, bytes: u64) -> Self {
        Self { bytes, ..Self::device(device) }
    }

    fn at(ptr: DevicePtr, bytes: u64) -> Self {
        Self { ptr, bytes, ..Self::default() }
    }

    fn on(stream: StreamHandle) -> Self {
        Self { stream: Some(stream), ..Self::device(stream.device) }
    }

    fn of(event: EventHandle) -> Self {
        Self { event: Some(event), ..Self::device(event.device) }
    }
}

impl sealed::Sealed for SimDriver {
    fn captures(&self) -> &Arc<Captures> {
        &self.captures
    }
}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn device_count(&self) -> DeviceIndex {
        self.count()
    }

    fn witness(&self) -> Option<&dyn Witness> {
        Some(self)
    }

    fn settle(&self) {
        if self.takes_remains() {
            self.end_remains();
        }
    }

    fn has_remains(&self) -> bool {
        self.may_have_remains()
    }

    fn device_props(&self, device: DeviceIndex) -> Result<DeviceProps> {
        self.call(CallName::DeviceProps, Site::device(device), |s, _| {
            Ok(DeviceProps {
                name: "Simulated device".to_owned(),
                total_memory: s.device(device)?.total,
                compute_capability: (9, 0),
                multi_processor_count: 132,
                warp_size: 32,
            })
        })
    }

    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        self.call(CallName::MemoryInfo, Site::device(device), |s, _| s.memory_info(device))
    }

    fn device_synchronize(&self, device: DeviceIndex) -> Result<()> {
        self.call(CallName::DeviceSynchronize, Site::device(device), |s, _| s.device_synchronize(device))
    }

    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr> {
        self.call(CallName::Malloc, Site::bytes(device, bytes), |s, site| {
            site.ptr = s.malloc(device, bytes)?;
            Ok(site.ptr)
        })
    }

    #[track_caller]
    unsafe fn free(&self, ptr: DevicePtr) -> Result<()> {
        self.call(CallName::Free, Site::at(ptr, 0), |s, site| {
            site.bytes = s.free(ptr)?;
            Ok(())
        })
    }

    fn granularity(&self, device: DeviceIndex) -> Result<u64> {
        self.call(CallName::Granularity, Site::device(device), |s, _| s.device(device).map(|_| GRANULARITY))
    }

    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange> {
        self.call(CallName::Reserve, Site::bytes(device, bytes), |s, site| {
            let range = s.reserve(device, bytes)?;
            site.ptr = range.base;
            Ok(range)
        })
    }

    #[track_caller]
    unsafe fn free_range(&self, range: VaRange) -> Result<()> {
        self.call(CallName::FreeRange, Site::at(range.base, range.bytes), |s, _| s.free_range(range))
    }

    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle> {
        self.call(CallName::Create, Site::bytes(device, bytes), |s, _| s.create(device, bytes))
    }

    fn release(&self, memory: PhysHandle) -> Result<()> {
        self.call(CallName::Release, Site::bytes(memory.device, memory.bytes), |s, _| s.release(memory))
    }

    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()> {
        self.call(CallName::Map, Site::at(at, memory.bytes), |s, _| s.map(at, memory))
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<()> {
        self.call(CallName::SetAccess, Site::at(at, bytes), |s, _| s.set_access(at, bytes, devices))
    }

    #[track_caller]
    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        self.call(CallName::Unmap, Site::at(at, bytes), |s, _| s.unmap(at, bytes))
    }

    #[track_caller]
    fn malloc_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        self.call(CallName::MallocAsync, Site { bytes, ..Site::on(stream) }, |s, site| {
            site.ptr = s.malloc_async(bytes, stream)?;
            Ok(site.ptr)
        })
    }

    #[track_caller]
    unsafe fn free_async(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<()> {
        self.call(CallName::FreeAsync, Site { ptr, ..Site::on(stream) }, |s, site| {
            site.bytes = s.free_async(ptr, stream)?;
            Ok(())
        })
    }

    fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        self.call(CallName::MemPoolInfo, Site::device(device), |s, _| s.mem_pool_info(device))
    }

    fn mem_pool_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        let site = Site::device(device);
        self.call(CallName::MemPoolResetPeaks, site, |s, _| s.mem_pool_reset_peaks(device))
    }

    fn mem_pool_set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<()> {
        let site = Site::bytes(device, bytes);
        self.call(CallName::MemPoolSetReleaseThreshold, site, |s, _| s.set_release_threshold(device, bytes))
    }

    fn mem_pool_trim(&self, device: DeviceIndex, keep: u64) -> Result<()> {
        self.call(CallName::MemPoolTrim, Site::bytes(device, keep), |s, _| s.mem_pool_trim(device, keep))
    }

    fn mem_pool_set_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        let site = Site::device(device);
        self.call(CallName::MemPoolSetAccess, site, |s, _| s.mem_pool_set_access(device, peer))
    }

    fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        self.call(CallName::GraphMemoryInfo, Site::device(device), |s, _| s.graph_memory_info(device))
    }

    fn graph_memory_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        let site = Site::device(device);
        self.call(CallName::GraphMemoryResetPeaks, site, |s, _| s.graph_memory_reset_peaks(device))
    }

    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)> {
        self.call(CallName::StreamPriorityRange, Site::device(device), |s, _| {
            s.device(device).map(|_| PRIORITY_RANGE)
        })
    }

    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle> {
        self.call(CallName::StreamCreate, Site::device(device), |s, site| {
            let stream = s.stream_create(device, priority)?;
            site.stream = Some(stream);
            Ok(stream)
        })
    }

    fn stream_priority(&self, stream: StreamHandle) -> Result<i32> {
        self.call(CallName::StreamPriority, Site::on(stream), |s, _| s.stream_priority(stream))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.call(CallName::StreamDestroy, Site::on(stream), |s, _| s.stream_destroy(stream))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<bool> {
        self.call(CallName::StreamQuery, Site::on(stream), |s, _| s.stream_query(stream))
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let site = Site::on(stream);
        self.call(CallName::StreamSynchronize, site, |s, _| s.stream_synchronize(stream))
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let site = Site { event: Some(event), ..Site::on(stream) };
        self.call(CallName::StreamWaitEvent, site, |s, _| s.stream_wait_event(stream, event))
    }

    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle> {
        self.call(CallName::EventCreate, Site::device(device), |s, site| {
            let event = s.event_create(device, flags)?;
            site.event = Some(event);
            Ok(event)
        })
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.call(CallName::EventDestroy, Site::of(event), |s, _| s.event_destroy(event))
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let site = Site { event: Some(event), ..Site::on(stream) };
        self.call(CallName::EventRecord, site, |s, _| s.event_record(event, stream))
    }

    fn event_record_external(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let site = Site { event: Some(event), ..Site::on(stream) };
        self.call(CallName::EventRecordExternal, site, |s, _| s.event_record_external(event, stream))
    }

    fn event_query(&self, event: EventHandle) -> Result<bool> {
        self.call(CallName::EventQuery, Site::of(event), |s, _| s.event_query(event))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let site = Site::of(event);
        self.call(CallName::EventSynchronize, site, |s, _| s.event_synchronize(event))
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let site = Site::of(start);
        self.call(CallName::EventElapsedMs, site, |s, _| s.event_elapsed_ms(start, end))
    }

    #[track_caller]
    unsafe fn copy(&self, dst: CopyEnd, src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()> {
        let ptr = match (dst, src) {
            (CopyEnd::Device(ptr), _) | (CopyEnd::Host(_), CopyEnd::Device(ptr)) => ptr,
            (CopyEnd::Host(_), CopyEnd::Host(_)) => DevicePtr::NULL,
        };
        let end = |end| match end {
            CopyEnd::Device(ptr) => Some(End::Device(ptr)),
            // SAFETY: until the copy has run, the caller keeps both ends valid and to the copy alone; the range
            // is dropped when it has run, or with the driver.
            CopyEnd::Host(ptr) => unsafe { HostRange::new(ptr, bytes) }.map(End::Host),
        };
        let site = Site { ptr, bytes, ..Site::on(stream) };
        self.call(CallName::Copy, site, |s, _| match (end(dst), end(src)) {
            _ if bytes == 0 => s.stream_id(stream).map(|_| ()),
            (Some(dst), Some(src)) => s.copy(stream, dst, src, bytes),
            _ => Err(Status::InvalidValue),
        })
    }

    #[track_caller]
    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: StreamHandle) -> Result<()> {
        let site = Site { ptr: dst, bytes, ..Site::on(stream) };
        self.call(CallName::Fill, site, |s, _| s.fill(stream, dst, value, bytes))
    }

    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>> {
        self.call(CallName::HostAlloc, Site::bytes(0, bytes), |s, _| s.host_alloc(bytes))
    }

    #[track_caller]
    unsafe fn host_free(&self, ptr: NonNull<u8>) -> Result<()> {
        self.call(CallName::HostFree, Site::device(0), |s, site| {
            s.forbid_in_capture()?;
            site.bytes = s.pinned.forget(ptr)?;
            s.watch(|races| races.host_freed(ptr.as_ptr().addr() as u64, site.bytes));
            s.pinned.retire(ptr, site.bytes);
            // A copy that nobody waited for, which is a fault of the program, still finds its memory.
            if s.streams.iter().all(|(_, stream)| stream.queue.is_empty()) {
                for (ptr, bytes) in s.pinned.take_retired() {
                    // SAFETY: it was live until it was retired, with these bytes, and is here once; the caller
                    // says that nobody uses it, and no work is left that might.
                    unsafe { free_pinned(ptr, bytes) };
                }
            }
            Ok(())
        })
    }

    unsafe fn host_register(&self, ptr: NonNull<u8>, bytes: u64) -> Result<()> {
        self.call(CallName::HostRegister, Site::bytes(0, bytes), |s, _| s.pinned.register(ptr, bytes))
    }

    unsafe fn host_unregister(&self, ptr: NonNull<u8>) -> Result<()> {
        self.call(CallName::HostUnregister, Site::device(0), |s, site| {
            site.bytes = s.pinned.unregister(ptr)?;
            Ok(())
        })
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        self.call(CallName::CaptureState, Site::on(stream), |s, _| s.capture_state(stream))
    }

    fn capture_info(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>> {
        self.call(CallName::CaptureInfo, Site::on(stream), |s, _| s.capture_info(stream))
    }

    fn stream_begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        let site = Site::on(stream);
        self.call(CallName::StreamBeginCapture, site, |s, _| s.stream_begin_capture(stream, mode))
    }

    fn stream_end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        self.call(CallName::StreamEndCapture, Site::on(stream), |s, _| s.stream_end_capture(stream))
    }

    fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>> {
        self.call(CallName::NodeDependencies, Site::device(0), |s, _| s.node_dependencies(node))
    }

    fn graph_node_count(&self, graph: GraphHandle) -> Result<usize> {
        self.call(CallName::GraphNodeCount, Site::device(graph.device), |s, _| s.graph_node_count(graph))
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        self.call(CallName::GraphDestroy, Site::device(graph.device), |s, _| s.graph_destroy(graph))
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        let site = Site::device(graph.device);
        self.call(CallName::GraphInstantiate, site, |s, _| s.graph_instantiate(graph))
    }

    fn graph_exec_update(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<()> {
        let site = Site::device(exec.device);
        self.call(CallName::GraphExecUpdate, site, |s, _| s.graph_exec_update(exec, graph))
    }

    fn graph_upload(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        self.call(CallName::GraphUpload, Site::on(stream), |s, _| s.graph_upload(exec, stream))
    }

    #[track_caller]
    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: until the launch has run, the caller keeps what its copies use valid and to them alone; the range
        // is dropped when the copy has run, or with the driver.
        let claim = |place: HostPlace| unsafe { place.claim() };
        self.call(CallName::GraphLaunch, Site::on(stream), |s, _| s.graph_launch(exec, stream, &claim))
    }

    fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        let site = Site::device(exec.device);
        self.call(CallName::GraphExecDestroy, site, |s, _| s.graph_exec_destroy(exec))
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let site = Site::device(0);
        self.call(CallName::ExchangeCaptureMode, site, |s, _| Ok(s.exchange_capture_mode(mode)))
    }

    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        self.call(CallName::CanAccessPeer, Site::device(device), |s, _| s.can_access_peer(device, peer))
    }

    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        self.call(CallName::EnablePeerAccess, Site::device(device), |s, _| s.enable_peer_access(device, peer))
    }

    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle> {
        let site = Site::at(ptr, 0);
        self.call(CallName::IpcExport, site, |s, _| s.ipc_export(ptr))
    }

    unsafe fn ipc_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr> {
        self.call(CallName::IpcOpen, Site::device(device), |s, site| {
            site.ptr = s.ipc_open(device, handle)?;
            Ok(site.ptr)
        })
    }

    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()> {
        let site = Site::at(ptr, 0);
        self.call(CallName::IpcClose, site, |s, _| s.ipc_close(ptr))
    }

    fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle> {
        let site = Site::bytes(memory.device, memory.bytes);
        self.call(CallName::ExportMemory, site, |s, _| s.export_memory(memory))
    }

    fn import_memory(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<PhysHandle> {
        self.call(CallName::ImportMemory, Site::device(device), |s, site| {
            let memory = s.import_memory(device, handle)?;
            site.bytes = memory.bytes;
            Ok(memory)
        })
    }

    fn event_export(&self, event: EventHandle) -> Result<IpcHandle> {
        self.call(CallName::EventExport, Site::of(event), |s, _| s.event_export(event))
    }

    fn event_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle> {
        self.call(CallName::EventOpen, Site::device(device), |s, site| {
            let event = s.event_open(device, handle)?;
            site.event = Some(event);
            Ok(event)
        })
    }

    fn module_load(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle> {
        let site = Site::bytes(device, image.len() as u64);
        self.call(CallName::ModuleLoad, site, |s, _| s.module_load(device, image))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        let site = Site::device(module.device);
        self.call(CallName::ModuleUnload, site, |s, _| s.module_unload(module))
    }

    fn module_function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let site = Site::device(module.device);
        self.call(CallName::ModuleFunction, site, |s, _| s.module_function(module, name))
    }

    #[track_caller]
    unsafe fn launch_function(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<()> {
        let site = Site::on(stream);
        self.call(CallName::LaunchFunction, site, |s, _| s.launch_function(stream, function, config, params))
    }

    #[track_caller]
    unsafe fn launch(&self, stream: StreamHandle, kernel: KernelLaunch) -> Result<()> {
        // A kernel that is refused is dropped after the lock is: its body may own anything.
        let mut kernel = Some(kernel);
        let issued = self.call(CallName::Launch, Site::on(stream), |s, _| s.launch(stream, &mut kernel));
        self.end_remains();
        issued
    }
}
