//! Events: recording, waiting, times, and events of other contexts.

use crate::rig::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, Rig, SUCCESS, call};

fn elapsed(start: u64, end: u64) -> (u32, f32) {
    let mut ms = -1.0;
    (call!(cuEventElapsedTime(&mut ms => *mut f32, start => u64, end => u64)), ms)
}

#[test]
fn an_event_is_of_its_context() {
    let rig = Rig::new(2);
    let second = rig.retain(1);
    let (event, stream) = (rig.event(), rig.stream());
    rig.make_current(second);
    let elsewhere = rig.stream();
    assert_eq!(call!(cuEventRecord(event => u64, elsewhere => u64)), INVALID_HANDLE);
    // Recording is for one context; waiting and asking is for all.
    assert_eq!(call!(cuEventRecord(event => u64, stream => u64)), SUCCESS);
    assert_eq!(call!(cuStreamWaitEvent(elsewhere => u64, event => u64, 0 => u32)), SUCCESS);
    assert_eq!(call!(cuEventQuery(event => u64)), SUCCESS);
    rig.end_stream(elsewhere);
    rig.make_current(rig.context);
    rig.end_stream(stream);
    rig.end_event(event);
    assert_eq!(call!(cuEventQuery(event => u64)), INVALID_HANDLE);
    assert_eq!(call!(cuEventDestroy_v2(event => u64)), INVALID_HANDLE);
}

#[test]
fn times_are_between_complete_events() {
    let rig = Rig::manual(1);
    let (start, end, stream, ptr) = (rig.event(), rig.event(), rig.stream(), rig.malloc(1 << 20));
    assert_eq!(elapsed(start, end).0, INVALID_HANDLE);
    assert_eq!(call!(cuEventRecord(start => u64, stream => u64)), SUCCESS);
    assert_eq!(call!(cuMemsetD8Async(ptr => u64, 1 => u8, 1 << 20 => usize, stream => u64)), SUCCESS);
    assert_eq!(call!(cuEventRecord(end => u64, stream => u64)), SUCCESS);
    assert_eq!(elapsed(start, end).0, NOT_READY);
    assert_eq!(call!(cuEventQuery(end => u64)), NOT_READY);
    assert_eq!(call!(cuEventSynchronize(end => u64)), SUCCESS);
    let (result, ms) = elapsed(start, end);
    assert_eq!(result, SUCCESS);
    assert!(ms > 0.0);
    let mut untimed = 0;
    assert_eq!(call!(cuEventCreate(&mut untimed => *mut u64, 2 => u32)), SUCCESS);
    assert_eq!(elapsed(start, untimed).0, INVALID_HANDLE);
    // An event for other processes takes no time.
    assert_eq!(call!(cuEventCreate(&mut 0 => *mut u64, 4 => u32)), INVALID_VALUE);
    for event in [start, end, untimed] {
        rig.end_event(event);
    }
    rig.free(ptr);
    rig.end_stream(stream);
}
