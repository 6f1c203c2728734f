//! Giving pages of expandable segments back (`unmap_block`, `release_expandable_segment`).

use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::{BlockId, PoolId};
use crate::alloc::trace::TraceAction;
use crate::driver::DriverError;

impl Locked<'_> {
    /// Gives the pages that lie wholly in a free block back to the driver, and the segment's addresses where nothing
    /// of it is left.
    pub(crate) fn shrink(&mut self, id: BlockId) -> Result<(), DriverError> {
        let device = self.device;
        let block = &self.blocks[id];
        debug_assert!(block.is_free() && block.mapped);
        let (at, size, expandable) = (block.ptr, block.size, block.of_expandable());
        let (segment, unreleased) = self.expandable.with_unreleased(expandable);
        let unmapped = segment.unmap(&*device.driver, at, size, unreleased);
        if unmapped.bytes > 0 {
            self.unmap_block(id, unmapped.at, unmapped.bytes, unmapped.asleep);
        }
        match unmapped.error {
            Some(error) => Err(error),
            None => self.release_if_unmapped(id),
        }
    }

    /// Gives a segment back of which the block is all, with no memory behind it.
    fn release_if_unmapped(&mut self, id: BlockId) -> Result<(), DriverError> {
        let block = &self.blocks[id];
        if block.mapped || block.is_split() {
            return Ok(());
        }
        let (device, expandable) = (self.device, block.of_expandable());
        let (segment, unreleased) = self.expandable.with_unreleased(expandable);
        segment.free(&*device.driver, unreleased)?;
        self.expandable.remove(expandable);
        let owner = self.blocks[id].pool.owner;
        self.remove_unmapped(id);
        self.blocks.remove(id);
        self.pools.owner_mut(owner).segments -= 1;
        Ok(())
    }

    /// Gives back the segments of which nothing is mapped any more.
    pub(crate) fn release_unmapped_segments(&mut self) -> Result<(), DriverError> {
        let unmapped: Vec<_> = self.pools.iter().flat_map(|pool| pool.unmapped.iter()).collect();
        self.release_unmapped(unmapped)
    }

    /// Gives back the segments of one pool of which nothing is mapped any more: of those that were to serve a
    /// request for which there was no memory in the end.
    pub(crate) fn release_unmapped_of(&mut self, pool: PoolId) -> Result<(), DriverError> {
        let unmapped: Vec<_> = self.pools[pool].unmapped.iter().collect();
        self.release_unmapped(unmapped)
    }

    fn release_unmapped(&mut self, unmapped: Vec<BlockId>) -> Result<(), DriverError> {
        let mut result = Ok(());
        for id in unmapped {
            result = result.and(self.release_if_unmapped(id));
        }
        result
    }
}

impl DeviceState {
    /// Notes that a part of a free block, of whole pages, has no memory behind it any more; `asleep` bytes of it had
    /// none before, either, and were counted then.
    fn unmap_block(&mut self, id: BlockId, at: u64, bytes: u64, asleep: u64) {
        self.remove_free(id);
        if self.blocks[id].ptr < at {
            let before = at - self.blocks[id].ptr;
            let front = self.cut_front(id, before);
            self.insert_free(front);
        }
        if self.blocks[id].size > bytes {
            let rest = self.cut_behind(id, bytes);
            self.insert_free(rest);
        }
        self.blocks[id].mapped = false;
        self.merge_neighbours(id);
        self.insert_unmapped(id);
        let block = &self.blocks[id];
        let (pool, stream) = (block.pool, block.stream);
        if asleep < bytes {
            self.count_unmapping(pool, bytes - asleep);
            self.record(TraceAction::SegmentUnmap, pool, at, bytes - asleep, stream);
        }
    }

    pub(crate) fn count_unmapping(&mut self, pool: PoolId, bytes: u64) {
        self.total_allocated -= bytes;
        self.change_reserved(pool, -(bytes as i64));
        self.stats.num_device_free += 1;
    }
}
