//! The allocator of pinned host memory.
#![expect(unsafe_code, reason = "copies between pinned memory that is kept and memory that lives")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_core::allocator::get_pinned_allocator;
use c10_core::hooks::DeviceHooks;
use c10_core::{DataPtr, Device, DeviceType, Stream};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, Checked, CopyEnd, DevicePtr, Driver, Status};
use c10_cuda::{
    CachingAllocator, Config, CudaHooks, CudaStream, ErrorKind, PinnedAllocator, PinnedConfig, Runtime,
};

use crate::machine::{STRANGE, machine};
use crate::support::MIB;

struct Rig {
    sim: Arc<SimDriver>,
    runtime: Runtime,
    pinned: PinnedAllocator,
}

impl Rig {
    fn new() -> Self {
        Self::with("")
    }

    fn with(settings: &str) -> Self {
        let mut machine = SimConfig::with_devices(2, 64 * MIB).log_calls(1000);
        machine.pinned_bytes = 64 * MIB;
        Self::on(machine, Config::parse(settings).unwrap().pinned)
    }

    fn on(machine: SimConfig, config: PinnedConfig) -> Self {
        let sim = SimDriver::new(machine);
        let runtime = Runtime::new(Checked::strict(sim.clone()));
        let pinned = PinnedAllocator::new(runtime.clone(), config).unwrap();
        Self { sim, runtime, pinned }
    }

    #[track_caller]
    fn allocate(&self, bytes: u64) -> DataPtr {
        self.pinned.allocate(bytes).unwrap()
    }

    fn stream(&self, device: u8) -> Stream {
        self.runtime.stream_from_pool(device, 0).unwrap()
    }

    /// Frees a block that a stream uses.
    fn free_used_on(&self, ptr: DataPtr, stream: Stream) -> usize {
        assert!(self.pinned.record_event(&ptr, stream).unwrap());
        address(&ptr)
    }

    fn complete(&self, stream: Stream) {
        self.sim.complete_stream(self.runtime.handle(stream).unwrap());
    }

    fn held(&self) -> u64 {
        self.pinned.stats().allocated_bytes.current as u64
    }

    fn names(&self) -> Vec<&'static str> {
        self.sim
            .take_calls()
            .into_iter()
            .map(|call| call.name)
            .filter(|name| name.starts_with("host"))
            .collect()
    }
}

fn address(ptr: &DataPtr) -> usize {
    ptr.as_ptr().addr()
}

#[test]
fn a_block_is_reused_by_requests_of_its_class() {
    let rig = Rig::new();
    let ptr = rig.allocate(5000);
    assert_eq!((address(&ptr) % 64, ptr.device()), (0, Device::CPU));
    // SAFETY: the memory is live, this long and initialised.
    assert!(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), 5000) }.iter().all(|&b| b == 0));
    let at = address(&ptr);
    drop(ptr);
    assert_eq!(address(&rig.allocate(4097)), at);
    assert_ne!(address(&rig.allocate(4096)), at, "a smaller class");
    assert_ne!(address(&rig.allocate(8193)), at, "a larger class");
    assert_eq!(rig.held(), 8192 + 4096 + 16384);
    assert!(rig.allocate(0).is_null());
}

#[test]
fn the_newest_block_of_a_class_comes_first() {
    let rig = Rig::new();
    let (a, b) = (rig.allocate(100), rig.allocate(100));
    let places = [address(&a), address(&b)];
    drop(a);
    drop(b);
    let again = [rig.allocate(65), rig.allocate(128)];
    assert_eq!(again.each_ref().map(address), [places[1], places[0]]);
}

#[test]
fn a_block_that_a_stream_uses_waits_for_it() {
    let rig = Rig::new();
    let stream = rig.stream(0);
    let at = rig.free_used_on(rig.allocate(100), stream);
    assert_ne!(address(&rig.allocate(100)), at);
    assert_eq!(rig.pinned.stats().active_requests.current, 1, "it counts as active until then");
    rig.complete(stream);
    rig.pinned.process_events().unwrap();
    assert_eq!(rig.pinned.stats().active_requests.current, 0);
    assert_eq!(address(&rig.allocate(100)), at);
}

/// Case 19: reserved bytes stay within twice what is asked for, and small requests leave large blocks alone.
#[test]
fn rounding_is_bounded_and_small_requests_take_no_large_block() {
    let rig = Rig::new();
    let five = rig.allocate(5 * MIB);
    assert_eq!(rig.held(), 8 * MIB);
    drop(five);
    let four = rig.allocate(4 * MIB);
    assert_eq!(rig.held(), 12 * MIB);
    let at = address(&four);
    drop(four);
    let small = rig.allocate(1);
    assert_eq!(rig.held(), 12 * MIB + 1);
    assert_eq!(address(&rig.allocate(4 * MIB)), at);
    drop(small);
    // Above the threshold a request takes what it asks for.
    let rig = Rig::with("pinned_max_round_threshold_mb:2");
    let _five = rig.allocate(5 * MIB);
    assert_eq!(rig.held(), 5 * MIB);
    let at = address(&rig.allocate(7 * MIB));
    let eight = rig.allocate(8 * MIB);
    assert_ne!(address(&eight), at, "the block of its class is too small");
    assert_eq!(address(&rig.allocate(6 * MIB)), at);
}

#[test]
fn whatever_is_asked_for_costs_less_than_twice_as_much() {
    let mut asked = 1_u64;
    for step in 0..40_u64 {
        asked = asked.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step) % (4 * MIB) + 1;
        let rig = Rig::new();
        let _held = rig.allocate(asked);
        assert!(rig.held() < 2 * asked && rig.held() >= asked, "{asked} took {}", rig.held());
    }
}

/// Case 20: a stream that never gets on holds back what it uses, and nothing else.
#[test]
fn a_stuck_stream_holds_back_no_other() {
    let rig = Rig::new();
    let streams = [rig.stream(0), rig.stream(0), rig.stream(1)];
    let blocks = [rig.allocate(1000), rig.allocate(1000), rig.allocate(1000)];
    let places: Vec<usize> =
        blocks.into_iter().zip(streams).map(|(ptr, stream)| rig.free_used_on(ptr, stream)).collect();
    rig.complete(streams[1]);
    rig.complete(streams[2]);
    let (first, second) = (rig.allocate(1000), rig.allocate(1000));
    let back = [address(&first), address(&second)];
    assert!(places[1..].iter().all(|at| back.contains(at)), "{back:x?} of {places:x?}");
    assert_ne!(address(&rig.allocate(1000)), places[0]);
}

/// Case 22: events are the stream's device's, whichever is current.
#[test]
fn an_event_is_made_and_recorded_on_the_streams_device() {
    let rig = Rig::new();
    let stream = rig.stream(1);
    rig.sim.take_calls();
    rig.runtime.set_device(0).unwrap();
    rig.free_used_on(rig.allocate(64), stream);
    let events: Vec<_> = rig
        .sim
        .take_calls()
        .into_iter()
        .filter(|call| call.name.starts_with("event"))
        .map(|call| (call.name, call.device, call.event.unwrap().device))
        .collect();
    assert_eq!(events, [("event_create", 1, 1), ("event_record", 1, 1)]);
}

#[test]
fn a_block_of_several_streams_waits_for_all_and_events_are_used_again() {
    let rig = Rig::new();
    let streams = [rig.stream(0), rig.stream(1)];
    for _ in 0..3 {
        let ptr = rig.allocate(64);
        for stream in streams {
            // Again is once.
            rig.pinned.record_event(&ptr, stream).unwrap();
            rig.pinned.record_event(&ptr, stream).unwrap();
        }
        let at = address(&ptr);
        drop(ptr);
        rig.complete(streams[0]);
        assert_ne!(address(&rig.allocate(64)), at);
        rig.complete(streams[1]);
        rig.pinned.process_events().unwrap();
    }
    assert_eq!(rig.sim.call_count("event_create"), 2);
    assert_eq!(rig.sim.call_count("event_record"), 6);
}

#[test]
fn memory_is_known_by_its_owner_or_its_first_address() {
    let rig = Rig::new();
    let stream = rig.stream(0);
    let ptr = rig.allocate(64);
    assert!(rig.pinned.record_event_at(ptr.as_ptr(), stream).unwrap());
    assert!(!rig.pinned.record_event_at(ptr.as_ptr().wrapping_add(1), stream).unwrap());
    assert!(rig.pinned.is_pinned(ptr.as_ptr().wrapping_add(63)));
    assert!(!rig.pinned.is_pinned(ptr.as_ptr().wrapping_add(64)));
    let other = Rig::new();
    assert!(!other.pinned.record_event(&ptr, other.stream(0)).unwrap(), "another allocator's");
    let plain = DataPtr::from_boxed_slice(Box::new([0; 64]));
    assert!(!rig.pinned.record_event(&plain, stream).unwrap());
    assert!(!rig.pinned.is_pinned(plain.as_ptr()));
    let unknown = Stream::new(DeviceType::Cuda, 9, stream.id());
    assert_eq!(rig.pinned.record_event(&ptr, unknown).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn the_cache_is_given_back_and_what_streams_use_is_not() {
    let rig = Rig::new();
    let stream = rig.stream(0);
    let held = rig.allocate(1000);
    rig.free_used_on(rig.allocate(2000), stream);
    drop(rig.allocate(4000));
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.held(), 1024 + 2048);
    rig.complete(stream);
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.held(), 1024);
    drop(held);
    rig.pinned.empty_cache().unwrap();
    assert_eq!((rig.held(), rig.sim.call_count("host_free")), (0, 3));
}

#[test]
fn what_is_too_large_to_cache_goes_when_it_is_free() {
    let rig = Rig::with("pinned_max_cached_size_mb:1");
    let stream = rig.stream(0);
    drop(rig.allocate(3 * MIB));
    assert_eq!(rig.held(), 0);
    rig.free_used_on(rig.allocate(3 * MIB), stream);
    assert_eq!(rig.held(), 3 * MIB, "it is not rounded, and a stream uses it");
    rig.complete(stream);
    rig.pinned.process_events().unwrap();
    assert_eq!(rig.held(), 0);
    drop(rig.allocate(MIB));
    assert_eq!(rig.held(), MIB);
}

#[test]
fn a_lack_of_memory_gives_back_the_cache_first() {
    let rig = Rig::new();
    drop(rig.allocate(32 * MIB));
    let _whole = rig.allocate(64 * MIB);
    let error = rig.pinned.allocate(3 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let numbers = error.out_of_memory().unwrap();
    assert_eq!((numbers.requested, numbers.tried, numbers.allocated), (3 * MIB, 4 * MIB, 64 * MIB));
    insta::assert_snapshot!(error, @"Pinned host memory is out. Tried to allocate 4194304 bytes for a request of 3145728. 67108864 bytes are in use, and 0 are cached.");
    for bytes in [1 << 62, u64::MAX - 1, u64::MAX] {
        assert_eq!(rig.pinned.allocate(bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
}

#[test]
fn registered_memory_is_as_good() {
    let rig = Rig::with("pinned_use_cuda_host_register:True,pinned_num_register_threads:4");
    let ptr = rig.allocate(100_000);
    // SAFETY: the memory is live, this long and initialised.
    assert!(unsafe { std::slice::from_raw_parts(ptr.as_ptr(), 100_000) }.iter().all(|&b| b == 0));
    let at = address(&ptr);
    drop(ptr);
    assert_eq!(address(&rig.allocate(100_000)), at);
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.names(), ["host_register", "host_unregister"]);
    rig.sim.set_faults(FaultRule::nth("host_register", 1, Status::OutOfMemory).into());
    rig.allocate(64);
    assert_eq!(rig.held(), 64);
}

#[test]
fn a_segment_is_pinned_once_and_cut_up() {
    let rig = Rig::with("pinned_reserve_segment_size_mb:1");
    let (a, b) = (rig.allocate(5000), rig.allocate(100));
    assert_eq!(address(&b) - address(&a), 8192, "the parts are whole pages");
    let large = rig.allocate(2 * MIB);
    assert!(address(&large) < address(&a) || address(&large) >= address(&a) + MIB as usize);
    assert_eq!(rig.sim.call_count("host_alloc"), 2);
    let at = address(&a);
    drop((a, large));
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.sim.call_count("host_free"), 1, "the segment stays");
    assert_eq!(address(&rig.allocate(8000)), at);
    let sim = rig.sim.clone();
    drop((b, rig));
    assert_eq!(sim.call_count("host_free"), 2);
}

#[test]
fn where_the_program_polls_requests_do_not() {
    let rig = Rig::with("pinned_use_background_threads:True");
    let stream = rig.stream(0);
    let at = rig.free_used_on(rig.allocate(1000), stream);
    rig.complete(stream);
    drop(rig.allocate(64));
    assert_eq!(rig.pinned.stats().active_requests.current, 1, "another class is not looked at");
    assert_eq!(address(&rig.allocate(1000)), at, "its own is, when there is nothing else");
    let at = rig.free_used_on(rig.allocate(1000), stream);
    rig.complete(stream);
    rig.pinned.process_events().unwrap();
    assert_eq!((rig.pinned.stats().active_requests.current, address(&rig.allocate(1000))), (0, at));
}

#[test]
fn memory_outlives_the_allocator_and_goes_with_its_last_block() {
    let rig = Rig::new();
    let stream = rig.stream(0);
    let (kept, used) = (rig.allocate(64), rig.allocate(64));
    drop(rig.allocate(128));
    rig.free_used_on(used, stream);
    let Rig { sim, runtime, pinned } = rig;
    drop(pinned);
    assert_eq!(sim.call_count("host_free"), 0);
    // SAFETY: the memory is live, this long, and nobody else's.
    unsafe { kept.as_ptr().write(7) };
    drop(kept);
    assert_eq!(sim.call_count("host_free"), 3, "what a stream used was waited for");
    drop(runtime);
    assert_eq!(sim.take_faults(), []);
}

#[test]
fn memory_that_is_out_outlives_the_streams_that_use_it() {
    for drops_allocator in [false, true] {
        let rig = Rig::new();
        let stream = rig.stream(0);
        let [held, again] = [(); 2].map(|()| rig.allocate(64));
        for block in [&held, &again] {
            rig.pinned.record_event(block, stream).unwrap();
        }
        let Rig { sim, runtime, pinned } = rig;
        // The allocator keeps the runtime, and blocks keep neither.
        drop(runtime);
        let pinned = (!drops_allocator).then_some(pinned);
        drop(held);
        drop(pinned);
        drop(again);
        assert_eq!(sim.call_count("host_free"), 2);
        assert_eq!(sim.call_count("event_create"), sim.call_count("event_destroy"));
        assert_eq!(sim.take_faults(), []);
    }
}

#[test]
fn a_stream_that_is_gone_is_waited_for_by_its_device() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    // A strict driver would stop the free.
    let plain = Runtime::new(sim.clone());
    let loose = PinnedAllocator::new(plain.clone(), PinnedConfig::default()).unwrap();
    drop(ptr_of_gone_stream(&sim, &plain, &loose));
    assert_eq!(loose.take_free_error().unwrap().status, Status::InvalidHandle);
    let held = loose.allocate(64).unwrap();
    assert_eq!(loose.stats().allocations.current, 2, "it is not reused");
    loose.empty_cache().unwrap();
    assert_eq!(loose.stats().allocations.current, 1, "after the device was waited for it goes");
    drop(held);
}

/// A block on which a stream was recorded that has ended since.
fn ptr_of_gone_stream(sim: &SimDriver, runtime: &Runtime, pinned: &PinnedAllocator) -> DataPtr {
    let handle = sim.stream_create(0, 0).unwrap();
    let stream = runtime.external_stream(handle).unwrap();
    let ptr = pinned.allocate(64).unwrap();
    pinned.record_event(&ptr, stream).unwrap();
    sim.stream_destroy(handle).unwrap();
    ptr
}

#[test]
fn what_a_graph_uses_is_withheld_and_captures_are_not_disturbed() {
    let rig = Rig::new();
    let (stream, other) = (rig.stream(0), rig.stream(0));
    let handle = rig.runtime.handle(stream).unwrap();
    drop(rig.allocate(32 * MIB));
    let early = rig.allocate(500);
    rig.pinned.record_event(&early, stream).unwrap();
    let waiting = rig.free_used_on(rig.allocate(2000), other);
    let driver = rig.runtime.driver();
    driver.stream_begin_capture(handle, CaptureMode::Global).unwrap();
    let inside = rig.allocate(1000);
    rig.pinned.record_event(&inside, stream).unwrap();
    let at = address(&inside);
    drop(inside);
    drop(early);
    rig.sim.complete_all();
    assert_ne!(address(&rig.allocate(1000)), at);
    assert_eq!(address(&rig.allocate(2000)), waiting, "other streams' events are asked for");
    rig.pinned.empty_cache().unwrap();
    rig.allocate(30_000_000);
    let graph = driver.stream_end_capture(handle).unwrap();
    driver.graph_destroy(graph).unwrap();
    rig.pinned.process_events().unwrap();
    rig.sim.complete_all();
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.held(), 1024, "what the stream used before is free, what the graph uses is not");
}

#[test]
fn statistics_have_pytorchs_keys() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let rig = Rig::new();
    rig.pinned.set_clock(Some(|| NOW.fetch_add(5, Ordering::Relaxed)));
    // Two of 40 KiB and one of 80, as in PyTorch's own test.
    let held = [40, 40, 80].map(|kib| rig.allocate(kib << 10));
    drop(held);
    rig.pinned.empty_cache().unwrap();
    let _again = rig.allocate(1);
    let lines: Vec<String> =
        rig.pinned.stats().keys().into_iter().map(|(key, value)| format!("{key} {value}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    active_bytes.allocated 262145
    active_bytes.current 1
    active_bytes.freed 262144
    active_bytes.peak 262144
    active_requests.allocated 4
    active_requests.current 1
    active_requests.freed 3
    active_requests.peak 3
    allocated_bytes.allocated 262145
    allocated_bytes.current 1
    allocated_bytes.freed 262144
    allocated_bytes.peak 262144
    allocations.allocated 4
    allocations.current 1
    allocations.freed 3
    allocations.peak 3
    host_alloc_time.avg 5
    host_alloc_time.count 4
    host_alloc_time.max 5
    host_alloc_time.min 5
    host_alloc_time.total 20
    host_free_time.avg 5
    host_free_time.count 3
    host_free_time.max 5
    host_free_time.min 5
    host_free_time.total 15
    num_host_alloc 4
    num_host_free 3
    ");
    rig.pinned.reset_accumulated_stats();
    rig.pinned.reset_peak_stats();
    let stats = rig.pinned.stats();
    assert_eq!((stats.num_host_alloc, stats.allocated_bytes.freed, stats.allocated_bytes.peak), (0, 0, 1));
    rig.pinned.set_clock(None);
}

#[test]
fn a_refused_call_leaves_everything_as_it_was() {
    for name in ["host_alloc", "host_free", "event_create", "event_record", "event_query", "capture_state"] {
        let rig = Rig::new();
        let stream = rig.stream(0);
        let (used, other) = (rig.allocate(100), rig.allocate(1000));
        drop(rig.allocate(5000));
        rig.pinned.record_event(&used, stream).unwrap();
        rig.sim.set_faults(FaultRule::new(name, FaultWhen::Every(1), STRANGE).into());
        let at = address(&used);
        drop(used);
        let _ = rig.pinned.allocate(64);
        let _ = rig.pinned.record_event(&other, stream);
        let _ = rig.pinned.process_events();
        let _ = rig.pinned.empty_cache();
        rig.pinned.check_invariants();
        rig.sim.set_faults(FaultPlan::new());
        assert_ne!(address(&rig.allocate(100)), at, "{name}: the stream has not passed");
        rig.pinned.process_events().unwrap();
        rig.sim.complete_all();
        rig.pinned.process_events().unwrap();
        drop(other);
        rig.sim.complete_all();
        rig.pinned.empty_cache().unwrap();
        assert_eq!(rig.held(), 0, "{name}");
    }
}

#[test]
fn random_programs_keep_the_rules_under_every_schedule() {
    for seed in 0..30_u64 {
        let mut machine = SimConfig::with_devices(2, 64 * MIB).completion(Completion::Seeded(seed));
        machine.pinned_bytes = 4 * MIB;
        let settings = [
            "",
            "pinned_max_cached_size_mb:0",
            "pinned_use_background_threads:True",
            "pinned_reserve_segment_size_mb:1",
        ];
        let rig = Rig::on(machine, Config::parse(settings[seed as usize % 4]).unwrap().pinned);
        let streams = [rig.stream(0), rig.stream(0), rig.stream(1)];
        let device = rig.sim.malloc(0, MIB).unwrap();
        let mut draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            draw % below
        };
        let mut live: Vec<DataPtr> = Vec::new();
        for _ in 0..400 {
            match next(10) {
                0..4 => live.extend(rig.pinned.allocate(1 + next(200_000)).ok()),
                4..7 if !live.is_empty() => {
                    let at = next(live.len() as u64) as usize;
                    let ptr = live.swap_remove(at);
                    upload_and_free(&rig, ptr, device, streams[next(3) as usize]);
                }
                7 if !live.is_empty() => drop(live.swap_remove(0)),
                8 => rig.pinned.process_events().unwrap(),
                9 => rig.pinned.empty_cache().unwrap(),
                _ => {}
            }
            rig.pinned.check_invariants();
        }
        live.clear();
        rig.sim.complete_all();
        rig.pinned.process_events().unwrap();
        assert_eq!(rig.pinned.stats().active_bytes.current, 0, "seed {seed}");
        assert_eq!(rig.sim.take_faults(), []);
    }
}

/// Copies out of a block, and gives it up while that is under way: its first byte is what the device must get.
fn upload_and_free(rig: &Rig, ptr: DataPtr, device: DevicePtr, stream: Stream) {
    let on = rig.runtime.handle(stream).unwrap();
    if on.device != 0 {
        return;
    }
    // SAFETY: the block is at least one byte long and nobody else's; the allocator keeps it until the event that
    // is recorded behind the copy has passed.
    unsafe {
        ptr.as_ptr().write(1);
    }
    // SAFETY: as above; the device's memory lives as long as the machine.
    unsafe { rig.sim.copy(CopyEnd::Device(device), CopyEnd::Host(ptr.as_ptr()), 1, on) }.unwrap();
    assert!(rig.pinned.record_event(&ptr, stream).unwrap());
}

#[test]
fn many_threads_share_an_allocator() {
    let machine = SimConfig::with_devices(2, 64 * MIB).completion(Completion::Seeded(3));
    let rig = Rig::on(machine, PinnedConfig::default());
    let streams = [rig.stream(0), rig.stream(1)];
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..200 {
                    let ptr = rig.allocate(64 << ((thread + round) % 5));
                    rig.pinned.record_event(&ptr, streams[(round % 2) as usize]).unwrap();
                }
            });
        }
    });
    rig.sim.complete_all();
    rig.pinned.empty_cache().unwrap();
    assert_eq!(rig.held(), 0);
}

#[test]
fn the_processs_pinned_memory_is_the_hooks() {
    let machine = machine(Completion::Manual);
    let pinned = get_pinned_allocator(DeviceType::Cuda).unwrap();
    let ptr = pinned.allocate(100).unwrap();
    assert_eq!(ptr.device(), Device::CPU);
    let stream = machine.stream(1);
    machine.hooks.record_stream(&ptr, stream).unwrap();
    let at = address(&ptr);
    drop(ptr);
    assert_ne!(address(&pinned.allocate(100).unwrap()), at);
    machine.sim.complete_all();
    assert_eq!(address(&pinned.allocate(100).unwrap()), at);
}

/// The per-thread default stream is another on each thread, and the event is recorded where the memory is given back.
#[test]
fn the_per_thread_stream_cannot_be_recorded() {
    let rig = Rig::new();
    let own = CudaStream::per_thread(&rig.runtime, 0).unwrap();
    let external = rig.runtime.external_stream(own.handle()).unwrap();
    let block = rig.pinned.allocate(5000).unwrap();
    let records = [
        rig.pinned.record_event(&block, &own),
        rig.pinned.record_event(&block, own.stream()),
        rig.pinned.record_event(&block, external),
        rig.pinned.record_event_at(block.as_ptr(), &own),
    ];
    for refused in records {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // Nor by hooks, which storages use.
    let cuda = CachingAllocator::with_runtime(rig.runtime.clone(), Config::default()).unwrap();
    let hooks = CudaHooks::new(cuda);
    let kept = hooks.pinned_allocator().allocate(100).unwrap();
    let refused = hooks.record_stream(&kept, own.stream()).unwrap_err();
    assert_eq!(refused.kind(), c10_core::ErrorKind::InvalidArgument);
    // Nothing was kept back.
    let address = block.as_ptr();
    drop(block);
    assert_eq!(rig.pinned.allocate(5000).unwrap().as_ptr(), address);
    assert_eq!(rig.sim.call_count("event_record"), 0);
}
