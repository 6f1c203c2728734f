#![expect(unsafe_code, reason = "hands the raw layer's calls on, with the promises of its own callers")]
//! [`Driver`] for [`Checked`]: each call with its duties, and what the books say of it.

use std::ptr::NonNull;
use std::sync::Arc;

use c10_core::DeviceIndex;

use super::Checked;
use super::books::{Books, Physical};
use crate::captures::Captures;
use crate::driver::{
    Access, CaptureInfo, CaptureMode, CaptureState, CopyEnd, DeviceProps, DevicePtr, Driver, EventFlags,
    EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, IpcHandle, KernelLaunch, LaunchConfig,
    MemPoolInfo, MemoryInfo, ModuleHandle, NodeId, PhysHandle, Result, StreamHandle, VaRange, Witness,
    sealed,
};

impl sealed::Sealed for Checked {
    fn captures(&self) -> &Arc<Captures> {
        self.inner.captures()
    }
}

impl Driver for Checked {
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
        self.inner.device_props(device)
    }

    fn memory_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        self.inner.memory_info(device)
    }

    fn device_synchronize(&self, device: DeviceIndex) -> Result<()> {
        self.inner.device_synchronize(device)
    }

    fn malloc(&self, device: DeviceIndex, bytes: u64) -> Result<DevicePtr> {
        let mut books = self.books();
        let ptr = self.inner.malloc(device, bytes)?;
        assert!(bytes != 0 && !ptr.is_null(), "R2: malloc gave {ptr} for {bytes} bytes");
        assert!(
            !books.overlaps(ptr, bytes),
            "R6: malloc gave {bytes} bytes at {ptr}, which overlap a live range"
        );
        books.allocations.insert(ptr.0, bytes);
        Ok(ptr)
    }

    unsafe fn free(&self, ptr: DevicePtr) -> Result<()> {
        let live = |books: &Books| books.allocations.contains_key(&ptr.0);
        // SAFETY: as this call's own caller promises.
        let call = || unsafe { self.inner.free(ptr) };
        self.ended(live, (&ptr, "freed", "free"), call, |books| _ = books.allocations.remove(&ptr.0))
    }

    fn granularity(&self, device: DeviceIndex) -> Result<u64> {
        self.inner.granularity(device)
    }

    fn reserve(&self, device: DeviceIndex, bytes: u64) -> Result<VaRange> {
        let mut books = self.books();
        let range = self.inner.reserve(device, bytes)?;
        let VaRange { base, bytes } = range;
        assert!(!books.overlaps(base, bytes), "R6: reserve gave {bytes} bytes at {base}, which overlap");
        books.reservations.insert(base.0, bytes);
        Ok(range)
    }

    unsafe fn free_range(&self, range: VaRange) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        self.range_freed(range, || unsafe { self.inner.free_range(range) })
    }

    fn create(&self, device: DeviceIndex, bytes: u64) -> Result<PhysHandle> {
        let mut books = self.books();
        let memory = self.inner.create(device, bytes)?;
        let new = books.physical.insert(memory, Physical { handles: 1, maps: 0 }).is_none();
        assert!(new, "R2: create gave {memory:?}, which is live");
        Ok(memory)
    }

    fn release(&self, memory: PhysHandle) -> Result<()> {
        let live = |books: &Books| books.physical.get(&memory).is_some_and(|p| p.handles > 0);
        let call = || self.inner.release(memory);
        self.ended(live, (&memory, "released", "release"), call, |books| books.released(memory))
    }

    fn map(&self, at: DevicePtr, memory: PhysHandle) -> Result<()> {
        self.mapped(at, memory, || self.inner.map(at, memory))
    }

    fn set_access(&self, at: DevicePtr, bytes: u64, devices: &[DeviceIndex]) -> Result<()> {
        self.access_set(at, bytes, || self.inner.set_access(at, bytes, devices))
    }

    unsafe fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<()> {
        // SAFETY: as this call's own caller promises.
        self.unmapped(at, bytes, || unsafe { self.inner.unmap(at, bytes) })
    }

    fn malloc_async(&self, bytes: u64, stream: StreamHandle) -> Result<DevicePtr> {
        let mut books = self.books();
        let ptr = self.on_stream(&books, stream, || self.inner.malloc_async(bytes, stream))?;
        assert!(bytes != 0 && !ptr.is_null(), "R2: malloc_async gave {ptr} for {bytes} bytes");
        assert!(
            !books.overlaps(ptr, bytes),
            "R6: malloc_async gave {bytes} bytes at {ptr}, which overlap a live range"
        );
        if !books.origins.is_empty() {
            books.of_graphs.insert(ptr.0, bytes);
        }
        books.pooled.insert(ptr.0, bytes);
        Ok(ptr)
    }

    unsafe fn free_async(&self, ptr: DevicePtr, stream: StreamHandle) -> Result<()> {
        let mut books = self.books();
        // Memory of a graph lives anew with each launch.
        let live = books.pooled.contains_key(&ptr.0) || books.of_graphs.contains_key(&ptr.0);
        self.expect(live, "R2", format_args!("{ptr} is freed and not live"));
        let result = self.on_stream(&books, stream, || {
            // SAFETY: as this call's own caller promises.
            unsafe { self.inner.free_async(ptr, stream) }
        });
        self.refused(live, &result, "R2", format_args!("the free of {ptr}, which is not live"));
        if result.is_ok() {
            books.pooled.remove(&ptr.0);
        }
        result
    }

    fn mem_pool_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        let info = self.inner.mem_pool_info(device)?;
        let MemPoolInfo { used, used_peak, reserved, reserved_peak } = info;
        assert!(
            used <= reserved && used <= used_peak && reserved <= reserved_peak,
            "R9: a pool that holds {reserved} bytes, at most {reserved_peak}, has given out {used}, at most {used_peak}"
        );
        Ok(info)
    }

    fn mem_pool_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        self.inner.mem_pool_reset_peaks(device)
    }

    fn mem_pool_set_release_threshold(&self, device: DeviceIndex, bytes: u64) -> Result<()> {
        self.inner.mem_pool_set_release_threshold(device, bytes)
    }

    fn mem_pool_trim(&self, device: DeviceIndex, keep: u64) -> Result<()> {
        self.inner.mem_pool_trim(device, keep)
    }

    fn mem_pool_set_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        self.inner.mem_pool_set_access(device, peer)
    }

    fn graph_memory_info(&self, device: DeviceIndex) -> Result<MemPoolInfo> {
        self.inner.graph_memory_info(device)
    }

    fn graph_memory_reset_peaks(&self, device: DeviceIndex) -> Result<()> {
        self.inner.graph_memory_reset_peaks(device)
    }

    fn stream_priority_range(&self, device: DeviceIndex) -> Result<(i32, i32)> {
        self.inner.stream_priority_range(device)
    }

    fn stream_create(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle> {
        let mut books = self.books();
        let stream = self.inner.stream_create(device, priority)?;
        let new = stream.raw != 0 && books.streams.insert(stream);
        assert!(new, "R2: stream_create gave {stream:?}, which is live");
        Ok(stream)
    }

    unsafe fn stream_adopt(&self, stream: StreamHandle) -> Result<()> {
        let mut books = self.books();
        // SAFETY: as this call's own caller promises.
        unsafe { self.inner.stream_adopt(stream) }?;
        *books.lent.entry(stream).or_default() += 1;
        Ok(())
    }

    fn stream_disown(&self, stream: StreamHandle) -> Result<()> {
        let mut books = self.books();
        let result = self.on_stream(&books, stream, || self.inner.stream_disown(stream));
        if result.is_ok() {
            books.taken_back(stream);
        }
        result
    }

    fn stream_priority(&self, stream: StreamHandle) -> Result<i32> {
        let books = self.books();
        self.on_stream(&books, stream, || self.inner.stream_priority(stream))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        let live = |books: &Books| books.is_stream(stream);
        let call = || self.inner.stream_destroy(stream);
        self.ended(live, (&stream, "ended", "end"), call, |books| books.stream_ended(stream))
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<bool> {
        let mut books = self.books();
        let result = self.on_stream(&books, stream, || self.inner.stream_query(stream));
        if matches!(result, Ok(true))
            && let Some(place) = books.last_record(stream)
        {
            books.completed(place);
        }
        result
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let (live, before) = {
            let books = self.books();
            (books.is_stream(stream), books.last_record(stream))
        };
        self.expect(live, "R2", format_args!("{stream:?} is used and not live"));
        // Others may go on while this waits.
        let result = self.inner.stream_synchronize(stream);
        self.refused(live, &result, "R2", format_args!("{stream:?}, which is not live"));
        let mut books = self.books();
        if let (Ok(()), Some(place)) = (&result, before)
            && books.is_stream(stream)
        {
            books.completed(place);
        }
        result
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let books = self.books();
        self.on_event(&books, event, || {
            self.on_stream(&books, stream, || self.inner.stream_wait_event(stream, event))
        })
    }

    fn event_create(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle> {
        let mut books = self.books();
        let event = self.inner.event_create(device, flags)?;
        let new = books.events.insert(event, None).is_none();
        assert!(new, "R2: event_create gave {event:?}, which is live");
        Ok(event)
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        let live = |books: &Books| books.events.contains_key(&event);
        let call = || self.inner.event_destroy(event);
        self.ended(live, (&event, "ended", "end"), call, |books| _ = books.events.remove(&event))
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.record(event, stream, || self.inner.event_record(event, stream))
    }

    fn event_record_external(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.record(event, stream, || self.inner.event_record_external(event, stream))
    }

    fn event_query(&self, event: EventHandle) -> Result<bool> {
        let mut books = self.books();
        let result = self.on_event(&books, event, || self.inner.event_query(event));
        if let Some(place) = books.events.get(&event).copied().flatten() {
            match result {
                Ok(true) => books.completed(place),
                Ok(false) => assert!(
                    !books.is_complete(place),
                    "R3: {event:?} is not ready, and what it stands for, or later work of its stream, is complete"
                ),
                Err(_) => {}
            }
        }
        result
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let (live, before) = {
            let books = self.books();
            let place = books.events.get(&event).copied();
            (place.is_some(), place.flatten())
        };
        self.expect(live, "R2", format_args!("{event:?} is used and not live"));
        let result = self.inner.event_synchronize(event);
        self.refused(live, &result, "R2", format_args!("{event:?}, which is not live"));
        if result.is_ok() {
            Self::complete(&mut self.books(), event, before);
        }
        result
    }

    fn event_elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32> {
        let books = self.books();
        let result = self.on_event(&books, start, || {
            self.on_event(&books, end, || self.inner.event_elapsed_ms(start, end))
        });
        let ordered = result.as_ref().is_ok_and(|ms| ms.is_nan());
        assert!(!ordered, "R3: the time between {start:?} and {end:?} is no number");
        result
    }

    unsafe fn copy(&self, dst: CopyEnd, src: CopyEnd, bytes: u64, stream: StreamHandle) -> Result<()> {
        let of_device = |end| match end {
            CopyEnd::Device(ptr) => Some(Access { ptr, bytes }),
            CopyEnd::Host(_) => None,
        };
        let used: Vec<Access> = [dst, src].into_iter().filter_map(of_device).collect();
        // SAFETY: as this call's own caller promises.
        self.issued(stream, "copy", &used, || unsafe { self.inner.copy(dst, src, bytes, stream) })
    }

    unsafe fn fill(&self, dst: DevicePtr, value: u8, bytes: u64, stream: StreamHandle) -> Result<()> {
        let used = [Access { ptr: dst, bytes }];
        // SAFETY: as this call's own caller promises.
        self.issued(stream, "fill", &used, || unsafe { self.inner.fill(dst, value, bytes, stream) })
    }

    fn host_alloc(&self, bytes: u64) -> Result<NonNull<u8>> {
        let mut books = self.books();
        let ptr = self.inner.host_alloc(bytes)?;
        let at = ptr.as_ptr().addr();
        assert!(
            !books.overlaps_pinned(at, bytes),
            "R6: host_alloc gave {bytes} bytes that overlap a live range"
        );
        books.pinned.insert(at, bytes);
        Ok(ptr)
    }

    unsafe fn host_free(&self, ptr: NonNull<u8>) -> Result<()> {
        let live = |books: &Books| books.pinned.contains_key(&ptr.as_ptr().addr());
        // SAFETY: as this call's own caller promises.
        let call = || unsafe { self.inner.host_free(ptr) };
        self.ended(live, (&"pinned memory", "freed", "free"), call, |books| {
            _ = books.pinned.remove(&ptr.as_ptr().addr())
        })
    }

    unsafe fn host_register(&self, ptr: NonNull<u8>, bytes: u64) -> Result<()> {
        let mut books = self.books();
        let at = ptr.as_ptr().addr();
        let taken = books.overlaps_pinned(at, bytes);
        self.expect(!taken, "R6", format_args!("{bytes} bytes are registered and pinned already"));
        // SAFETY: as this call's own caller promises.
        let result = unsafe { self.inner.host_register(ptr, bytes) };
        self.refused(!taken, &result, "R6", format_args!("{bytes} bytes that are pinned already"));
        if result.is_ok() {
            books.registered.insert(at, bytes);
        }
        result
    }

    unsafe fn host_unregister(&self, ptr: NonNull<u8>) -> Result<()> {
        let live = |books: &Books| books.registered.contains_key(&ptr.as_ptr().addr());
        // SAFETY: as this call's own caller promises.
        let call = || unsafe { self.inner.host_unregister(ptr) };
        self.ended(live, (&"memory", "unregistered", "end of the registration"), call, |books| {
            _ = books.registered.remove(&ptr.as_ptr().addr())
        })
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        let books = self.books();
        self.on_stream(&books, stream, || self.inner.capture_state(stream))
    }

    fn capture_info(&self, stream: StreamHandle) -> Result<Option<CaptureInfo>> {
        let books = self.books();
        let result = self.on_stream(&books, stream, || self.inner.capture_info(stream));
        let known = matches!(&result, Ok(Some(info)) if info.id == 0);
        assert!(!known, "R7: {stream:?} is in capture 0, which is none");
        result
    }

    fn stream_begin_capture(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        self.capture_begun(stream, || self.inner.stream_begin_capture(stream, mode))
    }

    fn stream_end_capture(&self, stream: StreamHandle) -> Result<GraphHandle> {
        self.capture_ended(stream, || self.inner.stream_end_capture(stream))
    }

    fn node_dependencies(&self, node: NodeId) -> Result<Vec<NodeId>> {
        self.inner.node_dependencies(node)
    }

    fn graph_node_count(&self, graph: GraphHandle) -> Result<usize> {
        let live = self.books().graphs.contains(&graph);
        self.on_live(live, &graph, || self.inner.graph_node_count(graph))
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        let live = |books: &Books| books.graphs.contains(&graph);
        let call = || self.inner.graph_destroy(graph);
        self.ended(live, (&graph, "ended", "end"), call, |books| _ = books.graphs.remove(&graph))
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        let mut books = self.books();
        let live = books.graphs.contains(&graph);
        let exec = self.on_live(live, &graph, || self.inner.graph_instantiate(graph))?;
        assert!(books.execs.insert(exec), "R2: graph_instantiate gave {exec:?}, which is live");
        Ok(exec)
    }

    fn graph_exec_update(&self, exec: GraphExecHandle, graph: GraphHandle) -> Result<()> {
        let books = self.books();
        let (exec_live, graph_live) = (books.execs.contains(&exec), books.graphs.contains(&graph));
        self.on_live(exec_live, &exec, || {
            self.on_live(graph_live, &graph, || self.inner.graph_exec_update(exec, graph))
        })
    }

    fn graph_upload(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        let live = self.books().execs.contains(&exec);
        let upload = || self.inner.graph_upload(exec, stream);
        self.on_live(live, &exec, || self.issued(stream, "graph_upload", &[], upload))
    }

    unsafe fn graph_launch(&self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        let live = self.books().execs.contains(&exec);
        // SAFETY: as this call's own caller promises.
        let launch = || unsafe { self.inner.graph_launch(exec, stream) };
        self.on_live(live, &exec, || self.issued(stream, "graph_launch", &[], launch))
    }

    fn graph_exec_destroy(&self, exec: GraphExecHandle) -> Result<()> {
        let live = |books: &Books| books.execs.contains(&exec);
        let call = || self.inner.graph_exec_destroy(exec);
        self.ended(live, (&exec, "ended", "end"), call, |books| _ = books.execs.remove(&exec))
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        self.inner.exchange_capture_mode(mode)
    }

    fn can_access_peer(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<bool> {
        self.inner.can_access_peer(device, peer)
    }

    fn enable_peer_access(&self, device: DeviceIndex, peer: DeviceIndex) -> Result<()> {
        self.inner.enable_peer_access(device, peer)
    }

    fn ipc_export(&self, ptr: DevicePtr) -> Result<IpcHandle> {
        let live = self.books().allocations.contains_key(&ptr.0);
        self.on_live(live, &ptr, || self.inner.ipc_export(ptr))
    }

    unsafe fn ipc_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<DevicePtr> {
        let mut books = self.books();
        // SAFETY: as this call's own caller promises.
        let ptr = unsafe { self.inner.ipc_open(device, handle) }?;
        assert!(!books.overlaps(ptr, 1), "R6: ipc_open gave {ptr}, where a range lives");
        books.opened.insert(ptr.0);
        Ok(ptr)
    }

    unsafe fn ipc_close(&self, ptr: DevicePtr) -> Result<()> {
        let live = |books: &Books| books.opened.contains(&ptr.0);
        // SAFETY: as this call's own caller promises.
        let call = || unsafe { self.inner.ipc_close(ptr) };
        self.ended(live, (&ptr, "closed", "close"), call, |books| _ = books.opened.remove(&ptr.0))
    }

    fn export_memory(&self, memory: PhysHandle) -> Result<IpcHandle> {
        let live = self.books().physical.get(&memory).is_some_and(|p| p.handles > 0);
        self.on_live(live, &memory, || self.inner.export_memory(memory))
    }

    fn import_memory(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<PhysHandle> {
        let mut books = self.books();
        let memory = self.inner.import_memory(device, handle)?;
        books.physical.entry(memory).or_default().handles += 1;
        Ok(memory)
    }

    fn event_export(&self, event: EventHandle) -> Result<IpcHandle> {
        let books = self.books();
        self.on_event(&books, event, || self.inner.event_export(event))
    }

    fn event_open(&self, device: DeviceIndex, handle: &IpcHandle) -> Result<EventHandle> {
        let mut books = self.books();
        let event = self.inner.event_open(device, handle)?;
        let new = books.events.insert(event, None).is_none();
        assert!(new, "R2: event_open gave {event:?}, which is live");
        Ok(event)
    }

    fn module_load(&self, device: DeviceIndex, image: &[u8]) -> Result<ModuleHandle> {
        let mut books = self.books();
        let module = self.inner.module_load(device, image)?;
        let new = books.modules.insert(module, Vec::new()).is_none();
        assert!(new, "R10: module_load gave {module:?}, which is live");
        Ok(module)
    }

    unsafe fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        let live = |books: &Books| books.modules.contains_key(&module);
        // SAFETY: as this call's own caller promises.
        let call = || unsafe { self.inner.module_unload(module) };
        self.ended(live, (&module, "unloaded", "unloading"), call, |books| _ = books.modules.remove(&module))
    }

    fn module_function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let mut books = self.books();
        let live = books.modules.contains_key(&module);
        let function = self.on_live(live, &module, || self.inner.module_function(module, name))?;
        books.modules.entry(module).or_default().push(function);
        Ok(function)
    }

    unsafe fn launch_function(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        config: LaunchConfig,
        params: &[&[u8]],
    ) -> Result<()> {
        let live = self.books().modules.values().flatten().any(|known| *known == function);
        // SAFETY: as this call's own caller promises.
        let launch = || unsafe { self.inner.launch_function(stream, function, config, params) };
        self.on_live(live, &function, || self.issued(stream, "launch_function", &[], launch))
    }

    unsafe fn launch(&self, stream: StreamHandle, kernel: KernelLaunch) -> Result<()> {
        let used = [kernel.reads.as_slice(), &kernel.writes].concat();
        // SAFETY: as this call's own caller promises.
        self.issued(stream, kernel.name, &used, || unsafe { self.inner.launch(stream, kernel) })
    }
}
