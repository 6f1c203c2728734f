#![expect(unsafe_code, reason = "calls the raw copies and fills of hooks, on memory that it holds")]
//! The CUDA hooks, on the simulated device.

use std::thread;

use c10_core::hooks::{DeviceHooks, Place, hooks};
use c10_core::{
    DataPtr, Device, DeviceType, ErrorKind, Event, EventFlags, EventId, Result, Stream, StreamId,
};
use c10_cuda::driver::Driver;
use c10_cuda::driver::sim::Completion;
use c10_cuda::{CachingAllocator, Config, CudaHooks};

use crate::machine::{CUDA_0, instance, kind, machine};

#[test]
fn foreign_memory_is_left_alone() {
    let m = machine(Completion::Manual);
    let side = m.stream(0);
    let host = DataPtr::from_boxed_slice([1, 2].into());
    m.hooks.record_stream(&host, side).unwrap();
    m.hooks.record_stream(&DataPtr::null(CUDA_0), side).unwrap();
    let (_, foreign) = instance(Completion::Manual);
    m.hooks.record_stream(&foreign.allocate(10).unwrap(), side).unwrap();
    assert_eq!(
        kind(m.hooks.record_stream(&host, Stream::new(DeviceType::Xpu, 0, StreamId(0)))),
        Some(ErrorKind::InvalidArgument)
    );
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
