#![expect(unsafe_code, reason = "keeps the contract of device hooks, and reaches host memory in copies")]
//! What upper layers ask of the toy. It has two devices, each with one stream, on which work is done as soon as it
//! is enqueued: so every stream is idle, and every event is reached once it is recorded.

use std::cell::Cell;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use c10_core::allocator::Allocator;
use c10_core::hooks::{DeviceHooks, Place};
use c10_core::{
    DataPtr, DeviceIndex, DeviceType, Error, Event, EventFlags, EventId, Result, Stream, StreamId,
};

use crate::memory::{self, ToyMemory};
use crate::{TYPE, device};

const DEVICES: DeviceIndex = 2;

thread_local! {
    static CURRENT: Cell<DeviceIndex> = const { Cell::new(0) };
}

static NEXT_EVENT: AtomicU64 = AtomicU64::new(1);

/// The calling thread's current device.
pub(crate) fn current_device() -> DeviceIndex {
    CURRENT.get()
}

fn check_index(index: DeviceIndex) -> Result<()> {
    if index < DEVICES {
        Ok(())
    } else {
        Err(Error::invalid_argument(format!("there is no {}", device(index))))
    }
}

fn check_stream(stream: Stream) -> Result<()> {
    check_index(stream.device_index())?;
    if stream.device_type() == TYPE && stream.id() == StreamId(0) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("there is no {stream}")))
}

fn check_event(event: Event) -> Result<()> {
    let known = event.device().device_type() == TYPE && event.id().0 < NEXT_EVENT.load(Ordering::Relaxed);
    if known { Ok(()) } else { Err(Error::invalid_argument(format!("there is no {event}"))) }
}

/// The hooks.
#[derive(Debug)]
pub(crate) struct Toy;

// SAFETY: work is done when the call that enqueues it returns, so whatever waits for it may return at once.
unsafe impl DeviceHooks for Toy {
    fn device_type(&self) -> DeviceType {
        TYPE
    }

    fn device_count(&self) -> Result<DeviceIndex> {
        Ok(DEVICES)
    }

    fn current_device(&self) -> Result<DeviceIndex> {
        Ok(current_device())
    }

    fn set_device(&self, index: DeviceIndex) -> Result<()> {
        check_index(index)?;
        CURRENT.set(index);
        Ok(())
    }

    fn synchronize_device(&self, index: DeviceIndex) -> Result<()> {
        check_index(index)
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        Arc::new(ToyMemory)
    }

    unsafe fn copy(&self, dst: Place, src: Place, bytes: usize, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        if src.device.is_cpu() {
            // SAFETY: the caller promises that many readable bytes of the host.
            let host = unsafe { slice::from_raw_parts(src.address, bytes) };
            return memory::write(dst.address.addr(), host);
        }
        let data = memory::read(src.address.addr(), bytes)?;
        if dst.device.is_cpu() {
            // SAFETY: the caller promises that many writable bytes of the host, which nobody else uses meanwhile.
            unsafe { slice::from_raw_parts_mut(dst.address, bytes) }.copy_from_slice(&data);
            return Ok(());
        }
        memory::write(dst.address.addr(), &data)
    }

    unsafe fn fill(&self, dst: Place, value: u8, bytes: usize, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        memory::write(dst.address.addr(), &vec![value; bytes])
    }

    fn current_stream(&self, index: DeviceIndex) -> Result<Stream> {
        check_index(index)?;
        Ok(self.default_stream(index))
    }

    fn set_current_stream(&self, stream: Stream) -> Result<()> {
        check_stream(stream)
    }

    fn stream_from_pool(&self, index: DeviceIndex, _priority: i32) -> Result<Stream> {
        check_index(index)?;
        Ok(self.default_stream(index))
    }

    fn query_stream(&self, stream: Stream) -> Result<bool> {
        check_stream(stream).map(|()| true)
    }

    fn synchronize_stream(&self, stream: Stream) -> Result<()> {
        check_stream(stream)
    }

    fn create_event(&self, index: DeviceIndex, flags: EventFlags) -> Result<Event> {
        check_index(index)?;
        Ok(Event::new(TYPE, index, EventId(NEXT_EVENT.fetch_add(1, Ordering::Relaxed)), flags))
    }

    fn destroy_event(&self, event: Event) -> Result<()> {
        check_event(event)
    }

    fn record_event(&self, event: Event, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        check_event(event)?;
        if event.device() != stream.device() {
            return Err(Error::invalid_argument(format!("{event} and {stream} are of different devices")));
        }
        Ok(())
    }

    fn wait_event(&self, event: Event, stream: Stream) -> Result<()> {
        check_stream(stream)?;
        check_event(event)
    }

    fn query_event(&self, event: Event) -> Result<bool> {
        check_event(event).map(|()| true)
    }

    fn synchronize_event(&self, event: Event) -> Result<()> {
        check_event(event)
    }

    fn record_stream(&self, _ptr: &DataPtr, stream: Stream) -> Result<()> {
        check_stream(stream)
    }
}
