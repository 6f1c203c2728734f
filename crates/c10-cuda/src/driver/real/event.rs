#![expect(unsafe_code, reason = "calls the driver with events that the book has")]
//! Events.

use std::ptr;

use c10_core::DeviceIndex;
use cudarc::driver::sys::CUevent_flags as Flags;

use super::abi::{self, CUevent};
use super::books::same;
use super::driver::RealDriver;
use super::status::check;
use super::stream::ready;
use crate::driver::{EventFlags, EventHandle, Status, StreamHandle};

/// `CU_EVENT_RECORD_EXTERNAL`.
const EXTERNAL: u32 = cudarc::driver::sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;

/// An event in the book.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) device: DeviceIndex,
    /// Whether other processes can have it: it was made here, for that.
    pub(super) exportable: bool,
}

impl RealDriver {
    /// Calls `call` with a live event. It makes no context current.
    pub(super) fn with_event<R>(
        &self,
        event: EventHandle,
        call: impl FnOnce(CUevent) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.events.with(event.raw, |known| {
            same(known.device, event.device)?;
            call(abi::pointer(event.raw))
        })
    }

    pub(super) fn create_event(&self, device: DeviceIndex, flags: EventFlags) -> Result<EventHandle, Status> {
        self.device(device)?;
        if flags.interprocess && flags.timing {
            return Err(Status::InvalidValue);
        }
        let bit = |set, flag: Flags| if set { flag as u32 } else { 0 };
        let bits = bit(!flags.timing, Flags::CU_EVENT_DISABLE_TIMING)
            | bit(flags.blocking_sync, Flags::CU_EVENT_BLOCKING_SYNC)
            | bit(flags.interprocess, Flags::CU_EVENT_INTERPROCESS);
        let raw = self.on(device, |symbols, _| {
            let mut event: CUevent = ptr::null_mut();
            // SAFETY: there is room for one event.
            check(unsafe { (symbols.event_create)(&mut event, bits) })?;
            Ok(abi::number(event))
        })?;
        self.events.insert(raw, Event { device, exportable: flags.interprocess });
        Ok(EventHandle { device, raw })
    }

    pub(super) fn destroy_event(&self, event: EventHandle) -> Result<(), Status> {
        self.events.end(event.raw, |known| {
            same(known.device, event.device)?;
            self.on(event.device, |symbols, _| {
                // SAFETY: the event is live, and no call uses it.
                check(unsafe { (symbols.event_destroy)(abi::pointer(event.raw)) })
            })
        })
    }

    pub(super) fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<(), Status> {
        self.with_event(event, |raw| {
            same(event.device, stream.device)?;
            self.on_stream(stream, |symbols, stream| {
                // SAFETY: both are live, and of one device.
                check(unsafe { (symbols.event_record)(raw, stream) })
            })
        })
    }

    pub(super) fn record_event_external(
        &self,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), Status> {
        self.with_event(event, |raw| {
            same(event.device, stream.device)?;
            self.on_stream(stream, |symbols, stream| {
                // The flag is for captures; CUDA refuses it elsewhere.
                let captures = self.part_in_capture(symbols, stream)?.is_some();
                let flags = if captures { EXTERNAL } else { 0 };
                // SAFETY: both are live, and of one device.
                check(unsafe { (symbols.event_record_with_flags)(raw, stream, flags) })
            })
        })
    }

    pub(super) fn query_event(&self, event: EventHandle) -> Result<bool, Status> {
        self.with_event(event, |raw| {
            // SAFETY: the event is live.
            self.on(event.device, |symbols, _| ready(unsafe { (symbols.event_query)(raw) }))
        })
    }

    pub(super) fn synchronize_event(&self, event: EventHandle) -> Result<(), Status> {
        self.with_event(event, |raw| {
            // SAFETY: the event is live.
            self.on(event.device, |symbols, _| check(unsafe { (symbols.event_synchronize)(raw) }))
        })
    }

    pub(super) fn elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f32, Status> {
        if start.device != end.device {
            return Err(Status::InvalidHandle);
        }
        let elapsed = || {
            self.on(start.device, |symbols, _| {
                let (from, to) = (abi::pointer(start.raw), abi::pointer(end.raw));
                let mut ms = 0.0;
                // SAFETY: there is room for one number, and both events are live.
                check(unsafe { (symbols.event_elapsed_time)(&mut ms, from, to) })?;
                Ok(ms)
            })
        };
        // A handle is not used twice at once by one thread, and two are used in one order: with threads between that
        // end them, uses would wait for each other.
        let (first, second) = (start.raw.min(end.raw), start.raw.max(end.raw));
        let of_device = |raw| EventHandle { raw, device: start.device };
        self.with_event(of_device(first), |_| match first == second {
            true => elapsed(),
            false => self.with_event(of_device(second), |_| elapsed()),
        })
    }
}
