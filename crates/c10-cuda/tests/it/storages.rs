//! Storages on simulated CUDA devices, through the process's hooks.

use std::sync::Arc;

use c10_core::allocator::{Allocator, CountingAllocator, CpuAllocator, LimitAllocator};
use c10_core::guard::with_stream;
use c10_core::{Device, DeviceType, ErrorKind, Storage, Stream, StreamId};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, FaultWhen};
use c10_cuda::driver::{DevicePtr, StreamHandle};

use crate::machine::{CUDA_0, STRANGE, bytes, instance, kind, machine, of};
use crate::support::{MIB, fill, read};

#[test]
fn bytes_go_to_devices_and_back_under_any_schedule() {
    for completion in
        [Completion::Manual, Completion::Eager].into_iter().chain((0..20).map(Completion::Seeded))
    {
        let m = machine(completion);
        let data: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let host = of(&data);
        let there = with_stream(m.stream(0), || host.to_device(CUDA_0)).unwrap().unwrap();
        assert_eq!((there.device(), m.hooks.current_device().unwrap()), (CUDA_0, 0));
        let further = with_stream(m.stream(1), || there.to_device(Device::cuda(1))).unwrap().unwrap();
        assert_eq!(further.device(), Device::cuda(1));
        assert_eq!(bytes(&further), data, "{completion:?}");
        drop((there, further));
        assert_eq!([0, 1].map(|d| m.allocator.memory_allocated(d).unwrap()), [0, 0]);
    }
}

#[test]
fn a_device_without_an_index_is_the_current_one() {
    let m = machine(Completion::Manual);
    m.hooks.set_device(1).unwrap();
    let storage = of(b"abc").to_device(Device::current(DeviceType::Cuda)).unwrap();
    assert_eq!((storage.device(), bytes(&storage)), (Device::cuda(1), b"abc".to_vec()));
    let fresh = Storage::new(10, m.hooks.allocator()).unwrap();
    assert_eq!(fresh.device(), Device::cuda(1));
}

#[test]
fn a_host_guard_waits_for_copies_that_are_under_way() {
    for completion in [Completion::Manual].into_iter().chain((0..20).map(Completion::Seeded)) {
        let m = machine(completion);
        let (host, back) = (of(b"abcd"), of(b"...."));
        let there = Storage::new(4, m.hooks.allocator()).unwrap();
        let stream = m.stream(0);
        there.copy_from_async(&host, stream).unwrap();
        back.copy_from_async(&there, stream).unwrap();
        let other = of(b"");
        if completion == Completion::Manual {
            assert!(m.sim.pending() > 0);
            // The device only reads this side.
            assert_eq!(host.read().unwrap().bytes().unwrap(), b"abcd");
            let guard = other.read().unwrap();
            assert_eq!(kind(back.read()), Some(ErrorKind::Busy));
            assert_eq!(kind(host.write()), Some(ErrorKind::Busy));
            drop(guard);
            assert!(m.sim.pending() > 0);
        }
        host.write().unwrap().bytes_mut().unwrap().fill(b'x');
        assert_eq!(bytes(&back), b"abcd", "{completion:?}");
        assert_eq!(bytes(&there), b"abcd", "{completion:?}");
    }
}

#[test]
fn memory_of_both_sides_outlives_the_copy() {
    let m = machine(Completion::Manual);
    let stream = m.stream(0);
    let there = Storage::new(MIB as usize * 2, m.hooks.allocator()).unwrap();
    let host = of(&vec![7; MIB as usize * 2]);
    there.copy_from_async(&host, stream).unwrap();
    drop(there);
    // Not given back to the driver before the copy is done.
    m.allocator.empty_cache().unwrap();
    drop(host);
    m.sim.complete_all();
    assert_eq!(m.sim.take_faults(), []);
}

#[test]
fn an_asynchronous_copy_is_refused_before_it_is_enqueued() {
    let m = machine(Completion::Manual);
    let (host, there) = (of(b"abcd"), of(b"abcd").to_device(CUDA_0).unwrap());
    let stream = m.stream(0);
    for result in [
        there.copy_from_async(&there.clone(), stream),
        there.copy_from_async(&of(b"abc"), stream),
        host.copy_from_async(&of(b"efgh"), stream),
        there.copy_from_async(&host, Stream::new(DeviceType::Cuda, 0, StreamId(11 << 1 | 1))),
    ] {
        assert_eq!(kind(result), Some(ErrorKind::InvalidArgument));
    }
    let xpu = Stream::new(DeviceType::Xpu, 0, StreamId(0));
    assert_eq!(kind(there.copy_from_async(&host, xpu)), Some(ErrorKind::DeviceUnavailable));
    m.fault("copy");
    assert_eq!(kind(there.copy_from_async(&host, stream)), Some(ErrorKind::Driver));
    assert_eq!(m.sim.pending(), 0);
    m.heal();
    drop(host.write().unwrap());
}

#[test]
fn a_copy_that_cannot_be_told_of_is_waited_for_or_its_memory_is_lost() {
    let m = machine(Completion::Manual);
    let (host, there) = (of(b"abcd"), of(b"....").to_device(CUDA_0).unwrap());
    let stream = m.stream(0);
    m.fault("event_create");
    there.copy_from_async(&host, stream).unwrap();
    assert_eq!(m.sim.pending(), 0);
    let dead = FaultPlan::new()
        .rule(FaultRule::new("event_record", FaultWhen::Every(1), STRANGE))
        .rule(FaultRule::new("stream_synchronize", FaultWhen::Every(1), STRANGE));
    m.sim.set_faults(dead);
    let counting = Arc::new(CountingAllocator::new(Arc::new(CpuAllocator)));
    let lost = host.to_device_with(Device::CPU, counting.clone()).unwrap();
    there.copy_from_async(&lost, stream).unwrap();
    m.heal();
    assert!(m.sim.pending() > 0);
    assert_eq!(lost.read().unwrap().bytes().unwrap(), b"abcd", "the device only reads");
    assert_eq!(kind(lost.write()), Some(ErrorKind::Driver));
    drop(lost);
    assert_eq!(counting.counts().bytes.current, 4);
    m.sim.complete_all();
}

#[test]
fn a_migration_that_cannot_be_waited_for_frees_neither_side() {
    let m = machine(Completion::Manual);
    let counting = Arc::new(CountingAllocator::new(Arc::new(CpuAllocator)));
    let host = of(b"abcd").to_device_with(Device::CPU, counting.clone()).unwrap();
    m.fault("stream_synchronize");
    assert_eq!(kind(host.to_device(CUDA_0)), Some(ErrorKind::Driver));
    m.heal();
    drop(host);
    assert_eq!(counting.counts().bytes.current, 4);
    assert_eq!(m.allocator.memory_allocated(0).unwrap(), 512);
    m.sim.complete_all();
    // One that was not begun leaves nothing.
    let host = of(b"abcd");
    m.fault("copy");
    assert_eq!(kind(host.to_device(CUDA_0)), Some(ErrorKind::Driver));
    m.heal();
    assert_eq!(m.allocator.memory_allocated(0).unwrap(), 512);
    drop(host.write().unwrap());
}

#[test]
fn a_clone_on_the_device_is_copied_before_others_write_the_original() {
    for completion in [Completion::Manual].into_iter().chain((0..20).map(Completion::Seeded)) {
        let m = machine(completion);
        let storage = of(&[1; 4096]).to_device(CUDA_0).unwrap();
        let clone = storage.lazy_clone().unwrap();
        assert_eq!(clone.data_ptr(), storage.data_ptr());
        let (a, b) = (m.stream(0), m.stream(0));
        with_stream(a, || drop(clone.write().unwrap())).unwrap();
        assert_ne!(clone.data_ptr(), storage.data_ptr());
        // On a stream that knows nothing of the one that copied.
        m.fill(&storage, 2, b);
        m.hooks.synchronize_stream(b).unwrap();
        assert_eq!((bytes(&clone), bytes(&storage)), (vec![1; 4096], vec![2; 4096]), "{completion:?}");
    }
}

#[test]
fn resizing_moves_bytes_in_stream_order_and_keeps_the_old_block_until_then() {
    let m = machine(Completion::Manual);
    let size = 2 * MIB as usize;
    let storage = of(&vec![5; size]).to_device(CUDA_0).unwrap();
    let stream = m.stream(0);
    with_stream(stream, || storage.resize(3 * size)).unwrap().unwrap();
    assert!(m.sim.pending() > 0, "it does not wait");
    // The old block's own stream may not have it before the copy is done, and neither may the driver.
    let next = Storage::new(size, m.hooks.allocator()).unwrap();
    m.fill(&next, 9, m.hooks.default_stream(0));
    m.sim.complete_stream(m.handle(m.hooks.default_stream(0)));
    assert_eq!(with_stream(stream, || bytes(&storage)[..size].to_vec()).unwrap(), vec![5; size]);
    m.fault("copy");
    let before = (storage.data_ptr(), storage.nbytes());
    assert_eq!(kind(storage.resize(40 * size)), Some(ErrorKind::Driver));
    m.heal();
    assert_eq!((storage.data_ptr(), storage.nbytes()), before);
    assert_eq!(kind(storage.resize(200 * size)), Some(ErrorKind::OutOfMemory));
    assert_eq!((storage.data_ptr(), storage.nbytes()), before);
}

#[test]
fn a_recorded_stream_holds_the_block_through_adaptors_and_clones() {
    let m = machine(Completion::Manual);
    let counting = Arc::new(CountingAllocator::new(m.hooks.allocator()));
    let limited: Arc<dyn Allocator> = Arc::new(LimitAllocator::new(counting.clone(), 1 << 20));
    let storage = Storage::new(1000, limited).unwrap();
    let address = storage.data_ptr();
    let clone = storage.lazy_clone().unwrap();
    let side = m.stream(0);
    clone.record_stream(side).unwrap();
    drop(storage);
    m.fill(&clone, 1, side);
    drop(clone);
    assert_eq!(counting.counts().bytes.current, 0);
    let next = Storage::new(1000, m.hooks.allocator()).unwrap();
    assert_ne!(next.data_ptr(), address);
    m.sim.complete_stream(m.handle(side));
    assert_eq!(Storage::new(1000, m.hooks.allocator()).unwrap().data_ptr(), address);
}

#[test]
fn two_machines_stand_side_by_side() {
    let m = machine(Completion::Manual);
    let (sim, foreign) = instance(Completion::Manual);
    foreign.runtime().set_device(1).unwrap();
    assert_eq!(m.hooks.current_device().unwrap(), 0);
    foreign.runtime().set_device(0).unwrap();
    let storage = Storage::new(1000, Arc::new(foreign.clone())).unwrap();
    // The process's hooks are the other machine's: its memory has the same addresses.
    let ours = Storage::new(1000, m.hooks.allocator()).unwrap();
    assert_eq!(ours.data_ptr(), storage.data_ptr());
    for result in [
        storage.to_device(Device::CPU).map(drop),
        of(&[0; 1000]).to_device_with(CUDA_0, Arc::new(foreign.clone())).map(drop),
        ours.copy_from_async(&storage, m.stream(0)),
    ] {
        assert_eq!(kind(result), Some(ErrorKind::InvalidArgument));
    }
    assert_eq!(m.sim.call_count("copy"), 0);
    // Its own allocator still copies it.
    let address = DevicePtr(storage.data_ptr().addr() as u64);
    fill(&*sim, address, 6, 1000, StreamHandle::default_of(0)).unwrap();
    storage.resize(100_000).unwrap();
    let moved = DevicePtr(storage.data_ptr().addr() as u64);
    assert_eq!(read(&*sim, moved, 1000, StreamHandle::default_of(0)), vec![6; 1000]);
    let clone = storage.lazy_clone().unwrap();
    drop(clone.write().unwrap());
    assert_eq!(m.sim.call_count("copy"), 0);
    assert_eq!(sim.take_faults(), []);
}
