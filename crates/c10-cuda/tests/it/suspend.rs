//! Pools that sleep: their memory goes back to the driver, and their blocks stay.
#![expect(unsafe_code, reason = "suspends pools whose blocks nobody uses meanwhile")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::{MemPool, MemPoolOptions, MempoolId, PoolFilter, SuspendedContents};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{CaptureMode, DevicePtr, Status, StreamHandle};
use c10_cuda::{Config, ErrorKind, Result};
use proptest::prelude::*;

use crate::rig::{GIB, MIB, Rig, address};
use crate::support;

use SuspendedContents::{Discarded, Kept};

const STREAM: StreamHandle = StreamHandle::default_of(0);

/// A machine and a pool of expandable memory on it.
fn pool(bytes: u64) -> (Rig, MemPool) {
    pool_with("", bytes)
}

fn pool_with(settings: &str, bytes: u64) -> (Rig, MemPool) {
    let rig = Rig::with(bytes, settings);
    let pool = MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap();
    rig.cuda.set_pool_expandable(0, pool.id()).unwrap();
    (rig, pool)
}

fn suspend(pool: &MemPool, contents: SuspendedContents) -> Result<()> {
    // SAFETY: the tests use no block of a pool that sleeps.
    unsafe { pool.suspend(contents) }
}

fn inside(rig: &Rig, pool: &MemPool, bytes: u64) -> DataPtr {
    pool.with(|| rig.allocate(bytes)).unwrap()
}

fn fill(rig: &Rig, ptr: &DataPtr, value: u8, bytes: u64) {
    support::fill(&*rig.sim, DevicePtr(address(ptr)), value, bytes, STREAM).unwrap();
}

fn read(rig: &Rig, ptr: &DataPtr, bytes: usize) -> Vec<u8> {
    support::read(&*rig.sim, DevicePtr(address(ptr)), bytes, STREAM)
}

/// Case 32: sleep, sleep, wake, wake; a tensor is dropped while asleep.
#[test]
fn each_handle_is_released_once_and_dropped_ranges_get_no_memory_again() {
    let (rig, pool) = pool(GIB);
    let blocks: Vec<_> = (0..4).map(|_| inside(&rig, &pool, 40 * MIB)).collect();
    let small = inside(&rig, &pool, 1000);
    let outside = rig.allocate(3 * MIB);
    let places: Vec<_> = blocks.iter().map(address).collect();
    let created = rig.sim.call_count("create");
    assert_eq!((created, rig.driver_used()), (9, 182 * MIB));
    for _ in 0..2 {
        suspend(&pool, Discarded).unwrap();
        assert!(rig.cuda.is_pool_suspended(0, pool.id()).unwrap());
        assert_eq!(rig.sim.call_count("release"), 9);
        assert_eq!((rig.driver_used(), rig.reserved()), (20 * MIB, 20 * MIB));
    }
    let stats = rig.stats();
    assert_eq!(stats.allocated_bytes.all.current, (163 * MIB + 1024) as i64, "the blocks are held");
    let [a, b, c, d] = <[DataPtr; 4]>::try_from(blocks).unwrap();
    drop(b);
    rig.cuda.check_invariants();
    for _ in 0..2 {
        pool.resume().unwrap();
        assert!(!rig.cuda.is_pool_suspended(0, pool.id()).unwrap());
        assert_eq!(rig.sim.call_count("create"), 9 + 7, "the two pages of the dropped block stay away");
        assert_eq!(rig.reserved(), (182 - 40) * MIB);
    }
    assert_eq!([&a, &c, &d].map(address), [places[0], places[2], places[3]]);
    for (block, value) in [(&a, 1), (&c, 2), (&d, 3)] {
        fill(&rig, block, value, 40 * MIB);
        assert_eq!(read(&rig, block, 100), [value; 100]);
    }
    let again = inside(&rig, &pool, 40 * MIB);
    assert_eq!(address(&again), places[1], "its addresses are there for what comes");
    drop((a, c, d, small, again, outside, pool));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
    assert_eq!(rig.sim.call_count("create"), rig.sim.call_count("release"));
    assert!(rig.sim.take_faults().is_empty());
}

#[test]
fn what_is_kept_comes_back_and_what_is_not_does_not() {
    let (rig, pool) = pool(GIB);
    let (a, b) = (inside(&rig, &pool, 30 * MIB), inside(&rig, &pool, 700));
    fill(&rig, &a, 11, 30 * MIB);
    fill(&rig, &b, 22, 700);
    suspend(&pool, Kept).unwrap();
    assert_eq!(rig.driver_used(), 0);
    let other = rig.allocate(900 * MIB);
    drop(other);
    pool.resume().unwrap();
    assert_eq!(rig.stats().num_ooms, 0, "what was cached gave way");
    assert_eq!((read(&rig, &a, 4096), read(&rig, &b, 700)), (vec![11; 4096], vec![22; 700]));
    suspend(&pool, Discarded).unwrap();
    pool.resume().unwrap();
    assert_ne!(read(&rig, &a, 16), [11; 16]);
    suspend(&pool, Kept).unwrap();
    drop(a);
    pool.resume().unwrap();
    drop(b);
}

#[test]
fn nothing_is_allocated_from_a_pool_that_sleeps() {
    let (rig, pool) = pool(128 * MIB);
    rig.cuda.set_use_on_oom(0, pool.id(), true).unwrap();
    drop(inside(&rig, &pool, 30 * MIB));
    let held = inside(&rig, &pool, 100);
    suspend(&pool, Discarded).unwrap();
    let error = pool.with(|| rig.cuda.allocate(30 * MIB)).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(error, @"the pool (0, 1) is suspended: allocations from it come after `resume_pool`");
    let at = pool.with(|| {
        rig.cuda.allocate_at(
            512,
            DevicePtr(address(&held) + 512),
            Stream::default_of(c10_core::DeviceType::Cuda, 0),
        )
    });
    assert_eq!(at.unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let all = rig.allocate(120 * MIB);
    let error = rig.cuda.allocate(30 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "its free blocks serve nobody: {error}");
    assert_eq!(rig.cuda.cache_info(0).unwrap(), 8 * MIB);
    drop((all, held));
}

#[test]
fn a_lack_of_memory_at_the_resumption_leaves_it_asleep_whole() {
    let (rig, pool) = pool(128 * MIB);
    let block = inside(&rig, &pool, 60 * MIB);
    fill(&rig, &block, 5, 60 * MIB);
    suspend(&pool, Kept).unwrap();
    let other = rig.allocate(100 * MIB);
    for _ in 0..2 {
        let error = pool.resume().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let text = "resume_pool: the pool needs 60.00 MiB, and 28.00 MiB of 128.00 MiB are free on device 0; it \
                    stays suspended";
        assert_eq!(error.to_string(), text);
        assert_eq!(error.out_of_memory().unwrap().requested, 60 * MIB);
        assert!(rig.cuda.is_pool_suspended(0, pool.id()).unwrap());
        assert_eq!(rig.driver_used(), 100 * MIB);
        rig.cuda.check_invariants();
    }
    assert_eq!(rig.stats().num_ooms, 2);
    drop(other);
    rig.cuda.set_memory_fraction(0.4, 0).unwrap();
    let error = pool.resume().unwrap_err();
    let text = "resume_pool: the pool needs 60.00 MiB, and 128.00 MiB of 128.00 MiB are free on device 0, with 51.20 MiB \
                allowed, of which 0 bytes are reserved; it stays suspended";
    assert_eq!(error.to_string(), text, "the cap counts it");
    rig.cuda.set_memory_fraction(1.0, 0).unwrap();
    pool.resume().unwrap();
    assert_eq!(read(&rig, &block, 100), [5; 100]);
}

#[test]
fn a_resumption_asks_those_who_free_memory_and_tells_those_who_watch() {
    let (rig, pool) = pool(128 * MIB);
    let block = inside(&rig, &pool, 60 * MIB);
    suspend(&pool, Discarded).unwrap();
    let other = Arc::new(Mutex::new(Some(rig.allocate(100 * MIB))));
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    rig.cuda.attach_out_of_memory_observer(Arc::new(move |numbers| seen.lock().unwrap().push(*numbers)));
    let willing = Arc::new(AtomicBool::new(false));
    let (is_willing, held) = (Arc::clone(&willing), Arc::clone(&other));
    rig.cuda.register_free_memory_callback(Arc::new(move || {
        is_willing.load(Ordering::Relaxed) && held.lock().unwrap().take().is_some()
    }));
    assert_eq!(pool.resume().unwrap_err().kind(), ErrorKind::OutOfMemory);
    {
        let told = told.lock().unwrap();
        assert_eq!((told.len(), told[0].requested, told[0].device_free), (1, 60 * MIB, 28 * MIB));
    }
    willing.store(true, Ordering::Relaxed);
    pool.resume().unwrap();
    assert!(!rig.cuda.is_pool_suspended(0, pool.id()).unwrap());
    assert_eq!((told.lock().unwrap().len(), rig.stats().num_ooms), (1, 1));
    rig.cuda.check_invariants();
    drop(block);
}

/// A callback that panics once, when it is told to; the rest of the time it frees nothing.
fn panics_when(rig: &Rig) -> Arc<AtomicBool> {
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&armed);
    rig.cuda.register_free_memory_callback(Arc::new(move || {
        assert!(!is_armed.swap(false, Ordering::Relaxed), "the callback panics");
        false
    }));
    armed
}

#[test]
fn a_callback_that_panics_leaves_the_pool_as_it_was() {
    let (rig, pool) = pool(64 * MIB);
    let armed = panics_when(&rig);
    armed.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| inside(&rig, &pool, 40 * MIB))).is_err());
    rig.cuda.check_invariants();
    let block = inside(&rig, &pool, 40 * MIB);
    suspend(&pool, Discarded).unwrap();
    let other = rig.allocate(40 * MIB);
    armed.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| pool.resume())).is_err());
    rig.cuda.check_invariants();
    assert!(rig.cuda.is_pool_suspended(0, pool.id()).unwrap());
    drop(other);
    rig.cuda.empty_cache().unwrap();
    pool.resume().unwrap();
    suspend(&pool, Discarded).unwrap();
    let id = pool.id();
    drop((block, pool));
    rig.cuda.empty_cache().unwrap();
    assert!(rig.cuda.pool_use_count(0, id).is_err(), "the pool has ended");
}

#[test]
fn a_pool_whose_last_use_goes_while_it_should_wake_ends() {
    for keeps_block in [false, true] {
        let (rig, pool) = pool(64 * MIB);
        let id = pool.id();
        let mut block = Some(inside(&rig, &pool, 40 * MIB));
        suspend(&pool, Discarded).unwrap();
        let other = rig.allocate(40 * MIB);
        let held = Mutex::new(Some((pool, if keeps_block { None } else { block.take() })));
        rig.cuda.register_free_memory_callback(Arc::new(move || {
            let held = held.lock().unwrap().take();
            drop(held);
            false
        }));
        let resumed = rig.cuda.resume_pool(0, id);
        assert_eq!(resumed.is_err(), keeps_block, "without blocks it takes no memory");
        rig.cuda.check_invariants();
        drop((block, other));
        rig.cuda.empty_cache().unwrap();
        assert!(rig.cuda.pool_use_count(0, id).is_err(), "the pool has ended");
    }
}

#[test]
fn what_a_suspended_pool_holds_is_not_shared() {
    let (rig, pool) = pool(128 * MIB);
    let block = inside(&rig, &pool, MIB);
    rig.cuda.share_ipc_handle(&block).unwrap();
    suspend(&pool, Discarded).unwrap();
    let error = rig.cuda.share_ipc_handle(&block).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        format!(
            "share_ipc_handle: the pool {} is suspended: what it holds can be shared after `resume_pool`",
            pool.id()
        )
    );
    pool.resume().unwrap();
    rig.cuda.share_ipc_handle(&block).unwrap();
}

/// Every call of the driver on the way to sleep and back fails once.
#[test]
fn a_fault_anywhere_leaves_it_awake_or_asleep_and_the_next_try_does_it() {
    let calls = [
        "device_synchronize",
        "stream_synchronize",
        "copy",
        "unmap",
        "release",
        "create",
        "map",
        "set_access",
        "free_range",
    ];
    for contents in [Discarded, Kept] {
        for call in calls {
            for nth in 1..=5 {
                for status in [Status::Other(3), Status::OutOfMemory] {
                    let what = format!("{contents:?}: {call} #{nth} {status}");
                    let (rig, pool) = pool_with("large_segment_size_mb:12", GIB);
                    let (a, b) = (inside(&rig, &pool, 2 * MIB), inside(&rig, &pool, 100));
                    let dropped = inside(&rig, &pool, 24 * MIB);
                    fill(&rig, &a, 7, 2 * MIB);
                    rig.sim.complete_all();
                    let used = rig.driver_used();
                    rig.sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, status)));
                    let slept = suspend(&pool, contents);
                    rig.cuda.check_invariants();
                    if slept.is_err() {
                        suspend(&pool, contents).unwrap_or_else(|error| panic!("{what}: {error}"));
                    }
                    assert!(rig.cuda.is_pool_suspended(0, pool.id()).unwrap(), "{what}");
                    drop(dropped);
                    let woke = pool.resume();
                    rig.cuda.check_invariants();
                    if let Err(error) = woke {
                        assert!(rig.cuda.is_pool_suspended(0, pool.id()).unwrap(), "{what}");
                        assert!(!error.to_string().is_empty());
                        pool.resume().unwrap_or_else(|error| panic!("{what}: {error}"));
                    }
                    rig.sim.set_faults(FaultPlan::new());
                    assert!(rig.driver_used() < used, "{what}");
                    if contents == Kept {
                        assert_eq!(read(&rig, &a, 4096), [7; 4096], "{what}");
                    }
                    drop((a, b, pool));
                    rig.cuda.empty_cache().unwrap();
                    assert_eq!(rig.driver_used(), 0, "{what}");
                    assert!(rig.sim.take_faults().is_empty(), "{what}");
                }
            }
        }
    }
}

#[test]
fn tags_name_pools_of_all_devices() {
    let rig =
        Rig::with_config(SimConfig::with_devices(2, GIB), Config::parse("expandable_segments:True").unwrap());
    let on = |device| MemPool::new(&rig.cuda, device, MemPoolOptions::default()).unwrap();
    let pools = [on(0), on(1), on(1)];
    for (pool, tag) in pools.iter().zip(["weights", "weights", "cache"]) {
        rig.cuda.set_pool_tag(pool.device(), pool.id(), tag).unwrap();
    }
    let held = pools.each_ref().map(|pool| {
        let stream = Stream::default_of(c10_core::DeviceType::Cuda, pool.device());
        pool.with(|| rig.cuda.allocate_on(20 * MIB, stream).unwrap()).unwrap()
    });
    let reserved = || [0, 1].map(|device| rig.cuda.memory_reserved(device).unwrap() / MIB);
    assert_eq!(reserved(), [20, 40]);
    // SAFETY: nobody uses the blocks.
    let count = unsafe { rig.cuda.suspend_tagged("weights", Discarded) }.unwrap();
    assert_eq!((count, reserved()), (2, [0, 20]));
    // SAFETY: there are none.
    assert_eq!(unsafe { rig.cuda.suspend_tagged("nothing", Discarded) }.unwrap(), 0);
    // SAFETY: as above.
    unsafe { rig.cuda.suspend_tagged("cache", Kept) }.unwrap();
    assert_eq!(reserved(), [0, 0]);
    assert_eq!(rig.cuda.resume_tagged("weights").unwrap(), 2);
    assert_eq!(reserved(), [20, 20]);
    rig.cuda.set_pool_tag(1, pools[2].id(), "").unwrap();
    assert_eq!(rig.cuda.resume_tagged("cache").unwrap(), 0);
    pools[2].resume().unwrap();
    drop(held);
}

#[test]
fn a_pool_that_ends_asleep_leaves_nothing() {
    let (rig, pool) = pool(GIB);
    let held = inside(&rig, &pool, 50 * MIB);
    suspend(&pool, Kept).unwrap();
    drop(pool);
    rig.cuda.empty_cache().unwrap();
    rig.cuda.check_invariants();
    drop(held);
    rig.cuda.empty_cache().unwrap();
    rig.cuda.check_invariants();
    let calls = |name| rig.sim.call_count(name);
    assert_eq!((calls("create"), calls("release")), (3, 3));
    assert_eq!((calls("reserve"), calls("free_range")), (1, 1));
    assert!(rig.cuda.snapshot(false).segments.is_empty());
}

#[test]
fn other_streams_are_waited_for() {
    let (rig, pool) = pool(GIB);
    let side = rig.stream();
    let (a, b) = (inside(&rig, &pool, 20 * MIB), inside(&rig, &pool, 20 * MIB));
    for block in [&a, &b] {
        support::fill(&*rig.sim, DevicePtr(address(block)), 1, MIB, rig.handle(side)).unwrap();
        rig.cuda.record_stream(block, side).unwrap();
    }
    drop(b);
    suspend(&pool, Discarded).unwrap();
    assert!(rig.sim.take_faults().is_empty(), "the fills had run");
    pool.resume().unwrap();
    assert_eq!(rig.reserved(), 20 * MIB, "what had waited for the stream is free, and gone");
    drop(a);
}

#[test]
fn pools_that_cannot_sleep_say_why() {
    let rig = Rig::new(GIB);
    let pool = MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap();
    let held = inside(&rig, &pool, MIB);
    assert_eq!(suspend(&pool, Discarded).unwrap_err().kind(), ErrorKind::InvalidArgument, "not expandable");
    let late = rig.cuda.set_pool_expandable(0, pool.id()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::InvalidArgument);
    let nobody = MempoolId::new(7, 7);
    // SAFETY: there is no such pool.
    let unknown = unsafe { rig.cuda.suspend_pool(0, nobody, Discarded) };
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rig.cuda.resume_pool(0, nobody).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rig.cuda.resume_pool(9, nobody).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // SAFETY: the device's own pool is refused.
    let own = unsafe { rig.cuda.suspend_pool(0, MempoolId::DEFAULT, Discarded) };
    assert_eq!(own.unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((held, pool));
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64),
    Free(usize),
    Outside(u64),
    Suspend(bool),
    Resume,
    EmptyCache,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![2 => 1..5000_u64, 1 => MIB..12 * MIB];
    prop_oneof![
        6 => bytes().prop_map(Step::Allocate),
        4 => any::<usize>().prop_map(Step::Free),
        2 => bytes().prop_map(Step::Outside),
        2 => any::<bool>().prop_map(Step::Suspend),
        2 => Just(Step::Resume),
        1 => Just(Step::EmptyCache),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Blocks keep their addresses and, where that was asked for, what they hold.
    #[test]
    fn random_programs_keep_their_blocks(steps in prop::collection::vec(step(), 1..60)) {
        let rig = Rig::new(100 * MIB);
        let id = MempoolId::new(0, 99);
        rig.cuda.create_or_incref_pool(0, id, None).unwrap();
        rig.cuda.set_pool_expandable(0, id).unwrap();
        let mut held: Vec<(DataPtr, u64, Option<u8>)> = Vec::new();
        let mut value = 0_u8;
        for step in steps {
            match step {
                Step::Allocate(bytes) | Step::Outside(bytes) => {
                    let is_inside = matches!(step, Step::Allocate(_));
                    if is_inside {
                        rig.cuda.begin_allocate_to_pool(0, id, PoolFilter::this_thread()).unwrap();
                    }
                    let ptr = rig.cuda.allocate(bytes);
                    if is_inside {
                        rig.cuda.end_allocate_to_pool(0, id).unwrap();
                        rig.cuda.release_pool(0, id).unwrap();
                    }
                    if let Ok(ptr) = ptr {
                        value = value.wrapping_add(1);
                        fill(&rig, &ptr, value, bytes);
                        let at = address(&ptr);
                        held.push((ptr, at, Some(value)));
                    }
                }
                Step::Free(at) if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                Step::Free(_) => {}
                Step::Suspend(kept) => {
                    let was = rig.cuda.is_pool_suspended(0, id).unwrap();
                    let contents = if kept { Kept } else { Discarded };
                    // SAFETY: no block is used before the resumption below.
                    unsafe { rig.cuda.suspend_pool(0, id, contents) }.unwrap();
                    if !kept && !was {
                        held.iter_mut().for_each(|block| block.2 = None);
                    }
                }
                Step::Resume => drop(rig.cuda.resume_pool(0, id)),
                Step::EmptyCache => rig.cuda.empty_cache().unwrap(),
            }
            rig.cuda.check_invariants();
            prop_assert!(held.iter().all(|(ptr, at, _)| address(ptr) == *at));
        }
        if rig.cuda.resume_pool(0, id).is_ok() {
            for (ptr, _, value) in &held {
                if let Some(value) = value {
                    prop_assert_eq!(read(&rig, ptr, 1), [*value]);
                }
            }
        }
        held.clear();
        rig.cuda.release_pool(0, id).unwrap();
        rig.cuda.empty_cache().unwrap();
        prop_assert_eq!(rig.driver_used(), 0);
        prop_assert!(rig.sim.take_faults().is_empty());
    }
}

#[test]
fn a_capture_refuses_what_would_have_to_be_waited_for() {
    let (rig, pool) = pool(GIB);
    let block = inside(&rig, &pool, 3 * MIB);
    let outside = rig.allocate(30 * MIB);
    fill(&rig, &block, 7, MIB);
    suspend(&pool, Kept).unwrap();
    let base = DevicePtr(address(&outside));
    drop(outside);
    let stream = rig.cuda.runtime().stream_from_pool(0, 0).unwrap();
    let id = rig.cuda.new_graph_pool_id();
    let capture = rig.begin_capture(stream, id, CaptureMode::Global).unwrap();
    assert_eq!(pool.resume().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(!rig.cuda.release_segment(base, 0).unwrap());
    capture.end().unwrap();
    pool.resume().unwrap();
    assert_eq!(read(&rig, &block, 4), [7; 4]);
    assert!(rig.cuda.release_segment(base, 0).unwrap());
}

#[test]
fn a_sleeping_pool_is_not_restored() {
    let (rig, pool) = pool(GIB);
    let block = inside(&rig, &pool, 3 * MIB);
    let checkpoint = rig.cuda.checkpoint_pool(0, pool.id()).unwrap();
    fill(&rig, &block, 3, MIB);
    suspend(&pool, Kept).unwrap();
    let mut owners = vec![block];
    let refused = rig.cuda.restore_pool(0, &checkpoint, &mut owners).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    pool.resume().unwrap();
    assert_eq!(read(&rig, &owners[0], 4), [3; 4]);
}
