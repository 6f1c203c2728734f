//! What graphs leave behind: launches that are known of, events, pools, and the memory that random state is read from.
#![expect(unsafe_code, reason = "replays graphs whose memory is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::mpsc;
use std::time::Duration;

use c10_core::DataPtr;
use c10_cuda::alloc::{MemPool, MemPoolOptions};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{CaptureState, DevicePtr, Driver, Status, StreamHandle};
use c10_cuda::{
    CaptureOptions, Config, CudaGenerator, CudaGraph, CudaStream, Error, ErrorKind, PhiloxState, Result,
};

use crate::rig::{GIB, MIB, Rig, address};
use crate::support::{fill, launch, range};

fn stream(rig: &Rig) -> CudaStream {
    CudaStream::from_pool(&rig.runtime, 0, 0).unwrap()
}

fn kept() -> CaptureOptions {
    CaptureOptions { keep_graph: true, ..CaptureOptions::default() }
}

fn replay_on(graph: &CudaGraph, on: &CudaStream) -> Result<()> {
    // SAFETY: the tests keep what graphs use.
    unsafe { graph.replay_on(on) }
}

/// A graph that adds the offset it begins with to the number at `sum`.
fn drawing(rig: &Rig, on: &CudaStream, options: CaptureOptions, sum: DevicePtr) -> CudaGraph {
    let generator = rig.runtime.default_generator(0).unwrap();
    let captured = CudaGraph::capture(&rig.cuda, on, options, |_| {
        let PhiloxState::Captured { seed, offset, .. } = generator.philox_state(4)? else {
            panic!("nothing captures")
        };
        let reads = [range(seed, 8), range(offset, 8), range(sum, 8)];
        launch(&*rig.sim, on.handle(), "draw", &reads, &[range(sum, 8)], |memory| {
            let [mut offset, mut sum] = [[0; 8]; 2];
            memory.read(1, 0, &mut offset);
            memory.read(2, 0, &mut sum);
            let sum = u64::from_le_bytes(offset) + u64::from_le_bytes(sum);
            memory.write(0, 0, &sum.to_le_bytes());
        })?;
        Ok::<_, Error>(())
    });
    captured.unwrap().0
}

/// A graph that writes into 4 KiB of its pool.
fn writing(rig: &Rig, on: &CudaStream, options: CaptureOptions) -> CudaGraph {
    let captured = CudaGraph::capture(&rig.cuda, on, options, |_| {
        let block = rig.cuda.allocate(4096)?;
        fill(&*rig.sim, DevicePtr(address(&block)), 1, 8, on.handle()).map_err(Error::from)
    });
    captured.unwrap().0
}

/// A number that is 0.
fn zero(rig: &Rig) -> (DataPtr, DevicePtr) {
    let block = rig.allocate(8);
    let at = DevicePtr(address(&block));
    fill(&*rig.sim, at, 0, 8, StreamHandle::default_of(0)).unwrap();
    rig.runtime.synchronize(0).unwrap();
    (block, at)
}

fn number(rig: &Rig, at: DevicePtr) -> u64 {
    let mut bytes = [0; 8];
    rig.sim.peek(at, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[track_caller]
fn is_quiet(rig: &Rig) {
    assert!(rig.sim.take_faults().is_empty());
    assert!(rig.sim.races().is_empty());
}

#[test]
fn a_graph_draws_from_memory_that_is_not_its_own() {
    for settings in ["", "expandable_segments:True", "backend:cudaMallocAsync"] {
        let rig = Rig::with(GIB, settings);
        let on = stream(&rig);
        let (_sum, at) = zero(&rig);
        let before = rig.driver_used();
        let graph = drawing(&rig, &on, CaptureOptions::default(), at);
        for _ in 0..3 {
            replay_on(&graph, &on).unwrap();
        }
        on.synchronize().unwrap();
        assert_eq!(number(&rig, at), 4 + 8, "{settings}");
        replay_on(&graph, &on).unwrap();
        drop(graph);
        rig.cuda.empty_cache().unwrap();
        on.synchronize().unwrap();
        rig.cuda.empty_cache().unwrap();
        assert_eq!((number(&rig, at), rig.driver_used()), (4 + 8 + 12, before), "{settings}");
        is_quiet(&rig);
    }
}

#[test]
fn what_a_graph_draws_from_serves_the_next_one_and_no_pool() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let (_sum, at) = zero(&rig);
    let mallocs = rig.sim.call_count("malloc");
    for _ in 0..5 {
        let graph = drawing(&rig, &on, CaptureOptions::default(), at);
        assert!(rig.cuda.snapshot_of(graph.pool(), false).segments.is_empty());
        replay_on(&graph, &on).unwrap();
        on.synchronize().unwrap();
    }
    assert_eq!(rig.sim.call_count("malloc") - mallocs, 1);
    is_quiet(&rig);
}

#[test]
fn a_pool_of_a_graph_that_draws_is_restored() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let (_sum, at) = zero(&rig);
    let first = writing(&rig, &on, CaptureOptions::default());
    let checkpoint = rig.cuda.checkpoint_pool(0, first.pool()).unwrap();
    let second = drawing(&rig, &on, CaptureOptions::in_pool(first.pool()), at);
    rig.cuda.restore_pool(0, &checkpoint, &mut Vec::new()).unwrap();
    replay_on(&second, &on).unwrap();
    on.synchronize().unwrap();
    rig.cuda.check_invariants();
    is_quiet(&rig);
}

#[test]
fn what_no_event_is_behind_is_waited_for_before_the_next_replay() {
    for (call, nth, is_launched) in
        [("event_record", 1, true), ("event_record", 2, true), ("graph_launch", 1, false), ("copy", 1, false)]
    {
        let rig = Rig::new(GIB);
        let (a, b) = (stream(&rig), stream(&rig));
        let (_sum, at) = zero(&rig);
        let graph = drawing(&rig, &a, CaptureOptions::default(), at);
        rig.sim.set_faults(FaultRule::nth(call, nth, Status::Other(999)).into());
        let first = replay_on(&graph, &a);
        rig.sim.set_faults(FaultPlan::new());
        let what = format!("{call} #{nth}: {first:?}");
        let was_launched = graph.replays() == 1;
        assert!(was_launched || !is_launched || first.is_err(), "{what}");
        let offset = rig.runtime.default_generator(0).unwrap().offset().unwrap();
        assert_eq!(offset, 4 * graph.replays(), "drawn is what was launched: {what}");
        if first.is_err() && was_launched {
            let capture = CudaGraph::begin(&rig.cuda, stream(&rig), kept()).unwrap();
            assert_eq!(replay_on(&graph, &b).unwrap_err().kind(), ErrorKind::Capture, "{what}");
            assert!(capture.is_sound().unwrap(), "{what}");
            drop(capture);
        }
        replay_on(&graph, &b).unwrap();
        replay_on(&graph, &b).unwrap();
        b.synchronize().unwrap();
        let sum = (0..graph.replays()).map(|replay| 4 * replay).sum::<u64>();
        assert_eq!(number(&rig, at), sum, "no number twice, and none lost: {what}");
        is_quiet(&rig);
    }
}

/// Long enough for a thread that is not held off.
const WHILE: Duration = Duration::from_millis(50);

#[test]
fn no_capture_begins_while_the_device_is_waited_for() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let graph = writing(&rig, &on, CaptureOptions::default());
    rig.sim.set_faults(FaultRule::nth("event_record", 1, Status::Other(999)).into());
    replay_on(&graph, &on).unwrap_err();
    rig.sim.set_faults(FaultPlan::new());
    let ((waits, is_waiting), (begun, has_begun)) = (mpsc::channel(), mpsc::channel());
    launch(&*rig.sim, on.handle(), "slow", &[], &[], move |_| {
        waits.send(()).unwrap();
        assert!(has_begun.recv_timeout(WHILE).is_err(), "a capture begins");
    })
    .unwrap();
    std::thread::scope(|scope| {
        let cuda = &rig.cuda;
        scope.spawn(move || {
            is_waiting.recv().unwrap();
            cuda.mark_capture_begin(0).unwrap();
            begun.send(()).unwrap_or_default();
        });
        replay_on(&graph, &on).unwrap();
    });
    rig.cuda.mark_capture_end(0).unwrap();
    on.synchronize().unwrap();
    is_quiet(&rig);
}

/// A capture that is refused has begun in the driver, and ends there, also where the driver fails to end it at once.
#[test]
fn a_refused_capture_leaves_nothing_capturing() {
    for (call, times) in [("stream_end_capture", 0), ("stream_end_capture", 1), ("capture_state", 1)] {
        let rig = Rig::new(GIB);
        let on = stream(&rig);
        let pool = MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap();
        let scope = pool.enter().unwrap();
        let rules = (1..=times).map(|nth| FaultRule::nth(call, nth, Status::OutOfMemory));
        rig.sim.set_faults(rules.fold(FaultPlan::new(), FaultPlan::rule));
        let refused = CudaGraph::begin(&rig.cuda, &on, CaptureOptions::in_pool(pool.id()));
        assert!(refused.is_err(), "{call}: allocations go to the pool already");
        rig.sim.set_faults(FaultPlan::new());
        assert_eq!(rig.sim.capture_state(on.handle()), Ok(CaptureState::None), "{call} fails {times} times");
        drop(scope);
        drop(pool);
        rig.cuda.empty_cache().unwrap();
        drop(CudaGraph::begin(&rig.cuda, &on, kept()).unwrap());
    }
}

#[test]
fn the_per_thread_default_stream_is_refused() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let graph = writing(&rig, &on, CaptureOptions::default());
    let per_thread = CudaStream::per_thread(&rig.runtime, 0).unwrap();
    let kinds =
        [replay_on(&graph, &per_thread), graph.upload(&per_thread)].map(|told| told.unwrap_err().kind());
    assert_eq!(kinds, [ErrorKind::InvalidArgument; 2]);
    assert_eq!((graph.replays(), rig.sim.pending()), (0, 0));
}

#[test]
fn a_generator_of_another_runtime_is_refused() {
    let (rig, other) = (Rig::new(GIB), Rig::new(GIB));
    let generators = vec![CudaGenerator::new(&other.runtime, 0).unwrap()];
    let options = CaptureOptions { generators, ..CaptureOptions::default() };
    let on = stream(&rig);
    let refused = CudaGraph::begin(&rig.cuda, &on, options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(on.capture_state().unwrap(), CaptureState::None);
}

#[test]
fn a_pool_that_never_had_memory_ends_with_its_graph() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let graph = CudaGraph::begin(&rig.cuda, &on, CaptureOptions::default()).unwrap().end().unwrap();
    let pool = graph.pool();
    assert_eq!(rig.cuda.pool_use_count(0, pool).unwrap(), 1);
    drop(graph);
    assert_eq!(
        rig.cuda.pool_use_count(0, pool).unwrap_err().kind(),
        ErrorKind::InvalidArgument,
        "it is gone"
    );
    drop(CudaGraph::begin(&rig.cuda, &on, CaptureOptions::in_pool(pool)).unwrap());
    let graph = writing(&rig, &on, CaptureOptions::in_pool(pool));
    drop(graph);
    assert_eq!(rig.cuda.pool_use_count(0, pool).unwrap(), 0, "it has memory");
    rig.cuda.check_invariants();
}

#[test]
fn events_of_launches_that_are_done_are_used_again() {
    let rig = Rig::with_config(SimConfig::with_bytes(GIB).completion(Completion::Eager), Config::default());
    let on = stream(&rig);
    let graph = writing(&rig, &on, CaptureOptions::default());
    let created = rig.sim.call_count("event_create");
    for _ in 0..50 {
        let handle = rig.sim.stream_create(0, 0).unwrap();
        // SAFETY: it lives until it is given back.
        let theirs = unsafe { CudaStream::adopt(&rig.runtime, handle) }.unwrap();
        replay_on(&graph, &theirs).unwrap();
        theirs.synchronize().unwrap();
        rig.runtime.disown_stream(&theirs).unwrap();
        rig.sim.stream_destroy(handle).unwrap();
    }
    assert_eq!(graph.replays(), 50);
    let created = rig.sim.call_count("event_create") - created;
    assert!(created <= 2, "{created} events");
}

#[test]
fn a_stream_of_somebody_else_is_waited_for_by_its_event() {
    let rig = Rig::new(GIB);
    let graph = writing(&rig, &stream(&rig), CaptureOptions::default());
    let handle = rig.sim.stream_create(0, 0).unwrap();
    // SAFETY: it lives until the end of the test.
    let theirs = unsafe { CudaStream::adopt(&rig.runtime, handle) }.unwrap();
    let own = stream(&rig);
    let waits = |on: &CudaStream| {
        let before = rig.sim.call_count("stream_wait_event");
        replay_on(&graph, on).unwrap();
        rig.sim.call_count("stream_wait_event") - before
    };
    // The next stream of the same handle may be another.
    assert_eq!([waits(&theirs), waits(&theirs)], [0, 1]);
    rig.runtime.synchronize(0).unwrap();
    assert_eq!([waits(&own), waits(&own)], [0, 0], "what is ordered already is not waited for");
    rig.runtime.synchronize(0).unwrap();
    rig.sim.stream_destroy(handle).unwrap();
}

#[test]
fn an_update_gives_the_memory_before_it_back() {
    let rig =
        Rig::with_config(SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) }, Config::default());
    let on = stream(&rig);
    for keep_graph in [false, true] {
        let options = CaptureOptions { keep_graph, ..CaptureOptions::default() };
        let mut graph = writing(&rig, &on, options);
        if keep_graph {
            graph.instantiate().unwrap();
        }
        let own = graph.pool();
        for _ in 0..20 {
            replay_on(&graph, &on).unwrap();
            let other = writing(&rig, &on, kept());
            graph.update(&other).unwrap();
            assert_eq!(graph.pool(), other.pool());
            drop(other);
            rig.cuda.empty_cache().unwrap();
        }
        replay_on(&graph, &on).unwrap();
        assert_eq!(
            rig.reserved(),
            if keep_graph { 4 } else { 2 } * MIB,
            "what it did first, if kept, and what it does"
        );
        if keep_graph {
            graph.instantiate().unwrap();
            assert_eq!(graph.pool(), own);
            replay_on(&graph, &on).unwrap();
            rig.cuda.empty_cache().unwrap();
            assert_eq!(rig.reserved(), 2 * MIB);
        }
        on.synchronize().unwrap();
        drop(graph);
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.reserved(), 0);
        is_quiet(&rig);
    }
}

#[test]
fn an_instantiation_after_an_update_draws_from_its_own_again() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let ((_x, x), (_y, y)) = (zero(&rig), zero(&rig));
    let mut graph = drawing(&rig, &on, kept(), x);
    graph.instantiate().unwrap();
    let other = drawing(&rig, &on, kept(), y);
    replay_on(&graph, &on).unwrap();
    graph.update(&other).unwrap();
    drop(other);
    replay_on(&graph, &on).unwrap();
    graph.instantiate().unwrap();
    replay_on(&graph, &on).unwrap();
    on.synchronize().unwrap();
    assert_eq!((number(&rig, x), number(&rig, y)), (8, 4));
    drop(graph);
    rig.cuda.empty_cache().unwrap();
    is_quiet(&rig);
}

#[test]
fn threads_replay_one_graph_on_streams_of_their_own() {
    let rig = Rig::new(GIB);
    let (_sum, at) = zero(&rig);
    let graph = drawing(&rig, &stream(&rig), CaptureOptions::default(), at);
    let (told, tell) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (rig, graph, told) = (&rig, &graph, told.clone());
            scope.spawn(move || {
                let on = stream(rig);
                (0..8).for_each(|_| replay_on(graph, &on).unwrap());
                told.send(()).unwrap();
            });
        }
    });
    assert_eq!(tell.try_iter().count(), 4);
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at), (0..32).map(|replay| 4 * replay).sum::<u64>());
    is_quiet(&rig);
}
