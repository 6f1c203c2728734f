//! Expandable segments: how they grow and shrink, what is counted and told, and what comes of failures on the way.

use c10_core::{DataPtr, DeviceType, Stream};
use c10_cuda::alloc::{History, SegmentInfo, TraceAction};
use c10_cuda::driver::sim::{Call, FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, Error, ErrorKind};
use proptest::prelude::*;

use crate::program::{config, keeps_the_rules, loses_nothing_in_faults, ops};
use crate::rig::{GIB, MIB, Rig, address};

const EXPANDABLE: &str = "expandable_segments:True";

fn rig(bytes: u64) -> Rig {
    Rig::with(bytes, EXPANDABLE)
}

/// The names of the driver's calls about memory since the last time, with their sizes in MiB.
fn calls(rig: &Rig) -> String {
    let shown = |call: &Call| {
        let name = match call.name {
            "set_access" => return None,
            "reserve" | "free_range" | "create" | "release" | "map" | "unmap" | "malloc" | "free" => {
                call.name
            }
            _ => return None,
        };
        let failed = if call.status.is_some() { "!" } else { "" };
        Some(format!("{failed}{name} {}", call.bytes / MIB))
    };
    rig.sim.take_calls().iter().filter_map(shown).collect::<Vec<_>>().join(", ")
}

fn segments(rig: &Rig) -> Vec<SegmentInfo> {
    rig.cuda.snapshot(false).segments
}

#[test]
fn a_segment_grows_by_pages_and_free_memory_at_its_end_is_used_up_first() {
    let rig = rig(GIB);
    let a = rig.allocate(3 * MIB);
    assert_eq!(calls(&rig), "reserve 1160, create 20, map 20");
    let b = rig.allocate(18 * MIB);
    assert_eq!(calls(&rig), "create 20, map 20");
    assert_eq!(address(&b), address(&a) + 3 * MIB, "the 17 MiB that were free are a part of it");
    let stats = rig.stats();
    assert_eq!(stats.reserved_bytes.all.current, 40 * MIB as i64);
    assert_eq!((stats.segment.all.allocated, stats.inactive_split.all.allocated), (0, 0));
    assert_eq!((stats.num_device_alloc, stats.num_device_free), (2, 0));
    let small = rig.allocate(1);
    assert_eq!(calls(&rig), "reserve 1152, create 2, map 2", "small requests have a segment of small pages");
    drop((a, b, small));
    rig.cuda.empty_cache().unwrap();
    assert_eq!(
        calls(&rig),
        "unmap 20, release 20, unmap 20, release 20, free_range 1160, unmap 2, release 2, free_range 1152"
    );
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
    assert_eq!(rig.stats().num_device_free, 2, "a row of pages is given back at once");
}

/// Case 26: with pages of 20 MiB, eight times 16 MiB and then four times 32 MiB are 140 MiB.
#[test]
fn larger_requests_find_what_smaller_ones_left() {
    let rig = rig(GIB);
    let blocks: Vec<_> = (0..8).map(|_| rig.allocate(16 * MIB)).collect();
    assert_eq!(rig.reserved(), 140 * MIB);
    drop(blocks);
    let blocks: Vec<_> = (0..4).map(|_| rig.allocate(32 * MIB)).collect();
    assert_eq!(rig.reserved(), 140 * MIB);
    assert_eq!(rig.stats().num_device_alloc, 7);
    drop(blocks);
}

/// Case 25 is the same without growth: 256 MiB for 128.
#[test]
fn segments_of_fixed_size_do_not_and_the_order_decides() {
    let serve = |rig: &Rig, count: u64, mib: u64| {
        drop((0..count).map(|_| rig.allocate(mib * MIB)).collect::<Vec<_>>());
    };
    let rising = Rig::new(GIB);
    serve(&rising, 8, 16);
    serve(&rising, 4, 32);
    assert_eq!(rising.reserved(), 256 * MIB);
    let falling = Rig::new(GIB);
    serve(&falling, 4, 32);
    serve(&falling, 8, 16);
    assert_eq!(falling.reserved(), 128 * MIB);
    let growing = rig(GIB);
    serve(&growing, 4, 32);
    serve(&growing, 8, 16);
    assert_eq!(growing.reserved(), 140 * MIB);
}

#[test]
fn only_pages_without_a_block_are_given_back_and_the_hole_is_filled_again() {
    let rig = rig(GIB);
    let a = rig.allocate(30 * MIB);
    let b = rig.allocate(50 * MIB);
    let c = rig.allocate(20 * MIB);
    let first = address(&a);
    drop(b);
    calls(&rig);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(calls(&rig), "unmap 20, release 20, unmap 20, release 20");
    let [head, tail] = &segments(&rig)[..] else { panic!("two rows of mapped pages") };
    assert!(head.is_expandable && tail.is_expandable);
    assert_eq!((head.address.0, head.total_size), (first, 40 * MIB));
    assert_eq!((tail.address.0, tail.total_size), (first + 80 * MIB, 20 * MIB));
    assert_eq!(tail.registration_counter, head.registration_counter);
    let b = rig.allocate(50 * MIB);
    assert_eq!(address(&b), first + 30 * MIB);
    assert_eq!(calls(&rig), "create 20, create 20, map 20, map 20");
    drop((a, b, c));
}

#[test]
fn the_trace_tells_of_mappings() {
    let rig = rig(GIB);
    rig.cuda.record_history(Some(History { max_entries: 100, ..History::default() }));
    drop(rig.allocate(3 * MIB));
    rig.cuda.empty_cache().unwrap();
    let trace = rig.cuda.snapshot(true).device_traces.swap_remove(0);
    let told: Vec<_> = trace.iter().map(|entry| (entry.action, entry.size / MIB)).collect();
    let expected = [
        (TraceAction::SegmentMap, 20),
        (TraceAction::Alloc, 3),
        (TraceAction::FreeRequested, 3),
        (TraceAction::FreeCompleted, 3),
        (TraceAction::SegmentUnmap, 20),
    ];
    assert_eq!(told, expected);
    assert_eq!(TraceAction::SegmentMap.to_string(), "segment_map");
}

#[test]
fn a_shortage_keeps_what_was_mapped_and_serves_the_next_request_with_it() {
    let rig = rig(64 * MIB);
    let held = rig.allocate(30 * MIB);
    let error = rig.cuda.allocate(40 * MIB).unwrap_err();
    insta::assert_snapshot!(error, @"CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 24.00 MiB is free. Of the allocated memory 30.00 MiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated. expandable_segments is enabled. If instead the process is running out of virtual address space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of device memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / expandable_segments_reserve_by_class.");
    assert_eq!((rig.reserved(), rig.driver_used()), (40 * MIB, 40 * MIB));
    let more = rig.allocate(29 * MIB);
    assert_eq!(address(&more), address(&held) + 30 * MIB);
    drop((held, more));
}

#[test]
fn a_reserve_bounds_a_segment_and_the_text_says_so() {
    let settings = "expandable_segments:True,expandable_segments_reserve:0.4,\
                    expandable_segments_reserve_by_class:[comm:0.75,other:1G]";
    let rig = Rig::with(64 * MIB, settings);
    let error = rig.cuda.allocate(50 * MIB).unwrap_err();
    let text = |error: &Error| error.to_string().split("unallocated.").last().unwrap().to_owned();
    insta::assert_snapshot!(text(&error), @" This allocation exceeds the expandable-segment reserve of 25.60 MiB for this stream, and a single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a segment is at least 50.00 MiB.");
    assert_eq!(calls(&rig), "reserve 40, free_range 40, reserve 40, free_range 40");
    let side = rig.stream();
    rig.cuda.set_expandable_reserve_class(side, "comm").unwrap();
    let error = rig.cuda.allocate_on(62 * MIB, side).unwrap_err();
    insta::assert_snapshot!(text(&error), @" This allocation exceeds the expandable-segment reserve of 48.00 MiB for stream reserve class 'comm', and a single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a segment is at least 62.00 MiB.");
    drop(rig.cuda.allocate_on(50 * MIB, side).unwrap());
    rig.cuda.set_expandable_reserve_class(side, "").unwrap();
    rig.cuda.empty_cache().unwrap();
    assert!(rig.cuda.allocate_on(50 * MIB, side).is_err(), "in no class any more");
    let unknown = Stream::default_of(DeviceType::Cuda, 7);
    let error = rig.cuda.set_expandable_reserve_class(unknown, "comm").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_lack_of_addresses_is_no_lack_of_memory() {
    let machine = SimConfig { reservable_bytes: 3 * GIB, ..SimConfig::with_bytes(GIB) };
    let rig = Rig::with_config(machine, Config::parse(EXPANDABLE).unwrap());
    let held = [rig.allocate(MIB), rig.allocate(2 * MIB)];
    let error = rig.cuda.allocate_on(MIB, rig.stream()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Driver);
    assert_eq!(error.driver().unwrap().call, "reserve");
    insta::assert_snapshot!(error, @"There are no addresses for another expandable segment of 1.12 GiB on device 0, which has 2 of them with 2.26 GiB of addresses. This is no lack of memory: set expandable_segments_reserve or expandable_segments_reserve_by_class, or use fewer streams and pools.");
    drop(held);
    rig.cuda.empty_cache().unwrap();
    drop(rig.cuda.allocate_on(MIB, rig.stream()).unwrap());
}

/// Case 4: a growth by five pages fails at any of its calls. It leaves nothing, and the next request is served.
#[test]
fn growth_that_fails_anywhere_is_undone() {
    for status in [Status::OutOfMemory, Status::Other(999)] {
        for (call, count) in [("create", 5), ("map", 5), ("set_access", 1)] {
            for nth in 1..=count {
                let rig = rig(GIB);
                let held = rig.allocate(10 * MIB);
                // Every growth meets it, so that the ladder down to out of memory gives no block.
                let rule = |nth| FaultRule::nth(call, nth, status);
                let rules = (0..2).map(|round| rule(nth * (round + 1)));
                rig.sim.set_faults(rules.fold(FaultPlan::new(), FaultPlan::rule));
                let error = rig.cuda.allocate(100 * MIB).unwrap_err();
                let what = format!("{call} #{nth} {status}");
                let expected =
                    if status == Status::OutOfMemory { ErrorKind::OutOfMemory } else { ErrorKind::Driver };
                assert_eq!(error.kind(), expected, "{what}");
                assert_eq!((rig.reserved(), rig.driver_used()), (20 * MIB, 20 * MIB), "{what}");
                rig.cuda.check_invariants();
                rig.sim.set_faults(FaultPlan::new());
                let next = rig.allocate(100 * MIB);
                assert_eq!(address(&next), address(&held) + 10 * MIB, "{what}");
                drop((held, next));
                rig.cuda.empty_cache().unwrap();
                assert_eq!(rig.driver_used(), 0, "{what}");
            }
        }
    }
}

/// The way back may fail too: the pages come free when the driver answers again.
#[test]
fn a_failed_way_back_is_gone_again_later() {
    for (call, again) in [("unmap", Status::Other(7)), ("release", Status::Other(7))] {
        let rig = rig(GIB);
        let held = rig.allocate(10 * MIB);
        let plan = FaultPlan::new()
            .rule(FaultRule::nth("set_access", 1, Status::Other(5)))
            .rule(FaultRule::new(call, FaultWhen::Every(1), again).times(3));
        rig.sim.set_faults(plan);
        assert_eq!(rig.cuda.allocate(100 * MIB).unwrap_err().driver().unwrap().call, "set_access");
        assert_eq!(rig.reserved(), 20 * MIB);
        assert_eq!(rig.driver_used(), (20 + 3 * 20) * MIB, "{call}: three pages are stuck");
        let next = rig.allocate(100 * MIB);
        drop((held, next));
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.driver_used(), 0, "{call}");
    }
}

#[test]
fn pages_that_the_driver_keeps_stay_counted() {
    let rig = rig(GIB);
    drop(rig.allocate(100 * MIB));
    rig.sim.set_faults(FaultPlan::from(FaultRule::nth("unmap", 3, Status::Other(7))));
    assert_eq!(rig.cuda.empty_cache().unwrap_err().driver().unwrap().call, "unmap");
    assert_eq!((rig.reserved(), rig.driver_used()), (60 * MIB, 60 * MIB));
    rig.cuda.check_invariants();
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

/// The handles of streams and devices that were waited for before anything was unmapped.
fn waits_before_unmap(calls: &[Call]) -> Vec<(&'static str, u8, Option<StreamHandle>)> {
    let upto = calls.iter().position(|call| call.name == "unmap").unwrap();
    let waits = calls[..upto].iter().filter(|call| call.name.ends_with("synchronize"));
    waits.map(|call| (call.name, call.device, call.stream)).collect()
}

/// Case 5: the wait before unmapping is for the device that owns the memory, whichever is current.
#[test]
fn unmapping_waits_on_the_owning_device() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::parse(EXPANDABLE).unwrap());
    let work = Stream::default_of(DeviceType::Cuda, 1);
    let ptr = rig.cuda.allocate_on(MIB, work).unwrap();
    let handle = rig.handle(work);
    crate::support::fill(&*rig.sim, c10_cuda::driver::DevicePtr(address(&ptr)), 1, MIB, handle).unwrap();
    drop(ptr);
    rig.runtime.set_device(0).unwrap();
    rig.sim.take_calls();
    rig.cuda.empty_cache().unwrap();
    assert_eq!(waits_before_unmap(&rig.sim.take_calls()), [("stream_synchronize", 1, Some(handle))]);
    assert!(rig.sim.take_faults().is_empty(), "the fill had run when its memory went");
}

#[test]
fn where_the_stream_is_gone_the_device_is_waited_for() {
    let rig = rig(GIB);
    let handle = rig.sim.stream_create(0, 0).unwrap();
    let side = rig.runtime.external_stream(handle).unwrap();
    drop(rig.cuda.allocate_on(MIB, side).unwrap());
    rig.sim.stream_destroy(handle).unwrap();
    rig.sim.take_calls();
    rig.cuda.empty_cache().unwrap();
    let waits = waits_before_unmap(&rig.sim.take_calls());
    assert_eq!(
        waits.iter().map(|wait| wait.0).collect::<Vec<_>>(),
        ["stream_synchronize", "device_synchronize"]
    );
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn streams_have_segments_of_their_own_and_events_are_waited_for() {
    let rig = rig(GIB);
    let side = rig.stream();
    let a = rig.allocate(20 * MIB);
    let b = rig.cuda.allocate_on(20 * MIB, side).unwrap();
    assert_eq!(address(&b) - address(&a), 1160 * MIB);
    rig.cuda.record_stream(&a, side).unwrap();
    let place = address(&a);
    drop(a);
    assert_ne!(address(&rig.allocate(20 * MIB)), place, "the other stream may still use it");
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 20 * MIB, "empty_cache has waited for it");
    drop(b);
}

#[test]
fn peers_reach_what_is_mapped_and_what_will_be() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::parse(EXPANDABLE).unwrap());
    let there = Stream::default_of(DeviceType::Cuda, 1);
    let launch = |ptr: &DataPtr| {
        let range = crate::support::range(c10_cuda::driver::DevicePtr(address(ptr)), 512);
        crate::support::launch(&*rig.sim, rig.handle(there), "reads", &[range], &[], |_| ()).unwrap();
        rig.cuda.record_stream(ptr, there).unwrap();
        rig.sim.complete_all();
        rig.sim.take_faults().len()
    };
    let before = rig.allocate(20 * MIB);
    rig.cuda.enable_peer_access(1, 0).unwrap();
    rig.cuda.enable_peer_access(1, 0).unwrap();
    let after = rig.allocate(20 * MIB);
    let other = rig.cuda.allocate_on(20 * MIB, rig.stream()).unwrap();
    assert_eq!([&before, &after, &other].map(launch), [0; 3]);
    let wrong = rig.cuda.enable_peer_access(2, 0).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_device_that_was_not_let_in_reaches_nothing() {
    let sim = SimDriver::new(SimConfig::with_devices(2, GIB));
    let cuda = CachingAllocator::new(sim.clone(), Config::parse(EXPANDABLE).unwrap()).unwrap();
    let ptr = cuda.allocate(MIB).unwrap();
    let range = crate::support::range(c10_cuda::driver::DevicePtr(address(&ptr)), 512);
    crate::support::launch(&*sim, StreamHandle::default_of(1), "reads", &[range], &[], |_| ()).unwrap();
    sim.complete_all();
    assert_eq!(sim.take_faults().len(), 1);
}

#[test]
fn the_base_of_an_expandable_block_is_no_allocation_of_the_driver() {
    let rig = rig(GIB);
    let ptr = rig.allocate(1);
    assert_eq!(rig.cuda.base_allocation(&ptr).unwrap_err().kind(), ErrorKind::NotImplemented);
}

#[test]
fn held_memory_outlives_the_allocator_and_then_all_goes() {
    let rig = rig(GIB);
    let held = rig.allocate(30 * MIB);
    let Rig { sim, runtime, cuda, watch: _watch } = rig;
    drop((runtime, cuda));
    assert_eq!(GIB - sim.memory_info(0).unwrap().free, 40 * MIB);
    drop(held);
    assert_eq!(sim.memory_info(0).unwrap().free, GIB);
    assert_eq!(sim.call_count("reserve"), sim.call_count("free_range"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The rules hold after every step, and at the end everything goes back.
    #[test]
    fn random_programs_keep_the_rules(settings in config(), ops in ops(120)) {
        keeps_the_rules(Config { expandable_segments: true, ..settings }, &ops);
    }

    /// Faults at random change nothing about that.
    #[test]
    fn random_faults_lose_nothing(seed in any::<u64>(), ops in ops(80)) {
        let calls = ["create", "map", "set_access", "unmap", "release", "reserve", "free_range", "stream_synchronize"];
        loses_nothing_in_faults(Config::parse(EXPANDABLE).unwrap(), &calls, seed, &ops);
    }
}
