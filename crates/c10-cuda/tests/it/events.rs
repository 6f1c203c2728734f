//! `CudaEvent`, on the simulated device.

use std::sync::Arc;

use c10_core::{Device, EventFlags};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status, StreamHandle};
use c10_cuda::{CudaEvent, ErrorKind, Result, Runtime};

use crate::support::{MIB, fill};

const TIMING: EventFlags = EventFlags { timing: true, blocking: false, interprocess: false };

fn machine() -> (Arc<SimDriver>, Runtime) {
    let sim = SimDriver::new(SimConfig::with_devices(2, 64 * MIB));
    let runtime = Runtime::new(sim.clone());
    (sim, runtime)
}

fn event(runtime: &Runtime, flags: EventFlags) -> CudaEvent {
    CudaEvent::new(runtime, flags).unwrap()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.map_err(|error| error.kind()).err()
}

#[test]
fn before_the_first_record_there_is_nothing_to_wait_for() {
    let (sim, runtime) = machine();
    let stream = runtime.stream_from_pool(1, 0).unwrap();
    let event = event(&runtime, EventFlags::default());
    assert_eq!((event.device(), event.handle(), event.flags()), (None, None, EventFlags::default()));
    assert!(event.query().unwrap());
    event.synchronize().unwrap();
    event.wait(stream).unwrap();
    assert_eq!((sim.call_count("event_create"), sim.pending()), (0, 0));
    event.record(stream).unwrap();
    // Made on the device of the stream, whichever is current.
    assert_eq!((event.device(), runtime.current_device()), (Some(Device::cuda(1)), 0));
    assert!(!event.query().unwrap());
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
    drop(event);
    assert_eq!(sim.call_count("event_destroy"), 1);
}

#[test]
fn a_record_forgets_the_one_before_and_stays_on_its_device() {
    let (sim, runtime) = machine();
    let (a, b) = (runtime.stream_from_pool(0, 0).unwrap(), runtime.stream_from_pool(0, 0).unwrap());
    let event = event(&runtime, EventFlags::default());
    event.record_once(a).unwrap();
    event.record_once(b).unwrap();
    sim.complete_stream(runtime.handle(a).unwrap());
    assert!(event.query().unwrap(), "once is once");
    event.record(b).unwrap();
    assert!(!event.query().unwrap());
    let elsewhere = event.record(runtime.stream_from_pool(1, 0).unwrap()).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(elsewhere, @"the event was first recorded on device 0, and stream 3 on device cuda:1 is of another");
    assert!(!event.query().unwrap(), "as it was");
    sim.complete_all();
    assert!(event.query().unwrap());
}

#[test]
fn streams_wait_for_it_across_devices() {
    let (sim, runtime) = machine();
    let (a, b) = (runtime.stream_from_pool(0, 0).unwrap(), runtime.stream_from_pool(1, 0).unwrap());
    let ptr = sim.malloc(0, 1024).unwrap();
    let event = event(&runtime, EventFlags::default());
    fill(&*sim, ptr, 4, 1024, runtime.handle(a).unwrap()).unwrap();
    event.record(a).unwrap();
    event.wait(b).unwrap();
    // What waits for it still does.
    drop(event);
    sim.complete_stream(runtime.handle(b).unwrap());
    let mut bytes = [0; 1024];
    sim.peek(ptr, &mut bytes).unwrap();
    assert_eq!(bytes, [4; 1024]);
}

#[test]
fn time_passes_between_events_that_take_it() {
    let (sim, runtime) = machine();
    let stream = runtime.stream_from_pool(0, 0).unwrap();
    let ptr = sim.malloc(0, 32 * MIB).unwrap();
    let (start, end, plain) =
        (event(&runtime, TIMING), event(&runtime, TIMING), event(&runtime, EventFlags::default()));
    plain.record(stream).unwrap();
    start.record(stream).unwrap();
    let error = |a: &CudaEvent, b: &CudaEvent| a.elapsed_ms(b).unwrap_err();
    // In PyTorch's order: how they were made, whether they are recorded, whether they are complete.
    insta::assert_snapshot!(error(&start, &plain), @"Both events must be created with argument 'enable_timing=True'.");
    insta::assert_snapshot!(error(&start, &end), @"Both events must be recorded before calculating elapsed time.");
    assert_eq!(error(&start, &end).kind(), ErrorKind::InvalidArgument);
    fill(&*sim, ptr, 1, 32 * MIB, runtime.handle(stream).unwrap()).unwrap();
    end.record(stream).unwrap();
    insta::assert_snapshot!(error(&start, &end), @"Both events must be completed before calculating elapsed time.");
    assert_eq!(error(&start, &end).kind(), ErrorKind::NotReady);
    assert_eq!(c10_core::Error::from(error(&start, &end)).kind(), c10_core::ErrorKind::Busy);
    end.synchronize().unwrap();
    let ms = start.elapsed_ms(&end).unwrap();
    assert!(ms > 0.0 && end.elapsed_ms(&start).unwrap() == -ms);
    let elsewhere = event(&runtime, TIMING);
    elsewhere.record(runtime.stream_from_pool(1, 0).unwrap()).unwrap();
    elsewhere.synchronize().unwrap();
    insta::assert_snapshot!(error(&start, &elsewhere), @"no clock is common to events of device 0 and device 1");
    let (_sim, other) = machine();
    let foreign = event(&other, TIMING);
    foreign.record(other.stream_from_pool(0, 0).unwrap()).unwrap();
    foreign.synchronize().unwrap();
    assert_eq!(kind(start.elapsed_ms(&foreign)), Some(ErrorKind::InvalidArgument));
}

#[test]
fn flags_that_exclude_each_other_are_refused() {
    let (_sim, runtime) = machine();
    let both = EventFlags { interprocess: true, ..TIMING };
    assert_eq!(kind(CudaEvent::new(&runtime, both)), Some(ErrorKind::InvalidArgument));
    let shared = event(&runtime, EventFlags { interprocess: true, ..EventFlags::default() });
    shared.record(runtime.current_stream(0).unwrap()).unwrap();
}

#[test]
fn a_failed_first_record_leaves_no_event() {
    let (sim, runtime) = machine();
    let event = event(&runtime, EventFlags::default());
    for call in ["event_create", "event_record"] {
        sim.set_faults(FaultRule::nth(call, 1, Status::Other(7)).into());
        let error = event.record(runtime.current_stream(0).unwrap()).unwrap_err();
        assert_eq!(error.driver().map(|driver| driver.call), Some(call));
        assert_eq!(event.handle(), None);
    }
    assert_eq!(sim.call_count("event_destroy"), 1);
    // It is not bound to the device of the failed one.
    event.record(runtime.current_stream(1).unwrap()).unwrap();
    sim.set_faults(FaultPlan::new());
    sim.set_faults(FaultRule::nth("event_destroy", 1, Status::Other(7)).into());
    // No panic; the next call that asks the driver tells of it, once.
    drop(event);
    let told = runtime.mem_get_info(0).unwrap_err();
    assert_eq!(told.driver().map(|driver| driver.call), Some("event_destroy"));
    runtime.mem_get_info(0).unwrap();
}

#[test]
fn an_event_outlives_every_other_handle_of_its_runtime() {
    let (sim, runtime) = machine();
    let stream = runtime.stream_from_pool(0, 0).unwrap();
    let event = event(&runtime, EventFlags::default());
    event.record(stream).unwrap();
    drop(runtime);
    assert!(!event.query().unwrap());
    event.record(stream).unwrap();
    event.synchronize().unwrap();
    drop(event);
    assert_eq!(sim.call_count("stream_create"), sim.call_count("stream_destroy"));
    assert!(sim.stream_query(StreamHandle::default_of(0)).unwrap());
}

#[test]
fn threads_record_wait_and_ask_at_once() {
    let (sim, runtime) = machine();
    let event = event(&runtime, EventFlags::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = runtime.stream_from_pool(0, 0).unwrap();
                for _ in 0..100 {
                    event.record(stream).unwrap();
                    event.wait(stream).unwrap();
                    event.query().unwrap();
                    event.synchronize().unwrap();
                }
            });
        }
    });
    assert_eq!(sim.call_count("event_create"), 1);
    assert_eq!(sim.take_faults(), []);
}

#[test]
fn an_event_says_what_it_is() {
    let (_sim, runtime) = machine();
    let event = event(&runtime, EventFlags::default());
    assert_eq!(event.to_string(), "<CudaEvent uninitialized>");
    event.record(runtime.current_stream(0).unwrap()).unwrap();
    assert_eq!(event.to_string(), format!("<CudaEvent {:#x}>", event.handle().unwrap().raw));
}

#[test]
fn an_event_is_recorded_in_one_process_and_waited_for_in_another() {
    let (sim, runtime) = machine();
    let other = Runtime::new(sim.new_process());
    let shared = event(&runtime, EventFlags { interprocess: true, ..EventFlags::default() });
    runtime.set_device(1).unwrap();
    let handle = shared.ipc_handle().unwrap();
    assert_eq!(
        (shared.device(), shared.query().unwrap()),
        (Some(Device::cuda(1)), true),
        "made, and not recorded"
    );
    let elsewhere = shared.record(runtime.current_stream(0).unwrap());
    assert_eq!(kind(elsewhere), Some(ErrorKind::InvalidArgument), "it is of the device that was current");
    let opened = CudaEvent::from_ipc_handle(&other, 1, &handle).unwrap();
    let stream = runtime.stream_from_pool(1, 0).unwrap();
    let ptr = sim.malloc(1, 512).unwrap();
    fill(&*sim, ptr, 1, 512, runtime.handle(stream).unwrap()).unwrap();
    shared.record(stream).unwrap();
    assert!(!opened.query().unwrap());
    opened.synchronize().unwrap();
    assert!(shared.query().unwrap() && opened.query().unwrap());
    drop((opened, shared));
    assert_eq!((runtime.take_drop_error(), other.take_drop_error()), (None, None));
}

#[test]
fn only_events_made_for_it_are_exported() {
    let (sim, runtime) = machine();
    let plain = event(&runtime, EventFlags::default());
    assert_eq!(kind(plain.ipc_handle()), Some(ErrorKind::InvalidArgument));
    assert_eq!(plain.handle(), None);
    let shared = event(&runtime, EventFlags { interprocess: true, ..EventFlags::default() });
    sim.set_faults(FaultRule::nth("event_export", 1, Status::Other(7)).into());
    assert_eq!(kind(shared.ipc_handle()), Some(ErrorKind::Driver));
    let handle = shared.ipc_handle().unwrap();
    assert_eq!(shared.ipc_handle().unwrap(), handle);
    assert_eq!(sim.call_count("event_create"), 1);
    assert!(CudaEvent::from_ipc_handle(&runtime, 7, &handle).is_err());
    let unknown = c10_cuda::driver::IpcHandle([9; 64]);
    assert_eq!(kind(CudaEvent::from_ipc_handle(&runtime, 0, &unknown)), Some(ErrorKind::Driver));
}
