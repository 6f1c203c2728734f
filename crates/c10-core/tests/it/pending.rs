#![expect(unsafe_code, reason = "stands in for device work that uses host memory")]
//! Pending uses of host memory by devices: who waits for them.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use c10_core::allocator::CountingAllocator;
use c10_core::storage::{Access, AccessOptions, PendingUse};
use c10_core::{Error, ErrorKind, Result, Storage};

use crate::storage::{bytes, host, of};

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running,
    Done,
    Broken,
}

/// Work that ends when it is told to.
#[derive(Debug)]
struct Work {
    state: Mutex<State>,
    changed: Condvar,
    waits: AtomicUsize,
}

impl Work {
    fn new(state: State) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), waits: AtomicUsize::new(0) })
    }

    fn end(&self, state: State) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }
}

fn broken() -> Error {
    Error::new(ErrorKind::Driver, "the device is gone")
}

// SAFETY: there is no device that could touch memory.
unsafe impl PendingUse for Work {
    fn is_done(&self) -> Result<bool> {
        match *self.state.lock().unwrap() {
            State::Broken => Err(broken()),
            state => Ok(state == State::Done),
        }
    }

    fn wait(&self) -> Result<()> {
        self.waits.fetch_add(1, SeqCst);
        let state = self.state.lock().unwrap();
        match *self.changed.wait_while(state, |s| *s == State::Running).unwrap() {
            State::Broken => Err(broken()),
            _ => Ok(()),
        }
    }
}

const DEVICE: AccessOptions = AccessOptions { bump_version: true, host: false };

fn device_writes(storage: &Storage, work: &Arc<Work>) {
    let set = Access::acquire_with(&[], &[storage], DEVICE).unwrap();
    set.defer_write(0, work.clone()).unwrap();
}

fn device_reads(storage: &Storage, work: &Arc<Work>) {
    let set = Access::acquire_with(&[storage], &[], DEVICE).unwrap();
    set.defer_read(0, work.clone()).unwrap();
}

#[test]
fn the_host_waits_for_device_writes() {
    let storage = of(b"abcd");
    let work = Work::new(State::Running);
    device_writes(&storage, &work);
    thread::scope(|scope| {
        let reader = scope.spawn(|| bytes(&storage));
        thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        work.end(State::Done);
        assert_eq!(reader.join().unwrap(), b"abcd");
    });
    // Waited for once, then forgotten.
    drop(storage.write().unwrap());
    assert_eq!((work.waits.load(SeqCst), Arc::strong_count(&work)), (1, 1));
}

#[test]
fn device_reads_delay_writers_alone() {
    let storage = of(b"abcd");
    let work = Work::new(State::Running);
    device_reads(&storage, &work);
    let guard = storage.read().unwrap();
    assert_eq!((guard.bytes().unwrap(), work.waits.load(SeqCst)), (&b"abcd"[..], 0));
    drop(guard);
    thread::scope(|scope| {
        let writer = scope.spawn(|| storage.write().map(drop));
        let mover = scope.spawn(|| storage.resize(1000));
        thread::sleep(Duration::from_millis(20));
        assert!(!writer.is_finished() && !mover.is_finished());
        work.end(State::Done);
    });
    assert_eq!(&bytes(&storage)[..4], b"abcd");
}

#[test]
fn other_device_work_does_not_wait_and_gets_no_slices() {
    let storage = of(b"abcd");
    let work = Work::new(State::Running);
    device_writes(&storage, &work);
    let mut set = Access::acquire_with(&[], &[&storage], DEVICE).unwrap();
    assert_eq!(set.write(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(set.write_ptr(0).unwrap().1, 4);
    assert_eq!(set.defer_read(0, work.clone()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(set);
    work.end(State::Done);
    // And the host cannot say that it is a device.
    let set = Access::acquire(&[], &[&storage]).unwrap();
    assert_eq!(set.defer_write(0, work.clone()).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_thread_with_a_guard_does_not_wait_for_a_device() {
    let (storage, other) = (of(b"abcd"), of(b""));
    let work = Work::new(State::Running);
    device_writes(&storage, &work);
    let guard = other.read().unwrap();
    assert_eq!(storage.read().unwrap_err().kind(), ErrorKind::Busy);
    work.end(State::Done);
    assert_eq!(storage.read().unwrap().bytes().unwrap(), b"abcd");
    assert_eq!(work.waits.load(SeqCst), 0);
    drop(guard);
}

#[test]
fn a_lazy_clone_waits_and_the_sharers_memory_stays_as_long_as_the_device_needs_it() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(4, counting.clone()).unwrap();
    let work = Work::new(State::Running);
    device_reads(&storage, &work);
    let clone = storage.lazy_clone().unwrap();
    thread::scope(|scope| {
        let dropper = scope.spawn(|| drop(storage));
        thread::sleep(Duration::from_millis(20));
        assert!(!dropper.is_finished());
        work.end(State::Done);
    });
    drop(clone.write().unwrap());
    assert_eq!(counting.counts().allocations.allocated, 1);
}

#[test]
fn the_memory_outlives_the_devices_use() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(4, counting.clone()).unwrap();
    let work = Work::new(State::Running);
    device_writes(&storage, &work);
    thread::scope(|scope| {
        scope.spawn(|| drop(storage));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(counting.counts().bytes.current, 4);
        work.end(State::Done);
    });
    assert_eq!(counting.counts().bytes.current, 0);
}

#[test]
fn a_broken_device_gives_errors_and_its_memory_is_never_freed() {
    let counting = Arc::new(CountingAllocator::new(host()));
    let storage = Storage::new(4, counting.clone()).unwrap();
    device_writes(&storage, &Work::new(State::Broken));
    for result in [storage.read().map(drop), storage.write().map(drop), storage.resize(0)] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Driver);
    }
    drop(storage);
    assert_eq!(counting.counts().bytes.current, 4);
}

#[test]
fn many_uses_do_not_pile_up() {
    let storage = of(b"abcd");
    let works: Vec<_> = (0..200).map(|_| Work::new(State::Done)).collect();
    for work in &works {
        device_reads(&storage, work);
    }
    let kept = works.iter().filter(|work| Arc::strong_count(work) > 1).count();
    assert!(kept <= 17, "{kept} uses are kept");
    assert!(works.iter().all(|work| work.waits.load(SeqCst) == 0));
}
