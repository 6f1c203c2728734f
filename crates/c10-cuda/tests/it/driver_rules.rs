//! The rules of [`Driver`], as one suite that every driver passes.
#![expect(unsafe_code, reason = "frees pinned memory that nothing uses")]
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use std::ptr::NonNull;
use std::sync::Arc;

use c10_cuda::driver::sim::{Completion, SimConfig, SimDriver};
use c10_cuda::driver::{
    CaptureState, Checked, DevicePtr, Driver, DriverError, EventFlags, EventHandle, KernelMemory, PhysHandle,
    Record, Status, StreamHandle, VaRange,
};

use crate::support::{Download, MIB, copy, fill, free, free_range, launch, range, read, unmap, upload};
use crate::{capture_rules, graph_rules, module_rules, pool_rules, stream_rules};

const S0: StreamHandle = StreamHandle::default_of(0);
const TIMED: EventFlags = EventFlags { timing: true, blocking_sync: false, interprocess: false };

fn status<T>(result: Result<T, DriverError>) -> Status {
    result.err().expect("the call ought to fail").status
}

/// A rule, and whether it can be asked of every driver or of the simulator alone, which runs bodies of the host's and
/// is several processes.
enum Rule {
    Any(fn(&dyn Driver)),
    /// It is given an image of the kernels that every driver's test has.
    Kernels(fn(&dyn Driver, &[u8])),
    Simulator(fn(&dyn Driver)),
}

/// The image of a simulated device. The same kernels stand in `kernels.ptx`.
pub(crate) const HOST_KERNELS: &[u8] = b"tensorplay host kernels 1
fill_u32 8 4 8
copy_u32 8 8 8
add_f32 8 8 8 8
scale_f32 8 8 4 8
spin 8
";

/// Runs the rules, each on a driver of its own: over every driver those that need no simulator, with `image` for its
/// kernels.
pub(crate) fn hold_on(image: &[u8], is_simulator: bool, make: &dyn Fn() -> Arc<dyn Driver>) {
    for rule in RULES {
        match rule {
            Rule::Any(rule) => rule(&*make()),
            Rule::Kernels(rule) => rule(&*make(), image),
            Rule::Simulator(rule) if is_simulator => rule(&*make()),
            Rule::Simulator(_) => {}
        }
    }
}

/// The same over the simulator, however it is wrapped.
fn hold<D: Driver>(make: impl Fn() -> Arc<D>) {
    hold_on(HOST_KERNELS, true, &|| make());
}

const RULES: [Rule; 48] = [
    Rule::Any(r1_a_device_that_is_not_there_is_refused),
    Rule::Any(r1_any_thread_may_call),
    Rule::Any(r2_dead_and_forged_handles_are_refused),
    Rule::Any(r2_hostile_sizes_are_refused),
    Rule::Any(r3_a_stream_keeps_its_order),
    Rule::Any(r3_an_event_orders_streams),
    Rule::Any(r3_an_event_that_was_never_recorded_is_ready),
    Rule::Any(r3_a_later_record_does_not_move_an_earlier_wait),
    Rule::Any(r3_events_and_streams_may_end_before_their_work),
    Rule::Any(r3_events_are_recorded_on_their_own_device),
    Rule::Any(r3_time_goes_on_along_a_stream),
    Rule::Any(r3_a_free_waits_for_the_work_of_its_device),
    Rule::Any(stream_rules::a_stream_has_the_priority_that_it_was_made_with),
    Rule::Any(stream_rules::r3_each_thread_has_a_default_stream),
    Rule::Any(stream_rules::r3_default_streams_keep_order_with_each_other),
    Rule::Any(stream_rules::the_version_is_one),
    Rule::Any(stream_rules::events_are_exported_where_they_were_made_so),
    Rule::Any(r4_a_failed_call_changes_nothing),
    Rule::Any(r5_freeing_helps_out_of_memory),
    Rule::Any(r6_live_ranges_do_not_overlap),
    Rule::Any(r7_a_stream_does_not_capture_by_itself),
    Rule::Any(capture_rules::r7_work_becomes_a_graph),
    Rule::Any(capture_rules::r7_captures_begin_end_and_join_as_documented),
    Rule::Any(capture_rules::r7_captured_events_cannot_be_asked),
    Rule::Any(capture_rules::r7_modes_say_who_may_disturb_a_capture),
    Rule::Any(capture_rules::r7_unsafe_calls_spoil_a_capture),
    Rule::Any(capture_rules::r7_a_capture_ends_on_its_thread),
    Rule::Any(graph_rules::r7_a_graph_does_the_same_at_each_launch),
    Rule::Any(graph_rules::r7_launches_outlive_the_graph),
    Rule::Any(graph_rules::r7_an_update_changes_what_comes),
    Rule::Any(graph_rules::r7_a_graph_has_memory_of_its_own),
    Rule::Any(graph_rules::r7_memory_that_a_graph_leaves_is_the_programs),
    Rule::Any(graph_rules::r7_a_graph_records_events),
    Rule::Any(graph_rules::r7_dead_graphs_are_refused),
    Rule::Kernels(graph_rules::r7_branches_run_behind_what_they_depend_on),
    Rule::Kernels(graph_rules::r7_launches_of_one_graph_do_not_overlap),
    Rule::Any(r8_virtual_memory_keeps_its_states),
    Rule::Any(r8_mapped_memory_holds_bytes_across_mappings),
    Rule::Any(copies_between_devices_move_bytes),
    Rule::Simulator(kernels_see_their_declared_ranges),
    Rule::Any(pinned_memory_is_zeroed_and_freed_once),
    Rule::Any(pool_rules::r9_a_freed_range_is_used_in_stream_order),
    Rule::Any(pool_rules::r9_a_range_may_be_freed_behind_an_event),
    Rule::Any(pool_rules::r9_a_pool_counts_and_is_trimmed),
    Rule::Any(pool_rules::r9_what_is_no_range_of_a_pool_is_refused),
    Rule::Any(pool_rules::registered_memory_is_pinned_once),
    Rule::Kernels(module_rules::r10_functions_compute),
    Rule::Kernels(module_rules::r10_what_is_none_is_refused),
];

fn r1_a_device_that_is_not_there_is_refused(d: &dyn Driver) {
    let no = d.device_count();
    assert_eq!(status(d.device_props(no)), Status::InvalidDevice);
    assert_eq!(status(d.memory_info(no)), Status::InvalidDevice);
    assert_eq!(status(d.device_synchronize(no)), Status::InvalidDevice);
    assert_eq!(status(d.malloc(no, 1)), Status::InvalidDevice);
    assert_eq!(status(d.granularity(no)), Status::InvalidDevice);
    assert_eq!(status(d.reserve(no, 2 * MIB)), Status::InvalidDevice);
    assert_eq!(status(d.create(no, 2 * MIB)), Status::InvalidDevice);
    assert_eq!(status(d.stream_priority_range(no)), Status::InvalidDevice);
    assert_eq!(status(d.stream_create(no, 0)), Status::InvalidDevice);
    assert_eq!(status(d.event_create(no, EventFlags::default())), Status::InvalidDevice);
    assert_eq!(status(d.can_access_peer(0, no)), Status::InvalidDevice);
    assert_eq!(status(d.enable_peer_access(no, 0)), Status::InvalidDevice);
    assert_eq!(d.malloc(no, 1).unwrap_err().device, no);
}

fn r1_any_thread_may_call(d: &dyn Driver) {
    let ptr = d.malloc(0, 64).unwrap();
    let stream = d.stream_create(0, 0).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| fill(d, ptr, 7, 64, stream).unwrap());
    });
    let bytes = std::thread::scope(|s| s.spawn(|| read(d, ptr, 64, stream)).join().unwrap());
    assert_eq!(bytes, [7; 64]);
    std::thread::scope(|s| {
        s.spawn(|| d.stream_destroy(stream).unwrap());
        s.spawn(|| free(d, ptr).unwrap());
    });
}

fn r2_dead_and_forged_handles_are_refused(d: &dyn Driver) {
    let stream = d.stream_create(0, 0).unwrap();
    d.stream_destroy(stream).unwrap();
    let event = d.event_create(0, EventFlags::default()).unwrap();
    d.event_destroy(event).unwrap();
    // Whatever lives now does not answer to the dead handles.
    let (live_stream, live_event) = (d.stream_create(0, 0).unwrap(), d.event_create(0, TIMED).unwrap());
    let forged_streams = [
        stream,
        StreamHandle { raw: u64::MAX, ..stream },
        StreamHandle { device: d.device_count(), raw: 0 },
        StreamHandle { device: d.device_count(), ..live_stream },
    ];
    for bad in forged_streams.into_iter().filter(|&bad| bad != live_stream) {
        assert_eq!(status(d.stream_query(bad)), Status::InvalidHandle);
        assert_eq!(status(d.stream_synchronize(bad)), Status::InvalidHandle);
        assert_eq!(status(d.stream_wait_event(bad, live_event)), Status::InvalidHandle);
        assert_eq!(status(d.event_record(live_event, bad)), Status::InvalidHandle);
        assert_eq!(status(d.capture_state(bad)), Status::InvalidHandle);
        assert_eq!(status(d.stream_destroy(bad)), Status::InvalidHandle);
        assert_eq!(status(fill(d, DevicePtr(0), 0, 0, bad)), Status::InvalidHandle);
        assert_eq!(status(d.stream_priority(bad)), Status::InvalidHandle);
    }
    assert_eq!(status(d.stream_destroy(S0)), Status::InvalidHandle, "a default stream is not destroyed");
    let forged_events = [event, EventHandle { raw: 0, ..event }, EventHandle { device: 99, ..live_event }];
    for bad in forged_events.into_iter().filter(|&bad| bad != live_event) {
        assert_eq!(status(d.event_query(bad)), Status::InvalidHandle);
        assert_eq!(status(d.event_synchronize(bad)), Status::InvalidHandle);
        assert_eq!(status(d.event_record(bad, S0)), Status::InvalidHandle);
        assert_eq!(status(d.stream_wait_event(S0, bad)), Status::InvalidHandle);
        assert_eq!(status(d.event_elapsed_ms(live_event, bad)), Status::InvalidHandle);
        assert_eq!(status(d.event_destroy(bad)), Status::InvalidHandle);
    }
    d.stream_destroy(live_stream).unwrap();
    d.event_destroy(live_event).unwrap();
    let ptr = d.malloc(0, 8).unwrap();
    for bad in [DevicePtr::NULL, ptr.offset(1), DevicePtr(u64::MAX)] {
        assert_eq!(status(free(d, bad)), Status::InvalidValue);
    }
    free(d, ptr).unwrap();
    assert_eq!(status(free(d, ptr)), Status::InvalidValue);
}

fn r2_hostile_sizes_are_refused(d: &dyn Driver) {
    assert_eq!(status(d.malloc(0, 0)), Status::InvalidValue);
    assert_eq!(status(d.malloc(0, u64::MAX)), Status::OutOfMemory);
    assert_eq!(status(d.host_alloc(0)), Status::InvalidValue);
    assert_eq!(status(d.host_alloc(u64::MAX)), Status::OutOfMemory);
    let unit = d.granularity(0).unwrap();
    for bytes in [0, 1, unit - 1, u64::MAX] {
        assert_eq!(status(d.reserve(0, bytes)), Status::InvalidValue);
        assert_eq!(status(d.create(0, bytes)), Status::InvalidValue);
    }
    let most = u64::MAX / unit * unit;
    assert_eq!(status(d.reserve(0, most)), Status::OutOfMemory);
    assert_eq!(status(d.create(0, most)), Status::OutOfMemory);
    let range = d.reserve(0, unit).unwrap();
    for (at, bytes) in [(range.base, u64::MAX), (DevicePtr(u64::MAX), unit), (range.base, 0)] {
        assert_eq!(status(d.set_access(at, bytes, &[0])), Status::InvalidValue);
        assert_eq!(status(unmap(d, at, bytes)), Status::InvalidValue);
        assert_eq!(status(free_range(d, VaRange { base: at, bytes })), Status::InvalidValue);
    }
    free_range(d, range).unwrap();
    let (least, greatest) = d.stream_priority_range(0).unwrap();
    assert!(least >= greatest);
    for priority in [least, greatest] {
        d.stream_destroy(d.stream_create(0, priority).unwrap()).unwrap();
    }
    assert_eq!(status(d.stream_create(0, i32::MAX)), Status::InvalidValue);
    assert_eq!(status(d.stream_create(0, i32::MIN)), Status::InvalidValue);
}

fn r3_a_stream_keeps_its_order(d: &dyn Driver) {
    let (a, b) = (d.malloc(0, 4096).unwrap(), d.malloc(0, 4096).unwrap());
    let stream = d.stream_create(0, 0).unwrap();
    for value in 0..10 {
        fill(d, a, value, 4096, stream).unwrap();
        copy(d, b.offset(u64::from(value)), a, 1, stream).unwrap();
    }
    upload(d, a, &[42; 3], stream).unwrap();
    copy(d, b, a, 3, stream).unwrap();
    assert_eq!(read(d, b, 10, stream), [42, 42, 42, 3, 4, 5, 6, 7, 8, 9]);
    assert!(d.stream_query(stream).unwrap());
    d.stream_destroy(stream).unwrap();
    free(d, a).unwrap();
    free(d, b).unwrap();
}

fn r3_an_event_orders_streams(d: &dyn Driver) {
    let ptr = d.malloc(0, 256).unwrap();
    let streams: Vec<_> = (0..4).map(|_| d.stream_create(0, 0).unwrap()).collect();
    let event = d.event_create(0, EventFlags::default()).unwrap();
    // Each stream goes on where the one before it stopped; only the last is waited for.
    for (step, pair) in (1..).zip(streams.windows(2)) {
        fill(d, ptr, step, 256, pair[0]).unwrap();
        d.event_record(event, pair[0]).unwrap();
        d.stream_wait_event(pair[1], event).unwrap();
    }
    assert_eq!(read(d, ptr, 256, streams[3]), [3; 256]);
    assert!(d.event_query(event).unwrap(), "what was waited for is complete");
    d.event_record(event, streams[0]).unwrap();
    d.event_synchronize(event).unwrap();
    assert!(d.event_query(event).unwrap());
    assert!(d.stream_query(streams[0]).unwrap(), "nothing stood behind the record");
    fill(d, ptr, 9, 256, streams[1]).unwrap();
    d.device_synchronize(0).unwrap();
    assert!(streams.iter().all(|&s| d.stream_query(s).unwrap()));
    for stream in streams {
        d.stream_destroy(stream).unwrap();
    }
    d.event_destroy(event).unwrap();
    free(d, ptr).unwrap();
}

fn r3_an_event_that_was_never_recorded_is_ready(d: &dyn Driver) {
    let event = d.event_create(0, TIMED).unwrap();
    assert!(d.event_query(event).unwrap());
    d.event_synchronize(event).unwrap();
    d.stream_wait_event(S0, event).unwrap();
    d.stream_synchronize(S0).unwrap();
    assert_eq!(status(d.event_elapsed_ms(event, event)), Status::InvalidHandle);
    d.event_destroy(event).unwrap();
}

fn r3_a_later_record_does_not_move_an_earlier_wait(d: &dyn Driver) {
    let ptr = d.malloc(0, 16).unwrap();
    let (a, b) = (d.stream_create(0, 0).unwrap(), d.stream_create(0, 0).unwrap());
    let event = d.event_create(0, EventFlags::default()).unwrap();
    fill(d, ptr, 1, 16, a).unwrap();
    d.event_record(event, a).unwrap();
    d.stream_wait_event(b, event).unwrap();
    // Were the wait moved along, each stream would now wait for the other.
    d.event_record(event, b).unwrap();
    d.stream_wait_event(a, event).unwrap();
    fill(d, ptr, 2, 16, a).unwrap();
    assert_eq!(read(d, ptr, 16, a), [2; 16]);
    d.stream_synchronize(b).unwrap();
    for stream in [a, b] {
        d.stream_destroy(stream).unwrap();
    }
    d.event_destroy(event).unwrap();
    free(d, ptr).unwrap();
}

fn r3_events_and_streams_may_end_before_their_work(d: &dyn Driver) {
    let ptr = d.malloc(0, 16).unwrap();
    let (a, b) = (d.stream_create(0, 0).unwrap(), d.stream_create(0, 0).unwrap());
    let (event, kept) = (
        d.event_create(0, EventFlags::default()).unwrap(),
        d.event_create(0, EventFlags::default()).unwrap(),
    );
    fill(d, ptr, 5, 16, a).unwrap();
    d.event_record(event, a).unwrap();
    d.event_record(kept, a).unwrap();
    d.stream_wait_event(b, event).unwrap();
    d.event_destroy(event).unwrap();
    d.stream_destroy(a).unwrap();
    assert_eq!(read(d, ptr, 16, b), [5; 16], "the wait and the work outlive their handles");
    d.event_synchronize(kept).unwrap();
    assert!(d.event_query(kept).unwrap());
    d.event_destroy(kept).unwrap();
    d.stream_destroy(b).unwrap();
    free(d, ptr).unwrap();
}

fn r3_events_are_recorded_on_their_own_device(d: &dyn Driver) {
    if d.device_count() < 2 {
        return;
    }
    let event = d.event_create(0, EventFlags::default()).unwrap();
    let other = d.stream_create(1, 0).unwrap();
    assert_eq!(status(d.event_record(event, other)), Status::InvalidHandle);
    assert!(d.event_query(event).unwrap(), "it has not been recorded");
    let ptr = d.malloc(1, 16).unwrap();
    fill(d, ptr, 1, 16, other).unwrap();
    d.event_record(event, S0).unwrap();
    d.stream_wait_event(other, event).unwrap();
    fill(d, ptr, 2, 16, other).unwrap();
    assert_eq!(read(d, ptr, 16, other), [2; 16], "a wait may cross devices");
    d.stream_destroy(other).unwrap();
    d.event_destroy(event).unwrap();
    free(d, ptr).unwrap();
}

fn r3_time_goes_on_along_a_stream(d: &dyn Driver) {
    let ptr = d.malloc(0, MIB).unwrap();
    let (start, end) = (d.event_create(0, TIMED).unwrap(), d.event_create(0, TIMED).unwrap());
    d.event_record(start, S0).unwrap();
    fill(d, ptr, 1, MIB, S0).unwrap();
    d.event_record(end, S0).unwrap();
    d.event_synchronize(end).unwrap();
    assert!(d.event_elapsed_ms(start, end).unwrap() > 0.0);
    assert!(d.event_elapsed_ms(end, start).unwrap() < 0.0);
    let untimed = d.event_create(0, EventFlags::default()).unwrap();
    d.event_record(untimed, S0).unwrap();
    d.event_synchronize(untimed).unwrap();
    assert_eq!(status(d.event_elapsed_ms(start, untimed)), Status::InvalidHandle);
    for event in [start, end, untimed] {
        d.event_destroy(event).unwrap();
    }
    free(d, ptr).unwrap();
}

fn r3_a_free_waits_for_the_work_of_its_device(d: &dyn Driver) {
    let (ptr, stream) = (d.malloc(0, 4096).unwrap(), d.stream_create(0, 0).unwrap());
    fill(d, ptr, 7, 4096, stream).unwrap();
    let download = Download::issue(d, ptr, 4096, stream).unwrap();
    free(d, ptr).unwrap();
    assert!(d.stream_query(stream).unwrap());
    assert_eq!(download.bytes(), [7; 4096]);
    d.device_synchronize(0).unwrap();
    d.stream_destroy(stream).unwrap();
}

fn r4_a_failed_call_changes_nothing(d: &dyn Driver) {
    let unit = d.granularity(0).unwrap();
    let range = d.reserve(0, 2 * unit).unwrap();
    let memory = d.create(0, unit).unwrap();
    d.map(range.base, memory).unwrap();
    let before = d.memory_info(0).unwrap();
    let total = before.total;
    assert!(d.malloc(0, total * 2).is_err());
    assert!(d.create(0, total / unit * unit * 2).is_err());
    assert!(d.reserve(0, 1).is_err());
    assert!(d.map(range.base, memory).is_err());
    assert!(d.map(range.base.offset(2 * unit), memory).is_err());
    assert!(d.map(range.base.offset(1), memory).is_err());
    assert!(unmap(d, range.base, 2 * unit).is_err());
    assert!(d.set_access(range.base, 2 * unit, &[0]).is_err());
    assert!(d.set_access(range.base, unit, &[]).is_err());
    assert!(d.set_access(range.base, unit, &[0, d.device_count()]).is_err());
    assert!(free_range(d, range).is_err());
    assert!(d.release(PhysHandle { bytes: 2 * unit, ..memory }).is_err());
    assert_eq!(d.memory_info(0).unwrap(), before);
    // All of it works as if nothing had been tried.
    d.set_access(range.base, unit, &[0]).unwrap();
    fill(d, range.base, 3, unit, S0).unwrap();
    assert_eq!(read(d, range.base, 4, S0), [3; 4]);
    unmap(d, range.base, unit).unwrap();
    d.release(memory).unwrap();
    free_range(d, range).unwrap();
}

fn r5_freeing_helps_out_of_memory(d: &dyn Driver) {
    let mut held = Vec::new();
    let bytes = (d.memory_info(0).unwrap().free / 4).max(1);
    let error = loop {
        match d.malloc(0, bytes) {
            Ok(ptr) => held.push(ptr),
            Err(error) => break error,
        }
    };
    assert_eq!((error.status, error.device, error.call), (Status::OutOfMemory, 0, "malloc"));
    free(d, held.pop().expect("a quarter of what is free fits")).unwrap();
    held.push(d.malloc(0, bytes).unwrap());
    for ptr in held {
        free(d, ptr).unwrap();
    }
}

fn r6_live_ranges_do_not_overlap(d: &dyn Driver) {
    let unit = d.granularity(0).unwrap();
    let mut live: Vec<(u64, u64)> = Vec::new();
    for round in 0..4 {
        for device in 0..d.device_count() {
            for bytes in [1, 700, 3 * MIB + 1] {
                live.push((d.malloc(device, bytes).unwrap().0, bytes));
            }
            let range = d.reserve(device, unit).unwrap();
            free_range(d, range).unwrap();
            assert!(live.iter().all(|&(at, n)| range.base.0 >= at + n || at >= range.base.0 + range.bytes));
        }
        live.sort_unstable();
        assert!(live.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{live:x?}");
        let (at, _) = live.remove(round);
        free(d, DevicePtr(at)).unwrap();
    }
    for (at, _) in live {
        free(d, DevicePtr(at)).unwrap();
    }
}

fn r7_a_stream_does_not_capture_by_itself(d: &dyn Driver) {
    assert_eq!(d.capture_state(S0).unwrap(), CaptureState::None);
}

fn r8_virtual_memory_keeps_its_states(d: &dyn Driver) {
    let unit = d.granularity(0).unwrap();
    let free_before = d.memory_info(0).unwrap().free;
    let range = d.reserve(0, 4 * unit).unwrap();
    assert_eq!(d.memory_info(0).unwrap().free, free_before, "addresses are not memory");
    let memory = d.create(0, 2 * unit).unwrap();
    assert!(d.memory_info(0).unwrap().free < free_before);
    let at = range.base.offset(unit);
    d.map(at, memory).unwrap();
    let other = d.create(0, 2 * unit).unwrap();
    for taken in [range.base, at, at.offset(unit)] {
        assert_eq!(status(d.map(taken, other)), Status::AlreadyMapped);
    }
    assert_eq!(
        status(d.map(range.base.offset(3 * unit), other)),
        Status::InvalidValue,
        "it leaves the range"
    );
    assert_eq!(status(unmap(d, at, unit)), Status::InvalidValue, "mappings go whole");
    d.release(memory).unwrap();
    assert_eq!(status(d.release(memory)), Status::InvalidHandle);
    assert_eq!(status(d.map(range.base, memory)), Status::InvalidHandle);
    d.release(other).unwrap();
    assert_eq!(status(free_range(d, range)), Status::InvalidValue, "it is mapped");
    assert_eq!(status(free_range(d, VaRange { bytes: unit, ..range })), Status::InvalidValue);
    d.set_access(at, 2 * unit, &[0]).unwrap();
    fill(d, at, 1, 2 * unit, S0).unwrap();
    assert_eq!(read(d, at, 1, S0), [1], "released memory lives while it is mapped");
    unmap(d, at, 2 * unit).unwrap();
    assert_eq!(d.memory_info(0).unwrap().free, free_before);
    free_range(d, range).unwrap();
    assert_eq!(status(free_range(d, range)), Status::InvalidValue);
}

fn r8_mapped_memory_holds_bytes_across_mappings(d: &dyn Driver) {
    let unit = d.granularity(0).unwrap();
    let range = d.reserve(0, 3 * unit).unwrap();
    let memory: Vec<_> = (0..3).map(|_| d.create(0, unit).unwrap()).collect();
    for (index, &memory) in (0..).zip(&memory) {
        d.map(range.base.offset(index * unit), memory).unwrap();
    }
    d.set_access(range.base, 3 * unit, &[0]).unwrap();
    // One copy over the first border, one fill over the second.
    let pattern: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8).collect();
    upload(d, range.base.offset(unit - 1000), &pattern, S0).unwrap();
    fill(d, range.base.offset(2 * unit - 5), 9, 10, S0).unwrap();
    assert!(read(d, range.base.offset(unit - 1000), 2000, S0) == pattern);
    assert_eq!(read(d, range.base.offset(2 * unit - 5), 10, S0), [9; 10]);
    // The bytes are the memory's, not the address's: turn it round.
    unmap(d, range.base, 3 * unit).unwrap();
    for (index, &memory) in (0..).zip(memory.iter().rev()) {
        d.map(range.base.offset(index * unit), memory).unwrap();
    }
    d.set_access(range.base, 3 * unit, &[0]).unwrap();
    assert!(read(d, range.base.offset(3 * unit - 1000), 1000, S0) == pattern[..1000]);
    assert!(read(d, range.base.offset(unit), 1000, S0) == pattern[1000..]);
    assert_eq!(read(d, range.base, 5, S0), [9; 5]);
    unmap(d, range.base, 3 * unit).unwrap();
    for memory in memory {
        d.release(memory).unwrap();
    }
    free_range(d, range).unwrap();
}

fn copies_between_devices_move_bytes(d: &dyn Driver) {
    if d.device_count() < 2 {
        return;
    }
    let (a, b) = (d.malloc(0, 100_000).unwrap(), d.malloc(1, 100_000).unwrap());
    let pattern: Vec<u8> = (0..100_000u32).map(|i| (i % 249) as u8).collect();
    upload(d, a, &pattern, S0).unwrap();
    copy(d, b.offset(1), a.offset(1), 99_999, S0).unwrap();
    copy(d, b, a, 0, S0).unwrap();
    d.stream_synchronize(S0).unwrap();
    let there = read(d, b.offset(1), 99_999, StreamHandle::default_of(1));
    assert!(there == pattern[1..]);
    assert!(!d.can_access_peer(0, 0).unwrap(), "a device is no peer of its own");
    if d.can_access_peer(0, 1).unwrap() {
        d.enable_peer_access(0, 1).unwrap();
        d.enable_peer_access(0, 1).unwrap();
        fill(d, b, 4, 10, S0).unwrap();
        d.stream_synchronize(S0).unwrap();
        assert_eq!(read(d, b, 10, StreamHandle::default_of(1)), [4; 10]);
    }
    free(d, a).unwrap();
    free(d, b).unwrap();
}

fn kernels_see_their_declared_ranges(d: &dyn Driver) {
    let (a, b) = (d.malloc(0, 64).unwrap(), d.malloc(0, 64).unwrap());
    upload(d, a, &(0..64).collect::<Vec<_>>(), S0).unwrap();
    let body = |memory: &mut dyn KernelMemory| {
        let mut bytes = [0; 64];
        memory.read(0, 0, &mut bytes);
        bytes.reverse();
        memory.write(0, 0, &bytes[..32]);
        memory.write(0, 32, &bytes[32..]);
    };
    launch(d, S0, "reverse", &[range(a, 64)], &[range(b, 64)], body).unwrap();
    assert_eq!(read(d, b, 64, S0), (0..64).rev().collect::<Vec<_>>());
    let nowhere = StreamHandle { raw: u64::MAX, ..S0 };
    assert_eq!(status(launch(d, nowhere, "none", &[], &[], |_| {})), Status::InvalidHandle);
    free(d, a).unwrap();
    free(d, b).unwrap();
}

fn pinned_memory_is_zeroed_and_freed_once(d: &dyn Driver) {
    let ptr = d.host_alloc(5000).unwrap();
    // SAFETY: the memory is live, this long, initialised, and nobody writes it.
    let bytes = unsafe { std::slice::from_raw_parts(ptr.as_ptr(), 5000) };
    assert!(bytes.iter().all(|&b| b == 0));
    // SAFETY: nothing uses the memory.
    let free = |ptr| unsafe { d.host_free(ptr) };
    assert_eq!(status(free(NonNull::dangling())), Status::InvalidValue);
    free(ptr).unwrap();
    assert_eq!(status(free(ptr)), Status::InvalidValue);
}

fn sim(completion: Completion) -> Arc<SimDriver> {
    SimDriver::new(SimConfig::with_devices(2, 64 * MIB).completion(completion))
}

#[test]
fn the_simulated_driver_keeps_the_rules_under_every_schedule() {
    hold(|| sim(Completion::Manual));
    hold(|| sim(Completion::Eager));
    for seed in 0..20 {
        hold(|| sim(Completion::Seeded(seed)));
    }
    hold(|| SimDriver::new(SimConfig::with_bytes(64 * MIB)));
}

#[test]
fn a_checked_driver_keeps_the_rules() {
    for completion in [Completion::Manual, Completion::Eager, Completion::Seeded(1)] {
        hold(|| Checked::new(sim(completion)));
    }
}

#[test]
fn a_recorded_driver_keeps_the_rules() {
    hold(|| Record::new(Checked::new(sim(Completion::Seeded(2)))));
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_build_without_the_feature_says_that_it_talks_to_no_driver() {
    use c10_cuda::driver::real;

    let error = real::load().unwrap_err();
    assert_eq!(error.kind(), c10_cuda::ErrorKind::NotImplemented);
    assert!(error.to_string().contains("feature `cuda`"), "{error}");
    assert_eq!(real::device_count(), 0);
}
