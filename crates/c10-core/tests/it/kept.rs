//! Storages of few bytes that have ended and come again: nothing of what they were is left.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use c10_core::allocator::HostAllocator;
use c10_core::reporting::{MemoryEvent, MemoryObserver, attach};
use c10_core::{DeviceType, ErrorKind, Storage};

fn small(size: usize) -> Storage {
    Storage::of_type(size, DeviceType::Cpu).unwrap()
}

#[test]
fn what_comes_again_is_new() {
    let storage = small(64);
    storage.write().unwrap().bytes_mut().unwrap().fill(7);
    storage.bump_version();
    storage.resize(10).unwrap();
    // Such a guard counts as held for as long as the storage is there.
    std::mem::forget(small(4).read());
    std::mem::forget(storage.write());
    thread::spawn(move || drop(storage)).join().unwrap();
    for size in 1..=64 {
        let new = small(size);
        assert_eq!((new.nbytes(), new.capacity(), new.version()), (size, size, 0));
        assert_eq!((new.use_count(), new.weak_use_count()), (1, 0));
        assert!(new.is_resizable() && !new.is_read_only() && !new.is_cow());
        let leaked = new.clone();
        thread::spawn(move || std::mem::forget(leaked.write())).join().unwrap();
        assert_eq!(new.version(), 1);
    }
    let (one, two) = (small(8), small(8));
    assert!(one.data_ptr() != two.data_ptr() && !one.is_same(&two));
    thread::spawn(move || one.write().map(drop).and_then(|()| two.write().map(drop)).unwrap())
        .join()
        .unwrap();
}

#[test]
fn what_was_changed_ends() {
    // Each of these has other memory, or shares it, when it ends: the next storage is not that one.
    let changes: [&dyn Fn(&Storage); 5] = [
        &|storage| storage.resize(100).unwrap(),
        &|storage| storage.resize(0).unwrap(),
        &|storage| storage.release_data(Some("gone".to_owned())).unwrap(),
        &|storage| drop(storage.lazy_clone().unwrap()),
        &|storage| drop(storage.dump()),
    ];
    for change in changes {
        let storage = small(16);
        change(&storage);
        drop(storage);
        let new = small(16);
        assert_eq!((new.nbytes(), new.capacity(), new.is_resizable(), new.is_cow()), (16, 16, true, false));
        assert!(!new.data_ptr().is_null());
        assert_eq!(new.write().unwrap().bytes_mut().unwrap().len(), 16);
    }
    let storage = small(16);
    let shared = storage.lazy_clone().unwrap();
    let address = storage.data_ptr();
    drop(storage);
    assert!(small(16).data_ptr() != address, "the other has these bytes");
    assert_eq!(shared.read().unwrap().bytes().unwrap().len(), 16);
    let storage = small(16);
    let weak = storage.downgrade();
    drop(storage);
    let new = small(16);
    assert!(weak.expired() && weak.upgrade().is_none());
    assert_eq!(new.weak_use_count(), 0);
}

struct Recorder {
    thread: ThreadId,
    events: Mutex<Vec<MemoryEvent>>,
}

impl MemoryObserver for Recorder {
    fn on_memory(&self, event: &MemoryEvent) {
        if thread::current().id() == self.thread {
            self.events.lock().unwrap().push(*event);
        }
    }
}

#[test]
fn observers_hear_of_each() {
    drop((small(4), small(4)));
    let recorder = Arc::new(Recorder { thread: thread::current().id(), events: Mutex::default() });
    let attached = attach(recorder.clone());
    for _ in 0..3 {
        drop((small(4), small(60)));
    }
    HostAllocator::empty_cache();
    drop(small(4));
    drop(attached);
    let events = recorder.events.lock().unwrap();
    let bytes: Vec<_> = events.iter().map(|event| event.bytes).collect();
    assert_eq!(bytes, [64, 64, -64, -64].repeat(3).into_iter().chain([64, -64]).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.total_allocated >= event.bytes.max(0) as u64));
}

#[test]
fn a_thread_ends_with_what_it_keeps() {
    thread::spawn(|| {
        // Ends after what the thread keeps.
        thread_local!(static LATE: RefCell<Vec<Storage>> = const { RefCell::new(Vec::new()) });
        LATE.with_borrow_mut(|late| late.push(small(4)));
        drop((0..3000).map(|_| small(4)).collect::<Vec<_>>());
        LATE.with_borrow_mut(|late| late.extend((0..10).map(|_| small(4))));
    })
    .join()
    .unwrap();
}

#[test]
fn access_is_refused_as_ever() {
    let storage = small(4);
    let guard = storage.read().unwrap();
    assert_eq!(storage.write().unwrap_err().kind(), ErrorKind::Busy);
    drop(guard);
    drop(storage);
    assert!(small(4).write().is_ok());
}
