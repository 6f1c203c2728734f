#![expect(unsafe_code, reason = "exports C functions, which take addresses back")]
//! Memory: the functions that PyTorch names when it loads the allocator, and their companions.

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use c10_cuda::driver::DevicePtr;

use crate::failure::value_or;
use crate::world::world;

fn address(ptr: *mut c_void) -> DevicePtr {
    DevicePtr(ptr.addr() as u64)
}

/// `void *tensorplay_cuda_alloc(size_t size, int device, cudaStream_t stream)`: null for 0 bytes, and when it fails.
///
/// # Safety
/// `stream` is null, or a stream of the device that lives until [`tensorplay_cuda_forget_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_alloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    value_or(null_mut(), || {
        let world = world()?;
        // SAFETY: as the caller promises.
        let stream = unsafe { world.stream(world.device(device)?, stream) }?;
        let ptr = world.cuda.raw_alloc_with_stream(size as u64, stream)?;
        Ok(without_provenance_mut(ptr.0 as usize))
    })
}

/// `void tensorplay_cuda_free(void *ptr, size_t size, int device, cudaStream_t stream)`. The allocator knows size,
/// device and stream. An address that it did not give out, or that was freed, is left alone, and the thread's last
/// error says so.
///
/// # Safety
/// Nobody uses the memory any more, but work that its own stream orders before what comes, and work on streams that
/// were recorded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_free(ptr: *mut c_void, _: usize, _: c_int, _: *mut c_void) {
    value_or((), || {
        // SAFETY: the caller gives the memory up.
        Ok(unsafe { world()?.cuda.raw_delete(address(ptr)) }?)
    });
}

/// `void tensorplay_cuda_record_stream(void *ptr, cudaStream_t stream)`, of a stream of the memory's device.
///
/// # Safety
/// `stream` is null, or a stream of that device that lives until [`tensorplay_cuda_forget_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_record_stream(ptr: *mut c_void, stream: *mut c_void) {
    value_or((), || {
        let world = world()?;
        let ptr = address(ptr);
        if ptr.is_null() {
            return Ok(());
        }
        // The driver is told of streams by their device alone, and a stream does not say which is its own.
        let device = world.cuda.device_of_raw(ptr)?;
        // SAFETY: as the caller promises.
        let stream = unsafe { world.stream(device, stream) }?;
        Ok(world.cuda.record_stream_raw(ptr, stream)?)
    });
}

/// `void tensorplay_cuda_forget_stream(int device, cudaStream_t stream)`: before a stream that was named here ends.
/// Memory that waits for it comes back when all of the device has been waited for.
#[unsafe(no_mangle)]
pub extern "C" fn tensorplay_cuda_forget_stream(device: c_int, stream: *mut c_void) {
    value_or((), || {
        let world = world()?;
        world.forget(world.device(device)?, stream)
    });
}

/// `void *tensorplay_cuda_base_alloc(void *ptr, size_t *size)`: the first address of the driver's allocation in which
/// the memory lies, with its size in `*size` unless that is null; null when it fails.
///
/// # Safety
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tensorplay_cuda_base_alloc(ptr: *mut c_void, size: *mut usize) -> *mut c_void {
    value_or(null_mut(), || {
        let (base, bytes) = world()?.cuda.base_allocation_raw(address(ptr))?;
        if !size.is_null() {
            // SAFETY: the caller lets it be written.
            unsafe { size.write(bytes as usize) };
        }
        Ok(without_provenance_mut(base.0 as usize))
    })
}
