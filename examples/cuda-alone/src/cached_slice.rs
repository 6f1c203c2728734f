#![expect(unsafe_code, reason = "makes slices of cudarc's over memory that they do not own")]
//! [`CachedSlice`]: the caching allocator's memory as a slice of cudarc's.
//!
//! A `CudaSlice` frees its memory when it is dropped, and here that is not its to free. So it never is dropped: in its
//! place [`CudaSlice::leak`] makes the slice's stream wait for the uses that cudarc has recorded, and then the block
//! goes back to the cache of that very stream, behind those waits.

use std::mem::ManuallyDrop;

use c10_core::DataPtr;
use c10_cuda::CachingAllocator;
use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DeviceRepr, ValidAsZeroBits};

use crate::{BorrowedStream, Result};

/// `len` values on the device, of memory that the caching allocator has and takes back.
///
/// cudarc takes its [views](Self::as_view) wherever it takes slices. It hands out no `&mut CudaSlice`, out of which
/// the slice could be taken and dropped.
#[derive(Debug)]
pub struct CachedSlice<T> {
    slice: ManuallyDrop<CudaSlice<T>>,
    /// Dropped after the slice's stream has been made to wait.
    block: DataPtr,
}

impl<T: DeviceRepr + ValidAsZeroBits> CachedSlice<T> {
    /// Zeros, for work on a stream of cudarc's.
    ///
    /// # Errors
    /// There is no memory; what the driver reports.
    pub fn zeros(cuda: &CachingAllocator, stream: &BorrowedStream, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or("more bytes than there are addresses")?;
        let block = cuda.allocate_on(bytes as u64, stream.stream())?;
        // SAFETY: the block has room for `len` values, lives as long as the slice, and is filled before it is read.
        let slice = unsafe { stream.upgrade_device_ptr::<T>(block.as_ptr().addr() as u64, len) };
        let mut zeros = Self { slice: ManuallyDrop::new(slice), block };
        stream.memset_zeros(&mut *zeros.slice)?;
        Ok(zeros)
    }
}

impl<T> CachedSlice<T> {
    /// To be read.
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// To be written.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }

    /// Says that work on another stream uses the memory. cudarc remembers one reader of a slice, the last: where two
    /// streams read it at a time, the allocator has to be told of both. With cudarc's event tracking off, of all.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn record_stream(&self, cuda: &CachingAllocator, stream: &BorrowedStream) -> Result {
        Ok(cuda.record_stream(&self.block, stream.stream())?)
    }
}

impl<T> Drop for CachedSlice<T> {
    fn drop(&mut self) {
        // SAFETY: it is taken here alone, and this is the end.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        let _still_the_block_s = slice.leak();
    }
}
