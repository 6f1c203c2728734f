#![expect(unsafe_code, reason = "calls the raw copies of hooks")]
//! Device hooks: the registry, and the contract on the fake device.

use std::sync::Arc;

use c10_core::allocator::Allocator;
use c10_core::hooks::{DeviceHooks, Place, hooks, register_hooks, require_hooks, unregister_hooks};
use c10_core::{
    DataPtr, Device, DeviceIndex, DeviceType, ErrorKind, Event, EventFlags, EventId, Result, Stream, StreamId,
};

use crate::fake_device::{Fake, TYPE, fake};

/// The fake device under another type's name.
#[derive(Debug)]
struct Renamed(DeviceType);

// SAFETY: as `Fake`, to which it passes on what it does not refuse.
unsafe impl DeviceHooks for Renamed {
    fn device_type(&self) -> DeviceType {
        self.0
    }
    fn device_count(&self) -> Result<DeviceIndex> {
        Ok(9)
    }
    fn current_device(&self) -> Result<DeviceIndex> {
        Fake.current_device()
    }
    fn set_device(&self, index: DeviceIndex) -> Result<()> {
        Fake.set_device(index)
    }
    fn synchronize_device(&self, index: DeviceIndex) -> Result<()> {
        Fake.synchronize_device(index)
    }
    fn allocator(&self) -> Arc<dyn Allocator> {
        DeviceHooks::allocator(&Fake)
    }
    unsafe fn copy(&self, dst: Place, src: Place, bytes: usize, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { Fake.copy(dst, src, bytes, stream) }
    }
    unsafe fn fill(&self, dst: Place, value: u8, bytes: usize, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { Fake.fill(dst, value, bytes, stream) }
    }
    fn current_stream(&self, index: DeviceIndex) -> Result<Stream> {
        Fake.current_stream(index)
    }
    fn set_current_stream(&self, stream: Stream) -> Result<()> {
        Fake.set_current_stream(stream)
    }
    fn stream_from_pool(&self, index: DeviceIndex, priority: i32) -> Result<Stream> {
        Fake.stream_from_pool(index, priority)
    }
    fn query_stream(&self, stream: Stream) -> Result<bool> {
        Fake.query_stream(stream)
    }
    fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        Fake.synchronize_stream(stream)
    }
    fn create_event(&self, index: DeviceIndex, flags: EventFlags) -> Result<Event> {
        Fake.create_event(index, flags)
    }
    fn destroy_event(&self, event: Event) -> Result<()> {
        Fake.destroy_event(event)
    }
    fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        Fake.record_event(event, stream)
    }
    fn wait_event(&self, event: Event, stream: Stream) -> Result<()> {
        Fake.wait_event(event, stream)
    }
    fn query_event(&self, event: Event) -> Result<bool> {
        Fake.query_event(event)
    }
    fn synchronize_event(&self, event: Event) -> Result<()> {
        Fake.synchronize_event(event)
    }
    fn record_stream(&self, ptr: &DataPtr, stream: Stream) -> Result<()> {
        Fake.record_stream(ptr, stream)
    }
}

#[test]
fn hooks_stay_valid_after_they_are_replaced_or_removed() {
    assert!(hooks(DeviceType::Xpu).is_none());
    assert_eq!(require_hooks(DeviceType::Xpu).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
    assert!(register_hooks(Arc::new(Renamed(DeviceType::Xpu))).unwrap().is_none());
    let first = require_hooks(DeviceType::Xpu).unwrap();
    let replaced = register_hooks(Arc::new(Renamed(DeviceType::Xpu))).unwrap().unwrap();
    assert!(std::ptr::addr_eq(first, replaced));
    let removed = unregister_hooks(DeviceType::Xpu).unwrap();
    assert!(!std::ptr::addr_eq(first, removed));
    assert!(hooks(DeviceType::Xpu).is_none());
    assert!(unregister_hooks(DeviceType::Xpu).is_none());
    // Whoever still has them goes on.
    assert_eq!((first.device_count().unwrap(), removed.device_count().unwrap()), (9, 9));
}

#[test]
fn the_host_and_meta_take_no_hooks() {
    for device_type in [DeviceType::Cpu, DeviceType::Meta] {
        let error = register_hooks(Arc::new(Renamed(device_type))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(hooks(device_type).is_none());
    }
}

#[test]
fn events_are_plain_values_that_hooks_do_not_trust() {
    let hooks = fake();
    let event = hooks.create_event(1, EventFlags { timing: true, ..EventFlags::default() }).unwrap();
    assert_eq!(event.device(), Device::new(TYPE, 1));
    assert!(event.flags().timing && !event.flags().blocking);
    assert!(hooks.query_event(event).unwrap(), "never recorded");
    let elsewhere = hooks.record_event(event, hooks.default_stream(0)).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::InvalidArgument);
    hooks.record_event(event, hooks.default_stream(1)).unwrap();
    hooks.wait_event(event, hooks.default_stream(0)).unwrap();
    hooks.synchronize_event(event).unwrap();
    assert_eq!(hooks.elapsed_ms(event, event).unwrap_err().kind(), ErrorKind::NotImplemented);
    hooks.destroy_event(event).unwrap();
    for stale in [event, Event::new(TYPE, 1, EventId(u64::MAX), EventFlags::default())] {
        assert_eq!(hooks.query_event(stale).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(hooks.destroy_event(stale).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    insta::assert_snapshot!(Event::new(TYPE, 1, EventId(3), EventFlags::default()),
        @"event 3 on device privateuseone:1");
}

#[test]
fn copies_and_fills_go_through_the_hooks() {
    let hooks = fake();
    let stream = hooks.current_stream(0).unwrap();
    let block = hooks.allocator().allocate(8).unwrap();
    let on_device = Place { address: block.as_ptr(), device: block.device() };
    let mut host = [1_u8; 8];
    let on_host = Place { address: host.as_mut_ptr(), device: Device::CPU };
    // SAFETY: the block has eight bytes.
    unsafe { hooks.fill(on_device, 7, 8, stream) }.unwrap();
    // SAFETY: both have eight bytes.
    unsafe { hooks.copy(on_host, on_device, 8, stream) }.unwrap();
    assert_eq!(host, [7; 8]);
}

#[test]
fn exchanging_returns_what_was_current() {
    let hooks = fake();
    assert_eq!(hooks.exchange_device(2).unwrap(), 0);
    assert_eq!(hooks.exchange_device(0).unwrap(), 2);
    let stream = Stream::new(TYPE, 1, StreamId(3));
    assert_eq!(hooks.exchange_stream(stream).unwrap(), hooks.default_stream(1));
    assert_eq!(hooks.exchange_stream(hooks.default_stream(1)).unwrap(), stream);
    assert_eq!(hooks.exchange_device(9).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(hooks.current_device().unwrap(), 0);
}
