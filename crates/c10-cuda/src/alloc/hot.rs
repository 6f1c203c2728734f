//! The block that was asked for last, handed out again with nothing searched.
//!
//! // Note [Hot blocks]
//! A program that asks for a block, gives it back, and asks for as much on the same stream gets the same block:
//! the free sets are again what they were when it was found, so that the search would end at the same place. As
//! long as nothing else happens on the device in between, the block need not be merged, searched for and split
//! each time. It is *parked*: the state still says that it is handed out, and how often it went and came is a
//! number. Whoever takes the lock by `Device::lock` finds the state *settled*, as if everything had been done
//! step by step; only the paths of an allocation and of a free look before that.
//!
//! The rules: a block is hot when the last thing that happened on the device was that it was found in a free set
//! (or that it was parked and handed out again), while no history is recorded, no ages are counted, no freed block
//! waits for a stream, nothing captures or goes to a private pool, no race detector watches, and the block is not one that `max_split_size` keeps whole.

use super::allocate::Request;
use super::device::{DeviceState, Locked};
use super::ids::BlockId;

/// The hot block of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    id: BlockId,
    /// What it was asked for with.
    requested: u64,
    stream: u64,
    /// What handing it out added to `inactive_split` and to `inactive_split_bytes`.
    split: (i64, i64),
    /// How often it has come back and gone out again, uncounted so far.
    rounds: i64,
    /// Whether it has come back since.
    is_parked: bool,
}

impl Locked<'_> {
    /// The parked block, if the request is the one it was found for.
    #[inline]
    pub(crate) fn take_parked(&mut self, requested: u64, stream: u64) -> Option<BlockId> {
        let hot = self.hot.as_mut()?;
        if !hot.is_parked || hot.requested != requested || hot.stream != stream {
            return None;
        }
        hot.is_parked = false;
        hot.rounds += 1;
        Some(hot.id)
    }

    /// Parks the block if it is the hot one, which no other stream uses.
    #[inline]
    pub(crate) fn park(&mut self, id: BlockId) -> bool {
        let Some(hot) = self.hot.as_mut().filter(|hot| hot.id == id) else { return false };
        debug_assert!(!hot.is_parked, "a block that is handed out is freed once");
        hot.is_parked = true;
        true
    }

    /// Notes that a block was found in a free set for the request and is handed out; `split_before` are the two
    /// statistics before it was.
    #[inline]
    pub(crate) fn set_hot(&mut self, id: BlockId, request: &Request, split_before: (i64, i64)) {
        let ages = self.limit.is_some() && self.config.garbage_collection_threshold > 0.0;
        let waits = self.queued_events > 0 || !self.unrecorded.is_empty() || !self.deferred.is_empty();
        // Another thread's request, or one in a capture, may be for another pool.
        let is_scoped = !self.pools.scopes.is_empty() || self.active_captures > 0;
        if ages
            || is_scoped
            || waits
            || self.device.watched
            || self.trace.is_on()
            || self.blocks[id].size >= self.config.max_split()
        {
            return;
        }
        let (count, bytes) = self.split_now();
        let split = (count - split_before.0, bytes - split_before.1);
        let (requested, stream) = (request.requested, request.stream);
        self.hot = Some(Hot { id, requested, stream, split, rounds: 0, is_parked: false });
    }
}

impl DeviceState {
    /// The current `inactive_split` and `inactive_split_bytes`.
    #[inline]
    pub(crate) fn split_now(&self) -> (i64, i64) {
        (self.stats.inactive_split.all.current, self.stats.inactive_split_bytes.all.current)
    }

    /// The bytes that the program holds, whatever is parked.
    pub(crate) fn allocated_now(&self) -> i64 {
        let parked = self.hot.filter(|hot| hot.is_parked).map_or(0, |hot| self.blocks[hot.id].size);
        self.stats.allocated_bytes.all.current - parked as i64
    }

    /// Counts what the hot block did, and frees it if it is parked. There is none from here on.
    #[inline]
    pub(crate) fn settle(&mut self) {
        let Some(hot) = &self.hot else { return };
        if hot.is_parked || hot.rounds > 0 {
            self.settle_hot();
        }
        self.hot = None;
    }

    fn settle_hot(&mut self) {
        let Some(hot) = self.hot.take() else { return };
        let block = &self.blocks[hot.id];
        let (is_small, size, requested) = (block.pool.is_small, block.size as i64, block.requested as i64);
        let stats = &mut self.stats;
        stats.allocation.repeat(is_small, 1, hot.rounds);
        stats.allocated_bytes.repeat(is_small, size, hot.rounds);
        stats.active.repeat(is_small, 1, hot.rounds);
        stats.active_bytes.repeat(is_small, size, hot.rounds);
        stats.requested_bytes.repeat(is_small, requested, hot.rounds);
        stats.inactive_split.repeat(is_small, hot.split.0, hot.rounds);
        stats.inactive_split_bytes.repeat(is_small, hot.split.1, hot.rounds);
        if hot.is_parked {
            self.free_unused(hot.id);
        }
    }
}
