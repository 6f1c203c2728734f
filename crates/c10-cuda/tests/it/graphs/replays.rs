//! What a graph does, by whom and how often it is replayed.

use c10_core::{DataPtr, EventFlags};
use c10_cuda::driver::sim::{Completion, SimConfig};
use c10_cuda::driver::{CaptureMode, Status};
use c10_cuda::{CaptureOptions, Config, CudaEvent, CudaGraph, Error, ErrorKind};

use super::{add, at, counting, kept, number, replay, replay_on, stream, zero};
use crate::rig::{GIB, MIB, Rig};
use crate::support::fill;

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
