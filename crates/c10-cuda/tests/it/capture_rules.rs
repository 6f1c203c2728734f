//! The rule of captures (R7), for the suite that every driver passes: what CUDA documents of `cudaStreamBeginCapture`
//! and of the modes of captures and threads.
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use std::sync::mpsc::channel;
use std::thread;

use c10_cuda::driver::{
    CaptureMode, CaptureState, DevicePtr, Driver, EventFlags, EventHandle, GraphHandle, NodeId, Result,
    Status, StreamHandle,
};

use crate::support::{MIB, fill, free};

const S0: StreamHandle = StreamHandle::default_of(0);

fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

fn stream(d: &dyn Driver) -> StreamHandle {
    d.stream_create(0, 0).unwrap()
}

fn event(d: &dyn Driver) -> EventHandle {
    d.event_create(0, EventFlags::default()).unwrap()
}

/// Issues what becomes a node.
fn node(d: &dyn Driver, on: StreamHandle, at: DevicePtr) {
    fill(d, at, 1, 64, on).unwrap();
}

/// `waiting` waits for what `waited` holds.
fn wait(d: &dyn Driver, waiting: StreamHandle, waited: StreamHandle) -> Result<()> {
    let event = event(d);
    d.event_record(event, waited)?;
    let done = d.stream_wait_event(waiting, event);
    d.event_destroy(event)?;
    done
}

fn end(d: &dyn Driver, on: StreamHandle) -> usize {
    let graph = d.stream_end_capture(on).unwrap();
    let nodes = d.graph_node_count(graph).unwrap();
    d.graph_destroy(graph).unwrap();
    nodes
}

#[track_caller]
fn is_spoilt(d: &dyn Driver, on: StreamHandle, spoilt: bool) {
    let state = d.capture_state(on).unwrap();
    assert_eq!(matches!(state, CaptureState::Invalidated { .. }), spoilt, "{state:?}");
    assert_ne!(state, CaptureState::None);
}

/// Work of a capturing stream becomes nodes that depend on each other, across forks and joins.
pub(crate) fn r7_work_becomes_a_graph(d: &dyn Driver) {
    let (a, b, at) = (stream(d), stream(d), d.malloc(0, 64).unwrap());
    assert_eq!(d.capture_info(a).unwrap(), None);
    d.stream_begin_capture(a, CaptureMode::Global).unwrap();
    let info = |on| d.capture_info(on).unwrap().unwrap();
    assert_ne!(info(a).id, 0);
    assert_eq!((info(a).dependencies.len(), d.capture_info(b).unwrap()), (0, None));
    node(d, a, at);
    let first = info(a).dependencies;
    assert_eq!(d.node_dependencies(first[0]).unwrap(), []);
    wait(d, b, a).unwrap();
    assert_eq!(info(b), info(a), "it is in, where the other is");
    node(d, b, at);
    node(d, a, at);
    assert_eq!(d.node_dependencies(info(b).dependencies[0]).unwrap(), first);
    wait(d, a, b).unwrap();
    assert_eq!(info(a).dependencies.len(), 2);
    let both = info(a).dependencies;
    let ptr = relaxed_malloc(d);
    fill(d, ptr, 1, 64, a).unwrap();
    let last = info(a).dependencies;
    assert_eq!(d.node_dependencies(last[0]).unwrap(), both);
    let graph = d.stream_end_capture(a).unwrap();
    assert_eq!(d.graph_node_count(graph).unwrap(), 4);
    assert_eq!(d.node_dependencies(last[0]).unwrap(), both, "a graph keeps its nodes");
    assert_eq!(
        (d.capture_state(a).unwrap(), d.capture_state(b).unwrap()),
        (CaptureState::None, CaptureState::None)
    );
    assert!(d.stream_query(a).unwrap(), "nothing runs");
    d.graph_destroy(graph).unwrap();
    assert_eq!(status(d.graph_destroy(graph)), Status::InvalidHandle);
    assert_eq!(status(d.graph_node_count(graph)), Status::InvalidHandle);
    assert_eq!(status(d.node_dependencies(last[0])), Status::InvalidHandle);
    assert_eq!(status(d.node_dependencies(NodeId(u64::MAX))), Status::InvalidHandle);
    assert_eq!(status(d.graph_node_count(GraphHandle { device: 9, ..graph })), Status::InvalidHandle);
    free(d, ptr).unwrap();
    free(d, at).unwrap();
    d.stream_destroy(a).unwrap();
    d.stream_destroy(b).unwrap();
}

/// Memory that is had in the relaxed mode, in which nothing is spoilt.
fn relaxed_malloc(d: &dyn Driver) -> DevicePtr {
    let before = d.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
    let ptr = d.malloc(0, 64).unwrap();
    assert_eq!(d.exchange_capture_mode(before).unwrap(), CaptureMode::Relaxed);
    ptr
}

/// What cannot begin, end, wait or be left open.
pub(crate) fn r7_captures_begin_end_and_join_as_documented(d: &dyn Driver) {
    let (a, b, c, at) = (stream(d), stream(d), stream(d), d.malloc(0, 64).unwrap());
    assert_eq!(status(d.stream_begin_capture(S0, CaptureMode::Global)), Status::CaptureUnsupported);
    assert_eq!(status(d.stream_end_capture(a)), Status::IllegalState);
    let begin = |on| d.stream_begin_capture(on, CaptureMode::Relaxed).unwrap();
    begin(a);
    assert_eq!(status(d.stream_begin_capture(a, CaptureMode::Global)), Status::IllegalState);
    assert_eq!(status(d.stream_destroy(a)), Status::IllegalState, "a stream ends after its capture");
    is_spoilt(d, a, false);
    assert_eq!(end(d, a), 0);

    // Ended elsewhere than it began.
    begin(a);
    node(d, a, at);
    wait(d, b, a).unwrap();
    assert_eq!(status(d.stream_end_capture(b)), Status::CaptureUnmatched);
    is_spoilt(d, a, true);
    assert_eq!(status(fill(d, at, 1, 64, a)), Status::CaptureInvalidated);
    assert_eq!(status(d.stream_end_capture(a)), Status::CaptureInvalidated);
    assert_eq!(d.capture_state(b).unwrap(), CaptureState::None, "it has ended all the same");

    // Not joined.
    begin(a);
    node(d, a, at);
    wait(d, b, a).unwrap();
    node(d, b, at);
    assert_eq!(status(d.stream_end_capture(a)), Status::CaptureUnjoined);

    // Two captures; work outside; the default stream.
    begin(a);
    begin(c);
    node(d, a, at);
    assert_eq!(status(wait(d, c, a)), Status::CaptureMerge);
    for on in [a, c] {
        is_spoilt(d, on, true);
        assert_eq!(status(d.stream_end_capture(on)), Status::CaptureInvalidated);
    }
    begin(a);
    assert_eq!(status(wait(d, a, b)), Status::CaptureIsolation);
    assert_eq!(status(d.stream_end_capture(a)), Status::CaptureInvalidated);
    begin(a);
    node(d, a, at);
    assert_eq!(status(wait(d, S0, a)), Status::CaptureUnsupported);
    assert_eq!(status(d.stream_end_capture(a)), Status::CaptureInvalidated);
    for on in [a, b, c] {
        d.stream_destroy(on).unwrap();
    }
    free(d, at).unwrap();
}

/// An event of a capture stands for no work that runs.
pub(crate) fn r7_captured_events_cannot_be_asked(d: &dyn Driver) {
    let (a, b, event, at) = (stream(d), stream(d), event(d), d.malloc(0, 64).unwrap());
    d.stream_begin_capture(a, CaptureMode::Relaxed).unwrap();
    node(d, a, at);
    d.event_record(event, a).unwrap();
    assert_eq!(status(d.event_query(event)), Status::CapturedEvent);
    assert_eq!(status(d.event_synchronize(event)), Status::CapturedEvent);
    is_spoilt(d, a, false);
    assert_eq!(end(d, a), 1);
    assert_eq!(status(d.event_query(event)), Status::CapturedEvent, "nor when the capture is over");
    assert_eq!(status(d.stream_wait_event(b, event)), Status::CapturedEvent);
    d.event_record(event, b).unwrap();
    d.event_synchronize(event).unwrap();
    assert!(d.event_query(event).unwrap(), "a record outside makes it an event again");
    d.event_destroy(event).unwrap();
    free(d, at).unwrap();
    d.stream_destroy(a).unwrap();
    d.stream_destroy(b).unwrap();
}

/// Which unsafe calls a capture forbids to whom, by its mode and the thread's.
pub(crate) fn r7_modes_say_who_may_disturb_a_capture(d: &dyn Driver) {
    use CaptureMode::{Global, Relaxed, ThreadLocal};
    let a = stream(d);
    // (the capture's mode, the caller's mode, whether the caller began it, whether it is forbidden)
    let cases = [
        (Global, Global, true, true),
        (Global, Global, false, true),
        (Global, ThreadLocal, true, true),
        (Global, ThreadLocal, false, false),
        (Global, Relaxed, true, false),
        (Global, Relaxed, false, false),
        (ThreadLocal, Global, true, true),
        (ThreadLocal, Global, false, false),
        (ThreadLocal, ThreadLocal, true, true),
        (Relaxed, Global, true, false),
        (Relaxed, Global, false, false),
    ];
    for (mode, caller, own, forbidden) in cases {
        d.stream_begin_capture(a, mode).unwrap();
        let call = || {
            let before = d.exchange_capture_mode(caller).unwrap();
            let ptr = d.malloc(0, MIB);
            if let Ok(ptr) = ptr {
                free(d, ptr).unwrap();
            }
            d.exchange_capture_mode(before).unwrap();
            ptr
        };
        let got = if own { call() } else { thread::scope(|scope| scope.spawn(call).join().unwrap()) };
        let case = format!("a {mode:?} capture, a {caller:?} caller, {own}");
        assert_eq!(got.is_err(), forbidden, "{case}");
        is_spoilt(d, a, forbidden);
        match d.stream_end_capture(a) {
            Ok(graph) => d.graph_destroy(graph).unwrap(),
            Err(error) => assert_eq!((error.status, forbidden), (Status::CaptureInvalidated, true), "{case}"),
        }
    }
    d.stream_destroy(a).unwrap();
}

/// Each unsafe call is refused and spoils the capture.
pub(crate) fn r7_unsafe_calls_spoil_a_capture(d: &dyn Driver) {
    let (a, b, event) = (stream(d), stream(d), event(d));
    d.event_record(event, b).unwrap();
    let ptr = d.malloc(0, MIB).unwrap();
    let calls: [(&str, &dyn Fn() -> Status); 8] = [
        ("malloc", &|| status(d.malloc(0, 8))),
        ("free", &|| status(free(d, ptr))),
        ("event_query", &|| status(d.event_query(event))),
        ("event_synchronize", &|| status(d.event_synchronize(event))),
        ("stream_query", &|| status(d.stream_query(b))),
        ("stream_synchronize", &|| status(d.stream_synchronize(b))),
        ("device_synchronize", &|| status(d.device_synchronize(0))),
        ("host_alloc", &|| status(d.host_alloc(64))),
    ];
    for (name, call) in calls {
        d.stream_begin_capture(a, CaptureMode::Global).unwrap();
        assert_eq!(call(), Status::CaptureUnsupported, "{name}");
        is_spoilt(d, a, true);
        assert_eq!(status(d.stream_end_capture(a)), Status::CaptureInvalidated);
    }
    // A stream that captures cannot be waited for, whatever the mode.
    let calls: [&dyn Fn() -> Status; 2] =
        [&|| status(d.stream_query(a)), &|| status(d.device_synchronize(0))];
    for call in calls {
        d.stream_begin_capture(a, CaptureMode::Relaxed).unwrap();
        assert_eq!(call(), Status::CaptureUnsupported);
        assert_eq!(status(d.stream_end_capture(a)), Status::CaptureInvalidated);
    }
    free(d, ptr).unwrap();
    d.event_destroy(event).unwrap();
    d.stream_destroy(a).unwrap();
    d.stream_destroy(b).unwrap();
}

/// A capture ends on the thread that began it, unless it is relaxed.
pub(crate) fn r7_a_capture_ends_on_its_thread(d: &dyn Driver) {
    let a = stream(d);
    let elsewhere = |call: &(dyn Fn() -> Option<Status> + Sync)| {
        let (send, receive) = channel();
        thread::scope(|scope| {
            scope.spawn(move || send.send(call()).unwrap());
        });
        receive.recv().unwrap()
    };
    let ended = || match d.stream_end_capture(a) {
        Ok(graph) => d.graph_destroy(graph).err().map(|error| error.status),
        Err(error) => Some(error.status),
    };
    d.stream_begin_capture(a, CaptureMode::ThreadLocal).unwrap();
    assert_eq!(elsewhere(&ended), Some(Status::CaptureWrongThread));
    is_spoilt(d, a, false);
    assert_eq!(ended(), None);
    d.stream_begin_capture(a, CaptureMode::Relaxed).unwrap();
    assert_eq!(elsewhere(&ended), None);
    d.stream_destroy(a).unwrap();
}
