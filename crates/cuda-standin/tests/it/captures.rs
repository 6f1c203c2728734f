//! Captures: what becomes a node, and what a capture forbids.

use crate::rig::{INVALID_VALUE, Rig, SUCCESS, call};

const CAPTURE_UNSUPPORTED: u32 = 900;
const CAPTURE_INVALIDATED: u32 = 901;
const CAPTURE_IMPLICIT: u32 = 906;
const ILLEGAL_STATE: u32 = 401;

fn begin(stream: u64) {
    assert_eq!(call!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), SUCCESS);
}

fn end(stream: u64) -> (u32, u64) {
    let mut graph = 9;
    (call!(cuStreamEndCapture(stream => u64, &mut graph => *mut u64)), graph)
}

#[test]
fn a_capture_gives_a_graph_of_what_was_issued() {
    let rig = Rig::new(1);
    let (stream, ptr) = (rig.stream(), rig.malloc(64));
    rig.upload(ptr, &[1; 64]);
    begin(stream);
    for value in [2u8, 3] {
        assert_eq!(call!(cuMemsetD8Async(ptr => u64, value => u8, 64 => usize, stream => u64)), SUCCESS);
    }
    let (mut status, mut id, mut graph, mut count) = (0u32, 0u64, 0u64, 0usize);
    let mut nodes = std::ptr::null::<u64>();
    let info = call!(cuStreamGetCaptureInfo_v2(
        stream => u64,
        &mut status => *mut u32,
        &mut id => *mut u64,
        &mut graph => *mut u64,
        &mut nodes => *mut *const u64,
        &mut count => *mut usize,
    ));
    assert_eq!((info, status, count), (SUCCESS, 1, 1));
    assert!(id != 0 && graph != 0 && !nodes.is_null());
    let (ended, ended_graph) = end(stream);
    assert_eq!((ended, ended_graph), (SUCCESS, graph));
    let nodes = |array: *mut u64, count: &mut usize| call!(cuGraphGetNodes(graph => u64, array => *mut u64, count => *mut usize));
    let mut count = 0;
    assert_eq!(nodes(std::ptr::null_mut(), &mut count), SUCCESS);
    assert_eq!(count, 2);
    let mut all = [0u64; 2];
    assert_eq!(nodes(all.as_mut_ptr(), &mut count), SUCCESS);
    let (mut before, mut count) = (0u64, 1);
    let asked =
        call!(cuGraphNodeGetDependencies(all[1] => u64, &mut before => *mut u64, &mut count => *mut usize));
    assert_eq!((asked, before, count), (SUCCESS, all[0], 1));
    assert_eq!(rig.live(), 3);
    assert_eq!(call!(cuGraphDestroy(graph => u64)), SUCCESS);
    assert_eq!(call!(cuGraphDestroy(graph => u64)), INVALID_VALUE);
    // Nothing has run.
    assert_eq!(rig.download(ptr, 64), [1; 64]);
    rig.end_stream(stream);
    rig.free(ptr);
}

#[test]
fn a_forbidden_call_spoils_the_capture() {
    let rig = Rig::new(1);
    let stream = rig.stream();
    begin(stream);
    assert_eq!(call!(cuStreamSynchronize(stream => u64)), CAPTURE_UNSUPPORTED);
    let mut status = 0;
    assert_eq!(call!(cuStreamIsCapturing(stream => u64, &mut status => *mut u32)), SUCCESS);
    assert_eq!(status, 2);
    assert_eq!(end(stream), (CAPTURE_INVALIDATED, 0));
    assert_eq!(end(stream).0, ILLEGAL_STATE);
    begin(stream);
    assert_eq!(call!(cuMemAlloc_v2(&mut 0 => *mut u64, 64 => usize)), CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), (CAPTURE_INVALIDATED, 0));
    rig.end_stream(stream);
}

#[test]
fn the_legacy_stream_keeps_off_captures_of_blocking_streams() {
    let rig = Rig::new(1);
    let (blocking, free, ptr) = (rig.stream_of(0), rig.stream(), rig.malloc(64));
    assert_eq!(call!(cuStreamBeginCapture_v2(0 => u64, 0 => u32)), CAPTURE_UNSUPPORTED);
    begin(free);
    assert_eq!(call!(cuMemsetD8Async(ptr => u64, 1 => u8, 64 => usize, 0 => u64)), SUCCESS);
    let (ended, graph) = end(free);
    assert_eq!(ended, SUCCESS);
    assert_eq!(call!(cuGraphDestroy(graph => u64)), SUCCESS);
    begin(blocking);
    assert_eq!(call!(cuMemsetD8Async(ptr => u64, 1 => u8, 64 => usize, 0 => u64)), CAPTURE_IMPLICIT);
    assert_eq!(end(blocking).0, CAPTURE_INVALIDATED);
    rig.end_stream(blocking);
    rig.end_stream(free);
    rig.free(ptr);
}

/// A thread's own default stream captures as any other, and says what its next node depends on.
#[test]
fn a_threads_own_stream_captures() {
    const PER_THREAD: u64 = 2;
    let rig = Rig::new(1);
    let ptr = rig.malloc(64);
    begin(PER_THREAD);
    let filled = call!(cuMemsetD8Async(ptr => u64, 2u8 => u8, 64 => usize, PER_THREAD => u64));
    assert_eq!(filled, SUCCESS);
    let (mut status, mut id, mut graph, mut count) = (0u32, 0u64, 0u64, 0usize);
    let mut nodes = std::ptr::null::<u64>();
    let info = call!(cuStreamGetCaptureInfo_v2(
        PER_THREAD => u64,
        &mut status => *mut u32,
        &mut id => *mut u64,
        &mut graph => *mut u64,
        &mut nodes => *mut *const u64,
        &mut count => *mut usize,
    ));
    assert_eq!((info, status, count, nodes.is_null()), (SUCCESS, 1, 1, false));
    assert_eq!(end(PER_THREAD), (SUCCESS, graph));
    assert_eq!(call!(cuGraphDestroy(graph => u64)), SUCCESS);
    rig.free(ptr);
}
