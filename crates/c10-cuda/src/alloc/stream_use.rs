//! Blocks that several streams use: `record_stream`, and the events that a free waits for.
//!
//! // Note [Streams that are gone]
//! An event is recorded when a block is freed, so that it covers all that its stream holds by then. A stream that ends
//! before that is known by events from its last moment, where it is said that it ends ([`stream_end`]). Where it is
//! not, what it held may still be running, and no event can stand for it any more. The block is *stranded*: it is
//! reused only after all work of the device has been waited for, which happens when memory is short and in
//! `empty_cache`, and no call names the stream again.
//!
//! [`stream_end`]: super::stream_end

use std::collections::BTreeSet;

use super::device::{DeviceState, Locked};
use super::ids::BlockId;
use crate::driver::{DriverError, EventHandle, Status, StreamHandle};
use crate::event_queues::{enqueue, take_over};

/// With more streams than this, emptied queues go: looking at them would cost more than making them anew.
const KEPT_QUEUES: usize = 8;

impl Locked<'_> {
    /// Records an event on each stream that uses a freed block. When the driver refuses one, the block waits to
    /// be tried again, or for all of the device where the stream is gone.
    pub(crate) fn insert_events(&mut self, id: BlockId) {
        if self.blocks[id].stream_uses.is_empty() {
            // What it waits for is in the queues already.
            return;
        }
        let device = self.device;
        let quiet = device.captures.quiet();
        if quiet.is_none() {
            match self.defer(id) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    self.unreported = Some(error);
                    self.unrecorded.push(id);
                    return;
                }
            }
        }
        while let Some(&stream) = self.blocks[id].stream_uses.last() {
            match self.record_event(stream) {
                Ok(event) => {
                    self.blocks[id].stream_uses.pop();
                    self.wait_for(id, stream, event);
                }
                Err(error) => {
                    self.refuse_event(id, error);
                    return;
                }
            }
        }
    }

    /// An event that stands for all that the stream holds now.
    pub(crate) fn record_event(&mut self, stream: StreamHandle) -> Result<EventHandle, DriverError> {
        let driver = self.driver();
        self.idle_events.record(driver, stream)
    }

    /// Frees the blocks whose events have passed (`process_events`). Each stream's queue is looked at up to the
    /// first event that has not.
    #[inline]
    pub(crate) fn process_events(&mut self) -> Result<(), DriverError> {
        if self.has_waiting() { self.process_queues() } else { Ok(()) }
    }

    fn process_queues(&mut self) -> Result<(), DriverError> {
        let _relaxed = self.relaxed()?;
        self.resume_deferred(None)?;
        self.retry_unrecorded();
        let driver = self.driver();
        let state = &mut **self;
        for at in 0..state.event_queues.len() {
            while let Some(&(event, _)) = state.event_queues[at].1.front() {
                if !driver.event_query(event)? {
                    break;
                }
                state.pop_event(at);
            }
        }
        if self.event_queues.len() > KEPT_QUEUES {
            self.event_queues.retain(|(_, queue)| !queue.is_empty());
        }
        Ok(())
    }

    /// Waits for every event, or where there is none for all of the device, and frees the blocks; with an owner
    /// those of its pools alone (`synchronize_and_free_events`).
    pub(crate) fn synchronize_and_free_events(&mut self, owner: Option<u32>) -> Result<(), DriverError> {
        self.stats.num_sync_all_streams += 1;
        self.resume_deferred(None)?;
        self.retry_unrecorded();
        for at in 0..self.event_queues.len() {
            self.pass_events(at, |this, event, id| {
                let waits = this.is_of(id, owner);
                if waits {
                    this.driver().event_synchronize(event)?;
                }
                Ok(waits)
            })?;
        }
        self.event_queues.retain(|(_, queue)| !queue.is_empty());
        // A device of which a stream captures cannot be waited for.
        let waits = self.unrecorded.iter().chain(&self.stranded).any(|id| self.is_of(*id, owner));
        if !waits {
            return Ok(());
        }
        let device = self.device;
        let Some(_quiet) = device.captures.quiet() else { return Ok(()) };
        self.synchronize_devices()
    }

    /// Lets blocks wait no more for those events of a queue that are over, wherever in it they are.
    pub(crate) fn pass_events(
        &mut self,
        at: usize,
        is_over: impl Fn(&Self, EventHandle, BlockId) -> Result<bool, DriverError>,
    ) -> Result<(), DriverError> {
        let mut queue = std::mem::take(&mut self.event_queues[at].1);
        let result = take_over(&mut queue, |event, &id| {
            let is_over = is_over(self, event, id)?;
            if is_over {
                self.pass_event(event, id);
            }
            Ok(is_over)
        });
        self.event_queues[at].1 = queue;
        result
    }

    fn is_of(&self, id: BlockId, owner: Option<u32>) -> bool {
        owner.is_none_or(|owner| self.blocks[id].pool.owner == owner)
    }

    /// Waits for all work of every device that a block waits for, and frees all that wait.
    pub(crate) fn synchronize_devices(&mut self) -> Result<(), DriverError> {
        let queues =
            self.event_queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(stream, _)| *stream);
        let waiting = self.unrecorded.iter().chain(&self.stranded);
        let uses = waiting.flat_map(|id| self.blocks[*id].stream_uses.iter()).copied();
        let devices: BTreeSet<_> = queues.chain(uses).map(|stream| stream.device).collect();
        for device in devices {
            self.driver().device_synchronize(device)?;
        }
        for at in 0..self.event_queues.len() {
            while !self.event_queues[at].1.is_empty() {
                self.pop_event(at);
            }
        }
        self.event_queues.clear();
        let mut waiting = std::mem::take(&mut self.unrecorded);
        waiting.append(&mut self.stranded);
        waiting.append(&mut self.deferred.take(|_| true));
        for id in waiting {
            self.blocks[id].stream_uses.clear();
            self.free_block(id);
        }
        Ok(())
    }

    fn retry_unrecorded(&mut self) {
        if self.unrecorded.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.unrecorded) {
            self.insert_events(id);
        }
    }
}

impl Locked<'_> {
    /// Notes that a stream uses a block that is handed out.
    pub(crate) fn record_stream(&mut self, id: BlockId, stream: StreamHandle) -> Result<(), DriverError> {
        if stream == self.stream(self.blocks[id].stream) {
            return Ok(());
        }
        if self.capture_context()?.is_some() {
            let uses = self.graph_uses.entry(id).or_default();
            if !uses.contains(&stream) {
                uses.push(stream);
            }
        }
        self.blocks[id].stream_uses.add(stream);
        Ok(())
    }
}

impl DeviceState {
    /// Lets a freed block wait for an event that was recorded on a stream.
    pub(crate) fn wait_for(&mut self, id: BlockId, on: StreamHandle, event: EventHandle) {
        self.blocks[id].stream_uses.events += 1;
        enqueue(&mut self.event_queues, on, event, id);
        self.queued_events += 1;
    }

    /// Lets a freed block wait, for which the driver records no event, to be tried again, or for all of the device
    /// where the stream is gone.
    pub(crate) fn refuse_event(&mut self, id: BlockId, error: DriverError) {
        self.unreported = Some(error);
        let is_gone = error.status == Status::InvalidHandle;
        let waiting = if is_gone { &mut self.stranded } else { &mut self.unrecorded };
        waiting.push(id);
    }

    /// Takes the first event out of a queue, which has passed.
    pub(crate) fn pop_event(&mut self, at: usize) {
        let (event, id) = self.event_queues[at].1.pop_front().expect("the caller has looked at it");
        self.pass_event(event, id);
    }

    /// Lets a block wait no more for an event, which is in no queue from here on.
    fn pass_event(&mut self, event: EventHandle, id: BlockId) {
        self.queued_events -= 1;
        self.idle_events.keep(event);
        let block = &mut self.blocks[id];
        block.stream_uses.events -= 1;
        if block.is_free() {
            self.free_block(id);
        }
    }
}
