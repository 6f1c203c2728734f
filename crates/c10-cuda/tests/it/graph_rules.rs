//! The rule of graphs that are launched (R7), for the suite that every driver passes; and the simulator's own.
#![expect(unsafe_code, reason = "launches graphs whose memory is there, or looks for the report")]
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_core::DataPtr;
use c10_cuda::driver::sim::{AccessFault, Completion, RaceKind, SimConfig, SimDriver};
use c10_cuda::driver::{
    CaptureMode, CopyEnd, DevicePtr, Driver, EventFlags, GraphExecHandle, GraphHandle, Result, Status,
    StreamHandle,
};

use c10_cuda::{CachingAllocator, Config};

use crate::driver_rules::HOST_KERNELS;
use crate::module_rules::{arg, call, unload};
use crate::support::{MIB, copy, copy_ends, fill, free, free_async, host_free, launch, range, read, upload};

const S0: StreamHandle = StreamHandle::default_of(0);
const TIMED: EventFlags = EventFlags { timing: true, blocking_sync: false, interprocess: false };

fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

fn stream(d: &dyn Driver) -> StreamHandle {
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
fn capture(d: &dyn Driver, on: StreamHandle, work: impl FnOnce()) -> GraphHandle {
    d.stream_begin_capture(on, CaptureMode::Relaxed).unwrap();
    work();
    d.stream_end_capture(on).unwrap()
}

/// The same, launchable; the graph has ended.
fn launchable(d: &dyn Driver, on: StreamHandle, work: impl FnOnce()) -> GraphExecHandle {
    let graph = capture(d, on, work);
    let exec = d.graph_instantiate(graph).unwrap();
    d.graph_destroy(graph).unwrap();
    exec
}

/// `waiting` waits for what `waited` holds.
fn wait(d: &dyn Driver, waiting: StreamHandle, waited: StreamHandle) {
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

fn sim() -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_bytes(64 * MIB).race_detector().log_calls(1000))
}

#[test]
fn captured_bodies_run_at_each_launch_and_are_dropped_with_the_last() {
    struct Counts(Arc<AtomicU64>, Arc<AtomicU64>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let d = sim();
    let (runs, drops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = Counts(runs.clone(), drops.clone());
    let seen = || (runs.load(Ordering::Relaxed), drops.load(Ordering::Relaxed));
    let on = stream(&*d);
    let exec = launchable(&*d, on, || {
        launch(&*d, on, "count", &[], &[], move |_| _ = counts.0.fetch_add(1, Ordering::Relaxed)).unwrap();
    });
    assert_eq!(seen(), (0, 0));
    start(&*d, exec, on).unwrap();
    start(&*d, exec, on).unwrap();
    d.complete_all();
    assert_eq!(seen(), (2, 0));
    start(&*d, exec, on).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    d.settle();
    assert_eq!(seen(), (2, 0), "a launch still has it");
    d.complete_all();
    assert_eq!(seen(), (3, 1));
    // What a capture that gives no graph had.
    let counts = Counts(runs.clone(), drops.clone());
    d.stream_begin_capture(on, CaptureMode::Global).unwrap();
    launch(&*d, on, "count", &[], &[], move |_| _ = counts.0.fetch_add(1, Ordering::Relaxed)).unwrap();
    d.malloc(0, 1).unwrap_err();
    d.stream_end_capture(on).unwrap_err();
    d.settle();
    assert_eq!(seen(), (3, 2));
}

#[test]
fn a_seed_decides_the_order_of_nodes_that_nothing_orders() {
    let orders = |completion| {
        let d = SimDriver::new(SimConfig::with_bytes(64 * MIB).completion(completion).log_calls(1000));
        let (on, side) = (stream(&*d), stream(&*d));
        let node = |on, name| launch(&*d, on, name, &[], &[], |_| ()).unwrap();
        let exec = launchable(&*d, on, || {
            node(on, "first");
            wait(&*d, side, on);
            node(on, "left");
            node(side, "right");
            wait(&*d, on, side);
            node(on, "last");
        });
        start(&*d, exec, on).unwrap();
        d.stream_synchronize(on).unwrap();
        d.take_work().into_iter().map(|work| work.name).collect::<Vec<_>>()
    };
    assert_eq!(orders(Completion::Manual), ["first", "left", "right", "last", "graph"]);
    let seeds: Vec<_> = (0..16).map(|seed| orders(Completion::Seeded(seed))).collect();
    assert!(seeds.contains(&vec!["first", "left", "right", "last", "graph"]));
    assert!(seeds.contains(&vec!["first", "right", "left", "last", "graph"]));
    assert!(seeds.iter().all(|order| order[0] == "first" && order[3..] == ["last", "graph"]));
}

#[test]
fn the_detector_sees_the_order_within_a_graph() {
    let d = sim();
    let (on, side) = (stream(&*d), stream(&*d));
    let [a, b] = [(); 2].map(|()| d.malloc(0, 64).unwrap());
    let write = |on, name, at| launch(&*d, on, name, &[], &[range(at, 64)], |_| ()).unwrap();
    let exec = launchable(&*d, on, || {
        write(on, "one", a);
        wait(&*d, side, on);
        write(on, "left", b);
        write(side, "right", a);
        wait(&*d, on, side);
        write(on, "last", b);
    });
    start(&*d, exec, on).unwrap();
    start(&*d, exec, side).unwrap();
    assert_eq!(d.races(), [], "launches of one graph follow each other");
    write(side, "behind", a);
    assert_eq!(d.races(), []);
    write(S0, "beside", b);
    let races = d.take_races();
    assert_eq!(races.len(), 1);
    assert_eq!((&races[0].kind, races[0].first.as_ref().unwrap().name), (&RaceKind::Unordered, "last"));
    d.device_synchronize(0).unwrap();
    // Two branches of one launch.
    let racing = launchable(&*d, on, || {
        write(on, "one", a);
        wait(&*d, side, on);
        write(on, "left", b);
        write(side, "right", b);
        wait(&*d, on, side);
    });
    start(&*d, racing, on).unwrap();
    let found: Vec<_> = d.take_races().into_iter().map(|r| (r.first.unwrap().name, r.second.name)).collect();
    assert_eq!(found, [("left", "right")]);
    d.device_synchronize(0).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    // Memory that went before the launch.
    free(&*d, b).unwrap();
    start(&*d, racing, on).unwrap();
    let kinds: Vec<_> = d.take_races().into_iter().map(|race| race.kind).collect();
    assert_eq!(kinds, [RaceKind::UseAfterFree, RaceKind::UseAfterFree]);
    d.complete_all();
    let faults: Vec<_> = d.take_faults().into_iter().map(|fault| (fault.name, fault.fault)).collect();
    assert_eq!(faults, [("left", AccessFault::NotLive), ("right", AccessFault::NotLive)]);
}

#[test]
fn an_event_of_a_graph_orders_what_waits_for_it_and_no_more() {
    let d = sim();
    let (on, side) = (stream(&*d), stream(&*d));
    let [a, b] = [(); 2].map(|()| d.malloc(0, 64).unwrap());
    let event = d.event_create(0, EventFlags::default()).unwrap();
    let exec = launchable(&*d, on, || {
        fill(&*d, a, 1, 64, on).unwrap();
        d.event_record_external(event, on).unwrap();
        fill(&*d, b, 1, 64, on).unwrap();
    });
    start(&*d, exec, on).unwrap();
    d.stream_wait_event(side, event).unwrap();
    fill(&*d, a, 2, 64, side).unwrap();
    assert_eq!(d.races(), []);
    fill(&*d, b, 2, 64, side).unwrap();
    assert_eq!(d.take_races().len(), 1);
    d.device_synchronize(0).unwrap();
    d.event_destroy(event).unwrap();
    assert_eq!(status(start(&*d, exec, on)), Status::InvalidValue, "its event is gone");
    assert_eq!(d.pending(), 0);
}

#[test]
fn memory_of_graphs_is_the_devices_and_goes_with_the_last_that_holds_it() {
    let d = sim();
    let on = stream(&*d);
    let all = d.memory_info(0).unwrap().free;
    let free_now = || d.memory_info(0).unwrap().free;
    let graph = capture(&*d, on, || {
        let ptr = d.malloc_async(6 * MIB, on).unwrap();
        free_async(&*d, ptr, on).unwrap();
        assert_eq!(d.malloc_async(5 * MIB, on).unwrap(), ptr, "the free comes before");
        free_async(&*d, ptr, on).unwrap();
    });
    let exec = d.graph_instantiate(graph).unwrap();
    assert_eq!(free_now(), all, "addresses are not memory");
    start(&*d, exec, on).unwrap();
    assert_eq!(free_now(), all - 6 * MIB);
    d.graph_destroy(graph).unwrap();
    d.graph_exec_destroy(exec).unwrap();
    assert_eq!(free_now(), all - 6 * MIB, "a launch is under way");
    d.complete_all();
    assert_eq!(free_now(), all);
    let info = d.graph_memory_info(0).unwrap();
    assert_eq!((info.used, info.reserved, info.used_peak), (0, 0, 6 * MIB));
    // Two graphs have addresses of their own; one that does not fit is refused whole.
    let make = |bytes| {
        let mut ptr = DevicePtr::NULL;
        let exec = launchable(&*d, on, || {
            ptr = d.malloc_async(bytes, on).unwrap();
            fill(&*d, ptr, 1, bytes, on).unwrap();
        });
        (exec, ptr)
    };
    let ((one, a), (two, b)) = (make(40 * MIB), make(30 * MIB));
    assert!(a.0 + 40 * MIB <= b.0 || b.0 + 30 * MIB <= a.0);
    start(&*d, one, on).unwrap();
    assert_eq!(status(start(&*d, two, on)), Status::OutOfMemory);
    assert_eq!(status(d.graph_upload(two, on)), Status::OutOfMemory);
    assert_eq!(d.graph_memory_info(0).unwrap().reserved, 40 * MIB);
    free_async(&*d, a, on).unwrap();
    d.graph_exec_destroy(one).unwrap();
    d.stream_synchronize(on).unwrap();
    d.graph_upload(two, on).unwrap();
    assert_eq!(free_now(), all - 30 * MIB, "it is made ready");
    assert_eq!(d.graph_memory_info(0).unwrap().used, 30 * MIB);
    start(&*d, two, on).unwrap();
    free_async(&*d, b, on).unwrap();
    d.graph_exec_destroy(two).unwrap();
    d.stream_synchronize(on).unwrap();
    assert_eq!(free_now(), all);
    assert_eq!((d.races(), d.take_faults()), (vec![], vec![]));
}

#[test]
fn a_graph_frees_what_another_has_left() {
    let d = sim();
    let on = stream(&*d);
    let mut ptr = DevicePtr::NULL;
    let makes = launchable(&*d, on, || {
        ptr = d.malloc_async(MIB, on).unwrap();
        fill(&*d, ptr, 4, MIB, on).unwrap();
    });
    let ends = launchable(&*d, on, || {
        fill(&*d, ptr, 5, 1, on).unwrap();
        free_async(&*d, ptr, on).unwrap();
    });
    assert_eq!(status(start(&*d, ends, on)), Status::InvalidValue, "it does not live");
    for _ in 0..2 {
        start(&*d, makes, on).unwrap();
        start(&*d, ends, on).unwrap();
        assert_eq!(status(start(&*d, ends, on)), Status::InvalidValue);
    }
    d.stream_synchronize(on).unwrap();
    // Work that nothing orders before the free.
    start(&*d, makes, on).unwrap();
    fill(&*d, ptr.offset(1), 6, 1, S0).unwrap();
    start(&*d, ends, on).unwrap();
    let kinds: Vec<_> = d.take_races().into_iter().map(|race| race.kind).collect();
    assert_eq!(kinds, [RaceKind::Unordered, RaceKind::FreedUnderUse]);
}

#[test]
fn a_graph_with_memory_is_not_updated() {
    let d = sim();
    let on = stream(&*d);
    let graph = capture(&*d, on, || {
        let ptr = d.malloc_async(64, on).unwrap();
        free_async(&*d, ptr, on).unwrap();
    });
    let exec = d.graph_instantiate(graph).unwrap();
    assert_eq!(status(d.graph_exec_update(exec, graph)), Status::GraphUpdateFailure);
}

#[test]
fn a_launch_is_no_node() {
    let d = sim();
    let (on, other) = (stream(&*d), stream(&*d));
    let exec = launchable(&*d, on, || {});
    d.stream_begin_capture(other, CaptureMode::Relaxed).unwrap();
    assert_eq!(status(start(&*d, exec, other)), Status::NotSupported);
    d.stream_end_capture(other).unwrap();
    d.stream_begin_capture(other, CaptureMode::Relaxed).unwrap();
    assert_eq!(status(d.graph_upload(exec, other)), Status::CaptureUnsupported);
    assert_eq!(status(d.stream_end_capture(other)), Status::CaptureInvalidated);
}

#[test]
fn an_image_is_loaded_while_a_stream_captures() {
    let d = sim();
    let on = stream(&*d);
    let exec = launchable(&*d, on, || {
        let module = d.module_load(0, HOST_KERNELS).unwrap();
        let spin = d.module_function(module, "spin").unwrap();
        call(&*d, on, spin, &[&1_000_000_u64.to_le_bytes()]).unwrap();
    });
    let before = d.now_ns();
    start(&*d, exec, on).unwrap();
    d.stream_synchronize(on).unwrap();
    assert!(d.now_ns() >= before + 1_000_000);
}

/// What an allocator has taken back in a capture is the graph's to use; what it had taken back before is not.
#[test]
fn memory_that_an_allocator_keeps_for_a_graph_is_the_graphs() {
    let d = sim();
    let allocator = CachingAllocator::new(d.clone(), Config::default()).unwrap();
    let on = stream(&*d);
    let at = |ptr: &DataPtr| DevicePtr(ptr.as_ptr().addr() as u64);
    let block = allocator.allocate(4096).unwrap();
    let exec = launchable(&*d, on, || fill(&*d, at(&block), 1, 4096, on).unwrap());
    let gone = at(&block);
    drop(block);
    start(&*d, exec, on).unwrap();
    start(&*d, exec, on).unwrap();
    assert_eq!(d.races(), []);
    let racing = launchable(&*d, on, || fill(&*d, gone, 1, 4096, on).unwrap());
    let kinds: Vec<_> = d.take_races().into_iter().map(|race| race.kind).collect();
    assert_eq!(kinds, [RaceKind::UseAfterFree], "when it was captured");
    start(&*d, racing, on).unwrap();
    assert_eq!(d.races(), []);
    d.device_synchronize(0).unwrap();
    allocator.empty_cache().unwrap();
    start(&*d, exec, on).unwrap();
    let kinds: Vec<_> = d.take_races().into_iter().map(|race| race.kind).collect();
    assert_eq!(kinds, [RaceKind::UseAfterFree], "it has gone back to the driver");
    d.complete_all();
    assert_eq!(d.take_faults().len(), 1);
}
