//! Captures: the calls that `CUDAGraph::capture_begin` and `capture_end` make.

use c10_cuda::alloc::{MempoolId, PoolFilter};
use c10_cuda::driver::{self, CaptureState, Driver, Status};

use super::Stop;
use super::answer::Answer;
use super::machine::Machine;
use crate::replay::ops::{CaptureMode, PoolName, StreamName};

impl Machine {
    pub(super) fn capture_begin(
        &mut self,
        line: usize,
        stream: StreamName,
        pool: PoolName,
        mode: CaptureMode,
    ) -> Result<Answer, Stop> {
        let (stream, handle) = self.stream(stream, line)?;
        self.runtime.set_current_stream(stream)?;
        let (device, id) = (handle.device, MempoolId::from(pool));
        let mode = match mode {
            CaptureMode::Global => driver::CaptureMode::Global,
            CaptureMode::ThreadLocal => driver::CaptureMode::ThreadLocal,
            CaptureMode::Relaxed => driver::CaptureMode::Relaxed,
        };
        // PyTorch begins with the pool; a pool that is in the way is so whether or not the stream can capture.
        const IN_THE_WAY: &str = "beginAllocateToPool: already recording to mempool_id";
        let begun = self.driver.stream_begin_capture(handle, mode);
        let number = match self.driver.capture_state(handle).map_err(c10_cuda::Error::from)? {
            CaptureState::Active { id } | CaptureState::Invalidated { id } if begun.is_ok() => id,
            _ => 0,
        };
        if let Err(error) = self.allocator.begin_allocate_to_pool(device, id, PoolFilter::Capture(number)) {
            if begun.is_ok() {
                let graph = self.driver.stream_end_capture(handle).map_err(c10_cuda::Error::from)?;
                self.driver.graph_destroy(graph).map_err(c10_cuda::Error::from)?;
            }
            return self.done(Err(error), Some(IN_THE_WAY));
        }
        if let Err(error) = begun {
            self.allocator.end_allocate_to_pool(device, id)?;
            self.allocator.release_pool(device, id)?;
            return Ok(Answer::Refused(name_of(error.status)));
        }
        self.allocator.mark_capture_begin(device)?;
        self.captures.insert(handle, id);
        Ok(Answer::DONE)
    }

    pub(super) fn capture_end(&mut self, line: usize, stream: StreamName) -> Result<Answer, Stop> {
        let (_, handle) = self.stream(stream, line)?;
        let Some(id) = self.captures.remove(&handle) else { return Ok(Answer::Skip) };
        let graph = self.driver.stream_end_capture(handle);
        self.allocator.mark_capture_end(handle.device)?;
        self.allocator.end_allocate_to_pool(handle.device, id)?;
        match graph {
            Ok(graph) => {
                let nodes = self.driver.graph_node_count(graph).map_err(c10_cuda::Error::from)?;
                Ok(Answer::Echo(format!(" nodes {nodes}")))
            }
            Err(error) => Ok(Answer::Refused(name_of(error.status))),
        }
    }
}

/// CUDA's name of a status.
pub(super) fn name_of(status: Status) -> String {
    let name = match status {
        Status::CaptureUnsupported => "cudaErrorStreamCaptureUnsupported",
        Status::CaptureInvalidated => "cudaErrorStreamCaptureInvalidated",
        Status::CaptureMerge => "cudaErrorStreamCaptureMerge",
        Status::CaptureUnmatched => "cudaErrorStreamCaptureUnmatched",
        Status::CaptureUnjoined => "cudaErrorStreamCaptureUnjoined",
        Status::CaptureIsolation => "cudaErrorStreamCaptureIsolation",
        Status::CapturedEvent => "cudaErrorCapturedEvent",
        Status::IllegalState => "cudaErrorIllegalState",
        other => return other.to_string(),
    };
    name.to_owned()
}
