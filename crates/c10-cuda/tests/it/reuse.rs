//! Reuse after a stream wait, and what it costs without. Case 31 of `allocator-cases.md`.

use c10_core::Stream;
use c10_cuda::driver::sim::{Completion, SimConfig};
use c10_cuda::driver::{DevicePtr, Driver};
use c10_cuda::{Config, ErrorKind};

use crate::rig::{MIB, Rig, address, place};
use crate::support::{launch, range};

const BLOCK: u64 = 10 * MIB;

/// A block for `main`, written there, read on `side` behind it.
fn use_once(rig: &Rig, main: Stream, side: Stream) -> c10_core::DataPtr {
    let block = rig.allocate(BLOCK);
    let at = [range(DevicePtr(address(&block)), BLOCK)];
    let driver: &dyn Driver = &*rig.sim;
    launch(driver, rig.handle(main), "write", &[], &at, |_| {}).unwrap();
    rig.cuda.wait_stream(side, main).unwrap();
    launch(driver, rig.handle(side), "read", &at, &[], |_| {}).unwrap();
    rig.cuda.record_stream(&block, side).unwrap();
    block
}

fn watched() -> Rig {
    Rig::with_config(SimConfig { race_detector: true, ..SimConfig::with_bytes(2 << 30) }, Config::default())
}

/// Case 31, the first half: where nobody says that a stream has waited, memory is held until a poll finds the event
/// complete.
#[test]
fn polling_alone_holds_a_block_a_round() {
    let rig = watched();
    let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
    for _ in 0..100 {
        drop(use_once(&rig, main, side));
    }
    assert_eq!(rig.reserved(), 100 * BLOCK);
}

/// The second half: after a wait the block serves again, with no event asked; two blocks where the wait comes before
/// the free.
#[test]
fn a_wait_frees_what_was_freed_before_it() {
    for wait_first in [false, true] {
        let rig = watched();
        let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
        for _ in 0..100 {
            let block = use_once(&rig, main, side);
            if wait_first {
                rig.cuda.wait_stream(main, side).unwrap();
                drop(block);
            } else {
                drop(block);
                rig.cuda.wait_stream(main, side).unwrap();
            }
            rig.cuda.check_invariants();
        }
        assert!(rig.reserved() <= 2 * BLOCK, "{} MiB", rig.reserved() / MIB);
        assert!(rig.sim.pending() > 0, "no stream was waited for on the host");
        rig.sim.complete_all();
        assert!(rig.sim.races().is_empty(), "{:?}", rig.sim.races());
    }
}

#[test]
fn only_what_was_freed_before_the_wait_counts() {
    let rig = watched();
    let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
    let block = use_once(&rig, main, side);
    rig.cuda.wait_stream(main, side).unwrap();
    // The other stream may go on to use it.
    let first = place(&block);
    drop(block);
    assert_ne!(place(&rig.allocate(BLOCK)), first);
    // A wait the other way says nothing.
    rig.cuda.wait_stream(side, main).unwrap();
    assert_ne!(place(&rig.allocate(BLOCK)), first);
    rig.cuda.wait_stream(main, side).unwrap();
    assert_eq!(place(&rig.allocate(BLOCK)), first);
}

#[test]
fn every_stream_that_uses_a_block_is_to_be_waited_for_by_its_own() {
    let rig = Rig::new(1 << 30);
    let (main, side, third) = (rig.runtime.current_stream(0).unwrap(), rig.stream(), rig.stream());
    let block = rig.allocate(BLOCK);
    rig.cuda.record_stream(&block, side).unwrap();
    rig.cuda.record_stream(&block, third).unwrap();
    let first = place(&block);
    drop(block);
    rig.cuda.stream_waited(main, side).unwrap();
    assert_ne!(place(&rig.allocate(BLOCK)), first, "the third stream may still use it");
    rig.cuda.stream_waited(third, side).unwrap();
    rig.cuda.stream_waited(side, third).unwrap();
    assert_ne!(place(&rig.allocate(BLOCK)), first, "its own stream has not waited");
    rig.cuda.stream_waited(main, third).unwrap();
    assert_eq!(place(&rig.allocate(BLOCK)), first);
}

#[test]
fn events_that_could_not_be_recorded_are_not_needed_after_a_wait() {
    use c10_cuda::driver::Status;
    use c10_cuda::driver::sim::{FaultPlan, FaultRule};
    let rig = Rig::new(1 << 30);
    let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
    let block = rig.allocate(BLOCK);
    let first = place(&block);
    rig.cuda.record_stream(&block, side).unwrap();
    rig.sim.set_faults(FaultRule::nth("event_record", 1, Status::Other(1)).into());
    drop(block);
    rig.sim.set_faults(FaultPlan::new());
    rig.cuda.wait_stream(main, side).unwrap();
    assert_eq!(place(&rig.allocate(BLOCK)), first);
}

#[test]
fn a_wait_that_fails_frees_nothing() {
    use c10_cuda::driver::Status;
    use c10_cuda::driver::sim::{FaultPlan, FaultRule};
    let rig = Rig::new(1 << 30);
    let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
    for call in ["event_create", "event_record", "stream_wait_event"] {
        let block = rig.allocate(BLOCK);
        let first = place(&block);
        rig.cuda.record_stream(&block, side).unwrap();
        drop(block);
        rig.sim.set_faults(FaultRule::nth(call, 1, Status::Other(1)).into());
        let waited = rig.cuda.wait_stream(main, side);
        rig.sim.set_faults(FaultPlan::new());
        if let Err(error) = waited {
            assert_eq!(error.kind(), ErrorKind::Driver);
            assert_ne!(place(&rig.allocate(BLOCK)), first, "{call}");
        }
        rig.sim.complete_all();
        rig.cuda.empty_cache().unwrap();
        rig.cuda.check_invariants();
    }
}

#[test]
fn work_of_seeded_schedules_is_ordered_by_waits() {
    for seed in 0..20 {
        let machine = SimConfig { race_detector: true, ..SimConfig::with_bytes(1 << 30) };
        let rig = Rig::with_config(machine.completion(Completion::Seeded(seed)), Config::default());
        let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
        for round in 0..30 {
            let block = use_once(&rig, main, side);
            drop(block);
            if round % 3 != 0 {
                rig.cuda.wait_stream(main, side).unwrap();
            }
        }
        rig.sim.complete_all();
        assert!(rig.sim.races().is_empty(), "seed {seed}: {:?}", rig.sim.races());
    }
}

/// In the order of the other stream, blocks of two streams lie between each other.
#[test]
fn a_wait_frees_the_blocks_of_the_stream_that_waits_alone() {
    let rig = watched();
    let (main, other, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream(), rig.stream());
    let blocks: Vec<_> = (0..8)
        .map(|nth| {
            let block = rig.cuda.allocate_on(BLOCK, [main, other][nth % 2]).unwrap();
            let at = [range(DevicePtr(address(&block)), BLOCK)];
            rig.cuda.wait_stream(side, [main, other][nth % 2]).unwrap();
            launch(&*rig.sim, rig.handle(side), "use", &[], &at, |_| {}).unwrap();
            rig.cuda.record_stream(&block, side).unwrap();
            block
        })
        .collect();
    let places: Vec<_> = blocks.iter().map(place).collect();
    drop(blocks);
    rig.cuda.wait_stream(main, side).unwrap();
    rig.cuda.check_invariants();
    let served = |stream| -> Vec<_> {
        let blocks: Vec<_> = (0..4).map(|_| rig.cuda.allocate_on(BLOCK, stream).unwrap()).collect();
        blocks.iter().map(place).collect()
    };
    assert!(served(main).into_iter().eq(places.iter().step_by(2).cloned()));
    assert!(served(other).iter().all(|there| !places.contains(there)), "those wait for events");
    rig.cuda.wait_stream(other, side).unwrap();
    assert!(places.iter().skip(1).step_by(2).all(|there| served(other).contains(there)));
}
