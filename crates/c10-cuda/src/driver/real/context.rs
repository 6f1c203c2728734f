#![expect(unsafe_code, reason = "retains contexts, and makes them current for the length of a call")]
//! A device's primary context: retained when the device is first used, made current for a call, and released with
//! the driver. Tools and libraries of the same process share it, which is why streams and memory can be shared too.

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use c10_core::DeviceIndex;

use super::abi::{self, CUcontext, CUdevice, RawResult};
use super::driver::RealDriver;
use super::status::{check, is_sticky};
use super::symbols::Symbols;
use crate::driver::Status;
use crate::sync::{Mutex, lock};

/// A device, and what is known of it.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) ordinal: CUdevice,
    /// The primary context, as a number, once it is retained.
    context: OnceLock<u64>,
    retaining: Mutex<()>,
    /// The error that the device answers everything with, once there is one.
    lost: OnceLock<Status>,
    pub(super) granularity: OnceLock<u64>,
    pub(super) priorities: OnceLock<(c_int, c_int)>,
    pub(super) exports_by_descriptor: OnceLock<bool>,
}

impl Device {
    pub(super) const fn new(ordinal: CUdevice) -> Self {
        Self {
            ordinal,
            context: OnceLock::new(),
            retaining: Mutex::new(()),
            lost: OnceLock::new(),
            granularity: OnceLock::new(),
            priorities: OnceLock::new(),
            exports_by_descriptor: OnceLock::new(),
        }
    }

    /// Whether its context is retained.
    pub(super) fn is_in_use(&self) -> bool {
        self.context.get().is_some()
    }

    /// The context, retained when first asked for.
    pub(super) fn context(&self, symbols: &Symbols) -> Result<CUcontext, Status> {
        if let Some(&context) = self.context.get() {
            return Ok(abi::pointer(context));
        }
        let _one_at_a_time = lock(&self.retaining);
        if let Some(&context) = self.context.get() {
            return Ok(abi::pointer(context));
        }
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the ordinal is one that the driver gave, and there is room for one context.
        check(unsafe { (symbols.device_primary_ctx_retain)(&mut context, self.ordinal) })?;
        Ok(abi::pointer(*self.context.get_or_init(|| abi::number(context))))
    }

    /// Gives the context back, if it was retained.
    pub(super) fn release(&mut self, symbols: &Symbols) {
        if self.context.take().is_some() {
            // SAFETY: it was retained, once, and nothing uses it any more: the driver's value is being dropped.
            // There is nobody left to tell of a failure; a process that ends has none.
            let _ = unsafe { (symbols.device_primary_ctx_release)(self.ordinal) };
        }
    }
}

/// A failure for which there was nobody to tell, until the next call.
#[derive(Debug, Default)]
pub(super) struct Pending(AtomicU32);

impl Pending {
    fn keep(&self, result: RawResult) {
        self.0.store(result, Ordering::Relaxed);
    }

    fn take(&self) -> Result<(), Status> {
        if self.0.load(Ordering::Relaxed) == 0 { Ok(()) } else { check(self.0.swap(0, Ordering::Relaxed)) }
    }
}

impl RealDriver {
    /// The device of that index.
    pub(super) fn device(&self, index: DeviceIndex) -> Result<&Device, Status> {
        self.devices.get(usize::from(index)).ok_or(Status::InvalidDevice)
    }

    /// Makes a call with the device's context current, and leaves the thread as it was.
    pub(super) fn on<R>(
        &self,
        index: DeviceIndex,
        call: impl FnOnce(&Symbols, &Device) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let device = self.device(index)?;
        if let Some(lost) = device.lost.get() {
            return Err(*lost);
        }
        self.pending.take()?;
        let done = self.in_context(device, call);
        if let Err(status) = &done
            && is_sticky(*status)
        {
            let _ = device.lost.set(*status);
        }
        done
    }

    fn in_context<R>(
        &self,
        device: &Device,
        call: impl FnOnce(&Symbols, &Device) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let symbols = &self.library.symbols;
        let context = device.context(symbols)?;
        let mut current: CUcontext = ptr::null_mut();
        // SAFETY: there is room for one context.
        check(unsafe { (symbols.ctx_get_current)(&mut current) })?;
        if current == context {
            return call(symbols, device);
        }
        // SAFETY: the context is retained until the driver's value is dropped.
        check(unsafe { (symbols.ctx_push_current)(context) })?;
        let done = call(symbols, device);
        // SAFETY: there is room for one context.
        let popped = unsafe { (symbols.ctx_pop_current)(&mut current) };
        if popped != 0 && done.is_ok() {
            self.pending.keep(popped);
        }
        done
    }
}
