//! [`CallName`]: the driver's calls by number, for counters, the log and the fault plan.

macro_rules! calls {
    ($($variant:ident $name:literal $kind:ident),* $(,)?) => {
        /// A call of the trait.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum CallName { $($variant),* }

        impl CallName {
            /// How many there are.
            pub(super) const COUNT: usize = [$($name),*].len();

            /// The method's name.
            pub(super) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Whether it only asks.
            pub(super) const fn only_asks(self) -> bool {
                match self { $(Self::$variant => calls!(@$kind)),* }
            }

            /// The call of that name.
            ///
            /// # Panics
            /// When the trait has none: a misspelt name would otherwise go unnoticed.
            #[track_caller]
            pub(super) fn named(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    _ => panic!("the driver has no call `{name}`"),
                }
            }
        }

        /// The names of all calls that can fail, in the trait's order.
        pub const CALL_NAMES: [&str; CallName::COUNT] = [$($name),*];
    };
    (@asks) => { true };
    (@acts) => { false };
}

calls! {
    DeviceProps "device_props" asks,
    MemoryInfo "memory_info" asks,
    DeviceSynchronize "device_synchronize" acts,
    Malloc "malloc" acts,
    Free "free" acts,
    Granularity "granularity" asks,
    Reserve "reserve" acts,
    FreeRange "free_range" acts,
    Create "create" acts,
    Release "release" acts,
    Map "map" acts,
    SetAccess "set_access" acts,
    Unmap "unmap" acts,
    MallocAsync "malloc_async" acts,
    FreeAsync "free_async" acts,
    MemPoolInfo "mem_pool_info" asks,
    MemPoolResetPeaks "mem_pool_reset_peaks" acts,
    MemPoolSetReleaseThreshold "mem_pool_set_release_threshold" acts,
    MemPoolTrim "mem_pool_trim" acts,
    MemPoolSetAccess "mem_pool_set_access" acts,
    GraphMemoryInfo "graph_memory_info" asks,
    GraphMemoryResetPeaks "graph_memory_reset_peaks" acts,
    StreamPriorityRange "stream_priority_range" asks,
    StreamCreate "stream_create" acts,
    StreamPriority "stream_priority" asks,
    StreamDestroy "stream_destroy" acts,
    StreamQuery "stream_query" asks,
    StreamSynchronize "stream_synchronize" acts,
    StreamWaitEvent "stream_wait_event" acts,
    EventCreate "event_create" acts,
    EventDestroy "event_destroy" acts,
    EventRecord "event_record" acts,
    EventRecordExternal "event_record_external" acts,
    EventQuery "event_query" asks,
    EventSynchronize "event_synchronize" acts,
    EventElapsedMs "event_elapsed_ms" asks,
    Copy "copy" acts,
    Fill "fill" acts,
    HostAlloc "host_alloc" acts,
    HostFree "host_free" acts,
    HostRegister "host_register" acts,
    HostUnregister "host_unregister" acts,
    StreamBeginCapture "stream_begin_capture" acts,
    StreamEndCapture "stream_end_capture" acts,
    CaptureState "capture_state" asks,
    CaptureInfo "capture_info" asks,
    NodeDependencies "node_dependencies" asks,
    GraphNodeCount "graph_node_count" asks,
    GraphDestroy "graph_destroy" acts,
    GraphInstantiate "graph_instantiate" acts,
    GraphExecUpdate "graph_exec_update" acts,
    GraphUpload "graph_upload" acts,
    GraphLaunch "graph_launch" acts,
    GraphExecDestroy "graph_exec_destroy" acts,
    ExchangeCaptureMode "exchange_capture_mode" acts,
    CanAccessPeer "can_access_peer" asks,
    EnablePeerAccess "enable_peer_access" acts,
    IpcExport "ipc_export" acts,
    IpcOpen "ipc_open" acts,
    IpcClose "ipc_close" acts,
    ExportMemory "export_memory" acts,
    ImportMemory "import_memory" acts,
    EventExport "event_export" acts,
    EventOpen "event_open" acts,
    ModuleLoad "module_load" acts,
    ModuleUnload "module_unload" acts,
    ModuleFunction "module_function" asks,
    LaunchFunction "launch_function" acts,
    Launch "launch" acts,
}
