//! [`Place`]: where in a free block of a home a request goes.
//!
//! // Note [Remnants]
//! A handle is of use to a block that is put together from pieces only where it is free as a whole, but for the ends of
//! the row. What is free in a handle that is in part used is a *remnant*. A block at the front of a hole, or at its
//! back, uses up the remnant that the hole begins, or ends, with, and makes one of the handle that it ends, or begins,
//! in. Both ends are looked at, where that decides.

use super::class::{CLASSES, Fit};
use crate::alloc::allocate::Request;
use crate::alloc::device::DeviceState;
use crate::alloc::expandable::ExpandableSegment;
use crate::alloc::ids::{BlockId, PoolId};

/// A part of a free block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    id: BlockId,
    /// Bytes before it that stay free.
    before: u64,
}

impl DeviceState {
    /// The place of a class for a request, if it has room.
    pub(super) fn place_in(&self, request: &Request, class: usize) -> Option<Place> {
        let pool = PoolId { is_small: class == 0, ..request.pool };
        let free = &self.pools[pool].free;
        // Where blocks are handed out whole, nothing is left of one.
        let is_whole = self.pools.owner(request.pool.owner).no_split;
        let fit = if is_whole { Fit::Smallest } else { CLASSES[class].fit };
        let first = free.best_fit(&self.blocks, request.stream, request.size);
        let fitting = std::iter::successors(first, |id| free.next(&self.blocks, *id));
        let mut best = None;
        for id in fitting.filter(|id| self.class_of(*id) == class) {
            let (size, open, ptr) = (self.blocks[id].size, self.open_bytes(id), self.blocks[id].ptr);
            if open < request.size {
                continue;
            }
            let spare = open - request.size;
            let (rank, before) = match fit {
                Fit::Smallest => ((0, spare), 0),
                Fit::Lowest => ((i64::from(spare > 0), 0), 0),
                Fit::LeastRemnant if spare == 0 => ((i64::MIN, 0), 0),
                Fit::LeastRemnant => self.least_remnant(id, open, request.size),
            };
            if best.is_none_or(|(least, _)| (rank, ptr) < least) {
                best = Some(((rank, ptr), Place { id, before }));
            }
            // Those that follow are no smaller, but for the one that is open in part.
            let is_smallest = fit == Fit::Smallest && open == size && !self.has_closed(id);
            // Where there is one home they are larger or behind it, and that one is behind all that are open.
            if is_smallest || (spare == 0 && open == size && self.has_one_home(request.stream, class)) {
                break;
            }
        }
        best.map(|(_, place)| place)
    }

    /// Makes a place a block, in no set.
    pub(super) fn take_place(&mut self, Place { id, before }: Place) -> BlockId {
        self.remove_free(id);
        if before == 0 {
            return id;
        }
        let taken = self.cut_behind(id, before);
        self.insert_free(id);
        taken
    }

    /// By how much remnants grow if a request takes the better end of a free block, and what is before it there.
    fn least_remnant(&self, id: BlockId, open: u64, size: u64) -> ((i64, u64), u64) {
        let block = &self.blocks[id];
        let home = block.expandable.map(|home| &self.expandable[home]);
        let [front, back] = home.map_or([0; 2], |home| remnants(home, block.ptr, block.ptr + open, size));
        if back < front { ((back, 0), open - size) } else { ((front, 0), 0) }
    }

    /// Whether a stream has one home of a class at most, whatever pool it is of.
    fn has_one_home(&self, stream: u64, class: usize) -> bool {
        let homes = self.expandable.iter().map(|(_, home)| home);
        homes.filter(|home| home.stream().raw == stream && home.class() == class).nth(1).is_none()
    }

    /// Whether the home of a block has memory that is not open.
    fn has_closed(&self, id: BlockId) -> bool {
        self.blocks[id].expandable.is_some_and(|home| self.expandable[home].opened != u64::MAX)
    }
}

/// By how much remnants grow, in bytes, if a block of `size` is put at the front of a hole, and if it is put at its
/// back. See Note [Remnants].
fn remnants(home: &ExpandableSegment, at: u64, end: u64, size: u64) -> [i64; 2] {
    let (first, last) = (home.handle_at(at), home.handle_at(end - 1));
    let after_first = first.0 + first.1.bytes;
    let first_cut = if first.0 == at { at } else { after_first };
    let last_cut = if last.0 + last.1.bytes == end { end } else { last.0 };
    let free_between = |from: u64, to: u64| to as i64 - from as i64;
    if first_cut > last_cut {
        // All of it is one remnant.
        return [-(size as i64); 2];
    }
    let (to, from) = (at + size, end - size);
    let front = if to <= first_cut {
        -(size as i64)
    } else if to > last_cut {
        free_between(to, last_cut) - free_between(at, first_cut)
    } else {
        let (start, handle) = home.handle_at(to - 1);
        free_between(to, start + handle.bytes) - free_between(at, first_cut)
    };
    let back = if from >= last_cut {
        -(size as i64)
    } else if from < first_cut {
        free_between(first_cut, from) - free_between(last_cut, end)
    } else {
        free_between(home.handle_at(from).0, from) - free_between(last_cut, end)
    };
    [front, back]
}
