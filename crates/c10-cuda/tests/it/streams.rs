//! `CudaStream`, as users see it, and the errors that drops met.
#![expect(unsafe_code, reason = "adopts a stream that is there")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::sync::Arc;

use c10_core::{EventFlags, Stream};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{CaptureMode, CaptureState, Driver, Status, StreamHandle};
use c10_cuda::stream::id::StreamKind;
use c10_cuda::{CachingAllocator, Config, CudaEvent, CudaStream, ErrorKind, Runtime};

use crate::support::{MIB, fill};

fn machine() -> (Arc<SimDriver>, Runtime) {
    let sim = SimDriver::new(SimConfig::with_devices(2, 64 * MIB).log_calls(100));
    let runtime = Runtime::new(sim.clone());
    (sim, runtime)
}

/// Gives a stream something to do.
fn busy(sim: &SimDriver, stream: &CudaStream) {
    let ptr = sim.malloc(stream.handle().device, 512).unwrap();
    fill(sim, ptr, 1, 512, stream.handle()).unwrap();
}

#[test]
fn a_stream_says_what_it_is() {
    let (sim, runtime) = machine();
    let pooled = CudaStream::from_pool(&runtime, 1, -2).unwrap();
    assert_eq!((pooled.priority().unwrap(), pooled.device_index()), (-2, 1));
    assert_eq!(pooled.kind(), StreamKind::Pool { class: 2, index: 0 });
    assert_eq!(runtime.handle(&pooled).unwrap(), pooled.handle());
    let default = CudaStream::default_of(&runtime, 0).unwrap();
    assert!(default.is_default());
    assert_eq!(default.to_string(), "<CudaStream device=cuda:0 cuda_stream=0x0>");
    assert_eq!(
        pooled.to_string(),
        format!("<CudaStream device=cuda:1 cuda_stream={:#x}>", pooled.handle().raw)
    );
    let handle = sim.stream_create(0, -1).unwrap();
    let external = CudaStream::external(&runtime, handle).unwrap();
    assert_eq!((external.kind(), external.priority().unwrap()), (StreamKind::External(handle.raw), -1));
    let per_thread = CudaStream::per_thread(&runtime, 1).unwrap();
    assert_eq!(
        (per_thread.handle(), per_thread.kind()),
        (StreamHandle::per_thread_default(1), StreamKind::PerThread)
    );
    assert_eq!(CudaStream::current(&runtime, 1).unwrap(), CudaStream::default_of(&runtime, 1).unwrap());
    for wrong in [CudaStream::default_of(&runtime, 2), CudaStream::from_pool(&runtime, 2, 0)] {
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn equal_streams_are_one_stream_of_one_driver() {
    let (sim, runtime) = machine();
    let (a, b) =
        (CudaStream::from_pool(&runtime, 0, 0).unwrap(), CudaStream::from_pool(&runtime, 0, 0).unwrap());
    let same = CudaStream::external(&runtime, a.handle()).unwrap();
    assert!(a == same && a != b, "by whatever name");
    assert_ne!(Stream::from(&a), Stream::from(same.clone()));
    let other = Runtime::new(sim);
    assert_eq!(CudaStream::external(&other, a.handle()).unwrap(), a);
    let (_elsewhere, foreign) = machine();
    let foreign = CudaStream::default_of(&foreign, 0).unwrap();
    assert_ne!(foreign, CudaStream::default_of(&runtime, 0).unwrap());
    assert_eq!(HashSet::from([a.clone(), same, b, a]).len(), 2);
}

#[test]
fn a_stream_of_another_runtime_is_refused() {
    let (_sim, runtime) = machine();
    let (_other, elsewhere) = machine();
    let stream = CudaStream::from_pool(&elsewhere, 0, 0).unwrap();
    // Its plain value would have been taken for this runtime's own.
    CudaStream::from_pool(&runtime, 0, 0).unwrap();
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::default()).unwrap();
    let event = CudaEvent::new(&runtime, EventFlags::default()).unwrap();
    for error in [
        runtime.set_current_stream(&stream).unwrap_err(),
        cuda.allocate_on(100, &stream).unwrap_err(),
        event.record(&stream).unwrap_err(),
        CudaStream::default_of(&runtime, 0).unwrap().wait_stream(&stream).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.to_string(), "stream 3 on device cuda:0 is a stream of another runtime");
    }
}

#[test]
fn a_stream_keeps_its_runtime() {
    let (sim, runtime) = machine();
    let stream = CudaStream::from_pool(&runtime, 0, 0).unwrap();
    drop(runtime);
    busy(&sim, &stream);
    assert!(!stream.query().unwrap());
    stream.synchronize().unwrap();
    let handle = stream.handle();
    drop(stream);
    assert_eq!(sim.stream_query(handle).unwrap_err().status, Status::InvalidHandle);
}

#[test]
fn streams_wait_for_streams_and_events() {
    let (sim, runtime) = machine();
    let [a, b, c] = [0, 1, 1].map(|device| CudaStream::from_pool(&runtime, device, 0).unwrap());
    busy(&sim, &a);
    b.wait_stream(&a).unwrap();
    let event = b.record_event().unwrap();
    c.wait_event(&event).unwrap();
    assert!(!(a.query().unwrap() || b.query().unwrap() || c.query().unwrap()));
    c.synchronize().unwrap();
    assert!(a.query().unwrap() && b.query().unwrap() && event.query().unwrap());
    let before = sim.call_count("event_create");
    a.wait_stream(&a).unwrap();
    assert_eq!(sim.call_count("event_create"), before, "it waits for itself anyway");
    assert_eq!(sim.call_count("event_create"), sim.call_count("event_destroy") + 1);
}

#[test]
fn guards_take_streams_and_restore_what_was() {
    let (_sim, runtime) = machine();
    let [a, b, c] = [0, 1, 1].map(|device| CudaStream::from_pool(&runtime, device, 0).unwrap());
    let current = || [0, 1].map(|device| runtime.current_stream(device).unwrap());
    let before = current();
    b.with(|| assert_eq!((runtime.current_device(), current()), (1, [before[0], b.stream()]))).unwrap();
    {
        let _b = b.guard().unwrap();
        let many = runtime.multi_stream_guard(&[&a, &c, &b]).unwrap();
        assert_eq!((runtime.current_device(), current()), (1, [a.stream(), b.stream()]));
        assert_eq!(many.original_streams(), [before[0], b.stream(), c.stream()]);
        drop(many);
        assert_eq!(current(), [before[0], b.stream()]);
        let bad = Stream::new(c10_core::DeviceType::Cuda, 1, c10_core::StreamId(1));
        assert!(runtime.multi_stream_guard(&[a.stream(), bad]).is_err());
        assert_eq!(current(), [before[0], b.stream()], "all or none");
    }
    assert_eq!((runtime.current_device(), current()), (0, before));
    let mut guard = runtime.device_guard(1).unwrap();
    guard.set_device(0).unwrap();
    assert!(guard.set_device(2).is_err());
    runtime.set_device(1).unwrap();
    drop(guard);
    assert_eq!(runtime.current_device(), 0);
}

#[test]
fn no_memory_is_kept_for_the_per_thread_stream() {
    let (_sim, runtime) = machine();
    let stream = CudaStream::per_thread(&runtime, 0).unwrap();
    let cuda = CachingAllocator::with_runtime(runtime.clone(), Config::default()).unwrap();
    let block = cuda.allocate(100).unwrap();
    for error in [
        runtime.set_current_stream(&stream).unwrap_err(),
        cuda.allocate_on(100, &stream).unwrap_err(),
        cuda.raw_alloc_with_stream(100, &stream).unwrap_err(),
        cuda.record_stream(&block, &stream).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.to_string().starts_with("the per-thread default stream is another stream on each thread")
        );
    }
}

#[test]
fn each_thread_has_its_own_per_thread_stream() {
    let (sim, runtime) = machine();
    let stream = CudaStream::per_thread(&runtime, 0).unwrap();
    busy(&sim, &stream);
    assert!(!stream.query().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(stream.query().unwrap(), "another one"));
    });
    stream.synchronize().unwrap();
    assert!(stream.query().unwrap());
}

#[test]
fn an_adopted_stream_is_used_until_it_is_given_back() {
    let (sim, runtime) = machine();
    let handle = sim.stream_create(0, 0).unwrap();
    // SAFETY: the stream is there until it is given back.
    let stream = unsafe { CudaStream::adopt(&runtime, handle) }.unwrap();
    busy(&sim, &stream);
    stream.synchronize().unwrap();
    runtime.disown_stream(&stream).unwrap();
    sim.stream_destroy(handle).unwrap();
    assert!(stream.query().is_err());
}

#[test]
fn devices_are_asked_once_for_what_does_not_change() {
    let (sim, runtime) = machine();
    assert_eq!(runtime.device_properties(1).unwrap().total_memory, 64 * MIB);
    runtime.device_properties(1).unwrap();
    assert_eq!(sim.call_count("device_props"), 1);
    for _ in 0..2 {
        assert!(runtime.can_device_access_peer(0, 1).unwrap());
        assert!(runtime.enable_peer_access(0, 1).unwrap());
    }
    assert_eq!((sim.call_count("can_access_peer"), sim.call_count("enable_peer_access")), (1, 1));
    assert!(runtime.can_device_access_peer(1, 1).unwrap(), "its own");
    assert!(runtime.can_device_access_peer(0, 2).is_err() && runtime.device_properties(2).is_err());
    let apart = SimDriver::new(SimConfig { peers: false, ..SimConfig::with_devices(2, MIB) });
    let apart = Runtime::new(apart);
    assert!(!apart.can_device_access_peer(0, 1).unwrap() && !apart.enable_peer_access(0, 1).unwrap());
    let info = runtime.mem_get_info(0).unwrap();
    assert_eq!((info.free, info.total), (64 * MIB, 64 * MIB));
    let none = Runtime::new(SimDriver::new(SimConfig::with_devices(0, MIB)));
    assert_eq!(none.device_count(), 0);
    assert!(none.synchronize(0).is_err());
}

#[test]
fn a_device_is_waited_for_whole() {
    let (sim, runtime) = machine();
    let [a, b] = [0, 0].map(|device| CudaStream::from_pool(&runtime, device, 0).unwrap());
    busy(&sim, &a);
    busy(&sim, &b);
    runtime.synchronize(1).unwrap();
    assert!(!a.query().unwrap());
    runtime.synchronize(0).unwrap();
    assert!(a.query().unwrap() && b.query().unwrap());
}

#[test]
fn what_does_not_go_with_a_capture_is_refused_as_such() {
    let (sim, runtime) = machine();
    let stream = CudaStream::from_pool(&runtime, 0, 0).unwrap();
    sim.stream_begin_capture(stream.handle(), CaptureMode::Relaxed).unwrap();
    assert!(matches!(stream.capture_state().unwrap(), CaptureState::Active { .. }));
    let refused = stream.synchronize().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Capture);
    assert_eq!(refused.driver().unwrap().status, Status::CaptureUnsupported);
    insta::assert_snapshot!(refused, @"stream_synchronize failed on device 0: operation not permitted when stream is capturing. While a stream captures, nothing may wait for it, ask how far it is, or stop the device; a capture that this was refused for is spoilt, and fails when it ends.");
    assert!(matches!(stream.capture_state().unwrap(), CaptureState::Invalidated { .. }));
    let event = stream.record_event().unwrap_err();
    insta::assert_snapshot!(event, @"event_record failed on device 0: operation failed due to a previous error during capture. A call that was refused before has spoilt the capture: end it, and capture again without that call.");
    assert_eq!(runtime.synchronize(0).unwrap_err().kind(), ErrorKind::Capture);
    assert!(sim.stream_end_capture(stream.handle()).is_err());
    stream.synchronize().unwrap();
}

#[test]
fn the_first_error_of_drops_is_returned_by_the_next_call_once() {
    let (sim, runtime) = machine();
    let stream = CudaStream::from_pool(&runtime, 0, 0).unwrap();
    let calls: [(&str, &dyn Fn() -> Option<c10_cuda::Error>); 9] = [
        ("query", &|| stream.query().err()),
        ("synchronize", &|| stream.synchronize().err()),
        ("priority", &|| stream.priority().err()),
        ("record_event", &|| stream.record_event().err()),
        ("stream_from_pool", &|| runtime.stream_from_pool(1, 0).err()),
        ("synchronize a device", &|| runtime.synchronize(1).err()),
        ("device_properties", &|| runtime.device_properties(1).err()),
        ("mem_get_info", &|| runtime.mem_get_info(1).err()),
        ("can_device_access_peer", &|| runtime.can_device_access_peer(1, 0).err()),
    ];
    for (name, call) in calls {
        let two = [stream.record_event().unwrap(), stream.record_event().unwrap()];
        let plan = FaultPlan::from(FaultRule::nth("event_destroy", 1, Status::Other(7)));
        sim.set_faults(plan);
        drop(two);
        sim.set_faults(FaultPlan::new());
        sim.take_calls();
        let error = call().unwrap_or_else(|| panic!("{name} tells of it"));
        assert!(sim.take_calls().is_empty(), "{name} was not made");
        assert_eq!(
            error.driver().map(|driver| (driver.call, driver.status)),
            Some(("event_destroy", Status::Other(7)))
        );
        assert!(call().is_none(), "{name} tells once");
    }
    insta::assert_snapshot!({
        sim.set_faults(FaultRule::nth("event_destroy", 1, Status::InvalidHandle).into());
        drop(stream.record_event().unwrap());
        runtime.synchronize(0).unwrap_err()
    }, @"event_destroy failed on device 0: invalid resource handle, when something was dropped before; this call was not made, and can be made again");
    assert_eq!(runtime.take_drop_error(), None);
}

#[test]
fn a_guard_that_ends_neither_tells_nor_loses_an_error() {
    let (sim, runtime) = machine();
    let stream = CudaStream::from_pool(&runtime, 1, 0).unwrap();
    {
        let _guard = stream.guard().unwrap();
        sim.set_faults(FaultRule::nth("event_destroy", 1, Status::Other(7)).into());
        drop(stream.record_event().unwrap());
    }
    assert_eq!(runtime.current_device(), 0);
    assert!(runtime.current_stream(1).unwrap().is_default());
    assert_eq!(runtime.take_drop_error().map(|error| error.call), Some("event_destroy"));
}

#[test]
fn a_pool_that_cannot_be_undone_tells_later() {
    let (sim, runtime) = machine();
    let plan = FaultPlan::from(FaultRule::nth("stream_create", 5, Status::OutOfMemory));
    sim.set_faults(plan.rule(FaultRule::nth("stream_destroy", 2, Status::Other(7))));
    let error = runtime.stream_from_pool(0, 0).unwrap_err();
    assert_eq!(error.driver().unwrap().call, "stream_create");
    let told = runtime.stream_from_pool(0, 0).unwrap_err();
    assert_eq!(told.driver().unwrap().call, "stream_destroy");
    runtime.stream_from_pool(0, 0).unwrap();
}
