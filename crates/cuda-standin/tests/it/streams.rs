//! Streams: their order, their contexts, host functions, and programs that ask in a loop.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::rig::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, Rig, SUCCESS, call};

const NOT_PERMITTED: u32 = 800;

extern "C" fn add_one(argument: *mut c_void) {
    // SAFETY: the test passes an `AtomicU32` that outlives the work.
    let counter = unsafe { &*argument.cast::<AtomicU32>() };
    counter.fetch_add(1, Ordering::SeqCst);
}

fn issue(stream: u64, counter: &AtomicU32) {
    let argument = std::ptr::from_ref(counter).cast_mut().cast();
    let result = call!(cuLaunchHostFunc(
        stream => u64,
        add_one => extern "C" fn(*mut c_void),
        argument => *mut c_void,
    ));
    assert_eq!(result, SUCCESS);
}

#[test]
fn a_stream_is_destroyed_once_and_known_to_be_gone() {
    let rig = Rig::new(1);
    let stream = rig.stream();
    rig.end_stream(stream);
    assert_eq!(call!(cuStreamDestroy_v2(stream => u64)), INVALID_HANDLE);
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), INVALID_HANDLE);
    let event = rig.event();
    assert_eq!(call!(cuStreamSynchronize(event => u64)), INVALID_HANDLE);
    assert_eq!(call!(cuStreamCreate(&mut 0 => *mut u64, 8 => u32)), INVALID_VALUE);
    rig.end_event(event);
}

#[test]
fn whoever_asks_in_a_loop_gets_to_the_end() {
    let rig = Rig::manual(1);
    let counter = AtomicU32::new(0);
    let (first, second, event) = (rig.stream(), rig.stream(), rig.event());
    for _ in 0..3 {
        issue(first, &counter);
    }
    assert_eq!(call!(cuEventRecord(event => u64, first => u64)), SUCCESS);
    assert_eq!(call!(cuStreamWaitEvent(second => u64, event => u64, 0 => u32)), SUCCESS);
    issue(second, &counter);
    assert_eq!(counter.load(Ordering::SeqCst), 0);
    let mut asked = 0;
    while call!(cuStreamQuery(second => u64)) == NOT_READY {
        asked += 1;
        assert!(asked < 10, "the stream goes on when it is asked");
    }
    assert!(asked > 0);
    assert_eq!(counter.load(Ordering::SeqCst), 4);
    assert_eq!(call!(cuEventQuery(event => u64)), SUCCESS);
    rig.end_event(event);
    rig.end_stream(first);
    rig.end_stream(second);
}

#[test]
fn the_legacy_stream_and_blocking_ones_wait_for_each_other() {
    let rig = Rig::manual(1);
    let counter = AtomicU32::new(0);
    let (blocking, free) = (rig.stream_of(0), rig.stream());
    issue(blocking, &counter);
    issue(free, &counter);
    issue(0, &counter);
    assert_eq!(call!(cuStreamSynchronize(0 => u64)), SUCCESS);
    // The legacy stream has waited for the blocking one alone.
    assert_eq!(counter.load(Ordering::SeqCst), 2);
    issue(0, &counter);
    issue(blocking, &counter);
    assert_eq!(call!(cuStreamSynchronize(blocking => u64)), SUCCESS);
    assert_eq!(counter.load(Ordering::SeqCst), 4);
    assert_eq!(call!(cuCtxSynchronize()), SUCCESS);
    assert_eq!(counter.load(Ordering::SeqCst), 5);
    rig.end_stream(blocking);
    rig.end_stream(free);
}

#[test]
fn a_host_function_must_not_call_cuda() {
    extern "C" fn calls(result: *mut c_void) {
        let called = call!(cuCtxSynchronize());
        // SAFETY: the test passes a `u32` that outlives the work.
        unsafe {
            result.cast::<u32>().write(called);
        }
    }
    let _rig = Rig::new(1);
    let mut result = 0u32;
    let argument = (&raw mut result).cast();
    let function: extern "C" fn(*mut c_void) = calls;
    let launched = call!(cuLaunchHostFunc(
        0 => u64, function => extern "C" fn(*mut c_void), argument => *mut c_void
    ));
    assert_eq!(launched, SUCCESS);
    assert_eq!(call!(cuCtxSynchronize()), SUCCESS);
    assert_eq!(result, NOT_PERMITTED);
}

#[test]
fn a_stream_knows_its_context_and_priority() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    rig.make_current(second);
    let mut stream = 0;
    // A priority beyond the range is the nearest one in it.
    let made = call!(cuStreamCreateWithPriority(&mut stream => *mut u64, 1 => u32, -100 => i32));
    assert_eq!(made, SUCCESS);
    rig.make_current(rig.context);
    let (mut context, mut priority, mut flags) = (0u64, 0i32, 0u32);
    assert_eq!(call!(cuStreamGetCtx(stream => u64, &mut context => *mut u64)), SUCCESS);
    assert_eq!(call!(cuStreamGetPriority(stream => u64, &mut priority => *mut i32)), SUCCESS);
    assert_eq!(call!(cuStreamGetFlags(stream => u64, &mut flags => *mut u32)), SUCCESS);
    assert_eq!((context, priority, flags), (second, -5, 1));
    rig.end_stream(stream);
}
