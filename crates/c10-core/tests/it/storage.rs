#![expect(unsafe_code, reason = "makes storages of memory of its own")]
//! `Storage`: making, counting, resizing, replacing, moving between devices.

use std::sync::Arc;

use c10_core::allocator::{Allocator, CountingAllocator, CpuAllocator, Fault, FaultAllocator};
use c10_core::storage::StorageOptions;
use c10_core::{DataPtr, Device, ErrorKind, Result, Storage, Stream, StreamId};
use proptest::prelude::*;

use crate::fake_device::{self, Fake, TYPE, fake};

pub(crate) fn host() -> Arc<dyn Allocator> {
    Arc::new(CpuAllocator)
}

pub(crate) fn of(bytes: &[u8]) -> Storage {
    let storage = Storage::new(bytes.len(), host()).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(bytes);
    storage
}

pub(crate) fn bytes(storage: &Storage) -> Vec<u8> {
    storage.read().unwrap().bytes().unwrap().to_vec()
}

fn options(allocator: bool, resizable: bool, read_only: bool) -> StorageOptions {
    StorageOptions { allocator: allocator.then(host), resizable, read_only }
}

/// Four bytes with these options.
pub(crate) fn external(options: StorageOptions) -> Result<Storage> {
    let data_ptr = DataPtr::from_boxed_slice(Box::from([1, 2, 3, 4]));
    // SAFETY: the box has four bytes of its own.
    unsafe { Storage::from_data_ptr(data_ptr, 4, options) }
}

#[test]
fn a_new_storage_is_as_its_allocator_made_it() {
    let storage = Storage::new(100, host()).unwrap();
    assert_eq!((storage.nbytes(), storage.capacity(), storage.device()), (100, 100, Device::CPU));
    assert!(storage.is_resizable() && !storage.is_read_only() && !storage.is_cow());
    assert_eq!(storage.data_ptr().addr() % 64, 0);
    let nothing = Storage::new(0, host()).unwrap();
    assert!(nothing.data_ptr().is_null());
    assert_eq!(nothing.read().unwrap().bytes().unwrap(), []);
    assert_eq!(nothing.write().unwrap().bytes_mut().unwrap(), []);
}

#[test]
fn handles_are_counted_and_weak_ones_keep_nothing_alive() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(64, counting.clone()).unwrap();
    let (again, weak) = (storage.clone(), storage.downgrade());
    assert!(storage.is_same(&again) && !storage.is_same(&of(&[])));
    assert_eq!((storage.use_count(), storage.weak_use_count()), (2, 1));
    drop(storage);
    assert!(weak.upgrade().unwrap().is_same(&again));
    assert!(!weak.expired());
    drop(again);
    assert!(weak.expired() && weak.upgrade().is_none());
    assert_eq!(counting.counts().bytes.current, 0, "the memory is gone though a weak handle remains");
}

#[test]
fn options_are_checked() {
    let error = external(options(false, true, false)).unwrap_err();
    insta::assert_snapshot!(error, @"For resizable storage, allocator must be provided");
    assert_eq!(external(options(true, true, true)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let storage = external(options(false, false, true)).unwrap();
    assert!(storage.is_read_only() && storage.allocator().is_none());
    // SAFETY: no address is no memory, and this much is refused.
    let error =
        unsafe { Storage::from_data_ptr(DataPtr::null(Device::CPU), usize::MAX, StorageOptions::default()) };
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Overflow);
}

#[test]
fn hostile_sizes_are_refused_before_anything_happens() {
    assert_eq!(Storage::new(usize::MAX, host()).unwrap_err().kind(), ErrorKind::Overflow);
    let storage = of(b"abcd");
    for size in [usize::MAX, isize::MAX as usize + 1] {
        assert_eq!(storage.resize(size).unwrap_err().kind(), ErrorKind::Overflow);
        assert_eq!(storage.reserve(size).unwrap_err().kind(), ErrorKind::Overflow);
    }
    let error = storage.resize(isize::MAX as usize - 4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(bytes(&storage), b"abcd");
    assert!(!storage.is_cow());
}

#[test]
fn resizing_keeps_bytes_and_moves_only_beyond_the_capacity() {
    let storage = of(b"abcdefgh");
    let address = storage.data_ptr();
    storage.resize(3).unwrap();
    assert_eq!((bytes(&storage), storage.capacity()), (b"abc".to_vec(), 8));
    storage.resize(8).unwrap();
    assert_eq!(storage.data_ptr(), address);
    storage.resize(5000).unwrap();
    assert_eq!((&bytes(&storage)[..3], storage.nbytes(), storage.capacity()), (&b"abc"[..], 5000, 5000));
    storage.reserve(10_000).unwrap();
    let address = storage.data_ptr();
    for size in (5000..=10_000).step_by(1000) {
        storage.resize(size).unwrap();
    }
    assert_eq!((storage.data_ptr(), &bytes(&storage)[..3]), (address, &b"abc"[..]));
    storage.resize(0).unwrap();
    assert!(storage.data_ptr().is_null());
    assert_eq!((storage.capacity(), storage.device()), (0, Device::CPU));
    storage.resize(2).unwrap();
    assert_eq!(storage.read().unwrap().bytes().unwrap().len(), 2);
    assert!(!storage.is_cow());
}

#[test]
fn what_is_not_resizable_stays() {
    let error = external(options(true, false, false)).unwrap().resize(2).unwrap_err();
    insta::assert_snapshot!(error, @"Trying to resize storage that is not resizable");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let read_only = external(options(true, false, true)).unwrap();
    assert_eq!(read_only.resize(2).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(read_only.reserve(20).unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_failed_resize_leaves_everything() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let faults = Arc::new(FaultAllocator::new(counting.clone(), [Fault::FromNth(2)]));
    let storage = Storage::new(4, faults.clone()).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(b"abcd");
    let (address, version) = (storage.data_ptr(), storage.version());
    for _ in 0..3 {
        assert_eq!(storage.resize(100).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(storage.reserve(100).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    assert_eq!((storage.data_ptr(), storage.version()), (address, version));
    assert_eq!((bytes(&storage), storage.capacity()), (b"abcd".to_vec(), 4));
    faults.reset([]);
    storage.resize(100).unwrap();
    assert_eq!(counting.counts().bytes.current, 100);
    drop(storage);
    assert_eq!(counting.counts().bytes.current, 0);
}

#[test]
fn resizing_while_a_guard_is_held_is_busy() {
    let storage = of(b"abcd");
    let guard = storage.read().unwrap();
    for result in [storage.resize(2), storage.resize(200), storage.resize(0)] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Busy);
    }
    assert_eq!(guard.bytes().unwrap(), b"abcd");
    drop(guard);
    assert!(!storage.is_cow());
    storage.resize(2).unwrap();
}

#[test]
fn memory_can_be_replaced() {
    let storage = of(b"abcd");
    let address = storage.data_ptr();
    let new = DataPtr::from_boxed_slice(Box::from(*b"efgh"));
    // SAFETY: the box has four bytes of its own.
    let mut other = unsafe { storage.set_data_ptr(new) }.unwrap();
    assert_eq!((other.as_ptr().cast_const(), bytes(&storage)), (address, b"efgh".to_vec()));
    // SAFETY: it was this storage's own.
    unsafe { storage.swap_data_ptr(&mut other) }.unwrap();
    assert_eq!((storage.data_ptr(), bytes(&storage)), (address, b"abcd".to_vec()));
    let guard = storage.read().unwrap();
    // SAFETY: as above.
    let error = unsafe { storage.swap_data_ptr(&mut other) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(!other.is_null(), "still the caller's");
    drop(guard);
    let mut elsewhere = DataPtr::null(Device::new(TYPE, 0));
    // SAFETY: another device is refused.
    let error = unsafe { storage.swap_data_ptr(&mut elsewhere) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn an_external_pointer_takes_resizability_away() {
    let storage = of(b"abcd");
    let clone = storage.lazy_clone().unwrap();
    let new = DataPtr::from_boxed_slice(Box::from(*b"xyz"));
    // SAFETY: the box has three bytes of its own.
    unsafe { storage.share_external_pointer(new, 3) }.unwrap();
    assert_eq!(bytes(&storage), b"xyz");
    assert!(!storage.is_resizable() && !storage.is_cow() && storage.allocator().is_none());
    assert_eq!(bytes(&clone), b"abcd");
    assert!(storage.resize(4).is_err());
    storage.write().unwrap().bytes_mut().unwrap()[0] = b'X';
}

#[test]
fn released_memory_is_refused_with_a_message() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(8, counting.clone()).unwrap();
    storage.release_data(None).unwrap();
    assert_eq!((counting.counts().bytes.current, storage.nbytes()), (0, 8));
    insta::assert_snapshot!(storage.read().unwrap_err(), @"Cannot access data pointer of Storage that is invalid.");
    for error in [
        storage.write().map(drop),
        storage.resize(4),
        storage.resize(0),
        storage.lazy_clone().map(drop),
        storage.to_device(Device::CPU).map(drop),
        storage.release_data(None),
    ] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let storage = of(b"a");
    storage.release_data(Some("it went to the archive".into())).unwrap();
    insta::assert_snapshot!(storage.write().unwrap_err(), @"it went to the archive");
}

#[test]
fn bytes_go_to_a_device_and_back() {
    fake();
    let storage = of(b"abcd");
    let there = storage.to_device(Device::new(TYPE, 2)).unwrap();
    assert_eq!((there.device(), there.nbytes()), (Device::new(TYPE, 2), 4));
    assert_eq!(fake().current_device().unwrap(), 0);
    let further = there.to_device_with(Device::new(TYPE, 1), Arc::new(Fake)).unwrap();
    assert_eq!(bytes(&further.to_device(Device::CPU).unwrap()), b"abcd");
    let copy = storage.to_device(Device::CPU).unwrap();
    storage.write().unwrap().bytes_mut().unwrap()[0] = b'A';
    assert_eq!((bytes(&copy), copy.is_cow(), storage.is_cow()), (b"abcd".to_vec(), false, false));
    // Without an index it is the current one.
    let here = storage.to_device(Device::current(TYPE)).unwrap();
    assert_eq!(here.device(), Device::new(TYPE, 0));
    let nothing = Storage::new(0, host()).unwrap().to_device(Device::new(TYPE, 1)).unwrap();
    assert_eq!((nothing.nbytes(), nothing.device()), (0, Device::new(TYPE, 1)));
}

#[test]
fn the_host_gets_no_slices_of_device_memory() {
    fake();
    let storage = of(b"abcd").to_device(Device::new(TYPE, 0)).unwrap();
    let mut guard = storage.write().unwrap();
    assert_eq!(guard.bytes().unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(guard.bytes_mut().unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!((guard.as_mut_ptr().cast_const(), guard.nbytes()), (storage.data_ptr(), 4));
}

#[test]
fn a_device_storage_resizes_on_its_device() {
    fake();
    let storage = of(b"abcd").to_device(Device::new(TYPE, 1)).unwrap();
    let before = storage.data_ptr();
    storage.resize(1000).unwrap();
    assert!(!fake_device::is_live(before) && fake_device::is_live(storage.data_ptr()));
    assert_eq!(storage.device(), Device::new(TYPE, 1));
    assert_eq!(&bytes(&storage.to_device(Device::CPU).unwrap())[..4], b"abcd");
    storage.resize(0).unwrap();
    assert_eq!(storage.device(), Device::new(TYPE, 1));
}

#[test]
fn a_failed_move_leaves_everything() {
    fake();
    let storage = of(b"abcd");
    fake_device::fail_copies(true);
    let error = storage.to_device(Device::new(TYPE, 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Driver);
    fake_device::fail_copies(false);
    assert_eq!(storage.to_device(Device::new(TYPE, 7)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(storage.to_device(Device::cuda(0)).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    let elsewhere = storage.to_device_with(Device::new(TYPE, 0), host()).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::DeviceUnavailable);
    assert!(!storage.is_cow());
    let there = storage.to_device(Device::new(TYPE, 0)).unwrap();
    fake_device::fail_copies(true);
    assert_eq!(there.resize(100).unwrap_err().kind(), ErrorKind::Driver);
    fake_device::fail_copies(false);
    assert_eq!((there.nbytes(), bytes(&there.to_device(Device::CPU).unwrap())), (4, b"abcd".to_vec()));
}

#[test]
fn record_stream_reaches_the_owner_behind_the_layers() {
    fake();
    let stream = Stream::new(TYPE, 0, StreamId(2));
    let storage = of(b"abcd").to_device(Device::new(TYPE, 0)).unwrap();
    let guard = storage.write().unwrap();
    storage.record_stream(stream).unwrap();
    assert!(fake_device::is_recorded(storage.data_ptr(), stream));
    assert!(!storage.is_cow());
    drop(guard);
    let clone = storage.lazy_clone().unwrap();
    clone.record_stream(Stream::new(TYPE, 0, StreamId(3))).unwrap();
    assert!(fake_device::is_recorded(storage.data_ptr(), Stream::new(TYPE, 0, StreamId(3))));
    // Not this stream's kind of memory.
    of(b"abcd").record_stream(stream).unwrap();
    storage.record_stream(Stream::new(c10_core::DeviceType::Cuda, 0, StreamId(0))).unwrap();
}

#[test]
fn threads_resize_write_and_clone_at_once() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(256, counting.clone()).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().fill(0);
    std::thread::scope(|scope| {
        for seed in 0..3_usize {
            let storage = &storage;
            scope.spawn(move || {
                for i in 0..300 {
                    match (i + seed) % 4 {
                        0 => storage.resize(64 + (i * 37) % 1000).unwrap(),
                        1 => {
                            let mut guard = storage.write().unwrap();
                            // Whoever writes does so alone: all bytes of the prefix stay equal.
                            let next = guard.bytes().unwrap()[0].wrapping_add(1);
                            guard.bytes_mut().unwrap()[..64].fill(next);
                        }
                        2 => {
                            let clone = storage.lazy_clone().unwrap();
                            clone.write().unwrap().bytes_mut().unwrap()[..64].fill(255);
                        }
                        _ => {
                            let guard = storage.read().unwrap();
                            let prefix = &guard.bytes().unwrap()[..64];
                            assert!(prefix.iter().all(|&byte| byte == prefix[0]));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(storage.use_count(), 1);
    drop(storage);
    assert_eq!(counting.counts().bytes.current, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Resize(usize),
    Reserve(usize),
    Write(usize, u8),
    Clone,
    DropClone,
    WriteClone(usize, u8),
    Failing(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..200_usize).prop_map(Step::Resize),
        (0..300_usize).prop_map(Step::Reserve),
        (any::<usize>(), any::<u8>()).prop_map(|(i, byte)| Step::Write(i, byte)),
        Just(Step::Clone),
        Just(Step::DropClone),
        (any::<usize>(), any::<u8>()).prop_map(|(i, byte)| Step::WriteClone(i, byte)),
        (0..200_usize).prop_map(Step::Failing),
    ]
}

fn poke(storage: &Storage, model: &mut [u8], i: usize, byte: u8) {
    if !model.is_empty() {
        let i = i % model.len();
        model[i] = byte;
        storage.write().unwrap().bytes_mut().unwrap()[i] = byte;
    }
}

/// Grows or shrinks the model as the storage was, with the unspecified bytes that came.
fn follow(storage: &Storage, model: &mut Vec<u8>) {
    let kept = model.len().min(storage.nbytes());
    let now = bytes(storage);
    assert_eq!(now[..kept], model[..kept]);
    *model = now;
}

proptest! {
    #[test]
    fn storages_are_as_independent_vectors(steps in prop::collection::vec(step(), 1..40)) {
        let counting = Arc::new(CountingAllocator::new(host()));
        let faults = Arc::new(FaultAllocator::new(counting.clone(), []));
        let storage = Storage::new(0, faults.clone()).unwrap();
        let (mut model, mut clones) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Resize(size) => {
                    storage.resize(size).unwrap();
                    prop_assert_eq!(storage.nbytes(), size);
                    follow(&storage, &mut model);
                }
                Step::Reserve(capacity) => {
                    storage.reserve(capacity).unwrap();
                    prop_assert!(storage.capacity() >= capacity);
                }
                Step::Write(i, byte) => poke(&storage, &mut model, i, byte),
                Step::Clone => clones.push((storage.lazy_clone().unwrap(), model.clone())),
                Step::DropClone => drop(clones.pop()),
                Step::WriteClone(i, byte) => {
                    if let Some((clone, model)) = clones.first_mut() {
                        poke(clone, model, i, byte);
                    }
                }
                Step::Failing(size) => {
                    faults.reset([Fault::FromNth(1)]);
                    let moved = storage.resize(size).is_ok();
                    faults.reset([]);
                    prop_assert!(moved || size > storage.capacity());
                    follow(&storage, &mut model);
                }
            }
            prop_assert_eq!(&bytes(&storage), &model);
            for (clone, model) in &clones {
                prop_assert_eq!(&bytes(clone), model);
            }
        }
        drop((storage, clones));
        prop_assert_eq!(counting.counts().bytes.current, 0);
    }
}
