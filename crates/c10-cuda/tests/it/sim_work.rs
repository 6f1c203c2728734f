//! What work on the simulated device does, when, and what is found when it goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use c10_cuda::driver::sim::{AccessFault, Completion, POISON, SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, EventFlags, Status, StreamHandle};

use crate::support::{Download, MIB, copy, fill, free, launch, range, read, unmap, upload};

const S0: StreamHandle = StreamHandle::default_of(0);

fn sim() -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_devices(2, 64 * MIB))
}

/// The one fault there is, as text.
fn fault(sim: &SimDriver) -> String {
    let faults = sim.take_faults();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

#[test]
fn nothing_runs_before_it_is_told_to() {
    let sim = sim();
    let ptr = sim.malloc(0, 16).unwrap();
    let (a, b) = (sim.stream_create(0, 0).unwrap(), sim.stream_create(0, 0).unwrap());
    let event = sim.event_create(0, EventFlags::default()).unwrap();
    fill(&*sim, ptr, 1, 16, a).unwrap();
    sim.event_record(event, a).unwrap();
    sim.stream_wait_event(b, event).unwrap();
    fill(&*sim, ptr, 2, 16, b).unwrap();
    assert_eq!(sim.pending(), 4);
    assert!(!sim.event_query(event).unwrap() && !sim.stream_query(b).unwrap());
    assert!(!sim.step(b), "it waits");
    assert!(sim.step(a), "the fill");
    assert!(!sim.event_query(event).unwrap(), "the record itself has not run");
    let mut bytes = [0; 16];
    sim.peek(ptr, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 16]);
    sim.complete_stream(b);
    sim.peek(ptr, &mut bytes).unwrap();
    assert_eq!((bytes, sim.pending()), ([2; 16], 0));
    assert!(sim.event_query(event).unwrap());
}

#[test]
fn eager_work_has_run_when_it_is_issued() {
    let sim = SimDriver::new(SimConfig::with_bytes(MIB * 4).completion(Completion::Eager));
    let ptr = sim.malloc(0, 4).unwrap();
    let event = sim.event_create(0, EventFlags::default()).unwrap();
    upload(&*sim, ptr, &[1, 2, 3, 4], S0).unwrap();
    sim.event_record(event, S0).unwrap();
    assert!(sim.event_query(event).unwrap() && sim.stream_query(S0).unwrap());
    let download = Download::issue(&*sim, ptr, 4, S0).unwrap();
    assert_eq!(download.bytes(), [1, 2, 3, 4]);
}

#[test]
fn unwritten_memory_is_poisoned_and_stays_so_over_free() {
    let sim = sim();
    let ptr = sim.malloc(0, 40_000).unwrap();
    assert_eq!(read(&*sim, ptr, 3, S0), [POISON; 3]);
    fill(&*sim, ptr.offset(100), 0, 30_000, S0).unwrap();
    assert_eq!(read(&*sim, ptr.offset(98), 4, S0), [POISON, POISON, 0, 0]);
    assert_eq!(read(&*sim, ptr.offset(30_098), 4, S0), [0, 0, POISON, POISON]);
    free(&*sim, ptr).unwrap();
    assert_eq!(sim.malloc(0, 40_000).unwrap(), ptr);
    assert_eq!(read(&*sim, ptr.offset(100), 1, S0), [POISON]);
}

#[test]
fn memory_that_is_freed_under_work_is_found_where_free_does_not_wait() {
    let sim = SimDriver::new(SimConfig { free_waits: false, ..SimConfig::with_bytes(64 * MIB) });
    let ptr = sim.malloc(0, 64).unwrap();
    launch(&*sim, S0, "scale", &[range(ptr, 64)], &[range(ptr, 64)], |_| panic!("it must not run")).unwrap();
    free(&*sim, ptr).unwrap();
    assert_eq!(sim.stream_synchronize(S0).unwrap_err().status, Status::IllegalAddress);
    insta::assert_snapshot!(fault(&sim), @"scale on device 0 stream 0 reads 64 bytes at 0x10000000000000: not all of it is live memory");
    sim.stream_synchronize(S0).unwrap();

    let ptr = sim.malloc(0, 64).unwrap();
    fill(&*sim, ptr, 1, 64, S0).unwrap();
    free(&*sim, ptr).unwrap();
    assert_eq!(sim.malloc(0, 64).unwrap(), ptr);
    assert_eq!(sim.device_synchronize(0).unwrap_err().status, Status::IllegalAddress);
    insta::assert_snapshot!(fault(&sim), @"fill on device 0 stream 0 writes 64 bytes at 0x10000000000000: the memory was freed after the work was issued, and is given out anew");
    assert_eq!(read(&*sim, ptr, 1, S0), [POISON], "the fill did nothing");
}

#[test]
fn a_free_waits_for_its_device_alone_and_hides_no_fault() {
    let sim = sim();
    let (here, there) = (sim.malloc(0, 64).unwrap(), sim.malloc(1, 64).unwrap());
    let other = StreamHandle::default_of(1);
    fill(&*sim, there, 1, 64, other).unwrap();
    fill(&*sim, here.offset(64), 1, 64, S0).unwrap();
    fill(&*sim, here, 1, 64, S0).unwrap();
    free(&*sim, here).unwrap();
    assert_eq!(sim.pending(), 1);
    assert_eq!(sim.device_synchronize(0).unwrap_err().status, Status::IllegalAddress);
    assert_eq!(sim.take_faults().len(), 1, "the fill of live memory is none");
    // Another device's work is not waited for.
    enable_and_fill(&sim, there);
    free(&*sim, there).unwrap();
    assert_eq!(sim.device_synchronize(0).unwrap_err().status, Status::IllegalAddress);
}

fn enable_and_fill(sim: &SimDriver, there: DevicePtr) {
    sim.enable_peer_access(0, 1).unwrap();
    fill(sim, there, 2, 64, S0).unwrap();
}

#[test]
fn no_work_leaves_its_allocation() {
    let sim = sim();
    let ptr = sim.malloc(0, 100).unwrap();
    sim.malloc(0, 100).unwrap();
    for (at, bytes) in [(ptr, 101), (ptr.offset(100), 1), (DevicePtr(64), 1), (ptr, u64::MAX)] {
        fill(&*sim, at, 0, bytes, S0).unwrap();
        sim.complete_all();
        assert_eq!(sim.take_faults()[0].fault, AccessFault::NotLive, "{bytes} bytes at {at}");
    }
    copy(&*sim, DevicePtr(64), ptr, 4, S0).unwrap();
    sim.complete_all();
    insta::assert_snapshot!(fault(&sim), @"copy on device 0 stream 0 writes 4 bytes at 0x40: not all of it is live memory");
    assert_eq!(sim.peek(ptr, &mut [0; 101]), Err(AccessFault::NotLive));
}

#[test]
fn another_devices_memory_needs_peer_access() {
    let sim = sim();
    let there = sim.malloc(1, 8).unwrap();
    fill(&*sim, there, 1, 8, S0).unwrap();
    sim.complete_all();
    insta::assert_snapshot!(fault(&sim), @"fill on device 0 stream 0 writes 8 bytes at 0x10800000000000: the memory is another device's, and peer access was not enabled");
    assert!(sim.device_synchronize(1).is_ok(), "the other device has not faulted");
    sim.enable_peer_access(0, 1).unwrap();
    fill(&*sim, there, 1, 8, S0).unwrap();
    assert_eq!(sim.stream_synchronize(S0).unwrap_err().status, Status::IllegalAddress, "the first is told");
    assert!(sim.take_faults().is_empty());
    let apart = SimDriver::new(SimConfig { peers: false, ..SimConfig::with_devices(2, MIB) });
    assert!(!apart.can_access_peer(0, 1).unwrap());
    assert_eq!(apart.enable_peer_access(0, 1).unwrap_err().status, Status::PeerAccessUnsupported);
}

#[test]
fn mapped_memory_needs_access_first() {
    let sim = sim();
    let held = sim.reserve(0, 4 * MIB).unwrap();
    let memory = sim.create(0, 2 * MIB).unwrap();
    let at = held.base;
    let try_fill = |bytes| {
        fill(&*sim, at, 1, bytes, S0).unwrap();
        sim.complete_all();
        sim.take_faults().pop().map(|f| f.fault)
    };
    assert_eq!(try_fill(1), Some(AccessFault::NotMapped));
    sim.map(at, memory).unwrap();
    assert_eq!(try_fill(1), Some(AccessFault::NoAccess));
    sim.set_access(at, 2 * MIB, &[1]).unwrap();
    assert_eq!(try_fill(1), Some(AccessFault::NoAccess), "device 1 was let in, not 0");
    sim.set_access(at, 2 * MIB, &[0]).unwrap();
    assert_eq!(try_fill(2 * MIB), None);
    assert_eq!(read(&*sim, at, 1, StreamHandle::default_of(1)), [1], "device 1 is still let in");
    assert!(sim.take_faults().is_empty());
    assert_eq!(try_fill(2 * MIB + 1), Some(AccessFault::NotMapped));
    fill(&*sim, at, 1, 1, S0).unwrap();
    unmap(&*sim, at, 2 * MIB).unwrap();
    sim.map(at, memory).unwrap();
    sim.set_access(at, 2 * MIB, &[0]).unwrap();
    sim.complete_all();
    assert_eq!(sim.take_faults()[0].fault, AccessFault::Replaced);
}

#[test]
fn a_kernel_that_leaves_its_ranges_or_panics_is_a_fault() {
    let sim = sim();
    let ptr = sim.malloc(0, 64).unwrap();
    let writes = [range(ptr, 8)];
    launch(&*sim, S0, "wide", &[], &writes, |memory| {
        memory.write(0, 0, &[1; 8]);
        memory.write(0, 1, &[2; 8]);
    })
    .unwrap();
    sim.complete_all();
    insta::assert_snapshot!(fault(&sim), @"wide on device 0 stream 0: it panicked: writes 8 bytes at offset 1 of range 0, which has 8 bytes");
    launch(&*sim, S0, "more", &[], &writes, |memory| memory.read(0, 0, &mut [0])).unwrap();
    sim.complete_all();
    insta::assert_snapshot!(fault(&sim), @"more on device 0 stream 0: it panicked: reads range 0, and 0 are declared");
    launch(&*sim, S0, "huge", &[], &writes, |memory| memory.write(0, u64::MAX, &[0])).unwrap();
    launch(&*sim, S0, "thrown", &[], &[], |_| std::panic::panic_any(7)).unwrap();
    sim.complete_all();
    let faults: Vec<_> = sim.take_faults().iter().map(ToString::to_string).collect();
    assert_eq!(faults[1], "thrown on device 0 stream 0: it panicked: no message");
    assert_eq!(sim.stream_synchronize(S0).unwrap_err().status, Status::IllegalAddress);
    assert_eq!(read(&*sim, ptr, 10, S0), [1, 1, 1, 1, 1, 1, 1, 1, POISON, POISON], "what came before stays");
}

#[test]
fn a_kernels_body_cannot_call_the_driver() {
    let sim = sim();
    let ptr = sim.malloc(0, 64).unwrap();
    let out = [range(ptr, 1)];
    let inner = Arc::clone(&sim);
    launch(&*sim, S0, "caller", &[], &out, move |memory| {
        let refused = inner.malloc(0, 1).unwrap_err().status == Status::NotPermitted;
        memory.write(0, 0, &[u8::from(refused)]);
    })
    .unwrap();
    assert_eq!(read(&*sim, ptr, 1, S0), [1]);
    assert_eq!(sim.call_count("malloc"), 1);
}

#[test]
fn what_a_kernel_owns_is_dropped_once_whatever_becomes_of_it() {
    struct Counted(Arc<AtomicUsize>, Arc<SimDriver>, DevicePtr);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            // Refused or not, it must not hang.
            let _ = free(&*self.1, self.2);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let sim = sim();
    let freed = sim.malloc(0, 64).unwrap();
    free(&*sim, freed).unwrap();
    let owned = || Counted(Arc::clone(&drops), Arc::clone(&sim), freed);
    let issue = |stream, at, owned: Counted| {
        launch(&*sim, stream, "owner", &[range(at, 1)], &[], move |_| assert!(!owned.2.is_null()))
    };
    let dead = StreamHandle { device: 0, raw: 77 };
    issue(dead, freed, owned()).unwrap_err();
    assert_eq!(drops.load(Ordering::Relaxed), 1, "refused");
    issue(S0, freed, owned()).unwrap();
    sim.complete_all();
    assert_eq!(drops.load(Ordering::Relaxed), 2, "faulted");
    let live = sim.malloc(0, 64).unwrap();
    issue(S0, live, owned()).unwrap();
    sim.complete_all();
    assert_eq!(drops.load(Ordering::Relaxed), 3, "run");
}

#[test]
fn time_is_the_programs_and_not_the_schedules() {
    let timed = EventFlags { timing: true, ..EventFlags::default() };
    let run = |completion| {
        let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).completion(completion));
        let ptr = sim.malloc(0, 32 * MIB).unwrap();
        let (a, b) = (sim.stream_create(0, 0).unwrap(), sim.stream_create(0, -1).unwrap());
        let (start, end) = (sim.event_create(0, timed).unwrap(), sim.event_create(0, timed).unwrap());
        sim.event_record(start, a).unwrap();
        upload(&*sim, ptr, &[1; 250_000], a).unwrap();
        sim.event_record(end, a).unwrap();
        sim.stream_wait_event(b, end).unwrap();
        fill(&*sim, ptr, 0, 20_000_000, b).unwrap();
        sim.event_record(end, b).unwrap();
        if completion == Completion::Manual {
            assert_eq!(sim.event_elapsed_ms(start, end).unwrap_err().status, Status::NotReady);
        }
        sim.event_synchronize(end).unwrap();
        (sim.event_elapsed_ms(start, end).unwrap(), sim.now_ns())
    };
    let manual = run(Completion::Manual);
    // 2 µs and 250,000 bytes at 25 a nanosecond, then 2 µs and 20 MB at 2,000, and what issuing costs.
    assert!((manual.0 - 0.024).abs() < 0.001, "{}", manual.0);
    for other in [Completion::Eager, Completion::Seeded(3)] {
        assert_eq!(run(other), manual);
    }
}

#[test]
fn pinned_memory_takes_part_in_copies_and_has_a_limit() {
    let sim = SimDriver::new(SimConfig { pinned_bytes: 100, ..SimConfig::with_bytes(4 * MIB) });
    assert_eq!(sim.host_alloc(101).unwrap_err().status, Status::OutOfMemory);
    let host = sim.host_alloc(60).unwrap();
    assert_eq!(sim.host_alloc(60).unwrap_err().status, Status::OutOfMemory);
    let ptr = sim.malloc(0, 60).unwrap();
    let host_end = c10_cuda::driver::CopyEnd::Host(host.as_ptr());
    crate::support::copy_ends(&*sim, c10_cuda::driver::CopyEnd::Device(ptr), host_end, 60, S0).unwrap();
    assert_eq!(read(&*sim, ptr, 60, S0), [0; 60]);
    let null = c10_cuda::driver::CopyEnd::Host(std::ptr::null_mut());
    let refused = crate::support::copy_ends(&*sim, null, host_end, 1, S0);
    assert_eq!(refused.unwrap_err().status, Status::InvalidValue);
}
