//! Before `cuInit`, errors as texts, entry points by name.

use std::ffi::{CStr, CString, c_char, c_void};

use crate::rig::{INVALID_VALUE, Rig, SUCCESS, call, function};

const NOT_FOUND: u32 = 500;

fn text(at: *const c_char) -> String {
    // SAFETY: the library's texts are constants that end in a zero.
    unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
}

#[test]
fn errors_have_names_and_texts() {
    let _rig = Rig::new(1);
    let mut at: *const c_char = std::ptr::null();
    assert_eq!(call!(cuGetErrorName(700 => u32, &mut at => *mut *const c_char)), SUCCESS);
    assert_eq!(text(at), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(call!(cuGetErrorString(0 => u32, &mut at => *mut *const c_char)), SUCCESS);
    assert_eq!(text(at), "no error");
    assert_eq!(call!(cuGetErrorName(12345 => u32, &mut at => *mut *const c_char)), INVALID_VALUE);
    assert!(at.is_null());
    let nowhere = std::ptr::null_mut::<*const c_char>();
    assert_eq!(call!(cuGetErrorString(0 => u32, nowhere => *mut *const c_char)), INVALID_VALUE);
}

#[test]
fn entry_points_are_found_by_name_and_version() {
    let _rig = Rig::new(1);
    let find = |name: &str, version: i32| {
        let name = CString::new(name).unwrap();
        let (mut at, mut status): (*mut c_void, u32) = (std::ptr::null_mut(), 9);
        let result = call!(cuGetProcAddress_v2(
            name.as_ptr() => *const c_char,
            &mut at => *mut *mut c_void,
            version => i32,
            0 => u64,
            &mut status => *mut u32,
        ));
        (result, at, status)
    };
    let exported = |name: &str| function::<*mut c_void>(name);
    assert_eq!(find("cuMemAlloc", 12_040), (SUCCESS, exported("cuMemAlloc_v2"), 0));
    assert_eq!(find("cuInit", 12_040), (SUCCESS, exported("cuInit"), 0));
    assert_eq!(find("cuStreamWaitEvent", 12_040), (SUCCESS, exported("cuStreamWaitEvent"), 0));
    assert_eq!(find("cuStreamGetCaptureInfo", 12_000).1, exported("cuStreamGetCaptureInfo_v2"));
    assert_eq!(find("cuStreamGetCaptureInfo", 12_030).1, exported("cuStreamGetCaptureInfo_v3"));
    assert_eq!(find("cuNoSuchThing", 12_040), (NOT_FOUND, std::ptr::null_mut(), 1));
}

#[test]
fn null_where_a_result_goes_is_an_invalid_value() {
    let _rig = Rig::new(1);
    let null = std::ptr::null_mut::<u64>();
    assert_eq!(call!(cuMemAlloc_v2(null => *mut u64, 64 => usize)), INVALID_VALUE);
    assert_eq!(call!(cuStreamCreate(null => *mut u64, 0 => u32)), INVALID_VALUE);
    assert_eq!(call!(cuEventCreate(null => *mut u64, 0 => u32)), INVALID_VALUE);
    assert_eq!(call!(cuDevicePrimaryCtxRetain(null => *mut u64, 0 => i32)), INVALID_VALUE);
    let nowhere = std::ptr::null_mut::<i32>();
    assert_eq!(call!(cuDeviceGetCount(nowhere => *mut i32)), INVALID_VALUE);
}

/// What cudarc's wrappers resolve: a name that is not there is a panic of theirs.
#[test]
fn cudarc_finds_what_it_resolves() {
    let names = "cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxGetCacheConfig \
        cuCtxGetCurrent cuCtxGetLimit cuCtxGetStreamPriorityRange cuCtxSetCacheConfig \
        cuCtxSetCurrent cuCtxSetFlags cuCtxSetLimit cuCtxSynchronize \
        cuDestroyExternalMemory cuDeviceGet cuDeviceGetAttribute cuDeviceGetCount \
        cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceGetName cuDeviceGetUuid \
        cuDeviceGetUuid_v2 cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRetain cuDeviceSetMemPool \
        cuDeviceTotalMem_v2 cuEventCreate cuEventDestroy_v2 cuEventElapsedTime \
        cuEventElapsedTime_v2 cuEventQuery cuEventRecord cuEventSynchronize \
        cuExternalMemoryGetMappedBuffer cuFuncGetAttribute cuFuncSetAttribute cuFuncSetCacheConfig \
        cuGetErrorName cuGetErrorString cuGraphDestroy cuGraphExecDestroy \
        cuGraphInstantiateWithFlags cuGraphLaunch cuGraphUpload cuImportExternalMemory \
        cuInit cuLaunchCooperativeKernel cuLaunchHostFunc cuLaunchKernel \
        cuMemAdvise_v2 cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAllocManaged \
        cuMemAlloc_v2 cuMemFreeAsync cuMemFreeHost cuMemFree_v2 \
        cuMemGetInfo_v2 cuMemHostAlloc cuMemPoolCreate cuMemPoolDestroy \
        cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPrefetchAsync_v2 \
        cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 \
        cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyPeerAsync cuMemsetD8Async \
        cuMemsetD8_v2 cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleLoad \
        cuModuleLoadData cuModuleUnload cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor \
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags \
        cuOccupancyMaxPotentialClusterSize cuProfilerStart cuProfilerStop cuStreamAttachMemAsync \
        cuStreamBeginCapture_v2 cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2 \
        cuStreamEndCapture cuStreamIsCapturing cuStreamSynchronize cuStreamWaitEvent";
    for name in names.split_whitespace() {
        assert!(!function::<*mut c_void>(name).is_null());
    }
}

#[test]
fn what_a_device_cannot_do_is_refused() {
    let rig = Rig::new(1);
    const NOT_SUPPORTED: u32 = 801;
    let managed = |bytes: usize| call!(cuMemAllocManaged(&mut 0 => *mut u64, bytes => usize, 1 => u32));
    assert_eq!(managed(64), NOT_SUPPORTED);
    assert_eq!(managed(0), INVALID_VALUE);
    let mut can = 9;
    assert_eq!(call!(cuDeviceGetAttribute(&mut can => *mut i32, 83 => u32, 0 => i32)), SUCCESS);
    assert_eq!(can, 0, "the device says that it has no managed memory");
    let ptr = rig.malloc(64);
    assert_eq!(call!(cuMemPrefetchAsync(ptr => u64, 64 => usize, 0 => i32, 0 => u64)), INVALID_VALUE);
    rig.free(ptr);
}
