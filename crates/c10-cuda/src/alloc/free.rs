//! Freeing: at once, or when other streams have passed (`free`, `free_block`, `try_merge`).

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
        let waits = !block.stream_uses.is_empty() || block.event_count > 0;
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
    fn end_hold(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        assert!(block.allocated, "a block that is handed out is freed once");
        block.allocated = false;
        let (size, is_small) = (block.size, block.pool.is_small);
        self.stats.allocation.decrease(is_small, 1);
        self.stats.allocated_bytes.decrease(is_small, size as i64);
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

    /// Makes a block that nobody holds and no stream uses free, and merges it with free neighbours.
    pub(crate) fn free_block(&mut self, id: BlockId) {
        debug_assert!(self.blocks[id].is_free());
        if self.policy_takes_back(id) {
            return;
        }
        let block = &mut self.blocks[id];
        let (size, requested, pool) = (block.size as i64, block.requested as i64, block.pool);
        let (is_small, is_expandable) = (pool.is_small, block.expandable.is_some());
        let (ptr, stream) = (block.ptr, block.stream);
        block.requested = 0;
        self.record(TraceAction::FreeCompleted, pool, ptr, requested as u64, stream);
        if !self.graph_uses.is_empty() {
            self.graph_uses.remove(&id);
        }

        let (mut split_blocks, mut split_bytes) = self.merge_neighbours(id);
        self.insert_free(id);
        let block = &self.blocks[id];
        if block.is_split() {
            split_blocks += 1;
            split_bytes += block.size as i64;
        }
        let stats = &mut self.stats;
        if !is_expandable {
            stats.inactive_split.change(is_small, split_blocks);
            stats.inactive_split_bytes.change(is_small, split_bytes);
        }
        stats.active.decrease(is_small, 1);
        stats.active_bytes.decrease(is_small, size);
        stats.requested_bytes.decrease(is_small, requested);
    }

    /// Makes a block, which is in no set, one with its free neighbours that are mapped or unmapped as it is. What
    /// that changes in the number and the bytes of free blocks.
    pub(crate) fn merge_neighbours(&mut self, id: BlockId) -> (i64, i64) {
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        let mut change = (0, 0);
        for neighbour in [prev, next].into_iter().flatten() {
            if let Some(subsumed) = self.try_merge(id, neighbour) {
                change = (change.0 - 1, change.1 - subsumed as i64);
            }
        }
        change
    }

    /// Makes the free neighbour `from` a part of `into`, and gives its size.
    fn try_merge(&mut self, into: BlockId, from: BlockId) -> Option<u64> {
        let neighbour = &self.blocks[from];
        if !neighbour.is_free() || neighbour.mapped != self.blocks[into].mapped {
            return None;
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
        if block.prev == Some(from) {
            block.ptr = ptr;
            block.prev = prev;
            if let Some(before) = prev {
                self.blocks[before].next = Some(into);
            }
        } else {
            block.next = next;
            if let Some(after) = next {
                self.blocks[after].prev = Some(into);
            }
        }
        Some(size)
    }
}
