//! Streams and what is current on a thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc;

use c10_core::{DeviceType, Stream, StreamId};
use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status, StreamHandle};
use c10_cuda::stream::id::{MAX_PRIORITY_CLASSES, STREAMS_PER_POOL, StreamKind};
use c10_cuda::{Config, ErrorKind, Runtime};
use proptest::prelude::*;

use crate::rig::{MIB, Rig};

fn runtime(devices: usize) -> (Arc<SimDriver>, Runtime) {
    let sim = SimDriver::new(SimConfig::with_devices(devices, 64 * MIB));
    (Arc::clone(&sim), Runtime::new(sim))
}

fn default_of(device: u8) -> Stream {
    Stream::default_of(DeviceType::Cuda, device)
}

#[test]
fn the_bits_of_an_id_are_pytorchs() {
    assert_eq!(StreamKind::Default.id(), StreamId(0));
    assert_eq!(StreamKind::Pool { class: 0, index: 0 }.id(), StreamId(0b00011));
    assert_eq!(StreamKind::Pool { class: 3, index: 31 }.id(), StreamId(31 << 5 | 0b1001));
    assert_eq!(StreamKind::External(0x7f12_3450).id(), StreamId(0x7f12_3450));
    for made_up in [1, 31 << 5 | 0b1011, 32 << 5 | 0b11, -1, i64::MAX] {
        assert_eq!(StreamKind::of(StreamId(made_up)), None, "{made_up}");
    }
}

proptest! {
    #[test]
    fn an_id_means_one_stream(bits in any::<i64>()) {
        if let Some(kind) = StreamKind::of(StreamId(bits)) {
            prop_assert_eq!(kind.id(), StreamId(bits));
        }
    }
}

#[test]
fn the_33rd_stream_is_the_first_again() {
    let (sim, runtime) = runtime(2);
    assert_eq!(sim.call_count("stream_create"), 0, "none is made before the first is asked for");
    let streams: Vec<_> = (0..33).map(|_| runtime.stream_from_pool(0, 0).unwrap()).collect();
    assert_eq!(sim.call_count("stream_create"), (STREAMS_PER_POOL * MAX_PRIORITY_CLASSES) as u64);
    assert_eq!(streams[32], streams[0]);
    let mut handles: Vec<_> = streams[..32].iter().map(|s| runtime.handle(*s).unwrap()).collect();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!(handles.len(), 32);
    assert_eq!(runtime.handle(runtime.stream_from_pool(1, 0).unwrap()).unwrap().device, 1);
}

#[test]
fn priorities_have_streams_of_their_own_and_end_at_the_highest() {
    let (_sim, runtime) = runtime(1);
    let class = |priority| match StreamKind::of(runtime.stream_from_pool(0, priority).unwrap().id()) {
        Some(StreamKind::Pool { class, .. }) => class,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, -1, -3, -4, -100, i32::MIN].map(class), [0, 1, 3, 3, 3, 3]);
    let error = runtime.stream_from_pool(0, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(error, @"Expected cuda stream priority to be less than or equal to 0, got 1");
}

#[test]
fn a_pool_that_cannot_be_made_leaves_no_streams_behind() {
    let (sim, runtime) = runtime(1);
    for (call, nth) in [("stream_priority_range", 1), ("stream_create", 1), ("stream_create", 77)] {
        let (created, destroyed) = (sim.call_count("stream_create"), sim.call_count("stream_destroy"));
        sim.set_faults(FaultPlan::from(FaultRule::nth(call, nth, Status::OutOfMemory)));
        let error = runtime.stream_from_pool(0, 0).unwrap_err();
        assert_eq!((error.kind(), error.driver().unwrap().call), (ErrorKind::Driver, call));
        let failed = u64::from(call == "stream_create");
        let created = sim.call_count("stream_create") - created - failed;
        assert_eq!(created, sim.call_count("stream_destroy") - destroyed);
        let pooled = Stream::new(DeviceType::Cuda, 0, StreamKind::Pool { class: 0, index: 0 }.id());
        assert_eq!(runtime.handle(pooled).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    runtime.stream_from_pool(0, 0).unwrap();
}

#[test]
fn the_pools_end_with_the_runtime() {
    let (sim, runtime) = runtime(1);
    let handle = runtime.handle(runtime.stream_from_pool(0, 0).unwrap()).unwrap();
    let other = runtime.clone();
    drop(runtime);
    assert!(sim.stream_query(handle).unwrap());
    drop(other);
    assert_eq!(sim.stream_query(handle).unwrap_err().status, Status::InvalidHandle);
}

#[test]
fn external_streams_keep_the_drivers_value() {
    let (sim, runtime) = runtime(2);
    // Whatever number the driver gives, even or odd slot.
    for _ in 0..4 {
        let handle = sim.stream_create(1, 0).unwrap();
        let stream = runtime.external_stream(handle).unwrap();
        assert_eq!(StreamKind::of(stream.id()), Some(StreamKind::External(handle.raw)));
        assert_eq!(runtime.handle(stream).unwrap(), handle);
    }
    assert!(runtime.external_stream(StreamHandle::default_of(1)).unwrap().is_default());
    for wrong in [StreamHandle { device: 0, raw: 7 }, StreamHandle { device: 2, raw: 8 }] {
        assert_eq!(runtime.external_stream(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_stream_that_is_not_the_runtimes_is_refused() {
    let (_sim, runtime) = runtime(1);
    let pooled = StreamKind::Pool { class: 0, index: 0 }.id();
    for stream in [
        Stream::new(DeviceType::Cuda, 0, pooled),
        Stream::new(DeviceType::Cuda, 0, StreamId(1)),
        Stream::new(DeviceType::Cpu, 0, StreamId(0)),
        default_of(1),
    ] {
        assert_eq!(runtime.handle(stream).unwrap_err().kind(), ErrorKind::InvalidArgument, "{stream}");
        assert!(runtime.set_current_stream(stream).is_err());
    }
    insta::assert_snapshot!(runtime.current_stream(5).unwrap_err(), @"Device index value 5 is out of index range [0, 1)");
    insta::assert_snapshot!(runtime.handle(Stream::new(DeviceType::Cuda, 0, pooled)).unwrap_err(), @"stream 3 on device cuda:0 is not a stream of this runtime");
}

#[test]
fn each_thread_and_each_runtime_has_its_own_current_streams() {
    let (_sim, a) = runtime(2);
    let (_other, b) = runtime(2);
    let stream = a.stream_from_pool(1, 0).unwrap();
    a.set_current_stream(stream).unwrap();
    assert_eq!(a.current_device(), 0, "the device stays");
    assert_eq!(a.current_stream(1).unwrap(), stream);
    assert_eq!(a.current_stream(0).unwrap(), default_of(0));
    a.set_device(1).unwrap();
    assert_eq!((a.current_device(), b.current_device()), (1, 0));
    assert_eq!(b.current_stream(1).unwrap(), default_of(1));
    assert!(b.set_device(2).is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!((a.current_device(), a.current_stream(1).unwrap()), (0, default_of(1)));
        });
    });
    // The entry used last changes with every call.
    assert_eq!([&a, &b, &a, &b].map(Runtime::current_device), [1, 0, 1, 0]);
    drop(a);
    let (_third, c) = runtime(1);
    assert_eq!((c.current_device(), b.current_device()), (0, 0));
}

#[test]
fn a_thread_that_ends_can_still_allocate_and_free() {
    struct OnExit(Rig, mpsc::Sender<u64>);
    impl Drop for OnExit {
        fn drop(&mut self) {
            let ptr = self.0.cuda.allocate(100).unwrap();
            self.0.runtime.set_device(0).unwrap();
            self.0.runtime.current_stream(0).unwrap();
            self.1.send(self.0.cuda.memory_allocated(0).unwrap()).unwrap();
            drop(ptr);
        }
    }
    thread_local!(static LAST: RefCell<Option<OnExit>> = const { RefCell::new(None) });
    for comes_first in [true, false] {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let rig = Rig::with_config(SimConfig::with_bytes(64 * MIB), Config::default());
            // Whether this thread's own entries end before or after.
            if comes_first {
                LAST.with(|last| assert!(last.borrow().is_none()));
            }
            rig.runtime.set_device(0).unwrap();
            LAST.set(Some(OnExit(rig, tell)));
            // Another runtime is now the one used last.
            assert_eq!(runtime(1).1.current_device(), 0);
        });
        thread.join().unwrap();
        assert_eq!(told.recv().unwrap(), 512);
    }
}
