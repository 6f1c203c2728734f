//! Failures of CUDA's functions, one by one, through the FFI: each is told as it is, and leaves nothing behind.

use c10_cuda::driver::{
    CaptureMode, DevicePtr, Driver, EventFlags, EventHandle, Result, Status, StreamHandle, VaRange,
};

use super::RealRig;
use super::standin::Control;
use crate::graph_rules::start;
use crate::module_rules::{call, unload};
use crate::support::{Download, MIB, copy, fill, free, free_async, free_range, host_free, unmap, upload};

const S0: StreamHandle = StreamHandle::default_of(0);
const OUT_OF_MEMORY: u32 = 2;

/// What each function fails with: what CUDA says, and what we say.
pub(super) const FAILURES: [(u32, Status); 2] =
    [(OUT_OF_MEMORY, Status::OutOfMemory), (999, Status::Other(999))];

/// Runs the first call, and then the second whatever the first said: it works, for the fault is over.
pub(super) fn ended<T>(first: Result<T>, second: impl FnOnce() -> Result<T>) -> Result<T> {
    if first.is_err() {
        second().unwrap();
    }
    first
}

pub(super) fn with_stream(d: &dyn Driver, work: impl FnOnce(StreamHandle) -> Result<()>) -> Result<()> {
    let stream = d.stream_create(0, 0)?;
    let done = work(stream);
    done.and(ended(d.stream_destroy(stream), || d.stream_destroy(stream)))
}

pub(super) fn with_memory(d: &dyn Driver, work: impl FnOnce(DevicePtr) -> Result<()>) -> Result<()> {
    let ptr = d.malloc(0, 4096)?;
    let done = work(ptr);
    done.and(ended(free(d, ptr), || free(d, ptr)))
}

fn with_range(d: &dyn Driver, work: impl FnOnce(VaRange, u64) -> Result<()>) -> Result<()> {
    let unit = d.granularity(0)?;
    let range = d.reserve(0, 2 * unit)?;
    let done = work(range, unit);
    done.and(ended(free_range(d, range), || free_range(d, range)))
}

pub(super) fn with_event(
    d: &dyn Driver,
    flags: EventFlags,
    work: impl FnOnce(EventHandle) -> Result<()>,
) -> Result<()> {
    let event = d.event_create(0, flags)?;
    let done = work(event);
    done.and(ended(d.event_destroy(event), || d.event_destroy(event)))
}

fn map_and_unmap(d: &dyn Driver) -> Result<()> {
    with_range(d, |range, unit| {
        let memory = d.create(0, unit)?;
        let mapped = d.map(range.base, memory);
        let released = ended(d.release(memory), || d.release(memory));
        mapped?;
        let let_in = d.set_access(range.base, unit, &[0]);
        let unmapped = ended(unmap(d, range.base, unit), || unmap(d, range.base, unit));
        released.and(let_in).and(unmapped)
    })
}

fn capture(d: &dyn Driver) -> Result<()> {
    with_stream(d, |stream| {
        d.stream_begin_capture(stream, CaptureMode::Relaxed)?;
        let info = d.capture_info(stream).map(drop);
        let graph = ended(d.stream_end_capture(stream), || {
            let graph = d.stream_end_capture(stream)?;
            d.graph_destroy(graph)?;
            Ok(graph)
        });
        let graph = graph?;
        let launched = d.graph_instantiate(graph).and_then(|exec| {
            let uploaded = d.graph_upload(exec, stream).and(d.graph_exec_update(exec, graph));
            let launched = start(d, exec, stream);
            let ended = ended(d.graph_exec_destroy(exec), || d.graph_exec_destroy(exec));
            uploaded.and(launched).and(ended)
        });
        let counted = d.graph_node_count(graph).map(drop);
        let gone = ended(d.graph_destroy(graph), || d.graph_destroy(graph));
        info.and(launched).and(counted).and(gone)
    })
}

fn kernel(rig: &RealRig) -> Result<()> {
    let d: &dyn Driver = &**rig;
    let module = d.module_load(0, rig.image())?;
    let launched =
        d.module_function(module, "spin").and_then(|spin| call(d, S0, spin, &[&8_u64.to_le_bytes()]));
    let waited = d.device_synchronize(0);
    let unloaded = ended(unload(d, module), || unload(d, module));
    launched.and(waited).and(unloaded)
}

fn async_memory(d: &dyn Driver) -> Result<()> {
    let ptr = d.malloc_async(4096, S0)?;
    let freed = ended(free_async(d, ptr, S0), || free_async(d, ptr, S0));
    freed.and(d.stream_synchronize(S0)).and(d.mem_pool_trim(0, 0))
}

fn host_memory(d: &dyn Driver) -> Result<()> {
    let ptr = d.host_alloc(4096)?;
    ended(host_free(d, ptr), || host_free(d, ptr))
}

fn copies(d: &dyn Driver) -> Result<()> {
    with_memory(d, |ptr| {
        upload(d, ptr, &[1; 64], S0)?;
        copy(d, ptr.offset(64), ptr, 64, S0)?;
        fill(d, ptr, 2, 16, S0)?;
        let download = Download::issue(d, ptr, 128, S0)?;
        d.stream_synchronize(S0)?;
        assert_eq!(download.bytes()[64..], [1; 64]);
        Ok(())
    })
}

fn events(d: &dyn Driver) -> Result<()> {
    let timed = EventFlags { timing: true, ..EventFlags::default() };
    with_event(d, timed, |start| {
        with_event(d, timed, |end| {
            d.event_record(start, S0)?;
            d.event_record_external(end, S0)?;
            d.stream_wait_event(S0, end)?;
            d.event_synchronize(end)?;
            assert!(d.event_query(end)?);
            d.event_elapsed_ms(start, end).map(drop)
        })
    })
}

/// A piece of work that gives everything back, also where a part of it fails.
pub(super) type Work = fn(&RealRig) -> Result<()>;

/// Pieces of work, and the functions of CUDA's that each calls.
const WORK: [(Work, &[&str]); 9] = [
    (
        |rig| copies(&**rig),
        &[
            "cuMemAlloc_v2",
            "cuMemFree_v2",
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoDAsync_v2",
            "cuMemsetD8Async",
            "cuMemcpyDtoHAsync_v2",
            "cuStreamSynchronize",
            "cuCtxPushCurrent_v2",
            "cuCtxGetCurrent",
        ],
    ),
    (
        |rig| map_and_unmap(&**rig),
        &[
            "cuMemAddressReserve",
            "cuMemAddressFree",
            "cuMemCreate",
            "cuMemMap",
            "cuMemSetAccess",
            "cuMemUnmap",
            "cuMemRelease",
        ],
    ),
    (
        |rig| async_memory(&**rig),
        &["cuMemAllocAsync", "cuMemFreeAsync", "cuDeviceGetDefaultMemPool", "cuMemPoolTrimTo"],
    ),
    (|rig| host_memory(&**rig), &["cuMemHostAlloc", "cuMemFreeHost"]),
    (
        |rig| with_stream(&**rig, |s| rig.stream_query(s).map(drop).and(rig.stream_priority(s).map(drop))),
        &["cuStreamCreateWithPriority", "cuStreamQuery", "cuStreamGetPriority", "cuStreamDestroy_v2"],
    ),
    (
        |rig| events(&**rig),
        &[
            "cuEventCreate",
            "cuEventDestroy_v2",
            "cuEventRecord",
            "cuEventRecordWithFlags",
            "cuStreamWaitEvent",
            "cuEventQuery",
            "cuEventSynchronize",
            "cuEventElapsedTime",
        ],
    ),
    (
        |rig| capture(&**rig),
        &[
            "cuStreamBeginCapture_v2",
            "cuStreamGetCaptureInfo_v2",
            "cuStreamEndCapture",
            "cuGraphGetNodes",
            "cuGraphInstantiateWithFlags",
            "cuGraphExecUpdate",
            "cuGraphUpload",
            "cuGraphLaunch",
            "cuGraphExecDestroy",
            "cuGraphDestroy",
        ],
    ),
    (
        kernel,
        &["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuModuleUnload", "cuCtxSynchronize"],
    ),
    (
        |rig| rig.memory_info(0).map(drop).and(rig.mem_pool_info(0).map(drop)),
        &["cuMemGetInfo_v2", "cuMemPoolGetAttribute"],
    ),
];

#[test]
fn a_failure_of_any_function_is_told_and_leaves_nothing_behind() {
    let Some((rig, control)) = RealRig::over_standin(1) else { return };
    for (work, functions) in WORK {
        work(&rig).unwrap();
        for function in functions {
            strike(&rig, &control, work, function);
        }
    }
}

/// A function that the work calls fails, once in each way.
pub(super) fn strike(rig: &RealRig, control: &Control, work: Work, function: &str) {
    for (number, status) in FAILURES {
        // The first of these is for the record, and may fail.
        let nth = if function == "cuStreamGetCaptureInfo_v2" { 2 } else { 1 };
        control.fail(function, nth, number);
        let failed = work(rig).expect_err(function);
        assert_eq!((failed.status, failed.device), (status, 0), "{function}");
        assert_eq!(control.live_handles(), 0, "{function} left something behind");
        work(rig).unwrap_or_else(|error| panic!("after a failure of {function}: {error}"));
    }
}

#[test]
fn a_device_that_is_lost_stays_lost() {
    for (number, status) in
        [(700, Status::IllegalAddress), (719, Status::LaunchFailed), (214, Status::DeviceLost)]
    {
        let Some((rig, control)) = RealRig::over_standin(2) else { return };
        let (stream, other) = (rig.stream_create(0, 0).unwrap(), rig.malloc(1, 64).unwrap());
        control.fail("cuStreamSynchronize", 1, number);
        assert_eq!(rig.stream_synchronize(stream).unwrap_err().status, status);
        let before = control.calls();
        let failures = [
            rig.stream_synchronize(stream).err(),
            rig.malloc(0, 64).err(),
            rig.device_synchronize(0).err(),
            rig.event_create(0, EventFlags::default()).err(),
            rig.stream_destroy(stream).err(),
        ];
        for failure in failures {
            assert_eq!(failure.map(|error| (error.status, error.device)), Some((status, 0)));
        }
        assert_eq!(control.calls(), before, "nothing is asked of a device that is lost");
        // The other one goes on.
        fill(&*rig, other, 1, 64, StreamHandle::default_of(1)).unwrap();
        free(&*rig, other).unwrap();
        // What lived on the lost one is gone with its context.
        rig.forgive_live_handles();
    }
}

#[test]
fn a_device_that_cuda_loses_is_told_by_every_call() {
    let Some((rig, control)) = RealRig::over_standin(1) else { return };
    let ptr = rig.malloc(0, 64).unwrap();
    control.lose(0, 700);
    assert_eq!(fill(&*rig, ptr, 1, 64, S0).unwrap_err().status, Status::IllegalAddress);
    assert_eq!(free(&*rig, ptr).unwrap_err().status, Status::IllegalAddress);
    assert_eq!(rig.memory_info(0).unwrap_err().status, Status::IllegalAddress);
    rig.forgive_live_handles();
}

/// A context that cannot be taken off the thread again is told by the next call, which does nothing.
#[test]
fn a_failure_that_nobody_was_told_of_is_told_next() {
    let Some((rig, control)) = RealRig::over_standin(1) else { return };
    control.fail("cuCtxPopCurrent_v2", 1, 999);
    let ptr = rig.malloc(0, 64).unwrap();
    assert_eq!(rig.malloc(0, 64).unwrap_err().status, Status::Other(999));
    free(&*rig, ptr).unwrap();
}

/// These are kept once they are known.
#[test]
fn what_a_device_is_asked_once_is_asked_again_where_it_failed() {
    type Question = fn(&RealRig) -> Result<()>;
    let questions: [(&str, Question); 2] = [
        ("cuMemGetAllocationGranularity", |rig| rig.granularity(0).map(drop)),
        ("cuCtxGetStreamPriorityRange", |rig| rig.stream_priority_range(0).map(drop)),
    ];
    for (function, ask) in questions {
        for (number, status) in FAILURES {
            let Some((rig, control)) = RealRig::over_standin(1) else { return };
            control.fail(function, 1, number);
            assert_eq!(ask(&rig).unwrap_err().status, status, "{function}");
            ask(&rig).unwrap();
            let before = control.calls();
            ask(&rig).unwrap();
            assert_eq!(control.calls(), before, "{function} was answered");
        }
    }
}

#[test]
fn a_context_that_cannot_be_had_is_asked_for_again() {
    let Some((rig, control)) = RealRig::over_standin(1) else { return };
    control.fail("cuDevicePrimaryCtxRetain", 1, OUT_OF_MEMORY);
    assert_eq!(rig.malloc(0, MIB).unwrap_err().status, Status::OutOfMemory);
    let ptr = rig.malloc(0, MIB).unwrap();
    free(&*rig, ptr).unwrap();
}
