//! Stitched placement: what it reserves, what it maps and when, what is lent, and what comes of failures on the way.

use std::sync::Arc;

use c10_core::{DataPtr, Stream};
use c10_cuda::alloc::{BlockState, MemPool, MemPoolOptions, MempoolId, PoolFilter};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{DevicePtr, Driver, Status};
use c10_cuda::{Config, ErrorKind, Placement};
use proptest::prelude::*;

use crate::own_memory::OwnMemory;
use crate::program::{Op, config, keeps_the_rules, loses_nothing_in_faults, ops};
use crate::rig::{GIB, MIB, Rig, address};
use crate::support::{fill, read};

const STITCHED: &str = "placement:stitched";
/// The calls that obtain, map and give back memory.
const CALLS: [&str; 9] =
    ["reserve", "create", "map", "set_access", "unmap", "release", "free_range", "malloc", "free"];

fn rig(bytes: u64) -> Rig {
    Rig::with(bytes, STITCHED)
}

/// Those calls since the last time, each with its size in MiB.
fn calls(rig: &Rig) -> Vec<(&'static str, u64)> {
    let calls = rig.sim.take_calls().into_iter().filter(|call| CALLS.contains(&call.name));
    calls.map(|call| (call.name, call.bytes / MIB)).collect()
}

fn count(calls: &[(&'static str, u64)], name: &str) -> usize {
    calls.iter().filter(|(called, _)| *called == name).count()
}

/// A device where 24 MiB are free in two places, neither of which has room for 20: the blocks around them are
/// returned. Every handle has 8 MiB or fewer.
fn two_holes(rig: &Rig) -> Vec<DataPtr> {
    let mut blocks: Vec<_> = (0..6).map(|_| rig.allocate(16 * MIB)).collect();
    drop(blocks.remove(3));
    drop(blocks.remove(1));
    blocks
}

/// Writes all of a block on a stream, one byte value at its beginning and one at its end.
fn write(rig: &Rig, ptr: &DataPtr, bytes: u64, value: u8, stream: Stream) {
    fill(&*rig.sim, DevicePtr(address(ptr)), value, bytes, rig.handle(stream)).unwrap();
}

fn first_and_last(rig: &Rig, ptr: &DataPtr, bytes: u64, stream: Stream) -> [u8; 2] {
    [0, bytes - 1].map(|at| read(&*rig.sim, DevicePtr(address(ptr) + at), 1, rig.handle(stream))[0])
}

#[test]
fn the_key_is_read_and_written() {
    let config = Config::parse("placement:stitched").unwrap();
    assert_eq!(config.placement, Placement::Stitched);
    assert_eq!(config.to_string(), "placement:stitched");
    assert_eq!(Config::parse("placement:exact").unwrap(), Config::default());
    let error = Config::parse("placement:best").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn pieces_become_one_block_by_a_window_that_stays() {
    let rig = rig(GIB);
    let around = two_holes(&rig);
    let reserved = rig.reserved();
    calls(&rig);
    let stitched = rig.allocate(30 * MIB);
    assert_eq!(rig.reserved(), reserved, "what was free in two places is enough");
    let made = calls(&rig);
    assert_eq!((count(&made, "create"), count(&made, "reserve"), count(&made, "set_access")), (0, 1, 1));
    rig.cuda.check_invariants();
    let place = address(&stitched);
    drop(stitched);
    assert_eq!(address(&rig.allocate(30 * MIB)), place, "the window is used again");
    let pieces = [rig.allocate(16 * MIB), rig.allocate(16 * MIB)];
    assert_eq!(calls(&rig), [], "and what is lent to it serves other requests in between");
    assert_eq!(rig.reserved(), reserved);
    drop((pieces, around));
}

#[test]
fn windows_have_their_addresses_from_one_range() {
    let rig = rig(GIB);
    let around = two_holes(&rig);
    let count = |name| rig.sim.call_count(name);
    let (ranges, windows) = (count("reserve"), count("set_access"));
    [30, 20].into_iter().for_each(|mib| drop(rig.allocate(mib * MIB)));
    assert_eq!((count("reserve"), count("set_access")), (ranges + 1, windows + 2));
    drop(around);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(
        rig.sim.call_count("reserve"),
        rig.sim.call_count("free_range"),
        "it goes with the last of them"
    );
}

#[test]
fn a_window_takes_no_more_addresses_than_it_needs_where_they_are_short() {
    let ranges = |reservable_bytes| {
        let machine = SimConfig { reservable_bytes, ..SimConfig::with_bytes(GIB) };
        let rig = Rig::with_config(machine, Config::parse(STITCHED).unwrap());
        let around = two_holes(&rig);
        let reserved = rig.reserved();
        let before = rig.sim.call_count("reserve");
        let block = rig.allocate(30 * MIB);
        let tries = rig.sim.call_count("reserve") - before;
        let obtained = rig.reserved() - reserved;
        drop((block, around));
        rig.cuda.empty_cache().unwrap();
        rig.cuda.check_invariants();
        (tries, obtained)
    };
    // A range of addresses has an eighth more than the device.
    let home = GIB / 8 * 9;
    assert_eq!(ranges(2 * home), (1, 0));
    assert_eq!(ranges(home + 64 * MIB), (2, 0), "for this window alone");
    let (tries, obtained) = ranges(home + 8 * MIB);
    assert_eq!(tries, 2);
    assert!(obtained > 0, "there is no window, and so pages are obtained at home");
}

#[test]
fn the_block_is_its_pieces_and_nobody_elses() {
    let rig = rig(GIB);
    let around = two_holes(&rig);
    let stream = rig.runtime.current_stream(0).unwrap();
    for (block, value) in around.iter().zip(1..) {
        write(&rig, block, 16 * MIB, value, stream);
    }
    let stitched = rig.allocate(30 * MIB);
    write(&rig, &stitched, 30 * MIB, 99, stream);
    for (block, value) in around.iter().zip(1..) {
        assert_eq!(first_and_last(&rig, block, 16 * MIB, stream), [value; 2]);
    }
    assert_eq!(first_and_last(&rig, &stitched, 30 * MIB, stream), [99; 2]);
    drop((stitched, around));
}

/// Cases 25 and 26: whichever comes first, eight times 16 MiB or four times 32, the other finds it all.
#[test]
fn the_order_of_sizes_costs_nothing() {
    for sizes in [[(8, 16), (4, 32)], [(4, 32), (8, 16)]] {
        let rig = rig(GIB);
        for (count, mib) in sizes {
            drop((0..count).map(|_| rig.allocate(mib * MIB)).collect::<Vec<_>>());
        }
        assert_eq!(rig.reserved(), 128 * MIB, "{sizes:?}");
    }
}

/// Case 34: 270 MiB take a part of the 530 that are free, and the next 530 take the rest and what is missing.
#[test]
fn a_large_block_that_was_broken_up_is_made_up_for() {
    let rig = rig(4 * GIB);
    drop(rig.allocate(530 * MIB));
    let held = rig.allocate(270 * MIB);
    let again = rig.allocate(530 * MIB);
    assert_eq!(rig.reserved(), 800 * MIB);
    drop((held, again));
}

#[test]
fn as_few_pages_as_will_do_are_obtained_when_pieces_do_not_suffice() {
    let rig = rig(GIB);
    let around = two_holes(&rig);
    let before = rig.reserved();
    let large = rig.allocate(48 * MIB);
    assert_eq!(rig.reserved(), before + 16 * MIB, "32 MiB of the 48 were free");
    drop((large, around));
}

/// A program with weights that stay, and activations of all sizes that come and go, three layers forth and back.
fn iteration(rig: &Rig) {
    let sizes = |layer: u64| [3 * MIB + layer * 512, 700 * 512, 40 * MIB, 9 * MIB, 1000, 2 * MIB, 21 * MIB];
    let mut kept = Vec::new();
    for layer in 0..3 {
        for (at, bytes) in sizes(layer).into_iter().enumerate() {
            let scratch = rig.allocate(bytes + bytes / 3);
            kept.push(rig.allocate(bytes));
            if at % 2 == 0 {
                kept.push(scratch);
            }
        }
    }
    while let Some(last) = kept.pop() {
        let gradient = rig.allocate(17 * MIB);
        drop((last, gradient));
    }
}

#[test]
fn a_loop_that_repeats_itself_maps_nothing_new() {
    let rig = rig(8 * GIB);
    iteration(&rig);
    assert!(!calls(&rig).is_empty());
    for round in 2..5 {
        iteration(&rig);
        assert_eq!(calls(&rig), [], "round {round}");
    }
    // With weights that stay it has found its places after the first round.
    let weights: Vec<_> = (1..20).map(|n| rig.allocate(n * MIB + 512)).collect();
    iteration(&rig);
    iteration(&rig);
    calls(&rig);
    for round in 3..6 {
        iteration(&rig);
        assert_eq!(calls(&rig), [], "round {round} with weights");
    }
    drop(weights);
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
    assert_eq!(rig.sim.call_count("reserve"), rig.sim.call_count("free_range"));
}

#[test]
fn what_is_lent_waits_for_the_streams_that_use_it() {
    let machine = SimConfig { free_waits: false, ..SimConfig::with_bytes(GIB) };
    let rig = Rig::with_config(machine, Config::parse(STITCHED).unwrap());
    let side = rig.stream();
    let around = two_holes(&rig);
    let stitched = rig.allocate(30 * MIB);
    let place = address(&stitched);
    rig.cuda.record_stream(&stitched, side).unwrap();
    write(&rig, &stitched, 30 * MIB, 7, side);
    drop(stitched);
    rig.cuda.check_invariants();
    let next = rig.allocate(30 * MIB);
    assert_ne!(address(&next), place, "the side stream may still write there");
    rig.sim.complete_stream(rig.handle(side));
    let again = rig.allocate(30 * MIB);
    assert_eq!(address(&again), place);
    drop((again, next, around));
}

/// A page that goes from one stream to another has been waited for, unmapped, and released in between.
#[test]
fn pages_reach_another_stream_through_the_driver() {
    let rig = rig(64 * MIB);
    let (main, side) = (rig.runtime.current_stream(0).unwrap(), rig.stream());
    let first = rig.allocate(40 * MIB);
    write(&rig, &first, 40 * MIB, 1, main);
    drop(first);
    rig.sim.take_calls();
    let second = rig.cuda.allocate_on(40 * MIB, side).unwrap();
    let names: Vec<_> = rig.sim.take_calls().into_iter().map(|call| call.name).collect();
    let at = |name: &str| names.iter().position(|called| *called == name).unwrap();
    assert!(at("stream_synchronize") < at("unmap"), "{names:?}");
    write(&rig, &second, 40 * MIB, 2, side);
    assert_eq!(first_and_last(&rig, &second, 40 * MIB, side), [2; 2]);
    assert!(rig.reserved() <= 64 * MIB);
    drop(second);
}

/// Windows give way when memory is short, those with a block in them stay, and all is served that fits.
#[test]
fn shortage_lets_windows_go() {
    let rig = rig(96 * MIB);
    let mut around = two_holes(&rig);
    let stitched = rig.allocate(30 * MIB);
    assert_eq!(rig.cuda.allocate(3 * MIB).unwrap_err().kind(), ErrorKind::OutOfMemory);
    rig.cuda.check_invariants();
    drop(stitched);
    let side = rig.stream();
    let other = rig.cuda.allocate_on(30 * MIB, side).unwrap();
    assert_eq!(rig.sim.call_count("free_range"), 1, "the window went with its pages");
    around.pop();
    let last = rig.allocate(16 * MIB);
    rig.cuda.check_invariants();
    drop((last, other, around));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn a_snapshot_shows_lent_memory_as_its_blocks() {
    let rig = rig(GIB);
    let around = two_holes(&rig);
    let stitched = rig.allocate(30 * MIB - 100);
    let segments = rig.cuda.snapshot(false).segments;
    let sum = |part: fn(&c10_cuda::alloc::SegmentInfo) -> u64| segments.iter().map(part).sum::<u64>();
    let stats = rig.stats();
    assert_eq!(sum(|s| s.total_size) as i64, stats.reserved_bytes.all.current);
    assert_eq!(sum(|s| s.allocated_size) as i64, stats.allocated_bytes.all.current);
    assert_eq!(sum(|s| s.requested_size) as i64, stats.requested_bytes.all.current);
    let active = segments.iter().flat_map(|s| &s.blocks).filter(|b| b.state == BlockState::ActiveAllocated);
    assert!(active.count() >= 6, "four blocks, and the pieces of the fifth");
    assert_eq!(rig.cuda.base_allocation(&stitched).unwrap_err().kind(), ErrorKind::NotImplemented);
    for block in around.iter().chain([&stitched]) {
        assert_eq!(rig.cuda.share_ipc_handle(block).unwrap_err().kind(), ErrorKind::NotImplemented);
    }
    drop((stitched, around));
}

#[test]
fn private_pools_have_homes_of_their_own_and_no_windows() {
    let rig = rig(GIB);
    let id = MempoolId { first: 0, second: 9 };
    rig.cuda.create_or_incref_pool(0, id, None).unwrap();
    rig.cuda.begin_allocate_to_pool(0, id, PoolFilter::All).unwrap();
    let inside = two_holes(&rig);
    let before = rig.reserved();
    let large = rig.allocate(30 * MIB);
    assert!(rig.reserved() >= before + 14 * MIB, "its pieces are not put together");
    rig.cuda.end_allocate_to_pool(0, id).unwrap();
    let outside = rig.allocate(16 * MIB);
    assert!(rig.reserved() >= before + 30 * MIB, "what is free in the pool is the pool's");
    drop((inside, large, outside));
    // The scope was a use of its own.
    rig.cuda.release_pool(0, id).unwrap();
    rig.cuda.release_pool(0, id).unwrap();
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

#[test]
fn a_pool_with_memory_of_its_own_keeps_to_it() {
    let rig = rig(GIB);
    let (id, log) = (MempoolId { first: 0, second: 3 }, Arc::default());
    let own = OwnMemory::logged(Arc::clone(&rig.sim) as Arc<dyn Driver>, Arc::clone(&log));
    rig.cuda.create_or_incref_pool(0, id, Some(Arc::new(own))).unwrap();
    rig.cuda.begin_allocate_to_pool(0, id, PoolFilter::All).unwrap();
    let inside = [rig.allocate(3 * MIB), rig.allocate(30 * MIB)];
    rig.cuda.end_allocate_to_pool(0, id).unwrap();
    assert_eq!(*log.lock().unwrap(), ["own alloc 20971520", "own alloc 31457280"]);
    assert_eq!(count(&calls(&rig), "create"), 0);
    drop(inside);
    rig.cuda.release_pool(0, id).unwrap();
    rig.cuda.release_pool(0, id).unwrap();
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

#[test]
fn a_pool_that_splits_nothing_hands_blocks_out_whole() {
    let rig = rig(GIB);
    let options = MemPoolOptions { no_split: true, ..MemPoolOptions::default() };
    let pool = MemPool::new(&rig.cuda, 0, options).unwrap();
    // While something is in use, homes do not begin anew.
    let kept = rig.allocate(2 * MIB);
    let scope = pool.enter().unwrap();
    // Of two handles, 8 MiB and 4: the back is the better place for what is smaller than the second.
    let whole = address(&rig.allocate(12 * MIB));
    let part = rig.allocate(4 * MIB - 512 * 1024);
    assert_eq!(address(&part), whole);
    assert_eq!(rig.stats().allocated_bytes.all.current as u64, 14 * MIB);
    drop((part, scope, kept));
}

#[test]
fn peers_reach_windows_too() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::parse(STITCHED).unwrap());
    let there = Stream::default_of(c10_core::DeviceType::Cuda, 1);
    let around = two_holes(&rig);
    let before = rig.allocate(30 * MIB);
    rig.cuda.enable_peer_access(1, 0).unwrap();
    fill(&*rig.sim, DevicePtr(address(&before)), 3, 30 * MIB, rig.handle(there)).unwrap();
    rig.cuda.record_stream(&before, there).unwrap();
    rig.sim.complete_all();
    assert!(rig.sim.take_faults().is_empty());
    drop((before, around));
}

/// Makes a window at a time when the driver may fail, and goes on.
fn program(rig: &Rig) -> Vec<ErrorKind> {
    let mut held: Vec<_> = (0..6).filter_map(|_| rig.cuda.allocate(16 * MIB).ok()).collect();
    if held.len() == 6 {
        held.remove(3);
        held.remove(1);
    }
    let mut errors = Vec::new();
    for bytes in [30 * MIB, 48 * MIB, 1000, 5 * MIB, 700 * MIB] {
        match rig.cuda.allocate(bytes) {
            Ok(ptr) if bytes != 48 * MIB => held.push(ptr),
            Ok(_) => {}
            Err(error) => errors.push(error.kind()),
        }
        rig.cuda.check_invariants();
    }
    held.truncate(3);
    errors.extend(rig.cuda.empty_cache().err().map(|error| error.kind()));
    rig.cuda.check_invariants();
    errors.extend(rig.cuda.allocate(60 * MIB).err().map(|error| error.kind()));
    errors
}

#[test]
fn a_call_that_fails_anywhere_is_undone() {
    let whole = rig(256 * MIB);
    assert_eq!(program(&whole), [ErrorKind::OutOfMemory], "700 MiB do not fit");
    for call in CALLS.into_iter().chain(["stream_synchronize"]) {
        for nth in 1..=whole.sim.call_count(call).min(40) {
            for status in [Status::OutOfMemory, Status::Other(999)] {
                let rig = rig(256 * MIB);
                rig.sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, status)));
                let errors = program(&rig);
                let what = format!("{call} #{nth} {status}: {errors:?}");
                assert!(errors.len() <= 2, "{what}");
                rig.sim.set_faults(FaultPlan::new());
                rig.cuda.empty_cache().unwrap();
                rig.cuda.check_invariants();
                assert_eq!((rig.reserved(), rig.driver_used()), (0, 0), "{what}");
                let failed = |name| u64::from(name == call);
                let (taken, given) = ("reserve", "free_range");
                let open = rig.sim.call_count(taken) - failed(taken);
                assert_eq!(open, rig.sim.call_count(given) - failed(given), "{what}");
            }
        }
    }
}

/// A value that a block's bytes have, for each block that is held.
fn written(ops: &[Op]) {
    let rig = Rig::with(160 * MIB, STITCHED);
    let mut streams = vec![rig.runtime.current_stream(0).unwrap()];
    streams.extend((0..2).map(|_| rig.stream()));
    let mut held: Vec<(DataPtr, u64, u8, Stream)> = Vec::new();
    let mut value = 0_u8;
    let check = |(ptr, bytes, value, stream): (DataPtr, u64, u8, Stream)| {
        assert_eq!(first_and_last(&rig, &ptr, bytes, stream), [value; 2]);
    };
    for op in ops {
        match *op {
            Op::Allocate { bytes, stream } => {
                let stream = streams[stream];
                if let Ok(ptr) = rig.cuda.allocate_on(bytes, stream) {
                    value = value.wrapping_add(1);
                    write(&rig, &ptr, bytes, value, stream);
                    held.push((ptr, bytes, value, stream));
                }
            }
            Op::Free { slot } if !held.is_empty() => {
                let at = slot % held.len();
                check(held.swap_remove(at));
            }
            Op::EmptyCache => rig.cuda.empty_cache().unwrap(),
            _ => {}
        }
        rig.cuda.check_invariants();
    }
    held.into_iter().for_each(check);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The rules hold after every step, and at the end everything goes back.
    #[test]
    fn random_programs_keep_the_rules(settings in config(), ops in ops(120)) {
        keeps_the_rules(Config { placement: Placement::Stitched, ..settings }, &ops);
    }

    /// Faults at random change nothing about that.
    #[test]
    fn random_faults_lose_nothing(seed in any::<u64>(), ops in ops(80)) {
        let calls = [&CALLS[..], &["stream_synchronize"]].concat();
        loses_nothing_in_faults(Config::parse(STITCHED).unwrap(), &calls, seed, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No block's bytes are another's, whatever is mapped behind its addresses.
    #[test]
    fn every_block_keeps_its_bytes(ops in ops(150)) {
        written(&ops);
    }
}
