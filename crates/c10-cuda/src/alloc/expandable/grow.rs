//! Allocation from expandable segments: where a request can be served by mapping pages, and the mapping
//! (`find_expandable_block`, `map_block`, `try_allocate_expandable_block`).

use super::reserve::ReserveLimit;
use super::segment::ExpandableSegment;
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::block::Block;
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::{BlockId, PoolId};
use crate::alloc::size::SMALL_BUFFER;
use crate::alloc::trace::TraceAction;
use crate::driver::{DriverError, Status};

/// The numbers of a request that found no addresses for another segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoAddresses {
    pub(crate) error: DriverError,
    /// What the segment would have taken.
    pub(crate) bytes: u64,
    /// How many segments the device has, and their addresses in bytes.
    pub(crate) segments: usize,
    pub(crate) reserved: u64,
}

impl Locked<'_> {
    /// A block for a request, in no free set, out of pages that are mapped for it; `None` when memory or addresses
    /// run out. What was mapped until then stays, as free memory of the pool.
    pub(crate) fn grow(&mut self, request: &Request) -> Result<Option<BlockId>, Refused> {
        let Some(mut candidate) = self.find_expandable_block(request)? else { return Ok(None) };
        let size = request.size;
        if !self.blocks[candidate].mapped {
            let bytes = size.min(self.blocks[candidate].size);
            if !self.map_block(candidate, bytes, 1)? {
                return Ok(None);
            }
        }
        while self.blocks[candidate].size < size {
            // Free memory, and behind it addresses with no memory that make up what is missing.
            let block = &self.blocks[candidate];
            let (next, behind) = self.blocks.next_of(block).expect("the blocks behind make up the size");
            let bytes = (size - block.size).min(behind.size);
            if !self.map_block(next, bytes, 1)? {
                return Ok(None);
            }
            candidate = next;
        }
        self.remove_free(candidate);
        Ok(Some(candidate))
    }

    /// The first of a row of blocks, free or unmapped, that together have the size; of a new segment when there is
    /// none; `None` when a segment has too few addresses.
    fn find_expandable_block(&mut self, request: &Request) -> Result<Option<BlockId>, Refused> {
        for unmapped in self.pools[request.pool].unmapped.of_stream(request.stream) {
            let before = self.blocks.prev_of(&self.blocks[unmapped]).filter(|(_, before)| before.is_free());
            let first = before.map_or(unmapped, |(id, _)| id);
            if self.has_room(first, request.size) {
                return Ok(Some(first));
            }
        }
        self.new_segment(request)
    }

    fn new_segment(&mut self, request: &Request) -> Result<Option<BlockId>, Refused> {
        let limit = self.reserve_limit(request.stream)?;
        let stream = self.stream(request.stream);
        let page = self.page_of(!request.pool.is_small);
        let mut segment =
            ExpandableSegment::reserve(self.driver(), stream, page, limit.bytes, &self.expandable.peers)
                .map_err(|error| self.no_addresses(error, limit.bytes.next_multiple_of(page)))?;
        if segment.bytes() < request.size {
            let device = self.device;
            if let Err(error) = segment.free(&*device.driver, &mut self.expandable.unreleased) {
                // It is there, and may serve a smaller request.
                self.insert_segment(segment, request);
                return Err(error.into());
            }
            return Ok(None);
        }
        Ok(Some(self.insert_segment(segment, request)))
    }

    /// How many addresses a segment of a stream may take.
    pub(crate) fn reserve_limit(&self, stream: u64) -> Result<ReserveLimit, DriverError> {
        let total = self.driver().device_props(self.device.index)?.total_memory;
        Ok(ReserveLimit::new(&self.config, self.expandable.reserve_class(stream), total))
    }

    /// Puts memory behind the first `bytes` bytes of an unmapped block, in whole pages, and makes it one with its
    /// free neighbours. Each physical handle gets at most `run` pages. Whether there was memory for that.
    pub(crate) fn map_block(&mut self, id: BlockId, bytes: u64, run: usize) -> Result<bool, DriverError> {
        let device = self.device;
        let block = &self.blocks[id];
        debug_assert!(!block.mapped && bytes <= block.size, "pages are mapped where there are none");
        let (at, size) = (block.ptr, block.size);
        let (expandable, pool, stream) = (block.of_expandable(), block.pool, block.stream);
        let (segment, unreleased) = self.expandable.with_unreleased(expandable);
        let mapped = match segment.map(&*device.driver, at, bytes, run, unreleased) {
            Ok(mapped) => mapped,
            Err(DriverError { status: Status::OutOfMemory, .. }) => return Ok(false),
            Err(other) => return Err(other),
        };
        self.remove_unmapped(id);
        if mapped < size {
            let rest = self.cut_behind(id, mapped);
            self.insert_unmapped(rest);
        }
        self.blocks[id].mapped = true;
        self.merge_neighbours(id);
        self.insert_free(id);
        self.count_mapping(pool, mapped);
        self.record(TraceAction::SegmentMap, pool, at, mapped, stream);
        Ok(true)
    }
}

impl DeviceState {
    /// Whether a pool's memory comes from expandable segments.
    #[inline]
    pub(crate) fn is_expandable(&self, pool: PoolId) -> bool {
        let owner = self.pools.owner(pool.owner);
        (self.config.expandable_segments || owner.expandable) && owner.allocator.is_none()
    }

    /// The free block that a request takes where segments grow: of those that fit, going from the smallest, the
    /// first that would not leave the next more room to grow. A block that can grow counts as large as it can get,
    /// so that it is not used up for what a block in the middle can serve.
    pub(crate) fn best_expandable_fit(&self, request: &Request) -> Option<BlockId> {
        let free = &self.pools[request.pool].free;
        let room = |id: BlockId| {
            let block = &self.blocks[id];
            let behind = self.blocks.next_of(block).filter(|(_, behind)| !behind.mapped);
            block.size + behind.map_or(0, |(_, behind)| behind.size)
        };
        let mut id = free.best_fit(&self.blocks, request.stream, request.size)?;
        while let Some(next) = free.next(&self.blocks, id).filter(|next| room(*next) < room(id)) {
            id = next;
        }
        Some(id)
    }

    /// Whether a block and the free and unmapped ones behind it have `size` bytes.
    fn has_room(&self, first: BlockId, size: u64) -> bool {
        let mut bytes = 0;
        self.blocks.row_from(first).take_while(|(_, block)| block.is_free()).any(|(_, block)| {
            bytes += block.size;
            bytes >= size
        })
    }

    /// Bytes of a page, in the pools of large requests and of small ones.
    pub(crate) fn page_of(&self, is_large: bool) -> u64 {
        if is_large { self.config.large_segment_size } else { SMALL_BUFFER }
    }

    /// Takes in a new segment, as one unmapped block.
    pub(crate) fn insert_segment(&mut self, segment: ExpandableSegment, request: &Request) -> BlockId {
        let (ptr, size) = (segment.base(), segment.bytes());
        let expandable = self.expandable.insert(segment);
        let registration = self.next_registration;
        self.next_registration += 1;
        let block = Block::new(ptr, size, request.stream, registration, request.pool);
        let id = self.blocks.insert(Block { mapped: false, expandable: Some(expandable), ..block });
        self.insert_unmapped(id);
        self.pools.owner_mut(request.pool.owner).segments += 1;
        id
    }

    /// Puts an unmapped block into its pool's set.
    pub(crate) fn insert_unmapped(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        self.pools[block.pool].unmapped.insert(id, block);
    }

    /// Takes an unmapped block out of its pool's set.
    pub(crate) fn remove_unmapped(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        self.pools[block.pool].unmapped.remove(id, block);
    }

    pub(crate) fn count_mapping(&mut self, pool: PoolId, bytes: u64) {
        self.total_allocated += bytes;
        self.change_reserved(pool, bytes as i64);
        self.stats.num_device_alloc += 1;
    }

    /// Why a segment could not be had.
    pub(crate) fn no_addresses(&self, error: DriverError, bytes: u64) -> Refused {
        if error.status != Status::OutOfMemory {
            return Refused::Driver(error);
        }
        let held = self.expandable.iter();
        let (segments, reserved) =
            held.fold((0, 0_u64), |(count, sum), (_, segment)| (count + 1, sum + segment.bytes()));
        Refused::NoAddresses(NoAddresses { error, bytes, segments, reserved })
    }
}
