//! The memory of graphs: theirs while they are there, and gone with them.

use c10_cuda::alloc::{MemPool, MemPoolOptions};
use c10_cuda::driver::sim::SimConfig;
use c10_cuda::driver::{Driver, StreamHandle};
use c10_cuda::{CachingAllocator, CaptureOptions, Config, CudaGraph, Error};

use super::{add, at, counting, number, replay, replay_on, stream, zero};
use crate::rig::{GIB, MIB, Rig};
use crate::support::fill;

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
