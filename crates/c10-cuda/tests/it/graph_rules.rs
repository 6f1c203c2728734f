//! The rule of graphs that are launched (R7), for the suite that every driver passes.
#![expect(unsafe_code, reason = "launches graphs whose memory is there, or looks for the report")]
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use c10_cuda::driver::{
    CaptureMode, CopyEnd, DevicePtr, Driver, EventFlags, GraphExecHandle, GraphHandle, Result, Status,
    StreamHandle,
};

use crate::module_rules::{arg, call, unload};
use crate::support::{MIB, copy, copy_ends, fill, free, free_async, host_free, read, upload};

pub(crate) const S0: StreamHandle = StreamHandle::default_of(0);
const TIMED: EventFlags = EventFlags { timing: true, blocking_sync: false, interprocess: false };

pub(crate) fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

pub(crate) fn stream(d: &dyn Driver) -> StreamHandle {
    d.stream_create(0, 0).unwrap()
}

fn end_streams<const N: usize>(d: &dyn Driver, streams: [StreamHandle; N]) {
    streams.into_iter().for_each(|on| d.stream_destroy(on).unwrap());
}

fn free_all<const N: usize>(d: &dyn Driver, ptrs: [DevicePtr; N]) {
    ptrs.into_iter().for_each(|ptr| free(d, ptr).unwrap());
}

#[track_caller]
pub(crate) fn start(d: &dyn Driver, exec: GraphExecHandle, on: StreamHandle) -> Result<()> {
    // SAFETY: tests keep what the nodes use, or look for the simulator's report.
    unsafe { d.graph_launch(exec, on) }
}

/// What `work` issues on a stream, as a graph.
pub(crate) fn capture(d: &dyn Driver, on: StreamHandle, work: impl FnOnce()) -> GraphHandle {
    d.stream_begin_capture(on, CaptureMode::Relaxed).unwrap();
    work();
    d.stream_end_capture(on).unwrap()
}

/// The same, launchable; the graph has ended.
pub(crate) fn launchable(d: &dyn Driver, on: StreamHandle, work: impl FnOnce()) -> GraphExecHandle {
    let graph = capture(d, on, work);
    let exec = d.graph_instantiate(graph).unwrap();
    d.graph_destroy(graph).unwrap();
    exec
}

/// `waiting` waits for what `waited` holds.
pub(crate) fn wait(d: &dyn Driver, waiting: StreamHandle, waited: StreamHandle) {
    let event = d.event_create(0, EventFlags::default()).unwrap();
    d.event_record(event, waited).unwrap();
    d.stream_wait_event(waiting, event).unwrap();
    d.event_destroy(event).unwrap();
}

/// Copies, fills and copies from and to the host, again and again, behind what the stream holds and before what comes.
pub(crate) fn r7_a_graph_does_the_same_at_each_launch(d: &dyn Driver) {
    let on = stream(d);
    let [a, b] = [(); 2].map(|()| d.malloc(0, 256).unwrap());
    fill(d, b, 0xee, 256, on).unwrap();
    // Memory of the host that is pinned: copies of other memory may not be captured.
    let host = d.host_alloc(256).unwrap();
    let end = CopyEnd::Host(host.as_ptr());
    let exec = launchable(d, on, || {
        copy(d, b, a, 128, on).unwrap();
        fill(d, b.offset(64), 7, 32, on).unwrap();
        copy_ends(d, CopyEnd::Device(b.offset(128)), end, 64, on).unwrap();
        copy_ends(d, end, CopyEnd::Device(b), 128, on).unwrap();
    });
    assert_eq!(read(d, b, 256, on), [0xee; 256], "a capture runs nothing");
    // SAFETY: it is this long, and no copy is under way.
    let held = || unsafe { std::slice::from_raw_parts(host.as_ptr(), 128) }.to_vec();
    assert_eq!(held(), [0; 128]);
    let mut before = vec![0; 64];
    d.graph_upload(exec, on).unwrap();
    for value in 1..4 {
        fill(d, a, value, 256, on).unwrap();
        start(d, exec, on).unwrap();
        fill(d, b.offset(1), 0xff, 1, on).unwrap();
        let expected = [[value; 64].as_slice(), &[7; 32], &[value; 32], &before, &[0xee; 64]].concat();
        let mut after = expected.clone();
        after[1] = 0xff;
        assert_eq!(read(d, b, 256, on), after);
        assert_eq!(held(), expected[..128], "it is of before the last fill");
        // The next launch finds what this one has left with the host.
        before = expected[..64].to_vec();
    }
    host_free(d, host).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    d.stream_destroy(on).unwrap();
    free_all(d, [a, b]);
}

/// Launches that are under way run, whatever ends.
pub(crate) fn r7_launches_outlive_the_graph(d: &dyn Driver) {
    let on = stream(d);
    let [a, b] = [(); 2].map(|()| d.malloc(0, 4096).unwrap());
    fill(d, a, 1, 4096, on).unwrap();
    let exec = launchable(d, on, || copy(d, b, a, 4096, on).unwrap());
    start(d, exec, on).unwrap();
    start(d, exec, S0).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    d.stream_destroy(on).unwrap();
    d.device_synchronize(0).unwrap();
    assert_eq!(read(d, b, 4096, S0), [1; 4096]);
    // An empty graph is one.
    let on = stream(d);
    let exec = launchable(d, on, || {});
    start(d, exec, on).unwrap();
    d.stream_synchronize(on).unwrap();
    assert!(d.stream_query(on).unwrap());
    d.graph_exec_destroy(exec).unwrap();
    d.stream_destroy(on).unwrap();
    free_all(d, [a, b]);
}

/// A graph of the same shape replaces what is launched; one of another shape is refused and changes nothing.
pub(crate) fn r7_an_update_changes_what_comes(d: &dyn Driver) {
    let on = stream(d);
    let [a, b] = [(); 2].map(|()| d.malloc(0, 64).unwrap());
    let filling = |value| {
        capture(d, on, || {
            fill(d, a, value, 64, on).unwrap();
            copy(d, b, a, 64, on).unwrap();
        })
    };
    let (first, second) = (filling(1), filling(2));
    let shorter = capture(d, on, || fill(d, a, 3, 64, on).unwrap());
    let turned = capture(d, on, || {
        copy(d, b, a, 64, on).unwrap();
        fill(d, a, 4, 64, on).unwrap();
    });
    let exec = d.graph_instantiate(first).unwrap();
    start(d, exec, on).unwrap();
    assert_eq!(read(d, b, 64, on), [1; 64]);
    for other in [shorter, turned] {
        assert_eq!(status(d.graph_exec_update(exec, other)), Status::GraphUpdateFailure);
    }
    fill(d, a, 9, 64, on).unwrap();
    start(d, exec, on).unwrap();
    assert_eq!(read(d, b, 64, on), [1; 64], "it is as it was");
    d.graph_exec_update(exec, second).unwrap();
    start(d, exec, on).unwrap();
    assert_eq!(read(d, b, 64, on), [2; 64]);
    for graph in [first, second, shorter, turned] {
        d.graph_destroy(graph).unwrap();
    }
    d.graph_exec_destroy(exec).unwrap();
    d.stream_destroy(on).unwrap();
    free_all(d, [a, b]);
}

/// Memory between nodes of a graph is there at each launch, and goes with the graph.
pub(crate) fn r7_a_graph_has_memory_of_its_own(d: &dyn Driver) {
    let on = stream(d);
    let out = d.malloc(0, 64).unwrap();
    let before = d.graph_memory_info(0).unwrap();
    d.graph_memory_reset_peaks(0).unwrap();
    let exec = launchable(d, on, || {
        let ptr = d.malloc_async(3 * MIB, on).unwrap();
        fill(d, ptr, 6, 3 * MIB, on).unwrap();
        copy(d, out, ptr.offset(3 * MIB - 64), 64, on).unwrap();
        free_async(d, ptr, on).unwrap();
    });
    for _ in 0..3 {
        fill(d, out, 0, 64, on).unwrap();
        start(d, exec, on).unwrap();
        assert_eq!(read(d, out, 64, on), [6; 64]);
        let info = d.graph_memory_info(0).unwrap();
        assert!(info.used >= before.used + 3 * MIB, "the graph has it between its launches: {info:?}");
        assert!(info.used_peak >= info.used && info.reserved >= info.used, "{info:?}");
    }
    d.graph_exec_destroy(exec).unwrap();
    d.stream_destroy(on).unwrap();
    free(d, out).unwrap();
}

/// What a launch allocates and does not free can be used and freed behind it; else the next launch frees it.
pub(crate) fn r7_memory_that_a_graph_leaves_is_the_programs(d: &dyn Driver) {
    let on = stream(d);
    let mut ptr = DevicePtr::NULL;
    let graph = capture(d, on, || {
        ptr = d.malloc_async(MIB, on).unwrap();
        fill(d, ptr, 8, MIB, on).unwrap();
    });
    let exec = d.graph_instantiate(graph).unwrap();
    d.graph_instantiate(graph).expect_err("its addresses are one launchable graph's");
    start(d, exec, on).unwrap();
    assert!(read(d, ptr, MIB as usize, on) == vec![8; MIB as usize]);
    assert!(d.graph_memory_info(0).unwrap().used >= MIB);
    // The next launch frees it first.
    start(d, exec, on).unwrap();
    fill(d, ptr, 9, 1, on).unwrap();
    assert_eq!(read(d, ptr, 2, on), [9, 8]);
    free_async(d, ptr, on).unwrap();
    assert_eq!(status(free_async(d, ptr, on)), Status::InvalidValue, "it is freed");
    d.stream_synchronize(on).unwrap();
    start(d, exec, on).unwrap();
    free_async(d, ptr, on).unwrap();
    d.stream_synchronize(on).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    d.graph_destroy(graph).unwrap();
    d.stream_destroy(on).unwrap();
}

/// An event that a graph records orders what waits for it behind the launch, and takes the time.
pub(crate) fn r7_a_graph_records_events(d: &dyn Driver) {
    let (on, other) = (stream(d), stream(d));
    let [a, b] = [(); 2].map(|()| d.malloc(0, MIB).unwrap());
    let [begin, end] = [(); 2].map(|()| d.event_create(0, TIMED).unwrap());
    let exec = launchable(d, on, || {
        d.event_record_external(begin, on).unwrap();
        fill(d, a, 3, MIB, on).unwrap();
        d.event_record_external(end, on).unwrap();
    });
    assert!(d.event_query(end).unwrap(), "a capture records nothing");
    for value in 1..4 {
        start(d, exec, on).unwrap();
        d.stream_wait_event(other, end).unwrap();
        copy(d, b, a, MIB, other).unwrap();
        fill(d, a, value, MIB, other).unwrap();
        wait(d, on, other);
        assert_eq!(read(d, b, 8, other), [3; 8]);
        d.event_synchronize(end).unwrap();
        assert!(d.event_query(begin).unwrap() && d.event_query(end).unwrap());
        assert!(d.event_elapsed_ms(begin, end).unwrap() > 0.0);
    }
    // Outside a capture it is a record like any other.
    d.event_record_external(end, other).unwrap();
    d.event_synchronize(end).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    for event in [begin, end] {
        d.event_destroy(event).unwrap();
    }
    end_streams(d, [on, other]);
    free_all(d, [a, b]);
}

pub(crate) fn r7_dead_graphs_are_refused(d: &dyn Driver) {
    let on = stream(d);
    let graph = capture(d, on, || {});
    let exec = d.graph_instantiate(graph).unwrap();
    let live = d.graph_instantiate(graph).unwrap();
    assert_ne!(exec, live);
    d.graph_exec_destroy(exec).unwrap();
    let elsewhere = GraphExecHandle { device: d.device_count(), ..live };
    for bad in [exec, elsewhere, GraphExecHandle { raw: 0, ..live }] {
        assert_eq!(status(start(d, bad, on)), Status::InvalidHandle);
        assert_eq!(status(d.graph_upload(bad, on)), Status::InvalidHandle);
        assert_eq!(status(d.graph_exec_update(bad, graph)), Status::InvalidHandle);
        assert_eq!(status(d.graph_exec_destroy(bad)), Status::InvalidHandle);
    }
    d.graph_destroy(graph).unwrap();
    assert_eq!(status(d.graph_instantiate(graph)), Status::InvalidHandle);
    assert_eq!(status(d.graph_exec_update(live, graph)), Status::InvalidHandle);
    d.stream_destroy(on).unwrap();
    assert_eq!(status(start(d, live, on)), Status::InvalidHandle);
    start(d, live, S0).unwrap();
    d.stream_synchronize(S0).unwrap();
    d.graph_exec_destroy(live).unwrap();
}

/// Forks and joins: each node sees what the nodes before it have done.
pub(crate) fn r7_branches_run_behind_what_they_depend_on(d: &dyn Driver, image: &[u8]) {
    const COUNT: u64 = 1000;
    let module = d.module_load(0, image).unwrap();
    let function = |name| d.module_function(module, name).unwrap();
    let (fill_u32, add) = (function("fill_u32"), function("add_f32"));
    let (on, side) = (stream(d), stream(d));
    let [a, b, c] = [(); 3].map(|()| d.malloc(0, 4 * COUNT).unwrap());
    let count = COUNT.to_le_bytes();
    let set = |on, at, value: f32| call(d, on, fill_u32, &[&arg(at), &value.to_le_bytes(), &count]).unwrap();
    let sum = |on, out, x, y| call(d, on, add, &[&arg(out), &arg(x), &arg(y), &count]).unwrap();
    let exec = launchable(d, on, || {
        set(on, a, 1.0);
        wait(d, side, on);
        sum(side, b, a, a); // 2
        sum(on, c, a, a); // 2, beside it
        wait(d, on, side);
        sum(on, c, c, b); // 4
        wait(d, side, on);
        sum(side, a, c, c); // 8
        sum(on, b, c, b); // 6
        wait(d, on, side);
        sum(on, c, a, b); // 14
    });
    for _ in 0..3 {
        start(d, exec, on).unwrap();
        let bytes = read(d, c, 4 * COUNT as usize, on);
        assert!(bytes.as_chunks::<4>().0.iter().all(|word| f32::from_le_bytes(*word) == 14.0));
    }
    d.graph_exec_destroy(exec).unwrap();
    unload(d, module).unwrap();
    end_streams(d, [on, side]);
    free_all(d, [a, b, c]);
}

/// Launches of one graph run one after the other, on whatever streams.
pub(crate) fn r7_launches_of_one_graph_do_not_overlap(d: &dyn Driver, image: &[u8]) {
    const COUNT: u64 = 100_000;
    let module = d.module_load(0, image).unwrap();
    let add = d.module_function(module, "add_f32").unwrap();
    let (on, other) = (stream(d), stream(d));
    let [sum, one] = [(); 2].map(|()| d.malloc(0, 4 * COUNT).unwrap());
    upload(d, one, &1.0_f32.to_le_bytes().repeat(COUNT as usize), on).unwrap();
    fill(d, sum, 0, 4 * COUNT, on).unwrap();
    let exec = launchable(d, on, || {
        call(d, on, add, &[&arg(sum), &arg(sum), &arg(one), &COUNT.to_le_bytes()]).unwrap();
    });
    for _ in 0..5 {
        start(d, exec, on).unwrap();
        start(d, exec, other).unwrap();
    }
    d.device_synchronize(0).unwrap();
    let bytes = read(d, sum, 4 * COUNT as usize, on);
    assert!(bytes.as_chunks::<4>().0.iter().all(|word| f32::from_le_bytes(*word) == 10.0));
    d.graph_exec_destroy(exec).unwrap();
    unload(d, module).unwrap();
    end_streams(d, [on, other]);
    free_all(d, [sum, one]);
}
