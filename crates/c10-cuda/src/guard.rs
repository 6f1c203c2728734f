//! [`CudaGuard`], [`CudaStreamGuard`] and [`CudaMultiStreamGuard`]: guards of what is current for one [`Runtime`] on
//! this thread (`c10::cuda::CUDAGuard`, `CUDAStreamGuard`, `CUDAMultiStreamGuard`), and their closure forms, which are
//! preferred since they cannot end out of order.
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
use crate::stream::AsStream;
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

/// Makes one stream for each of several devices current there, until it is dropped. The current device stays.
#[must_use = "the streams before are restored as soon as the guard is dropped"]
#[derive(Debug)]
pub struct CudaMultiStreamGuard<'a> {
    runtime: &'a Runtime,
    /// In the order in which they were replaced.
    original: Vec<Stream>,
    not_send: PhantomData<MutexGuard<'static, ()>>,
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
    pub fn stream_guard(&self, stream: impl AsStream) -> Result<CudaStreamGuard<'_>> {
        let index = stream.as_stream().device_index();
        let original = self.current_stream(index)?;
        self.set_current_stream(stream)?;
        let guard = |device| CudaStreamGuard { device, original };
        // Of a device whose stream was just set.
        self.device_guard(index).map(guard)
    }

    /// Makes each of these streams the current one of its device on this thread until the guard is dropped. Of several
    /// of one device the last counts.
    ///
    /// # Errors
    /// As [`set_current_stream`](Self::set_current_stream); nothing has changed then.
    pub fn multi_stream_guard<S: AsStream>(&self, streams: &[S]) -> Result<CudaMultiStreamGuard<'_>> {
        // Dropped on an error, it puts back what was replaced.
        let mut guard = CudaMultiStreamGuard { runtime: self, original: Vec::new(), not_send: PhantomData };
        for stream in streams {
            let original = self.current_stream(stream.as_stream().device_index())?;
            self.set_current_stream(stream)?;
            guard.original.push(original);
        }
        Ok(guard)
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
    pub fn with_stream<R>(&self, stream: impl AsStream, f: impl FnOnce() -> R) -> Result<R> {
        let _guard = self.stream_guard(stream)?;
        Ok(f())
    }
}

impl CudaGuard<'_> {
    /// Makes another device current; the guard restores the one that it found all the same.
    ///
    /// # Errors
    /// As [`Runtime::set_device`].
    pub fn set_device(&mut self, device: DeviceIndex) -> Result<()> {
        self.runtime.set_device(device)
    }

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

impl CudaMultiStreamGuard<'_> {
    /// The streams that become current again, in the order in which they were replaced.
    pub fn original_streams(&self) -> &[Stream] {
        &self.original
    }
}

impl Drop for CudaMultiStreamGuard<'_> {
    fn drop(&mut self) {
        for stream in self.original.iter().rev() {
            // It was current before, so that it is the runtime's.
            let _ = self.runtime.set_current_stream(*stream);
        }
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
