//! Graphs of the simulator, beyond the rule: when their bodies run and go, in which order, and whose memory is whose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_core::DataPtr;
use c10_cuda::driver::sim::{AccessFault, Completion, RaceKind, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, DevicePtr, Driver, EventFlags, Status};
use c10_cuda::{CachingAllocator, Config};

use crate::driver_rules::HOST_KERNELS;
use crate::graph_rules::{S0, capture, launchable, start, status, stream, wait};
use crate::module_rules::call;
use crate::support::{MIB, fill, free, free_async, launch, range};

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
