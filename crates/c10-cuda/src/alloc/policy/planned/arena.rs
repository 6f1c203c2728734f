#![expect(unsafe_code, reason = "frees an arena of which nothing is held")]
//! [`Arena`]: a plan at work on a device's memory.
//!
//! The arena is one allocation of the driver, taken when the first request comes that the plan may serve, and given back
//! with the cache when nothing of it is held. Its blocks stand in the block table like all others, so that streams, events
//! and owners find them, but in no free set, and they have no neighbours: what is free of an arena is the plan's to know.
//! Where the driver has no memory for it, the allocator does without until the next iteration begins.

use super::Plan;
use super::serving::{Place, PlanStats, Serving};
use crate::alloc::allocate::{Refused, Request};
use crate::alloc::block::Block;
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::{BlockId, PoolId};
use crate::alloc::size::ROUND_LARGE;
use crate::alloc::trace::TraceAction;
use crate::driver::{DevicePtr, DriverError, Status};
use crate::sync::Arc;

#[derive(Debug)]
pub(crate) struct Arena {
    serving: Serving,
    memory: Option<Memory>,
    /// Whether it has to do without memory for now.
    refused: bool,
}

/// What the driver gave.
#[derive(Clone, Copy, Debug)]
struct Memory {
    base: u64,
    registration: u64,
}

impl Arena {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { serving: Serving::new(plan), memory: None, refused: false }
    }

    /// Its bytes while there is memory: whole pages.
    fn bytes(&self) -> u64 {
        self.serving.plan().height().next_multiple_of(ROUND_LARGE)
    }

    /// Its addresses, while there is memory.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        self.memory.map(|memory| (memory.base, memory.base + self.bytes()))
    }

    /// When it came from the driver, and the stream of each part of it, with the part's end.
    pub(crate) fn parts(&self) -> Option<(u64, Vec<(u64, u64)>)> {
        let Memory { base, registration } = self.memory?;
        let mut parts: Vec<_> = self.serving.lanes().map(|(stream, end)| (stream, base + end)).collect();
        // What the last page has over is of the last lane.
        if let Some(last) = parts.last_mut() {
            last.1 = base + self.bytes();
        }
        Some((registration, parts))
    }

    /// Whether nothing of it is held.
    pub(super) fn is_idle(&self) -> bool {
        self.serving.is_idle()
    }

    pub(super) fn stats(&self) -> PlanStats {
        self.serving.stats()
    }

    pub(super) fn begin_iteration(&mut self) {
        self.refused = false;
        self.serving.begin_lap();
    }

    /// Whether memory may be taken again before an iteration begins.
    pub(crate) fn allow(&mut self) {
        self.refused = false;
    }

    pub(crate) fn give_back(&mut self, ticket: u32) {
        self.serving.give_back(ticket);
    }
}

impl Locked<'_> {
    /// A block in the arena, handed out, if there is a plan and it has a place for the request. What a capture asks
    /// for is its graph's for good, and in no plan.
    #[inline]
    pub(crate) fn planned_block(
        &mut self,
        request: &Request,
        capturing: bool,
    ) -> Result<Option<BlockId>, Refused> {
        if self.arena.is_none() || request.pool.owner != 0 || capturing {
            return Ok(None);
        }
        self.block_in_arena(request)
    }

    fn block_in_arena(&mut self, request: &Request) -> Result<Option<BlockId>, Refused> {
        let Some(memory) = self.arena_memory()? else { return Ok(None) };
        let place = self.arena.as_mut().and_then(|arena| arena.serving.take(request.size, request.stream));
        let Some(Place { ticket, offset }) = place else { return Ok(None) };
        let ptr = memory.base + offset;
        let block = Block {
            requested: request.requested,
            allocated: true,
            placed: Some(ticket),
            ..Block::new(ptr, request.size, request.stream, memory.registration, request.pool)
        };
        let id = self.blocks.insert(block);
        self.count_allocation(request.pool, request.size, request.requested);
        self.record(TraceAction::Alloc, request.pool, ptr, request.requested, request.stream);
        Ok(Some(id))
    }

    /// The arena's memory, taken from the driver if it has some.
    fn arena_memory(&mut self) -> Result<Option<Memory>, DriverError> {
        let Some(arena) = &mut self.arena else { return Ok(None) };
        if arena.memory.is_some() || arena.refused {
            return Ok(arena.memory);
        }
        let bytes = arena.bytes();
        // Whatever comes of it, it is not tried at every request.
        arena.refused = true;
        if bytes == 0 || self.is_beyond_limits(bytes)? {
            return Ok(None);
        }
        // A capture on another stream is not to notice.
        let _relaxed = self.relaxed()?;
        let Some(DevicePtr(base)) = self.memory_for_arena(bytes)? else { return Ok(None) };
        let registration = self.count_segment(PoolId::LARGE, bytes);
        self.record(TraceAction::SegmentAlloc, PoolId::LARGE, base, bytes, 0);
        let memory = Some(Memory { base, registration });
        if let Some(arena) = &mut self.arena {
            arena.memory = memory;
            arena.refused = false;
        }
        Ok(memory)
    }

    /// The driver's memory; where it has none, what is cached is given back first.
    fn memory_for_arena(&mut self, bytes: u64) -> Result<Option<DevicePtr>, DriverError> {
        for is_last in [false, true] {
            match self.driver().malloc(self.device.index, bytes) {
                Ok(base) => return Ok(Some(base)),
                Err(DriverError { status: Status::OutOfMemory, .. }) if is_last => {}
                Err(DriverError { status: Status::OutOfMemory, .. }) => self.release_blocks()?,
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    fn is_beyond_limits(&self, bytes: u64) -> Result<bool, DriverError> {
        let total = self.total_allocated + bytes;
        let is_beyond = self.limit.is_some_and(|limit| total > limit);
        Ok(is_beyond || (self.config.throw_on_malloc_oom && self.is_beyond_fraction(total)?))
    }

    /// Gives the arena's memory back if nothing of it is held, and says whether it was. It does without from then
    /// on: memory is short.
    pub(crate) fn release_arena(&mut self) -> Result<bool, DriverError> {
        let Some(arena) = self.arena.as_mut().filter(|arena| arena.serving.is_idle()) else {
            return Ok(false);
        };
        let Some(Memory { base, .. }) = arena.memory else { return Ok(false) };
        let bytes = arena.bytes();
        let _relaxed = self.relaxed()?;
        // SAFETY: nobody holds any of it, and the events of other streams have passed. Work of its lanes' streams may be
        // under way: the driver's free waits for that.
        unsafe { self.driver().free(DevicePtr(base)) }?;
        if let Some(arena) = &mut self.arena {
            arena.memory = None;
            arena.refused = true;
        }
        self.record(TraceAction::SegmentFree, PoolId::LARGE, base, bytes, 0);
        self.stats.num_device_free += 1;
        self.total_allocated -= bytes;
        self.stats.segment.decrease(false, 1);
        self.change_reserved(PoolId::LARGE, -(bytes as i64));
        self.pools.owner_mut(PoolId::LARGE.owner).segments -= 1;
        if bytes >= self.config.max_split() {
            self.stats.oversize_segments.decrease(1);
        }
        Ok(true)
    }
}

impl DeviceState {
    /// Makes a block of the arena free.
    pub(crate) fn free_planned(&mut self, id: BlockId, ticket: u32) {
        let block = &self.blocks[id];
        let (ptr, stream, pool) = (block.ptr, block.stream, block.pool);
        let (size, requested) = (block.size, block.requested);
        self.graph_uses.remove(&id);
        self.record(TraceAction::FreeCompleted, pool, ptr, requested, stream);
        self.blocks.remove(id);
        self.usage.end_wait(pool.is_small, size, requested);
        self.arena.as_mut().expect("a block is placed in an arena").give_back(ticket);
    }
}
