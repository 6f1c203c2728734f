//! When a block is split, and how (`should_split`, `alloc_found_block`).

use super::allocate::Request;
use super::device::DeviceState;
use super::ids::BlockId;
use super::size::{MIN_BLOCK_SIZE, SMALL_SIZE};

impl DeviceState {
    /// Whether the request leaves enough of the block to keep.
    pub(crate) fn should_split(&self, id: BlockId, request: &Request) -> bool {
        if self.pools.owner(request.pool.owner).no_split {
            return false;
        }
        let remaining = self.blocks[id].size - request.size;
        if request.pool.is_small || self.is_expandable(request.pool) {
            remaining >= MIN_BLOCK_SIZE
        } else {
            request.size < self.config.max_split() && remaining > SMALL_SIZE
        }
    }

    /// Cuts the first `size` bytes off a block that is in no free set. The rest goes to the free set.
    pub(crate) fn split(&mut self, id: BlockId, size: u64) -> BlockId {
        let front = self.cut_front(id, size);
        self.insert_free(id);
        front
    }

    /// Makes a block of the first `size` bytes of one that is in no set, and gives it; the rest keeps the id.
    pub(crate) fn cut_front(&mut self, id: BlockId, size: u64) -> BlockId {
        let rest = &mut self.blocks[id];
        let ptr = rest.ptr;
        rest.ptr += size;
        rest.size -= size;
        self.blocks.insert_before(id.index, ptr, size)
    }

    /// Makes a block of all but the first `size` bytes of one that is in no set, and gives it; the front keeps the
    /// id.
    pub(crate) fn cut_behind(&mut self, id: BlockId, size: u64) -> BlockId {
        let front = &mut self.blocks[id];
        let (ptr, bytes, behind) = (front.ptr + size, front.size - size, front.next);
        front.size = size;
        let rest = self.blocks.insert_like(id.index, ptr, bytes);
        self.blocks.link(id.index, rest.index);
        self.blocks.link(rest.index, behind);
        rest
    }

    /// Puts a free block into its pool's set; its age counts from here.
    pub(crate) fn insert_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        let pool = &mut self.pools[block.pool];
        block.gc_count_base = pool.get_free_blocks_call_count;
        pool.free.insert(&mut self.blocks, id);
    }

    /// Takes a free block out of its pool's set.
    pub(crate) fn remove_free(&mut self, id: BlockId) {
        self.pools[self.blocks[id].pool].free.remove(&mut self.blocks, id);
    }
}
