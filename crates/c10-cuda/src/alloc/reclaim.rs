#![expect(unsafe_code, reason = "frees segments of which no part is in use")]
//! Giving segments back to the driver: `empty_cache`, the rungs of the ladder, garbage collection.

use super::allocate::Request;
use super::device::Locked;
use super::ids::{BlockId, PoolId};
use super::trace::TraceAction;
use crate::driver::{DevicePtr, DriverError};

impl Locked<'_> {
    /// Waits for all streams that blocks wait for, and gives back every segment that is wholly free
    /// (`release_cached_blocks`). Gives the first error, after all has been tried.
    pub(crate) fn release_cached_blocks(&mut self) -> Result<(), DriverError> {
        let waited = self.synchronize_and_free_events();
        waited.and(self.release_blocks())
    }

    /// Gives back every segment that is wholly free, the large pool's first; the first error, after all has been
    /// tried.
    pub(crate) fn release_blocks(&mut self) -> Result<(), DriverError> {
        let free: Vec<_> = self.pools.iter().flat_map(|pool| pool.free.iter(&self.blocks)).collect();
        let mut result = Ok(());
        for id in free {
            if !self.blocks[id].is_split() {
                result = result.and(self.release_block(id));
            }
        }
        result
    }

    /// Gives the segment at an address back if it is wholly free, and says whether it was.
    pub(crate) fn release_segment(&mut self, base: u64) -> Result<bool, DriverError> {
        let is_it = |id: &BlockId| self.blocks[*id].ptr == base && !self.blocks[*id].is_split();
        let found = self.pools.iter().flat_map(|pool| pool.free.iter(&self.blocks)).find(is_it);
        match found {
            Some(id) => self.release_block(id).map(|()| true),
            None => Ok(false),
        }
    }

    /// Makes room for a request out of segments of at least `max_split_size`: one that is large enough, or
    /// several, the largest first. Says whether that was enough (`release_available_cached_blocks`).
    pub(crate) fn release_available_cached_blocks(&mut self, request: &Request) -> Result<bool, DriverError> {
        let Some(max_split) = self.config.max_split_size else { return Ok(false) };
        let wanted = request.size.max(max_split);
        let stream = request.stream;
        if let Some(id) = self.pools[request.pool].free.best_fit(&self.blocks, stream, wanted) {
            if self.blocks[id].is_split() {
                return Ok(false);
            }
            self.release_block(id)?;
            return Ok(true);
        }
        let smaller: Vec<_> = self.pools[request.pool].free.smaller(&self.blocks, stream, wanted).collect();
        let mut released = 0;
        for id in smaller {
            let block = &self.blocks[id];
            let size = block.size;
            if released >= wanted || size < max_split {
                break;
            }
            if !block.is_split() {
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
            .filter(|id| !self.blocks[*id].is_split())
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
        let (ptr, size, stream, is_small) = (block.ptr, block.size, block.stream, block.pool.is_small);
        // SAFETY: the block is the whole segment, nobody holds it, and the events of other streams have passed.
        // Work of its own stream may be under way: the driver's free waits for that.
        unsafe { self.driver().free(DevicePtr(ptr)) }?;
        self.record(TraceAction::SegmentFree, ptr, size, stream);
        self.stats.num_device_free += 1;
        self.total_allocated -= size;
        self.stats.segment.decrease(is_small, 1);
        self.stats.reserved_bytes.decrease(is_small, size as i64);
        if size >= self.config.max_split() {
            self.stats.oversize_segments.decrease(1);
        }
        self.remove_free(id);
        self.blocks.remove(id);
        Ok(())
    }
}
