//! Several threads, several allocators, owners that go before their memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use c10_core::{DataPtr, DeviceType, Stream};
use c10_cuda::driver::Driver;
use c10_cuda::driver::sim::{Completion, SimConfig, SimDriver};
use c10_cuda::{CachingAllocator, Config, ErrorKind, Runtime};

use crate::rig::{GIB, MIB, Rig, address};
use crate::rng::Rng;

/// Allocates, notes uses, frees its own and others' blocks, and now and then empties the cache.
fn churn(rig: &Rig, streams: &[Stream], shared: &Mutex<Vec<DataPtr>>, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut held: Vec<DataPtr> = Vec::new();
    let own = streams[seed as usize % streams.len()];
    rig.runtime.set_current_stream(own).unwrap();
    for _ in 0..400 {
        match rng.below(10) {
            0..=4 => {
                let bytes = [100, 5000, MIB, 3 * MIB, 30 * MIB][rng.below(5) as usize];
                match rig.cuda.allocate(bytes) {
                    Ok(ptr) => held.push(ptr),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
                }
            }
            5 => {
                if let Some(ptr) = held.last() {
                    let stream = streams[rng.below(streams.len() as u64) as usize];
                    rig.cuda.record_stream(ptr, stream).unwrap();
                }
            }
            6 | 7 => drop(held.pop()),
            8 => {
                let mut shared = shared.lock().unwrap();
                shared.extend(held.pop());
                if shared.len() > 5 {
                    let other = shared.remove(0);
                    drop(shared);
                    drop(other);
                }
            }
            _ => match rng.below(6) {
                0 => rig.cuda.empty_cache().unwrap(),
                1 => drop(rig.cuda.snapshot(true)),
                _ => rig.sim.complete_all(),
            },
        }
        if held.len() > 12 {
            held.swap_remove(0);
        }
    }
}

fn threads_share(config: Config, completion: Completion) {
    let machine = SimConfig::with_bytes(400 * MIB).completion(completion);
    let rig = Rig::with_config(machine, config);
    let mut streams = vec![Stream::default_of(DeviceType::Cuda, 0)];
    streams.extend([(); 2].map(|()| rig.stream()));
    let shared = Mutex::default();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (rig, streams, shared) = (&rig, &streams, &shared);
            scope.spawn(move || churn(rig, streams, shared, seed));
        }
    });
    shared.into_inner().unwrap().clear();
    rig.cuda.empty_cache().unwrap();
    rig.cuda.check_invariants();
    assert_eq!(rig.driver_used(), 0);
    let stats = rig.stats();
    for array in [stats.allocation, stats.active, stats.segment, stats.reserved_bytes, stats.active_bytes] {
        assert_eq!(array.all.current, 0);
        assert_eq!(array.all.allocated, array.all.freed);
        assert_eq!(array.all.allocated, array.small.allocated + array.large.allocated);
    }
    assert_eq!(stats.num_device_alloc, stats.num_device_free);
    assert_eq!(stats.segment.all.allocated, stats.num_device_alloc);
}

#[test]
fn threads_share_an_allocator() {
    threads_share(Config::default(), Completion::Manual);
    threads_share(Config::default(), Completion::Seeded(11));
}

#[test]
fn threads_share_it_while_the_driver_is_asked_without_the_lock() {
    threads_share(Config { release_lock_on_malloc: true, ..Config::default() }, Completion::Seeded(3));
    let config = Config::parse(
        "max_split_size_mb:25,garbage_collection_threshold:0.5,release_lock_on_cudamalloc:True",
    );
    threads_share(config.unwrap(), Completion::Manual);
}

#[test]
fn no_two_threads_hold_the_same_bytes() {
    let rig = Rig::new(GIB);
    let live: Mutex<Vec<(u64, u64)>> = Mutex::default();
    thread::scope(|scope| {
        for seed in 1..4 {
            let (rig, live) = (&rig, &live);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..300 {
                    let bytes = 1 + rng.below(4 * MIB);
                    let ptr = rig.allocate(bytes);
                    let range = (address(&ptr), address(&ptr) + bytes);
                    let mut list = live.lock().unwrap();
                    assert!(list.iter().all(|(from, to)| range.1 <= *from || *to <= range.0));
                    list.push(range);
                    drop(list);
                    thread::yield_now();
                    live.lock().unwrap().retain(|other| *other != range);
                    drop(ptr);
                }
            });
        }
    });
    assert_eq!(rig.stats().allocation.all.current, 0);
}

#[test]
fn blocks_outlive_their_allocator_and_end_on_any_thread() {
    for round in 0..50 {
        let sim = SimDriver::new(SimConfig::with_bytes(GIB));
        let cuda = CachingAllocator::new(Arc::clone(&sim) as Arc<dyn Driver>, Config::default()).unwrap();
        let blocks: Vec<_> = (0..8).map(|i| cuda.allocate(MIB << (i % 3)).unwrap()).collect();
        let start = Arc::new(Barrier::new(3));
        let mut threads = Vec::new();
        let mut blocks = blocks.into_iter();
        for _ in 0..2 {
            let (start, part) = (Arc::clone(&start), blocks.by_ref().take(4).collect::<Vec<_>>());
            threads.push(thread::spawn(move || {
                start.wait();
                drop(part);
            }));
        }
        // Now before them, now with them.
        if round % 2 == 0 {
            drop(cuda);
            start.wait();
        } else {
            start.wait();
            drop(cuda);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(sim.memory_info(0).unwrap().free, GIB, "the last block gives all back");
    }
}

#[test]
fn two_allocators_share_one_driver() {
    let rig = Rig::new(64 * MIB);
    let twin = CachingAllocator::with_runtime(rig.runtime.clone(), Config::default()).unwrap();
    thread::scope(|scope| {
        for cuda in [&rig.cuda, &twin] {
            scope.spawn(move || {
                for _ in 0..100 {
                    let ptr = cuda.allocate(3 * MIB).unwrap();
                    assert_eq!(cuda.memory_allocated(0).unwrap(), 3 * MIB);
                    drop(ptr);
                }
            });
        }
    });
    assert_eq!((rig.reserved(), twin.memory_reserved(0).unwrap()), (20 * MIB, 20 * MIB));
    // What one has cached the other cannot have.
    let error = rig.cuda.allocate(45 * MIB).unwrap_err();
    assert_eq!(error.out_of_memory().unwrap().device_free, 44 * MIB);
    assert_eq!(rig.reserved(), 0);
    drop(twin);
    rig.allocate(60 * MIB);
}

#[test]
fn two_machines_know_nothing_of_each_other() {
    let (a, b) = (Rig::new(GIB), Rig::new(GIB));
    let stream = a.stream();
    a.runtime.set_current_stream(stream).unwrap();
    let (in_a, in_b) = (a.allocate(3 * MIB), b.allocate(3 * MIB));
    assert_eq!(in_a.as_ptr(), in_b.as_ptr(), "addresses of two machines are not told apart");
    assert_eq!(a.cuda.record_stream(&in_b, stream).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(a.cuda.base_allocation(&in_b).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(b);
    drop(in_b);
    assert_eq!(a.cuda.memory_allocated(0).unwrap(), 3 * MIB);
}

#[test]
fn callbacks_and_observers_of_several_threads_do_not_block_each_other() {
    let rig = Rig::new(64 * MIB);
    let told = Arc::new(AtomicUsize::new(0));
    let (count, cuda) = (Arc::clone(&told), rig.cuda.clone());
    rig.cuda.attach_out_of_memory_observer(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        drop(cuda.allocate(512).unwrap());
    }));
    let cuda = rig.cuda.clone();
    rig.cuda.register_free_memory_callback(Arc::new(move || cuda.empty_cache().is_ok()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    rig.cuda.allocate(65 * MIB).unwrap_err();
                    drop(rig.cuda.allocate(3 * MIB));
                }
            });
        }
    });
    assert_eq!(told.load(Ordering::Relaxed) as i64, rig.stats().num_ooms);
    assert!(rig.stats().num_ooms >= 150);
    rig.cuda.check_invariants();
}

#[test]
fn handles_and_memory_go_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<CachingAllocator>();
    shared::<Runtime>();
    shared::<DataPtr>();
    shared::<c10_cuda::Error>();
}
