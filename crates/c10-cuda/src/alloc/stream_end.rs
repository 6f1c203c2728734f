//! Streams that end before the memory that they used: what they hold in their last moment is waited for by events, and
//! nothing names them later.
//!
//! A block that is handed out may so have events in the queues. It waits for those that are left when it is freed.

use std::collections::BTreeSet;

use super::device::{Device, DeviceState, Locked};
use super::ids::BlockId;
use crate::driver::{DriverError, StreamHandle};
use crate::stream::StreamUser;

impl StreamUser for Device {
    fn before_end(&self, stream: StreamHandle) -> Result<(), DriverError> {
        self.lock().before_end(stream)
    }
}

impl Locked<'_> {
    /// Records an event for each block that the stream uses. What it uses in a capture is the graph's.
    fn before_end(&mut self, stream: StreamHandle) -> Result<(), DriverError> {
        let uses = |(id, block): (BlockId, &super::block::Block)| {
            block.stream_uses.binary_search(&stream).is_ok().then_some(id)
        };
        let used: Vec<BlockId> = self.blocks.iter().filter_map(uses).collect();
        if used.is_empty() || self.capture_of(stream)?.is_some() {
            return Ok(());
        }
        let deferred: BTreeSet<BlockId> = self.deferred.iter().map(|deferred| deferred.block).collect();
        for id in used.into_iter().filter(|id| !deferred.contains(id)) {
            let event = self.record_event(stream)?;
            self.blocks[id].stream_uses.retain(|used| *used != stream);
            self.wait_for(id, stream, event);
        }
        let DeviceState { unrecorded, stranded, blocks, .. } = &mut **self;
        for waiting in [unrecorded, stranded] {
            waiting.retain(|id| !blocks[*id].stream_uses.is_empty());
        }
        Ok(())
    }
}
