#![expect(
    unsafe_code,
    reason = "implements the trait's unsafe fns, whose callers' promises go on to the driver"
)]
//! [`Driver`] for [`RealDriver`]: each call names itself and goes to the file of its subject.

use std::ptr::NonNull;
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::driver::RealDriver;
use crate::captures::Captures;
use crate::driver::{
    CaptureInfo, CaptureMode, CaptureState, CopyEnd, DeviceProps, DevicePtr, Driver, DriverError, EventFlags,
    EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, IpcHandle, KernelLaunch, LaunchConfig,
    MemPoolInfo, MemoryInfo, ModuleHandle, NodeId, PhysHandle, Result, Status, StreamHandle, VaRange, sealed,
};

/// Names the call that failed, and the device that it was for.
fn call<T>(name: &'static str, device: DeviceIndex, result: std::result::Result<T, Status>) -> Result<T> {
    result.map_err(|status| DriverError::new(name, status, device))
}

impl sealed::Sealed for RealDriver {
    fn captures(&self) -> &Arc<Captures> {
        &self.library.captures
    }
}

impl Driver for RealDriver {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn version(&self) -> u32 {
        self.library.version
    }

    fn device_count(&self) -> DeviceIndex {
        DeviceIndex::try_from(self.devices.len()).unwrap_or(DeviceIndex::MAX)
    }

    fn device_props(&self, device: DeviceIndex) -> Result<DeviceProps> {
        call("device_props", device, self.props(device))
    }

    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        call("memory_info", device, self.free_and_total(device))
    }

    fn device_synchronize(&self, device: DeviceIndex) -> Result<()> {
        call("device_synchronize", device, self.synchronize_device(device))
    }

    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr> {
        call("malloc", device, self.allocate(device, bytes))
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<()> {
        let device = self.device_of_allocation(ptr).unwrap_or(0);
        // SAFETY: as this call's own caller promises.
        call("free", device, unsafe { self.free_allocation(ptr) })
    }

    fn granularity(&self, device: DeviceIndex) -> Result<u64> {
        call("granularity", device, self.granularity_of(device))
    }

    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange> {
        call("reserve", device, self.reserve_range(device, bytes))
    }

    unsafe fn free_range(&self, range: VaRange) -> Result<()> {
        let device = self.device_of_range(range.base);
        // SAFETY: as this call's own caller promises.
        call("free_range", device, unsafe { self.free_reservation(range) })
    }

    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle> {
        call("create", device, self.create_physical(device, bytes))
    }

    fn release(&self, memory: PhysHandle) -> Result<()> {
        call("release", memory.device, self.release_physical(memory))
    }

    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()> {
        call("map", memory.device, self.map_physical(at, memory))
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<()> {
        call("set_access", self.device_of_range(at), self.let_in(at, bytes, devices))
    }

    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("unmap", self.device_of_range(at), unsafe { self.unmap_range(at, bytes) })
    }

    fn malloc_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        call("malloc_async", stream.device, self.allocate_async(bytes, stream))
    }

    unsafe fn free_async(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("free_async", stream.device, unsafe { self.free_async_on(ptr, stream) })
    }

    fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        call("mem_pool_info", device, self.pool_info(device))
    }

    fn mem_pool_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        call("mem_pool_reset_peaks", device, self.reset_pool_peaks(device))
    }

    fn mem_pool_set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<()> {
        call("mem_pool_set_release_threshold", device, self.set_release_threshold(device, bytes))
    }

    fn mem_pool_trim(&self, device: DeviceIndex, keep: u64) -> Result<()> {
        call("mem_pool_trim", device, self.trim_pool(device, keep))
    }

    fn mem_pool_set_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        call("mem_pool_set_access", device, self.let_into_pool(device, peer))
    }

    fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        call("graph_memory_info", device, self.graph_info(device))
    }

    fn graph_memory_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        call("graph_memory_reset_peaks", device, self.reset_graph_peaks(device))
    }

    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)> {
        call("stream_priority_range", device, self.priority_range(device))
    }

    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle> {
        call("stream_create", device, self.create_stream(device, priority))
    }

    unsafe fn stream_adopt(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("stream_adopt", stream.device, unsafe { self.adopt_stream(stream) })
    }

    fn stream_disown(&self, stream: StreamHandle) -> Result<()> {
        call("stream_disown", stream.device, self.disown_stream(stream))
    }

    fn stream_priority(&self, stream: StreamHandle) -> Result<i32> {
        call("stream_priority", stream.device, self.priority_of(stream))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        call("stream_destroy", stream.device, self.destroy_stream(stream))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<bool> {
        call("stream_query", stream.device, self.query_stream(stream))
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        call("stream_synchronize", stream.device, self.synchronize_stream(stream))
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        call("stream_wait_event", stream.device, self.wait_on_stream(stream, event))
    }

    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle> {
        call("event_create", device, self.create_event(device, flags))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        call("event_destroy", event.device, self.destroy_event(event))
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        call("event_record", event.device, self.record_event(event, stream))
    }

    fn event_record_external(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        call("event_record_external", event.device, self.record_event_external(event, stream))
    }

    fn event_query(&self, event: EventHandle) -> Result<bool> {
        call("event_query", event.device, self.query_event(event))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        call("event_synchronize", event.device, self.synchronize_event(event))
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        call("event_elapsed_ms", start.device, self.elapsed_ms(start, end))
    }

    unsafe fn copy(&self, dst: CopyEnd, src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("copy", stream.device, unsafe { self.copy_on(dst, src, bytes, stream) })
    }

    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("fill", stream.device, unsafe { self.fill_on(dst, value, bytes, stream) })
    }

    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>> {
        call("host_alloc", 0, self.allocate_host(bytes))
    }

    unsafe fn host_free(&self, ptr: NonNull<u8>) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("host_free", 0, unsafe { self.free_host(ptr) })
    }

    unsafe fn host_register(&self, ptr: NonNull<u8>, bytes: u64) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("host_register", 0, unsafe { self.register_host(ptr, bytes) })
    }

    unsafe fn host_unregister(&self, ptr: NonNull<u8>) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("host_unregister", 0, unsafe { self.unregister_host(ptr) })
    }

    fn stream_begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        call("stream_begin_capture", stream.device, self.begin_capture(stream, mode))
    }

    fn stream_end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        call("stream_end_capture", stream.device, self.end_capture(stream))
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        call("capture_state", stream.device, self.state_of_capture(stream))
    }

    fn capture_info(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>> {
        call("capture_info", stream.device, self.info_of_capture(stream))
    }

    fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>> {
        call("node_dependencies", 0, self.dependencies_of(node))
    }

    fn graph_node_count(&self, graph: GraphHandle) -> Result<usize> {
        call("graph_node_count", graph.device, self.count_nodes(graph))
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        call("graph_destroy", graph.device, self.destroy_graph(graph))
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        call("graph_instantiate", graph.device, self.instantiate(graph))
    }

    fn graph_exec_update(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<()> {
        call("graph_exec_update", exec.device, self.update_exec(exec, graph))
    }

    fn graph_upload(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        call("graph_upload", stream.device, self.upload_exec(exec, stream))
    }

    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("graph_launch", stream.device, unsafe { self.launch_exec(exec, stream) })
    }

    fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        call("graph_exec_destroy", exec.device, self.destroy_exec(exec))
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        call("exchange_capture_mode", 0, self.exchange_mode(mode))
    }

    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        call("can_access_peer", device, self.reaches(device, peer))
    }

    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        call("enable_peer_access", device, self.enable_peer(device, peer))
    }

    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle> {
        call("ipc_export", self.device_of_allocation(ptr).unwrap_or(0), self.export_allocation(ptr))
    }

    unsafe fn ipc_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr> {
        // SAFETY: as this call's own caller promises.
        call("ipc_open", device, unsafe { self.open_allocation(device, handle) })
    }

    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()> {
        let device = self.device_of_opened(ptr).unwrap_or(0);
        // SAFETY: as this call's own caller promises.
        call("ipc_close", device, unsafe { self.close_allocation(ptr) })
    }

    fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle> {
        let exported = self.export_physical(memory);
        exported.map_err(|(status, detail)| DriverError {
            detail,
            ..DriverError::new("export_memory", status, memory.device)
        })
    }

    fn import_memory(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<PhysHandle> {
        let imported = self.import_physical(device, handle);
        imported.map_err(|(status, detail)| DriverError {
            detail,
            ..DriverError::new("import_memory", status, device)
        })
    }

    fn event_export(&self, event: EventHandle) -> Result<IpcHandle> {
        call("event_export", event.device, self.export_event(event))
    }

    fn event_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle> {
        call("event_open", device, self.open_event(device, handle))
    }

    fn module_load(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle> {
        call("module_load", device, self.load_module(device, image))
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("module_unload", module.device, unsafe { self.unload_module(module) })
    }

    fn module_function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        call("module_function", module.device, self.function_of(module, name))
    }

    unsafe fn launch_function(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        call("launch_function", stream.device, unsafe { self.launch_on(stream, function, config, params) })
    }

    unsafe fn launch(&self, stream: StreamHandle, _: KernelLaunch) -> Result<()> {
        // A stream that is none is told first, as for any other work.
        let refused = self.on_stream(stream, |_, _| Err(Status::NotSupported));
        call("launch", stream.device, refused)
    }
}
