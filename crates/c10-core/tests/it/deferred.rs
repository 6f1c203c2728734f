//! The deferred-free queue: when memory really goes back.

use std::sync::Arc;
use std::thread;

use c10_core::allocator::{
    Allocator, CountingAllocator, CpuAllocator, DeferredFreeAllocator, DeferredFreeConfig, Fault,
    FaultAllocator, LimitAllocator, MaxPending,
};
use c10_core::reporting::{MemoryEvent, MemoryObserver, attach};
use c10_core::{Device, ErrorKind};

/// A queue of at most `bytes` over a counter of what it holds.
fn queue(max_pending: MaxPending) -> (DeferredFreeAllocator, Arc<CountingAllocator>) {
    let counter = Arc::new(CountingAllocator::new(Arc::new(CpuAllocator)));
    let config = DeferredFreeConfig { max_pending, ..DeferredFreeConfig::default() };
    (DeferredFreeAllocator::try_new(counter.clone(), config).unwrap(), counter)
}

fn live(counter: &CountingAllocator) -> i64 {
    counter.counts().bytes.current
}

#[test]
fn frees_wait_for_a_flush() {
    let (deferred, counter) = queue(MaxPending::Bytes(1000));
    let held: Vec<_> = (0..5).map(|_| deferred.allocate(100).unwrap()).collect();
    drop(held);
    assert_eq!((live(&counter), deferred.pending_bytes(), deferred.held_bytes()), (500, 500, 500));
    assert_eq!(deferred.flush(), 500);
    assert_eq!((live(&counter), deferred.pending_bytes(), deferred.held_bytes()), (0, 0, 0));
    assert_eq!(deferred.flush(), 0);
}

#[test]
fn at_the_bound_the_thread_that_frees_flushes() {
    let (deferred, counter) = queue(MaxPending::Bytes(250));
    let mut held: Vec<_> = (0..5).map(|_| deferred.allocate(100).unwrap()).collect();
    let mut pending = Vec::new();
    while let Some(ptr) = held.pop() {
        drop(ptr);
        pending.push(deferred.pending_bytes());
        assert_eq!(live(&counter), (held.len() * 100 + deferred.pending_bytes()) as i64);
    }
    assert_eq!(pending, [100, 200, 0, 100, 200]);
    drop(deferred.allocate(251).unwrap());
    assert_eq!(live(&counter), 0, "what is above the bound alone goes at once, and takes the rest along");
}

#[test]
fn a_bound_of_nothing_frees_at_once() {
    for none in [MaxPending::Bytes(0), MaxPending::PeakPart(0)] {
        let (deferred, counter) = queue(none);
        drop(deferred.allocate(1).unwrap());
        assert_eq!(live(&counter), 0);
    }
}

#[test]
fn the_end_of_the_adaptor_frees_what_waits() {
    let (deferred, counter) = queue(MaxPending::Bytes(usize::MAX));
    let outlives = deferred.allocate(10).unwrap();
    drop(deferred.allocate(20).unwrap());
    assert_eq!(live(&counter), 30);
    drop(deferred);
    assert_eq!(live(&counter), 10);
    drop(outlives);
    assert_eq!(live(&counter), 0, "what outlives the adaptor does not wait");
}

#[test]
fn the_peak_is_at_most_a_tenth_higher_than_freeing_at_once() {
    let (peak, live_peak) = peaks_of_waves(MaxPending::PeakPart(16));
    assert!(peak > live_peak, "some frees waited");
    assert!(peak as f64 <= live_peak as f64 * 1.1, "{peak} against {live_peak}");
}

#[test]
fn by_default_the_peak_is_that_of_freeing_at_once() {
    for part in [0, 1, 4, 1000] {
        let (peak, live_peak) = peaks_of_waves(MaxPending::UpToPeak(part));
        assert_eq!(peak, live_peak, "{part}");
    }
    assert_eq!(DeferredFreeConfig::default().max_pending, MaxPending::UpToPeak(4));
}

/// The most bytes held, and the most live at once, of waves of small buffers.
fn peaks_of_waves(max_pending: MaxPending) -> (i64, i64) {
    let (deferred, counter) = queue(max_pending);
    let (mut live_now, mut live_peak) = (0_i64, 0);
    let mut held = std::collections::VecDeque::new();
    for step in 0..20_000_usize {
        // Waves of small buffers, of many sizes.
        let bytes = 64 + step * 7919 % 4096;
        if (step / 500).is_multiple_of(2) || held.is_empty() {
            held.push_back((deferred.allocate(bytes).unwrap(), bytes));
            live_now += bytes as i64;
            live_peak = live_peak.max(live_now);
        } else if let Some((ptr, bytes)) = held.pop_front() {
            drop(ptr);
            live_now -= bytes as i64;
        }
    }
    let peak = counter.counts().bytes.peak;
    assert_eq!(deferred.held_bytes_peak() as i64, peak);
    (peak, live_peak)
}

#[test]
fn up_to_the_peak_requests_free_in_batches_and_bursts_wait() {
    let (deferred, counter) = queue(MaxPending::UpToPeak(4));
    let held: Vec<_> = (0..8).map(|_| deferred.allocate(100).unwrap()).collect();
    drop(held);
    assert_eq!((live(&counter), deferred.pending_bytes(), deferred.max_pending_bytes()), (800, 800, 800));
    let mut again = Vec::new();
    let mut pending = Vec::new();
    for _ in 0..8 {
        again.push(deferred.allocate(100).unwrap());
        pending.push(deferred.pending_bytes());
    }
    assert_eq!(pending, [500, 500, 500, 200, 200, 200, 0, 0], "each batch is the request's 100 and 200 more");
    assert_eq!((live(&counter), counter.counts().bytes.peak), (800, 800));
    drop(again);
    let _larger = deferred.allocate(1000).unwrap();
    assert_eq!((deferred.pending_bytes(), deferred.held_bytes_peak()), (0, 1000));
}

#[test]
fn a_flush_takes_what_a_request_left_too() {
    let (deferred, counter) = queue(MaxPending::UpToPeak(0));
    drop((0..4).map(|_| deferred.allocate(100).unwrap()).collect::<Vec<_>>());
    let held = deferred.allocate(100).unwrap();
    drop(deferred.allocate(50).unwrap());
    assert_eq!(deferred.pending_bytes(), 250);
    assert_eq!(deferred.flush(), 250);
    assert_eq!((live(&counter), deferred.held_bytes()), (100, 100));
    drop(held);
    drop(deferred.allocate(100).unwrap());
    drop(deferred);
    assert_eq!(live(&counter), 0);
}

#[test]
fn a_refused_request_does_not_loosen_the_bound() {
    let limit = Arc::new(LimitAllocator::new(Arc::new(CpuAllocator), 1000));
    let deferred = DeferredFreeAllocator::try_new(limit.clone(), DeferredFreeConfig::default()).unwrap();
    drop(deferred.allocate(100).unwrap());
    for bytes in [2000, usize::MAX] {
        assert_eq!(deferred.allocate(bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    drop(deferred.allocate(60).unwrap());
    let _held = deferred.allocate(60).unwrap();
    assert!(limit.live_bytes() <= 100);
}

#[test]
fn what_is_freed_at_a_request_may_itself_allocate() {
    /// Allocates from the queue whenever memory of its own process is freed.
    struct Greedy(Arc<DeferredFreeAllocator>);
    impl MemoryObserver for Greedy {
        fn on_memory(&self, event: &MemoryEvent) {
            if event.bytes == -777 {
                drop(self.0.allocate(777).unwrap());
            }
        }
    }
    let inner = Arc::new(CpuAllocator);
    let deferred = DeferredFreeAllocator::try_new(inner, DeferredFreeConfig::default()).unwrap();
    let deferred = Arc::new(deferred);
    let _attached = attach(Arc::new(Greedy(deferred.clone())));
    for _ in 0..10 {
        drop(deferred.allocate(777).unwrap());
    }
    deferred.flush();
    assert!(deferred.held_bytes() <= 777);
}

#[test]
fn want_of_memory_flushes_and_tries_again() {
    let limit = Arc::new(LimitAllocator::new(Arc::new(CpuAllocator), 1000));
    let config =
        DeferredFreeConfig { max_pending: MaxPending::Bytes(usize::MAX), ..DeferredFreeConfig::default() };
    let deferred = DeferredFreeAllocator::try_new(limit.clone(), config).unwrap();
    drop(deferred.allocate(900).unwrap());
    assert_eq!(limit.live_bytes(), 900);
    let held = deferred.allocate(800).unwrap();
    assert_eq!(deferred.allocate(800).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!((limit.live_bytes(), deferred.held_bytes()), (800, 800));
    drop(held);
}

#[test]
fn a_failure_changes_nothing() {
    let fault = Arc::new(FaultAllocator::new(Arc::new(CpuAllocator), [Fault::FromNth(1)]));
    let deferred = DeferredFreeAllocator::try_new(fault.clone(), DeferredFreeConfig::default()).unwrap();
    assert!(deferred.allocate(5).is_err());
    assert_eq!(fault.requests(), 1, "nothing waited, so that a second try is of no use");
    assert_eq!((deferred.held_bytes(), deferred.held_bytes_peak()), (0, 0));
}

#[test]
fn other_devices_need_leave() {
    #[derive(Debug)]
    struct Elsewhere;
    #[expect(unsafe_code, reason = "an allocator that never gives memory")]
    // SAFETY: it gives none.
    unsafe impl Allocator for Elsewhere {
        fn device(&self) -> Device {
            Device::cuda(1)
        }
        fn allocate(&self, _: usize) -> c10_core::Result<c10_core::DataPtr> {
            Ok(c10_core::DataPtr::null(self.device()))
        }
        unsafe fn copy_data(&self, _: *mut u8, _: *const u8, _: usize) -> c10_core::Result<()> {
            Ok(())
        }
    }
    let config = DeferredFreeConfig::default();
    let error = DeferredFreeAllocator::try_new(Arc::new(Elsewhere), config).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    insta::assert_snapshot!(
        error.to_string(),
        @"freeing memory of cuda:1 later needs `allow_devices`: its order with work on streams is not kept"
    );
    let config = DeferredFreeConfig { allow_devices: true, ..config };
    let deferred = DeferredFreeAllocator::try_new(Arc::new(Elsewhere), config).unwrap();
    assert_eq!(deferred.device(), Device::cuda(1));
}

#[test]
fn threads_lose_nothing_and_keep_the_bound() {
    let (deferred, counter) = queue(MaxPending::Bytes(5_000));
    thread::scope(|scope| {
        for id in 0..4 {
            let deferred = &deferred;
            scope.spawn(move || {
                for i in 0..2_000 {
                    let held: Vec<_> =
                        (0..3).map(|k| deferred.allocate(1 + (i * 31 + k * 7 + id) % 600).unwrap()).collect();
                    drop(held);
                    if i % 100 == id {
                        deferred.flush();
                    }
                }
            });
        }
    });
    assert!(deferred.pending_bytes() <= 5_000);
    assert_eq!(live(&counter), deferred.pending_bytes() as i64);
    drop(deferred);
    assert_eq!(live(&counter), 0);
    assert_eq!(counter.counts().allocations.allocated, 4 * 2_000 * 3);
}

#[test]
fn the_adaptor_may_end_while_threads_free() {
    for _ in 0..50 {
        let (deferred, counter) = queue(MaxPending::Bytes(usize::MAX));
        let held: Vec<_> = (0..100).map(|_| deferred.allocate(10).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(move || drop(held));
            scope.spawn(move || drop(deferred));
        });
        assert_eq!(live(&counter), 0);
    }
}
