//! The rule of streams (R3) as to priorities and default streams, for the suite that every driver passes.
#![expect(clippy::unwrap_used, reason = "the rules are tests, though not marked one by one")]

use std::sync::Barrier;
use std::thread;

use c10_cuda::driver::sim::{RaceKind, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, CaptureState, Driver, EventFlags, Result, Status, StreamHandle};

use crate::support::{MIB, copy, fill, free, read, upload};

const S0: StreamHandle = StreamHandle::default_of(0);
const OWN: StreamHandle = StreamHandle::per_thread_default(0);

fn status<T>(result: Result<T>) -> Status {
    result.err().expect("the call ought to fail").status
}

pub(crate) fn a_stream_has_the_priority_that_it_was_made_with(d: &dyn Driver) {
    let (least, greatest) = d.stream_priority_range(0).unwrap();
    for priority in greatest..=least {
        let stream = d.stream_create(0, priority).unwrap();
        assert_eq!(d.stream_priority(stream).unwrap(), priority);
        d.stream_destroy(stream).unwrap();
    }
    assert_eq!(d.stream_priority(S0).unwrap(), 0);
    assert_eq!(d.stream_priority(OWN).unwrap(), 0);
}

/// A stream that is there without being made, cannot be ended, and can capture.
pub(crate) fn r3_each_thread_has_a_default_stream(d: &dyn Driver) {
    let work = |value: u8| {
        let ptr = d.malloc(0, 4096).unwrap();
        fill(d, ptr, value, 4096, OWN).unwrap();
        assert_eq!(read(d, ptr, 4096, OWN), [value; 4096]);
        assert!(d.stream_query(OWN).unwrap());
        assert_eq!(status(d.stream_destroy(OWN)), Status::InvalidHandle);
        free(d, ptr).unwrap();
    };
    work(1);
    thread::scope(|scope| (2..6).for_each(|value| _ = scope.spawn(move || work(value))));
    let ptr = d.malloc(0, 64).unwrap();
    d.stream_begin_capture(OWN, CaptureMode::Relaxed).unwrap();
    fill(d, ptr, 9, 64, OWN).unwrap();
    let graph = d.stream_end_capture(OWN).unwrap();
    assert_eq!(d.graph_node_count(graph).unwrap(), 1);
    d.graph_destroy(graph).unwrap();
    let nowhere = StreamHandle::per_thread_default(d.device_count());
    assert_eq!(status(d.stream_query(nowhere)), Status::InvalidHandle);
    free(d, ptr).unwrap();
}

/// What is issued on a default stream runs behind what the device's and the threads' hold.
pub(crate) fn r3_default_streams_keep_order_with_each_other(d: &dyn Driver) {
    let (a, b) = (d.malloc(0, 4 * MIB).unwrap(), d.malloc(0, 4 * MIB).unwrap());
    for value in 1..5 {
        fill(d, a, value, 4 * MIB, OWN).unwrap();
        copy(d, b, a, 4 * MIB, S0).unwrap();
        copy(d, a, b, 1, OWN).unwrap();
        assert_eq!(read(d, b.offset(4 * MIB - 1), 1, OWN), [value]);
    }
    thread::scope(|scope| {
        scope.spawn(|| upload(d, a, &[77; 64], OWN).unwrap()).join().unwrap();
    });
    copy(d, b, a, 64, S0).unwrap();
    assert_eq!(read(d, b, 64, OWN), [77; 64], "what a thread has left still comes before");
    free(d, a).unwrap();
    free(d, b).unwrap();
}

pub(crate) fn the_version_is_one(d: &dyn Driver) {
    let version = d.version();
    assert!((11_000..100_000).contains(&version) && version.is_multiple_of(10), "{version}");
}

/// An event is told to other processes if it was made for them, and takes no time then.
pub(crate) fn events_are_exported_where_they_were_made_so(d: &dyn Driver) {
    let plain = d.event_create(0, EventFlags::default()).unwrap();
    d.event_export(plain).unwrap_err();
    let flags = EventFlags { interprocess: true, ..EventFlags::default() };
    let shared = d.event_create(0, flags).unwrap();
    assert_eq!(d.event_export(shared).unwrap(), d.event_export(shared).unwrap());
    assert_eq!(status(d.event_create(0, EventFlags { timing: true, ..flags })), Status::InvalidValue);
    d.event_destroy(plain).unwrap();
    d.event_destroy(shared).unwrap();
    d.event_export(shared).unwrap_err();
}

#[test]
fn a_threads_stream_ends_with_it() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB));
    let ptr = sim.malloc(0, 64).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| fill(&*sim, ptr, 3, 64, OWN).unwrap()).join().unwrap();
    });
    assert_eq!(sim.pending(), 1, "its work stays");
    sim.complete_all();
    // A stream that is made takes the place that the thread's has left.
    let next = sim.stream_create(0, 0).unwrap();
    assert_ne!(next.raw, OWN.raw);
    assert_eq!(next.raw >> 32, 1, "{next:?}");
    assert_eq!(read(&*sim, ptr, 64, S0), [3; 64]);
}

#[test]
fn default_streams_are_ordered_and_others_are_not() {
    let sim = SimDriver::new(SimConfig::with_bytes(64 * MIB).race_detector());
    let ptr = sim.malloc(0, 64).unwrap();
    fill(&*sim, ptr, 1, 64, S0).unwrap();
    fill(&*sim, ptr, 2, 64, OWN).unwrap();
    fill(&*sim, ptr, 3, 64, S0).unwrap();
    assert_eq!(sim.races(), []);
    // Two threads' streams wait for the default stream, and not for each other.
    let both = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            fill(&*sim, ptr, 4, 64, OWN).unwrap();
            both.wait();
            both.wait();
        });
        both.wait();
        fill(&*sim, ptr, 5, 64, OWN).unwrap();
        both.wait();
    });
    let kinds: Vec<_> = sim.take_races().into_iter().map(|race| race.kind).collect();
    assert_eq!(kinds, [RaceKind::Unordered]);
    let made = sim.stream_create(0, 0).unwrap();
    sim.device_synchronize(0).unwrap();
    fill(&*sim, ptr, 6, 64, made).unwrap();
    fill(&*sim, ptr, 7, 64, S0).unwrap();
    assert_eq!(sim.take_races().len(), 1);
}

#[test]
fn an_event_of_another_process_is_the_same_event() {
    let one = SimDriver::new(SimConfig::with_devices(2, 64 * MIB));
    let two = one.new_process();
    let flags = EventFlags { interprocess: true, ..EventFlags::default() };
    let event = one.event_create(0, flags).unwrap();
    let handle = one.event_export(event).unwrap();
    assert_eq!(status(one.event_open(0, &handle)), Status::InvalidHandle, "it is this process's own");
    assert_eq!(status(two.event_open(1, &handle)), Status::InvalidHandle, "another device's");
    assert_eq!(status(two.event_open(2, &handle)), Status::InvalidDevice);
    let opened = two.event_open(0, &handle).unwrap();
    two.event_export(opened).unwrap_err();
    assert!(two.event_query(opened).unwrap(), "it was not recorded");
    // What one process records the other sees, waits for, and the other way round.
    let ptr = one.malloc(0, 64).unwrap();
    fill(&*one, ptr, 1, 64, S0).unwrap();
    one.event_record(event, S0).unwrap();
    assert!(!two.event_query(opened).unwrap());
    two.stream_wait_event(S0, opened).unwrap();
    two.stream_synchronize(S0).unwrap();
    assert!(one.event_query(event).unwrap());
    let stream = two.stream_create(0, 0).unwrap();
    two.event_record(opened, stream).unwrap();
    assert!(!one.event_query(event).unwrap());
    one.event_synchronize(event).unwrap();
    assert!(two.event_query(opened).unwrap());
    assert_eq!(status(two.event_elapsed_ms(opened, opened)), Status::InvalidHandle, "it takes no time");
    assert_eq!(status(two.event_query(event)), Status::InvalidHandle, "handles are of one process");
    one.event_destroy(event).unwrap();
    assert_eq!(status(two.event_query(opened)), Status::InvalidHandle, "whose it was has ended it");
    two.event_destroy(opened).unwrap();
    assert_eq!(status(two.event_open(0, &handle)), Status::InvalidHandle);
}

#[test]
fn the_default_stream_waits_for_no_capture() {
    let sim = SimDriver::new(SimConfig::with_devices(2, 64 * MIB));
    let (ptr, made) = (sim.malloc(0, 64).unwrap(), sim.stream_create(0, 0).unwrap());
    sim.stream_begin_capture(OWN, CaptureMode::Relaxed).unwrap();
    fill(&*sim, ptr, 1, 64, made).unwrap();
    fill(&*sim, ptr, 1, 64, StreamHandle::default_of(1)).unwrap();
    assert_eq!(sim.capture_state(OWN).unwrap(), CaptureState::Active { id: 1 });
    assert_eq!(status(fill(&*sim, ptr, 2, 64, S0)), Status::CaptureUnsupported);
    assert_eq!(status(sim.malloc_async(64, S0)), Status::CaptureUnsupported);
    assert_eq!(sim.pending(), 2);
    assert_eq!(status(sim.stream_end_capture(OWN)), Status::CaptureInvalidated);
    fill(&*sim, ptr, 2, 64, S0).unwrap();
}
