//! The block that was asked for last, handed out again with nothing searched.
//!
//! // Note [Hot blocks]
//! A program that asks for a block, gives it back, and asks for as much on the same stream gets the same block:
//! the free sets are again what they were when it was found, so that the search would end at the same place. As
//! long as nothing else happens on the device in between, the block need not be merged, searched for and split
//! each time. It is *parked*: the state still says that it is handed out, and how often it went and came is a
//! number. Whoever takes the lock by `Device::lock` finds the state *settled*, as if everything had been done
//! step by step; only the quick paths here look before that.
//!
//! The rules: a block is hot when the last thing that happened on the device was that it was found in a free set
//! (or that it was parked and handed out again), while no history is recorded, no ages are counted, no freed block
//! waits for a stream, nothing captures or goes to a private pool, no race detector watches, no plan is served or
//! recorded, and the block is not one that `max_split_size` keeps whole. Where anybody observes the process's memory the quick paths are not taken.

use c10_core::reporting;

use super::allocate::Request;
use super::device::{DeviceState, Locked};
use super::ids::BlockId;

/// Who holds a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A `DataPtr`.
    Owner,
    /// Whoever has the address.
    Raw,
}

/// The hot block of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hot {
    id: BlockId,
    ptr: u64,
    /// What it was asked for with.
    requested: u64,
    stream: u64,
    /// What handing it out added to `inactive_split` and to `inactive_split_bytes`.
    split: (i64, i64),
    /// How often it has come back and gone out again, uncounted so far.
    rounds: i64,
    holder: Holder,
    /// Whether it has come back since.
    is_parked: bool,
}

impl Hot {
    /// A block that was just found in a free set and handed out, which changed the two statistics by `split`.
    #[inline]
    pub(crate) fn new(
        id: BlockId,
        ptr: u64,
        requested: u64,
        stream: u64,
        split: (i64, i64),
        holder: Holder,
    ) -> Self {
        Self { id, ptr, requested, stream, split, rounds: 0, holder, is_parked: false }
    }
}

impl Locked<'_> {
    /// Notes that a block was found in a free set for the request and is handed out; `split_before` are the two
    /// statistics before it was.
    #[inline]
    pub(crate) fn set_hot(&mut self, id: BlockId, request: &Request, split_before: (i64, i64)) {
        let ages = self.limit.is_some() && self.config.garbage_collection_threshold > 0.0;
        let waits = self.has_waiting();
        // Another thread's request, or one in a capture, may be for another pool.
        let is_scoped = !self.pools.scopes.is_empty() || self.active_captures > 0;
        let block = &self.blocks[id];
        let (ptr, is_whole) = (block.ptr, block.size >= self.config.max_split());
        // A plan, and who makes one, count every request.
        let is_counted = self.arena.is_some() || self.recorder.is_some();
        if ages || waits || is_scoped || self.device.watched || self.trace.is_on() || is_whole || is_counted {
            return;
        }
        let (count, bytes) = self.usage.split_now();
        let split = (count - split_before.0, bytes - split_before.1);
        self.hot = Some(Hot::new(id, ptr, request.requested, request.stream, split, Holder::Owner));
    }
}

impl DeviceState {
    /// Says that the block which was just handed out went to whoever has the address.
    #[inline]
    pub(crate) fn hold_raw(&mut self) {
        if let Some(hot) = &mut self.hot {
            hot.holder = Holder::Raw;
        }
    }

    /// The parked block and its address, handed out again, if the request is the one it was found for.
    #[inline]
    pub(crate) fn take_parked(
        &mut self,
        requested: u64,
        stream: u64,
        holder: Holder,
    ) -> Option<(BlockId, u64)> {
        let hot = self.hot.as_mut()?;
        let is_it = hot.is_parked && hot.requested == requested && hot.stream == stream;
        if !is_it || hot.holder != holder || reporting::is_observed() {
            return None;
        }
        hot.is_parked = false;
        hot.rounds += 1;
        Some((hot.id, hot.ptr))
    }

    /// Parks the block of a slot, which its owner gives back, if it is the hot one.
    #[inline]
    pub(crate) fn park_owned(&mut self, index: u32) -> bool {
        let last = self.owned == 1 && self.is_closed;
        !last && self.park(|hot| hot.id.index == index && hot.holder == Holder::Owner) && {
            self.owned -= 1;
            true
        }
    }

    /// Parks the block at an address, which comes back by a raw call, if it is the hot one.
    #[inline]
    pub(crate) fn park_raw(&mut self, ptr: u64) -> bool {
        self.park(|hot| hot.ptr == ptr && hot.holder == Holder::Raw)
    }

    #[inline]
    fn park(&mut self, is_it: impl Fn(&Hot) -> bool) -> bool {
        match &mut self.hot {
            Some(hot) if !hot.is_parked && is_it(hot) && !reporting::is_observed() => {
                hot.is_parked = true;
                true
            }
            _ => false,
        }
    }

    /// Counts what the hot block did, and frees it if it is parked. There is none from here on.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(hot) = &self.hot {
            if hot.is_parked || hot.rounds > 0 {
                self.settle_hot();
            }
            self.hot = None;
        }
    }

    #[cold]
    fn settle_hot(&mut self) {
        let Some(hot) = self.hot.take() else { return };
        let block = &self.blocks[hot.id];
        self.usage.repeat(block.pool.is_small, (block.size, block.requested), hot.split, hot.rounds);
        if hot.is_parked {
            if hot.holder == Holder::Raw {
                self.raw.remove(hot.ptr);
            }
            self.free_unused(hot.id);
        }
    }
}
