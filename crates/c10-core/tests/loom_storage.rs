//! The storage's lock and copy-on-write under loom.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-core --test loom_storage --release`
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(
    unsafe_code,
    reason = "looks at a cell that loom checks for races, and makes storages of own memory"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use c10_core::allocator::Allocator;
use c10_core::storage::{Access, StorageOptions};
use c10_core::{DataPtr, Device, ErrorKind, Result, Storage};
use loom::cell::UnsafeCell;
use loom::thread;

/// Runs `f` in all schedules with at most three switches away from a thread that could go on: nearly all bugs
/// that there are show with two.
fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

/// Boxes, counted.
#[derive(Debug, Default)]
struct Boxes {
    live: Arc<AtomicUsize>,
    made: AtomicUsize,
}

// SAFETY: each address is a box's own until the closure drops it. (Its alignment is that of bytes, on which
// nothing here depends.)
unsafe impl Allocator for Boxes {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        self.made.fetch_add(1, SeqCst);
        self.live.fetch_add(1, SeqCst);
        let mut memory = vec![0_u8; bytes].into_boxed_slice();
        let (data, live) = (memory.as_mut_ptr(), Arc::clone(&self.live));
        let free = move || {
            assert!(live.fetch_sub(1, SeqCst) > 0);
            drop(memory);
        };
        // SAFETY: the closure owns the memory.
        Ok(unsafe { DataPtr::from_closure(data, Device::CPU, free) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) };
        Ok(())
    }
}

/// A storage, and a cell that stands for its bytes, so that loom sees races on them.
struct Watched {
    storage: Storage,
    cell: UnsafeCell<u32>,
}

// SAFETY: the cell is only touched under access to the storage; that this suffices is what is tested.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self { storage: Storage::from_bytes(Box::from([0])).unwrap(), cell: UnsafeCell::new(0) })
    }

    /// Adds one. The caller has exclusive access.
    fn add(&self) {
        // SAFETY: loom panics if another thread is at it.
        self.cell.with_mut(|value| unsafe { *value += 1 });
    }

    /// The value. The caller has access.
    fn get(&self) -> u32 {
        // SAFETY: loom panics if another thread writes.
        self.cell.with(|value| unsafe { *value })
    }
}

#[test]
fn writers_exclude_each_other_and_none_sleeps_for_ever() {
    model(|| {
        let watched = Watched::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let watched = Arc::clone(&watched);
                thread::spawn(move || {
                    let _guard = watched.storage.write().unwrap();
                    watched.add();
                })
            })
            .collect();
        {
            let _guard = watched.storage.write().unwrap();
            watched.add();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let _guard = watched.storage.read().unwrap();
        assert_eq!((watched.get(), watched.storage.version()), (3, 3));
    });
}

#[test]
fn readers_exclude_a_writer_and_wake_it() {
    model(|| {
        let watched = Watched::new();
        let reader = {
            let watched = Arc::clone(&watched);
            thread::spawn(move || {
                let _guard = watched.storage.read().unwrap();
                let first = watched.get();
                assert_eq!(first, watched.get());
            })
        };
        let writer = {
            let watched = Arc::clone(&watched);
            thread::spawn(move || {
                let _guard = watched.storage.write().unwrap();
                watched.add();
            })
        };
        {
            let _guard = watched.storage.read().unwrap();
            watched.get();
        }
        reader.join().unwrap();
        writer.join().unwrap();
        let _guard = watched.storage.read().unwrap();
        assert_eq!(watched.get(), 1);
    });
}

#[test]
fn a_thread_with_a_guard_is_busy_and_never_waits() {
    model(|| {
        let (a, b) = (Watched::new(), Watched::new());
        // Each holds one and wants the other: a wait on either side could be for ever.
        let other = {
            let (a, b) = (Arc::clone(&a), Arc::clone(&b));
            thread::spawn(move || take_second(&a, &b))
        };
        take_second(&b, &a);
        other.join().unwrap();
        drop(a.storage.write().unwrap());
        drop(b.storage.write().unwrap());
    });

    fn take_second(first: &Watched, second: &Watched) {
        let _guard = first.storage.write().unwrap();
        first.add();
        match second.storage.write() {
            Ok(_both) => second.add(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
        }
    }
}

#[test]
fn sets_in_opposite_orders_do_not_deadlock() {
    model(|| {
        let (a, b) = (Watched::new(), Watched::new());
        let other = {
            let (a, b) = (Arc::clone(&a), Arc::clone(&b));
            thread::spawn(move || {
                let _set = Access::acquire(&[&a.storage], &[&b.storage]).unwrap();
                a.get();
                b.add();
            })
        };
        {
            let _set = Access::acquire(&[&b.storage], &[&a.storage]).unwrap();
            b.get();
            a.add();
        }
        other.join().unwrap();
        let _set = Access::acquire(&[&a.storage, &b.storage], &[]).unwrap();
        assert_eq!((a.get(), b.get()), (1, 1));
    });
}

fn sharers(boxes: &Arc<Boxes>) -> (Storage, Storage) {
    let storage = Storage::new(1, Arc::clone(boxes) as Arc<dyn Allocator>).unwrap();
    let clone = storage.lazy_clone().unwrap();
    (storage, clone)
}

fn set(storage: &Storage, byte: u8) {
    storage.write().unwrap().bytes_mut().unwrap()[0] = byte;
}

fn get(storage: &Storage) -> u8 {
    storage.read().unwrap().bytes().unwrap()[0]
}

#[test]
fn two_sharers_materialise_at_once() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        let (storage, clone) = sharers(&boxes);
        let writer = thread::spawn(move || {
            set(&clone, 1);
            assert!(!clone.is_cow());
            get(&clone)
        });
        set(&storage, 2);
        assert_eq!((get(&storage), writer.join().unwrap()), (2, 1));
        // At least one copied; both may, when neither saw the other go.
        assert!((2..=3).contains(&boxes.made.load(SeqCst)));
        drop(storage);
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}

#[test]
fn two_threads_materialise_one_sharer() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        let (storage, clone) = sharers(&boxes);
        let writer = {
            let storage = storage.clone();
            thread::spawn(move || set(&storage, 1))
        };
        set(&storage, 2);
        writer.join().unwrap();
        assert!(matches!(get(&storage), 1 | 2) && !storage.is_cow());
        assert_eq!((get(&clone), storage.version()), (0, 2));
        drop((storage, clone));
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}

#[test]
fn the_last_owner_writes_after_the_others_readers() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        let (storage, clone) = sharers(&boxes);
        let reader = thread::spawn(move || get(&clone));
        set(&storage, 9);
        // The reader's memory is not written under its eyes.
        assert_eq!(reader.join().unwrap(), 0);
        drop(storage);
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}

#[test]
fn a_clone_is_made_while_another_thread_writes() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        let storage = Storage::new(1, Arc::clone(&boxes) as Arc<dyn Allocator>).unwrap();
        let writer = {
            let storage = storage.clone();
            thread::spawn(move || set(&storage, 1))
        };
        let clone = storage.lazy_clone().unwrap();
        let seen = get(&clone);
        writer.join().unwrap();
        assert_eq!((get(&clone), get(&storage)), (seen, 1));
        drop((storage, clone));
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}

#[test]
fn a_resize_moves_while_another_thread_writes() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        let storage = Storage::new(1, Arc::clone(&boxes) as Arc<dyn Allocator>).unwrap();
        let writer = {
            let storage = storage.clone();
            thread::spawn(move || set(&storage, 1))
        };
        storage.resize(2).unwrap();
        writer.join().unwrap();
        assert_eq!((get(&storage), storage.nbytes(), storage.is_cow()), (1, 2, false));
        assert_eq!(boxes.live.load(SeqCst), 1);
        drop(storage);
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}

#[test]
fn a_weak_handle_is_upgraded_or_not_and_the_memory_goes_once() {
    model(|| {
        let boxes = Arc::new(Boxes::default());
        // SAFETY: the memory is the allocator's, of one byte.
        let storage = unsafe {
            Storage::from_data_ptr(boxes.allocate(1).unwrap(), 1, StorageOptions::default()).unwrap()
        };
        let weak = storage.downgrade();
        let upgrader = thread::spawn(move || {
            let strong = weak.upgrade();
            if let Some(storage) = &strong {
                set(storage, 1);
            }
            drop(strong);
            weak
        });
        set(&storage, 2);
        drop(storage);
        let weak = upgrader.join().unwrap();
        assert!(weak.expired() && weak.upgrade().is_none());
        assert_eq!(boxes.live.load(SeqCst), 0);
    });
}
