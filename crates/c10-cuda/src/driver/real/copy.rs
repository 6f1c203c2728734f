#![expect(unsafe_code, reason = "issues copies and fills")]
//! Copies and fills, in stream order.
//!
//! A copy between devices is a peer copy, which is right whether or not the devices reach each other, and for memory
//! of every origin; a plain one is not for what pools and mappings give. The books tell which device an address is on;
//! memory that is in none of them (another library's) is copied as on one device, and CUDA finds out where it is.

use std::ffi::c_void;

use super::abi::CUstream;
use super::driver::RealDriver;
use super::status::check;
use super::symbols::Symbols;
use crate::driver::{CopyEnd, DevicePtr, Status, StreamHandle};
use crate::sync::lock;

impl RealDriver {
    /// # Safety
    /// As [`Driver::copy`](crate::driver::Driver::copy).
    pub(super) unsafe fn copy_on(
        &self,
        dst: CopyEnd,
        src: CopyEnd,
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), Status> {
        self.on_stream(stream, |symbols, stream| {
            let length = usize::try_from(bytes).map_err(|_| Status::InvalidValue)?;
            let is_null = |end| match end {
                CopyEnd::Device(ptr) => ptr.is_null(),
                CopyEnd::Host(ptr) => ptr.is_null(),
            };
            if length == 0 {
                return Ok(());
            }
            if is_null(dst) || is_null(src) {
                return Err(Status::InvalidValue);
            }
            match (dst, src) {
                (CopyEnd::Device(dst), CopyEnd::Host(src)) => {
                    // SAFETY: the stream is live, and the caller keeps both ends valid.
                    check(unsafe { (symbols.memcpy_htod_async)(dst.0, src.cast::<c_void>(), length, stream) })
                }
                (CopyEnd::Host(dst), CopyEnd::Device(src)) => {
                    // SAFETY: the stream is live, and the caller keeps both ends valid.
                    check(unsafe { (symbols.memcpy_dtoh_async)(dst.cast::<c_void>(), src.0, length, stream) })
                }
                (CopyEnd::Host(dst), CopyEnd::Host(src)) => {
                    let [dst, src] = [dst, src].map(|ptr| ptr.expose_provenance() as u64);
                    // SAFETY: the stream is live, and the caller keeps both ends valid; addresses of the host stand
                    // for themselves here.
                    check(unsafe { (symbols.memcpy_async)(dst, src, length, stream) })
                }
                // SAFETY: the stream is live, and the caller keeps both ends valid.
                (CopyEnd::Device(dst), CopyEnd::Device(src)) => unsafe {
                    self.copy_devices(symbols, dst, src, length, stream)
                },
            }
        })
    }

    /// # Safety
    /// The stream is live; the ends are as for [`copy_on`](Self::copy_on).
    unsafe fn copy_devices(
        &self,
        symbols: &Symbols,
        dst: DevicePtr,
        src: DevicePtr,
        length: usize,
        stream: CUstream,
    ) -> Result<(), Status> {
        if let Some((to, from)) = self.across(dst, src) {
            let to = self.device(to)?.context(symbols)?;
            let from = self.device(from)?.context(symbols)?;
            // SAFETY: as this function's own caller promises; the contexts are those of the two devices.
            return check(unsafe { (symbols.memcpy_peer_async)(dst.0, to, src.0, from, length, stream) });
        }
        // SAFETY: as this function's own caller promises.
        check(unsafe { (symbols.memcpy_dtod_async)(dst.0, src.0, length, stream) })
    }

    /// The two devices of a copy, where they are known and differ.
    fn across(&self, dst: DevicePtr, src: DevicePtr) -> Option<(u8, u8)> {
        if self.devices.len() < 2 {
            return None;
        }
        let known = |ptr| {
            let allocated = lock(&self.memory).device_of(ptr);
            allocated.or_else(|| lock(&self.virtual_memory).device_of(ptr))
        };
        let (to, from) = (known(dst)?, known(src)?);
        (to != from).then_some((to, from))
    }

    /// # Safety
    /// As [`Driver::fill`](crate::driver::Driver::fill).
    pub(super) unsafe fn fill_on(
        &self,
        dst: DevicePtr,
        value: u8,
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), Status> {
        self.on_stream(stream, |symbols, stream| {
            let length = usize::try_from(bytes).map_err(|_| Status::InvalidValue)?;
            if length == 0 {
                return Ok(());
            }
            if dst.is_null() {
                return Err(Status::InvalidValue);
            }
            // SAFETY: the stream is live, and the caller keeps the destination valid.
            check(unsafe { (symbols.memset_d8_async)(dst.0, value, length, stream) })
        })
    }
}
