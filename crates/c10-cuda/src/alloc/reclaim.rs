#![expect(unsafe_code, reason = "frees segments of which no part is in use")]
//! Giving segments back to the driver: `empty_cache`, the rungs of the ladder, garbage collection.

use super::allocate::Request;
use super::block::Block;
use super::device::Locked;
use super::ids::{BlockId, PoolId};
use super::mempool_id::{MempoolId, PoolFilter};
use super::policy::planned::Arena;
use super::pool_allocator;
use super::scopes::Scope;
use super::trace::TraceAction;
use crate::driver::{CaptureState, DevicePtr, DriverError};

impl Locked<'_> {
    /// Waits for all streams that blocks wait for, and gives back every segment that is wholly free, of private
    /// pools those whose last use is gone (`release_cached_blocks`); with them the events that no block waits for. Gives the first error, after all has been tried.
    /// In a capture that waits for the capture's end, as far as private pools are concerned.
    pub(crate) fn release_cached_blocks(&mut self) -> Result<(), DriverError> {
        if self.capture_context()?.is_some() {
            let freeable: Vec<_> = self.pools.freeable.iter().filter_map(|id| self.pools.find(id)).collect();
            for slot in freeable {
                if self.has_free_segment(slot) {
                    self.pools.owner_mut(slot).empty_later = true;
                } else {
                    self.end_if_over(slot);
                }
            }
            return Ok(());
        }
        let _relaxed = self.relaxed()?;
        let waited = self.synchronize_and_free_events(None);
        let device = self.device;
        self.expandable.settle(&*device.driver);
        let released = self.release_blocks().and(self.release_seeds());
        if let Some(arena) = &mut self.arena {
            // Memory is not short.
            arena.allow();
        }
        waited.and(released).and(self.release_idle_events())
    }

    /// Ends the events that nothing waits for; the first error, after all has been tried. What is not ended stays.
    fn release_idle_events(&mut self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for event in self.idle_events.take() {
            let ended = self.device.driver.event_destroy(event);
            if ended.is_err() {
                self.idle_events.keep(event);
            }
            result = result.and(ended);
        }
        result
    }

    /// Whether a segment of a private pool is wholly free.
    fn has_free_segment(&self, owner: u32) -> bool {
        let mut pools = [true, false].into_iter().map(|is_small| &self.pools[PoolId { owner, is_small }]);
        pools.any(|pool| pool.free.iter(&self.blocks).any(|id| !self.blocks[id].is_split()))
    }

    /// Gives back every segment of the device's own pools that is wholly free, the large pool's first, and those of
    /// freeable private pools; the first error, after all has been tried.
    pub(crate) fn release_blocks(&mut self) -> Result<(), DriverError> {
        let mut result = self.let_go();
        result = result.and(self.release_pool_blocks(PoolId::LARGE));
        result = result.and(self.release_pool_blocks(PoolId::SMALL));
        let freeable: Vec<_> = self.pools.freeable.iter().collect();
        for id in freeable {
            result = result.and(self.release_freeable(id));
        }
        result.and(self.release_arena().map(drop))
    }

    /// Gives back the free segments of a private pool whose last use is gone, and ends it when that were all. One
    /// into which a capture records waits.
    pub(crate) fn release_freeable(&mut self, id: MempoolId) -> Result<(), DriverError> {
        self.wait_for_launches(Some(id))?;
        let mut result = Ok(());
        for is_small in [true, false] {
            // The lock may be given up in between.
            let Some(owner) = self.pools.find(id) else { break };
            let is_recording =
                |scope: &Scope| scope.owner == owner && matches!(scope.filter, PoolFilter::Capture(_));
            if self.pools.scopes.iter().any(is_recording) {
                break;
            }
            let pool = PoolId { owner, is_small };
            result = result.and(self.release_pool_blocks(pool));
        }
        if let Some(owner) = self.pools.find(id) {
            self.end_if_over(owner);
        }
        result
    }

    /// Gives back every segment that is wholly free, of whatever pool.
    pub(crate) fn release_all_blocks(&mut self) -> Result<(), DriverError> {
        let let_go = self.let_go();
        let free: Vec<_> = self.pools.iter().flat_map(|pool| pool.free.iter(&self.blocks)).collect();
        let_go.and(self.release_those(free))
    }

    fn release_pool_blocks(&mut self, pool: PoolId) -> Result<(), DriverError> {
        let free: Vec<_> = self.pools[pool].free.iter(&self.blocks).collect();
        self.release_those(free)
    }

    fn release_those(&mut self, free: Vec<BlockId>) -> Result<(), DriverError> {
        let mut result = Ok(());
        for id in free {
            let released = if self.is_releasable(id) {
                self.release_block(id)
            } else if self.can_shrink(id) {
                self.shrink(id)
            } else {
                Ok(())
            };
            result = result.and(released);
        }
        result
    }

    /// Whether a block is there, free, and all of a segment that cannot grow. It may have gone while the lock was
    /// given up.
    fn is_releasable(&self, id: BlockId) -> bool {
        self.blocks.get(id).is_some_and(|b| b.is_free() && !b.is_split() && b.expandable.is_none())
    }

    /// Whether a block is there, free, and of an expandable segment whose stream can be waited for: one that
    /// captures cannot.
    fn can_shrink(&self, id: BlockId) -> bool {
        let Some(block) = self.blocks.get(id).filter(|b| b.is_free() && b.mapped) else { return false };
        let is_quiet = || self.driver().capture_state(self.stream(block.stream)) == Ok(CaptureState::None);
        // What a window maps stays at home.
        let is_shown = || self.windows.map_within(block.ptr, block.end());
        block.expandable.is_some() && (!self.device.captures_under_way() || is_quiet()) && !is_shown()
    }

    /// Gives the segment at an address back if it is wholly free, and says whether it was.
    pub(crate) fn release_segment(&mut self, base: u64) -> Result<bool, DriverError> {
        if self.arena.as_ref().and_then(Arena::range).is_some_and(|(start, _)| start == base) {
            return self.release_arena();
        }
        let is_whole = |block: &Block| block.expandable.is_none() && !block.is_split();
        let is_it = |id: &BlockId| self.blocks[*id].ptr == base && is_whole(&self.blocks[*id]);
        let found = self.pools.iter().flat_map(|pool| pool.free.iter(&self.blocks)).find(is_it);
        let Some(id) = found else { return Ok(false) };
        let owner = self.pools.owner(self.blocks[id].pool.owner);
        if owner.graphs > 0 {
            // A graph uses it whenever it is replayed.
            return Ok(false);
        }
        let pool = owner.id;
        self.wait_for_launches(Some(pool))?;
        self.release_block(id).map(|()| true)
    }

    /// Makes room for a request out of segments of at least `max_split_size`: one that is large enough, or
    /// several, the largest first. Says whether that was enough (`release_available_cached_blocks`).
    pub(crate) fn release_available_cached_blocks(&mut self, request: &Request) -> Result<bool, DriverError> {
        let Some(max_split) = self.config.max_split_size else { return Ok(false) };
        let wanted = request.size.max(max_split);
        let stream = request.stream;
        if let Some(id) = self.pools[request.pool].free.best_fit(&self.blocks, stream, wanted) {
            if self.blocks[id].is_split() || self.blocks[id].expandable.is_some() {
                return Ok(false);
            }
            self.release_block(id)?;
            return Ok(true);
        }
        let smaller: Vec<_> = self.pools[request.pool].free.smaller(&self.blocks, stream, wanted).collect();
        let mut released = 0;
        for id in smaller {
            let Some(size) = self.blocks.get(id).map(|block| block.size) else { continue };
            if released >= wanted || size < max_split {
                break;
            }
            if self.is_releasable(id) {
                self.release_block(id)?;
                released += size;
            }
        }
        Ok(released >= wanted)
    }

    /// Gives back the large pool's wholly free segments that have gone unused for longest, until the total is
    /// below the threshold (`garbage_collect_cached_blocks`).
    pub(crate) fn garbage_collect_cached_blocks(&mut self) -> Result<(), DriverError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let threshold = (self.config.garbage_collection_threshold * limit as f64) as u64;
        if self.total_allocated <= threshold {
            return Ok(());
        }
        let target = self.total_allocated - threshold;
        let mut reclaimed = 0;
        let pool = &self.pools[PoolId::LARGE];
        let calls = pool.get_free_blocks_call_count;
        let mut candidates: Vec<(BlockId, u64)> = pool
            .free
            .iter(&self.blocks)
            .filter(|id| !self.blocks[*id].is_split() && self.blocks[*id].expandable.is_none())
            .map(|id| (id, calls - self.blocks[id].gc_count_base))
            .collect();
        while reclaimed < target && !candidates.is_empty() {
            let total_age: u64 = candidates.iter().map(|(_, age)| age).sum();
            let average = total_age as f64 / candidates.len() as f64;
            let mut young = Vec::new();
            let before = candidates.len();
            for (id, age) in candidates {
                if age as f64 >= average {
                    reclaimed += self.blocks[id].size;
                    self.release_block(id)?;
                } else {
                    young.push((id, age));
                }
            }
            if young.len() == before {
                break;
            }
            candidates = young;
        }
        Ok(())
    }

    /// Gives the segment of a free block that is all of it back to the driver.
    fn release_block(&mut self, id: BlockId) -> Result<(), DriverError> {
        let block = &self.blocks[id];
        debug_assert!(block.is_free() && !block.is_split());
        let (ptr, size, stream, pool) = (block.ptr, block.size, block.stream, block.pool);
        let own = self.pools.owner(pool.owner).allocator.clone();
        if own.is_none() {
            // SAFETY: the block is the whole segment, nobody holds it, and the events of other streams have
            // passed. Work of its own stream may be under way: the driver's free waits for that.
            unsafe { self.driver().free(DevicePtr(ptr)) }?;
        }
        let is_small = pool.is_small;
        self.record(TraceAction::SegmentFree, pool, ptr, size, stream);
        self.stats.num_device_free += 1;
        self.total_allocated -= size;
        self.stats.segment.decrease(is_small, 1);
        self.change_reserved(pool, -(size as i64));
        self.pools.owner_mut(pool.owner).segments -= 1;
        if size >= self.config.max_split() {
            self.stats.oversize_segments.decrease(1);
        }
        self.remove_free(id);
        self.blocks.remove(id);
        if let Some(own) = own {
            let stream = self.stream(stream);
            self.unlocked(|| pool_allocator::free(&*own, DevicePtr(ptr), size, stream));
        }
        Ok(())
    }
}
