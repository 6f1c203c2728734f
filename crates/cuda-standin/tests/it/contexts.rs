//! Contexts: current ones by thread, primary ones by count, others.

use std::thread;

use crate::rig::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_VALUE, Rig, SUCCESS, call, function};

const INVALID_DEVICE: u32 = 101;
const PEER_ACCESS_ALREADY_ENABLED: u32 = 704;

fn current() -> u64 {
    let mut context = 9;
    assert_eq!(call!(cuCtxGetCurrent(&mut context => *mut u64)), SUCCESS);
    context
}

fn create(device: i32) -> u64 {
    let mut context = 0;
    assert_eq!(call!(cuCtxCreate_v2(&mut context => *mut u64, 0 => u32, device => i32)), SUCCESS);
    context
}

#[test]
fn a_thread_has_no_context_until_it_takes_one() {
    let rig = Rig::new(1);
    let context = rig.context;
    thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(current(), 0);
            let mut ptr = 0;
            assert_eq!(call!(cuMemAlloc_v2(&mut ptr => *mut u64, 64 => usize)), INVALID_CONTEXT);
            assert_eq!(call!(cuCtxPushCurrent_v2(context => u64)), SUCCESS);
            assert_eq!(current(), context);
            let mut popped = 0;
            assert_eq!(call!(cuCtxPopCurrent_v2(&mut popped => *mut u64)), SUCCESS);
            assert_eq!((popped, current()), (context, 0));
            assert_eq!(call!(cuCtxPopCurrent_v2(&mut popped => *mut u64)), INVALID_CONTEXT);
        });
    });
    assert_eq!(current(), context);
}

#[test]
fn a_primary_context_is_counted() {
    let rig = Rig::new(2);
    assert_eq!(rig.retain(0), rig.context);
    let second = rig.retain(1);
    assert_ne!(second, rig.context);
    let contexts: extern "C" fn() -> u64 = function("cuda_standin_live_contexts");
    assert_eq!(contexts(), 3);
    for _ in 0..2 {
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0 => i32)), SUCCESS);
    }
    assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0 => i32)), INVALID_CONTEXT);
    assert_eq!(contexts(), 1);
    // It is current here still, and known to have ended.
    assert_eq!(call!(cuCtxSynchronize()), CONTEXT_IS_DESTROYED);
    assert_eq!(call!(cuCtxPushCurrent_v2(rig.context => u64)), INVALID_CONTEXT);
    let mut active = 7;
    assert_eq!(
        call!(cuDevicePrimaryCtxGetState(0 => i32, &mut 0 => *mut u32, &mut active => *mut i32)),
        SUCCESS
    );
    assert_eq!(active, 0);
}

#[test]
fn the_end_of_a_context_ends_what_is_of_it() {
    let rig = Rig::new(1);
    let other = create(0);
    assert_eq!(current(), other);
    let (ptr, stream, event) = (rig.malloc(64), rig.stream(), rig.event());
    assert_eq!(rig.live(), 3);
    assert_eq!(call!(cuCtxDestroy_v2(other => u64)), SUCCESS);
    assert_eq!(current(), rig.context);
    assert_eq!(rig.live(), 0);
    let swept: extern "C" fn() -> u64 = function("cuda_standin_swept_handles");
    assert_eq!(swept(), 3);
    assert_eq!(call!(cuMemFree_v2(ptr => u64)), INVALID_VALUE);
    assert_eq!(call!(cuStreamDestroy_v2(stream => u64)), 400);
    assert_eq!(call!(cuEventDestroy_v2(event => u64)), 400);
    assert_eq!(call!(cuCtxDestroy_v2(other => u64)), INVALID_CONTEXT);
    // A primary context is released, not destroyed.
    assert_eq!(call!(cuCtxDestroy_v2(rig.context => u64)), INVALID_CONTEXT);
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let _rig = Rig::new(2);
    let mut count = 0;
    assert_eq!(call!(cuDeviceGetCount(&mut count => *mut i32)), SUCCESS);
    assert_eq!(count, 2);
    for ordinal in [-1, 2, 40] {
        assert_eq!(call!(cuDeviceGet(&mut 0 => *mut i32, ordinal => i32)), INVALID_DEVICE, "{ordinal}");
        assert_eq!(call!(cuDevicePrimaryCtxRetain(&mut 0 => *mut u64, ordinal => i32)), INVALID_DEVICE);
    }
}

#[test]
fn peer_access_is_enabled_once() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    assert_eq!(call!(cuCtxEnablePeerAccess(rig.context => u64, 0 => u32)), INVALID_DEVICE);
    assert_eq!(call!(cuCtxEnablePeerAccess(second => u64, 0 => u32)), SUCCESS);
    assert_eq!(call!(cuCtxEnablePeerAccess(second => u64, 0 => u32)), PEER_ACCESS_ALREADY_ENABLED);
    let mut can = 0;
    assert_eq!(call!(cuDeviceCanAccessPeer(&mut can => *mut i32, 0 => i32, 1 => i32)), SUCCESS);
    assert_eq!(can, 1);
}

#[test]
fn a_context_may_end_in_the_middle_of_a_capture() {
    let rig = Rig::new(1);
    let other = create(0);
    let (stream, ptr) = (rig.stream(), rig.malloc(64));
    assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), SUCCESS);
    assert_eq!(call!(cuCtxDestroy_v2(other => u64)), SUCCESS);
    assert_eq!(rig.live(), 0);
    assert_eq!(call!(cuMemFree_v2(ptr => u64)), INVALID_VALUE);
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(call!(cuMemGetInfo_v2(&mut free => *mut usize, &mut total => *mut usize)), SUCCESS);
    assert_eq!(free, total);
    // Nothing is forbidden any more.
    let ptr = rig.malloc(64);
    rig.free(ptr);
}
