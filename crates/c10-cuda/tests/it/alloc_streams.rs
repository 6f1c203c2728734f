//! Memory that several streams use.

use std::sync::Arc;

use c10_core::data_ptr::Wrapping;
use c10_core::{DataPtr, Device, DeviceType, Stream, StreamId};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, FaultWhen, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, DevicePtr, Driver, Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, ErrorKind};

use crate::rig::{GIB, MIB, Rig, address, place};
use crate::support::{Download, fill};

static OUTER: Wrapping<u32> = Wrapping::new("outer");
static MIDDLE: Wrapping<&'static str> = Wrapping::new("middle");

#[test]
fn a_use_on_another_stream_defers_the_free_until_the_stream_has_passed() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    assert_eq!(rig.sim.call_count("event_record"), 0, "the use ends when the block is freed");
    drop(ptr);
    assert_eq!(rig.sim.call_count("event_record"), 1);
    let stats = rig.stats();
    assert_eq!((stats.allocation.all.current, stats.active.all.current), (0, 1));
    assert_eq!((stats.allocated_bytes.all.current, stats.requested_bytes.all.current), (0, 3 << 20));
    let other = rig.allocate(3 * MIB);
    assert_eq!(place(&other), 3 * MIB, "it is not given out yet");
    rig.sim.complete_stream(rig.handle(stream));
    assert_eq!(rig.stats().active.all.current, 2, "nobody has looked yet");
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
}

#[test]
fn a_block_waits_for_every_stream_that_used_it() {
    let rig = Rig::new(GIB);
    let streams = [(); 3].map(|()| rig.stream());
    let ptr = rig.allocate(3 * MIB);
    for stream in streams.into_iter().chain(streams) {
        rig.cuda.record_stream(&ptr, stream).unwrap();
    }
    drop(ptr);
    assert_eq!(rig.sim.call_count("event_record"), 3, "one event a stream");
    for (at, stream) in streams.into_iter().enumerate() {
        let ptr = rig.allocate(3 * MIB);
        assert_eq!(place(&ptr), 3 * MIB, "{at} streams have passed");
        drop(ptr);
        rig.sim.complete_stream(rig.handle(stream));
    }
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
}

#[test]
fn work_that_comes_after_the_free_is_not_waited_for() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let handle = rig.handle(stream);
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    let later = rig.sim.event_create(0, Default::default()).unwrap();
    rig.sim.event_record(later, handle).unwrap();
    assert!(rig.sim.step(handle), "the free's event");
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    assert!(!rig.sim.event_query(later).unwrap());
}

#[test]
fn the_stream_of_the_allocation_needs_no_note() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    for own in [Stream::default_of(DeviceType::Cuda, 0), stream] {
        rig.runtime.set_current_stream(own).unwrap();
        let ptr = rig.allocate(3 * MIB);
        rig.cuda.record_stream(&ptr, own).unwrap();
        let at = place(&ptr);
        drop(ptr);
        assert_eq!(place(&rig.allocate(3 * MIB)), at, "it is reused at once, in stream order");
    }
    assert_eq!(rig.sim.call_count("event_create"), 0);
}

#[test]
fn a_note_lasts_for_one_life_of_the_block() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    rig.sim.complete_all();
    for _ in 0..2 {
        let again = rig.allocate(3 * MIB);
        assert_eq!(place(&again), 0);
    }
    assert_eq!(rig.sim.call_count("event_record"), 1);
    assert_eq!(rig.sim.call_count("event_create"), 1);
}

#[test]
fn events_are_used_again() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    for _ in 0..10 {
        let ptr = rig.allocate(3 * MIB);
        rig.cuda.record_stream(&ptr, stream).unwrap();
        drop(ptr);
        rig.sim.complete_all();
    }
    assert_eq!((rig.sim.call_count("event_create"), rig.sim.call_count("event_record")), (1, 10));
    let Rig { sim, runtime, cuda, watch: _watch } = rig;
    drop((cuda, runtime));
    assert_eq!(sim.call_count("event_destroy"), 1, "they end with the allocator");
}

#[test]
fn blocks_belong_to_the_stream_they_were_allocated_on() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    drop(rig.allocate(3 * MIB));
    let ptr = rig.cuda.allocate_on(3 * MIB, stream).unwrap();
    assert_eq!(place(&ptr), 20 * MIB, "a cached block of another stream is not taken");
    drop(ptr);
    assert_eq!(place(&rig.cuda.allocate_on(3 * MIB, stream).unwrap()), 20 * MIB);
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
}

#[test]
fn adaptors_do_not_hide_the_owner() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let inner = rig.allocate(3 * MIB);
    let wrapped = OUTER.wrap(MIDDLE.wrap(inner, "middle"), 7);
    rig.cuda.record_stream(&wrapped, stream).unwrap();
    assert_eq!(rig.cuda.base_allocation(&wrapped).unwrap().1, 20 * MIB);
    drop(wrapped);
    assert_eq!(rig.stats().active.all.current, 1);
    rig.sim.complete_all();
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    // An adaptor of no memory has nothing to note.
    let nothing = OUTER.wrap(rig.allocate(0), 1);
    rig.cuda.record_stream(&nothing, stream).unwrap();
    rig.cuda.record_stream(&DataPtr::null(Device::CPU), stream).unwrap();
}

#[test]
fn row_28_memory_of_others_is_a_typed_error() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let host = DataPtr::from_boxed_slice(vec![0; 8].into());
    let twin = CachingAllocator::with_runtime(rig.runtime.clone(), Config::default()).unwrap();
    let foreign = twin.allocate(3 * MIB).unwrap();
    let wrapped_host = OUTER.wrap(DataPtr::from_boxed_slice(vec![0; 8].into()), 1);
    let mut given_away = rig.allocate(3 * MIB);
    // SAFETY: the memory ends before `given_away` is looked at again, and nothing reaches it.
    #[expect(unsafe_code, reason = "makes a pointer that owns nothing any more")]
    let owner = unsafe { given_away.move_context() };
    for ptr in [&host, &foreign, &wrapped_host, &given_away] {
        let error = rig.cuda.record_stream(ptr, stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{ptr:?}");
    }
    drop(owner);
    drop(foreign);
    assert_eq!(rig.sim.call_count("event_record"), 0, "no block was marked");
    let text = rig.cuda.record_stream(&host, stream).unwrap_err().to_string();
    assert!(text.ends_with("on cpu was not handed out by this allocator, or has been freed"), "{text}");
}

#[test]
fn streams_that_cannot_be_meant_are_refused() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::default());
    let ptr = rig.allocate(3 * MIB);
    let made_up = Stream::new(DeviceType::Cuda, 0, StreamId(1));
    let of_cpu = Stream::new(DeviceType::Cpu, 0, StreamId(0));
    let no_device = Stream::default_of(DeviceType::Cuda, 2);
    for stream in [made_up, of_cpu, no_device] {
        let error = rig.cuda.record_stream(&ptr, stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{stream}");
        assert_eq!(rig.cuda.allocate_on(1, stream).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(rig.cuda.raw_alloc_with_stream(1, stream).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // The pool of another runtime is not this one's.
    let sim: Arc<SimDriver> = SimDriver::new(SimConfig::with_bytes(GIB));
    let theirs = c10_cuda::Runtime::new(sim).stream_from_pool(0, 0).unwrap();
    assert_eq!(rig.cuda.record_stream(&ptr, theirs).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(ptr);
    assert_eq!(rig.stats().active.all.current, 0);
}

#[test]
fn streams_of_another_device_are_waited_for_too() {
    let rig = Rig::with_config(SimConfig::with_devices(2, GIB), Config::default());
    // Both default streams have the handle 0, and are two streams all the same.
    let elsewhere = Stream::default_of(DeviceType::Cuda, 1);
    let from_pool = rig.runtime.stream_from_pool(1, 0).unwrap();
    for _ in 0..2 {
        let ptr = rig.allocate(3 * MIB);
        assert_eq!(place(&ptr), 0);
        rig.cuda.record_stream(&ptr, elsewhere).unwrap();
        rig.cuda.record_stream(&ptr, from_pool).unwrap();
        drop(ptr);
        rig.sim.complete_stream(rig.handle(elsewhere));
        assert_eq!(place(&rig.allocate(3 * MIB)), 3 * MIB, "one of the two has not passed");
        rig.sim.complete_stream(rig.handle(from_pool));
        drop(rig.allocate(1));
    }
    assert_eq!(rig.sim.call_count("event_create"), 2, "events are used again");
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, elsewhere).unwrap();
    drop(ptr);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.reserved(), 0);
}

#[test]
fn the_current_stream_of_the_thread_is_allocated_for() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    rig.runtime.set_current_stream(stream).unwrap();
    let here = rig.allocate(3 * MIB);
    let there = std::thread::scope(|scope| scope.spawn(|| rig.allocate(3 * MIB)).join().unwrap());
    let streams: Vec<_> = rig.cuda.snapshot(false).segments.iter().map(|segment| segment.stream).collect();
    assert_eq!(streams, [rig.handle(stream), StreamHandle::default_of(0)]);
    assert_eq!([place(&here), place(&there)], [0, 20 * MIB]);
}

#[test]
fn emptying_the_cache_waits_for_streams() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
    assert_eq!(rig.sim.call_count("event_synchronize"), 1);
    assert_eq!(rig.sim.call_count("device_synchronize"), 0);
    assert_eq!(rig.stats().num_sync_all_streams, 1);
}

#[test]
fn row_31_polling_lets_a_stream_that_lags_hold_memory() {
    let rig = Rig::new(4 * GIB);
    let stream = rig.stream();
    for _ in 0..100 {
        let ptr = rig.allocate(10 * MIB);
        rig.cuda.record_stream(&ptr, stream).unwrap();
        drop(ptr);
    }
    assert_eq!(rig.reserved(), 1000 * MIB);
    rig.sim.complete_all();
    drop(rig.allocate(10 * MIB));
    assert_eq!(rig.stats().active.all.current, 0, "one look frees them all");
}

#[test]
fn an_external_stream_is_used_like_any_other() {
    let rig = Rig::new(GIB);
    let handle = rig.sim.stream_create(0, 0).unwrap();
    let stream = rig.runtime.external_stream(handle).unwrap();
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    assert_eq!(place(&rig.allocate(3 * MIB)), 3 * MIB);
    // It may go once the block has been freed: the event stands for its work.
    rig.sim.stream_destroy(handle).unwrap();
    assert_eq!(place(&rig.allocate(3 * MIB)), 3 * MIB);
    rig.sim.complete_all();
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    let own = rig.cuda.allocate_on(30 * MIB, stream).unwrap();
    assert_eq!(rig.cuda.snapshot(false).segments[1].stream, handle);
    drop(own);
}

/// A busy stream of somebody else's that uses a block, and the block.
fn used_by_another(rig: &Rig, bytes: u64) -> (Stream, DataPtr) {
    let handle = rig.sim.stream_create(0, 0).unwrap();
    let stream = rig.runtime.external_stream(handle).unwrap();
    let block = rig.allocate(bytes);
    rig.cuda.record_stream(&block, stream).unwrap();
    fill(&*rig.sim, DevicePtr(address(&block)), 1, bytes, handle).unwrap();
    (stream, block)
}

/// Ends a stream as its owner does.
fn end_stream(rig: &Rig, stream: Stream) {
    rig.runtime.disown_stream(stream).unwrap();
    rig.sim.stream_destroy(rig.handle(stream)).unwrap();
}

#[test]
fn row_13_no_call_names_a_stream_that_is_gone() {
    for by_shortage in [true, false] {
        let rig = Rig::new(64 * MIB);
        let (stream, block) = used_by_another(&rig, 40 * MIB);
        end_stream(&rig, stream);
        assert_eq!(rig.sim.call_count("event_record"), 1, "in its last moment");
        drop(block);
        // Its work is still running.
        assert_ne!(place(&rig.allocate(2 * MIB)), 0);
        assert_eq!(rig.stats().active.all.current, 1);
        rig.cuda.check_invariants();
        if by_shortage {
            assert_eq!(place(&rig.allocate(40 * MIB)), 0, "it is reused");
        } else {
            rig.sim.complete_all();
            assert_eq!(place(&rig.allocate(40 * MIB)), 0, "it is free");
            assert_eq!(rig.sim.call_count("event_synchronize"), 0);
        }
        assert_eq!(rig.stats().num_ooms, 0);
        assert_eq!(rig.sim.call_count("event_record"), 1);
        assert_eq!(rig.sim.call_count("device_synchronize"), 0);
        assert_eq!(rig.cuda.take_free_error(0).unwrap(), None);
    }
}

#[test]
fn a_block_in_use_forgets_a_stream_that_has_passed_and_gone() {
    let rig = Rig::new(64 * MIB);
    let (stream, block) = used_by_another(&rig, 3 * MIB);
    end_stream(&rig, stream);
    rig.sim.complete_all();
    drop(rig.allocate(100));
    drop(block);
    assert_eq!(place(&rig.allocate(3 * MIB)), 0, "at once");
    rig.cuda.check_invariants();
}

#[test]
fn a_use_that_is_said_on_a_stream_that_is_gone_is_told_of_and_no_more() {
    let rig = Rig::new(64 * MIB);
    let (stream, block) = used_by_another(&rig, 1000);
    end_stream(&rig, stream);
    rig.cuda.record_stream(&block, stream).unwrap();
    drop(block);
    let error = rig.cuda.take_free_error(0).unwrap().unwrap();
    assert_eq!((error.call, error.status), ("event_record", Status::InvalidHandle));
    rig.cuda.check_invariants();
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn freed_blocks_wait_for_a_stream_that_has_gone_after_the_driver_refused_their_event() {
    let rig = Rig::new(64 * MIB);
    let (stream, block) = used_by_another(&rig, 3 * MIB);
    rig.sim.set_faults(FaultRule::nth("event_create", 1, Status::Other(7)).into());
    drop(block);
    end_stream(&rig, stream);
    rig.cuda.check_invariants();
    assert_ne!(place(&rig.allocate(3 * MIB)), 0);
    rig.sim.complete_all();
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    assert_eq!(rig.sim.call_count("device_synchronize"), 0);
}

#[test]
fn a_stream_that_could_not_be_given_back_is_as_it_was() {
    let rig = Rig::new(64 * MIB);
    let (stream, block) = used_by_another(&rig, 3 * MIB);
    rig.sim.set_faults(FaultRule::nth("event_record", 1, Status::Other(7)).into());
    let error = rig.runtime.disown_stream(stream).unwrap_err();
    assert_eq!(error.driver().unwrap().call, "event_record");
    rig.cuda.check_invariants();
    drop(block);
    assert_ne!(place(&rig.allocate(3 * MIB)), 0);
    rig.sim.complete_all();
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    end_stream(&rig, stream);
}

#[test]
fn a_block_of_a_capture_waits_for_a_stream_that_is_gone() {
    let rig = Rig::new(64 * MIB);
    let (gone, block) = used_by_another(&rig, 3 * MIB);
    end_stream(&rig, gone);
    let stream = rig.stream();
    let capture = rig.begin_capture(stream, rig.cuda.new_graph_pool_id(), CaptureMode::Global).unwrap();
    rig.cuda.record_stream(&block, stream).unwrap();
    drop(block);
    rig.cuda.check_invariants();
    drop(capture.end().unwrap());
    assert_eq!(rig.sim.call_count("event_record"), 1);
    assert_ne!(place(&rig.allocate(3 * MIB)), 0);
    rig.sim.complete_all();
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
    rig.cuda.check_invariants();
}

#[test]
fn a_stream_that_is_gone_unsaid_holds_memory_until_the_device_is_waited_for() {
    for by_shortage in [true, false] {
        let rig = Rig::new(64 * MIB);
        let handle = rig.sim.stream_create(0, 0).unwrap();
        let stream = rig.runtime.external_stream(handle).unwrap();
        let work = rig.sim.event_create(0, Default::default()).unwrap();
        let ptr = rig.allocate(40 * MIB);
        rig.cuda.record_stream(&ptr, stream).unwrap();
        rig.sim.event_record(work, handle).unwrap();
        rig.sim.stream_destroy(handle).unwrap();
        drop(ptr);
        let error = rig.cuda.take_free_error(0).unwrap().unwrap();
        assert_eq!((error.call, error.status), ("event_record", Status::InvalidHandle));
        let named = rig.sim.call_count("event_record");
        // Its work may still be running.
        for _ in 0..3 {
            assert_ne!(place(&rig.allocate(2 * MIB)), 0);
        }
        assert!(!rig.sim.event_query(work).unwrap());
        assert_eq!(rig.sim.call_count("event_record"), named, "the dead stream is not named again");
        rig.cuda.check_invariants();
        if by_shortage {
            assert_eq!(place(&rig.allocate(40 * MIB)), 0, "it is reused");
            assert_eq!(rig.stats().num_ooms, 0);
        } else {
            rig.cuda.empty_cache().unwrap();
            assert_eq!(rig.driver_used(), 0);
        }
        assert!(rig.sim.event_query(work).unwrap(), "after its work");
        assert_eq!(rig.sim.call_count("device_synchronize"), 1);
        assert_eq!(rig.stats().active.all.current, 0);
    }
}

#[test]
fn other_streams_of_a_block_are_waited_for_with_the_one_that_is_gone() {
    let rig = Rig::new(GIB);
    let gone = rig.sim.stream_create(0, 0).unwrap();
    let ptr = rig.allocate(3 * MIB);
    for stream in [rig.stream(), rig.runtime.external_stream(gone).unwrap(), rig.stream()] {
        rig.cuda.record_stream(&ptr, stream).unwrap();
    }
    rig.sim.stream_destroy(gone).unwrap();
    drop(ptr);
    rig.sim.complete_all();
    assert_ne!(place(&rig.allocate(3 * MIB)), 0);
    rig.cuda.check_invariants();
    rig.cuda.empty_cache().unwrap();
    assert_eq!(rig.driver_used(), 0);
}

#[test]
fn memory_that_outlives_the_runtime_goes_back_all_the_same() {
    let Rig { sim, runtime, cuda, watch: _watch } = Rig::new(GIB);
    let stream = runtime.stream_from_pool(0, 0).unwrap();
    let (a, b) = (cuda.allocate(3 * MIB).unwrap(), cuda.allocate(3 * MIB).unwrap());
    cuda.record_stream(&a, stream).unwrap();
    drop((cuda, runtime));
    // The streams of the pool have ended with the runtime.
    drop(a);
    assert_eq!(sim.memory_info(0).unwrap().free, GIB - 20 * MIB);
    drop(b);
    assert_eq!(sim.memory_info(0).unwrap().free, GIB);
    assert_eq!(sim.call_count("device_synchronize"), 0, "its use was known by an event");
}

#[test]
fn a_free_whose_event_the_driver_refuses_is_tried_again() {
    for call in ["event_create", "event_record"] {
        let rig = Rig::new(GIB);
        let ptr = rig.allocate(3 * MIB);
        rig.cuda.record_stream(&ptr, rig.stream()).unwrap();
        let rule = FaultRule::new(call, FaultWhen::Every(1), Status::OutOfMemory).times(3);
        rig.sim.set_faults(FaultPlan::from(rule));
        drop(ptr);
        assert_eq!(rig.cuda.take_free_error(0).unwrap().unwrap().call, call);
        assert_eq!(rig.cuda.take_free_error(0).unwrap(), None, "it is told once");
        // Each request tries again, and the third gets the event recorded.
        for _ in 0..3 {
            assert_ne!(place(&rig.allocate(3 * MIB)), 0);
            rig.cuda.check_invariants();
        }
        rig.sim.complete_all();
        assert_eq!(place(&rig.allocate(3 * MIB)), 0);
        assert_eq!(rig.sim.call_count("device_synchronize"), 0);
    }
}

#[test]
fn a_query_that_fails_leaves_the_queue_whole() {
    // Row D1 of PyTorch's defects: the next allocation crashes there.
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let ptr = rig.allocate(3 * MIB);
    rig.cuda.record_stream(&ptr, stream).unwrap();
    drop(ptr);
    rig.sim.complete_all();
    rig.sim.set_faults(FaultPlan::from(FaultRule::nth("event_query", 1, Status::Other(900))));
    let error = rig.cuda.allocate(1).unwrap_err();
    assert_eq!((error.kind(), error.driver().unwrap().call), (ErrorKind::Driver, "event_query"));
    rig.cuda.check_invariants();
    assert_eq!(rig.stats().active.all.current, 1, "the block waits");
    assert_eq!(place(&rig.allocate(3 * MIB)), 0);
}

#[test]
fn memory_goes_back_to_the_driver_after_the_work_of_its_own_stream() {
    for no_caching in [false, true] {
        let config = Config { no_caching, ..Config::default() };
        let rig = Rig::with_config(SimConfig::with_bytes(GIB), config);
        let block = rig.allocate(4096);
        let (ptr, on) = (DevicePtr(address(&block)), StreamHandle::default_of(0));
        fill(&*rig.sim, ptr, 7, 4096, on).unwrap();
        let download = Download::issue(&*rig.sim, ptr, 4096, on).unwrap();
        // No `record_stream`: the block's own stream needs none.
        drop(block);
        rig.cuda.empty_cache().unwrap();
        assert_eq!(rig.driver_used(), 0);
        rig.sim.device_synchronize(0).unwrap();
        assert_eq!(download.bytes(), [7; 4096]);
    }
}
