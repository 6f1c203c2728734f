//! Guards: the process's, over the CUDA hooks, and a runtime's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use c10_core::guard::{DeviceGuard, MultiStreamGuard, StreamGuard, with_device, with_stream};
use c10_core::{Device, DeviceType, Stream, StreamId};
use c10_cuda::driver::sim::{Completion, SimConfig, SimDriver};
use c10_cuda::{ErrorKind, Runtime};

use crate::machine::machine;
use crate::support::MIB;

fn runtime() -> Runtime {
    Runtime::new(SimDriver::new(SimConfig::with_devices(3, MIB)))
}

fn current(runtime: &Runtime) -> (u8, Vec<i64>) {
    let streams = (0..runtime.device_count()).map(|d| runtime.current_stream(d).unwrap().id().0).collect();
    (runtime.current_device(), streams)
}

#[test]
fn the_processs_guards_switch_the_registered_runtime() {
    let m = machine(Completion::Manual);
    let runtime = m.allocator.runtime();
    let (a, b) = (runtime.stream_from_pool(1, 0).unwrap(), runtime.stream_from_pool(0, 0).unwrap());
    {
        let guard = StreamGuard::new(a).unwrap();
        assert_eq!(current(runtime), (1, vec![0, a.id().0]));
        assert_eq!((guard.original_stream().id().0, guard.original_device()), (0, Some(Device::cuda(0))));
        let _multi = MultiStreamGuard::new(&[b]).unwrap();
        assert_eq!(current(runtime), (1, vec![b.id().0, a.id().0]));
        // A block is of the stream that is current.
        let block = m.allocator.allocate(10).unwrap();
        assert_eq!(block.device(), Device::cuda(1));
    }
    assert_eq!(current(runtime), (0, vec![0, 0]));
    let first = DeviceGuard::new(Device::cuda(1)).unwrap();
    let second = DeviceGuard::new(Device::cuda(0)).unwrap();
    drop(first);
    assert_eq!(runtime.current_device(), 0);
    drop(second);
    assert_eq!(runtime.current_device(), 1);
    assert_eq!(with_device(Device::cuda(0), || runtime.current_device()).unwrap(), 0);
    let panicked = catch_unwind(|| with_stream(b, || panic!("a user's closure")));
    assert!(panicked.is_err());
    assert_eq!(current(runtime), (1, vec![0, 0]));
    assert!(StreamGuard::new(Stream::new(DeviceType::Cuda, 0, StreamId(11 << 1 | 1))).is_err());
    assert!(DeviceGuard::new(Device::cuda(5)).is_err());
    assert_eq!(current(runtime), (1, vec![0, 0]));
}

#[test]
fn a_runtimes_guards_restore_what_they_saved() {
    let runtime = runtime();
    let stream = runtime.stream_from_pool(2, 0).unwrap();
    runtime.set_device(1).unwrap();
    {
        let guard = runtime.stream_guard(stream).unwrap();
        assert_eq!(current(&runtime), (2, vec![0, 0, stream.id().0]));
        assert_eq!((guard.original_device(), guard.original_stream().id().0), (1, 0));
        // Changes in between do not matter.
        runtime.set_device(0).unwrap();
        runtime.set_current_stream(runtime.stream_from_pool(2, 0).unwrap()).unwrap();
    }
    assert_eq!(current(&runtime), (1, vec![0, 0, 0]));
    let guard = runtime.device_guard(0).unwrap();
    assert_eq!((guard.original_device(), runtime.current_device()), (1, 0));
}

#[test]
fn guards_dropped_out_of_order_restore_what_they_saved() {
    let runtime = runtime();
    let first = runtime.device_guard(1).unwrap();
    let second = runtime.device_guard(2).unwrap();
    drop(first);
    assert_eq!(runtime.current_device(), 0);
    drop(second);
    assert_eq!(runtime.current_device(), 1);
}

#[test]
fn closures_restore_after_a_panic_too() {
    let runtime = runtime();
    let stream = runtime.stream_from_pool(1, -1).unwrap();
    assert_eq!(runtime.with_device(2, || runtime.current_device()).unwrap(), 2);
    assert_eq!(runtime.with_stream(stream, || current(&runtime)).unwrap(), (1, vec![0, stream.id().0, 0]));
    let panicked =
        catch_unwind(AssertUnwindSafe(|| runtime.with_stream(stream, || panic!("a user's closure"))));
    assert!(panicked.is_err());
    assert_eq!(current(&runtime), (0, vec![0, 0, 0]));
}

#[test]
fn a_failed_guard_changes_nothing() {
    let runtime = runtime();
    assert_eq!(runtime.device_guard(3).unwrap_err().kind(), ErrorKind::InvalidArgument);
    for stream in [
        Stream::new(DeviceType::Cuda, 7, StreamId(0)),
        Stream::new(DeviceType::Cuda, 1, StreamId(3)),
        Stream::new(DeviceType::Xpu, 1, StreamId(0)),
    ] {
        let mut ran = false;
        assert_eq!(
            runtime.with_stream(stream, || ran = true).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert!(!ran);
    }
    assert_eq!(current(&runtime), (0, vec![0, 0, 0]));
}

#[test]
fn what_is_current_is_the_threads_and_the_runtimes_own() {
    let (one, two) = (runtime(), runtime());
    one.with_device(2, || {
        assert_eq!(two.current_device(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(one.current_device(), 0));
        });
    })
    .unwrap();
}
