//! Rebuilding the state of a snapshot.

use c10_cuda::alloc::{BlockInfo, BlockState, SegmentInfo};
use c10_cuda::driver::DevicePtr;
use c10_cuda::driver::sim::SimConfig;
use c10_cuda::{Config, ErrorKind};

use crate::rig::{BASE, GIB, MIB, Rig};

/// A program with free and held blocks in both pools, and its segments.
fn recorded() -> Vec<SegmentInfo> {
    let rig = Rig::new(GIB);
    let held: Vec<_> = [100, 700, 1 << 20, 3 << 20, 12 << 20, 5000].map(|bytes| rig.allocate(bytes)).into();
    let freed = [2, 3].map(|_| rig.allocate(2 << 20));
    drop(freed);
    let mut held = held;
    drop(held.remove(1));
    rig.cuda.snapshot(false).segments
}

fn restored(segments: &[SegmentInfo]) -> (Rig, c10_cuda::Result<usize>) {
    let rig = Rig::with_config(SimConfig::with_bytes(u64::MAX), Config::default());
    rig.sim.script_malloc_addresses(0, segments.iter().map(|segment| segment.address).collect());
    let owners = rig.cuda.restore(0, segments);
    rig.cuda.check_invariants();
    let count = owners.map(|owners| {
        let count = owners.len();
        assert_eq!(rig.cuda.snapshot(false).segments, segments);
        assert_eq!(rig.stats().allocation.all.current, count as i64);
        drop(owners);
        count
    });
    (rig, count)
}

#[test]
fn the_segments_of_a_snapshot_come_back_as_they_were() {
    let segments = recorded();
    let (rig, count) = restored(&segments);
    let held = segments.iter().flat_map(|s| &s.blocks).filter(|b| b.state == BlockState::ActiveAllocated);
    assert_eq!(count.unwrap(), held.count());
    assert_eq!(rig.stats().allocated_bytes.all.current, 0, "the owners have ended");
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

#[test]
fn a_device_that_holds_segments_is_left_alone() {
    let segments = recorded();
    let rig = Rig::new(GIB);
    let _held = rig.allocate(1);
    let before = rig.driver_used();
    rig.sim.script_malloc_addresses(0, segments.iter().map(|s| DevicePtr(s.address.0 + GIB)).collect());
    assert_eq!(rig.cuda.restore(0, &segments).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(rig.driver_used(), before);
    rig.cuda.check_invariants();
}

#[test]
fn what_is_no_state_of_an_allocator_is_refused_whole() {
    let block = |size, requested_size, state| BlockInfo::new(size, requested_size, state);
    let segment = |address, blocks: Vec<BlockInfo>| SegmentInfo {
        address: DevicePtr(address),
        total_size: blocks.iter().fold(0, |sum: u64, block| sum.wrapping_add(block.size)),
        blocks,
        ..recorded()[0].clone()
    };
    use BlockState::{ActiveAllocated, ActivePendingFree, Inactive};
    let mut wrong_sum = segment(BASE, vec![block(512, 1, ActiveAllocated)]);
    wrong_sum.total_size = 2 * MIB;
    let mut wrong_device = segment(BASE, vec![block(512, 1, ActiveAllocated)]);
    wrong_device.stream.device = 1;
    let whole = |address, size| segment(address, vec![block(size, 1, ActiveAllocated)]);
    for segments in [
        vec![wrong_sum],
        vec![wrong_device],
        vec![segment(BASE, vec![])],
        vec![segment(BASE, vec![block(100, 1, ActiveAllocated)])],
        vec![segment(BASE, vec![block(512, 1, ActivePendingFree)])],
        vec![segment(BASE, vec![block(512, 513, ActiveAllocated)])],
        vec![segment(BASE, vec![block(512, u64::MAX, ActiveAllocated)])],
        vec![segment(BASE, vec![block(512, 0, Inactive), block(512, 0, Inactive)])],
        vec![segment(u64::MAX - 511, vec![block(1024, 1, ActiveAllocated)])],
        vec![segment(BASE, vec![block(1 << 63, 1, ActiveAllocated), block(1 << 63, 1, ActiveAllocated)])],
        // More than any memory, in one and together.
        vec![whole(512, 1 << 62)],
        vec![whole(512, 1 << 60), whole(512 + (1 << 60), 512)],
        // The second lies in the first.
        vec![whole(BASE, MIB), whole(BASE + 512, MIB)],
    ] {
        let (rig, outcome) = restored(&segments);
        assert_eq!((rig.reserved(), rig.driver_used()), (0, 0), "{segments:?}");
        assert!(outcome.is_err(), "{segments:?}");
    }
}
