//! What goes wrong, with the capture and with the graph, and that nothing is lost by it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use c10_cuda::alloc::MempoolId;
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{CaptureState, DevicePtr, Driver, Status};
use c10_cuda::{CaptureOptions, Config, CudaGraph, CudaStream, Error, ErrorKind, Result};

use super::{at, counting, kept, number, replay, replay_on, stream, zero};
use crate::rig::{GIB, MIB, Rig};
use crate::support::fill;

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
