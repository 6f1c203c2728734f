#![expect(unsafe_code, reason = "pins memory of the test's own")]
//! Failures of CUDA's functions through the FFI, as in [`faults`](super::faults): of what devices and processes share,
//! and of what pools, graphs and captures are asked and told.

use std::ptr::NonNull;

use c10_cuda::driver::{CaptureMode, CopyEnd, Driver, EventFlags, Result, StreamHandle};

use super::RealRig;
use super::faults::{Work, ended, strike, with_event, with_memory, with_stream};
use crate::support::{copy, copy_ends, fill, free};

const S0: StreamHandle = StreamHandle::default_of(0);

fn between_devices(d: &dyn Driver) -> Result<()> {
    assert!(d.can_access_peer(0, 1)?);
    d.enable_peer_access(0, 1)?;
    with_memory(d, |here| {
        let there = d.malloc(1, 64)?;
        let copied = copy(d, there, here, 64, S0).and(d.stream_synchronize(S0));
        copied.and(ended(free(d, there), || free(d, there)))
    })
}

fn on_the_host(d: &dyn Driver) -> Result<()> {
    let bytes = vec![1_u8; 128].leak().as_mut_ptr();
    let (from, to) = (CopyEnd::Host(bytes), CopyEnd::Host(bytes.wrapping_add(64)));
    copy_ends(d, to, from, 64, S0).and(d.stream_synchronize(S0))
}

fn registered(d: &dyn Driver) -> Result<()> {
    let mut bytes = vec![1_u8; 8192];
    let ptr = NonNull::from(&mut bytes[..]).cast::<u8>();
    // SAFETY: the bytes are there until they are unregistered.
    unsafe { d.host_register(ptr, 8192) }?;
    // SAFETY: no work uses the bytes.
    let unregister = || unsafe { d.host_unregister(ptr) };
    ended(unregister(), unregister)
}

fn exported_memory(d: &dyn Driver) -> Result<()> {
    let memory = d.create(0, d.granularity(0)?)?;
    let imported = d
        .export_memory(memory)
        .and_then(|handle| d.import_memory(0, &handle))
        .and_then(|imported| ended(d.release(imported), || d.release(imported)));
    imported.and(ended(d.release(memory), || d.release(memory)))
}

fn exported(d: &dyn Driver) -> Result<()> {
    with_memory(d, |ptr| d.ipc_export(ptr).map(drop))?;
    let flags = EventFlags { interprocess: true, ..EventFlags::default() };
    with_event(d, flags, |event| d.event_export(event).map(drop))
}

fn pools(d: &dyn Driver) -> Result<()> {
    d.mem_pool_set_access(0, 1)?;
    d.mem_pool_set_release_threshold(0, 0)?;
    d.mem_pool_reset_peaks(0)?;
    d.graph_memory_info(0)?;
    d.graph_memory_reset_peaks(0)
}

fn dependencies(d: &dyn Driver) -> Result<()> {
    with_memory(d, |ptr| {
        with_stream(d, |stream| {
            let before = d.exchange_capture_mode(CaptureMode::Relaxed)?;
            d.stream_begin_capture(stream, CaptureMode::Relaxed).unwrap();
            fill(d, ptr, 1, 64, stream).unwrap();
            fill(d, ptr, 2, 64, stream).unwrap();
            let info = d.capture_info(stream).unwrap().expect("it captures");
            let found = d.node_dependencies(info.dependencies[0]);
            d.graph_destroy(d.stream_end_capture(stream).unwrap()).unwrap();
            d.exchange_capture_mode(before).unwrap();
            assert_eq!(found?.len(), 1);
            Ok(())
        })
    })
}

/// Pieces of work for two devices, and the functions of CUDA's that each calls.
const WORK: [(Work, &[&str]); 7] = [
    (|rig| between_devices(&**rig), &["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuMemcpyPeerAsync"]),
    (|rig| on_the_host(&**rig), &["cuMemcpyAsync"]),
    (|rig| registered(&**rig), &["cuMemHostRegister_v2", "cuMemHostUnregister"]),
    (
        |rig| exported_memory(&**rig),
        &[
            "cuMemExportToShareableHandle",
            "cuMemImportFromShareableHandle",
            "cuMemGetAllocationPropertiesFromHandle",
        ],
    ),
    (|rig| exported(&**rig), &["cuIpcGetMemHandle", "cuIpcGetEventHandle"]),
    (
        |rig| pools(&**rig),
        &[
            "cuMemPoolSetAccess",
            "cuMemPoolSetAttribute",
            "cuDeviceGetGraphMemAttribute",
            "cuDeviceSetGraphMemAttribute",
        ],
    ),
    (|rig| dependencies(&**rig), &["cuGraphNodeGetDependencies", "cuThreadExchangeStreamCaptureMode"]),
];

#[test]
fn a_failure_of_what_is_shared_is_told_and_leaves_nothing_behind() {
    let Some((rig, control)) = RealRig::over_standin(2) else { return };
    for (work, functions) in WORK {
        work(&rig).unwrap();
        for function in functions {
            strike(&rig, &control, work, function);
        }
    }
}
