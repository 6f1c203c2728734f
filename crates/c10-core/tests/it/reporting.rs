//! Memory observers: what they hear, from whom, and what they may do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use c10_core::allocator::{
    Allocator, CachingCpuAllocator, CountingAllocator, CpuAllocator, DeferredFreeAllocator,
    DeferredFreeConfig, HostAllocator, LimitAllocator,
};
use c10_core::reporting::{
    Attached, MemoryEvent, MemoryObserver, OutOfMemoryEvent, attach, is_observed, report,
};
use c10_core::{DataPtr, Device};

/// Keeps what happens on one thread: observers hear the whole process, and other tests run beside.
struct Recorder {
    thread: ThreadId,
    events: Mutex<Vec<MemoryEvent>>,
    failures: Mutex<Vec<OutOfMemoryEvent>>,
}

impl MemoryObserver for Recorder {
    fn on_memory(&self, event: &MemoryEvent) {
        if thread::current().id() == self.thread {
            self.events.lock().unwrap().push(*event);
        }
    }

    fn on_out_of_memory(&self, event: &OutOfMemoryEvent) {
        if thread::current().id() == self.thread {
            self.failures.lock().unwrap().push(*event);
        }
    }
}

fn record() -> (Arc<Recorder>, Attached) {
    let recorder = Arc::new(Recorder {
        thread: thread::current().id(),
        events: Mutex::default(),
        failures: Mutex::default(),
    });
    (recorder.clone(), attach(recorder))
}

impl Recorder {
    fn take(&self) -> Vec<MemoryEvent> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    fn bytes(&self) -> Vec<i64> {
        self.take().iter().map(|event| event.bytes).collect()
    }
}

#[test]
fn an_allocation_and_its_free_are_two_events() {
    let (recorder, attached) = record();
    assert!(is_observed());
    let ptr = CpuAllocator.allocate(1000).unwrap();
    let address = ptr.as_ptr().addr();
    drop(ptr);
    drop(CpuAllocator.allocate(0).unwrap());
    let events = recorder.take();
    let bytes: Vec<_> = events.iter().map(|e| (e.address, e.bytes, e.device)).collect();
    assert_eq!(bytes, [(address, 1000, Device::CPU), (address, -1000, Device::CPU)]);
    assert!(events[0].total_allocated >= 1000 && events[0].total_reserved >= 1000);
    drop(attached);
    drop(CpuAllocator.allocate(1000).unwrap());
    assert_eq!(recorder.take(), []);
}

#[test]
fn raw_memory_is_reported_too() {
    let (recorder, _attached) = record();
    let address = CpuAllocator.raw_allocate(50).unwrap();
    #[expect(unsafe_code, reason = "frees by address")]
    // SAFETY: the address came from `raw_allocate` and is not used again.
    unsafe { CpuAllocator.raw_deallocate(address) }.unwrap();
    assert_eq!(recorder.bytes(), [50, -50]);
}

#[test]
fn totals_of_a_cache_follow_its_books() {
    let (recorder, _attached) = record();
    let allocator = CachingCpuAllocator::default();
    let a = allocator.allocate(1000).unwrap();
    let b = allocator.allocate(100).unwrap();
    drop(a);
    let c = allocator.allocate(1000).unwrap();
    drop((b, c));
    allocator.empty_cache();
    drop(allocator.allocate(64).unwrap());
    let events: Vec<_> =
        recorder.take().iter().map(|e| (e.bytes, e.total_allocated, e.total_reserved)).collect();
    assert_eq!(
        events,
        [
            (1024, 1024, 1024),
            (128, 1152, 1152),
            (-1024, 128, 1152),
            (1024, 1152, 1152),
            (-128, 1024, 1152),
            (-1024, 0, 1152),
            (64, 64, 64),
            (-64, 0, 64),
        ]
    );
}

#[test]
fn only_the_owner_of_the_memory_reports() {
    let (recorder, _attached) = record();
    let cpu: Arc<dyn Allocator> = Arc::new(CpuAllocator);
    let limit = Arc::new(LimitAllocator::new(Arc::new(CountingAllocator::new(cpu)), 1000));
    let deferred = DeferredFreeAllocator::try_new(limit, DeferredFreeConfig::default()).unwrap();
    let ptr = deferred.allocate(700).unwrap();
    assert!(deferred.allocate(700).is_err());
    drop(ptr);
    drop(deferred);
    assert_eq!(recorder.bytes(), [700, -700]);
    assert_eq!(*recorder.failures.lock().unwrap(), [], "a limit is no want of memory");
}

#[test]
fn every_owner_balances_and_says_when_it_has_none() {
    let mut allocators: Vec<Arc<dyn Allocator>> =
        vec![Arc::new(CpuAllocator), Arc::new(CachingCpuAllocator::default()), Arc::new(HostAllocator)];
    #[cfg(feature = "mapped")]
    {
        use c10_core::allocator::{ConfinedRoot, TempFileAllocator};
        let root = ConfinedRoot::open(std::env::temp_dir()).unwrap();
        allocators.push(Arc::new(TempFileAllocator::new(Arc::new(root))));
    }
    while let Some(allocator) = allocators.pop() {
        let (recorder, _attached) = record();
        let live: Vec<_> = (1..30).map(|i| allocator.allocate(i * 100).unwrap()).collect();
        drop(live);
        assert!(allocator.allocate(usize::MAX).is_err());
        drop(allocator);
        let mut balance = BTreeMap::new();
        for event in recorder.take() {
            let bytes = balance.entry(event.address).or_insert(0);
            *bytes += event.bytes;
            assert!(*bytes >= 0, "no free comes before its allocation");
        }
        assert!(balance.len() >= 29 && balance.values().all(|&bytes| bytes == 0));
        let failures = recorder.failures.lock().unwrap();
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].requested, failures[0].device), (u64::MAX, Device::CPU));
    }
}

#[test]
fn an_observer_may_allocate_and_is_not_told_of_that_itself() {
    struct Allocates {
        calls: AtomicUsize,
        thread: ThreadId,
    }
    impl MemoryObserver for Allocates {
        fn on_memory(&self, _: &MemoryEvent) {
            if thread::current().id() == self.thread {
                self.calls.fetch_add(1, SeqCst);
                drop(CpuAllocator.allocate(8).unwrap());
            }
        }
    }
    let make = || Arc::new(Allocates { calls: AtomicUsize::new(0), thread: thread::current().id() });
    let alone = make();
    let attached = attach(alone.clone());
    drop(CpuAllocator.allocate(100).unwrap());
    assert_eq!(alone.calls.load(SeqCst), 2);
    // Another one hears what the first does, and the first what that one does in turn.
    let (recorder, _recording) = record();
    drop(CpuAllocator.allocate(100).unwrap());
    let bytes = recorder.bytes();
    assert_eq!(bytes, [8, -8, 100, 8, -8, -100]);
    drop(attached);
    let (a, b) = (make(), make());
    let _both = (attach(a.clone()), attach(b.clone()));
    drop(CpuAllocator.allocate(100).unwrap());
    assert_eq!((a.calls.load(SeqCst), b.calls.load(SeqCst)), (6, 6));
}

#[test]
fn an_observer_may_attach_and_detach() {
    struct Changes {
        held: Mutex<Vec<Attached>>,
        inner: Arc<Recorder>,
    }
    impl MemoryObserver for Changes {
        fn on_memory(&self, event: &MemoryEvent) {
            if thread::current().id() != self.inner.thread {
                return;
            }
            let mut held = self.held.lock().unwrap();
            if event.bytes > 0 {
                held.push(attach(self.inner.clone()));
            } else {
                let old = held.pop();
                drop(held);
                drop(old);
            }
        }
    }
    let (recorder, recording) = record();
    drop(recording);
    let changes = Arc::new(Changes { held: Mutex::default(), inner: recorder.clone() });
    let attached = attach(changes.clone());
    let a = CpuAllocator.allocate(10).unwrap();
    let b = CpuAllocator.allocate(20).unwrap();
    assert_eq!(recorder.bytes(), [20], "the one attached for 10 hears 20");
    drop(a);
    drop(b);
    drop(attached);
    assert!(changes.held.lock().unwrap().is_empty());
}

#[test]
fn a_panicking_observer_is_detached_and_nobody_else_harmed() {
    struct Panics(ThreadId);
    impl MemoryObserver for Panics {
        fn on_memory(&self, event: &MemoryEvent) {
            assert!(thread::current().id() != self.0 || event.bytes > 0, "this panic is part of the test");
        }
    }
    let attached = attach(Arc::new(Panics(thread::current().id())));
    let (recorder, _recording) = record();
    let ptr = CpuAllocator.allocate(10).unwrap();
    assert!(attached.is_attached());
    drop(ptr);
    assert!(!attached.is_attached());
    drop(CpuAllocator.allocate(20).unwrap());
    assert_eq!(recorder.bytes(), [10, -10, 20, -20]);
}

#[test]
fn an_observer_that_ends_in_a_panic_ends_no_free() {
    struct Ends {
        thread: ThreadId,
        attached: Mutex<Option<Attached>>,
    }
    impl MemoryObserver for Ends {
        fn on_memory(&self, event: &MemoryEvent) {
            if thread::current().id() == self.thread && event.bytes < 0 {
                let attached = self.attached.lock().unwrap().take();
                drop(attached);
            }
        }
    }
    impl Drop for Ends {
        fn drop(&mut self) {
            // Another thread may end the list of observers that has it.
            assert!(thread::current().id() != self.thread, "this panic is part of the test");
        }
    }
    let observer = Arc::new(Ends { thread: thread::current().id(), attached: Mutex::default() });
    let attached = attach(observer.clone());
    *observer.attached.lock().unwrap() = Some(attached);
    drop(observer);
    let ptr = CpuAllocator.allocate(10).unwrap();
    drop(ptr);
}

#[test]
fn the_observer_is_dropped_with_its_guard() {
    let (recorder, attached) = record();
    let weak = Arc::downgrade(&recorder);
    drop(recorder);
    assert!(weak.upgrade().is_some());
    drop(attached);
    // A thread that is reporting right now may hold the list a moment longer.
    for _ in 0..1000 {
        if weak.upgrade().is_none() {
            return;
        }
        thread::yield_now();
    }
    panic!("the observer is still there");
}

#[test]
fn others_report_by_the_same_call() {
    let (recorder, _attached) = record();
    let event = MemoryEvent {
        address: 1 << 52,
        bytes: 512,
        total_allocated: 512,
        total_reserved: 2 << 20,
        device: Device::cuda(0),
    };
    report(|| event);
    assert_eq!(recorder.take(), [event]);
}

#[test]
fn threads_attach_allocate_and_detach_at_once() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 1..100 {
                    let (recorder, attached) = record();
                    let ptr: DataPtr = CpuAllocator.allocate(i).unwrap();
                    drop(ptr);
                    drop(attached);
                    drop(CpuAllocator.allocate(i).unwrap());
                    assert_eq!(recorder.bytes(), [i as i64, -(i as i64)]);
                }
            });
        }
    });
}
