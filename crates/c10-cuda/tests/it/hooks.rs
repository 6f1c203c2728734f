#![expect(unsafe_code, reason = "calls the raw copies and fills of hooks, on memory that it holds")]
//! The CUDA hooks and the storages over them, on the simulated device.
//!
//! There is one place for CUDA hooks in the process: tests that need it take turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use c10_core::allocator::{Allocator, CountingAllocator, CpuAllocator, LimitAllocator};
use c10_core::guard::with_stream;
use c10_core::hooks::{DeviceHooks, Place, hooks, require_hooks};
use c10_core::{
    Device, DeviceType, Error, ErrorKind, Event, EventFlags, EventId, Result, Storage, Stream, StreamId,
};
use c10_cuda::driver::sim::{Completion, FaultPlan, FaultRule, SimConfig, SimDriver};
use c10_cuda::driver::{Driver, Status, StreamHandle};
use c10_cuda::{CachingAllocator, Config, CudaHooks};

use crate::support::MIB;

/// A machine whose hooks and allocator are the process's, for as long as this lives.
pub(crate) struct Machine {
    pub(crate) sim: Arc<SimDriver>,
    pub(crate) allocator: CachingAllocator,
    pub(crate) hooks: &'static dyn DeviceHooks,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) fn machine(completion: Completion) -> Machine {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (sim, allocator) = instance(completion);
    assert!(CudaHooks::new(allocator.clone()).register());
    Machine { sim, allocator, hooks: require_hooks(DeviceType::Cuda).unwrap(), _turn: turn }
}

fn instance(completion: Completion) -> (Arc<SimDriver>, CachingAllocator) {
    let sim = SimDriver::new(SimConfig::with_devices(2, 256 * MIB).completion(completion));
    let allocator = CachingAllocator::new(sim.clone(), Config::default()).unwrap();
    (sim, allocator)
}

impl Machine {
    fn stream(&self, device: u8) -> Stream {
        self.hooks.stream_from_pool(device, 0).unwrap()
    }

    fn handle(&self, stream: Stream) -> StreamHandle {
        self.allocator.runtime().handle(stream).unwrap()
    }

    /// Enqueues a fill of a device storage.
    fn fill(&self, storage: &Storage, value: u8, stream: Stream) {
        let mut guard = storage.write().unwrap();
        let place = Place { address: guard.as_mut_ptr(), device: storage.device() };
        // SAFETY: the storage has as many bytes; the tests keep it, or record the stream.
        unsafe { self.hooks.fill(place, value, guard.nbytes(), stream) }.unwrap();
    }

    fn fault(&self, call: &str) {
        self.sim.set_faults(FaultRule::new(call, c10_cuda::driver::sim::FaultWhen::Every(1), STRANGE).into());
    }

    fn heal(&self) {
        self.sim.set_faults(FaultPlan::new());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(self.sim.take_faults(), []);
        }
    }
}

const STRANGE: Status = Status::Other(999);
const CUDA_0: Device = Device::cuda(0);

fn of(bytes: &[u8]) -> Storage {
    let storage = Storage::new(bytes.len(), Arc::new(CpuAllocator)).unwrap();
    storage.write().unwrap().bytes_mut().unwrap().copy_from_slice(bytes);
    storage
}

fn bytes(storage: &Storage) -> Vec<u8> {
    let host =
        if storage.device().is_cpu() { storage.clone() } else { storage.to_device(Device::CPU).unwrap() };
    host.read().unwrap().bytes().unwrap().to_vec()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.map_err(|error: Error| error.kind()).err()
}

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
        .rule(FaultRule::new("event_record", c10_cuda::driver::sim::FaultWhen::Every(1), STRANGE))
        .rule(FaultRule::new("stream_synchronize", c10_cuda::driver::sim::FaultWhen::Every(1), STRANGE));
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
fn foreign_memory_is_left_alone() {
    let m = machine(Completion::Manual);
    let side = m.stream(0);
    let host = DataPtrs::host();
    m.hooks.record_stream(&host, side).unwrap();
    m.hooks.record_stream(&c10_core::DataPtr::null(CUDA_0), side).unwrap();
    let (_, foreign) = instance(Completion::Manual);
    m.hooks.record_stream(&foreign.allocate(10).unwrap(), side).unwrap();
    assert_eq!(
        kind(m.hooks.record_stream(&host, Stream::new(DeviceType::Xpu, 0, StreamId(0)))),
        Some(ErrorKind::InvalidArgument)
    );
}

/// Memory that is not a device's.
enum DataPtrs {}

impl DataPtrs {
    fn host() -> c10_core::DataPtr {
        c10_core::DataPtr::from_boxed_slice([1, 2].into())
    }
}

#[test]
fn memory_of_another_allocator_on_the_same_driver_is_held_too() {
    let m = machine(Completion::Manual);
    let second = CachingAllocator::new(m.sim.clone(), Config::default()).unwrap();
    let block = second.allocate(1000).unwrap();
    let address = block.as_ptr();
    let side = m.stream(0);
    m.hooks.record_stream(&block, side).unwrap();
    let place = Place { address, device: CUDA_0 };
    // SAFETY: the block has as many bytes, and the stream is recorded.
    unsafe { m.hooks.fill(place, 3, 1000, side) }.unwrap();
    drop(block);
    assert_ne!(second.allocate(1000).unwrap().as_ptr(), address);
    m.sim.complete_all();
    assert_eq!(second.allocate(1000).unwrap().as_ptr(), address);
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
    let address = c10_cuda::driver::DevicePtr(storage.data_ptr().addr() as u64);
    crate::support::fill(&*sim, address, 6, 1000, StreamHandle::default_of(0)).unwrap();
    storage.resize(100_000).unwrap();
    let moved = c10_cuda::driver::DevicePtr(storage.data_ptr().addr() as u64);
    assert_eq!(crate::support::read(&*sim, moved, 1000, StreamHandle::default_of(0)), vec![6; 1000]);
    let clone = storage.lazy_clone().unwrap();
    drop(clone.write().unwrap());
    assert_eq!(m.sim.call_count("copy"), 0);
    assert_eq!(sim.take_faults(), []);
}

#[test]
fn hooks_trust_no_plain_value() {
    let m = machine(Completion::Manual);
    let event = m.hooks.create_event(1, EventFlags::default()).unwrap();
    let bad_streams = [
        Stream::new(DeviceType::Cuda, 2, StreamId(0)),
        Stream::new(DeviceType::Xpu, 0, StreamId(0)),
        Stream::new(DeviceType::Cuda, 0, StreamId(3)),
        Stream::new(DeviceType::Cuda, 0, StreamId(0xdead_0000)),
        Stream::new(DeviceType::Cuda, 0, StreamId(i64::MIN)),
        Stream::new(DeviceType::Cuda, 0, StreamId(-1)),
    ];
    let block = m.allocator.allocate(8).unwrap();
    let place = Place { address: block.as_ptr(), device: CUDA_0 };
    for stream in bad_streams {
        for result in [
            m.hooks.set_current_stream(stream),
            m.hooks.exchange_stream(stream).map(drop),
            m.hooks.query_stream(stream).map(drop),
            m.hooks.synchronize_stream(stream),
            m.hooks.record_event(event, stream),
            m.hooks.work_of_stream(stream).map(drop),
            // SAFETY: the block has as many bytes.
            unsafe { m.hooks.fill(place, 0, 8, stream) },
        ] {
            assert_eq!(kind(result), Some(ErrorKind::InvalidArgument), "{stream}");
        }
        assert_eq!(m.hooks.current_stream(0).unwrap(), m.hooks.default_stream(0));
    }
    for index in [2, 255] {
        for result in [
            m.hooks.set_device(index),
            m.hooks.exchange_device(index).map(drop),
            m.hooks.synchronize_device(index),
            m.hooks.current_stream(index).map(drop),
            m.hooks.stream_from_pool(index, 0).map(drop),
            m.hooks.create_event(index, EventFlags::default()).map(drop),
        ] {
            assert_eq!(kind(result), Some(ErrorKind::InvalidArgument));
        }
    }
    assert_eq!(kind(m.hooks.stream_from_pool(0, 1)), Some(ErrorKind::InvalidArgument));
    let host = Place { address: block.as_ptr(), device: Device::CPU };
    let beyond = Place { address: block.as_ptr(), device: Device::cuda(2) };
    let stream = m.hooks.default_stream(0);
    for (dst, src) in
        [(host, host), (place, beyond), (beyond, place), (place, Place { device: Device::META, ..host })]
    {
        // SAFETY: all of them are refused.
        let result = unsafe { m.hooks.copy(dst, src, 8, stream) };
        assert_eq!(kind(result), Some(ErrorKind::InvalidArgument));
    }
    // SAFETY: it is refused.
    assert_eq!(kind(unsafe { m.hooks.fill(host, 0, 8, stream) }), Some(ErrorKind::InvalidArgument));
    assert_eq!(m.sim.pending(), 0);
}

#[test]
fn events_are_known_by_number_and_device() {
    let m = machine(Completion::Manual);
    let flags = EventFlags { timing: true, ..EventFlags::default() };
    let event = m.hooks.create_event(1, flags).unwrap();
    assert_eq!((event.device(), event.flags()), (Device::cuda(1), flags));
    assert!(m.hooks.query_event(event).unwrap(), "never recorded");
    m.hooks.synchronize_event(event).unwrap();
    m.hooks.wait_event(event, m.hooks.default_stream(0)).unwrap();
    let elsewhere = m.hooks.record_event(event, m.hooks.default_stream(0));
    assert_eq!(kind(elsewhere), Some(ErrorKind::InvalidArgument));
    m.hooks.record_event(event, m.hooks.default_stream(1)).unwrap();
    assert!(!m.hooks.query_event(event).unwrap());
    assert_eq!(kind(m.hooks.elapsed_ms(event, event)), Some(ErrorKind::Busy));
    m.hooks.wait_event(event, m.hooks.default_stream(0)).unwrap();
    m.hooks.synchronize_event(event).unwrap();
    assert_eq!(m.hooks.elapsed_ms(event, event).unwrap(), 0.0);
    m.hooks.destroy_event(event).unwrap();
    let next = m.hooks.create_event(1, flags).unwrap();
    for stale in [
        event,
        Event::new(DeviceType::Cuda, 0, next.id(), flags),
        Event::new(DeviceType::Xpu, 1, next.id(), flags),
        Event::new(DeviceType::Cuda, 1, EventId(u64::MAX), flags),
    ] {
        for result in [
            m.hooks.query_event(stale).map(drop),
            m.hooks.synchronize_event(stale),
            m.hooks.wait_event(stale, m.hooks.default_stream(1)),
            m.hooks.record_event(stale, m.hooks.default_stream(1)),
            m.hooks.elapsed_ms(stale, next).map(drop),
            m.hooks.destroy_event(stale),
        ] {
            assert_eq!(kind(result), Some(ErrorKind::InvalidArgument), "{stale}");
        }
    }
    m.hooks.destroy_event(next).unwrap();
}

#[test]
fn an_event_that_is_ended_while_others_wait_lives_until_they_are_done() {
    let m = machine(Completion::Seeded(3));
    let hooks = m.hooks;
    for _ in 0..200 {
        let event = hooks.create_event(0, EventFlags::default()).unwrap();
        hooks.record_event(event, hooks.default_stream(0)).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| match hooks.synchronize_event(event) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
                });
            }
            hooks.destroy_event(event).unwrap();
        });
    }
    let created = m.sim.call_count("event_create");
    assert_eq!(m.sim.call_count("event_destroy"), created);
}

#[test]
fn a_fault_in_any_call_is_an_error_and_changes_nothing() {
    let m = machine(Completion::Manual);
    let stream = m.stream(0);
    let block = m.allocator.allocate(8).unwrap();
    let place = Place { address: block.as_ptr(), device: CUDA_0 };
    let mut host = [0_u8; 8];
    let on_host = Place { address: host.as_mut_ptr(), device: Device::CPU };
    let timing = EventFlags { timing: true, ..EventFlags::default() };
    let (fresh, recorded) =
        (m.hooks.create_event(0, timing).unwrap(), m.hooks.create_event(0, timing).unwrap());
    m.hooks.record_event(recorded, stream).unwrap();
    let pending = m.sim.pending();
    let calls: [(&str, &dyn Fn() -> Result<()>); 14] = [
        ("device_synchronize", &|| m.hooks.synchronize_device(0)),
        // SAFETY: both have eight bytes, for as long as the test runs.
        ("copy", &|| unsafe { m.hooks.copy(on_host, place, 8, stream) }),
        // SAFETY: the block has eight bytes.
        ("fill", &|| unsafe { m.hooks.fill(place, 1, 8, stream) }),
        ("stream_priority_range", &|| m.hooks.stream_from_pool(1, 0).map(drop)),
        ("stream_create", &|| m.hooks.stream_from_pool(1, 0).map(drop)),
        ("stream_query", &|| m.hooks.query_stream(stream).map(drop)),
        ("stream_synchronize", &|| m.hooks.synchronize_stream(stream)),
        ("event_create", &|| m.hooks.record_event(fresh, stream)),
        ("event_record", &|| m.hooks.record_event(fresh, stream)),
        ("event_record", &|| m.hooks.work_of_stream(stream).map(drop)),
        ("stream_wait_event", &|| m.hooks.wait_event(recorded, stream)),
        ("event_query", &|| m.hooks.query_event(recorded).map(drop)),
        ("event_synchronize", &|| m.hooks.synchronize_event(recorded)),
        ("event_destroy", &|| m.hooks.destroy_event(recorded)),
    ];
    for (call, run) in calls {
        m.fault(call);
        assert_eq!(kind(run()), Some(ErrorKind::Driver), "{call}");
        m.heal();
        assert_eq!(m.sim.pending(), pending, "{call}");
    }
    assert!(m.hooks.query_event(fresh).unwrap(), "still not recorded");
    assert!(!m.hooks.query_event(recorded).unwrap(), "still there");
    m.sim.complete_all();
    m.fault("event_elapsed_ms");
    assert_eq!(kind(m.hooks.elapsed_ms(recorded, recorded)), Some(ErrorKind::Driver));
    m.heal();
    for (call, run) in calls {
        run().unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    m.hooks.synchronize_device(0).unwrap();
}

#[test]
fn a_runtimes_streams_live_as_long_as_blocks_that_they_use() {
    let (sim, allocator) = instance(Completion::Manual);
    let side = allocator.runtime().stream_from_pool(0, 0).unwrap();
    let block = allocator.allocate(1000).unwrap();
    allocator.record_stream(&block, side).unwrap();
    drop(allocator);
    drop(block);
    sim.complete_all();
    let info = sim.memory_info(0).unwrap();
    assert_eq!(info.free, info.total);
}

#[test]
fn hooks_without_a_registration_serve_by_themselves() {
    let (sim, allocator) = instance(Completion::Manual);
    let cuda = CudaHooks::new(allocator);
    assert!(!hooks(DeviceType::Cuda).is_some_and(|registered| std::ptr::addr_eq(registered, &*cuda)));
    assert_eq!((cuda.device_type(), cuda.device_count().unwrap()), (DeviceType::Cuda, 2));
    let stream = cuda.stream_from_pool(1, -1).unwrap();
    assert_eq!(cuda.exchange_stream(stream).unwrap(), cuda.default_stream(1));
    assert_eq!(cuda.exchange_device(1).unwrap(), 0);
    let block = cuda.caching_allocator().allocate(4096).unwrap();
    assert_eq!(block.device(), Device::cuda(1));
    let place = Place { address: block.as_ptr(), device: block.device() };
    let mut host = vec![0_u8; 4096];
    let on_host = Place { address: host.as_mut_ptr(), device: Device::CPU };
    // SAFETY: the block has as many bytes.
    unsafe { cuda.fill(place, 7, 4096, stream) }.unwrap();
    // SAFETY: so has the vector, and nobody looks before the stream is done.
    unsafe { cuda.copy(on_host, place, 4096, stream) }.unwrap();
    assert!(!cuda.query_stream(stream).unwrap());
    let work = cuda.work_of_stream(stream).unwrap();
    assert!(!work.is_done().unwrap());
    work.wait().unwrap();
    assert!(work.is_done().unwrap() && cuda.query_stream(stream).unwrap());
    assert_eq!(host, vec![7; 4096]);
    assert_eq!(sim.take_faults(), []);
}
