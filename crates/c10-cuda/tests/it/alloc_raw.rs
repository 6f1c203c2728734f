//! The raw calls: addresses that the program gives back by hand.
#![expect(unsafe_code, reason = "gives raw memory back, once each but where that is what is tested")]

use c10_cuda::driver::sim::{FaultPlan, FaultRule, SimConfig};
use c10_cuda::driver::{DevicePtr, Status};
use c10_cuda::{CachingAllocator, Config, ErrorKind, Result};

use crate::rig::{BASE, GIB, MIB, Rig};

pub(crate) fn delete(cuda: &CachingAllocator, ptr: DevicePtr) -> Result<()> {
    // SAFETY: nothing uses the memory; an address that is not live is refused.
    unsafe { cuda.raw_delete(ptr) }
}

#[test]
fn raw_memory_comes_and_goes() {
    let rig = Rig::new(GIB);
    let ptr = rig.cuda.raw_alloc(3 * MIB).unwrap();
    assert_eq!(ptr, DevicePtr(BASE));
    assert_eq!(rig.cuda.base_allocation_raw(ptr).unwrap(), (ptr, 20 * MIB));
    let on_stream = rig.cuda.raw_alloc_with_stream(3 * MIB, rig.stream()).unwrap();
    assert_eq!(on_stream, DevicePtr(BASE + 20 * MIB), "another stream has a segment of its own");
    assert_eq!(rig.stats().allocation.all.current, 2);
    delete(&rig.cuda, ptr).unwrap();
    delete(&rig.cuda, on_stream).unwrap();
    delete(&rig.cuda, DevicePtr::NULL).unwrap();
    assert_eq!(rig.cuda.memory_allocated(0).unwrap(), 0);
    assert_eq!(rig.cuda.raw_alloc(3 * MIB).unwrap(), ptr, "it was cached");
}

#[test]
fn row_29_a_raw_pointer_is_freed_once_and_an_unknown_one_never() {
    let rig = Rig::new(GIB);
    let ptr = rig.cuda.raw_alloc(100).unwrap();
    let owned = rig.allocate(100);
    delete(&rig.cuda, ptr).unwrap();
    let before = rig.stats();
    let owned_address = DevicePtr(crate::rig::address(&owned));
    for wrong in [ptr, DevicePtr(12345), DevicePtr(BASE + 100), owned_address] {
        let error = delete(&rig.cuda, wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let stream = rig.stream();
        let error = rig.cuda.record_stream_raw(wrong, stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(rig.cuda.base_allocation_raw(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    insta::assert_snapshot!(delete(&rig.cuda, ptr).unwrap_err(), @"raw_delete: 0x10000000000000 was not handed out by this allocator, or has been freed");
    assert_eq!(rig.stats(), before);
    rig.cuda.check_invariants();
}

#[test]
fn a_stream_use_defers_raw_memory() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    let ptr = rig.cuda.raw_alloc(3 * MIB).unwrap();
    rig.cuda.record_stream_raw(ptr, stream).unwrap();
    delete(&rig.cuda, ptr).unwrap();
    assert_eq!(rig.stats().active.all.current, 1);
    let other = rig.cuda.raw_alloc(3 * MIB).unwrap();
    assert_eq!(other, DevicePtr(BASE + 3 * MIB));
    rig.sim.complete_all();
    assert_eq!(rig.cuda.raw_alloc(3 * MIB).unwrap(), ptr);
}

#[test]
fn uncached_raw_memory_that_the_driver_keeps_can_be_freed_again() {
    let config = Config { no_caching: true, ..Config::default() };
    let rig = Rig::with_config(SimConfig::with_bytes(GIB), config);
    let ptr = rig.cuda.raw_alloc(3 * MIB).unwrap();
    rig.cuda.record_stream_raw(ptr, rig.stream()).unwrap();
    assert_eq!(rig.cuda.base_allocation_raw(ptr).unwrap_err().kind(), ErrorKind::InvalidArgument);
    rig.sim.set_faults(FaultPlan::from(FaultRule::nth("free", 1, Status::Other(1))));
    assert_eq!(delete(&rig.cuda, ptr).unwrap_err().kind(), ErrorKind::Driver);
    assert_eq!(rig.driver_used(), 4 * MIB);
    delete(&rig.cuda, ptr).unwrap();
    assert_eq!(rig.driver_used(), 0);
    assert_eq!(delete(&rig.cuda, ptr).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn raw_memory_outlives_its_allocator() {
    let Rig { sim, runtime, cuda, watch: _watch } = Rig::new(GIB);
    let ptr = cuda.raw_alloc(3 * MIB).unwrap();
    drop((cuda, runtime));
    // Nobody can give it back any more, but nobody else gets it either.
    let other = CachingAllocator::new(sim, Config::default()).unwrap();
    assert_ne!(other.raw_alloc(3 * MIB).unwrap(), ptr);
}

#[test]
fn racing_deletes_of_one_pointer_free_it_once() {
    let rig = Rig::new(GIB);
    let stream = rig.stream();
    for _ in 0..200 {
        let ptr = rig.cuda.raw_alloc(512).unwrap();
        let freed = std::thread::scope(|scope| {
            let racers = [(); 3].map(|()| {
                scope.spawn(|| {
                    // Racing with the delete it is noted or refused; a free block takes no note.
                    if let Err(error) = rig.cuda.record_stream_raw(ptr, stream) {
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    }
                    delete(&rig.cuda, ptr).is_ok()
                })
            });
            racers.map(|racer| racer.join().unwrap()).into_iter().filter(|freed| *freed).count()
        });
        assert_eq!(freed, 1);
        rig.cuda.check_invariants();
        rig.sim.complete_all();
    }
    drop(rig.allocate(1));
    let stats = rig.stats();
    assert_eq!((stats.allocation.all.current, stats.active.all.current), (0, 0));
}
