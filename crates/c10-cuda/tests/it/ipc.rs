//! Memory shared between two processes on one simulated machine.
#![expect(unsafe_code, reason = "opens memory that the test's other process keeps, or looks for the refusal")]

use std::sync::Arc;

use c10_core::DataPtr;
use c10_cuda::alloc::{IpcMemory, ShareableHandle};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Checked, DevicePtr, Driver, IpcHandle, PhysHandle, Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, Error, ErrorKind};

use crate::rig::{GIB, MIB, Watch, address};
use crate::support;

const STREAM: StreamHandle = StreamHandle::default_of(0);

/// Two processes, each with an allocator.
struct Pair {
    sim: Arc<SimDriver>,
    other_sim: Arc<SimDriver>,
    cuda: CachingAllocator,
    other: CachingAllocator,
    _watch: Watch,
}

impl Pair {
    fn new(settings: &str) -> Self {
        let sim = SimDriver::new(SimConfig::with_devices(2, GIB).log_calls(1000).race_detector());
        let other_sim = sim.new_process();
        let allocator = |sim: &Arc<SimDriver>| {
            let driver = Checked::strict(Arc::clone(sim) as Arc<dyn Driver>);
            CachingAllocator::new(driver, Config::parse(settings).unwrap()).unwrap()
        };
        let (cuda, other) = (allocator(&sim), allocator(&other_sim));
        let _watch = Watch::new(&sim);
        Self { sim, other_sim, cuda, other, _watch }
    }

    fn open(&self, shared: &ShareableHandle) -> Result<IpcMemory, Error> {
        // SAFETY: the test keeps the memory, and orders what is done with it.
        unsafe { self.other.open_ipc_handle(0, &shared.handle) }
    }
}

fn both(test: impl Fn(&Pair)) {
    for settings in ["", "expandable_segments:True"] {
        test(&Pair::new(settings));
    }
}

/// Sets all of a block, and waits.
fn write(sim: &SimDriver, ptr: DevicePtr, value: u8, bytes: u64) {
    support::fill(sim, ptr, value, bytes, STREAM).unwrap();
    sim.stream_synchronize(STREAM).unwrap();
}

fn at(ptr: &DataPtr) -> DevicePtr {
    DevicePtr(address(ptr))
}

#[test]
fn a_block_is_read_and_written_from_the_other_process() {
    both(|pair| {
        let _front = pair.cuda.allocate(3 * MIB).unwrap();
        let block = pair.cuda.allocate(30 * MIB).unwrap();
        write(&pair.sim, at(&block), 7, 30 * MIB);
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        let there = pair.open(&shared).unwrap().into_data_ptr(shared.offset);
        assert_ne!(address(&there), address(&block));
        assert_eq!(support::read(&*pair.other_sim, at(&there), 1000, STREAM), [7; 1000]);
        let last = DevicePtr(address(&there) + 30 * MIB - 512);
        write(&pair.other_sim, last, 9, 512);
        let back = support::read(&*pair.sim, DevicePtr(address(&block) + 30 * MIB - 512), 512, STREAM);
        assert_eq!(back, [9; 512]);
        assert_eq!(pair.sim.memory_info(0), pair.other_sim.memory_info(0), "it takes no memory of its own");
        drop(there);
        assert_eq!(pair.other.open_ipc_handles(), 0);
        assert!(pair.sim.take_faults().is_empty());
    });
}

#[test]
fn what_is_open_is_opened_once_and_closed_once() {
    both(|pair| {
        let block = pair.cuda.allocate(30 * MIB).unwrap();
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        let again = pair.cuda.share_ipc_handle(&block).unwrap();
        assert_eq!(shared, again);
        let users = [(); 3].map(|()| pair.open(&shared).unwrap());
        assert!(users.iter().all(|user| user.ptr() == users[0].ptr() && user.device() == 0));
        assert_eq!(pair.other.open_ipc_handles(), 1);
        let calls = |name| pair.sim.call_count(name);
        assert_eq!(calls("ipc_open") + calls("reserve") - calls("create").min(1), 1);
        let (closes, frees) = (calls("ipc_close"), calls("free_range"));
        let [a, b, c] = users;
        drop((a, b));
        assert_eq!((calls("ipc_close"), calls("free_range")), (closes, frees), "one is left");
        drop(c);
        assert_eq!(calls("ipc_close") + calls("free_range"), closes + frees + 1);
        assert_eq!(calls("import_memory"), calls("create"), "each page has one handle more, for a while");
        let reopened = pair.open(&shared).unwrap();
        assert_eq!(pair.other.open_ipc_handles(), 1);
        drop(reopened);
    });
}

#[test]
fn only_the_pages_of_the_block_are_shared_and_no_more_addresses_than_that() {
    let pair = Pair::new("expandable_segments:True");
    let _front = pair.cuda.allocate(50 * MIB).unwrap();
    let block = pair.cuda.allocate(15 * MIB).unwrap();
    let shared = pair.cuda.share_ipc_handle(&block).unwrap();
    assert_eq!((shared.offset, shared.handle.len()), (10 * MIB, 26 + 2 * 64));
    pair.sim.take_calls();
    let there = pair.open(&shared).unwrap();
    let reserved: Vec<_> =
        pair.sim.take_calls().iter().filter(|c| c.name == "reserve").map(|c| c.bytes).collect();
    assert_eq!(reserved, [40 * MIB]);
    drop(there);
}

/// Pages live as long as either side has them: the producer's allocator may give its own back.
#[test]
fn physical_memory_lives_until_both_have_given_it_back() {
    let pair = Pair::new("expandable_segments:True");
    let block = pair.cuda.allocate(20 * MIB).unwrap();
    write(&pair.sim, at(&block), 3, MIB);
    let shared = pair.cuda.share_ipc_handle(&block).unwrap();
    let there = pair.open(&shared).unwrap();
    drop(block);
    pair.cuda.empty_cache().unwrap();
    assert_eq!(pair.cuda.memory_reserved(0).unwrap(), 0);
    let used = || GIB - pair.sim.memory_info(0).unwrap().free;
    assert_eq!(used(), 20 * MIB);
    assert_eq!(support::read(&*pair.other_sim, there.ptr(), 100, STREAM), [3; 100]);
    drop(there);
    assert_eq!(used(), 0);
    assert_eq!(pair.open(&shared).unwrap_err().driver().unwrap().status, Status::InvalidHandle);
}

#[test]
fn work_that_is_under_way_is_waited_for_before_memory_is_closed() {
    both(|pair| {
        let block = pair.cuda.allocate(20 * MIB).unwrap();
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        let there = pair.open(&shared).unwrap().into_data_ptr(shared.offset);
        support::fill(&*pair.other_sim, at(&there), 5, MIB, STREAM).unwrap();
        drop(there);
        assert!(pair.sim.take_faults().is_empty());
        assert_eq!(support::read(&*pair.sim, at(&block), 10, STREAM), [5; 10]);
    });
}

#[test]
fn handles_that_are_none_are_refused() {
    both(|pair| {
        let block = pair.cuda.allocate(MIB).unwrap();
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        let good = &shared.handle;
        let refused = |bytes: &[u8]| {
            // SAFETY: it is refused.
            let result = unsafe { pair.other.open_ipc_handle(0, bytes) };
            result.map(drop).unwrap_err()
        };
        for length in 0..good.len() {
            assert_eq!(refused(&good[..length]).kind(), expected(length), "{length} bytes");
        }
        for place in 0..good.len() {
            let mut bytes = good.clone();
            bytes[place] ^= 0x40;
            // Some bytes say nothing: who shares, and what a driver leaves open.
            // SAFETY: what is opened is the block.
            if let Ok(open) = unsafe { pair.other.open_ipc_handle(0, &bytes) } {
                drop(open);
            }
        }
        assert_eq!(refused(&[good.as_slice(), &[0]].concat()).kind(), ErrorKind::InvalidArgument);
        // SAFETY: both are refused.
        let elsewhere = unsafe { pair.other.open_ipc_handle(1, good) }.unwrap_err();
        assert_eq!(elsewhere.driver().unwrap().status, Status::InvalidHandle, "it is of the other device");
        // SAFETY: as above.
        let nowhere = unsafe { pair.other.open_ipc_handle(2, good) }.unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::InvalidArgument);
        assert_eq!(pair.other.open_ipc_handles(), 0);
        let foreign = pair.other.share_ipc_handle(&block).unwrap_err();
        assert_eq!(foreign.kind(), ErrorKind::InvalidArgument);
    });
}

/// 64 bytes alone are a handle of the first version, which the driver refuses.
fn expected(length: usize) -> ErrorKind {
    if length == 64 { ErrorKind::Driver } else { ErrorKind::InvalidArgument }
}

#[test]
fn the_oldest_handles_are_read_and_newer_ones_named() {
    let pair = Pair::new("");
    let block = pair.cuda.allocate(MIB).unwrap();
    let shared = pair.cuda.share_ipc_handle(&block).unwrap();
    let legacy = ShareableHandle { handle: shared.handle[2..].to_vec(), ..shared.clone() };
    drop(pair.open(&legacy).unwrap());
    let mut newer = shared.handle.clone();
    newer[0] = 4;
    // SAFETY: it is refused.
    let error = unsafe { pair.other.open_ipc_handle(0, &newer) }.unwrap_err();
    insta::assert_snapshot!(error, @"open_ipc_handle: the handle is of version 4, and this library reads up to version 3");
}

#[test]
fn an_opening_that_fails_anywhere_leaves_nothing_open() {
    let pair = Pair::new("expandable_segments:True");
    let block = pair.cuda.allocate(60 * MIB).unwrap();
    let shared = pair.cuda.share_ipc_handle(&block).unwrap();
    for (call, count) in [("import_memory", 3), ("reserve", 1), ("map", 3), ("set_access", 1)] {
        for nth in 1..=count {
            pair.sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, Status::Other(3))));
            let error = pair.open(&shared).unwrap_err();
            assert_eq!(error.driver().unwrap().call, call);
            assert_eq!(pair.other.open_ipc_handles(), 0, "{call} #{nth}");
        }
    }
    pair.sim.set_faults(FaultPlan::new());
    drop(pair.open(&shared).unwrap());
    drop(block);
    pair.cuda.empty_cache().unwrap();
    assert_eq!(pair.sim.memory_info(0).unwrap().free, GIB, "every handle was given back");
    let none = Pair::new("");
    let block = none.cuda.allocate(MIB).unwrap();
    let shared = none.cuda.share_ipc_handle(&block).unwrap();
    none.sim.set_faults(FaultPlan::from(FaultRule::nth("ipc_open", 1, Status::OutOfMemory)));
    assert_eq!(none.open(&shared).unwrap_err().kind(), ErrorKind::Driver);
    drop(none.open(&shared).unwrap());
}

#[test]
fn a_close_that_is_refused_is_tried_again() {
    for (settings, call) in [
        ("", "ipc_close"),
        ("", "device_synchronize"),
        ("expandable_segments:True", "unmap"),
        ("expandable_segments:True", "release"),
        ("expandable_segments:True", "free_range"),
    ] {
        let pair = Pair::new(settings);
        let block = pair.cuda.allocate(60 * MIB).unwrap();
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        let there = pair.open(&shared).unwrap();
        let rule = FaultRule::new(call, FaultWhen::Every(1), Status::Other(3));
        pair.sim.set_faults(FaultPlan::from(rule));
        drop(there);
        if call != "release" {
            assert_eq!(pair.other.open_ipc_handles(), 1, "{call}");
            assert_eq!(pair.open(&shared).unwrap_err().driver().unwrap().call, call);
        }
        pair.sim.set_faults(FaultPlan::new());
        let there = pair.open(&shared).unwrap();
        drop(there);
        assert_eq!(pair.other.open_ipc_handles(), 0, "{call}");
        drop(block);
        pair.cuda.empty_cache().unwrap();
        assert_eq!(pair.sim.memory_info(0).unwrap().free, GIB, "{call}");
    }
}

#[test]
fn threads_that_open_and_close_one_handle_share_one_opening() {
    both(|pair| {
        let block = pair.cuda.allocate(20 * MIB).unwrap();
        let shared = pair.cuda.share_ipc_handle(&block).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..50).for_each(|_| drop(pair.open(&shared).unwrap())));
            }
        });
        assert_eq!(pair.other.open_ipc_handles(), 0);
    });
}

#[test]
fn the_handles_of_one_process_mean_nothing_in_another() {
    let sim = SimDriver::new(SimConfig::with_bytes(GIB));
    let other = sim.new_process();
    let ptr = sim.malloc(0, MIB).unwrap();
    let stream = sim.stream_create(0, 0).unwrap();
    let event = sim.event_create(0, Default::default()).unwrap();
    let range = sim.reserve(0, 2 * MIB).unwrap();
    let memory = sim.create(0, 2 * MIB).unwrap();
    assert!(support::free(&*other, ptr).is_err());
    assert!(other.stream_query(stream).is_err());
    assert!(other.event_query(event).is_err());
    assert!(support::free_range(&*other, range).is_err());
    assert!(other.release(memory).is_err());
    assert!(other.map(range.base, memory).is_err());
    assert!(other.ipc_export(ptr).is_err());
    support::fill(&*other, ptr, 1, 10, STREAM).unwrap();
    other.device_synchronize(0).unwrap_err();
    assert_eq!(other.take_faults().len(), 1, "its work does not reach the memory either");
    let exported = sim.ipc_export(ptr).unwrap();
    // SAFETY: refused: the process has the memory already.
    assert_eq!(unsafe { sim.ipc_open(0, &exported) }.unwrap_err().status, Status::InvalidHandle);
    // SAFETY: refused: these are no handles.
    assert!(unsafe { other.ipc_open(0, &IpcHandle([0; 64])) }.is_err());
    assert!(other.import_memory(0, &exported).is_err());
    assert!(other.export_memory(PhysHandle { device: 0, raw: 2, bytes: 2 * MIB }).is_err());
    sim.stream_query(stream).unwrap();
    support::free(&*sim, ptr).unwrap();
    // SAFETY: refused: the memory is gone.
    assert!(unsafe { other.ipc_open(0, &exported) }.is_err());
}

#[test]
fn uses_that_nothing_orders_are_seen_across_processes() {
    let sim = SimDriver::new(SimConfig::with_bytes(GIB).race_detector());
    let other = sim.new_process();
    let ptr = sim.malloc(0, MIB).unwrap();
    let exported = sim.ipc_export(ptr).unwrap();
    // SAFETY: the memory is kept until the test ends; the race is what is looked for.
    let there = unsafe { other.ipc_open(0, &exported) }.unwrap();
    support::fill(&*sim, ptr, 1, 100, STREAM).unwrap();
    support::fill(&*other, there, 2, 100, STREAM).unwrap();
    sim.complete_all();
    assert_eq!(sim.races().len(), 1);
}
