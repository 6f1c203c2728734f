//! What threads may see of the lock-free parts, in every order that loom can think of.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p c10-core --test loom --release
//! ```
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking, in their helpers too")]

use std::sync::Arc;

use c10_core::DeviceType;
use c10_core::allocator::hand_over::{HandOver, Node};
use c10_core::allocator::{
    Allocator, AllocatorRegistry, CountingAllocator, CpuAllocator, DeferredFreeAllocator, DeferredFreeConfig,
    LimitAllocator, MaxPending,
};
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn node(drops: &Arc<AtomicUsize>) -> Box<Node<Counted>> {
    Box::new(Node::new(Counted(Arc::clone(drops))))
}

#[test]
fn a_push_is_taken_once_whoever_takes() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let stack = Arc::new(HandOver::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (stack, drops) = (Arc::clone(&stack), Arc::clone(&drops));
                thread::spawn(move || {
                    assert!(stack.push(node(&drops)).is_ok());
                    stack.take_all().count()
                })
            })
            .collect();
        let mut taken = stack.take_all().count();
        for other in others {
            taken += other.join().unwrap();
        }
        taken += stack.take_all().count();
        assert_eq!((taken, drops.load(SeqCst)), (2, 2));
    });
}

#[test]
fn closing_beside_a_push_loses_nothing() {
    loom::model(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let stack = Arc::new(HandOver::new());
        let pusher = {
            let (stack, drops) = (Arc::clone(&stack), Arc::clone(&drops));
            thread::spawn(move || {
                let first = stack.push(node(&drops)).is_err() as usize;
                let second = stack.push(node(&drops)).is_err() as usize;
                assert!(first <= second, "closed is for ever");
                first + second
            })
        };
        let taken = stack.close().count();
        assert_eq!(taken + pusher.join().unwrap(), 2);
        assert_eq!(stack.close().count(), 0);
        assert_eq!(drops.load(SeqCst), 2);
    });
}

fn deferred(bound: usize) -> (DeferredFreeAllocator, Arc<CountingAllocator>) {
    deferred_by(MaxPending::Bytes(bound))
}

fn deferred_by(max_pending: MaxPending) -> (DeferredFreeAllocator, Arc<CountingAllocator>) {
    let counter = Arc::new(CountingAllocator::new(Arc::new(CpuAllocator)));
    let config = DeferredFreeConfig { max_pending, allow_devices: false };
    (DeferredFreeAllocator::try_new(counter.clone(), config).unwrap(), counter)
}

#[test]
fn deferred_frees_keep_their_bound_and_lose_nothing() {
    loom::model(|| {
        let (deferred, counter) = deferred(8);
        let deferred = Arc::new(deferred);
        let frees: Vec<_> = (0..2)
            .map(|_| {
                let ptr = deferred.allocate(8).unwrap();
                let deferred = Arc::clone(&deferred);
                thread::spawn(move || {
                    drop(ptr);
                    drop(deferred);
                })
            })
            .collect();
        frees.into_iter().for_each(|free| free.join().unwrap());
        assert!(deferred.pending_bytes() <= 8);
        assert_eq!(counter.counts().bytes.current as usize, deferred.held_bytes());
        drop(deferred);
        assert_eq!(counter.counts().bytes.current, 0);
        assert_eq!(counter.counts().allocations.freed, 2);
    });
}

#[test]
fn requests_and_a_flush_share_what_waits() {
    loom::model(|| {
        let (deferred, counter) = deferred_by(MaxPending::UpToPeak(2));
        let deferred = Arc::new(deferred);
        drop([deferred.allocate(8).unwrap(), deferred.allocate(8).unwrap()]);
        let request = {
            let deferred = Arc::clone(&deferred);
            thread::spawn(move || deferred.allocate(8).unwrap())
        };
        deferred.flush();
        let held = request.join().unwrap();
        assert!(deferred.held_bytes() <= 16 && deferred.held_bytes_peak() == 16);
        assert_eq!(counter.counts().bytes.current as usize, deferred.held_bytes());
        drop(held);
        drop(deferred);
        assert_eq!(counter.counts().bytes.current, 0);
        assert_eq!(counter.counts().allocations.freed, 3);
    });
}

#[test]
fn the_deferring_allocator_may_end_while_others_free() {
    loom::model(|| {
        let (deferred, counter) = deferred(1 << 20);
        let frees: Vec<_> = (0..2)
            .map(|_| {
                let ptr = deferred.allocate(8).unwrap();
                thread::spawn(move || drop(ptr))
            })
            .collect();
        drop(deferred);
        frees.into_iter().for_each(|free| free.join().unwrap());
        assert_eq!(counter.counts().bytes.current, 0);
        assert_eq!(counter.counts().allocations.freed, 2);
    });
}

#[test]
fn registry_readers_see_whole_records_and_the_highest_priority_wins() {
    loom::model(|| {
        let registry = Arc::new(AllocatorRegistry::new());
        let limits = [10, 20];
        let writers: Vec<_> = [1_u8, 2]
            .into_iter()
            .zip(limits)
            .map(|(priority, limit)| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let allocator = Arc::new(LimitAllocator::new(Arc::new(CpuAllocator), limit));
                    registry.set(DeviceType::Cuda, allocator, priority)
                })
            })
            .collect();
        if let Ok(allocator) = registry.get(DeviceType::Cuda) {
            // One of the two, whole: a limit of 10 or of 20.
            assert!(allocator.allocate(10).is_ok() && allocator.allocate(21).is_err());
        }
        let stored: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert!(stored[1], "the highest priority is always stored");
        let allocator = registry.get(DeviceType::Cuda).unwrap();
        assert!(allocator.allocate(20).is_ok() && allocator.allocate(21).is_err());
    });
}

#[test]
fn the_host_default_is_made_once_and_yields_to_what_is_set() {
    loom::model(|| {
        let registry = Arc::new(AllocatorRegistry::with_host_default());
        let reader = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || drop(registry.get(DeviceType::Cpu).unwrap().allocate(8).unwrap()))
        };
        let limit: Arc<dyn Allocator> = Arc::new(LimitAllocator::new(Arc::new(CpuAllocator), 10));
        assert!(registry.set(DeviceType::Cpu, limit, 0));
        assert!(registry.get(DeviceType::Cpu).unwrap().allocate(11).is_err());
        reader.join().unwrap();
        assert!(registry.get(DeviceType::Cpu).unwrap().allocate(11).is_err());
    });
}
