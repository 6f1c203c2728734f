//! [`Holes`]: what is free at the homes of a stream, by address.

use super::stitch::Hole;
use crate::alloc::device::DeviceState;
use crate::alloc::ids::{BlockId, PoolId};

/// A part of a free block, or of a window, in addresses of the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The free blocks of the device's own pools on a stream, as far as they are open; none of two neighbours.
#[derive(Debug)]
pub(super) struct Holes {
    /// First address, end, block; sorted.
    blocks: Vec<(u64, u64, BlockId)>,
}

impl Holes {
    /// Those of a stream now.
    pub(super) fn of(state: &DeviceState, stream: u64) -> Self {
        let pools = [PoolId::SMALL, PoolId::LARGE].into_iter();
        let free = pools.flat_map(|pool| state.pools[pool].free.smaller(&state.blocks, stream, u64::MAX));
        let at_home = free.filter(|id| state.blocks[*id].expandable.is_some());
        let open = at_home.map(|id| {
            let ptr = state.blocks[id].ptr;
            (ptr, ptr + state.open_bytes(id), id)
        });
        let mut blocks: Vec<_> = open.filter(|(ptr, end, _)| ptr < end).collect();
        blocks.sort_unstable();
        Self { blocks }
    }

    /// The same with the places where handles begin and end, of those that hold such a place.
    pub(super) fn with_cuts(&self, state: &DeviceState) -> Vec<Hole> {
        self.blocks.iter().filter_map(|&(at, end, id)| cuts(state, at, end, id)).collect()
    }

    /// The free block that a piece lies in.
    pub(super) fn block_at(&self, at: u64) -> BlockId {
        let next = self.blocks.partition_point(|(start, _, _)| *start <= at);
        self.blocks[next - 1].2
    }
}

fn cuts(state: &DeviceState, at: u64, end: u64, id: BlockId) -> Option<Hole> {
    let segment = &state.expandable[state.blocks[id].of_expandable()];
    let mut cuts = Vec::new();
    let mut pos = at;
    while pos < end {
        let (start, handle) = segment.handle_at(pos);
        if start == pos {
            cuts.push(pos);
        }
        pos = start + handle.bytes;
    }
    if pos == end {
        cuts.push(end);
    }
    let first_handle = segment.handle_at(at).0;
    (!cuts.is_empty()).then_some(Hole { at, end, cuts, first_handle })
}
