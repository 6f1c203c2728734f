//! Freeing, and making neighbours one again once all streams have passed (`free`, `free_block`, `try_merge`).

use super::block::Block;
use super::device::{Device, DeviceState, Locked};
use super::ids::BlockId;
use super::report::Reported;
use super::trace::TraceAction;
use crate::sync::Arc;

impl Locked<'_> {
    /// Takes a block back from the program. What the driver refuses meanwhile is tried again later.
    pub(crate) fn free(&mut self, id: BlockId) -> Reported {
        let max_split = self.config.max_split();
        let block = &self.blocks[id];
        let (ptr, size, requested, stream) = (block.ptr, block.size, block.requested, block.stream);
        let pool = block.pool;
        let waits = !block.stream_uses.are_over();
        if size >= max_split {
            self.stats.oversize_allocations.decrease(1);
        }
        self.record(TraceAction::FreeRequested, pool, ptr, requested, stream);
        self.tell_taken_back(ptr);
        self.end_hold(id);
        if waits {
            self.insert_events(id);
        } else {
            self.free_block(id);
        }
        Reported::new(self, ptr, -(size as i64))
    }
}

impl DeviceState {
    /// Notes that the program holds a block no more.
    pub(crate) fn end_hold(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        assert!(block.allocated, "a block that is handed out is freed once");
        block.allocated = false;
        self.usage.wait(block.pool.is_small, block.size);
    }

    /// Frees a block that no other stream uses and that is not kept whole, with no word to anybody.
    pub(crate) fn free_unused(&mut self, id: BlockId) {
        self.end_hold(id);
        self.free_block(id);
    }

    /// Notes that one context has ended; the device's own reference if it was the last.
    pub(crate) fn disown(&mut self) -> Option<Arc<Device>> {
        self.owned -= 1;
        if self.owned == 0 && self.is_closed { self.keepalive.take() } else { None }
    }

    /// Makes a block that nobody holds and no stream uses free, and merges it with free neighbours. Its id is stale
    /// from here on.
    pub(crate) fn free_block(&mut self, id: BlockId) {
        debug_assert!(self.blocks[id].is_free());
        if self.policy_takes_back(id) {
            return;
        }
        let block = &self.blocks[id];
        let (size, requested, pool) = (block.size, block.requested, block.pool);
        let (ptr, stream, is_expandable) = (block.ptr, block.stream, block.expandable.is_some());
        self.record(TraceAction::FreeCompleted, pool, ptr, requested, stream);
        if !self.graph_uses.is_empty() {
            self.graph_uses.remove(&id);
        }
        let split = self.join(id.index);
        if !is_expandable {
            self.usage.change_split(pool.is_small, split);
        }
        self.usage.end_wait(pool.is_small, size, requested);
    }

    /// Makes the block of a slot, which is mapped, used by nobody and in no set, one with its free mapped
    /// neighbours, and puts that into the pool's set. What it adds to the number and the bytes of free blocks of
    /// split segments. Which of the slots stays is nobody's concern: the one that moves least in the set.
    pub(crate) fn join(&mut self, index: u32) -> (i64, i64) {
        let Self { blocks, pools, .. } = self;
        let block = blocks.block_mut(index);
        debug_assert!(block.is_cached());
        block.requested = 0;
        let (ptr, size, prev, next) = (block.ptr, block.size, block.prev, block.next);
        let (stream, pool) = (block.stream, &mut pools[block.pool]);
        let searches = pool.get_free_blocks_call_count;
        let bins = pool.free.of(stream);
        // Which neighbours are free is anybody's guess: there are as few branches as can be. See Note [Slot 0].
        let (before, after) = (blocks.neighbour(prev), blocks.neighbour(next));
        let (joins_prev, joins_next) = (before.is_cached(), after.is_cached());
        let joined = if joins_prev { before.size } else { 0 } + if joins_next { after.size } else { 0 };
        let (merged, behind) = (size + joined, after.next);
        let change = (-i64::from(joins_prev) - i64::from(joins_next), -(joined as i64));
        let stays = if joins_prev | joins_next {
            let (start, stays) = if joins_prev { (before.ptr, prev) } else { (ptr, next) };
            let mut end = next;
            if joins_prev & joins_next {
                bins.remove(blocks, next);
                blocks.remove_plain(next);
                end = behind;
            }
            blocks.remove_plain(index);
            blocks.link(prev, end);
            bins.resize(blocks, stays, start, merged);
            stays
        } else {
            bins.insert(blocks, index);
            index
        };
        let block = blocks.block_mut(stays);
        if searches != 0 {
            block.gc_count_base = searches;
        }
        if block.is_split() { (change.0 + 1, change.1 + merged as i64) } else { change }
    }

    /// Makes a block, which is in no set, one with its free neighbours that are mapped or unmapped as it is. It
    /// keeps its id.
    pub(crate) fn merge_neighbours(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (prev, next) = (self.blocks.prev_of(block), self.blocks.next_of(block));
        let ids = [prev, next].map(|neighbour| neighbour.map(|(id, _)| id));
        ids.into_iter().flatten().for_each(|neighbour| self.try_merge(id, neighbour));
    }

    /// Makes the free neighbour `from` a part of `into`.
    fn try_merge(&mut self, into: BlockId, from: BlockId) {
        let neighbour = &self.blocks[from];
        if !neighbour.is_free() || neighbour.mapped != self.blocks[into].mapped {
            return;
        }
        if neighbour.mapped {
            self.remove_free(from);
        } else {
            self.remove_unmapped(from);
        }
        let Block { ptr, size, prev, next, .. } = self.blocks[from];
        self.blocks.remove(from);
        let block = &mut self.blocks[into];
        block.size += size;
        if block.prev == from.index {
            block.ptr = ptr;
            self.blocks.link(prev, into.index);
        } else {
            self.blocks.link(into.index, next);
        }
    }
}
