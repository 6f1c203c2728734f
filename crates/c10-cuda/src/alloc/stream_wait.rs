//! Reuse after a wait: once a stream has waited for another, blocks of the first that the second used are free for
//! it, with no event asked.
//!
//! A block that other streams used is free again when those have passed what they held when it was freed. Its own
//! stream need not see that from the host: when it waits for such a stream, all that it runs from then on comes
//! after that work. What was freed before the wait is covered; what is freed later waits for the next, or for its
//! events, since the other stream may have gone on to use it.

use super::CachingAllocator;
use super::device::Locked;
use crate::driver::{DriverError, StreamHandle};
use crate::error::Result;
use crate::stream::AsStream;

impl CachingAllocator {
    /// Makes `waiting` wait for all that `waited` holds, and frees the blocks of `waiting` that were only kept for
    /// that (`torch.cuda.Stream.wait_stream`, which frees nothing).
    ///
    /// ```
    /// use c10_cuda::driver::sim::{SimConfig, SimDriver};
    /// use c10_cuda::{CachingAllocator, Config};
    ///
    /// let cuda = CachingAllocator::new(SimDriver::new(SimConfig::with_bytes(1 << 30)), Config::default())?;
    /// let (main, side) = (cuda.runtime().current_stream(0)?, cuda.runtime().stream_from_pool(0, 0)?);
    /// let block = cuda.allocate(4096)?;
    /// let address = block.as_ptr();
    /// cuda.wait_stream(side, main)?; // … and launch on `side` what uses the block.
    /// cuda.record_stream(&block, side)?;
    /// drop(block);
    /// cuda.wait_stream(main, side)?;
    /// assert_eq!(cuda.allocate(4096)?.as_ptr(), address);
    /// # Ok::<(), c10_cuda::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when one is no stream of the runtime; what
    /// the driver reports. Nothing is freed then.
    pub fn wait_stream(&self, waiting: impl AsStream, waited: impl AsStream) -> Result<()> {
        let (waiting, waited) = (self.runtime().handle(waiting)?, self.runtime().handle(waited)?);
        if waiting == waited {
            return Ok(());
        }
        // What is freed meanwhile is freed after the wait.
        let mut locked = self.device(waiting.device)?.lock();
        let event = locked.record_event(waited)?;
        let done = locked.driver().stream_wait_event(waiting, event);
        // A later record does not move the wait.
        locked.idle_events.keep(event);
        done?;
        Ok(locked.forget_waited(waiting, waited)?)
    }

    /// Says that `waiting` has waited for all that `waited` held at some time at or after the last free of a block
    /// that `waited` used: for programs that make the wait themselves. No other thread may free such a block between
    /// the wait and this call; [`wait_stream`](Self::wait_stream) sees to that.
    ///
    /// # Errors
    /// As [`wait_stream`](Self::wait_stream).
    pub fn stream_waited(&self, waiting: impl AsStream, waited: impl AsStream) -> Result<()> {
        let (waiting, waited) = (self.runtime().handle(waiting)?, self.runtime().handle(waited)?);
        Ok(self.device(waiting.device)?.lock().forget_waited(waiting, waited)?)
    }
}

impl Locked<'_> {
    /// Lets the freed blocks of a stream wait no more for another that it has waited for. A wait in a capture is
    /// an edge of the graph, and says nothing of work that runs.
    fn forget_waited(&mut self, waiting: StreamHandle, waited: StreamHandle) -> Result<(), DriverError> {
        if self.device.captures_under_way()
            && (self.capture_of(waiting)?.is_some() || self.capture_of(waited)?.is_some())
        {
            return Ok(());
        }
        if let Ok(at) = self.event_queues.binary_search_by_key(&waited, |(stream, _)| *stream) {
            self.pass_events(at, |this, _, id| Ok(this.blocks[id].stream == waiting.raw))?;
        }
        for id in std::mem::take(&mut self.unrecorded) {
            let block = &mut self.blocks[id];
            if block.stream == waiting.raw {
                block.stream_uses.retain(|stream| *stream != waited);
            }
            if !block.stream_uses.is_empty() {
                self.unrecorded.push(id);
            } else if block.is_free() {
                self.free_block(id);
            }
        }
        Ok(())
    }
}
