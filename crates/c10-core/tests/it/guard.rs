//! Guards of the current device and streams, on the fake device.

use c10_core::guard::{
    DeviceGuard, MultiStreamGuard, OptionalDeviceGuard, StreamGuard, with_device, with_stream,
};
use c10_core::{Device, DeviceType, ErrorKind, Stream, StreamId};

use crate::fake_device::{TYPE, fake};

fn device(index: u8) -> Device {
    Device::new(TYPE, index)
}

fn stream(index: u8, id: i64) -> Stream {
    Stream::new(TYPE, index, StreamId(id))
}

fn current() -> (u8, Vec<i64>) {
    let streams = (0..3).map(|index| fake().current_stream(index).unwrap().id().0).collect();
    (fake().current_device().unwrap(), streams)
}

#[test]
fn a_device_guard_restores_what_it_saved() {
    fake().set_device(1).unwrap();
    {
        let outer = DeviceGuard::new(device(2)).unwrap();
        assert_eq!(current().0, 2);
        {
            let inner = DeviceGuard::new(device(0)).unwrap();
            assert_eq!((current().0, inner.original_device()), (0, Some(device(2))));
        }
        assert_eq!((current().0, outer.original_device()), (2, Some(device(1))));
        // Changes in between do not matter.
        fake().set_device(0).unwrap();
    }
    assert_eq!(current().0, 1);
}

#[test]
fn guards_dropped_out_of_order_restore_what_they_saved() {
    let first = DeviceGuard::new(device(1)).unwrap();
    let second = DeviceGuard::new(device(2)).unwrap();
    drop(first);
    assert_eq!(current().0, 0);
    drop(second);
    assert_eq!(current().0, 1);
    let first = StreamGuard::new(stream(0, 1)).unwrap();
    let second = StreamGuard::new(stream(0, 2)).unwrap();
    drop(first);
    assert_eq!(current(), (1, vec![0, 0, 0]));
    drop(second);
    assert_eq!(current(), (0, vec![1, 0, 0]));
}

#[test]
fn a_guard_of_no_device_does_nothing() {
    fake().set_device(2).unwrap();
    for none in [Device::CPU, Device::META, Device::current(TYPE)] {
        let guard = DeviceGuard::new(none).unwrap();
        assert_eq!((current().0, guard.original_device()), (2, None));
    }
    let mut guard = OptionalDeviceGuard::new(None).unwrap();
    assert_eq!((current().0, guard.original_device()), (2, None));
    guard.set_device(device(1)).unwrap();
    assert_eq!((current().0, guard.original_device()), (1, Some(device(2))));
    guard.set_device(device(0)).unwrap();
    assert_eq!((current().0, guard.original_device()), (0, Some(device(2))));
    guard.reset();
    assert_eq!((current().0, guard.original_device()), (2, None));
}

#[test]
fn a_failed_guard_changes_nothing() {
    fake().set_device(1).unwrap();
    assert_eq!(DeviceGuard::new(device(7)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(StreamGuard::new(stream(2, 99)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        DeviceGuard::new(Device::new(DeviceType::Mps, 0)).unwrap_err().kind(),
        ErrorKind::DeviceUnavailable
    );
    let streams = [stream(0, 1), stream(2, 2), stream(2, 99)];
    assert_eq!(MultiStreamGuard::new(&streams).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(current(), (1, vec![0, 0, 0]));
}

#[test]
fn a_stream_guard_switches_device_and_stream() {
    fake().set_device(1).unwrap();
    fake().set_current_stream(stream(2, 1)).unwrap();
    {
        let guard = StreamGuard::new(stream(2, 3)).unwrap();
        assert_eq!(current(), (2, vec![0, 0, 3]));
        assert_eq!(guard.current_stream(), stream(2, 3));
        assert_eq!(guard.original_stream(), stream(2, 1));
        assert_eq!(guard.original_device(), Some(device(1)));
    }
    assert_eq!(current(), (1, vec![0, 0, 1]));
}

#[test]
fn a_multi_stream_guard_keeps_the_device_and_restores_the_first_saved() {
    fake().set_current_stream(stream(1, 1)).unwrap();
    {
        let guard = MultiStreamGuard::new(&[stream(1, 2), stream(0, 2), stream(1, 3)]).unwrap();
        assert_eq!(current(), (0, vec![2, 3, 0]));
        let originals: Vec<_> = guard.original_streams().collect();
        assert_eq!(originals, [stream(1, 1), stream(0, 0), stream(1, 2)]);
    }
    assert_eq!(current(), (0, vec![0, 1, 0]));
}

#[test]
fn closures_restore_after_a_panic_too() {
    fake();
    assert_eq!(with_device(device(2), || current().0).unwrap(), 2);
    assert_eq!(with_stream(stream(1, 2), current).unwrap(), (1, vec![0, 2, 0]));
    let panicked = std::panic::catch_unwind(|| with_stream(stream(1, 2), || panic!("a user's closure")));
    assert!(panicked.is_err());
    assert_eq!(current(), (0, vec![0, 0, 0]));
    let mut ran = false;
    assert!(with_device(device(8), || ran = true).is_err());
    assert!(!ran);
}

#[test]
fn what_is_current_is_the_threads_own() {
    fake();
    with_stream(stream(2, 2), || {
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(current(), (0, vec![0, 0, 0])));
        });
    })
    .unwrap();
}
