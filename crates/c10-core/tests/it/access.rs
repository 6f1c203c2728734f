//! The access lock, guards and sets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, mpsc};
use std::thread;

use c10_core::storage::{Access, AccessOptions, StorageOptions};
use c10_core::{ErrorKind, Storage};

use crate::storage::{bytes, external, of};

fn busy<T>(result: c10_core::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Busy)
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let storage = of(b"abcd");
    let first = storage.read().unwrap();
    let second = storage.read().unwrap();
    assert_eq!((first.bytes().unwrap(), second.bytes().unwrap()), (&b"abcd"[..], &b"abcd"[..]));
    assert!(busy(storage.write()));
    drop((first, second));
    let writer = storage.write().unwrap();
    assert!(busy(storage.read()) && busy(storage.write()));
    drop(writer);
    storage.write().unwrap().bytes_mut().unwrap()[0] = b'A';
    assert_eq!(bytes(&storage), b"Abcd");
}

#[test]
fn a_thread_with_any_guard_only_tries() {
    let (held, wanted) = (of(b"a"), of(b"b"));
    let (ready, wait_ready) = mpsc::channel();
    let (go, wait_go) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let wanted = &wanted;
        scope.spawn(move || {
            let _guard = wanted.write().unwrap();
            ready.send(()).unwrap();
            wait_go.recv().unwrap();
        });
        wait_ready.recv().unwrap();
        let guard = held.read().unwrap();
        assert!(busy(wanted.read()) && busy(Access::acquire(&[wanted], &[])));
        assert!(busy(Access::acquire(&[], &[&of(b"c"), wanted])));
        drop(guard);
        go.send(()).unwrap();
        // Without a guard it waits.
        drop(wanted.read().unwrap());
    });
}

#[test]
fn readers_pass_a_waiting_writer() {
    let storage = of(b"abcd");
    let barrier = Barrier::new(2);
    let guard = storage.read().unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            barrier.wait();
            storage.write().unwrap().bytes_mut().unwrap()[0] = b'A';
        });
        barrier.wait();
        for _ in 0..1000 {
            drop(storage.read().unwrap());
        }
        assert_eq!(guard.bytes().unwrap(), b"abcd");
        assert!(!writer.is_finished());
        drop(guard);
    });
    assert_eq!(bytes(&storage), b"Abcd");
}

#[test]
fn a_set_locks_each_storage_once_in_its_strongest_mode() {
    let (a, b) = (of(b"ab"), of(b"cd"));
    let mut set = Access::acquire(&[&a, &a, &b], &[&b]).unwrap();
    drop(a.read().unwrap());
    assert!(busy(a.write()) && busy(b.read()));
    assert_eq!((set.read(0).unwrap(), set.read(1).unwrap()), (&b"ab"[..], &b"ab"[..]));
    // `b` is read and written: no slices, but addresses.
    assert_eq!(set.read(2).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(set.write(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(set.slices::<3, 1>().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(set.read_ptr(2).unwrap(), (b.data_ptr(), 2));
    assert_eq!(set.write_ptr(0).unwrap(), (b.data_ptr().cast_mut(), 2));
    drop(set);
    drop((a.write().unwrap(), b.write().unwrap()));
    // The same storage twice among the writes.
    let mut set = Access::acquire(&[], &[&a, &a]).unwrap();
    assert_eq!(set.slices::<0, 2>().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn slices_of_many_operands_at_once() {
    let storages: Vec<_> = (0..9_u8).map(|i| of(&[i; 4])).collect();
    let (a, b) = (of(b"...."), of(b"...."));
    // More than fit inline, in no order.
    let reads: Vec<_> = [5, 2, 8, 0, 7, 1].iter().map(|&i| &storages[i]).collect();
    let mut set = Access::acquire(&reads, &[&a, &b]).unwrap();
    let (read, [first, second]) = set.slices::<6, 2>().unwrap();
    assert_eq!(read.map(|bytes| bytes[0]), [5, 2, 8, 0, 7, 1]);
    first.copy_from_slice(read[2]);
    second.copy_from_slice(read[4]);
    assert_eq!(set.slices::<5, 2>().unwrap_err().kind(), ErrorKind::InvalidArgument);
    for error in [set.read(6).unwrap_err(), set.read_ptr(usize::MAX).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(set.write(2).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(set.write(1).unwrap(), [7; 4]);
    drop(set);
    assert_eq!((bytes(&a), bytes(&b)), (vec![8; 4], vec![7; 4]));
    drop(Access::acquire(&[], &[]).unwrap());
}

#[test]
fn a_lazy_clone_is_materialised_before_it_is_written() {
    let a = of(b"abcd");
    let b = a.lazy_clone().unwrap();
    let mut set = Access::acquire(&[&a], &[&b]).unwrap();
    let ([from], [to]) = set.slices().unwrap();
    assert_ne!(from.as_ptr(), to.as_ptr());
    to.reverse();
    assert_eq!(from, b"abcd");
    drop(set);
    assert_eq!(bytes(&b), b"dcba");
}

#[test]
fn read_only_storages_refuse_before_anything_is_done() {
    let read_only = external(StorageOptions { read_only: true, ..StorageOptions::default() }).unwrap();
    let shared = of(b"abcd");
    let clone = shared.lazy_clone().unwrap();
    let error = Access::acquire(&[], &[&clone, &read_only]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(clone.is_cow(), "not materialised");
    assert_eq!(clone.version(), 0);
    // Nothing is locked, and the thread may wait again.
    let mut set = Access::acquire(&[&read_only], &[&clone]).unwrap();
    assert_eq!(set.read(0).unwrap(), [1, 2, 3, 4]);
    assert!(set.write(0).is_ok());
}

#[test]
fn a_failed_set_leaves_nothing_locked() {
    let (a, b, c) = (of(b"a"), of(b"b"), of(b"c"));
    for held in [&a, &b, &c] {
        let guard = held.read().unwrap();
        assert!(busy(Access::acquire(&[], &[&a, &b, &c])));
        for other in [&a, &b, &c].into_iter().filter(|other| !other.is_same(held)) {
            drop(other.write().unwrap());
        }
        drop(guard);
    }
    drop(Access::acquire(&[], &[&a, &b, &c]).unwrap());
}

#[test]
fn a_few_are_locked_at_once_or_not_at_all() {
    let storages = [b"a", b"b", b"c", b"d", b"e"].map(|bytes| of(bytes));
    let [written, others @ ..] = &storages;
    let of_all =
        || [Some(written), Some(&others[0]), None, Some(&others[1]), Some(&others[2]), Some(&others[3])];
    let free = || storages.iter().all(|storage| storage.write().is_ok());
    let looked = Access::with_few(of_all(), true, || {
        assert!(busy(written.read()));
        assert!(others.iter().all(|other| other.read().is_ok() && busy(other.write())));
        assert_eq!((written.version(), others[0].version()), (2, 1), "each was written when it was made");
    });
    assert!(looked.is_some());
    assert!(free());

    let versions = || storages.each_ref().map(Storage::version);
    let before = versions();
    let held = others[2].read().unwrap();
    assert!(Access::with_few([Some(&others[2]), Some(&others[0]), Some(&others[1])], true, || ()).is_none());
    assert!(Access::with_few([Some(&others[0]), Some(written), Some(&others[2])], false, || ()).is_some());
    drop(held);
    let held = others[2].write().unwrap();
    assert!(Access::with_few(of_all(), true, || ()).is_none());
    drop(held);
    assert_eq!(versions()[0], before[0]);
    assert!(free());
    let read_only = external(StorageOptions { read_only: true, ..StorageOptions::default() }).unwrap();
    assert!(Access::with_few([Some(&read_only)], true, || ()).is_none() && read_only.read().is_ok());
}

#[test]
fn versions_count_writes_also_those_of_panicking_kernels() {
    let (a, b) = (of(b"a"), of(b"b"));
    let before = (a.version(), b.version());
    drop(Access::acquire(&[&a], &[&b, &b]).unwrap());
    assert_eq!((a.version(), b.version()), (before.0, before.1 + 1));
    let quiet = AccessOptions { bump_version: false, ..AccessOptions::default() };
    drop(Access::acquire_with(&[], &[&b], quiet).unwrap());
    assert_eq!(b.version(), before.1 + 1);
    let kernel = catch_unwind(AssertUnwindSafe(|| {
        let mut set = Access::acquire(&[], &[&b]).unwrap();
        set.write(0).unwrap()[0] = b'B';
        panic!("a kernel");
    }));
    assert!(kernel.is_err());
    assert_eq!((b.version(), bytes(&b)), (before.1 + 2, b"B".to_vec()));
    b.bump_version();
    assert_eq!(b.version(), before.1 + 3);
    drop(b.read().unwrap());
    assert_eq!(b.version(), before.1 + 3);
}

#[test]
fn a_leaked_guard_keeps_the_storage_locked_and_its_thread_from_waiting() {
    let storage = of(b"a");
    thread::scope(|scope| {
        scope.spawn(|| {
            std::mem::forget(storage.read().unwrap());
            assert!(busy(storage.write()));
            drop(storage.read().unwrap());
        });
    });
    drop(storage.read().unwrap());
    let other = of(b"b");
    drop(other.write().unwrap());
    // It can still be dropped.
    drop(storage);
}

#[test]
fn others_may_look_through_a_guard() {
    let storage = of(&[7; 100]);
    let set = Access::acquire(&[&storage], &[]).unwrap();
    thread::scope(|scope| {
        for half in set.read(0).unwrap().chunks(50) {
            scope.spawn(move || assert_eq!(half, [7; 50]));
        }
        scope.spawn(|| assert_eq!(set.read(0).unwrap().len(), 100));
    });
}

#[test]
fn threads_lock_in_any_order_without_deadlock() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 400;
    let storages: Vec<Storage> = (0..4).map(|_| of(&0_u64.to_ne_bytes())).collect();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (storages, done) = (&storages, &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let at = |step: usize| &storages[(seed * step + round) % 4];
                    let (first, second) = (at(1), at(3));
                    let read = at(2);
                    let mut set = Access::acquire(&[read], &[first, second]).unwrap();
                    let both = !first.is_same(second);
                    for i in 0..2 {
                        if let Ok(bytes) = set.write(i) {
                            let value = u64::from_ne_bytes(bytes.try_into().unwrap());
                            bytes.copy_from_slice(&(value + 1).to_ne_bytes());
                            done.fetch_add(1, SeqCst);
                        } else {
                            assert!(!both || read.is_same(first) || read.is_same(second));
                        }
                    }
                }
            });
        }
    });
    let total: u64 = storages.iter().map(|s| u64::from_ne_bytes(bytes(s).try_into().unwrap())).sum();
    assert_eq!(total, done.load(SeqCst) as u64);
    assert!(total > 0);
}

#[test]
fn no_increment_is_lost_between_readers_and_writers() {
    let storage = of(&0_u64.to_ne_bytes());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let mut guard = storage.write().unwrap();
                    let value = u64::from_ne_bytes(guard.bytes().unwrap().try_into().unwrap());
                    guard.bytes_mut().unwrap().copy_from_slice(&(value + 1).to_ne_bytes());
                }
            });
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..2000 {
                    let guard = storage.read().unwrap();
                    let value = u64::from_ne_bytes(guard.bytes().unwrap().try_into().unwrap());
                    assert!(value >= last);
                    last = value;
                }
            });
        }
    });
    assert_eq!(bytes(&storage), 6000_u64.to_ne_bytes());
}
