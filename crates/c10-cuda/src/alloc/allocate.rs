//! Allocation: a cached block, or the ladder down to out of memory (`DeviceCachingAllocator::malloc`).

use super::block::Block;
use super::callbacks::Callbacks;
use super::device::{DeviceState, Locked};
use super::expandable::NoAddresses;
use super::ids::{BlockId, PoolId};
use super::mempool_id::MempoolId;
use super::pool_allocator;
use super::size::{REQUEST_CAP, round_size, segment_size};
use super::trace::TraceAction;
use crate::driver::{DevicePtr, DriverError, Status};

/// A request, rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// What the program asked for, in bytes.
    pub(crate) requested: u64,
    /// The block it gets.
    pub(crate) size: u64,
    /// The segment asked of the driver when there is no block.
    pub(crate) segment: u64,
    pub(crate) stream: u64,
    pub(crate) pool: PoolId,
}

/// Why there is no block.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The request, of so many bytes, is of 2^60 or more.
    TooLarge(u64),
    /// The driver or the limit has no memory for it, after everything was tried.
    OutOfMemory(Request),
    /// `throw_on_cudamalloc_oom` rejects it.
    Rejected(Request),
    /// The pool that it goes to is suspended.
    Suspended(MempoolId),
    /// There are no addresses for another expandable segment.
    NoAddresses(NoAddresses),
    /// The driver failed otherwise.
    Driver(DriverError),
}

impl From<DriverError> for Refused {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

/// What came of asking the driver.
#[derive(Debug)]
pub(crate) enum Segment {
    /// A block that is in no free set.
    Got(BlockId),
    NoMemory,
}

impl Locked<'_> {
    /// A block for `requested` bytes, handed out.
    pub(crate) fn malloc(
        &mut self,
        requested: u64,
        stream: u64,
        callbacks: &Callbacks,
    ) -> Result<BlockId, Refused> {
        if requested >= REQUEST_CAP {
            return Err(Refused::TooLarge(requested));
        }
        let capturing = self.housekeep(stream)?;
        if self.is_plain
            && self.trace.is_quiet()
            && let Some((id, _)) = self.malloc_plain(requested, stream)
        {
            return Ok(id);
        }
        let mut request = self.request(requested, stream)?;
        self.check_awake(&request)?;
        if let Some(id) = self.planned_block(&request, capturing)? {
            return Ok(id);
        }
        if let Some(found) = self.get_free_block(&request) {
            let split_before = self.usage.split_now();
            let id = self.hand_out(found, &request);
            self.set_hot(id, &request, split_before);
            return Ok(id);
        }
        let id = self.obtain(&mut request, capturing, callbacks)?;
        Ok(self.hand_out(id, &request))
    }

    /// What every allocation does first: looks which blocks have become free. Says whether it is in a capture.
    #[inline]
    pub(crate) fn housekeep(&mut self, stream: u64) -> Result<bool, DriverError> {
        let capturing = self.is_capturing(stream)?;
        if capturing {
            self.free_safe_blocks(stream)?;
        } else if !self.has_polled {
            self.process_events()?;
        }
        Ok(capturing)
    }

    pub(crate) fn request(&self, requested: u64, stream: u64) -> Result<Request, DriverError> {
        let size = round_size(requested, &self.config.roundup_power2_divisions);
        let pool = self.choose_pool(size, stream)?;
        Ok(Request { requested, size, segment: segment_size(size, &self.config), stream, pool })
    }

    /// A block that is in no free set. Keeps the request's pool meanwhile: the lock may be given up.
    fn obtain(
        &mut self,
        request: &mut Request,
        capturing: bool,
        callbacks: &Callbacks,
    ) -> Result<BlockId, Refused> {
        let owner = request.pool.owner;
        let pinned = self.pin(owner);
        let locked = &mut *pinned.locked;
        let found = match locked.run_callbacks(request, callbacks) {
            Some(id) => Ok(id),
            None => match locked.relaxed() {
                Ok(_relaxed) => locked.climb(request, capturing),
                Err(error) => Err(error.into()),
            },
        };
        drop(pinned);
        if found.is_err() {
            self.end_if_over(owner);
        }
        found
    }

    /// Asks the program's callbacks to free something; a block if one then fits.
    fn run_callbacks(&mut self, request: &Request, callbacks: &Callbacks) -> Option<BlockId> {
        if callbacks.is_empty() {
            return None;
        }
        // They may free blocks of this allocator, so that they must not run under the lock.
        let freed = self.unlocked(|| callbacks.free_memory());
        if freed { self.get_free_block(request) } else { None }
    }

    /// Everything that may yet give a block, in PyTorch's order. A capture only asks the driver and other pools:
    /// see Note [Captures].
    fn climb(&mut self, request: &mut Request, capturing: bool) -> Result<BlockId, Refused> {
        if !capturing && self.counts_ages() {
            self.garbage_collect_cached_blocks()?;
        }
        if let Segment::Got(id) = self.alloc_segment(request, false)? {
            return Ok(id);
        }
        if let Some(id) = self.block_of_other_pools(request) {
            return Ok(id);
        }
        if capturing {
            return Err(Refused::OutOfMemory(*request));
        }
        if self.release_available_cached_blocks(request)?
            && let Segment::Got(id) = self.alloc_segment(request, false)?
        {
            return Ok(id);
        }
        self.synchronize_and_free_events(None)?;
        // Differs from PyTorch: what the wait has freed is used before more is freed and asked for
        // (pytorch/pytorch#189504).
        if self.config.search_after_synchronize
            && let Some(id) = self.get_free_block(request)
        {
            return Ok(id);
        }
        self.release_blocks()?;
        match self.alloc_segment(request, true)? {
            Segment::Got(id) => Ok(id),
            Segment::NoMemory => Err(Refused::OutOfMemory(*request)),
        }
    }

    /// Memory from the driver as one block, in no free set (`alloc_block`).
    fn alloc_segment(&mut self, request: &Request, is_retry: bool) -> Result<Segment, Refused> {
        if is_retry {
            self.stats.num_alloc_retries += 1;
        }
        self.obtain_memory(request)
    }

    /// A segment, or pages of an expandable one.
    pub(crate) fn obtain_segment(&mut self, request: &Request) -> Result<Segment, Refused> {
        if !self.may_take(request.segment, request)? {
            return Ok(Segment::NoMemory);
        }
        if self.is_expandable(request.pool) {
            return Ok(self.grow(request)?.map_or(Segment::NoMemory, Segment::Got));
        }
        match self.segment_memory(request)? {
            Some(ptr) => Ok(Segment::Got(self.register_segment(ptr, request))),
            None => Ok(Segment::NoMemory),
        }
    }

    /// Whether the limit leaves room for so many bytes more.
    pub(crate) fn may_take(&mut self, bytes: u64, request: &Request) -> Result<bool, Refused> {
        // Cannot overflow: a segment is below 2^61, and all of them together below 2^63.
        let total = self.total_allocated + bytes;
        if self.limit.is_some_and(|limit| total > limit) {
            return Ok(false);
        }
        if self.config.throw_on_malloc_oom && self.is_beyond_fraction(total)? {
            self.stats.num_oom_rejections += 1;
            return Err(Refused::Rejected(*request));
        }
        Ok(true)
    }

    /// Memory for a segment from the pool's own allocator or from the driver, if there is any.
    fn segment_memory(&mut self, request: &Request) -> Result<Option<DevicePtr>, DriverError> {
        if let Some(own) = self.pools.owner(request.pool.owner).allocator.clone() {
            let stream = self.stream(request.stream);
            return Ok(self.unlocked(|| pool_allocator::alloc(&*own, request.segment, stream)));
        }
        match self.driver_malloc(request.segment) {
            Ok(ptr) => Ok(Some(ptr)),
            Err(DriverError { status: Status::OutOfMemory, .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// A free block of a pool that serves others when memory is short, for a request outside private pools
    /// (`try_mempool_fallback`).
    // Differs from PyTorch: also of a pool that allocations go to at the time, which ends there in an error.
    fn block_of_other_pools(&mut self, request: &mut Request) -> Option<BlockId> {
        if self.pools.use_on_oom.is_empty() || request.pool.owner != 0 {
            return None;
        }
        let pools: Vec<_> = self.pools.use_on_oom.iter().filter_map(|id| self.pools.find(id)).collect();
        for owner in pools {
            let there = Request { pool: PoolId { owner, ..request.pool }, ..*request };
            // As in PyTorch, growing segments stay their pool's; and so does what a graph uses.
            let is_asleep = self.pools.owner(owner).asleep.is_some();
            if self.is_expandable(there.pool) || is_asleep || self.is_used_by_graphs(owner) {
                continue;
            }
            if let Some(id) = self.get_free_block(&there) {
                *request = there;
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn is_beyond_fraction(&self, total: u64) -> Result<bool, DriverError> {
        let device_total = self.driver().device_props(self.device.index)?.total_memory;
        Ok(total as f64 > self.config.per_process_memory_fraction * device_total as f64)
    }

    fn driver_malloc(&mut self, bytes: u64) -> Result<DevicePtr, DriverError> {
        let device = self.device;
        let call = || device.driver.malloc(device.index, bytes);
        if self.config.release_lock_on_malloc {
            self.unlocked(call)
        } else {
            self.driver().malloc(device.index, bytes)
        }
    }
}

impl DeviceState {
    /// The free block that fits best, taken out of the free set (`get_free_block`).
    #[inline]
    pub(crate) fn take_best_fit(&mut self, request: &Request) -> Option<BlockId> {
        let ages = self.counts_ages();
        let max_split = self.config.max_split();
        let slack = self.config.max_non_split_rounding_size;
        let size = request.size;
        let is_expandable = self.is_expandable(request.pool);
        let pool = &mut self.pools[request.pool];
        if ages {
            pool.get_free_blocks_call_count += 1;
        }
        let fits = |found: u64| {
            if size < max_split {
                // Large blocks are kept for large requests,
                found < max_split
            } else {
                // which may not waste more of them than a segment.
                found < size.saturating_add(slack)
            }
        };
        if !is_expandable {
            return pool.free.take_best_fit(&mut self.blocks, request.stream, size, fits);
        }
        let id = self.best_expandable_fit(request).filter(|id| fits(self.blocks[*id].size))?;
        self.remove_free(id);
        Some(id)
    }

    fn register_segment(&mut self, ptr: DevicePtr, request: &Request) -> BlockId {
        let registration = self.count_segment(request.pool, request.segment);
        self.record(TraceAction::SegmentAlloc, request.pool, ptr.0, request.segment, request.stream);
        let block = Block::new(ptr.0, request.segment, request.stream, registration, request.pool);
        self.blocks.insert(block)
    }

    /// Counts a segment that the driver has given, and numbers it.
    pub(crate) fn count_segment(&mut self, pool: PoolId, bytes: u64) -> u64 {
        let is_small = pool.is_small;
        self.total_allocated += bytes;
        self.stats.segment.increase(is_small, 1);
        self.change_reserved(pool, bytes as i64);
        self.pools.owner_mut(pool.owner).segments += 1;
        if bytes >= self.config.max_split() {
            self.stats.oversize_segments.increase(1);
        }
        self.stats.num_device_alloc += 1;
        self.next_registration += 1;
        self.next_registration - 1
    }

    /// Counts bytes that the driver gave, or got back.
    pub(crate) fn change_reserved(&mut self, pool: PoolId, bytes: i64) {
        self.stats.reserved_bytes.change(pool.is_small, bytes);
        if pool.owner != 0 {
            let id = self.pools.id_of(pool);
            self.stats.reserved_bytes_by_private_pools.entry(id).or_default().change(pool.is_small, bytes);
        }
    }

    /// Counts a block that is handed out.
    pub(crate) fn count_allocation(&mut self, pool: PoolId, size: u64, requested: u64) {
        self.usage.hand_out(pool.is_small, size, requested);
        if size >= self.config.max_split() {
            self.stats.oversize_allocations.increase(1);
        }
    }

    /// Splits the block if that pays, and gives it to the program (`alloc_found_block`).
    pub(crate) fn hand_out(&mut self, found: BlockId, request: &Request) -> BlockId {
        let cut = self.should_split(found, request);
        self.hand_out_cut(found, request, cut)
    }

    /// Gives the block, or what the request needs of it, to the program.
    pub(crate) fn hand_out_cut(&mut self, found: BlockId, request: &Request, cut: bool) -> BlockId {
        let pool = self.blocks[found].pool;
        let already_split = self.blocks[found].is_split();
        let is_expandable = self.blocks[found].expandable.is_some();
        let (id, change) = if cut {
            let id = self.split(found, request.size);
            let rest = self.blocks[found].size as i64;
            (id, if already_split { (0, -(request.size as i64)) } else { (1, rest) })
        } else {
            let size = self.blocks[found].size as i64;
            (found, if already_split { (-1, -size) } else { (0, 0) })
        };
        // Free parts of expandable segments can be given back.
        if !is_expandable {
            self.usage.change_split(pool.is_small, change);
        }
        let block = &mut self.blocks[id];
        block.allocated = true;
        block.requested = request.requested;
        let (ptr, size) = (block.ptr, block.size);
        self.count_allocation(pool, size, request.requested);
        self.record(TraceAction::Alloc, pool, ptr, request.requested, request.stream);
        id
    }
}
