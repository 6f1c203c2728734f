#![expect(unsafe_code, reason = "copies and launches over arrays whose lengths it knows")]
//! [`Gpu`]: one device with its allocators and kernels; [`Floats`]: an array of numbers on it.

use std::sync::Arc;

use c10_core::{DataPtr, Stream};
use c10_cuda::driver::{CopyEnd, DevicePtr, Driver};
use c10_cuda::{CachingAllocator, Config, PinnedAllocator, PinnedConfig, Runtime};

use crate::{Kernels, Result};

/// Device 0, its memory and its kernels.
#[derive(Debug)]
pub struct Gpu {
    /// The device's memory.
    pub cuda: CachingAllocator,
    /// The host's that copies come from and go to.
    pub pinned: PinnedAllocator,
    kernels: Kernels,
}

/// Numbers on the device. Dropped, their memory goes back to the cache, while work that uses it may be under way.
#[derive(Debug)]
pub struct Floats {
    block: DataPtr,
    count: usize,
}

impl Floats {
    /// Numbers in memory of another's.
    ///
    /// # Safety
    /// The memory has room for `count` numbers.
    pub unsafe fn from_block(block: DataPtr, count: usize) -> Self {
        Self { block, count }
    }

    /// Their memory.
    pub fn block(&self) -> &DataPtr {
        &self.block
    }

    /// Their address.
    pub fn ptr(&self) -> DevicePtr {
        DevicePtr(self.block.as_ptr().addr() as u64)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    fn bytes(&self) -> u64 {
        (self.count * size_of::<f32>()) as u64
    }
}

impl Gpu {
    /// Device 0 of a driver, with settings in the form of `PYTORCH_CUDA_ALLOC_CONF`.
    ///
    /// # Errors
    /// Settings that are none; what the driver reports.
    pub fn new(driver: &Arc<dyn Driver>, settings: &str) -> Result<Self> {
        let runtime = Runtime::new(Arc::clone(driver));
        Ok(Self {
            cuda: CachingAllocator::with_runtime(runtime.clone(), Config::parse(settings)?)?,
            pinned: PinnedAllocator::new(runtime, PinnedConfig::default())?,
            kernels: Kernels::load(driver, 0)?,
        })
    }

    /// Its streams, and what is current on each thread.
    pub fn runtime(&self) -> &Runtime {
        self.cuda.runtime()
    }

    /// Room for `count` numbers, for work on the stream.
    ///
    /// # Errors
    /// There is no memory.
    pub fn floats(&self, count: usize, stream: Stream) -> Result<Floats> {
        let block = self.cuda.allocate_on((count * size_of::<f32>()) as u64, stream)?;
        Ok(Floats { block, count })
    }

    /// Copies numbers to the device behind what the stream holds. The host goes on at once.
    ///
    /// # Errors
    /// There is no pinned memory; what the driver reports.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn upload(&self, to: &Floats, values: &[f32], stream: Stream) -> Result {
        assert_eq!(to.count, values.len(), "as many numbers as there is room for");
        let staged = self.pinned.allocate(to.bytes())?;
        // SAFETY: the block has as many bytes, and nobody else has it.
        unsafe { staged.as_ptr().cast::<f32>().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        let (dst, src) = (CopyEnd::Device(to.ptr()), CopyEnd::Host(staged.as_ptr()));
        let on = self.runtime().handle(stream)?;
        // SAFETY: both have as many bytes; the pinned block is kept for the stream until it has done the copy.
        unsafe { self.runtime().driver().copy(dst, src, to.bytes(), on) }?;
        self.pinned.record_event(&staged, stream)?;
        Ok(())
    }

    /// Copies numbers to the host behind what the stream holds, and waits for them.
    ///
    /// # Errors
    /// There is no pinned memory; what the driver reports.
    pub fn download(&self, from: &Floats, stream: Stream) -> Result<Vec<f32>> {
        let staged = self.pinned.allocate(from.bytes())?;
        let (dst, src) = (CopyEnd::Host(staged.as_ptr()), CopyEnd::Device(from.ptr()));
        let on = self.runtime().handle(stream)?;
        // SAFETY: both have as many bytes, and the stream is waited for while both are here.
        unsafe { self.runtime().driver().copy(dst, src, from.bytes(), on) }?;
        self.synchronize(stream)?;
        // SAFETY: the copy has written so many numbers, and nobody else has the block.
        let values = unsafe { std::slice::from_raw_parts(staged.as_ptr().cast::<f32>(), from.count) };
        Ok(values.to_vec())
    }

    /// `out = a + b` on the stream.
    ///
    /// # Errors
    /// What the driver reports.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn add(&self, out: &Floats, a: &Floats, b: &Floats, stream: Stream) -> Result {
        assert_eq!((out.count, out.count), (a.count, b.count), "arrays of one length");
        let on = self.runtime().handle(stream)?;
        // SAFETY: the arrays have as many numbers. Their memory is the device's as long as there is work on it.
        Ok(unsafe { self.kernels.add(on, [out.ptr(), a.ptr(), b.ptr()], out.count as u64) }?)
    }

    /// `out = a * factor` on the stream.
    ///
    /// # Errors
    /// What the driver reports.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn scale(&self, out: &Floats, a: &Floats, factor: f32, stream: Stream) -> Result {
        assert_eq!(out.count, a.count, "arrays of one length");
        let on = self.runtime().handle(stream)?;
        // SAFETY: as above.
        Ok(unsafe { self.kernels.scale(on, [out.ptr(), a.ptr()], factor, out.count as u64) }?)
    }

    /// Waits until the stream has done all that it holds.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn synchronize(&self, stream: Stream) -> Result {
        let on = self.runtime().handle(stream)?;
        Ok(self.runtime().driver().stream_synchronize(on)?)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // What pinned blocks still serve is done before they go; of a lost device nothing is.
        let _ = self.runtime().driver().device_synchronize(0);
    }
}
