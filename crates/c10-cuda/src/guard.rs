//! [`CudaGuard`] and [`CudaStreamGuard`]: guards of what is current for one [`Runtime`] on this thread
//! (`c10::cuda::CUDAGuard`, `CUDAStreamGuard`), and their closure forms, which are preferred since they cannot end
//! out of order.
//!
//! `c10_core::guard` does the same for the runtime behind the process's hooks; these need no registry.
//!
//! A guard restores what it saved when it was made, whatever happened in between, and stays on its thread:
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<c10_cuda::CudaGuard<'static>>();
//! ```
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<c10_cuda::CudaStreamGuard<'static>>();
//! ```

use std::marker::PhantomData;

use c10_core::{DeviceIndex, Stream};

use crate::error::Result;
use crate::runtime::Runtime;
use crate::sync::MutexGuard;

/// Makes a device current until it is dropped.
#[must_use = "the device before is restored as soon as the guard is dropped"]
#[derive(Debug)]
pub struct CudaGuard<'a> {
    runtime: &'a Runtime,
    original: DeviceIndex,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

/// Makes a stream current on its device, and its device current, until it is dropped.
#[must_use = "the stream before is restored as soon as the guard is dropped"]
#[derive(Debug)]
pub struct CudaStreamGuard<'a> {
    // Dropped after `drop` has restored the stream: PyTorch's order.
    device: CudaGuard<'a>,
    original: Stream,
}

impl Runtime {
    /// Makes `device` current on this thread until the guard is dropped.
    ///
    /// # Errors
    /// As [`set_device`](Self::set_device); nothing has changed then.
    pub fn device_guard(&self, device: DeviceIndex) -> Result<CudaGuard<'_>> {
        let original = self.current_device();
        self.set_device(device)?;
        Ok(CudaGuard { runtime: self, original, not_send: PhantomData })
    }

    /// Makes `stream` and its device current on this thread until the guard is dropped.
    ///
    /// # Errors
    /// As [`set_current_stream`](Self::set_current_stream); nothing has changed then.
    pub fn stream_guard(&self, stream: Stream) -> Result<CudaStreamGuard<'_>> {
        let original = self.current_stream(stream.device_index())?;
        self.set_current_stream(stream)?;
        let guard = |device| CudaStreamGuard { device, original };
        // Of a device whose stream was just set.
        self.device_guard(stream.device_index()).map(guard)
    }

    /// Runs `f` with `device` current.
    ///
    /// # Errors
    /// As [`set_device`](Self::set_device); `f` has not run then.
    pub fn with_device<R>(&self, device: DeviceIndex, f: impl FnOnce() -> R) -> Result<R> {
        let _guard = self.device_guard(device)?;
        Ok(f())
    }

    /// Runs `f` with `stream` and its device current.
    ///
    /// # Errors
    /// As [`set_current_stream`](Self::set_current_stream); `f` has not run then.
    pub fn with_stream<R>(&self, stream: Stream, f: impl FnOnce() -> R) -> Result<R> {
        let _guard = self.stream_guard(stream)?;
        Ok(f())
    }
}

impl CudaGuard<'_> {
    /// The device that becomes current again.
    pub fn original_device(&self) -> DeviceIndex {
        self.original
    }
}

impl CudaStreamGuard<'_> {
    /// The stream that becomes current again on its device.
    pub fn original_stream(&self) -> Stream {
        self.original
    }

    /// The device that becomes current again.
    pub fn original_device(&self) -> DeviceIndex {
        self.device.original
    }
}

impl Drop for CudaGuard<'_> {
    fn drop(&mut self) {
        // It was current before, so that it is there.
        let _ = self.runtime.set_device(self.original);
    }
}

impl Drop for CudaStreamGuard<'_> {
    fn drop(&mut self) {
        // It was current before, so that it is the runtime's.
        let _ = self.device.runtime.set_current_stream(self.original);
    }
}
