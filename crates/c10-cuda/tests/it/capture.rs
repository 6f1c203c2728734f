//! Captures: what waits for their end, what the graph proves, and that nothing spoils them. Defects of PyTorch's own
//! (D1 to D7 of the allocator's cases) done right.

use std::sync::Arc;

use c10_cuda::alloc::{MemPool, MemPoolOptions, MempoolId};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{CaptureMode, CaptureState, Driver, EventFlags, Status, StreamHandle};
use c10_cuda::{Config, ErrorKind};

use crate::oracle_trace::{Player, play};
use crate::own_memory::OwnMemory;
use crate::rig::{MIB, Rig, address};
use crate::support::launch;

const REUSE: &str = "graph_capture_record_stream_reuse:True";

fn last(lines: &[String]) -> &str {
    lines.last().map_or("", String::as_str)
}

/// Every line but those that are expected to refuse.
#[track_caller]
fn nothing_is_refused(lines: &[String]) {
    assert!(!lines.iter().any(|line| line.starts_with("error")), "{lines:#?}");
}

#[test]
fn a_block_that_other_streams_use_waits_for_the_end_of_the_capture() {
    let mut player = Player::new(1, 64, "");
    let lines = player.run(
        "a 1 2000000 1; r 1 2; capture_begin 1 1.0; a 2 2000000 1; k 1; w 2 1; k 2; r 2 2; f 2; f 1; \
         a 3 2000000 1; w 1 2; k 1; a 4 2000000 1; e; capture_end 1",
    );
    nothing_is_refused(&lines);
    assert!(lines.contains(&"alloc 4 2000000 block 2000384 at seg1+4000768".to_owned()), "{lines:#?}");
    assert_eq!(last(&lines), "capture_end 1 nodes 3");
    let lines = player.run("c 0; a 5 2000000 0; snapshot");
    // What the graph used is free; what stream 2 used before waits for stream 2.
    assert!(lines.contains(&"block seg1+0 size 2000384 inactive".to_owned()), "{lines:#?}");
    let waits = "block seg0+0 size 2000384 requested 2000000 active_pending_free".to_owned();
    assert!(lines.contains(&waits), "{lines:#?}");
    let lines = player.run("s 2; a 6 1048577 0; snapshot");
    assert!(!lines.contains(&waits), "{lines:#?}");
}

#[test]
fn a_graph_proves_that_a_block_is_free_once_its_streams_have_joined() {
    let trace = "capture_begin 1 1.0; a 2 2000000 1; k 1; w 2 1; w 3 1; w 4 1; k 2; k 3; k 4; r 2 2; r 2 3; r 2 4; \
                 f 2; a 3 2000000 1; w 1 2; k 1; a 4 2000000 1; w 1 3; w 1 4; a 5 2000000 1; capture_end 1";
    let places = |lines: &[String]| -> Vec<String> {
        let allocs = lines.iter().filter_map(|line| line.strip_prefix("alloc "));
        allocs.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    let proved = play(64, REUSE, trace);
    nothing_is_refused(&proved);
    assert_eq!(
        places(&proved),
        ["seg0+0", "seg0+2000384", "seg0+4000768", "seg0+0"],
        "free after the last join"
    );
    let deferred = play(64, "", trace);
    assert_eq!(places(&deferred)[3], "seg0+6001152", "without the setting it waits for the end");
}

#[test]
fn a_stream_outside_the_capture_proves_nothing() {
    let trace = "capture_begin 1 1.0; a 2 2000000 1; k 1; r 2 2; f 2; k 1; a 3 2000000 1; capture_end 1; a 4 2000000 1";
    let lines = play(64, REUSE, trace);
    assert!(lines.contains(&"alloc 3 2000000 block 2000384 at seg0+2000384".to_owned()), "{lines:#?}");
}

/// D1: PyTorch records an event in the capture, cannot query it, and crashes.
#[test]
fn d1_a_use_by_a_capturing_stream_waits_for_its_capture() {
    let mut player = Player::new(1, 64, "");
    let lines = player.run(
        "a 1 6702 0; r 1 1; capture_begin 1 15 relaxed; c 0; f 1; a 9 6702 0; c 1; capture_end 1; a 2 1 0; a 3 1 0; \
         a 4 6702 0",
    );
    nothing_is_refused(&lines);
    let there = |id: u32| {
        lines.iter().any(|line| line.starts_with(&format!("alloc {id} ")) && line.ends_with("seg0+0"))
    };
    assert!(!there(9) && !there(2) && !there(4), "the block waits for the stream's work: {lines:#?}");
    assert_eq!(last(&player.run("s 1; a 5 6702 0")), "alloc 5 6702 block 7168 at seg0+0");
}

/// D2: PyTorch counts one mapping and two partial unmappings, and deletes the pool under a live block.
#[test]
fn d2_a_pool_lives_while_a_block_of_it_does() {
    let mut player = Player::new(1, 128, "expandable_segments:True");
    let lines = player.run(
        "pool_begin 1 all; a 1 41943040 0; f 1; a 2 20971520 0; a 3 100 0; pool_end 1; pool_release 1; e; f 2; e; \
         pool_count 1; pool_live 1 3; f 3; e; pool_count 1",
    );
    assert!(lines.contains(&"pool_count 1 0".to_owned()), "{lines:#?}");
    assert!(lines.contains(&"pool_live 1 3 yes".to_owned()), "{lines:#?}");
    assert!(last(&lines).starts_with("error pool_count 1"), "{lines:#?}");
    assert_eq!(player.stats().reserved_bytes.all.current, 0);
}

/// D3: in PyTorch an allocation elsewhere releases what the running capture still uses.
#[test]
fn d3_an_allocation_elsewhere_releases_nothing_of_a_running_capture() {
    let mut player = Player::new(1, 64, "");
    let lines = player.run(
        "capture_begin 1 5 thread_local; a 1 100 1; k 1; w 2 1; k 2; r 1 2; f 1; a 2 100 1; t 1 a 3 100 0; a 4 100 1",
    );
    nothing_is_refused(&lines);
    assert_eq!(last(&lines), "alloc 4 100 block 512 at seg0+1024");
    let lines = player.run("w 1 2; capture_end 1; c 0; a 5 100 0; snapshot 5");
    assert!(lines.contains(&"block seg0+0 size 512 inactive".to_owned()), "{lines:#?}");
}

/// D4: PyTorch frees in a capture, which spoils it.
#[test]
fn d4_nothing_that_a_capture_forbids_is_done_while_one_is_under_way() {
    let collected = play(
        64,
        "garbage_collection_threshold:0.5",
        "m 0.9; a 1 20971520 1; a 2 20971520 1; f 1; f 2; capture_begin 1 5; a 3 500 1; k 1; capture_end 1",
    );
    nothing_is_refused(&collected);
    let split = play(
        128,
        "max_split_size_mb:40",
        "capture_begin 1 1.0; a 1 52428800 1; f 1; a 3 94371840 1; k 1; capture_end 1",
    );
    nothing_is_refused(&split);
    assert!(split.iter().any(|line| line.starts_with("oom 3 ")), "{split:#?}");
    for lines in [&collected, &split] {
        assert!(!lines.iter().any(|line| line.starts_with("driver segment_free")), "{lines:#?}");
        assert!(last(lines).starts_with("capture_end 1 nodes"), "{lines:#?}");
    }
    // A pool's memory goes when the capture is over.
    let mut player = Player::new(1, 64, "");
    let lines =
        player.run("mempool 4; use 4; a 2 100 1; unuse 4; mempool_del 4; capture_begin 1 5; f 2; e; k 1");
    nothing_is_refused(&lines);
    assert!(!lines.iter().any(|line| line.starts_with("driver segment_free")), "{lines:#?}");
    let lines = player.run("capture_end 1");
    assert_eq!(lines, ["driver segment_free 2097152 seg0+0", "capture_end 1 nodes 1"]);
}

#[test]
fn other_threads_do_not_spoil_a_capture() {
    let mut player = Player::new(1, 64, "");
    let lines = player.run(
        "a 1 1000 0; r 1 3; f 1; capture_begin 1 5 global; k 1; t 1 a 2 20971520 0; t 1 e; t 1 c 0; t 1 f 2; t 1 e; \
         capture_end 1",
    );
    nothing_is_refused(&lines);
    assert_eq!(last(&lines), "capture_end 1 nodes 1");
}

/// D5: PyTorch asserts.
#[test]
fn d5_a_scope_may_end_inside_a_capture() {
    let lines = play(
        64,
        REUSE,
        "mempool 1; capture_begin 1 2.0; k 1; use 1; a 1 100 1; w 2 1; r 1 2; f 1; unuse 1; pool_count 1; w 1 2; \
         capture_end 1; c 0; a 9 100 0; snapshot 1",
    );
    nothing_is_refused(&lines);
    assert!(lines.contains(&"pool_count 1 1".to_owned()), "{lines:#?}");
    assert_eq!(last(&lines), "block seg0+0 size 2097152 inactive");
}

/// D7: PyTorch asserts, from a destructor too.
#[test]
fn d7_a_pool_may_end_inside_a_capture() {
    let mut player = Player::new(1, 64, "");
    nothing_is_refused(
        &player.run("mempool 3; use 3; a 1 100 0; f 1; unuse 3; capture_begin 2 4.0; mempool_del 3; k 2"),
    );
    assert_eq!(player.stats().reserved_bytes.all.current, 2 << 20);
    nothing_is_refused(&player.run("capture_end 2"));
    assert_eq!(player.stats().reserved_bytes.all.current, 0, "it was emptied at the capture's end");

    let rig = Rig::new(64 * MIB);
    let pool = MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap();
    drop(pool.with(|| rig.allocate(1000)).unwrap());
    let capture = rig.begin_capture(rig.stream(), MempoolId::new(9, 0), CaptureMode::Global).unwrap();
    drop(pool);
    assert_eq!(rig.reserved(), 2 * MIB);
    capture.end().unwrap();
    assert_eq!(rig.reserved(), 0);
}

#[test]
fn a_graph_keeps_its_pool() {
    let rig = Rig::new(64 * MIB);
    let stream = rig.stream();
    let id = rig.cuda.new_graph_pool_id();
    let capture = rig.begin_capture(stream, id, CaptureMode::ThreadLocal).unwrap();
    assert_eq!(rig.runtime.current_stream(0).unwrap(), stream);
    let block = rig.allocate(1000);
    launch(&*rig.sim, rig.handle(stream), "node", &[], &[], |_| {}).unwrap();
    let graph = capture.end().unwrap();
    assert_ne!(rig.runtime.current_stream(0).unwrap(), stream, "what was current is again");
    assert_eq!((graph.node_count(), graph.pool()), (1, id));
    assert_eq!(rig.cuda.pool_use_count(0, id).unwrap(), 1);
    let outside = rig.cuda.allocate_on(1000, stream).unwrap();
    assert_eq!(rig.reserved(), 4 * MIB, "the pool is the graph's");
    drop((graph, outside));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 2 * MIB, "blocks outlive their graph");
    drop(block);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 0);
}

#[test]
fn captures_that_fail_leave_nothing_behind() {
    let rig = Rig::new(64 * MIB);
    let (one, two) = (rig.stream(), rig.stream());
    let id = rig.cuda.new_graph_pool_id();
    let refused = |result: c10_cuda::Result<_>, kind| {
        let result: c10_cuda::Result<c10_cuda::GraphCapture<'_>> = result;
        assert_eq!(result.unwrap_err().kind(), kind);
        assert_eq!(rig.sim.capture_state(rig.handle(one)).unwrap(), CaptureState::None);
        rig.cuda.check_invariants();
    };
    let default = rig.runtime.current_stream(0).unwrap();
    refused(rig.begin_capture(default, id, CaptureMode::Global), ErrorKind::InvalidArgument);
    refused(rig.begin_capture(one, MempoolId::DEFAULT, CaptureMode::Global), ErrorKind::InvalidArgument);
    for call in ["stream_begin_capture", "capture_state"] {
        rig.sim.set_faults(FaultRule::nth(call, 1, Status::Other(999)).into());
        refused(rig.begin_capture(one, id, CaptureMode::Global), ErrorKind::Driver);
        rig.sim.set_faults(FaultPlan::new());
    }
    assert!(rig.cuda.pool_use_count(0, id).is_err(), "no pool was made");

    // Work that is not joined.
    let capture = rig.begin_capture(one, id, CaptureMode::Global).unwrap();
    let event = rig.sim.event_create(0, EventFlags::default()).unwrap();
    launch(&*rig.sim, rig.handle(one), "node", &[], &[], |_| {}).unwrap();
    rig.sim.event_record(event, rig.handle(one)).unwrap();
    rig.sim.stream_wait_event(rig.handle(two), event).unwrap();
    launch(&*rig.sim, rig.handle(two), "node", &[], &[], |_| {}).unwrap();
    let error = capture.end().unwrap_err();
    assert_eq!(error.driver().unwrap().status, Status::CaptureUnjoined);
    assert!(rig.cuda.pool_use_count(0, id).is_err(), "a pool without memory ends with its use");
    drop(rig.begin_capture(one, rig.cuda.new_graph_pool_id(), CaptureMode::Relaxed).unwrap());
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 0);
    assert_eq!(rig.cuda.mark_capture_end(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// What a program does in a capture with each call of the driver failing once: an error, or none, and all is whole
/// after it.
#[test]
fn every_driver_call_of_a_capture_may_fail() {
    let calls = [
        "stream_begin_capture",
        "stream_end_capture",
        "capture_state",
        "capture_info",
        "node_dependencies",
        "exchange_capture_mode",
        "malloc",
        "free",
        "event_record",
        "event_query",
        "event_create",
        "event_synchronize",
    ];
    for settings in ["", REUSE] {
        for call in calls {
            for nth in 1..=8 {
                let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(64 * MIB) };
                let rig = Rig::with_config(machine, Config::parse(settings).unwrap());
                let (one, two) = (rig.stream(), rig.stream());
                rig.sim.set_faults(FaultRule::nth(call, nth, Status::Other(7)).into());
                let _ = program(&rig, one, two);
                rig.sim.set_faults(FaultPlan::new());
                rig.cuda.check_invariants();
                // A refusal that comes out of nowhere may leave the driver's capture open.
                for stream in [one, two] {
                    let _ = rig.sim.stream_end_capture(rig.handle(stream));
                }
                rig.sim.complete_all();
                rig.cuda.empty_cache().unwrap();
                drop(rig.allocate(1000));
                rig.cuda.empty_cache().unwrap();
                assert_eq!(rig.driver_used(), 0, "call {nth} of {call} failed, {settings}");
                rig.cuda.check_invariants();
            }
        }
    }
}

fn program(rig: &Rig, one: c10_core::Stream, two: c10_core::Stream) -> c10_cuda::Result<()> {
    let cuda = &rig.cuda;
    let before = cuda.allocate_on(1000, one)?;
    cuda.record_stream(&before, two)?;
    let capture = rig.begin_capture(one, MempoolId::new(1, 0), CaptureMode::Global)?;
    let work = |stream: StreamHandle| launch(&*rig.sim, stream, "node", &[], &[], |_| {});
    let join = |waiting, waited| -> c10_cuda::Result<()> {
        let event = rig.sim.event_create(0, EventFlags::default())?;
        rig.sim.event_record(event, waited)?;
        rig.sim.stream_wait_event(waiting, event)?;
        Ok(rig.sim.event_destroy(event)?)
    };
    let block = cuda.allocate(1000)?;
    work(rig.handle(one))?;
    join(rig.handle(two), rig.handle(one))?;
    work(rig.handle(two))?;
    cuda.record_stream(&block, two)?;
    drop((block, before));
    join(rig.handle(one), rig.handle(two))?;
    let block = cuda.allocate(1000)?;
    let graph = capture.end()?;
    drop((block, graph));
    let after = cuda.allocate(1000)?;
    cuda.empty_cache()?;
    drop(after);
    Ok(())
}

#[test]
fn a_pools_own_allocator_serves_captures() {
    let rig = Rig::new(64 * MIB);
    let log = Arc::default();
    let own = Arc::new(OwnMemory::logged(rig.sim.clone(), Arc::clone(&log)));
    let options = MemPoolOptions { allocator: Some(own), ..MemPoolOptions::default() };
    let pool = MemPool::new(&rig.cuda, 0, options).unwrap();
    let stream = rig.stream();
    let capture = rig.begin_capture(stream, pool.id(), CaptureMode::Global).unwrap();
    assert_eq!(pool.use_count(), 2);
    let block = rig.allocate(3000);
    let graph = capture.end().unwrap();
    assert!(address(&block) != 0);
    drop((block, graph, pool));
    assert_eq!(*log.lock().unwrap(), ["own alloc 2097152", "own free"]);
    assert_eq!(rig.reserved(), 0);
}
