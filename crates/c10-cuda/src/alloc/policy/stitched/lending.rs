//! Lending: pieces of free blocks become a window's block, and free again with it.

use super::holes::{Holes, Piece};
use super::window::Place;
use crate::alloc::allocate::Request;
use crate::alloc::block::Block;
use crate::alloc::device::DeviceState;
use crate::alloc::ids::{BlockId, WindowId};
use crate::alloc::trace::TraceAction;

impl DeviceState {
    /// A window's block out of the pieces that the window was made for.
    pub(super) fn lend(
        &mut self,
        holes: &mut Holes,
        request: &Request,
        window: WindowId,
        pieces: &[Piece],
    ) -> BlockId {
        let offset = self.windows[window].offset_of(pieces[0].at);
        self.lend_at(holes, request, window, Place { offset, pieces: pieces.to_vec() })
    }

    /// A block of the request's size at a place of a window.
    pub(super) fn lend_at(
        &mut self,
        holes: &mut Holes,
        request: &Request,
        window: WindowId,
        place: Place,
    ) -> BlockId {
        // From the back of each free block: its front keeps the id.
        let mut order: Vec<_> = (0..place.pieces.len()).collect();
        order.sort_unstable_by_key(|piece| std::cmp::Reverse(place.pieces[*piece].at));
        let mut lent = vec![None; order.len()];
        for piece in order {
            lent[piece] = Some(self.carve(holes, place.pieces[piece]));
        }
        let lent: Vec<_> = lent.into_iter().flatten().collect();
        let mut requested = request.requested;
        for id in &lent {
            let block = &mut self.blocks[*id];
            block.allocated = true;
            block.window = Some(window);
            block.requested = requested.min(block.size);
            requested -= block.requested;
        }
        let registration = self.blocks[lent[0]].registration;
        let ptr = self.windows[window].base() + place.offset;
        let block = Block::new(ptr, request.size, request.stream, registration, request.pool);
        let id = self.blocks.insert(Block { window: Some(window), ..block });
        self.windows[window].occupy(id, lent);
        id
    }

    /// Makes a block of its own of a part of a free block, in no set.
    pub(super) fn carve(&mut self, holes: &mut Holes, piece: Piece) -> BlockId {
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
    pub(super) fn take_back_lent(&mut self, id: BlockId) {
        let Block { ptr, size, requested, stream, pool, window, .. } = self.blocks[id];
        let window = window.expect("the caller has seen the window");
        self.record(TraceAction::FreeCompleted, ptr, requested, stream);
        self.stats.active.decrease(pool.is_small, 1);
        self.stats.active_bytes.decrease(pool.is_small, size as i64);
        self.stats.requested_bytes.decrease(pool.is_small, requested as i64);
        self.blocks.remove(id);
        for piece in self.windows[window].vacate() {
            let block = &mut self.blocks[piece];
            block.allocated = false;
            block.window = None;
            block.requested = 0;
            self.merge_neighbours(piece);
            self.insert_free(piece);
        }
    }
}
