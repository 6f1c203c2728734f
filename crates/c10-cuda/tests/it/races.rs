//! The race detector: a planted fault of each kind is found, and its cure is quiet.

use std::sync::Arc;

use c10_cuda::driver::sim::{AccessFault, Completion, Race, RaceKind, SimConfig, SimDriver, in_frame};
use c10_cuda::driver::{CopyEnd, DevicePtr, Driver, EventFlags, StreamHandle};

use crate::support::{
    MIB, copy, copy_ends, fill, free, free_async, free_range, host_free, launch, range, unmap, upload,
};

const S0: StreamHandle = StreamHandle::default_of(0);

fn machine(completion: Completion) -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_devices(2, 64 * MIB).completion(completion).race_detector())
}

fn sim() -> Arc<SimDriver> {
    machine(Completion::Manual)
}

fn streams<const N: usize>(sim: &SimDriver) -> [StreamHandle; N] {
    [(); N].map(|()| sim.stream_create(0, 0).unwrap())
}

/// `waiter` waits for what `source` holds now.
fn order(sim: &SimDriver, waiter: StreamHandle, source: StreamHandle) {
    let event = sim.event_create(source.device, EventFlags::default()).unwrap();
    sim.event_record(event, source).unwrap();
    sim.stream_wait_event(waiter, event).unwrap();
    sim.event_destroy(event).unwrap();
}

/// The text of the only race, without line numbers.
#[track_caller]
pub(crate) fn only(sim: &SimDriver) -> String {
    let races = sim.take_races();
    assert_eq!(races.len(), 1, "{races:#?}");
    let text = races[0].to_string();
    let mut parts = text.split(".rs:");
    let mut cut = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        cut.push_str(".rs");
        cut.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    // Files have the separator of the platform.
    cut.replace('\\', "/")
}

fn kinds(sim: &SimDriver) -> Vec<RaceKind> {
    sim.take_races().into_iter().map(|race| race.kind).collect()
}

#[test]
fn two_writes_that_nothing_orders_are_found_whatever_the_schedule() {
    for completion in [Completion::Manual, Completion::Eager, Completion::Seeded(1), Completion::Seeded(2)] {
        let sim = machine(completion);
        let [a, b] = streams(&sim);
        let ptr = sim.malloc(0, 64).unwrap();
        fill(&*sim, ptr, 1, 64, a).unwrap();
        fill(&*sim, ptr.offset(32), 2, 32, b).unwrap();
        assert_eq!(sim.races()[0].overlap(), (ptr.offset(32), 32));
        insta::allow_duplicates!(insta::assert_snapshot!(only(&sim), @"
        race: nothing orders two uses of 32 bytes at 0x10000000000020
           first: fill on device 0 stream 3 #1 writes 64 bytes at 0x10000000000000 (call 4, crates/c10-cuda/tests/it/races.rs)
          second: fill on device 0 stream 4 #1 writes 32 bytes at 0x10000000000020 (call 5, crates/c10-cuda/tests/it/races.rs)
        "));
    }
}

#[test]
fn reads_race_with_writes_and_not_with_reads() {
    let sim = sim();
    let [a, b, c] = streams(&sim);
    let (src, dst) = (sim.malloc(0, 64).unwrap(), sim.malloc(0, 64).unwrap());
    launch(&*sim, a, "square", &[range(src, 64)], &[], |_| ()).unwrap();
    copy(&*sim, dst, src, 64, b).unwrap();
    assert_eq!(kinds(&sim), []);
    in_frame("optimizer step", || launch(&*sim, c, "add_", &[range(src, 64)], &[range(src, 64)], |_| ()))
        .unwrap();
    let races = sim.races();
    let firsts: Vec<_> = races.iter().map(|race| race.first.as_ref().unwrap().name).collect();
    assert_eq!(firsts, ["square", "copy"], "both readers");
    sim.take_races();
    // A write races with both once, and then is what others race with.
    in_frame("next step", || fill(&*sim, src, 0, 1, a)).unwrap();
    insta::assert_snapshot!(only(&sim), @r#"
    race: nothing orders two uses of 1 bytes at 0x10000000000000
       first: add_ on device 0 stream 5 #1 writes 64 bytes at 0x10000000000000 (call 8, crates/c10-cuda/tests/it/races.rs, in "optimizer step" at crates/c10-cuda/tests/it/races.rs)
      second: fill on device 0 stream 3 #2 writes 1 bytes at 0x10000000000000 (call 9, crates/c10-cuda/tests/it/races.rs, in "next step" at crates/c10-cuda/tests/it/races.rs)
    "#);
}

#[test]
fn what_orders_work_is_quiet() {
    type Order = fn(&SimDriver, StreamHandle, StreamHandle);
    let orders: [(&str, Order); 7] = [
        ("an event", order),
        ("an event of a third", |sim, b, a| {
            let [c] = streams(sim);
            order(sim, c, a);
            order(sim, b, c);
            sim.stream_destroy(c).unwrap();
        }),
        ("the stream", |sim, _, a| sim.stream_synchronize(a).unwrap()),
        ("the device", |sim, _, a| sim.device_synchronize(a.device).unwrap()),
        ("the host waits for an event", |sim, _, a| {
            let event = sim.event_create(a.device, EventFlags::default()).unwrap();
            sim.event_record(event, a).unwrap();
            sim.event_synchronize(event).unwrap();
        }),
        ("a query that says ready", |sim, _, a| {
            sim.complete_all();
            assert!(sim.stream_query(a).unwrap());
        }),
        ("a free that waits", |sim, _, _| {
            let ptr = sim.malloc(0, 1).unwrap();
            free(sim, ptr).unwrap();
        }),
    ];
    for (how, order) in orders {
        let sim = sim();
        let [a, b] = streams(&sim);
        let ptr = sim.malloc(0, 64).unwrap();
        fill(&*sim, ptr, 1, 64, a).unwrap();
        order(&sim, b, a);
        fill(&*sim, ptr, 2, 64, b).unwrap();
        assert_eq!(kinds(&sim), [], "{how}");
    }
}

#[test]
fn what_does_not_order_work_is_found() {
    type Attempt = fn(&SimDriver, StreamHandle, StreamHandle);
    let attempts: [(&str, Attempt); 6] = [
        ("the work has run, and nobody knows", |sim, _, _| sim.complete_all()),
        ("a query that says no", |sim, _, a| assert!(!sim.stream_query(a).unwrap())),
        ("an event that was never recorded", |sim, b, a| {
            let event = sim.event_create(a.device, EventFlags::default()).unwrap();
            sim.stream_wait_event(b, event).unwrap();
            sim.event_synchronize(event).unwrap();
        }),
        ("an event of other work", |sim, b, _| {
            let [c] = streams(sim);
            order(sim, b, c);
        }),
        ("the wrong way round", |sim, b, a| order(sim, a, b)),
        ("another device", |sim, _, _| sim.device_synchronize(1).unwrap()),
    ];
    for (how, attempt) in attempts {
        let sim = sim();
        let [a, b] = streams(&sim);
        let ptr = sim.malloc(0, 64).unwrap();
        fill(&*sim, ptr, 1, 64, a).unwrap();
        attempt(&sim, b, a);
        fill(&*sim, ptr, 2, 64, b).unwrap();
        assert_eq!(kinds(&sim), [RaceKind::Unordered], "{how}");
    }
}

#[test]
fn an_event_stands_for_what_came_before_it_alone() {
    let sim = sim();
    let [a, b] = streams(&sim);
    let ptr = sim.malloc(0, 64).unwrap();
    let event = sim.event_create(0, EventFlags::default()).unwrap();
    fill(&*sim, ptr, 1, 32, a).unwrap();
    sim.event_record(event, a).unwrap();
    fill(&*sim, ptr.offset(32), 1, 32, a).unwrap();
    sim.stream_wait_event(b, event).unwrap();
    fill(&*sim, ptr, 2, 32, b).unwrap();
    assert_eq!(kinds(&sim), []);
    fill(&*sim, ptr.offset(32), 2, 32, b).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::Unordered]);
    // Recorded anew, it stands for the new place; who waited before has waited for the old one.
    sim.event_record(event, b).unwrap();
    fill(&*sim, ptr, 3, 64, a).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::Unordered, RaceKind::Unordered]);
}

#[test]
fn memory_that_was_freed_is_not_used() {
    let sim =
        SimDriver::new(SimConfig { free_waits: false, ..SimConfig::with_bytes(64 * MIB) }.race_detector());
    let ptr = sim.malloc(0, 64).unwrap();
    fill(&*sim, ptr, 1, 64, S0).unwrap();
    free(&*sim, ptr).unwrap();
    assert_eq!(kinds(&sim), [], "a free waits for its device");
    launch(&*sim, S0, "late", &[range(ptr, 8)], &[], |_| ()).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    use after free: of 8 bytes at 0x10000000000000
       first: free by the host of 64 bytes at 0x10000000000000 (call 3, crates/c10-cuda/tests/it/races.rs)
      second: late on device 0 stream 0 #2 reads 8 bytes at 0x10000000000000 (call 4, crates/c10-cuda/tests/it/races.rs)
    ");
    assert_eq!(sim.malloc(0, 64).unwrap(), ptr);
    fill(&*sim, ptr, 1, 64, S0).unwrap();
    assert_eq!(kinds(&sim), [], "it is another memory now");
}

#[test]
fn memory_is_not_freed_under_work_of_another_device() {
    let sim = sim();
    let there = StreamHandle::default_of(1);
    sim.enable_peer_access(1, 0).unwrap();
    let ptr = sim.malloc(0, 64).unwrap();
    fill(&*sim, ptr, 1, 64, there).unwrap();
    free(&*sim, ptr).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    freed under use: nothing orders this after a use of 64 bytes at 0x10000000000000
       first: fill on device 1 stream 0 #1 writes 64 bytes at 0x10000000000000 (call 3, crates/c10-cuda/tests/it/races.rs)
      second: free by the host of 64 bytes at 0x10000000000000 (call 4, crates/c10-cuda/tests/it/races.rs)
    ");
    let ptr = sim.malloc(0, 64).unwrap();
    fill(&*sim, ptr, 1, 64, there).unwrap();
    // It tells of the first fill, which came too late.
    sim.device_synchronize(1).unwrap_err();
    free(&*sim, ptr).unwrap();
    assert_eq!(kinds(&sim), []);
}

#[test]
fn mappings_are_not_taken_away_under_work() {
    let sim = sim();
    let held = sim.reserve(0, 4 * MIB).unwrap();
    let memory = sim.create(0, 2 * MIB).unwrap();
    let put = |at| {
        sim.map(at, memory).unwrap();
        sim.set_access(at, 2 * MIB, &[0]).unwrap();
    };
    put(held.base);
    fill(&*sim, held.base, 1, 64, S0).unwrap();
    unmap(&*sim, held.base, 2 * MIB).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    freed under use: nothing orders this after a use of 64 bytes at 0x10400000000000
       first: fill on device 0 stream 0 #1 writes 64 bytes at 0x10400000000000 (call 5, crates/c10-cuda/tests/it/races.rs)
      second: unmap by the host of 2097152 bytes at 0x10400000000000 (call 6, crates/c10-cuda/tests/it/races.rs)
    ");
    fill(&*sim, held.base, 1, 64, S0).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::UseAfterFree]);
    // The same bytes elsewhere: an unordered use is one of the same memory.
    let [side] = streams(&sim);
    put(held.base.offset(2 * MIB));
    fill(&*sim, held.base.offset(2 * MIB), 2, 1, side).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::Unordered]);
    sim.device_synchronize(0).unwrap_err();
    fill(&*sim, held.base.offset(2 * MIB), 2, 1, S0).unwrap();
    sim.device_synchronize(0).unwrap();
    unmap(&*sim, held.base.offset(2 * MIB), 2 * MIB).unwrap();
    free_range(&*sim, held).unwrap();
    assert_eq!(kinds(&sim), []);
}

#[test]
fn two_mappings_of_one_memory_are_one_memory() {
    let sim = sim();
    let [a, b] = streams(&sim);
    let held = sim.reserve(0, 4 * MIB).unwrap();
    let memory = sim.create(0, 2 * MIB).unwrap();
    for at in [held.base, held.base.offset(2 * MIB)] {
        sim.map(at, memory).unwrap();
        sim.set_access(at, 2 * MIB, &[0]).unwrap();
    }
    fill(&*sim, held.base, 1, 64, a).unwrap();
    fill(&*sim, held.base.offset(2 * MIB + 63), 1, 64, b).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    race: nothing orders two uses of 64 bytes at 0x1040000020003f
       first: fill on device 0 stream 3 #1 writes 64 bytes at 0x10400000000000 (call 9, crates/c10-cuda/tests/it/races.rs)
      second: fill on device 0 stream 4 #1 writes 64 bytes at 0x1040000020003f (call 10, crates/c10-cuda/tests/it/races.rs)
    ");
    fill(&*sim, held.base.offset(2 * MIB + 200), 1, 64, b).unwrap();
    assert_eq!(kinds(&sim), []);
    // One mapping goes while the memory is used by the other.
    sim.stream_synchronize(a).unwrap();
    unmap(&*sim, held.base, 2 * MIB).unwrap();
    assert_eq!(kinds(&sim), []);
    unmap(&*sim, held.base.offset(2 * MIB), 2 * MIB).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::FreedUnderUse, RaceKind::FreedUnderUse]);
}

#[test]
fn foreign_memory_is_found_when_the_work_is_issued() {
    let sim = sim();
    let ptr = sim.malloc(0, 100).unwrap();
    let foreign = |fault: AccessFault| vec![RaceKind::Foreign(fault)];
    fill(&*sim, ptr, 1, 101, S0).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    foreign memory: not all of it is live memory
         use: fill on device 0 stream 0 #1 writes 101 bytes at 0x10000000000000 (call 2, crates/c10-cuda/tests/it/races.rs)
    ");
    fill(&*sim, DevicePtr(64), 1, 1, S0).unwrap();
    assert_eq!(kinds(&sim), foreign(AccessFault::NotLive));
    fill(&*sim, ptr, 1, 100, StreamHandle::default_of(1)).unwrap();
    assert_eq!(kinds(&sim), foreign(AccessFault::NoPeerAccess));
    let held = sim.reserve(0, 2 * MIB).unwrap();
    fill(&*sim, held.base, 1, 1, S0).unwrap();
    assert_eq!(kinds(&sim), foreign(AccessFault::NotMapped));
    sim.map(held.base, sim.create(0, 2 * MIB).unwrap()).unwrap();
    fill(&*sim, held.base, 1, 1, S0).unwrap();
    assert_eq!(kinds(&sim), foreign(AccessFault::NoAccess));
    fill(&*sim, ptr, 1, 0, S0).unwrap();
    assert_eq!(kinds(&sim), []);
}

#[test]
fn host_memory_is_watched_too() {
    let sim = sim();
    let [a, b] = streams(&sim);
    let ptr = sim.malloc(0, 64).unwrap();
    let host = sim.host_alloc(64).unwrap();
    let (device, pinned) = (CopyEnd::Device(ptr), CopyEnd::Host(host.as_ptr()));
    sim.host_uses(host.as_ptr(), 64, true);
    copy_ends(&*sim, device, pinned, 64, a).unwrap();
    sim.host_uses(host.as_ptr(), 64, false);
    assert_eq!(kinds(&sim), [], "the copy is issued after the host's write, and reads do not race");
    sim.host_uses(host.as_ptr(), 1, true);
    let race = only(&sim).replace(&format!("{:#x}", host.as_ptr().addr()), "HOST");
    insta::assert_snapshot!(race, @"
    race: nothing orders two uses of 1 bytes at HOST
       first: copy on device 0 stream 3 #1 reads 64 bytes at HOST (call 6, crates/c10-cuda/tests/it/races.rs)
      second: access by the host writes 1 bytes at HOST (call 8, crates/c10-cuda/tests/it/races.rs)
    ");
    order(&sim, b, a);
    copy_ends(&*sim, pinned, device, 64, b).unwrap();
    assert_eq!(kinds(&sim), []);
    sim.complete_all();
    // The copies have run, and the host does not know.
    host_free(&*sim, host).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::FreedUnderUse]);
}

#[test]
fn memory_in_stream_order_is_used_between_its_allocation_and_its_free() {
    let sim = sim();
    let [a, b] = streams(&sim);
    let ptr = sim.malloc_async(64, a).unwrap();
    fill(&*sim, ptr, 1, 64, a).unwrap();
    fill(&*sim, ptr, 2, 64, b).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::Unordered], "with the fill");
    let other = sim.malloc_async(64, a).unwrap();
    launch(&*sim, b, "early", &[range(other, 8)], &[], |_| ()).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    race: nothing orders two uses of 8 bytes at 0x10000000200000
       first: malloc_async on device 0 stream 3 #2 of 64 bytes at 0x10000000200000 (call 6, crates/c10-cuda/tests/it/races.rs)
      second: early on device 0 stream 4 #2 reads 8 bytes at 0x10000000200000 (call 7, crates/c10-cuda/tests/it/races.rs)
    ");
    order(&sim, b, a);
    fill(&*sim, ptr, 3, 64, b).unwrap();
    assert_eq!(kinds(&sim), []);
    free_async(&*sim, ptr, a).unwrap();
    insta::assert_snapshot!(only(&sim), @"
    freed under use: nothing orders this after a use of 64 bytes at 0x10000000000000
       first: fill on device 0 stream 4 #4 writes 64 bytes at 0x10000000000000 (call 12, crates/c10-cuda/tests/it/races.rs)
      second: free_async on device 0 stream 3 #3 of 64 bytes at 0x10000000000000 (call 13, crates/c10-cuda/tests/it/races.rs)
    ");
    fill(&*sim, ptr, 3, 64, a).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::UseAfterFree]);
    // Another stream gets the range once its free has run, and is behind it.
    sim.complete_all();
    assert_eq!(sim.malloc_async(64, b).unwrap(), ptr);
    fill(&*sim, ptr, 3, 64, b).unwrap();
    free_async(&*sim, ptr, b).unwrap();
    assert_eq!(kinds(&sim), []);
}

#[test]
fn the_same_program_gives_the_same_reports() {
    let run = |completion| {
        let sim = machine(completion);
        let ptr = sim.malloc(0, 4096).unwrap();
        let streams = streams::<4>(&sim);
        for at in 0..40_usize {
            let stream = streams[at * 7 % 4];
            fill(&*sim, ptr.offset((at as u64 * 613) % 4000), 0, 90, stream).unwrap();
            if at % 5 == 0 {
                order(&sim, streams[(at + 1) % 4], stream);
            }
        }
        sim.take_races().iter().map(Race::to_string).collect::<Vec<_>>()
    };
    let first = run(Completion::Manual);
    assert!(first.len() > 5);
    assert_eq!(run(Completion::Eager), first);
    assert_eq!(run(Completion::Seeded(9)), first);
}

#[test]
fn a_machine_that_does_not_look_finds_nothing() {
    let sim = SimDriver::new(SimConfig::with_bytes(4 * MIB));
    let ptr = sim.malloc(0, 1).unwrap();
    let [a, b] = streams(&sim);
    fill(&*sim, ptr, 1, 1, a).unwrap();
    fill(&*sim, ptr, 1, 9, b).unwrap();
    assert_eq!(sim.races(), []);
}

#[test]
fn streams_that_come_and_go_keep_their_work_apart() {
    let sim = sim();
    let ptr = sim.malloc(0, 64).unwrap();
    for round in 0..100 {
        let [a, b] = streams(&sim);
        fill(&*sim, ptr, 1, 64, a).unwrap();
        if round % 2 == 0 {
            fill(&*sim, ptr, 1, 64, b).unwrap();
            assert_eq!(kinds(&sim), [RaceKind::Unordered], "round {round}");
        }
        [a, b].into_iter().for_each(|stream| sim.stream_destroy(stream).unwrap());
        // Their work is over, and so is what comes of it.
        sim.device_synchronize(0).unwrap();
        upload(&*sim, ptr, &[0; 64], S0).unwrap();
        assert_eq!(kinds(&sim), [], "round {round}");
        sim.device_synchronize(0).unwrap();
    }
}

#[test]
fn a_copy_finds_pinned_memory_that_was_freed_under_it() {
    let sim = sim();
    let [stream] = streams(&sim);
    let device = sim.malloc(0, MIB).unwrap();
    let host = sim.host_alloc(MIB).unwrap();
    copy_ends(&*sim, CopyEnd::Device(device), CopyEnd::Host(host.as_ptr()), MIB, stream).unwrap();
    host_free(&*sim, host).unwrap();
    assert_eq!(sim.take_races().len(), 1);
    sim.complete_all();
    let mut bytes = [1; 4];
    sim.peek(device, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 4]);
}

#[test]
fn the_ends_of_a_copy_have_nothing_in_common() {
    let sim = sim();
    let ptr = sim.malloc(0, 4096).unwrap();
    copy(&*sim, ptr.offset(1024), ptr, 1024, S0).unwrap();
    assert_eq!(sim.races(), []);
    copy(&*sim, ptr.offset(1023), ptr, 1024, S0).unwrap();
    let races = sim.take_races();
    assert_eq!(races.len(), 1, "{races:#?}");
    assert_eq!((&races[0].kind, races[0].overlap()), (&RaceKind::Overlap, (ptr.offset(1023), 1)));
    assert!(races[0].to_string().starts_with("overlap: a copy reads and writes 1 bytes at "), "{}", races[0]);
    let host = vec![0_u8; 64].leak().as_mut_ptr();
    let end = |at: usize| CopyEnd::Host(host.wrapping_add(at));
    copy_ends(&*sim, end(0), end(32), 32, S0).unwrap();
    assert_eq!(sim.races(), []);
    copy_ends(&*sim, end(0), end(31), 32, S0).unwrap();
    assert_eq!(kinds(&sim), [RaceKind::Overlap]);
}
