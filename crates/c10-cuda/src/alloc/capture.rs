//! Captures: what is left undone while one is under way, and what waits for its end.
//!
//! // Note [Captures]
//! A stream that captures records its work into a graph, which may run later, and any number of times. So a block
//! that other streams use in a capture cannot be proved free by events: it is *deferred* until the capture is
//! over, or, with `graph_capture_record_stream_reuse`, until the graph shows that all that comes on its stream
//! follows every use ([`graph_reuse`](super::graph_reuse)).
//!
//! CUDA forbids calls that could disturb a capture, and a call that it refuses has spoilt the capture. Where the
//! calling thread's current stream captures, the allocator asks the driver for memory and for nothing else: it
//! gives nothing back, queries no event and waits for none. Elsewhere, while a capture is under way, it makes its
//! calls in the thread's relaxed mode, which disturbs no capture.
//!
//! // Differs from PyTorch: it frees cached blocks inside captures, lets a free elsewhere release what a running
//! // capture still uses, and spoils captures of other threads.

use c10_core::DeviceIndex;

use super::CachingAllocator;
use super::deferred::{Deferred, Until};
use super::device::{Device, DeviceState, Locked};
use super::ids::BlockId;
use crate::captures::Undisturbing;
use crate::driver::{CaptureState, DriverError, Status, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::current;

impl CachingAllocator {
    /// Says that a stream of the device is about to capture (`markCaptureBegin`): to be called before the driver's
    /// capture begins. From here on, until [`mark_capture_end`](Self::mark_capture_end) or the end of the allocator, it
    /// asks the driver whether it is in a capture. Waits for calls of the driver's allocators that would spoil one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn mark_capture_begin(&self, device: DeviceIndex) -> Result<()> {
        let device = self.device(device)?;
        device.lock().active_captures += 1;
        device.captures.begin();
        Ok(())
    }

    /// Says that it has ended (`markCaptureEnd`); to be called once the driver's capture has. Pools that were to be
    /// emptied meanwhile are.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device or nothing has begun to capture. What the driver
    /// reports of the emptying; the capture has ended all the same.
    pub fn mark_capture_end(&self, device: DeviceIndex) -> Result<()> {
        let device = self.device(device)?;
        {
            let mut locked = device.lock();
            locked.active_captures = locked.active_captures.checked_sub(1).ok_or_else(|| {
                let text = format!("mark_capture_end: nothing captures on device {}", device.index);
                Error::new(ErrorKind::InvalidArgument, text)
            })?;
        }
        // What was left for the end may be of this allocator.
        device.captures.end();
        let mut locked = device.lock();
        if locked.active_captures > 0 {
            return Ok(());
        }
        locked.visited.clear();
        Ok(locked.empty_waiting_pools()?)
    }
}

impl Device {
    /// Whether any stream captures, as far as allocators of the driver were told.
    #[inline]
    pub(crate) fn captures_under_way(&self) -> bool {
        self.captures.are_under_way()
    }

    /// Whether this thread's calls are in no capture's way: none is under way, or what is about to begin waits for the
    /// call that the thread is in.
    pub(crate) fn is_quiet(&self) -> bool {
        self.captures.quiet().is_some()
    }

    /// The calling thread's current stream of the device.
    fn current_stream(&self) -> StreamHandle {
        current::existing_stream(self.runtime, self.index)
    }
}

impl<'a> Locked<'a> {
    /// Makes this thread's calls disturb no capture. Of the program nothing is run meanwhile but the allocators of
    /// pools.
    pub(crate) fn relaxed(&self) -> Result<Undisturbing<'a>, DriverError> {
        self.device.captures.relaxed(&*self.device.driver)
    }

    /// The capture that a stream takes part in. One that is gone takes part in none.
    pub(crate) fn capture_of(&self, stream: StreamHandle) -> Result<Option<u64>, DriverError> {
        match self.driver().capture_state(stream) {
            Ok(CaptureState::None) | Err(DriverError { status: Status::InvalidHandle, .. }) => Ok(None),
            Ok(CaptureState::Active { id } | CaptureState::Invalidated { id }) => Ok(Some(id)),
            Err(error) => Err(error),
        }
    }

    /// The calling thread's current stream of the device and the capture that it takes part in, if the device has
    /// captures (`is_capture_context`).
    #[inline]
    pub(crate) fn capture_context(&self) -> Result<Option<(StreamHandle, u64)>, DriverError> {
        if self.active_captures == 0 {
            return Ok(None);
        }
        let stream = self.device.current_stream();
        Ok(self.capture_of(stream)?.map(|capture| (stream, capture)))
    }

    /// Whether an allocation for a stream is made in a capture.
    #[inline]
    pub(crate) fn is_capturing(&self, stream: u64) -> Result<bool, DriverError> {
        if self.active_captures == 0 {
            return Ok(false);
        }
        Ok(self.capture_context()?.is_some() || self.capture_of(self.stream(stream))?.is_some())
    }

    /// Defers a freed block that streams use, where that happens in a capture or a stream that uses it captures:
    /// an event would be one in the graph. Says whether it did.
    pub(crate) fn defer(&mut self, id: BlockId) -> Result<bool, DriverError> {
        let own = self.stream(self.blocks[id].stream);
        let in_graph = self.graph_uses.contains_key(&id)
            || self.capturing_use(id)?.is_some()
            || self.capture_of(own)?.is_some();
        let found = match self.capture_context()? {
            Some((stream, capture)) if in_graph => Some((stream, capture, self.free_markers(id)?)),
            Some(_) => {
                // No graph has it: its events are recorded by the next call that is in no capture.
                self.unrecorded.push(id);
                return Ok(true);
            }
            None => self.capturing_use(id)?.map(|(stream, capture)| (stream, capture, Vec::new())),
        };
        let Some((stream, capture, markers)) = found else { return Ok(false) };
        self.deferred.push(Deferred { block: id, until: Until { stream, capture }, markers });
        Ok(true)
    }

    /// A stream that uses the block and takes part in a capture.
    fn capturing_use(&self, id: BlockId) -> Result<Option<(StreamHandle, u64)>, DriverError> {
        for &stream in self.blocks[id].stream_uses.iter() {
            if let Some(capture) = self.capture_of(stream)? {
                return Ok(Some((stream, capture)));
            }
        }
        Ok(None)
    }

    /// Lets blocks that waited for captures which are over wait for what their streams did outside them; all
    /// blocks, or those of one pool (`insert_events_deferred_until_no_capture`).
    pub(crate) fn resume_deferred(&mut self, owner: Option<u32>) -> Result<(), DriverError> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let mut over = Vec::new();
        for (until, _) in self.deferred.awaited() {
            if self.capture_of(until.stream)? != Some(until.capture) {
                over.push(*until);
            }
        }
        if over.is_empty() {
            return Ok(());
        }
        let DeviceState { deferred, blocks, .. } = &mut **self;
        let is_of = |id: BlockId| owner.is_none_or(|owner| blocks[id].pool.owner == owner);
        let over = deferred.take(|deferred| over.contains(&deferred.until) && is_of(deferred.block));
        for id in over {
            self.end_graph_uses(id);
            if self.blocks[id].is_free() {
                self.free_block(id);
            } else {
                self.insert_events(id);
            }
        }
        Ok(())
    }

    /// Empties the pools that were to be emptied while a capture was under way.
    fn empty_waiting_pools(&mut self) -> Result<(), DriverError> {
        let waiting = self.pools.private().filter(|(_, owner)| owner.empty_later);
        let waiting: Vec<_> = waiting.map(|(slot, owner)| (slot, owner.id)).collect();
        let mut result = Ok(());
        for (slot, id) in waiting {
            self.pools.owner_mut(slot).empty_later = false;
            result = result.and(self.empty_pool(id));
        }
        result
    }
}

impl DeviceState {
    /// Takes the uses of a block away that are in a graph: the graph runs as a whole.
    pub(crate) fn end_graph_uses(&mut self, id: BlockId) {
        if let Some(uses) = self.graph_uses.remove(&id) {
            self.blocks[id].stream_uses.retain(|stream| !uses.contains(stream));
        }
    }
}
