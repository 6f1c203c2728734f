//! `MemPool` and the scopes in which a thread allocates from one.

use std::sync::Arc;
use std::thread;

use c10_cuda::ErrorKind;
use c10_cuda::alloc::{MemPool, MemPoolOptions};

use crate::own_memory::OwnMemory;
use crate::rig::{MIB, Rig};

fn pool(rig: &Rig) -> MemPool {
    MemPool::new(&rig.cuda, 0, MemPoolOptions::default()).unwrap()
}

#[test]
fn scopes_nest_and_the_newest_wins() {
    let rig = Rig::new(64 * MIB);
    let (outer, inner) = (pool(&rig), pool(&rig));
    let segments = |pool: &MemPool| pool.snapshot().segments.len();
    let mut held = Vec::new();
    {
        let _outer = outer.enter().unwrap();
        held.push(rig.allocate(MIB));
        {
            let _inner = inner.enter().unwrap();
            assert_eq!((outer.use_count(), inner.use_count()), (2, 2));
            held.push(rig.allocate(MIB));
            assert_eq!(outer.enter().unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert_eq!(outer.use_count(), 2);
        }
        held.push(rig.allocate(MIB));
        held.push(rig.allocate(MIB));
    }
    held.push(rig.allocate(MIB));
    assert_eq!((segments(&outer), segments(&inner)), (2, 1));
    assert_eq!((outer.use_count(), inner.use_count()), (1, 1));
    assert_ne!(outer.id(), inner.id());
    assert_eq!(rig.reserved(), 8 * MIB);
    drop((outer, inner));
    assert_eq!(rig.reserved(), 8 * MIB, "blocks outlive their pools");
    drop(held);
    rig.cuda.empty_cache().unwrap();
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

#[test]
fn guards_may_end_in_any_order() {
    let rig = Rig::new(64 * MIB);
    let (a, b) = (pool(&rig), pool(&rig));
    let in_a = a.enter().unwrap();
    let in_b = b.enter().unwrap();
    drop(in_a);
    let block = rig.allocate(1000);
    assert_eq!((a.snapshot().segments.len(), b.snapshot().segments.len()), (0, 1));
    drop((in_b, block));
    drop(rig.allocate(1000));
    assert_eq!(rig.reserved(), 4 * MIB);
}

#[test]
fn other_threads_allocate_elsewhere() {
    let rig = Rig::new(64 * MIB);
    let pool = pool(&rig);
    let _use = pool.enter().unwrap();
    let theirs = thread::scope(|scope| scope.spawn(|| rig.allocate(1000)).join().unwrap());
    assert_eq!(pool.snapshot().segments.len(), 0);
    let ours = rig.allocate(1000);
    assert_eq!(pool.snapshot().segments.len(), 1);
    drop((theirs, ours));
}

#[test]
fn a_pool_without_splits_hands_segments_out_whole() {
    let rig = Rig::new(64 * MIB);
    let options = MemPoolOptions { no_split: true, ..MemPoolOptions::default() };
    let pool = MemPool::new(&rig.cuda, 0, options).unwrap();
    let blocks = pool.with(|| (rig.allocate(1000), rig.allocate(1000))).unwrap();
    assert_eq!(rig.stats().allocated_bytes.all.current, 4 << 20);
    drop((blocks, pool));
    assert_eq!(rig.reserved(), 0);
}

#[test]
fn an_allocator_of_its_own_gives_and_takes_segments() {
    let rig = Rig::new(64 * MIB);
    let log = Arc::default();
    let own = Arc::new(OwnMemory::logged(rig.sim.clone(), Arc::clone(&log)));
    let options = MemPoolOptions { allocator: Some(own), ..MemPoolOptions::default() };
    let pool = MemPool::new(&rig.cuda, 0, options).unwrap();
    let block = pool.with(|| rig.allocate(MIB)).unwrap();
    let error = pool.with(|| rig.cuda.allocate(63 * MIB)).unwrap().unwrap_err();
    assert!(
        error.to_string().contains("The custom allocator backing this MemPool returned nullptr."),
        "{error}"
    );
    assert_eq!(error.out_of_memory().unwrap().tried, 64 * MIB);
    drop(pool);
    assert_eq!(rig.reserved(), 2 * MIB);
    drop(block);
    rig.cuda.empty_cache().unwrap();
    let asked = ["own alloc 2097152", "own alloc 67108864", "own alloc 67108864", "own free"];
    assert_eq!(*log.lock().unwrap(), asked);
    assert_eq!((rig.reserved(), rig.driver_used()), (0, 0));
}

#[test]
fn memory_of_a_pool_outlives_pool_and_allocator() {
    let rig = Rig::new(64 * MIB);
    let Rig { sim, runtime, cuda, watch } = rig;
    let log = Arc::default();
    let own = Arc::new(OwnMemory::logged(sim.clone(), Arc::clone(&log)));
    let options = MemPoolOptions { allocator: Some(own), ..MemPoolOptions::default() };
    let pool = MemPool::new(&cuda, 0, options).unwrap();
    let block = pool.with(|| cuda.allocate(1000).unwrap()).unwrap();
    drop((pool, cuda, runtime, watch));
    assert_eq!(*log.lock().unwrap(), ["own alloc 2097152"]);
    drop(block);
    assert_eq!(*log.lock().unwrap(), ["own alloc 2097152", "own free"]);
}
