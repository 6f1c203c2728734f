#![expect(unsafe_code, reason = "hands the raw layer's calls on, with the promises of its own callers")]
//! [`Record`]: any driver, with each call written to a trace.

use std::fmt::{self, Write as _};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use c10_core::DeviceIndex;

use super::{
    CaptureInfo, CaptureMode, CaptureState, CopyEnd, DeviceProps, DevicePtr, Driver, EventFlags, EventHandle,
    FunctionHandle, GraphExecHandle, GraphHandle, IpcHandle, KernelLaunch, LaunchConfig, MemPoolInfo,
    MemoryInfo, ModuleHandle, NodeId, PhysHandle, Result, StreamHandle, VaRange, Witness, sealed,
};
use crate::captures::Captures;

/// A driver that writes each of its calls, with what it was given and what it gave, to a trace of one line a call.
///
/// The lines stand in the order in which calls returned. Addresses of the host are left out.
pub struct Record {
    inner: Arc<dyn Driver>,
    trace: Mutex<String>,
}

impl Record {
    /// Records the calls of `inner`.
    pub fn new(inner: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(Self { inner, trace: Mutex::new(String::new()) })
    }

    /// Takes what was recorded: one line a call, `name(arguments) = result`.
    pub fn take_trace(&self) -> String {
        std::mem::take(&mut *self.trace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a call down and gives its result on; `shown` is the text of a success.
    fn note<T>(
        &self,
        call: fmt::Arguments<'_>,
        result: Result<T>,
        shown: impl FnOnce(&T) -> String,
    ) -> Result<T> {
        let text = match &result {
            Ok(value) => shown(value),
            Err(error) => error.status.to_string(),
        };
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string cannot fail.
        let _ = writeln!(trace, "{call} = {text}");
        result
    }

    fn done(&self, call: fmt::Arguments<'_>, result: Result<()>) -> Result<()> {
        self.note(call, result, |()| "ok".to_owned())
    }

    fn value<T: fmt::Debug>(&self, call: fmt::Arguments<'_>, result: Result<T>) -> Result<T> {
        self.note(call, result, |value| format!("{value:?}"))
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// `device:number` of a stream, and of an event.
struct Of(DeviceIndex, u64);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

fn stream_text(s: StreamHandle) -> Of {
    Of(s.device, s.raw)
}

fn event_text(e: EventHandle) -> Of {
    Of(e.device, e.raw)
}

fn pool_text(info: &MemPoolInfo) -> String {
    format!("{} of {}", info.used, info.reserved)
}

fn end_text(end: CopyEnd) -> String {
    match end {
        CopyEnd::Device(ptr) => ptr.to_string(),
        CopyEnd::Host(_) => "host".to_owned(),
    }
}

impl sealed::Sealed for Record {
    fn captures(&self) -> &Arc<Captures> {
        self.inner.captures()
    }
}

impl Driver for Record {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn version(&self) -> u32 {
        self.inner.version()
    }

    fn device_count(&self) -> DeviceIndex {
        self.inner.device_count()
    }

    fn witness(&self) -> Option<&dyn Witness> {
        self.inner.witness()
    }

    fn settle(&self) {
        self.inner.settle();
    }

    fn has_remains(&self) -> bool {
        self.inner.has_remains()
    }

    fn device_props(&self, device: DeviceIndex) -> Result<DeviceProps> {
        let result = self.inner.device_props(device);
        self.note(format_args!("device_props({device})"), result, |props| props.name.clone())
    }

    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        let result = self.inner.memory_info(device);
        let shown = |info: &MemoryInfo| format!("{} of {}", info.free, info.total);
        self.note(format_args!("memory_info({device})"), result, shown)
    }

    fn device_synchronize(&self, device: DeviceIndex) -> Result<()> {
        self.done(format_args!("device_synchronize({device})"), self.inner.device_synchronize(device))
    }

    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr> {
        self.value(format_args!("malloc({device}, {bytes})"), self.inner.malloc(device, bytes))
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.free(ptr) };
        self.done(format_args!("free({ptr})"), result)
    }

    fn granularity(&self, device: DeviceIndex) -> Result<u64> {
        self.value(format_args!("granularity({device})"), self.inner.granularity(device))
    }

    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange> {
        let result = self.inner.reserve(device, bytes);
        self.note(format_args!("reserve({device}, {bytes})"), result, |range| range.base.to_string())
    }

    unsafe fn free_range(&self, range: VaRange) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.free_range(range) };
        self.done(format_args!("free_range({}, {})", range.base, range.bytes), result)
    }

    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle> {
        let result = self.inner.create(device, bytes);
        self.note(format_args!("create({device}, {bytes})"), result, |memory| memory.raw.to_string())
    }

    fn release(&self, memory: PhysHandle) -> Result<()> {
        let result = self.inner.release(memory);
        self.done(format_args!("release({}:{}, {})", memory.device, memory.raw, memory.bytes), result)
    }

    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()> {
        let result = self.inner.map(at, memory);
        self.done(format_args!("map({at}, {}:{}, {})", memory.device, memory.raw, memory.bytes), result)
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<()> {
        let result = self.inner.set_access(at, bytes, devices);
        self.done(format_args!("set_access({at}, {bytes}, {devices:?})"), result)
    }

    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.unmap(at, bytes) };
        self.done(format_args!("unmap({at}, {bytes})"), result)
    }

    fn malloc_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        let result = self.inner.malloc_async(bytes, stream);
        self.value(format_args!("malloc_async({bytes}, {})", stream_text(stream)), result)
    }

    unsafe fn free_async(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.free_async(ptr, stream) };
        self.done(format_args!("free_async({ptr}, {})", stream_text(stream)), result)
    }

    fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        self.note(format_args!("mem_pool_info({device})"), self.inner.mem_pool_info(device), pool_text)
    }

    fn mem_pool_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        self.done(format_args!("mem_pool_reset_peaks({device})"), self.inner.mem_pool_reset_peaks(device))
    }

    fn mem_pool_set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<()> {
        let result = self.inner.mem_pool_set_release_threshold(device, bytes);
        self.done(format_args!("mem_pool_set_release_threshold({device}, {bytes})"), result)
    }

    fn mem_pool_trim(&self, device: DeviceIndex, keep: u64) -> Result<()> {
        self.done(format_args!("mem_pool_trim({device}, {keep})"), self.inner.mem_pool_trim(device, keep))
    }

    fn mem_pool_set_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        let result = self.inner.mem_pool_set_access(device, peer);
        self.done(format_args!("mem_pool_set_access({device}, {peer})"), result)
    }

    fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        let result = self.inner.graph_memory_info(device);
        self.note(format_args!("graph_memory_info({device})"), result, pool_text)
    }

    fn graph_memory_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        let result = self.inner.graph_memory_reset_peaks(device);
        self.done(format_args!("graph_memory_reset_peaks({device})"), result)
    }

    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)> {
        let result = self.inner.stream_priority_range(device);
        self.value(format_args!("stream_priority_range({device})"), result)
    }

    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle> {
        let result = self.inner.stream_create(device, priority);
        let shown = |stream: &StreamHandle| stream_text(*stream).to_string();
        self.note(format_args!("stream_create({device}, {priority})"), result, shown)
    }

    unsafe fn stream_adopt(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.stream_adopt(stream) };
        self.done(format_args!("stream_adopt({})", stream_text(stream)), result)
    }

    fn stream_disown(&self, stream: StreamHandle) -> Result<()> {
        self.done(format_args!("stream_disown({})", stream_text(stream)), self.inner.stream_disown(stream))
    }

    fn stream_priority(&self, stream: StreamHandle) -> Result<i32> {
        let result = self.inner.stream_priority(stream);
        self.value(format_args!("stream_priority({})", stream_text(stream)), result)
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.done(format_args!("stream_destroy({})", stream_text(stream)), self.inner.stream_destroy(stream))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<bool> {
        self.value(format_args!("stream_query({})", stream_text(stream)), self.inner.stream_query(stream))
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let result = self.inner.stream_synchronize(stream);
        self.done(format_args!("stream_synchronize({})", stream_text(stream)), result)
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let result = self.inner.stream_wait_event(stream, event);
        let (stream, event) = (stream_text(stream), event_text(event));
        self.done(format_args!("stream_wait_event({stream}, {event})"), result)
    }

    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle> {
        let result = self.inner.event_create(device, flags);
        let names =
            [(flags.timing, " timing"), (flags.blocking_sync, " blocking"), (flags.interprocess, " ipc")];
        let set: String = names.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
        let shown = |event: &EventHandle| event_text(*event).to_string();
        self.note(format_args!("event_create({device}{set})"), result, shown)
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.done(format_args!("event_destroy({})", event_text(event)), self.inner.event_destroy(event))
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let result = self.inner.event_record(event, stream);
        self.done(format_args!("event_record({}, {})", event_text(event), stream_text(stream)), result)
    }

    fn event_record_external(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let result = self.inner.event_record_external(event, stream);
        let (event, stream) = (event_text(event), stream_text(stream));
        self.done(format_args!("event_record_external({event}, {stream})"), result)
    }

    fn event_query(&self, event: EventHandle) -> Result<bool> {
        self.value(format_args!("event_query({})", event_text(event)), self.inner.event_query(event))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let result = self.inner.event_synchronize(event);
        self.done(format_args!("event_synchronize({})", event_text(event)), result)
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let result = self.inner.event_elapsed_ms(start, end);
        self.value(format_args!("event_elapsed_ms({}, {})", event_text(start), event_text(end)), result)
    }

    unsafe fn copy(&self, dst: CopyEnd, src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.copy(dst, src, bytes, stream) };
        let (dst, src, stream) = (end_text(dst), end_text(src), stream_text(stream));
        self.done(format_args!("copy({dst}, {src}, {bytes}, {stream})"), result)
    }

    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.fill(dst, value, bytes, stream) };
        self.done(format_args!("fill({dst}, {value}, {bytes}, {})", stream_text(stream)), result)
    }

    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>> {
        self.note(format_args!("host_alloc({bytes})"), self.inner.host_alloc(bytes), |_| "host".to_owned())
    }

    unsafe fn host_free(&self, ptr: NonNull<u8>) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.host_free(ptr) };
        self.done(format_args!("host_free(host)"), result)
    }

    unsafe fn host_register(&self, ptr: NonNull<u8>, bytes: u64) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.host_register(ptr, bytes) };
        self.done(format_args!("host_register(host, {bytes})"), result)
    }

    unsafe fn host_unregister(&self, ptr: NonNull<u8>) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.host_unregister(ptr) };
        self.done(format_args!("host_unregister(host)"), result)
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        self.value(format_args!("capture_state({})", stream_text(stream)), self.inner.capture_state(stream))
    }

    fn capture_info(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>> {
        self.value(format_args!("capture_info({})", stream_text(stream)), self.inner.capture_info(stream))
    }

    fn stream_begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        let result = self.inner.stream_begin_capture(stream, mode);
        self.done(format_args!("stream_begin_capture({}, {mode:?})", stream_text(stream)), result)
    }

    fn stream_end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        let result = self.inner.stream_end_capture(stream);
        let shown = |graph: &GraphHandle| graph.raw.to_string();
        self.note(format_args!("stream_end_capture({})", stream_text(stream)), result, shown)
    }

    fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>> {
        self.value(format_args!("node_dependencies({})", node.0), self.inner.node_dependencies(node))
    }

    fn graph_node_count(&self, graph: GraphHandle) -> Result<usize> {
        self.value(format_args!("graph_node_count({})", graph.raw), self.inner.graph_node_count(graph))
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        self.done(format_args!("graph_destroy({})", graph.raw), self.inner.graph_destroy(graph))
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        let result = self.inner.graph_instantiate(graph);
        let shown = |exec: &GraphExecHandle| exec.raw.to_string();
        self.note(format_args!("graph_instantiate({})", graph.raw), result, shown)
    }

    fn graph_exec_update(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<()> {
        let result = self.inner.graph_exec_update(exec, graph);
        self.done(format_args!("graph_exec_update({}, {})", exec.raw, graph.raw), result)
    }

    fn graph_upload(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        let result = self.inner.graph_upload(exec, stream);
        self.done(format_args!("graph_upload({}, {})", exec.raw, stream_text(stream)), result)
    }

    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.graph_launch(exec, stream) };
        self.done(format_args!("graph_launch({}, {})", exec.raw, stream_text(stream)), result)
    }

    fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        let result = self.inner.graph_exec_destroy(exec);
        self.done(format_args!("graph_exec_destroy({})", exec.raw), result)
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        let result = self.inner.exchange_capture_mode(mode);
        self.value(format_args!("exchange_capture_mode({mode:?})"), result)
    }

    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        let result = self.inner.can_access_peer(device, peer);
        self.value(format_args!("can_access_peer({device}, {peer})"), result)
    }

    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        let result = self.inner.enable_peer_access(device, peer);
        self.done(format_args!("enable_peer_access({device}, {peer})"), result)
    }

    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle> {
        self.value(format_args!("ipc_export({ptr})"), self.inner.ipc_export(ptr))
    }

    unsafe fn ipc_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.ipc_open(device, handle) };
        self.value(format_args!("ipc_open({device}, {handle:?})"), result)
    }

    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.ipc_close(ptr) };
        self.done(format_args!("ipc_close({ptr})"), result)
    }

    fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle> {
        self.value(format_args!("export_memory({memory:?})"), self.inner.export_memory(memory))
    }

    fn import_memory(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<PhysHandle> {
        let result = self.inner.import_memory(device, handle);
        self.value(format_args!("import_memory({device}, {handle:?})"), result)
    }

    fn event_export(&self, event: EventHandle) -> Result<IpcHandle> {
        self.value(format_args!("event_export({})", event_text(event)), self.inner.event_export(event))
    }

    fn event_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle> {
        let result = self.inner.event_open(device, handle);
        let shown = |event: &EventHandle| event_text(*event).to_string();
        self.note(format_args!("event_open({device}, {handle:?})"), result, shown)
    }

    fn module_load(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle> {
        let result = self.inner.module_load(device, image);
        let shown = |module: &ModuleHandle| module.raw.to_string();
        self.note(format_args!("module_load({device}, {} bytes)", image.len()), result, shown)
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.module_unload(module) };
        self.done(format_args!("module_unload({})", module.raw), result)
    }

    fn module_function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let result = self.inner.module_function(module, name);
        let shown = |function: &FunctionHandle| function.raw.to_string();
        self.note(format_args!("module_function({}, {name})", module.raw), result, shown)
    }

    unsafe fn launch_function(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.launch_function(stream, function, config, params) };
        let LaunchConfig { grid, block, shared_bytes } = config;
        let (stream, raw) = (stream_text(stream), function.raw);
        let sizes: Vec<usize> = params.iter().map(|param| param.len()).collect();
        self.done(
            format_args!(
                "launch_function({stream}, {raw}, {grid:?} of {block:?}, {shared_bytes}, {sizes:?})"
            ),
            result,
        )
    }

    unsafe fn launch(&self, stream: StreamHandle, kernel: KernelLaunch) -> Result<()> {
        let access = |access: &super::Access| format!("{}+{}", access.ptr, access.bytes);
        let join = |list: &[super::Access]| list.iter().map(access).collect::<Vec<_>>().join(" ");
        let (name, reads, writes) = (kernel.name, join(&kernel.reads), join(&kernel.writes));
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.launch(stream, kernel) };
        let stream = stream_text(stream);
        self.done(format_args!("launch({stream}, {name}, reads [{reads}], writes [{writes}])"), result)
    }
}
