//! `CudaGraph`: capture, replay, pools, and what goes wrong.
#![expect(unsafe_code, reason = "replays graphs whose memory is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use c10_core::{DataPtr, EventFlags};
use c10_cuda::alloc::{MemPool, MemPoolOptions, MempoolId};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{CaptureMode, CaptureState, DevicePtr, Driver, Status, StreamHandle};
use c10_cuda::{
    AsStream, CachingAllocator, CaptureOptions, Config, CudaEvent, CudaGraph, CudaStream, Error, ErrorKind,
    Result,
};

use crate::rig::{GIB, MIB, Rig, address};
use crate::support::{fill, launch, range};

fn kept() -> CaptureOptions {
    CaptureOptions { keep_graph: true, ..CaptureOptions::default() }
}

fn at(ptr: &DataPtr) -> DevicePtr {
    DevicePtr(address(ptr))
}

fn stream(rig: &Rig) -> CudaStream {
    CudaStream::from_pool(&rig.runtime, 0, 0).unwrap()
}

/// Issues a kernel that writes `from + by` into `to`: numbers of 8 bytes.
fn add(rig: &Rig, on: StreamHandle, to: DevicePtr, from: DevicePtr, by: u64) {
    let (reads, writes) = ([range(from, 8)], [range(to, 8)]);
    launch(&*rig.sim, on, "add", &reads, &writes, move |memory| {
        let mut bytes = [0; 8];
        memory.read(0, 0, &mut bytes);
        memory.write(0, 0, &(u64::from_le_bytes(bytes) + by).to_le_bytes());
    })
    .unwrap();
}

/// Zeroes a number, and waits.
fn zero(rig: &Rig, ptr: DevicePtr) {
    let on = StreamHandle::default_of(0);
    fill(&*rig.sim, ptr, 0, 8, on).unwrap();
    rig.sim.stream_synchronize(on).unwrap();
}

fn number(rig: &Rig, ptr: DevicePtr) -> u64 {
    let mut bytes = [0; 8];
    rig.sim.peek(ptr, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[track_caller]
fn replay(graph: &CudaGraph) -> Result<()> {
    // SAFETY: the tests keep what graphs use.
    unsafe { graph.replay() }
}

#[track_caller]
fn replay_on(graph: &CudaGraph, stream: impl AsStream) -> Result<()> {
    // SAFETY: as above.
    unsafe { graph.replay_on(stream) }
}

/// A graph that adds 1 to `counter`, by way of a temporary block of its pool.
fn counting(rig: &Rig, on: &CudaStream, options: CaptureOptions, counter: DevicePtr) -> CudaGraph {
    let captured = CudaGraph::capture(&rig.cuda, on, options, |_| {
        let temporary = rig.cuda.allocate(3 * MIB)?;
        add(rig, on.handle(), at(&temporary), counter, 1);
        add(rig, on.handle(), counter, at(&temporary), 0);
        Ok::<_, Error>(())
    });
    captured.unwrap().0
}

#[test]
fn a_graph_is_replayed_on_the_current_stream() {
    let rig = Rig::new(GIB);
    let (on, other) = (stream(&rig), stream(&rig));
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    assert_eq!((graph.node_count(), graph.is_empty(), graph.replays(), graph.device()), (2, false, 0, 0));
    assert!(graph.handle().is_none() && graph.exec_handle().is_some(), "what was recorded is not kept");
    rig.sim.complete_all();
    assert_eq!(number(&rig, at(&counter)), 0, "a capture runs nothing");
    for _ in 0..3 {
        other.with(|| replay(&graph)).unwrap().unwrap();
    }
    assert!(!other.query().unwrap() && on.query().unwrap());
    other.synchronize().unwrap();
    assert_eq!((number(&rig, at(&counter)), graph.replays()), (3, 3));
    graph.upload(&on).unwrap();
}

#[test]
fn replays_on_different_streams_come_one_after_the_other() {
    let rig = Rig::new(GIB);
    let (a, b) = (stream(&rig), stream(&rig));
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let graph = counting(&rig, &a, CaptureOptions::default(), at(&counter));
    for on in [&a, &b, &a, &b, &b] {
        replay_on(&graph, on).unwrap();
    }
    b.synchronize().unwrap();
    assert_eq!(number(&rig, at(&counter)), 5);
    assert!(rig.sim.races().is_empty());
}

/// What a graph uses is nobody else's, however short memory is.
#[test]
fn a_replay_after_memory_pressure_finds_its_memory() {
    for settings in
        ["", "expandable_segments:True", "max_split_size_mb:20", "garbage_collection_threshold:0.5"]
    {
        let rig = Rig::with(128 * MIB, settings);
        rig.cuda.set_memory_fraction(0.95, 0).unwrap();
        let on = stream(&rig);
        let counter = rig.allocate(8);
        zero(&rig, at(&counter));
        let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
        replay(&graph).unwrap();
        let mut held = Vec::new();
        while let Ok(block) = rig.cuda.allocate(10 * MIB) {
            fill(&*rig.sim, at(&block), 0xff, 10 * MIB, StreamHandle::default_of(0)).unwrap();
            held.push(block);
        }
        assert!(rig.stats().num_ooms > 0 && !held.is_empty());
        replay(&graph).unwrap();
        held.clear();
        rig.cuda.empty_cache().unwrap();
        let again: Vec<_> = (0..4).map(|_| rig.allocate(20 * MIB)).collect();
        again.iter().for_each(|block| fill(&*rig.sim, at(block), 0xee, 100, on.handle()).unwrap());
        replay(&graph).unwrap();
        rig.runtime.synchronize(0).unwrap();
        assert_eq!(number(&rig, at(&counter)), 3, "{settings}");
        assert!(rig.sim.take_faults().is_empty() && rig.sim.races().is_empty());
        rig.cuda.check_invariants();
    }
}

/// The driver's free waits for nothing here, so that memory which goes too early is a fault.
#[test]
fn memory_goes_when_the_graph_and_its_launches_are_gone() {
    for settings in ["", "expandable_segments:True"] {
        let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) };
        let rig = Rig::with_config(machine, Config::parse(settings).unwrap());
        let (on, other) = (stream(&rig), stream(&rig));
        let counter = rig.allocate(8);
        zero(&rig, at(&counter));
        let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
        let before = rig.reserved();
        for on in [&on, &other] {
            replay_on(&graph, on).unwrap();
        }
        drop(graph);
        assert_eq!(rig.reserved(), before, "nothing has gone");
        assert!(!other.query().unwrap(), "and nobody has waited");
        rig.cuda.empty_cache().unwrap();
        assert!(on.query().unwrap() && other.query().unwrap());
        assert_eq!(number(&rig, at(&counter)), 2);
        assert!(rig.reserved() < before);
        assert!(rig.sim.take_faults().is_empty());
        rig.cuda.check_invariants();
        drop(counter);
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.driver_used(), 0);
    }
}

#[test]
fn an_allocator_that_ends_waits_for_launches() {
    let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) };
    let Rig { sim, runtime, cuda, watch } = Rig::with_config(machine, Config::default());
    let rig = Rig { sim, runtime, cuda, watch };
    let on = stream(&rig);
    let counter = rig.sim.malloc(0, 512).unwrap();
    zero(&rig, counter);
    let graph = counting(&rig, &on, CaptureOptions::default(), counter);
    replay(&graph).unwrap();
    let Rig { sim, runtime, cuda, watch: _watch } = rig;
    drop((graph, cuda, on, runtime));
    assert!(sim.take_faults().is_empty());
    let mut bytes = [0; 8];
    sim.peek(counter, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 1);
    let info = sim.memory_info(0).unwrap();
    assert_eq!(info.total - info.free, 2 * MIB, "of the counter");
}

#[test]
fn outputs_outlive_their_graph() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let (graph, output) = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        let output = rig.cuda.allocate(3 * MIB)?;
        fill(&*rig.sim, at(&output), 7, 3 * MIB, on.handle()).unwrap();
        Ok::<_, Error>(output)
    })
    .unwrap();
    replay(&graph).unwrap();
    drop(graph);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 20 * MIB);
    assert_eq!(crate::support::read(&*rig.sim, at(&output), 4, on.handle()), [7; 4]);
    drop(output);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 0);
}

#[test]
fn graphs_share_a_pool() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let first = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    let alone = rig.reserved();
    let share = || CaptureOptions::in_pool(first.pool());
    let second = counting(&rig, &on, share(), at(&counter));
    let third = counting(&rig, &on, share(), at(&counter));
    assert_eq!(rig.reserved(), alone, "what one has freed the next uses");
    assert_eq!((second.pool(), rig.cuda.pool_use_count(0, first.pool()).unwrap()), (first.pool(), 3));
    for _ in 0..2 {
        [&first, &second, &third].into_iter().for_each(|graph| replay(graph).unwrap());
    }
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at(&counter)), 6);
    let pool = first.pool();
    drop((first, third));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.cuda.pool_use_count(0, pool).unwrap(), 1);
    replay(&second).unwrap();
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at(&counter)), 7);
    drop(second);
    rig.cuda.empty_cache().unwrap();
    assert!(rig.cuda.pool_use_count(0, pool).is_err(), "the pool is gone");
    let gone = CudaGraph::begin(&rig.cuda, &on, CaptureOptions::in_pool(pool)).unwrap().end();
    assert_eq!(gone.unwrap().pool(), pool, "its name can be used again");
}

#[test]
fn what_was_recorded_can_be_kept_and_made_launchable_by_hand() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let mut graph = counting(&rig, &on, kept(), at(&counter));
    assert!(graph.handle().is_some() && graph.exec_handle().is_none());
    let early = replay(&graph).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(early, @"replay: the graph was kept, and is to be instantiated by `instantiate` before it is replayed");
    for _ in 0..2 {
        graph.instantiate().unwrap();
        replay(&graph).unwrap();
    }
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at(&counter)), 2);
    let mut other = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    assert_eq!(other.instantiate().unwrap_err().kind(), ErrorKind::InvalidArgument, "it was not kept");
    graph.reset().unwrap();
    graph.reset().unwrap();
    let late = replay(&graph).unwrap_err();
    insta::assert_snapshot!(late, @"Called CUDAGraph::replay without a preceding successful capture: the graph was reset.");
    assert!(graph.is_empty() && graph.handle().is_none() && graph.exec_handle().is_none());
    assert!(graph.instantiate().is_err());
}

#[test]
fn a_graph_is_updated_to_do_what_another_does() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let (a, b) = (rig.allocate(8), rig.allocate(8));
    zero(&rig, at(&a));
    zero(&rig, at(&b));
    let mut graph = counting(&rig, &on, CaptureOptions::default(), at(&a));
    let other = counting(&rig, &on, kept(), at(&b));
    replay(&graph).unwrap();
    graph.update(&other).unwrap();
    drop(other);
    rig.cuda.empty_cache().unwrap();
    for _ in 0..2 {
        replay(&graph).unwrap();
    }
    rig.runtime.synchronize(0).unwrap();
    assert_eq!((number(&rig, at(&a)), number(&rig, at(&b))), (1, 2));
    assert!(rig.sim.take_faults().is_empty(), "the other's memory has stayed");

    let (shapeless, ()) = CudaGraph::capture(&rig.cuda, &on, kept(), |_| {
        fill(&*rig.sim, at(&a), 1, 8, on.handle()).map_err(Error::from)
    })
    .unwrap();
    let error = graph.update(&shapeless).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.driver().unwrap().status, Status::GraphUpdateFailure);
    let pools = rig.cuda.pool_use_count(0, shapeless.pool()).unwrap();
    assert_eq!(pools, 1, "its pool is its own again");
    replay(&graph).unwrap();
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at(&b)), 3, "it does what it did");
    let unkept = counting(&rig, &on, CaptureOptions::default(), at(&a));
    assert_eq!(graph.update(&unkept).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let elsewhere = Rig::new(GIB);
    let foreign = CudaGraph::begin(&elsewhere.cuda, stream(&elsewhere), kept()).unwrap().end().unwrap();
    assert_eq!(graph.update(&foreign).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((graph, shapeless, unkept));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 2 * MIB, "of the counters");
}

/// Nothing captures, nothing is routed, no pool is left, and what was current is again.
#[track_caller]
fn is_as_before(rig: &Rig, on: &CudaStream) {
    assert_eq!(on.capture_state().unwrap(), CaptureState::None);
    assert!(rig.runtime.current_stream(0).unwrap().is_default());
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 0);
    drop(rig.cuda.allocate_on(100, on).unwrap());
    assert!(rig.cuda.snapshot(false).segments.iter().all(|segment| segment.pool == MempoolId::DEFAULT));
    rig.cuda.empty_cache().unwrap();
    rig.cuda.check_invariants();
}

#[test]
fn work_that_fails_or_panics_ends_the_capture() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let failed = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |capture| {
        assert!(capture.is_sound()?);
        drop(rig.cuda.allocate(100)?);
        rig.cuda.allocate(1 << 60).map(drop)
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::OutOfMemory);
    is_as_before(&rig, &on);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| -> Result<()> {
            let _held = rig.allocate(3 * MIB);
            panic!("a user's closure")
        })
    }));
    assert!(panicked.is_err());
    is_as_before(&rig, &on);
    assert_eq!(rig.runtime.take_drop_error(), None);
}

#[test]
fn a_refused_call_is_told_as_such_and_spoils_no_more_than_its_capture() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let forbidden: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("device", &|| rig.runtime.synchronize(0)),
        ("stream", &|| on.synchronize()),
        ("query", &|| on.query().map(drop)),
        ("outside", &|| on.wait_stream(stream(&rig))),
    ];
    for (name, call) in forbidden {
        let mut refused = None;
        let ended = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
            drop(rig.cuda.allocate(100)?);
            refused = call().err();
            Ok::<_, Error>(())
        });
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Capture), "{name}");
        let ended = ended.unwrap_err();
        assert_eq!(
            (ended.kind(), ended.driver().unwrap().call),
            (ErrorKind::Capture, "stream_end_capture"),
            "{name}"
        );
        is_as_before(&rig, &on);
    }
    // An event of the graph cannot be waited for, which spoils nothing.
    let waited = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        Ok::<_, Error>(on.record_event()?.synchronize().unwrap_err())
    });
    assert_eq!(waited.unwrap().1.driver().unwrap().status, Status::CapturedEvent);
    is_as_before(&rig, &on);
    // Whoever gives the error on gets it from the closure.
    let ended = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| rig.runtime.synchronize(0));
    assert_eq!(ended.unwrap_err().driver().unwrap().call, "device_synchronize");
    is_as_before(&rig, &on);
}

#[test]
fn a_graph_is_not_replayed_where_it_cannot_be() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::default());
    let (on, other) = (stream(&rig), stream(&rig));
    let elsewhere = CudaStream::from_pool(&rig.runtime, 1, 0).unwrap();
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    let error = replay_on(&graph, &elsewhere).unwrap_err();
    insta::assert_snapshot!(error, @"a graph of device 0 cannot be replayed on a stream of device 1");
    let (empty, ()) = CudaGraph::capture(&rig.cuda, &other, CaptureOptions::default(), |capture| {
        let error = replay(&graph).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Capture);
        assert!(capture.is_sound()?, "which spoils nothing");
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!(empty.is_empty());
    replay(&empty).unwrap();
    assert_eq!(graph.replays(), 0);
    for bad in [CudaStream::default_of(&rig.runtime, 0), CudaStream::per_thread(&rig.runtime, 0)] {
        let refused = CudaGraph::begin(&rig.cuda, bad.unwrap(), CaptureOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_capture_brings_in_streams_and_their_memory() {
    let rig = Rig::new(GIB);
    let (on, side) = (stream(&rig), stream(&rig));
    let (graph, blocks) = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        let first = rig.cuda.allocate(1000)?;
        side.wait_stream(&on)?;
        let second = rig.cuda.allocate_on(1000, &side)?;
        fill(&*rig.sim, at(&second), 3, 1000, side.handle()).map_err(Error::from)?;
        fill(&*rig.sim, at(&first), 2, 1000, on.handle()).map_err(Error::from)?;
        on.wait_stream(&side)?;
        Ok::<_, Error>([first, second])
    })
    .unwrap();
    let segments = rig.cuda.snapshot_of(graph.pool(), false).segments;
    assert_eq!(segments.len(), 2, "one for each stream");
    replay(&graph).unwrap();
    rig.runtime.synchronize(0).unwrap();
    let read = |block: &DataPtr| crate::support::read(&*rig.sim, at(block), 2, on.handle());
    assert_eq!((read(&blocks[0]), read(&blocks[1])), (vec![2; 2], vec![3; 2]));
}

#[test]
fn an_external_event_is_recorded_by_each_replay() {
    let rig = Rig::new(GIB);
    let (on, waiting) = (stream(&rig), stream(&rig));
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let event = CudaEvent::external(&rig.runtime, EventFlags::default()).unwrap();
    event.record(&on).unwrap();
    event.synchronize().unwrap();
    let (graph, ()) = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        add(&rig, on.handle(), at(&counter), at(&counter), 1);
        event.record(&on)
    })
    .unwrap();
    assert!(event.query().unwrap(), "the capture did not record it");
    replay_on(&graph, &on).unwrap();
    assert!(!event.query().unwrap());
    waiting.wait_event(&event).unwrap();
    waiting.synchronize().unwrap();
    assert_eq!(number(&rig, at(&counter)), 1);
}

#[test]
fn a_graph_keeps_the_pools_that_its_capture_has_entered() {
    let rig = Rig::new(GIB);
    let on = stream(&rig);
    let pool =
        MemPool::new(&rig.cuda, 0, MemPoolOptions { use_on_oom: true, ..MemPoolOptions::default() }).unwrap();
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let (graph, ()) = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        for _ in 0..2 {
            let _use = pool.enter()?;
            let inside = rig.cuda.allocate(3 * MIB)?;
            add(&rig, on.handle(), at(&inside), at(&counter), 1);
            add(&rig, on.handle(), at(&counter), at(&inside), 0);
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(pool.use_count(), 2);
    // Its free blocks serve nobody, for the graph uses them.
    let id = pool.id();
    let all: Vec<_> = std::iter::from_fn(|| rig.cuda.allocate_on(20 * MIB, &on).ok()).collect();
    assert!(!all.is_empty());
    let segment = rig.cuda.snapshot_of(id, false).segments[0].address;
    assert!(!rig.cuda.release_segment(segment, 0).unwrap());
    drop((pool, all));
    rig.cuda.empty_cache().unwrap();
    replay(&graph).unwrap();
    rig.runtime.synchronize(0).unwrap();
    assert_eq!(number(&rig, at(&counter)), 2);
    assert_eq!(rig.cuda.pool_use_count(0, id).unwrap(), 1);
    drop(graph);
    rig.cuda.empty_cache().unwrap();
    assert!(rig.cuda.pool_use_count(0, id).is_err());
    // A capture that fails keeps none.
    let pool = MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap();
    let failed = CudaGraph::capture(&rig.cuda, &on, CaptureOptions::default(), |_| {
        let _use = pool.enter()?;
        rig.runtime.synchronize(0)
    });
    assert!(failed.is_err());
    assert_eq!(pool.use_count(), 1);
}

#[test]
fn threads_capture_and_replay_beside_each_other() {
    let machine = SimConfig::with_bytes(GIB).completion(Completion::Seeded(3));
    let rig = Rig::with_config(machine, Config::default());
    let counters: Vec<_> = (0..4).map(|_| rig.allocate(8)).collect();
    counters.iter().for_each(|counter| zero(&rig, at(counter)));
    std::thread::scope(|scope| {
        for counter in &counters {
            scope.spawn(|| {
                let on = stream(&rig);
                let mode = CaptureMode::ThreadLocal;
                for _ in 0..5 {
                    let options = CaptureOptions { mode, ..CaptureOptions::default() };
                    let graph = counting(&rig, &on, options, at(counter));
                    for _ in 0..3 {
                        replay_on(&graph, &on).unwrap();
                        drop(rig.cuda.allocate_on(MIB, &on).unwrap());
                    }
                }
                on.synchronize().unwrap();
            });
        }
    });
    for counter in &counters {
        assert_eq!(number(&rig, at(counter)), 15);
    }
    assert!(rig.sim.take_faults().is_empty());
    drop(counters);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
    rig.cuda.check_invariants();
}

#[test]
fn the_drivers_own_pools_have_graphs_too() {
    let rig = Rig::with(GIB, "backend:cudaMallocAsync");
    let on = stream(&rig);
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    for _ in 0..3 {
        replay_on(&graph, &on).unwrap();
    }
    on.synchronize().unwrap();
    assert_eq!(number(&rig, at(&counter)), 3);
    drop(graph);
    assert_eq!(rig.runtime.take_drop_error(), None);
}

/// All that a program does with a graph.
fn program(rig: &Rig, on: &CudaStream, counter: DevicePtr) -> Result<()> {
    let (mut graph, ()) = CudaGraph::capture(&rig.cuda, on, kept(), |_| {
        let temporary = rig.cuda.allocate(3 * MIB)?;
        fill(&*rig.sim, at(&temporary), 1, 8, on.handle())?;
        fill(&*rig.sim, counter, 1, 8, on.handle())?;
        Ok::<_, Error>(())
    })?;
    graph.instantiate()?;
    let default = CudaStream::default_of(&rig.runtime, 0)?;
    default.wait_stream(on)?;
    replay(&graph)?;
    replay_on(&graph, on)?;
    let (other, ()) = CudaGraph::capture(&rig.cuda, on, CaptureOptions::in_pool(graph.pool()), |_| {
        fill(&*rig.sim, counter, 2, 8, on.handle()).map_err(Error::from)
    })?;
    replay_on(&other, on)?;
    graph.update(&graph_like(rig, on, counter)?)?;
    replay_on(&graph, on)?;
    drop(graph);
    rig.cuda.empty_cache()
}

fn graph_like(rig: &Rig, on: &CudaStream, counter: DevicePtr) -> Result<CudaGraph> {
    let captured = CudaGraph::capture(&rig.cuda, on, kept(), |_| {
        let temporary = rig.cuda.allocate(3 * MIB)?;
        fill(&*rig.sim, at(&temporary), 4, 8, on.handle())?;
        fill(&*rig.sim, counter, 5, 8, on.handle())?;
        Ok::<_, Error>(())
    })?;
    Ok(captured.0)
}

#[test]
fn each_call_may_fail_once_and_nothing_is_lost() {
    let calls = [
        "stream_begin_capture",
        "stream_end_capture",
        "capture_state",
        "graph_node_count",
        "graph_instantiate",
        "graph_exec_update",
        "graph_launch",
        "graph_destroy",
        "graph_exec_destroy",
        "event_create",
        "event_record",
        "event_query",
        "event_synchronize",
        "stream_wait_event",
        "exchange_capture_mode",
        "malloc",
        "free",
        "fill",
    ];
    for call in calls {
        for nth in 1..=6 {
            let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) };
            let rig = Rig::with_config(machine, Config::default());
            let on = stream(&rig);
            let counter = rig.sim.malloc(0, 512).unwrap();
            rig.sim.set_faults(FaultRule::nth(call, nth, Status::Other(7)).into());
            let what = format!("{call} #{nth}");
            let told = program(&rig, &on, counter).err();
            rig.sim.set_faults(FaultPlan::new());
            if let Some(error) = &told {
                assert!(error.driver().is_some(), "{what}: {error:?}");
            }
            rig.runtime.take_drop_error();
            rig.cuda.check_invariants();
            // A refusal that comes out of nowhere may leave the driver's capture open.
            let _ = rig.sim.stream_end_capture(on.handle());
            rig.sim.complete_all();
            rig.cuda.empty_cache().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(rig.driver_used(), 2 * MIB, "{what}: of the counter");
            assert!(rig.sim.take_faults().is_empty(), "{what}");
            program(&rig, &on, counter).unwrap_or_else(|error| panic!("after {what}: {error}"));
        }
    }
}

#[test]
fn a_launch_that_nobody_can_know_of_is_waited_for_by_the_device() {
    let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) };
    let rig = Rig::with_config(machine, Config::default());
    let on = stream(&rig);
    let counter = rig.allocate(8);
    zero(&rig, at(&counter));
    let graph = counting(&rig, &on, CaptureOptions::default(), at(&counter));
    rig.sim.set_faults(FaultRule::nth("event_record", 1, Status::Other(7)).into());
    assert_eq!(replay_on(&graph, &on).unwrap_err().driver().unwrap().call, "event_record");
    drop(graph);
    rig.cuda.empty_cache().unwrap();
    assert!(on.query().unwrap());
    assert_eq!(number(&rig, at(&counter)), 1, "it was launched");
    assert!(rig.sim.take_faults().is_empty());
}

#[test]
fn errors_of_a_graphs_end_are_told_later() {
    for (call, is_kept) in [("graph_exec_destroy", false), ("graph_destroy", true)] {
        let rig = Rig::new(GIB);
        let on = stream(&rig);
        let options = CaptureOptions { keep_graph: is_kept, ..CaptureOptions::default() };
        let graph = CudaGraph::begin(&rig.cuda, &on, options).unwrap().end().unwrap();
        let pool = graph.pool();
        rig.sim.set_faults(FaultRule::nth(call, 1, Status::Other(7)).into());
        drop(graph);
        assert!(rig.cuda.pool_use_count(0, pool).is_err(), "its pool has gone all the same");
        assert_eq!(on.query().unwrap_err().driver().map(|driver| driver.call), Some(call));
        assert!(on.query().unwrap());
    }
}

#[test]
fn two_allocators_have_their_own_pools() {
    let rig = Rig::new(GIB);
    let other = CachingAllocator::with_runtime(rig.runtime.clone(), Config::default()).unwrap();
    let on = stream(&rig);
    let (graph, block) =
        CudaGraph::capture(&other, &on, CaptureOptions::default(), |_| other.allocate(1000)).unwrap();
    assert_eq!((rig.reserved(), other.memory_reserved(0).unwrap()), (0, 2 * MIB));
    drop((graph, block));
    other.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}
