#![expect(unsafe_code, reason = "calls the driver with streams that the book has")]
//! Streams: those made here, those that somebody else made and lends, and the default ones.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use c10_core::DeviceIndex;

use super::abi::{self, CUstream, RawResult};
use super::books::same;
use super::driver::RealDriver;
use super::status::{NOT_READY, check};
use super::symbols::Symbols;
use crate::driver::{EventHandle, Status, StreamHandle};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = cudarc::driver::sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

/// A stream in the book.
#[derive(Debug)]
pub(super) struct Stream {
    device: DeviceIndex,
    /// How often it was lent and not taken back; `None` for one that was made here.
    lent: Option<AtomicU32>,
}

impl StreamHandle {
    /// Whether the driver has it without anybody making it: the default stream of the device, or of the thread.
    const fn is_default(self) -> bool {
        self.raw == 0 || self.raw == Self::per_thread_default(0).raw
    }
}

impl RealDriver {
    /// Calls `call` with a live stream, in the context of its device.
    pub(super) fn on_stream<R>(
        &self,
        stream: StreamHandle,
        call: impl FnOnce(&Symbols, CUstream) -> Result<R, Status>,
    ) -> Result<R, Status> {
        self.device(stream.device).map_err(|_| Status::InvalidHandle)?;
        if stream.is_default() {
            return self.on(stream.device, |symbols, _| call(symbols, abi::pointer(stream.raw)));
        }
        self.streams.with(stream.raw, |known| {
            same(known.device, stream.device)?;
            self.on(stream.device, |symbols, _| call(symbols, abi::pointer(stream.raw)))
        })
    }

    /// The same while no other call uses the stream.
    pub(super) fn alone_on_stream<R>(
        &self,
        stream: StreamHandle,
        call: impl FnOnce(&Symbols, CUstream) -> Result<R, Status>,
    ) -> Result<R, Status> {
        if stream.is_default() {
            return self.on_stream(stream, call);
        }
        self.streams.alone(stream.raw, |known| {
            same(known.device, stream.device)?;
            self.on(stream.device, |symbols, _| call(symbols, abi::pointer(stream.raw)))
        })
    }

    pub(super) fn priority_range(&self, device: DeviceIndex) -> Result<(c_int, c_int), Status> {
        if let Some(&known) = self.device(device)?.priorities.get() {
            return Ok(known);
        }
        self.on(device, |symbols, known| {
            let (mut least, mut greatest) = (0, 0);
            // SAFETY: there is room for both numbers.
            check(unsafe { (symbols.ctx_get_stream_priority_range)(&mut least, &mut greatest) })?;
            Ok(*known.priorities.get_or_init(|| (least, greatest)))
        })
    }

    pub(super) fn create_stream(&self, device: DeviceIndex, priority: i32) -> Result<StreamHandle, Status> {
        let (least, greatest) = self.priority_range(device)?;
        if !(greatest..=least).contains(&priority) {
            return Err(Status::InvalidValue);
        }
        let raw = self.on(device, |symbols, _| {
            let mut stream: CUstream = ptr::null_mut();
            // SAFETY: there is room for one stream.
            check(unsafe { (symbols.stream_create_with_priority)(&mut stream, NON_BLOCKING, priority) })?;
            Ok(abi::number(stream))
        })?;
        self.streams.insert(raw, Stream { device, lent: None });
        Ok(StreamHandle { device, raw })
    }

    pub(super) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), Status> {
        self.device(stream.device).map_err(|_| Status::InvalidHandle)?;
        self.streams.end(stream.raw, |known| {
            same(known.device, stream.device)?;
            if known.lent.is_some() {
                return Err(Status::InvalidHandle);
            }
            self.on(stream.device, |symbols, _| {
                let raw: CUstream = abi::pointer(stream.raw);
                // CUDA would end it, and leave the capture without the stream that ends that.
                if self.part_in_capture(symbols, raw)?.is_some() {
                    return Err(Status::IllegalState);
                }
                // SAFETY: the stream was made here, it is live, and no call uses it.
                check(unsafe { (symbols.stream_destroy)(raw) })
            })
        })
    }

    /// # Safety
    /// As [`Driver::stream_adopt`](crate::driver::Driver::stream_adopt).
    pub(super) unsafe fn adopt_stream(&self, stream: StreamHandle) -> Result<(), Status> {
        self.device(stream.device)?;
        if stream.is_default() {
            return Ok(());
        }
        loop {
            let new = || Stream { device: stream.device, lent: Some(AtomicU32::new(0)) };
            let entry = self.streams.get_or_insert_with(stream.raw, new);
            same(entry.what.device, stream.device)?;
            let counted = entry.with(|known| {
                if let Some(lent) = &known.lent {
                    lent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            // It was taken back in between, and leaves the book.
            if counted.is_ok() {
                return counted;
            }
        }
    }

    pub(super) fn disown_stream(&self, stream: StreamHandle) -> Result<(), Status> {
        self.device(stream.device).map_err(|_| Status::InvalidHandle)?;
        if stream.is_default() {
            return Ok(());
        }
        // Whoever lent it will end it now: no call is using it when this returns.
        let mut stays = false;
        let ended = self.streams.end(stream.raw, |known| {
            same(known.device, stream.device)?;
            stays = known.lent.as_ref().is_none_or(|lent| lent.fetch_sub(1, Ordering::Relaxed) > 1);
            if stays { Err(Status::IllegalState) } else { Ok(()) }
        });
        if stays { Ok(()) } else { ended }
    }

    pub(super) fn query_stream(&self, stream: StreamHandle) -> Result<bool, Status> {
        self.on_stream(stream, |symbols, stream| {
            // SAFETY: the stream is live.
            ready(unsafe { (symbols.stream_query)(stream) })
        })
    }

    pub(super) fn synchronize_stream(&self, stream: StreamHandle) -> Result<(), Status> {
        self.on_stream(stream, |symbols, stream| {
            // SAFETY: the stream is live.
            check(unsafe { (symbols.stream_synchronize)(stream) })
        })
    }

    pub(super) fn wait_on_stream(&self, stream: StreamHandle, event: EventHandle) -> Result<(), Status> {
        self.with_event(event, |event| {
            self.on_stream(stream, |symbols, stream| {
                // SAFETY: both are live.
                check(unsafe { (symbols.stream_wait_event)(stream, event, 0) })
            })
        })
    }

    pub(super) fn priority_of(&self, stream: StreamHandle) -> Result<i32, Status> {
        self.on_stream(stream, |symbols, stream| {
            let mut priority = 0;
            // SAFETY: there is room for one number, and the stream is live.
            check(unsafe { (symbols.stream_get_priority)(stream, &mut priority) })?;
            Ok(priority)
        })
    }
}

/// What a query says: complete, not yet, or a failure.
pub(super) fn ready(result: RawResult) -> Result<bool, Status> {
    if result == NOT_READY { Ok(false) } else { check(result).map(|()| true) }
}
