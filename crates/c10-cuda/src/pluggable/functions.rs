#![expect(unsafe_code, reason = "calls the C functions that the allocator was made of")]
//! [`PluggableFunctions`]: the C functions of an allocator, with PyTorch's signatures.

use std::ffi::{c_int, c_void};

use crate::driver::{DevicePtr, StreamHandle};

/// A pool's name as C functions take it (`MempoolId_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolIdArgument {
    /// The number that graphs make.
    pub first: u64,
    /// The number that programs make.
    pub second: u64,
}

/// The functions of an allocator. Streams are the driver's values (`cudaStream_t`); null is the default stream.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PluggableFunctions {
    /// `void *alloc(size_t size, int device, cudaStream_t stream)`: null when there is no memory.
    pub alloc: unsafe extern "C" fn(usize, c_int, *mut c_void) -> *mut c_void,
    /// `void free(void *ptr, size_t size, int device, cudaStream_t stream)`, with the numbers of `alloc`.
    pub free: unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void),
    /// `void init(int device_count)`.
    pub init: Option<unsafe extern "C" fn(c_int)>,
    /// `void reset()`: gives back what is cached.
    pub reset: Option<unsafe extern "C" fn()>,
    /// `void memory_fraction(double fraction, int device)`.
    pub memory_fraction: Option<unsafe extern "C" fn(f64, c_int)>,
    /// `void *base_alloc(void *ptr, size_t *size)`: the allocation that `ptr` lies in, and its size.
    pub base_alloc: Option<unsafe extern "C" fn(*mut c_void, *mut usize) -> *mut c_void>,
    /// `void record_stream(void *ptr, cudaStream_t stream)`.
    pub record_stream: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// `void begin_allocate_to_pool(int device, MempoolId_t id)`. PyTorch's has a C++ filter as well.
    pub begin_allocate_to_pool: Option<unsafe extern "C" fn(c_int, PoolIdArgument)>,
    /// `void end_allocate_to_pool(int device, MempoolId_t id)`.
    pub end_allocate_to_pool: Option<unsafe extern "C" fn(c_int, PoolIdArgument)>,
    /// `void release_pool(int device, MempoolId_t id)`.
    pub release_pool: Option<unsafe extern "C" fn(c_int, PoolIdArgument)>,
}

impl PluggableFunctions {
    /// The two that there have to be.
    pub const fn new(
        alloc: unsafe extern "C" fn(usize, c_int, *mut c_void) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void),
    ) -> Self {
        Self {
            alloc,
            free,
            init: None,
            reset: None,
            memory_fraction: None,
            base_alloc: None,
            record_stream: None,
            begin_allocate_to_pool: None,
            end_allocate_to_pool: None,
            release_pool: None,
        }
    }

    /// Asks for memory.
    pub(super) fn call_alloc(&self, bytes: usize, stream: StreamHandle) -> Option<DevicePtr> {
        // SAFETY: whoever made an allocator of the functions said that they may be called.
        let ptr = unsafe { (self.alloc)(bytes, c_int::from(stream.device), stream.raw as *mut c_void) };
        (!ptr.is_null()).then_some(DevicePtr(ptr as u64))
    }

    /// Gives memory back that `alloc` gave with these numbers, and that is not given back again.
    pub(super) fn call_free(&self, ptr: DevicePtr, bytes: usize, stream: StreamHandle) {
        let (device, stream) = (c_int::from(stream.device), stream.raw as *mut c_void);
        // SAFETY: as in `call_alloc`; the memory is `alloc`'s and nobody's any more.
        unsafe { (self.free)(ptr.0 as *mut c_void, bytes, device, stream) };
    }
}
