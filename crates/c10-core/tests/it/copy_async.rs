//! Asynchronous copies, on the fake device, whose work is done when it is enqueued.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use c10_core::allocator::{Allocator, CountingAllocator};
use c10_core::{Device, DeviceType, ErrorKind, Storage, Stream};

use crate::fake_device::{self, Fake, TYPE, fail_copies, fake, is_recorded, panic_copies};
use crate::storage::{bytes, host, of};

#[test]
fn bytes_go_there_and_back() {
    let stream = fake().default_stream(0);
    let (there, back) = (Storage::new(4, Arc::new(Fake)).unwrap(), of(b"...."));
    let version = there.version();
    there.copy_from_async(&of(b"abcd"), stream).unwrap();
    back.copy_from_async(&there, stream).unwrap();
    assert_eq!((bytes(&back), there.version()), (b"abcd".to_vec(), version + 1));
    assert!(is_recorded(there.data_ptr(), stream));
    // A device that cannot tell is waited for at once.
    let guard = of(b"").read().map(drop);
    assert!(guard.is_ok() && back.dump().flags.iter().all(|flag| !flag.contains("device reads")));
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let stream = fake().default_stream(0);
    let there = of(b"abcd").to_device(Device::new(TYPE, 0)).unwrap();
    for result in [
        there.copy_from_async(&there.clone(), stream),
        there.copy_from_async(&of(b"abc"), stream),
        of(b"abcd").copy_from_async(&of(b"abcd"), stream),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let without_hooks = Stream::default_of(DeviceType::Mps, 0);
    let error = there.copy_from_async(&of(b"abcd"), without_hooks).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
    fail_copies(true);
    let host = of(b"abcd");
    assert_eq!(there.copy_from_async(&host, stream).unwrap_err().kind(), ErrorKind::Driver);
    fail_copies(false);
    host.write().unwrap().bytes_mut().unwrap()[0] = b'A';
    assert!(of(b"").copy_from_async(&of(b""), stream).is_err());
    let nothing = Storage::new(0, Arc::new(Fake)).unwrap();
    nothing.copy_from_async(&of(b""), stream).unwrap();
}

#[test]
fn memory_is_never_freed_under_a_copy_that_panicked() {
    let device = Device::new(TYPE, 0);
    let stream = fake().default_stream(0);
    let counting: Arc<CountingAllocator> = Arc::new(CountingAllocator::new(host()));
    let of_counted = || of(b"abcd").to_device_with(Device::CPU, counting.clone()).unwrap();
    let there = Storage::new(4, Arc::new(Fake) as Arc<dyn Allocator>).unwrap();
    let (sent, moved) = (of_counted(), of_counted());
    panic_copies(true);
    assert!(catch_unwind(AssertUnwindSafe(|| there.copy_from_async(&sent, stream))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| moved.to_device(device))).is_err());
    panic_copies(false);
    // Whether the device is at it is not known.
    assert_eq!(sent.read().unwrap().bytes().unwrap(), b"abcd");
    assert_eq!(sent.write().unwrap_err().kind(), ErrorKind::Driver);
    drop((sent, moved));
    assert_eq!(counting.counts().bytes.current, 8);
    // The device's side is in stream order.
    let address = there.data_ptr();
    drop(there);
    assert!(!fake_device::is_live(address));
}
