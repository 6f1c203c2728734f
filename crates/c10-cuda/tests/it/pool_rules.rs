//! The rule of memory in stream order (R9), for the suite that every driver passes; and the simulator's pools.
#![expect(unsafe_code, reason = "frees memory that no later work uses, or looks for the report")]
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use c10_cuda::driver::sim::{AccessFault, SimConfig, SimDriver};
use c10_cuda::driver::{DevicePtr, Driver, EventFlags, MemPoolInfo, Result, Status, StreamHandle};

use crate::support::{Download, MIB, fill, free, read};

const S0: StreamHandle = StreamHandle::default_of(0);

fn free_async(d: &dyn Driver, ptr: DevicePtr, on: StreamHandle) -> Result<()> {
    // SAFETY: tests order their work before it, or look for the simulator's report.
    unsafe { d.free_async(ptr, on) }
}

fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

/// What is used before a free and what is used after the next allocation meet in stream order.
pub(crate) fn r9_a_freed_range_is_used_in_stream_order(d: &dyn Driver) {
    let stream = d.stream_create(0, 0).unwrap();
    let mut downloads = Vec::new();
    for round in 1..=8_u8 {
        let ptr = d.malloc_async(4096 + u64::from(round), stream).unwrap();
        fill(d, ptr, round, 4096, stream).unwrap();
        downloads.push((round, Download::issue(d, ptr, 4096, stream).unwrap()));
        free_async(d, ptr, stream).unwrap();
    }
    d.stream_synchronize(stream).unwrap();
    for (round, download) in downloads {
        assert_eq!(download.bytes(), [round; 4096], "round {round}");
    }
    d.stream_destroy(stream).unwrap();
}

/// Two streams with an event between them: the second may free what the first allocated.
pub(crate) fn r9_a_range_may_be_freed_behind_an_event(d: &dyn Driver) {
    let (a, b) = (d.stream_create(0, 0).unwrap(), d.stream_create(0, 0).unwrap());
    let event = d.event_create(0, EventFlags::default()).unwrap();
    let ptr = d.malloc_async(3 * MIB, a).unwrap();
    fill(d, ptr, 7, 3 * MIB, a).unwrap();
    d.event_record(event, a).unwrap();
    d.stream_wait_event(b, event).unwrap();
    let seen = read(d, ptr, 16, b);
    assert_eq!(seen, [7; 16]);
    free_async(d, ptr, b).unwrap();
    d.device_synchronize(0).unwrap();
    d.event_destroy(event).unwrap();
    d.stream_destroy(a).unwrap();
    d.stream_destroy(b).unwrap();
}

pub(crate) fn r9_a_pool_counts_and_is_trimmed(d: &dyn Driver) {
    d.mem_pool_set_release_threshold(0, u64::MAX).unwrap();
    let before = d.mem_pool_info(0).unwrap();
    let free_before = d.memory_info(0).unwrap().free;
    let ptr = d.malloc_async(5 * MIB, S0).unwrap();
    let held = d.mem_pool_info(0).unwrap();
    assert!(held.used >= before.used + 5 * MIB && held.used_peak >= held.used, "{held:?}");
    free_async(d, ptr, S0).unwrap();
    d.device_synchronize(0).unwrap();
    let kept = d.mem_pool_info(0).unwrap();
    assert_eq!((kept.used, kept.reserved), (before.used, held.reserved), "the threshold keeps it");
    d.mem_pool_reset_peaks(0).unwrap();
    assert_eq!(d.mem_pool_info(0).unwrap().used_peak, before.used);
    d.mem_pool_trim(0, 0).unwrap();
    assert_eq!(d.mem_pool_info(0).unwrap().reserved, before.reserved);
    assert_eq!(d.memory_info(0).unwrap().free, free_before);
    d.mem_pool_set_release_threshold(0, 0).unwrap();
    assert_eq!(d.graph_memory_info(0).unwrap(), MemPoolInfo::default());
    d.graph_memory_reset_peaks(0).unwrap();
}

pub(crate) fn r9_what_is_no_range_of_a_pool_is_refused(d: &dyn Driver) {
    let no = d.device_count();
    assert_eq!(status(d.malloc_async(0, S0)), Status::InvalidValue);
    assert_eq!(status(d.malloc_async(u64::MAX, S0)), Status::OutOfMemory);
    assert_eq!(status(d.malloc_async(1 << 60, S0)), Status::OutOfMemory);
    assert_eq!(status(d.malloc_async(1, StreamHandle::default_of(no))), Status::InvalidHandle);
    assert_eq!(status(d.mem_pool_info(no)), Status::InvalidDevice);
    assert_eq!(status(d.mem_pool_reset_peaks(no)), Status::InvalidDevice);
    assert_eq!(status(d.mem_pool_trim(no, 0)), Status::InvalidDevice);
    assert_eq!(status(d.mem_pool_set_release_threshold(no, 0)), Status::InvalidDevice);
    assert_eq!(status(d.mem_pool_set_access(0, no)), Status::InvalidDevice);
    assert_eq!(status(d.graph_memory_info(no)), Status::InvalidDevice);
    assert_eq!(status(d.graph_memory_reset_peaks(no)), Status::InvalidDevice);
    let plain = d.malloc(0, 64).unwrap();
    assert_eq!(status(free_async(d, plain, S0)), Status::InvalidValue);
    free(d, plain).unwrap();
    let stream = d.stream_create(0, 0).unwrap();
    let ptr = d.malloc_async(64, stream).unwrap();
    assert_eq!(status(free(d, ptr)), Status::InvalidValue);
    assert_eq!(status(free_async(d, ptr.offset(1), stream)), Status::InvalidValue);
    free_async(d, ptr, stream).unwrap();
    assert_eq!(status(free_async(d, ptr, stream)), Status::InvalidValue);
    d.stream_synchronize(stream).unwrap();
    d.stream_destroy(stream).unwrap();
    assert_eq!(status(d.malloc_async(64, stream)), Status::InvalidHandle);
}

/// Memory of the program's own, pinned for a while.
pub(crate) fn registered_memory_is_pinned_once(d: &dyn Driver) {
    let own = Box::leak(vec![0_u8; 8192].into_boxed_slice());
    let ptr = std::ptr::NonNull::from(&mut own[0]);
    // SAFETY: the memory is leaked, and no work uses it.
    let (register, unregister) =
        (|bytes| unsafe { d.host_register(ptr, bytes) }, || unsafe { d.host_unregister(ptr) });
    assert_eq!(status(unregister()), Status::InvalidValue);
    assert_eq!(status(register(0)), Status::InvalidValue);
    assert_eq!(status(register(u64::MAX)), Status::InvalidValue);
    register(8192).unwrap();
    assert_eq!(status(register(1)), Status::AlreadyMapped);
    // SAFETY: no work uses the memory.
    assert_eq!(status(unsafe { d.host_free(ptr) }), Status::InvalidValue);
    unregister().unwrap();
    assert_eq!(status(unregister()), Status::InvalidValue);
}

#[test]
fn a_range_serves_its_length_on_its_stream_or_once_the_free_is_over() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).log_calls(100));
    sim.mem_pool_set_release_threshold(0, u64::MAX).unwrap();
    let other = sim.stream_create(0, 0).unwrap();
    let first = sim.malloc_async(2 * MIB, S0).unwrap();
    free_async(&*sim, first, S0).unwrap();
    let second = sim.malloc_async(2 * MIB, other).unwrap();
    assert_ne!(second, first, "the free is not over");
    assert_eq!(sim.malloc_async(MIB, S0).unwrap(), first, "it is in the stream's order");
    assert_ne!(sim.malloc_async(3 * MIB, S0).unwrap(), first, "another length");
    free_async(&*sim, first, S0).unwrap();
    sim.mem_pool_trim(0, 0).unwrap();
    sim.complete_stream(S0);
    assert_eq!(sim.malloc_async(2 * MIB, other).unwrap(), first, "a trim keeps what is not over");
    let reserved: Vec<_> = sim
        .take_calls()
        .into_iter()
        .filter(|c| c.name.starts_with("mem_pool_re"))
        .map(|c| c.bytes / MIB)
        .collect();
    assert_eq!(reserved, [2, 2, 4]);
}

#[test]
fn a_synchronise_gives_back_what_is_beyond_the_threshold() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    let hold = |threshold| {
        sim.mem_pool_set_release_threshold(0, threshold).unwrap();
        let ptrs = [4, 4, 6].map(|mib| sim.malloc_async(mib * MIB, S0).unwrap());
        for ptr in ptrs {
            free_async(&*sim, ptr, S0).unwrap();
        }
        sim.stream_synchronize(S0).unwrap();
        sim.mem_pool_info(0).unwrap().reserved / MIB
    };
    assert_eq!(hold(0), 0);
    assert_eq!(hold(8 * MIB), 6, "the lowest addresses go first");
    assert_eq!(hold(u64::MAX), 14);
}

/// 40 of 64 MiB are freed on a stream that has not come to it; another stream then asks for 48, and for too much.
fn room_for_another_stream(frugal_pools: bool) -> (Result<DevicePtr>, Vec<(&'static str, u64)>) {
    let machine = SimConfig { frugal_pools, ..SimConfig::with_bytes(64 * MIB) };
    let sim = SimDriver::new(machine.log_calls(100));
    sim.mem_pool_set_release_threshold(0, u64::MAX).unwrap();
    let other = sim.stream_create(0, 0).unwrap();
    let kept = sim.malloc_async(4 * MIB, S0).unwrap();
    for mib in [8, 32] {
        let ptr = sim.malloc_async(mib * MIB, S0).unwrap();
        fill(&*sim, ptr, 1, mib * MIB, S0).unwrap();
        free_async(&*sim, ptr, S0).unwrap();
    }
    sim.take_calls();
    assert_eq!(status(sim.malloc_async(62 * MIB, other)), Status::OutOfMemory);
    assert_eq!(sim.mem_pool_info(0).unwrap().reserved, 44 * MIB, "nothing goes back for what cannot be had");
    let answer = sim.malloc_async(48 * MIB, other);
    fill(&*sim, kept, 2, 4 * MIB, S0).unwrap();
    sim.complete_all();
    assert_eq!(sim.take_faults(), []);
    let moved = sim.take_calls().into_iter().filter(|call| call.name.starts_with("mem_pool_re"));
    (answer, moved.filter(|call| call.status.is_none()).map(|call| (call.name, call.bytes / MIB)).collect())
}

#[test]
fn a_request_that_finds_no_room_has_freed_ranges_given_back() {
    let (answer, moved) = room_for_another_stream(true);
    answer.unwrap();
    let expected = [("mem_pool_release", 8), ("mem_pool_release", 32), ("mem_pool_reserve", 48)];
    assert_eq!(moved, expected);
    let (answer, moved) = room_for_another_stream(false);
    assert_eq!((status(answer), moved), (Status::OutOfMemory, vec![]));
}

#[test]
fn what_a_pool_is_short_of_it_takes_first_from_frees_that_are_over() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).frugal_pools());
    sim.mem_pool_set_release_threshold(0, u64::MAX).unwrap();
    let (late, other) = (sim.stream_create(0, 0).unwrap(), sim.stream_create(0, 0).unwrap());
    for stream in [late, S0] {
        let ptr = sim.malloc_async(30 * MIB, stream).unwrap();
        free_async(&*sim, ptr, stream).unwrap();
    }
    sim.complete_stream(S0);
    sim.malloc_async(34 * MIB, other).unwrap();
    assert!(!sim.stream_query(late).unwrap(), "nothing had to be waited for");
    assert_eq!(sim.mem_pool_info(0).unwrap().reserved, 64 * MIB);
}

#[test]
fn a_frugal_pool_holds_many_small_ranges() {
    let sim = SimDriver::new(SimConfig::with_bytes(4 * MIB).frugal_pools());
    let mut live: Vec<_> = (0..1000).map(|_| sim.malloc_async(1000, S0).unwrap()).collect();
    assert_eq!(sim.mem_pool_info(0).unwrap().reserved, 1000 * 1024);
    live.push(sim.malloc_async(3 * MIB, S0).unwrap());
    assert_eq!(status(sim.malloc_async(MIB, S0)), Status::OutOfMemory);
    for ptr in live {
        free_async(&*sim, ptr, S0).unwrap();
    }
    sim.malloc_async(4 * MIB, S0).unwrap();
}

#[test]
fn work_behind_a_free_and_unordered_work_fault() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    let other = sim.stream_create(0, 0).unwrap();
    let ptr = sim.malloc_async(4096, S0).unwrap();
    fill(&*sim, ptr, 1, 4096, S0).unwrap();
    free_async(&*sim, ptr, S0).unwrap();
    fill(&*sim, ptr, 2, 1, S0).unwrap();
    // The earlier life was longer than the next.
    assert_eq!(sim.malloc_async(1024, S0).unwrap(), ptr);
    fill(&*sim, ptr, 3, 1025, S0).unwrap();
    fill(&*sim, ptr, 4, 1024, S0).unwrap();
    sim.complete_all();
    let faults: Vec<_> = sim.take_faults().into_iter().map(|f| (f.fault, f.range.unwrap().bytes)).collect();
    assert_eq!(faults, [(AccessFault::Replaced, 1), (AccessFault::NotLive, 1025)]);
    sim.device_synchronize(0).unwrap_err();
    assert_eq!(read(&*sim, ptr, 1, S0), [4]);
    // What another stream still has of an earlier life is not ordered before the free.
    fill(&*sim, ptr, 5, 1, other).unwrap();
    free_async(&*sim, ptr, S0).unwrap();
    sim.complete_stream(S0);
    assert_eq!(sim.malloc_async(1024, S0).unwrap(), ptr);
    sim.complete_all();
    let faults: Vec<_> = sim.take_faults().into_iter().map(|f| f.fault).collect();
    assert_eq!(faults, [AccessFault::Replaced]);
}

#[test]
fn a_peer_reaches_a_pool_when_the_pool_lets_it_in() {
    let sim = SimDriver::new(SimConfig::with_devices(2, 64 * MIB));
    let (ptr, there) = (sim.malloc_async(64, S0).unwrap(), StreamHandle::default_of(1));
    sim.enable_peer_access(1, 0).unwrap();
    let touch = || {
        fill(&*sim, ptr, 1, 1, there).unwrap();
        sim.complete_all();
        sim.take_faults().into_iter().map(|f| f.fault).collect::<Vec<_>>()
    };
    assert_eq!(touch(), [AccessFault::NoPeerAccess], "peer access is malloc's memory alone");
    sim.mem_pool_set_access(0, 1).unwrap();
    assert_eq!(touch(), []);
}
