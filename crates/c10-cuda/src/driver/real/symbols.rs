//! [`Symbols`]: every function of the driver that is used here, found before anything is called.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::abi::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode,
    CUipcEventHandle, CUipcMemHandle, CUmemGenericAllocationHandle, CUmemoryPool, CUmodule, CUstream,
    MemAccessDesc, MemAllocationProp, RawResult,
};
use super::library::Finder;

/// Declares the table: a field for each function, with the name under which the library exports it.
macro_rules! symbols {
    ($($field:ident = $symbol:literal($($argument:ty),* $(,)?);)*) => {
        /// The driver's functions.
        pub(super) struct Symbols {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> RawResult,)*
            /// `cuFuncGetParamInfo`, which came with CUDA 12.4.
            pub(super) func_get_param_info:
                Option<unsafe extern "C" fn(CUfunction, usize, *mut usize, *mut usize) -> RawResult>,
        }

        impl Symbols {
            /// Looks each function up; the names of those that are not there.
            pub(super) fn find(finder: &Finder) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    let $field: Option<unsafe extern "C" fn($($argument),*) -> RawResult> =
                        finder.function(concat!($symbol, "\0"));
                    if $field.is_none() {
                        missing.push($symbol);
                    }
                )*
                $(let Some($field) = $field else { return Err(missing) };)*
                Ok(Self { $($field,)* func_get_param_info: finder.function("cuFuncGetParamInfo\0") })
            }
        }
    };
}

// Where CUDA has changed a function, the name here is that of one meaning: libraries keep exporting old names.
symbols! {
    // Devices and contexts.
    init = "cuInit"(c_uint);
    device_get = "cuDeviceGet"(*mut CUdevice, c_int);
    device_get_count = "cuDeviceGetCount"(*mut c_int);
    device_get_name = "cuDeviceGetName"(*mut c_char, c_int, CUdevice);
    device_total_mem = "cuDeviceTotalMem_v2"(*mut usize, CUdevice);
    device_get_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, CUdevice);
    device_primary_ctx_retain = "cuDevicePrimaryCtxRetain"(*mut CUcontext, CUdevice);
    device_primary_ctx_release = "cuDevicePrimaryCtxRelease_v2"(CUdevice);
    ctx_get_current = "cuCtxGetCurrent"(*mut CUcontext);
    ctx_push_current = "cuCtxPushCurrent_v2"(CUcontext);
    ctx_pop_current = "cuCtxPopCurrent_v2"(*mut CUcontext);
    ctx_synchronize = "cuCtxSynchronize"();
    ctx_get_stream_priority_range = "cuCtxGetStreamPriorityRange"(*mut c_int, *mut c_int);
    ctx_enable_peer_access = "cuCtxEnablePeerAccess"(CUcontext, c_uint);
    device_can_access_peer = "cuDeviceCanAccessPeer"(*mut c_int, CUdevice, CUdevice);

    // Memory.
    mem_get_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    mem_alloc = "cuMemAlloc_v2"(*mut CUdeviceptr, usize);
    mem_free = "cuMemFree_v2"(CUdeviceptr);

    // Virtual memory.
    mem_get_allocation_granularity =
        "cuMemGetAllocationGranularity"(*mut usize, *const MemAllocationProp, c_uint);
    mem_address_reserve = "cuMemAddressReserve"(*mut CUdeviceptr, usize, usize, CUdeviceptr, u64);
    mem_address_free = "cuMemAddressFree"(CUdeviceptr, usize);
    mem_create = "cuMemCreate"(*mut CUmemGenericAllocationHandle, usize, *const MemAllocationProp, u64);
    mem_release = "cuMemRelease"(CUmemGenericAllocationHandle);
    mem_map = "cuMemMap"(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, u64);
    mem_unmap = "cuMemUnmap"(CUdeviceptr, usize);
    mem_set_access = "cuMemSetAccess"(CUdeviceptr, usize, *const MemAccessDesc, usize);
    mem_get_allocation_properties =
        "cuMemGetAllocationPropertiesFromHandle"(*mut MemAllocationProp, CUmemGenericAllocationHandle);
    mem_export = "cuMemExportToShareableHandle"(*mut c_void, CUmemGenericAllocationHandle, c_uint, u64);
    mem_import = "cuMemImportFromShareableHandle"(*mut CUmemGenericAllocationHandle, *mut c_void, c_uint);

    // Memory in stream order.
    mem_alloc_async = "cuMemAllocAsync"(*mut CUdeviceptr, usize, CUstream);
    mem_free_async = "cuMemFreeAsync"(CUdeviceptr, CUstream);
    device_get_default_mem_pool = "cuDeviceGetDefaultMemPool"(*mut CUmemoryPool, CUdevice);
    mem_pool_get_attribute = "cuMemPoolGetAttribute"(CUmemoryPool, c_uint, *mut c_void);
    mem_pool_set_attribute = "cuMemPoolSetAttribute"(CUmemoryPool, c_uint, *mut c_void);
    mem_pool_trim_to = "cuMemPoolTrimTo"(CUmemoryPool, usize);
    mem_pool_set_access = "cuMemPoolSetAccess"(CUmemoryPool, *const MemAccessDesc, usize);
    device_get_graph_mem_attribute = "cuDeviceGetGraphMemAttribute"(CUdevice, c_uint, *mut c_void);
    device_set_graph_mem_attribute = "cuDeviceSetGraphMemAttribute"(CUdevice, c_uint, *mut c_void);

    // Streams.
    stream_create_with_priority = "cuStreamCreateWithPriority"(*mut CUstream, c_uint, c_int);
    stream_destroy = "cuStreamDestroy_v2"(CUstream);
    stream_query = "cuStreamQuery"(CUstream);
    stream_synchronize = "cuStreamSynchronize"(CUstream);
    stream_wait_event = "cuStreamWaitEvent"(CUstream, CUevent, c_uint);
    stream_get_priority = "cuStreamGetPriority"(CUstream, *mut c_int);

    // Events.
    event_create = "cuEventCreate"(*mut CUevent, c_uint);
    event_destroy = "cuEventDestroy_v2"(CUevent);
    event_record = "cuEventRecord"(CUevent, CUstream);
    event_record_with_flags = "cuEventRecordWithFlags"(CUevent, CUstream, c_uint);
    event_query = "cuEventQuery"(CUevent);
    event_synchronize = "cuEventSynchronize"(CUevent);
    event_elapsed_time = "cuEventElapsedTime"(*mut f32, CUevent, CUevent);

    // Copies and fills.
    memcpy_async = "cuMemcpyAsync"(CUdeviceptr, CUdeviceptr, usize, CUstream);
    memcpy_htod_async = "cuMemcpyHtoDAsync_v2"(CUdeviceptr, *const c_void, usize, CUstream);
    memcpy_dtoh_async = "cuMemcpyDtoHAsync_v2"(*mut c_void, CUdeviceptr, usize, CUstream);
    memcpy_dtod_async = "cuMemcpyDtoDAsync_v2"(CUdeviceptr, CUdeviceptr, usize, CUstream);
    memcpy_peer_async =
        "cuMemcpyPeerAsync"(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    memset_d8_async = "cuMemsetD8Async"(CUdeviceptr, u8, usize, CUstream);

    // Memory of the host.
    mem_host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    mem_free_host = "cuMemFreeHost"(*mut c_void);
    mem_host_register = "cuMemHostRegister_v2"(*mut c_void, usize, c_uint);
    mem_host_unregister = "cuMemHostUnregister"(*mut c_void);

    // Captures and graphs.
    stream_begin_capture = "cuStreamBeginCapture_v2"(CUstream, c_uint);
    stream_end_capture = "cuStreamEndCapture"(CUstream, *mut CUgraph);
    stream_get_capture_info = "cuStreamGetCaptureInfo_v2"(
        CUstream,
        *mut c_uint,
        *mut u64,
        *mut CUgraph,
        *mut *const CUgraphNode,
        *mut usize,
    );
    thread_exchange_stream_capture_mode = "cuThreadExchangeStreamCaptureMode"(*mut c_uint);
    graph_get_nodes = "cuGraphGetNodes"(CUgraph, *mut CUgraphNode, *mut usize);
    graph_node_get_dependencies = "cuGraphNodeGetDependencies"(CUgraphNode, *mut CUgraphNode, *mut usize);
    graph_destroy = "cuGraphDestroy"(CUgraph);
    graph_instantiate = "cuGraphInstantiateWithFlags"(*mut CUgraphExec, CUgraph, u64);
    graph_exec_update = "cuGraphExecUpdate"(CUgraphExec, CUgraph, *mut CUgraphNode, *mut c_uint);
    graph_upload = "cuGraphUpload"(CUgraphExec, CUstream);
    graph_launch = "cuGraphLaunch"(CUgraphExec, CUstream);
    graph_exec_destroy = "cuGraphExecDestroy"(CUgraphExec);

    // Other processes.
    ipc_get_mem_handle = "cuIpcGetMemHandle"(*mut CUipcMemHandle, CUdeviceptr);
    ipc_open_mem_handle = "cuIpcOpenMemHandle_v2"(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    ipc_close_mem_handle = "cuIpcCloseMemHandle"(CUdeviceptr);
    ipc_get_event_handle = "cuIpcGetEventHandle"(*mut CUipcEventHandle, CUevent);
    ipc_open_event_handle = "cuIpcOpenEventHandle"(*mut CUevent, CUipcEventHandle);

    // Kernels.
    module_load_data = "cuModuleLoadData"(*mut CUmodule, *const c_void);
    module_unload = "cuModuleUnload"(CUmodule);
    module_get_function = "cuModuleGetFunction"(*mut CUfunction, CUmodule, *const c_char);
    launch_kernel = "cuLaunchKernel"(
        CUfunction,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void,
    );
}
