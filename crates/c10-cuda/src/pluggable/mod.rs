#![expect(unsafe_code, reason = "calls the C functions that the allocator was made of")]
//! [`PluggableAllocator`]: an allocator made of C functions (`torch.cuda.memory.CUDAPluggableAllocator`).
//!
//! It serves as a whole allocator (a [`c10_core::allocator::Allocator`]), or as the source of a private pool
//! ([`PoolAllocator`](crate::alloc::PoolAllocator)). It keeps a table of what it has given out, so that an address that it does not know is an
//! error and never handed to the C functions.
//!
//! ```
//! # use std::ffi::{c_int, c_void};
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::pluggable::{PluggableAllocator, PluggableFunctions};
//! use c10_cuda::{ErrorKind, Runtime};
//! # static MEMORY: [u64; 1024] = [0; 1024];
//! # unsafe extern "C" fn alloc(_: usize, _: c_int, _: *mut c_void) -> *mut c_void { MEMORY.as_ptr() as *mut c_void }
//! # unsafe extern "C" fn free(_: *mut c_void, _: usize, _: c_int, _: *mut c_void) {}
//!
//! let runtime = Runtime::new(SimDriver::new(SimConfig::with_bytes(1 << 30)));
//! // SAFETY: what `alloc` gives is memory until `free` takes it.
//! let plugged = unsafe { PluggableAllocator::new(runtime, PluggableFunctions::new(alloc, free)) };
//! let block = plugged.raw_alloc(64)?;
//! // SAFETY: nobody uses the memory.
//! unsafe { plugged.raw_delete(block) }?;
//! // SAFETY: the address is not the allocator's any more, which is an error and nothing else.
//! let again = unsafe { plugged.raw_delete(block) };
//! assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
//! # Ok::<(), c10_cuda::Error>(())
//! ```

mod functions;
mod owner;
mod pool;

pub use functions::{PluggableFunctions, PoolIdArgument};

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;

use c10_core::{DataPtr, Device, DeviceIndex};

use crate::alloc::MempoolId;
use crate::driver::{DevicePtr, StreamHandle};
use crate::error::{Error, ErrorKind, OutOfMemory, Result};
use crate::runtime::Runtime;
use crate::stream::AsStream;
use crate::sync::{Arc, Mutex, lock};

use owner::Plugged;

/// An allocator that calls C functions for memory. The handle is cheap to clone; memory outlives it.
#[derive(Clone)]
pub struct PluggableAllocator {
    runtime: Runtime,
    plugged: Arc<Plugged>,
}

/// What was given out.
#[derive(Clone, Copy, Debug)]
struct Given {
    bytes: usize,
    stream: StreamHandle,
    /// Whether a raw call gave it out.
    raw: bool,
}

/// The addresses that are out.
#[derive(Debug, Default)]
struct Table(Mutex<BTreeMap<u64, Given>>);

impl PluggableAllocator {
    /// An allocator of these functions, which are told of the current devices and streams of a runtime.
    ///
    /// # Safety
    /// For as long as the allocator, its clones and its memory live, the functions may be called from any thread. What
    /// `alloc` gives is null, or memory of the device of so many bytes that is nobody else's until it is given to
    /// `free` with the same numbers; the others do what [`PluggableFunctions`] says of them.
    pub unsafe fn new(runtime: Runtime, functions: PluggableFunctions) -> Self {
        Self { runtime, plugged: Arc::new(Plugged { functions, table: Table::default() }) }
    }

    /// PyTorch's name for such allocators.
    pub fn name(&self) -> &'static str {
        "pluggable"
    }

    /// Calls `init` with the number of devices, where there is one.
    pub fn init(&self) {
        if let Some(init) = self.functions().init {
            // SAFETY: whoever gave the functions said that they may be called.
            unsafe { init(c_int::from(self.runtime.device_count())) };
        }
    }

    /// `bytes` bytes on the current device for the current stream. For 0 bytes the address is null.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] when `alloc` gives null, [`ErrorKind::InvalidArgument`] when it gives an address
    /// that is out already.
    pub fn allocate(&self, bytes: u64) -> Result<DataPtr> {
        let stream = self.runtime.current().stream;
        let ptr = self.obtain(bytes, stream, false)?;
        Ok(Plugged::own(&self.plugged, ptr, stream.device))
    }

    /// As [`allocate`](Self::allocate), as an address that the caller gives back by hand.
    ///
    /// # Errors
    /// As there.
    pub fn raw_alloc(&self, bytes: u64) -> Result<DevicePtr> {
        self.obtain(bytes, self.runtime.current().stream, true)
    }

    /// As [`raw_alloc`](Self::raw_alloc), for a stream and its device.
    ///
    /// # Errors
    /// As there, and [`ErrorKind::InvalidArgument`] when it is no stream of the runtime.
    pub fn raw_alloc_with_stream(&self, bytes: u64, stream: impl AsStream) -> Result<DevicePtr> {
        self.obtain(bytes, self.runtime.owning_handle(stream)?, true)
    }

    fn obtain(&self, bytes: u64, stream: StreamHandle, raw: bool) -> Result<DevicePtr> {
        if bytes == 0 {
            return Ok(DevicePtr::NULL);
        }
        let numbers =
            OutOfMemory { device: stream.device, requested: bytes, tried: bytes, ..OutOfMemory::default() };
        let none =
            || Error::oom(numbers, format!("The pluggable allocator has no memory for {bytes} bytes."));
        let size = usize::try_from(bytes).ok().filter(|&n| isize::try_from(n).is_ok()).ok_or_else(none)?;
        let ptr = self.functions().call_alloc(size, stream).ok_or_else(none)?;
        let given = Given { bytes: size, stream, raw };
        // It is not given back: that would take it from whoever has it.
        let out = || invalid(format!("alloc gave {ptr}, where it has given out memory already"));
        self.plugged.give_out(ptr, given).ok_or_else(out)?;
        Ok(ptr)
    }

    /// Gives memory of a raw call back. Null is nothing.
    ///
    /// # Safety
    /// Nobody uses the memory any more, but work that the functions know of.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an address that no raw call gave out, or that has been given back.
    pub unsafe fn raw_delete(&self, ptr: DevicePtr) -> Result<()> {
        if ptr.is_null() {
            return Ok(());
        }
        let given = {
            let mut table = lock(&self.plugged.table.0);
            match table.get(&ptr.0) {
                Some(Given { raw: true, .. }) => table.remove(&ptr.0),
                _ => None,
            }
        };
        let given = given.ok_or_else(|| invalid("Trying to free a pointer not allocated here"))?;
        self.functions().call_free(ptr, given.bytes, given.stream);
        Ok(())
    }

    /// Says that a stream uses the memory; nothing where there is no such function.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for memory that is not this allocator's, and when it is no stream of the
    /// runtime.
    pub fn record_stream(&self, ptr: &DataPtr, stream: impl AsStream) -> Result<()> {
        let stream = self.runtime.handle(stream)?;
        if ptr.root().is_null() {
            return Ok(());
        }
        let own = self.address_of("record_stream", ptr)?;
        if let Some(record_stream) = self.functions().record_stream {
            // SAFETY: the memory is this allocator's and has not ended; the functions may be called.
            unsafe { record_stream(own.0 as *mut c_void, stream.raw as *mut c_void) };
        }
        Ok(())
    }

    /// Calls `reset`, where there is one (`empty_cache`).
    pub fn empty_cache(&self) {
        if let Some(reset) = self.functions().reset {
            // SAFETY: whoever gave the functions said that they may be called.
            unsafe { reset() };
        }
    }

    /// Hands a part of the device's memory, in [0, 1], to `memory_fraction`, where there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a number outside [0, 1] or when there is no such device.
    pub fn set_memory_fraction(&self, fraction: f64, device: DeviceIndex) -> Result<()> {
        self.runtime.check(device)?;
        if !(0.0..=1.0).contains(&fraction) {
            return Err(invalid(format!("invalid fraction:{fraction}. Please set within [0, 1].")));
        }
        if let Some(memory_fraction) = self.functions().memory_fraction {
            // SAFETY: as above.
            unsafe { memory_fraction(fraction, c_int::from(device)) };
        }
        Ok(())
    }

    /// The allocation that memory of this allocator's lies in, and its size: `base_alloc`'s answer, or the address and
    /// what was asked for.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for memory that is not this allocator's.
    pub fn base_allocation(&self, ptr: &DataPtr) -> Result<(DevicePtr, u64)> {
        let own = self.address_of("base_allocation", ptr)?;
        // It is out as long as `ptr` is.
        let mut bytes = lock(&self.plugged.table.0).get(&own.0).map_or(0, |given| given.bytes);
        let Some(base_alloc) = self.functions().base_alloc else { return Ok((own, bytes as u64)) };
        // SAFETY: the memory is this allocator's and has not ended; the size is this call's own.
        let base = unsafe { base_alloc(own.0 as *mut c_void, ptr::from_mut(&mut bytes)) };
        Ok((DevicePtr(base as u64), bytes as u64))
    }

    fn address_of(&self, call: &str, ptr: &DataPtr) -> Result<DevicePtr> {
        owner::address_of(ptr, &self.plugged).ok_or_else(|| {
            invalid(format!("{call}: the memory at {:?} was not handed out by this allocator", ptr.as_ptr()))
        })
    }

    /// Tells `begin_allocate_to_pool`, where there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn begin_allocate_to_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        self.tell_pool(self.functions().begin_allocate_to_pool, device, id)
    }

    /// Tells `end_allocate_to_pool`, where there is one.
    ///
    /// # Errors
    /// As there.
    pub fn end_allocate_to_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        self.tell_pool(self.functions().end_allocate_to_pool, device, id)
    }

    /// Tells `release_pool`, where there is one.
    ///
    /// # Errors
    /// As there.
    pub fn release_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        self.tell_pool(self.functions().release_pool, device, id)
    }

    fn tell_pool(
        &self,
        function: Option<unsafe extern "C" fn(c_int, PoolIdArgument)>,
        device: DeviceIndex,
        id: MempoolId,
    ) -> Result<()> {
        self.runtime.check(device)?;
        if let Some(function) = function {
            let id = PoolIdArgument { first: id.first, second: id.second };
            // SAFETY: whoever gave the functions said that they may be called.
            unsafe { function(c_int::from(device), id) };
        }
        Ok(())
    }

    /// How many blocks are out, and segments of private pools.
    pub fn live_blocks(&self) -> usize {
        lock(&self.plugged.table.0).len()
    }

    /// Refuses a call of PyTorch's allocator interface that C functions have no answer to (`getDeviceStats`,
    /// `snapshot`, …), with PyTorch's words.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`], always.
    pub fn unsupported<T>(&self, call: &str) -> Result<T> {
        let text = format!(
            "CUDAPluggableAllocator does not yet support {call}. If you need it, please file an issue describing your \
             use case."
        );
        Err(Error::new(ErrorKind::NotImplemented, text))
    }

    fn functions(&self) -> &PluggableFunctions {
        &self.plugged.functions
    }

    /// The device of the next allocation.
    fn device(&self) -> Device {
        Device::cuda(self.runtime.current_device())
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}

impl fmt::Debug for PluggableAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluggableAllocator").field("live_blocks", &self.live_blocks()).finish_non_exhaustive()
    }
}
