//! Lending: pieces of free blocks become a window's block, and free again with it.

use super::holes::{Holes, Piece};
use crate::alloc::allocate::Request;
use crate::alloc::block::Block;
use crate::alloc::device::DeviceState;
use crate::alloc::ids::{BlockId, WindowId};
use crate::alloc::trace::TraceAction;

impl DeviceState {
    /// A window's block out of the pieces whose handles it maps.
    pub(super) fn lend(
        &mut self,
        holes: &Holes,
        request: &Request,
        window: WindowId,
        pieces: &[Piece],
    ) -> BlockId {
        // From the back of each free block: its front keeps the id.
        let mut order: Vec<_> = (0..pieces.len()).collect();
        order.sort_unstable_by_key(|piece| std::cmp::Reverse(pieces[*piece].at));
        let mut lent: Vec<_> =
            order.into_iter().map(|piece| (piece, self.carve(holes, pieces[piece]))).collect();
        lent.sort_unstable();
        let lent: Vec<_> = lent.into_iter().map(|(_, id)| id).collect();
        let mut requested = request.requested;
        for id in &lent {
            let block = &mut self.blocks[*id];
            block.allocated = true;
            block.window = Some(window);
            block.requested = requested.min(block.size);
            requested -= block.requested;
        }
        let registration = self.blocks[lent[0]].registration;
        let ptr = self.windows[window].address_of(pieces[0]);
        let block = Block::new(ptr, request.size, request.stream, registration, request.pool);
        let id = self.blocks.insert(Block { window: Some(window), ..block });
        self.windows[window].occupy(id, lent);
        id
    }

    /// Makes a block of its own of a part of a free block, in no set.
    pub(super) fn carve(&mut self, holes: &Holes, piece: Piece) -> BlockId {
        let hole = holes.block_at(piece.at);
        self.remove_free(hole);
        let front = piece.at - self.blocks[hole].ptr;
        let id = if front > 0 { self.cut_behind(hole, front) } else { hole };
        if self.blocks[id].size > piece.bytes {
            let rest = self.cut_behind(id, piece.bytes);
            self.insert_free(rest);
        }
        if front > 0 {
            self.insert_free(hole);
        }
        id
    }

    /// Gives the pieces of a window's block back, which has become free.
    pub(super) fn take_back_lent(&mut self, window: WindowId, id: BlockId) {
        self.count_freed(id);
        self.blocks.remove(id);
        for piece in self.windows[window].vacate() {
            let block = &mut self.blocks[piece];
            block.allocated = false;
            block.window = None;
            self.take_back_at_home(piece);
        }
    }

    /// Makes a block that has become free one with its neighbours.
    pub(super) fn take_back_at_home(&mut self, id: BlockId) {
        self.blocks[id].requested = 0;
        self.merge_neighbours(id);
        self.insert_free(id);
    }

    /// Where nothing is in use any more, lets the homes begin anew. See Note [Homes begin anew].
    pub(super) fn begin_anew_if_idle(&mut self) {
        if self.usage.is_idle() {
            self.expandable.iter_mut().for_each(|home| home.opened = home.base());
        }
    }

    /// Counts a block that has become free.
    pub(super) fn count_freed(&mut self, id: BlockId) {
        let Block { ptr, size, requested, stream, pool, .. } = self.blocks[id];
        self.record(TraceAction::FreeCompleted, pool, ptr, requested, stream);
        if !self.graph_uses.is_empty() {
            self.graph_uses.remove(&id);
        }
        self.usage.end_wait(pool.is_small, size, requested);
    }
}
