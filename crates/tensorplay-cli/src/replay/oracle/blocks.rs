//! Requests, frees, and the streams that use a block.

use c10_core::DataPtr;
use c10_cuda::ErrorKind;

use super::Stop;
use super::answer::Answer;
use super::machine::{Machine, bad};
use crate::replay::ops::StreamName;

/// Requests of so many bytes and more are refused unasked (`one_exa_bytes`).
const LARGEST_REQUEST: u64 = 1 << 60;

/// `C10_CUDA_CHECK`'s words for a `cudaMalloc` that found no memory, on one line as the oracle has them.
const DRIVER_OUT_OF_MEMORY: &str = "CUDA error: out of memory Search for `cudaErrorMemoryAllocation' in \
    https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information. ";

impl Machine {
    pub(super) fn allocate(
        &mut self,
        line: usize,
        id: i64,
        bytes: u64,
        stream: StreamName,
    ) -> Result<Answer, Stop> {
        self.check_new(line, id)?;
        let (stream, _) = self.stream(stream, line)?;
        self.runtime.set_current_stream(stream)?;
        let before = self.allocated()?;
        let done = self.allocator.allocate(bytes);
        self.allocated_block(id, bytes, before, done)
    }

    /// The answer to a request; `before`, so many bytes were allocated.
    pub(super) fn allocated_block(
        &mut self,
        id: i64,
        bytes: u64,
        before: u64,
        done: c10_cuda::Result<DataPtr>,
    ) -> Result<Answer, Stop> {
        match done {
            Ok(ptr) => {
                self.print_driver_calls();
                let block = self.allocated()?.wrapping_sub(before) as i64;
                let place = self.places.place(ptr.as_ptr().addr() as u64);
                self.live.insert(id, ptr);
                Ok(Answer::Line(format!("alloc {id} {bytes} block {block} at {place}")))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory && !self.asks_driver(bytes) => {
                let text = error.to_string().replace('\n', " ");
                Ok(Answer::Line(format!("oom {id} {bytes} {text}")))
            }
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                Ok(Answer::Refused(DRIVER_OUT_OF_MEMORY.into()))
            }
            Err(error) => match error.driver() {
                Some(refused) if refused.call == "reserve" => {
                    Ok(Answer::Refused(format!("CUDA driver error: {}", refused.status)))
                }
                _ => Err(error.into()),
            },
        }
    }

    pub(super) fn check_new(&self, line: usize, id: i64) -> Result<(), Stop> {
        if self.live.contains_key(&id) {
            Err(bad(line, format!("the id {id} is live already")))
        } else {
            Ok(())
        }
    }

    /// Bytes allocated on the current device.
    pub(super) fn allocated(&self) -> Result<u64, Stop> {
        Ok(self.allocator.memory_allocated(self.runtime.current_device())?)
    }

    /// Whether a request goes to the driver as it is: PyTorch then tells the driver's error, and not its own.
    fn asks_driver(&self, bytes: u64) -> bool {
        !self.allocator.is_enabled() && bytes < LARGEST_REQUEST
    }

    pub(super) fn free(&mut self, id: i64, told: &str) -> Answer {
        match self.live.remove(&id) {
            Some(ptr) => {
                drop(ptr);
                Answer::Line(format!("free {id}"))
            }
            None => Answer::Line(format!("skip {told}")),
        }
    }

    pub(super) fn record_stream(
        &mut self,
        line: usize,
        id: i64,
        stream: StreamName,
        told: &str,
    ) -> Result<Answer, Stop> {
        let rest = told.trim_start_matches([' ', 'r']);
        if !self.live.contains_key(&id) {
            return Ok(Answer::Line(format!("skip {rest}")));
        }
        let (stream, _) = self.stream(stream, line)?;
        self.allocator.record_stream(&self.live[&id], stream)?;
        Ok(Answer::Line(format!("record {rest}")))
    }
}
