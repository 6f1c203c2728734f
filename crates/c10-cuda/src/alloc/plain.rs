//! The way of most requests and frees, with nothing on it that they do not need.
//!
//! // Note [Plain requests]
//! With the default settings, and while nobody captures, records stacks, watches or plans, a request is rounded,
//! the smallest free block that fits is taken, and cut if that pays; a block that comes back is joined with its
//! free neighbours. Everything else that [`Locked::malloc`] and [`Locked::free`] look for cannot be there. Whether
//! that is so is looked at once whenever the lock is given up by somebody who could have changed it
//! ([`DeviceState::is_plain`]), and not at every request. What is done here is what is done there, to the same
//! blocks and with the same statistics and history; where anything is out of the ordinary these functions do
//! nothing and say so.
//!
//! [`Locked::malloc`]: super::device::Locked::malloc
//! [`Locked::free`]: super::device::Locked::free

use c10_core::reporting;

use super::device::{Device, DeviceState};
use super::hot::{Holder, Hot};
use super::ids::{BlockId, PoolId};
use super::size::{MIN_BLOCK_SIZE, REQUEST_CAP, SMALL_SIZE};
use super::trace::TraceAction;
use crate::config::{Placement, RoundupPower2Divisions};
use crate::driver::StreamHandle;

impl DeviceState {
    /// Looks whether requests are plain from here on. To be called by whoever has changed anything, before the lock
    /// is given up.
    #[inline]
    pub(crate) fn look(&mut self, device: &Device) {
        self.is_plain = self.is_ordinary
            && !self.is_scoped()
            && !device.watched
            && self.graph_uses.is_empty()
            && self.arena.is_none()
            && self.recorder.is_none()
            && self.trace.is_quiet();
    }

    /// Whether garbage collection counts the ages of free blocks.
    #[inline]
    pub(crate) fn counts_ages(&self) -> bool {
        self.limit.is_some() && self.config.garbage_collection_threshold > 0.0
    }

    /// Whether another thread's request, or one in a capture, may be for another pool.
    #[inline]
    pub(crate) fn is_scoped(&self) -> bool {
        !self.pools.scopes.is_empty() || self.active_captures > 0
    }

    /// Whether a freed block may have become free since, or waits to be looked at.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.queued_events > 0 || !self.unrecorded.is_empty() || !self.deferred.is_empty()
    }

    /// A free block and its address, handed out, if the request is plain and there is one.
    #[inline]
    pub(crate) fn take_plain(
        &mut self,
        requested: u64,
        stream: u64,
        holder: Holder,
    ) -> Option<(BlockId, u64)> {
        if !self.is_plain || reporting::is_observed() {
            return None;
        }
        self.settle();
        if self.has_waiting() {
            return None;
        }
        let taken = self.cut_plain(requested, stream, Some(holder));
        self.check();
        taken
    }

    /// The same, once what has become free was looked at and no block is parked.
    pub(crate) fn malloc_plain(&mut self, requested: u64, stream: u64) -> Option<(BlockId, u64)> {
        let holder = if self.has_waiting() { None } else { Some(Holder::Owner) };
        self.cut_plain(requested, stream, holder)
    }

    /// The same, for whoever is to hold it where it may become hot.
    #[inline(always)]
    fn cut_plain(&mut self, requested: u64, stream: u64, holder: Option<Holder>) -> Option<(BlockId, u64)> {
        if requested >= REQUEST_CAP {
            return None;
        }
        let size = requested.max(1).next_multiple_of(MIN_BLOCK_SIZE);
        let is_small = size <= SMALL_SIZE;
        let pool = PoolId { owner: 0, is_small };
        let Self { blocks, pools, usage, .. } = self;
        let bins = pools[pool].free.known(stream)?;
        let found = bins.first_from(blocks, size)?;
        let block = blocks.block(found);
        let (ptr, whole, was_split) = (block.ptr, block.size, block.is_split());
        let rest = whole - size;
        let cuts = if is_small { rest >= MIN_BLOCK_SIZE } else { rest > SMALL_SIZE };
        let (id, size, split) = if cuts {
            bins.resize(blocks, found, ptr + size, rest);
            let change = if was_split { (0, -(size as i64)) } else { (1, rest as i64) };
            (blocks.insert_before(found, ptr, size), size, change)
        } else {
            bins.remove(blocks, found);
            (blocks.id_of(found), whole, if was_split { (-1, -(whole as i64)) } else { (0, 0) })
        };
        let block = blocks.block_mut(id.index);
        block.allocated = true;
        block.requested = requested;
        usage.change_split(is_small, split);
        usage.hand_out(is_small, size, requested);
        if self.trace.is_on() {
            self.record(TraceAction::Alloc, pool, ptr, requested, stream);
        } else if let Some(holder) = holder {
            self.hot = Some(Hot::new(id, ptr, requested, stream, split, holder));
        }
        Some((id, ptr))
    }

    /// Frees the block at an address, which comes back by a raw call, if that is plain. Says whether it did.
    #[inline]
    pub(crate) fn free_plain_raw(&mut self, ptr: u64) -> bool {
        if !self.is_plain {
            return false;
        }
        self.settle();
        let Some((place, index)) = self.raw.find(&self.blocks, ptr) else { return false };
        if !self.is_plainly_held(index) {
            return false;
        }
        self.raw.vacate(&mut self.blocks, place, index);
        self.free_plain(index);
        true
    }

    /// Frees the block in a slot, whose owner gives it back, if that is plain. Says whether it did.
    #[inline]
    pub(crate) fn free_plain_owned(&mut self, index: u32) -> bool {
        let is_last = self.owned == 1 && self.is_closed;
        if !self.is_plain || is_last {
            return false;
        }
        self.settle();
        if !self.is_plainly_held(index) {
            return false;
        }
        self.owned -= 1;
        self.free_plain(index);
        true
    }

    /// Notes that a stream uses the block in a slot, which is handed out, if requests are plain. Says whether they are.
    #[inline]
    pub(crate) fn record_use_plain(&mut self, index: u32, stream: StreamHandle) -> bool {
        if !self.is_plain {
            return false;
        }
        let own = StreamHandle { device: self.index, raw: self.blocks.block(index).stream };
        if stream != own {
            if !self.use_hot(index) {
                self.settle();
            }
            self.blocks.block_mut(index).stream_uses.add(stream);
        }
        self.check();
        true
    }

    /// Whether the free of a block is plain, where requests are.
    #[inline]
    fn is_plainly_held(&self, index: u32) -> bool {
        let block = self.blocks.block(index);
        block.pool.owner == 0 && block.expandable.is_none() && block.is_blank() && !reporting::is_observed()
    }

    fn free_plain(&mut self, index: u32) {
        let block = self.blocks.block(index);
        let (ptr, size, requested) = (block.ptr, block.size, block.requested);
        let (stream, pool) = (block.stream, block.pool);
        self.usage.free(pool.is_small, size, requested);
        if self.trace.is_on() {
            self.record(TraceAction::FreeRequested, pool, ptr, requested, stream);
            self.record(TraceAction::FreeCompleted, pool, ptr, requested, stream);
        }
        let block = self.blocks.block_mut(index);
        assert!(block.allocated, "a block that is handed out is freed once");
        block.allocated = false;
        let split = self.join(index);
        self.usage.change_split(pool.is_small, split);
        self.check();
    }
}

/// Whether nothing of the configuration makes requests other than plain.
pub(crate) fn is_ordinary(config: &crate::config::Config) -> bool {
    matches!(config.placement, Placement::Exact)
        && !config.expandable_segments
        && config.max_split_size.is_none()
        // No ages of blocks are kept.
        && config.garbage_collection_threshold == 0.0
        && config.roundup_power2_divisions == RoundupPower2Divisions::OFF
}
