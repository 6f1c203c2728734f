//! Copies and fills.
//!
//! As CUDA documents, a copy out of pageable memory is over for that memory when the call returns, and one into
//! pageable memory is over altogether; with pinned memory both are in stream order alone.

use c10_cuda::driver::{Access, Driver, KernelMemory, StreamHandle};

use super::ends::{end, is_device_address};
use super::{Machine, OnStream};
use crate::abi::{Code, Handle, Outcome, bytes_at};

/// How much a fill of more than bytes writes at a time.
const CHUNK: u64 = 64 << 10;

impl Machine {
    /// Fails unless an address is of the host, or all of the range is memory of a device.
    pub(crate) fn check_end(&self, address: u64, bytes: u64) -> Outcome {
        match is_device_address(address) {
            true => self.memory.check_device_range(address, bytes),
            false if address == 0 => Err(Code::INVALID_VALUE),
            false => Ok(()),
        }
    }

    /// Issues a copy on a stream.
    pub(crate) fn copy(&mut self, on: OnStream, dst: u64, src: u64, bytes: u64) -> Outcome {
        if bytes == 0 {
            return Ok(());
        }
        self.check_end(dst, bytes)?;
        self.check_end(src, bytes)?;
        self.before_work(on)?;
        let is_pageable =
            |machine: &Self, at: u64| !is_device_address(at) && !machine.memory.is_pinned(at, bytes);
        if self.is_eager() || self.is_capturing(on)? {
            return self.copy_promised(on.sim, end(dst), end(src), bytes);
        }
        if is_pageable(self, src) {
            self.copy_staged(on.sim, dst, src, bytes)?;
        } else {
            self.copy_promised(on.sim, end(dst), end(src), bytes)?;
        }
        if is_pageable(self, dst) {
            self.sim.complete_stream(on.sim);
        }
        Ok(())
    }

    /// Copies out of pageable memory by way of a buffer, which an item behind the copy owns.
    fn copy_staged(&self, on: StreamHandle, dst: u64, src: u64, bytes: u64) -> Outcome {
        let length = usize::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
        let mut staged = bytes_at(src, length)?;
        let at = staged.as_mut_ptr().expose_provenance() as u64;
        self.copy_promised(on, end(dst), end(at), bytes)?;
        let body = move |_: &mut dyn KernelMemory| staged.clear();
        self.launch_promised(on, "staging over", Vec::new(), Box::new(body))
    }

    /// Copies, and waits for it: on the legacy default stream.
    pub(crate) fn copy_now(&mut self, dst: u64, src: u64, bytes: u64) -> Outcome {
        let on = self.stream(Handle::NULL)?;
        self.refuse_in_capture(on.sim)?;
        self.copy(on, dst, src, bytes)?;
        Ok(self.sim.stream_synchronize(on.sim)?)
    }

    /// Refuses what captures forbid, and spoils them, before anything is issued.
    fn refuse_in_capture(&self, default: StreamHandle) -> Outcome {
        if self.captures.is_empty() {
            return Ok(());
        }
        self.sim.stream_query(default)?;
        Ok(())
    }

    /// Issues a fill with so many copies of a pattern.
    pub(crate) fn fill(&mut self, on: OnStream, dst: u64, pattern: &[u8], count: u64) -> Outcome {
        let width = pattern.len() as u64;
        let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        if !dst.is_multiple_of(width) {
            return Err(Code::INVALID_VALUE);
        }
        if bytes == 0 {
            return Ok(());
        }
        self.memory.check_device_range(dst, bytes)?;
        self.before_work(on)?;
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            return self.fill_promised(on.sim, dst, pattern[0], bytes);
        }
        let repeated = pattern.repeat((CHUNK.min(bytes) / width) as usize);
        let body = move |memory: &mut dyn KernelMemory| {
            let mut at = 0;
            while at < bytes {
                let part = (bytes - at).min(repeated.len() as u64);
                memory.write(0, at, &repeated[..part as usize]);
                at += part;
            }
        };
        let writes = vec![Access { ptr: c10_cuda::driver::DevicePtr(dst), bytes }];
        self.launch_promised(on.sim, "fill", writes, Box::new(body))
    }
}
