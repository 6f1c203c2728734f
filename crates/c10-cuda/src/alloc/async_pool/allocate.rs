//! Allocation out of the driver's pool, and its out of memory.

use c10_core::bytes::format_size;

use super::state::{AsyncPool, Locked, Usage};
use crate::alloc::callbacks::Callbacks;
use crate::alloc::oom;
use crate::alloc::size::REQUEST_CAP;
use crate::driver::{DevicePtr, DriverError, MemoryInfo, Status, StreamHandle};
use crate::error::{Error, OutOfMemory, Result};

impl AsyncPool {
    /// `bytes` bytes, at least 1, for a stream.
    pub(in crate::alloc) fn malloc(
        &self,
        bytes: u64,
        stream: StreamHandle,
        raw: bool,
        callbacks: &Callbacks,
    ) -> Result<DevicePtr> {
        if bytes >= REQUEST_CAP {
            return Err(oom::too_large(stream.device, bytes));
        }
        let mut locked = self.lock();
        if !locked.capturing {
            locked.free_waiting();
        }
        locked.ready(stream.device)?;
        let in_graph = locked.is_beside_capture() && locked.captures(stream)?;
        match locked.obtain(bytes, stream)? {
            Some(ptr) => {
                let captured = locked.capturing;
                let usage = Usage { captured, in_graph, raw, ..Usage::new(bytes, stream) };
                let before = locked.live.insert(ptr.0, usage);
                debug_assert!(before.is_none(), "live blocks have different addresses");
                locked.devices[usize::from(stream.device)].used += bytes;
                Ok(ptr)
            }
            None => {
                let numbers = locked.numbers(bytes, stream)?;
                drop(locked);
                oom::tell(&numbers, callbacks);
                Err(Error::oom(numbers, text(&numbers)))
            }
        }
    }
}

impl Locked<'_> {
    /// Memory of the pool; `None` when there is none, after what the pool does not use was given back.
    fn obtain(&mut self, bytes: u64, stream: StreamHandle) -> Result<Option<DevicePtr>, DriverError> {
        let device = &self.devices[usize::from(stream.device)];
        if device.limit.is_some_and(|(_, limit)| device.used + bytes > limit) {
            return Ok(None);
        }
        if let Some(ptr) = self.ask(bytes, stream)? {
            return Ok(Some(ptr));
        }
        // A stream that captures has nothing to wait for.
        if !(self.is_beside_capture() && self.captures(stream)?) {
            let _relaxed = self.relaxed()?;
            self.driver.stream_synchronize(stream)?;
        }
        self.driver.mem_pool_trim(stream.device, 0)?;
        self.ask(bytes, stream)
    }

    /// The driver's answer, `None` when it is out of memory.
    pub(super) fn ask(&self, bytes: u64, stream: StreamHandle) -> Result<Option<DevicePtr>, DriverError> {
        match self.driver.malloc_async(bytes, stream) {
            Ok(ptr) => Ok(Some(ptr)),
            Err(DriverError { status: Status::OutOfMemory, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn numbers(&self, requested: u64, stream: StreamHandle) -> Result<OutOfMemory, DriverError> {
        let MemoryInfo { free, total } = self.driver.memory_info(stream.device)?;
        let device = &self.devices[usize::from(stream.device)];
        Ok(OutOfMemory {
            device: stream.device,
            requested,
            tried: requested,
            device_total: total,
            device_free: free,
            allowed: device.limit.map(|(_, limit)| limit),
            allocated: device.used,
            reserved: self.driver.mem_pool_info(stream.device)?.reserved,
            ..OutOfMemory::default()
        })
    }
}

fn text(numbers: &OutOfMemory) -> String {
    format!(
        "Allocation on device {} would exceed allowed memory. (out of memory)\n\
         Currently allocated     : {}\n\
         Requested               : {}\n\
         Device limit            : {}\n\
         Free (according to CUDA): {}\n\
         PyTorch limit (set by user-supplied memory fraction)\n                        : {}",
        numbers.device,
        format_size(numbers.allocated),
        format_size(numbers.requested),
        format_size(numbers.device_total),
        format_size(numbers.device_free),
        format_size(numbers.allowed.unwrap_or(u64::MAX)),
    )
}
