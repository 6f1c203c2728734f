//! Copy-on-write: who shares, who copies, when, and what failures leave.

use std::sync::Arc;

use c10_core::allocator::{CountingAllocator, Fault, FaultAllocator};
use c10_core::storage::StorageOptions;
use c10_core::{Device, ErrorKind, Storage};

use crate::fake_device::{self, TYPE, fake};
use crate::storage::{bytes, external, host, of};

fn counted(data: &[u8]) -> (Storage, Arc<CountingAllocator>) {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(data.len(), counting.clone()).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(data);
    (storage, counting)
}

fn set(storage: &Storage, byte: u8) {
    storage.write().unwrap().bytes_mut().unwrap()[0] = byte;
}

#[test]
fn a_lazy_clone_shares_until_one_is_written() {
    let (storage, counting) = counted(b"abcd");
    let clone = storage.lazy_clone().unwrap();
    assert!(storage.is_cow() && clone.is_cow() && !storage.is_same(&clone));
    assert_eq!(storage.data_ptr(), clone.data_ptr());
    assert_eq!((clone.nbytes(), clone.is_resizable(), clone.device()), (4, true, Device::CPU));
    // Reading copies nothing.
    assert_eq!((bytes(&storage), bytes(&clone)), (b"abcd".to_vec(), b"abcd".to_vec()));
    assert_eq!(counting.counts().allocations.allocated, 1);
    let address = clone.data_ptr();
    set(&storage, b'A');
    assert!(!storage.is_cow());
    assert_ne!(storage.data_ptr(), address);
    assert_eq!((bytes(&storage), bytes(&clone)), (b"Abcd".to_vec(), b"abcd".to_vec()));
    // The last owner keeps the memory, without a copy.
    assert!(clone.is_cow());
    set(&clone, b'x');
    assert_eq!((clone.data_ptr(), clone.is_cow()), (address, false));
    assert_eq!(counting.counts().allocations.allocated, 2);
    drop((storage, clone));
    assert_eq!(counting.counts().bytes.current, 0);
}

#[test]
fn the_original_outlives_whoever_made_it() {
    let (storage, counting) = counted(b"abcd");
    let clones: Vec<_> = (0..3).map(|_| storage.lazy_clone().unwrap()).collect();
    let of_clone = clones[2].lazy_clone().unwrap();
    drop(storage);
    assert_eq!(bytes(&of_clone), b"abcd");
    drop(clones);
    set(&of_clone, b'A');
    assert_eq!((bytes(&of_clone), counting.counts().allocations.allocated), (b"Abcd".to_vec(), 1));
    drop(of_clone);
    assert_eq!(counting.counts().bytes.current, 0);
}

#[test]
fn memory_of_any_kind_can_be_shared() {
    // PyTorch declines this: the context is not the address, and there is no allocator.
    let storage = external(StorageOptions::default()).unwrap();
    let clone = storage.lazy_clone().unwrap();
    assert!(!clone.is_resizable());
    set(&clone, 9);
    assert_eq!((bytes(&storage), bytes(&clone)), (vec![1, 2, 3, 4], vec![9, 2, 3, 4]));
    set(&storage, 7);
    assert_eq!(bytes(&storage), [7, 2, 3, 4]);
}

#[test]
fn read_only_memory_is_copied_even_by_its_last_owner() {
    let read_only = StorageOptions { read_only: true, ..StorageOptions::default() };
    let storage = external(read_only).unwrap();
    let address = storage.data_ptr();
    assert_eq!(storage.write().unwrap_err().kind(), ErrorKind::ReadOnly);
    let clone = storage.lazy_clone().unwrap();
    assert_eq!(storage.write().unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(storage);
    // Neither a pin nor a second clone that comes and goes lets a writer through.
    drop(clone.to_device(Device::CPU).unwrap());
    drop(clone.lazy_clone().unwrap());
    assert!(!clone.is_read_only() && clone.is_cow());
    set(&clone, 9);
    assert_ne!(clone.data_ptr(), address);
    assert_eq!(bytes(&clone), [9, 2, 3, 4]);
}

#[test]
fn a_failed_materialisation_leaves_everything() {
    let faults = Arc::new(FaultAllocator::new(host(), [Fault::FromNth(2)]));
    let storage = Storage::new(4, faults.clone()).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(b"abcd");
    let clone = storage.lazy_clone().unwrap();
    let version = clone.version();
    for _ in 0..2 {
        assert_eq!(clone.write().unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert!(clone.is_cow() && storage.is_cow());
        assert_eq!((clone.data_ptr(), clone.version()), (storage.data_ptr(), version));
    }
    faults.reset([]);
    set(&clone, b'A');
    assert_eq!((bytes(&storage), bytes(&clone)), (b"abcd".to_vec(), b"Abcd".to_vec()));
}

#[test]
fn cloning_while_reading_is_allowed_and_while_writing_is_busy() {
    let storage = of(b"abcd");
    let reading = storage.read().unwrap();
    let clone = storage.lazy_clone().unwrap();
    assert_eq!(reading.bytes().unwrap(), b"abcd");
    // This thread reads the shared memory: materialising the clone leaves it alone.
    set(&clone, b'A');
    assert_eq!(reading.bytes().unwrap(), b"abcd");
    drop(reading);
    let writing = storage.write().unwrap();
    assert_eq!(storage.lazy_clone().unwrap_err().kind(), ErrorKind::Busy);
    drop(writing);
}

#[test]
fn resizing_a_sharer_leaves_the_others() {
    let storage = of(b"abcd");
    let clone = storage.lazy_clone().unwrap();
    clone.resize(2).unwrap();
    assert_eq!((bytes(&storage), bytes(&clone)), (b"abcd".to_vec(), b"ab".to_vec()));
    assert!(clone.is_cow(), "nothing was written");
    storage.resize(100).unwrap();
    assert_eq!((&bytes(&storage)[..4], storage.is_cow()), (&b"abcd"[..], false));
    clone.resize(0).unwrap();
    assert!(!clone.is_cow());
}

#[test]
fn device_memory_is_shared_and_copied_on_its_device() {
    fake();
    let storage = of(b"abcd").to_device(Device::new(TYPE, 2)).unwrap();
    let original = storage.data_ptr();
    let clone = storage.lazy_clone().unwrap();
    drop(clone.write().unwrap());
    assert_ne!(clone.data_ptr(), original);
    assert_eq!(clone.device(), Device::new(TYPE, 2));
    // The copy ran on the current stream, of which the original's owner was told.
    assert!(fake_device::is_recorded(original, fake().current_stream(2).unwrap()));
    drop(storage);
    assert!(!fake_device::is_live(original));
    assert_eq!(bytes(&clone.to_device(Device::CPU).unwrap()), b"abcd");
}

#[test]
fn threads_share_materialise_and_drop_at_once() {
    for _ in 0..50 {
        let (storage, counting) = counted(&[0; 512]);
        let clones: Vec<_> = (0..3).map(|_| storage.lazy_clone().unwrap()).collect();
        std::thread::scope(|scope| {
            for (i, clone) in clones.iter().enumerate() {
                // Two writers of each clone, which must not lose each other's writes.
                for half in 0..2 {
                    scope.spawn(move || {
                        let byte = (i * 2 + half + 1) as u8;
                        clone.write().unwrap().bytes_mut().unwrap()[half * 256..][..256].fill(byte);
                    });
                }
            }
            scope.spawn(|| drop(storage.lazy_clone().unwrap()));
        });
        for (i, clone) in clones.iter().enumerate() {
            let bytes = bytes(clone);
            assert!(bytes[..256].iter().all(|&b| usize::from(b) == i * 2 + 1));
            assert!(bytes[256..].iter().all(|&b| usize::from(b) == i * 2 + 2));
        }
        assert_eq!(bytes(&storage), [0; 512]);
        drop((storage, clones));
        assert_eq!(counting.counts().bytes.current, 0);
    }
}

#[test]
fn writers_of_a_sole_owner_without_allocator_never_fail() {
    let storage = external(StorageOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let _ = storage.dump();
                    drop(storage.lazy_clone().unwrap());
                    set(&storage, 1);
                }
            });
        }
    });
    assert!(!storage.is_cow());
}
