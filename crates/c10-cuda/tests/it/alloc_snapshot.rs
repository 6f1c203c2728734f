//! What is recorded, and what a snapshot shows.

use std::sync::atomic::{AtomicU64, Ordering};

use c10_core::stat::StatArray;
use c10_cuda::alloc::{BlockState, SegmentInfo, Snapshot};
use c10_cuda::alloc::{History, TraceAction, TraceEntry};
use c10_cuda::{Config, DeviceStats};
use proptest::prelude::*;

use crate::program::{Machine, Op, config, ops};
use crate::rig::{BASE, MIB, Rig};

fn all() -> Option<History> {
    Some(History { max_entries: 1000, ..History::default() })
}

/// `action at place size`, one entry a line; for `oom` the driver's free bytes.
fn lines(entries: &[TraceEntry]) -> String {
    let line = |entry: &TraceEntry| {
        let at = match entry.action {
            TraceAction::Oom | TraceAction::Snapshot => entry.address,
            _ => entry.address - BASE,
        };
        format!("{} {at} {}", entry.action, entry.size)
    };
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn recorded(rig: &Rig) -> Vec<TraceEntry> {
    rig.cuda.snapshot(true).device_traces.remove(0)
}

#[test]
fn entries_come_in_pytorchs_order() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.record_history(all());
    let stream = rig.stream();
    let ptr = rig.allocate(100);
    drop(ptr);
    let ptr = rig.allocate(3 * MIB - 1);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    // The stream has yet to pass.
    let other = rig.allocate(200);
    rig.sim.complete_all();
    drop(other);
    let next = rig.allocate(300);
    drop(next);
    rig.cuda.empty_cache().unwrap();
    rig.cuda.allocate(100 * MIB - 1).unwrap_err();
    insta::assert_snapshot!(lines(&recorded(&rig)), @"
    segment_alloc 0 2097152
    alloc 0 100
    free_requested 0 100
    free_completed 0 100
    segment_alloc 2097152 20971520
    alloc 2097152 3145727
    free_requested 2097152 3145727
    alloc 0 200
    free_requested 0 200
    free_completed 0 200
    free_completed 2097152 3145727
    alloc 0 300
    free_requested 0 300
    free_completed 0 300
    segment_free 2097152 20971520
    segment_free 0 2097152
    oom 67108864 104857600
    ");
}

#[test]
fn a_snapshot_is_seen_by_later_ones_alone() {
    let rig = Rig::new(64 * MIB);
    rig.cuda.record_history(all());
    let _held = rig.allocate(100);
    assert_eq!(recorded(&rig).len(), 2, "the program's action is the last entry");
    let entries = recorded(&rig);
    assert_eq!(entries.len(), 3);
    let last = &entries[2];
    assert_eq!((last.action, last.address, last.size), (TraceAction::Snapshot, 0, 512));
    assert_eq!(rig.cuda.snapshot(false).device_traces, [vec![]]);
    assert_eq!(recorded(&rig).len(), 5, "one without traces is recorded too");
}

#[test]
fn the_ring_keeps_the_newest_and_goes_when_told() {
    let rig = Rig::new(64 * MIB);
    assert!(recorded(&rig).is_empty(), "nothing is recorded until it is asked for");
    rig.cuda.record_history(Some(History { max_entries: 3, ..History::default() }));
    let held = [1000, 2000, 3000].map(|bytes| rig.allocate(bytes));
    insta::assert_snapshot!(lines(&recorded(&rig)), @"
    alloc 0 1000
    alloc 1024 2000
    alloc 3072 3000
    ");
    drop(held);
    // The limit can be changed, and what was recorded is kept unless it is to go.
    rig.cuda.record_history(Some(History { max_entries: 2, ..History::default() }));
    assert_eq!(recorded(&rig).len(), 2);
    rig.cuda.record_history(Some(History { max_entries: 0, ..History::default() }));
    drop(rig.allocate(1));
    assert_eq!(recorded(&rig).len(), 1, "there is room for one at least");
    rig.cuda.record_history(Some(History { max_entries: usize::MAX, clear: true, ..History::default() }));
    assert!(recorded(&rig).is_empty());
    drop(rig.allocate(1));
    rig.cuda.record_history(None);
    drop(rig.allocate(1));
    assert!(recorded(&rig).is_empty(), "stopping forgets");
}

#[test]
fn actions_can_be_left_out() {
    let rig = Rig::new(64 * MIB);
    let skip_actions = vec![TraceAction::Alloc, TraceAction::FreeRequested, TraceAction::Snapshot];
    rig.cuda.record_history(Some(History { max_entries: 9, skip_actions, ..History::default() }));
    drop(rig.allocate(100));
    recorded(&rig);
    let names = recorded(&rig).iter().map(|entry| entry.action.name()).collect::<Vec<_>>();
    assert_eq!(names, ["segment_alloc", "free_completed"]);
}

#[test]
fn the_clock_is_the_programs() {
    static NOW: AtomicU64 = AtomicU64::new(7);
    let rig = Rig::new(64 * MIB);
    let clock: fn() -> u64 = || NOW.fetch_add(1, Ordering::Relaxed);
    rig.cuda.record_history(Some(History { max_entries: 9, clock: Some(clock), ..History::default() }));
    let ptr = rig.allocate(100);
    let times = |rig: &Rig| recorded(rig).iter().map(|entry| entry.time_us).collect::<Vec<_>>();
    assert_eq!(times(&rig), [7, 8]);
    let panics: fn() -> u64 = || panic!("a clock's fault");
    rig.cuda.record_history(Some(History { max_entries: 9, clock: Some(panics), ..History::default() }));
    drop(ptr);
    assert_eq!(times(&rig)[3..], [0, 0], "a free does not unwind");
    rig.cuda.check_invariants();
}

#[test]
fn row_23_a_ring_that_forgets_never_makes_live_bytes_negative() {
    let rig = Rig::new(64 * MIB);
    let mut held: Vec<_> = (0..6).map(|_| rig.allocate(512)).collect();
    rig.cuda.record_history(Some(History { max_entries: 4, ..History::default() }));
    let before = rig.cuda.snapshot(true);
    assert!(before.device_traces[0].is_empty());
    drop(held.remove(0));
    let entries = recorded(&rig);
    // The free of a block from before is an entry with the address of a block that the first snapshot holds.
    let free = entries.iter().find(|entry| entry.action == TraceAction::FreeCompleted).unwrap();
    let segment = &before.segments[0];
    assert_eq!(segment.address.0, free.address);
    assert_eq!(segment.blocks[0].state, BlockState::ActiveAllocated);
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 5 * 512);
}

#[test]
fn a_snapshot_shows_every_block_in_its_state() {
    let rig = Rig::with(256 * MIB, "max_split_size_mb:40");
    let stream = rig.stream();
    let _held = rig.allocate(1000);
    let waiting = rig.allocate(2000);
    rig.cuda.record_stream(&waiting, stream).unwrap();
    drop(waiting);
    let _large = rig.cuda.allocate_on(30 * MIB, stream).unwrap();
    let snapshot = rig.cuda.snapshot(false);
    assert_eq!(snapshot.config.max_split_size, Some(40 * MIB));
    let text: Vec<_> = snapshot.segments.iter().map(segment_text).collect();
    insta::assert_snapshot!(text.join("\n"), @"
    small #0 at 0 of 2097152: 1024 allocated, 3072 active, 3000 requested
      active_allocated 1024 for 1000
      active_pending_free 2048 for 2000
      inactive 2094080 for 0
    large #1 at 2097152 of 31457280: 31457280 allocated, 31457280 active, 31457280 requested
      active_allocated 31457280 for 31457280
    ");
    assert_eq!(snapshot.segments[1].stream, rig.handle(stream));
}

fn segment_text(segment: &SegmentInfo) -> String {
    let kind = if segment.is_large { "large" } else { "small" };
    let mut text = format!(
        "{kind} #{} at {} of {}: {} allocated, {} active, {} requested",
        segment.registration_counter,
        segment.address.0 - BASE,
        segment.total_size,
        segment.allocated_size,
        segment.active_size,
        segment.requested_size
    );
    for block in &segment.blocks {
        text += &format!("\n  {} {} for {}", block.state.name(), block.size, block.requested_size);
    }
    text
}

/// What a snapshot's segments sum to, as far as the statistics hold it.
fn sums(snapshot: &Snapshot) -> DeviceStats {
    let mut sums = DeviceStats::default();
    for segment in &snapshot.segments {
        let small = !segment.is_large;
        sums.segment.increase(small, 1);
        sums.reserved_bytes.increase(small, segment.total_size as i64);
        sums.allocated_bytes.increase(small, segment.allocated_size as i64);
        sums.active_bytes.increase(small, segment.active_size as i64);
        sums.requested_bytes.increase(small, segment.requested_size as i64);
        assert_eq!(segment.blocks.iter().map(|block| block.size).sum::<u64>(), segment.total_size);
        for block in &segment.blocks {
            match block.state {
                BlockState::ActiveAllocated => {
                    sums.allocation.increase(small, 1);
                    sums.active.increase(small, 1);
                }
                BlockState::ActivePendingFree => sums.active.increase(small, 1),
                BlockState::Inactive if segment.blocks.len() > 1 => {
                    sums.inactive_split.increase(small, 1);
                    sums.inactive_split_bytes.increase(small, block.size as i64);
                }
                BlockState::Inactive => {}
            }
        }
    }
    sums
}

fn currents(stats: &DeviceStats) -> [[i64; 3]; 9] {
    let of = |array: &StatArray| [array.all.current, array.small.current, array.large.current];
    [
        of(&stats.allocation),
        of(&stats.segment),
        of(&stats.active),
        of(&stats.inactive_split),
        of(&stats.allocated_bytes),
        of(&stats.reserved_bytes),
        of(&stats.active_bytes),
        of(&stats.inactive_split_bytes),
        of(&stats.requested_bytes),
    ]
}

proptest! {
    /// The identity of PyTorch's own tests, after every step.
    #[test]
    fn a_snapshot_sums_to_the_statistics(settings in config(), ops in ops(40)) {
        let mut machine = Machine::new(Config { search_after_synchronize: true, ..settings });
        for op in &ops {
            machine.run(op);
            let snapshot = machine.rig.cuda.snapshot(false);
            prop_assert_eq!(currents(&machine.rig.stats()), currents(&sums(&snapshot)), "after {:?}", op);
            let in_order = snapshot.segments.is_sorted_by_key(|segment| segment.address);
            prop_assert!(in_order);
        }
        machine.run(&Op::EmptyCache);
        machine.finish();
    }
}
