//! The rules S1 and S2 of [`stitched`](super).

use super::window::Window;
use crate::alloc::block::Block;
use crate::alloc::device::DeviceState;

impl DeviceState {
    /// Stops where a rule of windows does not hold.
    pub(crate) fn check_windows(&self) {
        let mut lent = 0;
        for (_, window) in self.windows.iter() {
            self.check_s1_block(window);
            self.check_s2_home(window);
            lent += window.lent().len();
        }
        let marked = self.blocks.iter().filter(|(_, block)| block.is_lent());
        assert_eq!(marked.count(), lent, "S1: what is lent is lent to a window");
        let blocks = self.blocks.iter().filter(|(_, block)| block.is_in_window());
        let used = self.windows.iter().filter(|(_, window)| window.block().is_some());
        assert_eq!(blocks.count(), used.count(), "S1: each window has at most one block");
    }

    fn check_s1_block(&self, window: &Window) {
        let Some(id) = window.block() else {
            return assert!(window.lent().is_empty(), "S1: {window:?} has no block");
        };
        let block = &self.blocks[id];
        assert!(
            block.is_in_window() && !block.is_split() && !block.is_free(),
            "S1: {block:?} is in its window"
        );
        let lent = window.lent().iter().map(|lent| &self.blocks[*lent]);
        let mut at = block.ptr;
        for piece in lent {
            assert!(piece.is_lent() && piece.allocated, "S1: {piece:?} is lent");
            assert!(self.is_behind(window, at, piece), "S1: {piece:?} is behind {at:#x} of {window:?}");
            at += piece.size;
        }
        assert_eq!(at, block.end(), "S1: what is lent to {block:?}");
    }

    /// Whether the bytes of a block of the homes are those at an address of a window.
    fn is_behind(&self, window: &Window, at: u64, piece: &Block) -> bool {
        let mut shown = window.mapped().filter_map(|(from, backing)| {
            let (start, end) = (from.0.max(at), (from.0 + backing.handle.bytes).min(at + piece.size));
            (start < end).then(|| (end - start, backing.at + (start - from.0) == piece.ptr + (start - at)))
        });
        let sum = shown.try_fold(0, |sum, (bytes, is_same)| is_same.then_some(sum + bytes));
        sum == Some(piece.size)
    }

    fn check_s2_home(&self, window: &Window) {
        for (_, backing) in window.mapped() {
            let home = self.expandable.iter().find(|(_, home)| home.holds(backing.at));
            let is_there =
                home.is_some_and(|(_, home)| home.handle_at(backing.at) == (backing.at, backing.handle));
            assert!(is_there, "S2: {backing:?} is at home");
        }
    }
}
