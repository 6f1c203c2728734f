//! Calls that are told to fail, devices that are lost, and how many calls there were.

use std::ffi::c_char;

use crate::rig::{ILLEGAL_ADDRESS, OUT_OF_MEMORY, Rig, SUCCESS, call, function};

#[test]
fn a_call_fails_once_where_it_was_told_to() {
    let rig = Rig::new(1);
    rig.fail("cuMemAlloc_v2", 2, OUT_OF_MEMORY);
    let first = rig.malloc(64);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 64 => usize)), OUT_OF_MEMORY);
    let third = rig.malloc(64);
    rig.fail("cuMemFree_v2", 1, 999);
    let clear: extern "C" fn() -> u64 = function("cuda_standin_fail_clear");
    assert_eq!(clear(), 1, "one was still to come");
    assert_eq!(clear(), 0);
    rig.free(first);
    rig.free(third);
    let fail: extern "C" fn(*const c_char, u64, u32) -> u32 = function("cuda_standin_fail");
    assert_ne!(fail(c"cuMemAllok".as_ptr(), 1, 2), 0, "a name that is none is told so");
}

#[test]
fn a_lost_device_fails_every_call_and_still_takes_back() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    let (ptr, stream, event) = (rig.malloc(64), rig.stream(), rig.event());
    let lose: extern "C" fn(u32, u32) -> u32 = function("cuda_standin_lose");
    assert_eq!(lose(0, ILLEGAL_ADDRESS), 0);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 64 => usize)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuMemFree_v2(ptr => u64)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuStreamDestroy_v2(stream => u64)), ILLEGAL_ADDRESS);
    assert_eq!(call!(cuEventDestroy_v2(event => u64)), ILLEGAL_ADDRESS);
    assert_eq!(rig.live(), 0);
    // The other device goes on.
    rig.make_current(second);
    let other = rig.malloc(64);
    rig.free(other);
    // A new context of the device does, too.
    assert_eq!(call!(cuDevicePrimaryCtxReset_v2(0 => i32)), SUCCESS);
    let again = rig.retain(0);
    rig.make_current(again);
    let ptr = rig.malloc(64);
    rig.free(ptr);
}

#[test]
fn calls_are_counted() {
    let rig = Rig::new(1);
    let calls: extern "C" fn() -> u64 = function("cuda_standin_calls");
    let before = calls();
    let ptr = rig.malloc(64);
    rig.free(ptr);
    assert_eq!(calls(), before + 2);
}

/// What a capture that could not be ended was to keep from being given back ends with its stream all the same.
#[test]
fn a_capture_of_a_lost_device_keeps_nothing() {
    for graph_memory in [false, true] {
        let rig = Rig::new(1);
        let (ptr, stream, event) = (rig.malloc(64), rig.stream(), rig.event());
        let mut exec = 0u64;
        assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), SUCCESS);
        assert_eq!(call!(cuMemsetD8Async(ptr => u64, 1 => u8, 64 => usize, stream => u64)), SUCCESS);
        let mut graph = 0u64;
        assert_eq!(call!(cuStreamEndCapture(stream => u64, &mut graph => *mut u64)), SUCCESS);
        assert_eq!(
            call!(cuGraphInstantiateWithFlags(&mut exec => *mut u64, graph => u64, 0 => u64)),
            SUCCESS
        );
        assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), SUCCESS);
        if graph_memory {
            let mut own = 0u64;
            assert_eq!(call!(cuMemAllocAsync(&mut own => *mut u64, 64 => usize, stream => u64)), SUCCESS);
        }
        let lose: extern "C" fn(u32, u32) -> u32 = function("cuda_standin_lose");
        assert_eq!(lose(0, ILLEGAL_ADDRESS), 0);
        let mut none = 0u64;
        assert_eq!(call!(cuStreamEndCapture(stream => u64, &mut none => *mut u64)), ILLEGAL_ADDRESS);
        assert_eq!(none, 0);
        assert_eq!(call!(cuGraphExecDestroy(exec => u64)), SUCCESS);
        assert_eq!(call!(cuGraphDestroy(graph => u64)), SUCCESS);
        assert_eq!(call!(cuMemFree_v2(ptr => u64)), ILLEGAL_ADDRESS);
        assert_eq!(call!(cuEventDestroy_v2(event => u64)), ILLEGAL_ADDRESS);
        assert_eq!(call!(cuStreamDestroy_v2(stream => u64)), ILLEGAL_ADDRESS);
        assert_eq!(rig.live(), 0);
    }
}
