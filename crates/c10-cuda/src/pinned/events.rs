//! Blocks that streams use: the events that a free waits for.

use std::collections::BTreeSet;

use super::block::{Block, State};
use super::pool::{Locked, PoolState};
use crate::driver::{CaptureState, DriverError, EventHandle, Status, StreamHandle};
use crate::event_queues::enqueue;

impl Locked<'_> {
    /// Records an event on each stream that uses a waiting block, on the stream's own device. When the driver refuses
    /// one, the block waits to be tried again, or for all of the device where the stream is gone.
    pub(super) fn insert_events(&mut self, at: usize) {
        while let Some(stream) = self.blocks.get(&at).and_then(|block| block.streams.last().copied()) {
            match self.record_event(stream) {
                Ok(None) => {
                    self.unrecorded.push(at);
                    return;
                }
                Ok(Some(event)) => {
                    if let Some(block) = self.blocks.get_mut(&at) {
                        block.streams.pop();
                        block.events += 1;
                    }
                    enqueue(&mut self.queues, stream, event, at);
                }
                Err(error) => {
                    self.unreported = Some(error);
                    let is_gone = error.status == Status::InvalidHandle;
                    let waiting = if is_gone { &mut self.stranded } else { &mut self.unrecorded };
                    waiting.push(at);
                    return;
                }
            }
        }
    }

    /// An event behind all that the stream holds; `None` while it captures, when an event would be the graph's.
    fn record_event(&mut self, stream: StreamHandle) -> Result<Option<EventHandle>, DriverError> {
        // It does not begin to capture in between.
        let _quiet = self.pool.captures.quiet();
        if self.pool.driver.capture_state(stream)? != CaptureState::None {
            return Ok(None);
        }
        let driver = &*self.pool.driver;
        self.idle_events.record(driver, stream).map(Some)
    }

    /// Makes available what streams have passed: each stream's queue is looked at up to the first event that has not.
    pub(super) fn process_events(&mut self) -> Result<(), DriverError> {
        self.retry_unrecorded();
        if self.queues.is_empty() {
            return Ok(());
        }
        let _relaxed = self.pool.captures.relaxed_mode(&*self.pool.driver)?;
        let mut result = Ok(());
        for place in 0..self.queues.len() {
            // A stream whose event cannot be asked for does not keep the others from theirs.
            result = result.and(self.process_queue(place));
        }
        self.queues.retain(|(_, queue)| !queue.is_empty());
        result
    }

    fn process_queue(&mut self, place: usize) -> Result<(), DriverError> {
        while let Some(&(event, _)) = self.queues[place].1.front() {
            if !self.pool.driver.event_query(event)? {
                break;
            }
            self.pop(place);
        }
        Ok(())
    }

    /// As [`process_events`](Self::process_events), of the streams that blocks of a class wait for.
    pub(super) fn process_events_of(&mut self, size: u64) -> Result<(), DriverError> {
        self.retry_unrecorded();
        if self.queues.is_empty() {
            return Ok(());
        }
        let _relaxed = self.pool.captures.relaxed_mode(&*self.pool.driver)?;
        let class = super::size::class(size);
        for place in 0..self.queues.len() {
            let is_of = |(_, at): &(EventHandle, usize)| {
                self.blocks.get(at).is_some_and(|block| super::size::class(block.bytes) == class)
            };
            if self.queues[place].1.iter().any(is_of) {
                self.process_queue(place)?;
            }
        }
        self.queues.retain(|(_, queue)| !queue.is_empty());
        Ok(())
    }

    /// Takes the first event of a queue, which has passed.
    fn pop(&mut self, place: usize) {
        let Some((event, at)) = self.queues[place].1.pop_front() else { return };
        self.idle_events.keep(event);
        let Some(block) = self.blocks.get_mut(&at) else { return };
        block.events -= 1;
        if block.state == State::Waiting && block.events == 0 && block.streams.is_empty() {
            self.ready(at);
        }
    }

    /// Lets blocks that a stream uses wait for what it holds now: it ends.
    pub(super) fn before_end(&mut self, stream: StreamHandle) -> Result<(), DriverError> {
        let uses = |(at, block): (&usize, &Block)| block.streams.contains(&stream).then_some(*at);
        let used: Vec<usize> = self.blocks.iter().filter_map(uses).collect();
        for at in used {
            // What a graph records is not its work.
            let Some(event) = self.record_event(stream)? else { continue };
            if let Some(block) = self.blocks.get_mut(&at) {
                block.streams.retain(|used| *used != stream);
                block.events += 1;
            }
            enqueue(&mut self.queues, stream, event, at);
        }
        let PoolState { unrecorded, stranded, blocks, .. } = &mut **self;
        for waiting in [unrecorded, stranded] {
            waiting.retain(|at| blocks.get(at).is_some_and(|block| !block.streams.is_empty()));
        }
        Ok(())
    }

    fn retry_unrecorded(&mut self) {
        for at in std::mem::take(&mut self.unrecorded) {
            self.insert_events(at);
        }
    }

    /// Waits for all work of the devices whose streams are gone, and makes available what they used.
    pub(super) fn synchronize_stranded(&mut self) -> Result<(), DriverError> {
        // A device of which a stream captures cannot be waited for.
        if self.stranded.is_empty() {
            return Ok(());
        }
        let Some(_quiet) = self.pool.captures.quiet() else { return Ok(()) };
        let _relaxed = self.pool.captures.relaxed_mode(&*self.pool.driver)?;
        let of_block = |at: &usize| self.blocks.get(at).map(|block| block.streams.clone());
        let streams = self.stranded.iter().filter_map(of_block).flatten();
        let devices: BTreeSet<_> = streams.map(|stream| stream.device).collect();
        for device in devices {
            self.pool.driver.device_synchronize(device)?;
        }
        for at in std::mem::take(&mut self.stranded) {
            let Some(block) = self.blocks.get_mut(&at) else { continue };
            block.streams.clear();
            if block.events == 0 {
                self.ready(at);
            }
        }
        Ok(())
    }
}
