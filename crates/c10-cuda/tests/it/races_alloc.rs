//! The race detector above the caching allocator: it knows blocks.

use c10_core::DataPtr;
use c10_cuda::driver::sim::{RaceKind, SimConfig};
use c10_cuda::driver::{DevicePtr, Driver, StreamHandle};
use c10_cuda::{Config, CudaEvent};

use crate::races::only;
use crate::rig::{GIB, MIB, Rig, address};
use crate::support::{fill, free, launch, range};

const S0: StreamHandle = StreamHandle::default_of(0);

fn at(ptr: &DataPtr) -> DevicePtr {
    DevicePtr(address(ptr))
}

fn kinds(rig: &Rig) -> Vec<RaceKind> {
    rig.sim.take_races().into_iter().map(|race| race.kind).collect()
}

#[test]
fn a_missing_record_stream_is_found_and_one_that_is_there_is_quiet() {
    for recorded in [false, true] {
        let rig = Rig::new(GIB);
        let side = rig.stream();
        let block = rig.allocate(4096);
        let ready = CudaEvent::new(&rig.runtime, Default::default()).unwrap();
        ready.record(rig.runtime.current_stream(0).unwrap()).unwrap();
        ready.wait(side).unwrap();
        let reads = [range(at(&block), 4096)];
        launch(&*rig.sim, rig.handle(side), "prefetch", &reads, &[], |_| ()).unwrap();
        if recorded {
            rig.cuda.record_stream(&block, side).unwrap();
        }
        drop(block);
        let next = rig.allocate(4096);
        fill(&*rig.sim, at(&next), 0, 4096, S0).unwrap();
        if recorded {
            assert_eq!(kinds(&rig), []);
        } else {
            insta::assert_snapshot!(only(&rig.sim), @"
            race: 4096 bytes at 0x10000000000000 were handed out anew, and nothing orders the new use after the old one: record_stream was not called for its stream
               first: prefetch on device 0 stream 2 #2 reads 4096 bytes at 0x10000000000000 (call 135, crates/c10-cuda/tests/it/races_alloc.rs)
              second: fill on device 0 stream 0 #2 writes 4096 bytes at 0x10000000000000 (call 138, crates/c10-cuda/tests/it/races_alloc.rs)
            ");
        }
    }
}

#[test]
fn a_block_that_went_back_is_not_used() {
    let rig = Rig::new(GIB);
    let (block, next) = (rig.allocate(3 * MIB), rig.allocate(3 * MIB));
    let old = at(&block);
    drop(block);
    fill(&*rig.sim, old.offset(512), 0, 8, S0).unwrap();
    insta::assert_snapshot!(only(&rig.sim), @"
    use after free: of 8 bytes at 0x10000000000200
       first: take back by the host of 3145728 bytes at 0x10000000000000 (call 4)
      second: fill on device 0 stream 0 #1 writes 8 bytes at 0x10000000000200 (call 5, crates/c10-cuda/tests/it/races_alloc.rs)
    ");
    // Part of it is given out anew, and the rest is not.
    let small = rig.allocate(2 * MIB);
    assert_eq!(at(&small), old);
    fill(&*rig.sim, old, 0, 2 * MIB, S0).unwrap();
    assert_eq!(kinds(&rig), []);
    fill(&*rig.sim, old.offset(2 * MIB + 512), 0, 8, S0).unwrap();
    assert_eq!(kinds(&rig), [RaceKind::UseAfterFree]);
    drop((small, next));
    rig.cuda.empty_cache().unwrap();
    fill(&*rig.sim, old, 0, 8, S0).unwrap();
    assert_eq!(kinds(&rig), [RaceKind::UseAfterFree], "the driver has it");
}

#[test]
fn a_use_stays_in_its_block() {
    let rig = Rig::new(GIB);
    let (block, next) = (rig.allocate(1000), rig.allocate(1000));
    assert_eq!(at(&next), at(&block).offset(1024));
    fill(&*rig.sim, at(&block), 0, 1000, S0).unwrap();
    assert_eq!(kinds(&rig), []);
    fill(&*rig.sim, at(&block), 0, 1025, S0).unwrap();
    insta::assert_snapshot!(only(&rig.sim), @"
    out of bounds: a use leaves the block that it begins in
       first: hand out by the host of 1000 bytes at 0x10000000000000 (call 2)
      second: fill on device 0 stream 0 #2 writes 1025 bytes at 0x10000000000000 (call 5, crates/c10-cuda/tests/it/races_alloc.rs)
    ");
    // What the request was rounded up by is nobody's.
    fill(&*rig.sim, at(&block).offset(1000), 0, 8, S0).unwrap();
    assert_eq!(kinds(&rig), [RaceKind::OutOfBounds]);
    fill(&*rig.sim, at(&next).offset(MIB), 0, 8, S0).unwrap();
    assert_eq!(kinds(&rig), [RaceKind::OutOfBounds]);
}

#[test]
fn a_segment_that_is_freed_behind_the_allocators_back_is_found() {
    let rig = Rig::new(GIB);
    let block = rig.allocate(1000);
    free(&*rig.sim, at(&block)).unwrap();
    insta::assert_snapshot!(only(&rig.sim), @"
    freed while held: 1000 bytes at 0x10000000000000 are handed out
       first: hand out by the host of 1000 bytes at 0x10000000000000 (call 2)
      second: free by the host of 2097152 bytes at 0x10000000000000 (call 3, crates/c10-cuda/tests/it/races_alloc.rs)
    ");
    // The allocator finds out when it gives the segment back.
    drop(block);
    rig.cuda.empty_cache().unwrap_err();
}

#[test]
fn an_allocator_that_hands_bytes_out_twice_is_found() {
    let rig = Rig::new(GIB);
    let block = rig.allocate(1000);
    let witness = rig.sim.witness().unwrap();
    witness.handed_out(at(&block).offset(512), 512, S0);
    insta::assert_snapshot!(only(&rig.sim), @"
    handed out twice: 488 bytes at 0x10000000000200
       first: hand out by the host of 1000 bytes at 0x10000000000000 (call 2)
      second: hand out by the host of 512 bytes at 0x10000000000200 (call 3)
    ");
    witness.taken_back(at(&block).offset(512));
    witness.handed_out(DevicePtr(64), 512, S0);
    assert_eq!(rig.sim.take_races().len(), 1, "memory that the driver never gave");
}

#[test]
fn blocks_of_raw_calls_and_of_restored_snapshots_are_known() {
    let rig = Rig::new(GIB);
    let raw = rig.cuda.raw_alloc(5000).unwrap();
    fill(&*rig.sim, raw, 0, 5000, S0).unwrap();
    let snapshot = rig.cuda.snapshot(false);
    #[expect(unsafe_code, reason = "gives a block back")]
    // SAFETY: nothing uses it any more.
    unsafe { rig.cuda.raw_delete(raw) }.unwrap();
    assert_eq!(kinds(&rig), []);
    fill(&*rig.sim, raw, 0, 1, S0).unwrap();
    assert_eq!(kinds(&rig), [RaceKind::UseAfterFree]);

    let again = Rig::with_config(SimConfig::with_bytes(GIB), Config::default());
    let held = again.cuda.restore(0, &snapshot.segments).unwrap();
    fill(&*again.sim, raw, 0, 5000, S0).unwrap();
    assert_eq!(kinds(&again), []);
    drop(held);
    fill(&*again.sim, raw, 0, 1, S0).unwrap();
    assert_eq!(kinds(&again), [RaceKind::UseAfterFree]);
}

#[test]
fn memory_that_a_kernel_owns_goes_back_when_it_has_run() {
    let rig = Rig::new(GIB);
    let side = rig.stream();
    let block = rig.allocate(3 * MIB);
    let ready = CudaEvent::new(&rig.runtime, Default::default()).unwrap();
    ready.record(rig.runtime.current_stream(0).unwrap()).unwrap();
    ready.wait(side).unwrap();
    let owned = std::sync::Mutex::new(rig.allocate(3 * MIB));
    let kernel = move |_: &mut dyn c10_cuda::driver::KernelMemory| assert!(owned.lock().is_ok());
    launch(&*rig.sim, rig.handle(side), "owner", &[range(at(&block), 8)], &[], kernel).unwrap();
    rig.cuda.record_stream(&block, side).unwrap();
    drop(block);
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 3 * MIB);
    // The allocator waits for the event under its lock: what the kernel owns needs that lock, after it.
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 0);
    rig.cuda.check_invariants();
}
