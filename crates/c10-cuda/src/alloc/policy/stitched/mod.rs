//! [`Stitched`]: blocks out of pages from wherever they are free (`placement:stitched`).
//!
//! Requests of a class of sizes on a stream are served from one expandable segment, their *home*, in pages of 2 MiB
//! whose physical handles have one page or several. Each physical handle has its place there for good, so that free
//! memory is where its neighbours are. A request takes
//!
//! 1. a free block at home; then one of the homes of larger classes, then of smaller ones;
//! 2. free pieces from several places, made one block by a *window*: a range of addresses behind which their handles
//!    are mapped a second time, in the block's order. The pieces are *lent* to the block: at home they are in use;
//! 3. pages of the driver: as few as will do with the pieces that there are, or somewhat more for the calls' sake.
//!
//! Windows stay mapped when their blocks are freed; many have their addresses from one range that is reserved. Which
//! pieces make up a block depends on what is in use, and not on the windows that there are, so that a program that does
//! the same again needs the same windows: a loop that repeats itself maps nothing new.
//!
//! Windows are made of pieces on the request's own stream, in whose order frees and uses are. A page reaches another
//! stream only through the driver: the ladder down to out of memory waits for its stream, unmaps and releases it. In
//! private pools there are no windows: a graph holds on to addresses.
//!
//! // Note [Homes begin anew]
//! When nothing is in use on the device, nothing is left of what led to the places in the homes. A program that then
//! does the same again should take the same places, or it would need other windows. So the homes are used from their
//! beginnings as if they were to grow again: what is mapped beyond `opened` is not searched, but opened step by step,
//! with no call of the driver; before the driver is asked for more, all homes of the stream are opened.
//!
//! The rules, checked with the allocator's own:
//!
//! - **S1.** A window's block is alone at its addresses, and is not at home. Its pieces are handed out, lent to the
//!   window, and in their order the memory behind its addresses.
//! - **S2.** What a window maps is at home too. What is unmapped at home is in no window.

mod addresses;
mod check;
mod class;
mod holes;
mod growth;
mod lending;
mod place;
mod stitch;
mod window;
#[cfg(test)]
mod tests;

pub(crate) use window::WindowTable;

use super::{Exact, PlacementPolicy};
use crate::alloc::allocate::{Refused, Request, Segment};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::BlockId;
use crate::driver::DriverError;
use class::CLASSES;
use holes::Holes;
use stitch::stitch;

/// A page, in bytes.
const PAGE: u64 = 2 << 20;

/// How often a request may grow its home before it takes what it needs in one piece.
const TRIES: usize = 16;

/// Few pages, and few calls of the driver.
#[derive(Debug)]
pub(crate) struct Stitched;

impl PlacementPolicy for Stitched {
    fn find(state: &mut DeviceState, request: &Request) -> Option<BlockId> {
        if !state.is_expandable(request.pool) {
            // The memory of a pool with an allocator of its own is not the driver's to map.
            return Exact::find(state, request);
        }
        state.find_at_home(request).or_else(|| state.find_in_window(request))
    }

    fn obtain(locked: &mut Locked<'_>, request: &Request) -> Result<Segment, Refused> {
        if !locked.is_expandable(request.pool) {
            return Exact::obtain(locked, request);
        }
        for _ in 0..TRIES {
            let missing = match locked.stitch_or_miss(request)? {
                Ok(id) => return Ok(Segment::Got(id)),
                Err(missing) => missing,
            };
            if !locked.grow_home(request, missing)? {
                return Ok(Segment::NoMemory);
            }
            if let Some(id) = Self::find(locked, request) {
                return Ok(Segment::Got(id));
            }
        }
        if !locked.grow_home(request, request.size)? {
            return Ok(Segment::NoMemory);
        }
        Ok(locked.find_at_home(request).map_or(Segment::NoMemory, Segment::Got))
    }

    fn take_back(state: &mut DeviceState, id: BlockId) -> bool {
        let block = &state.blocks[id];
        if let Some(window) = block.window {
            state.take_back_lent(window, id);
        } else if block.expandable.is_some() {
            state.count_freed(id);
            state.take_back_at_home(id);
        } else {
            return false;
        }
        state.begin_anew_if_idle();
        true
    }

    fn let_go(locked: &mut Locked<'_>) -> Result<(), DriverError> {
        locked.unmap_windows()
    }
}

impl Locked<'_> {
    /// A block out of free pieces by a window that is made for it, or how many bytes they lack.
    fn stitch_or_miss(&mut self, request: &Request) -> Result<Result<BlockId, u64>, Refused> {
        if !may_stitch(request) {
            return Ok(Err(request.size));
        }
        let holes = Holes::of(self, request.stream);
        let pieces = match stitch(&holes.with_cuts(self), request.size) {
            Ok(pieces) => pieces,
            Err(missing) => return Ok(Err(missing)),
        };
        let backings = self.backings_of(&holes, &pieces);
        Ok(match self.new_window(request, backings)? {
            Some(window) => Ok(self.lend(&holes, request, window, &pieces)),
            None => Err(request.size),
        })
    }
}

impl DeviceState {
    /// A free block of the homes on the request's stream, taken out of its set: of its own class, of larger ones, of
    /// smaller ones.
    fn find_at_home(&mut self, request: &Request) -> Option<BlockId> {
        let own = class::of(request.size);
        let others = (own + 1..CLASSES.len()).chain((0..own).rev());
        let place = std::iter::once(own).chain(others).find_map(|class| self.place_in(request, class))?;
        Some(self.take_place(place))
    }

    /// Bytes of a free block that are used before its home grows.
    pub(super) fn open_bytes(&self, id: BlockId) -> u64 {
        let block = &self.blocks[id];
        let opened = block.expandable.map_or(u64::MAX, |home| self.expandable[home].opened);
        block.end().min(opened).saturating_sub(block.ptr)
    }

    pub(super) fn class_of(&self, id: BlockId) -> usize {
        let block = &self.blocks[id];
        let of_pool = usize::from(!block.pool.is_small);
        block.expandable.map_or(of_pool, |segment| self.expandable[segment].class())
    }

    /// A block out of free pieces, if they are in one place or there is a window for them.
    fn find_in_window(&mut self, request: &Request) -> Option<BlockId> {
        if !may_stitch(request) {
            return None;
        }
        let holes = Holes::of(self, request.stream);
        let pieces = stitch(&holes.with_cuts(self), request.size).ok()?;
        if let [piece] = pieces[..] {
            return Some(self.carve(&holes, piece));
        }
        let window = self.windows.find(&self.backings_of(&holes, &pieces))?;
        Some(self.lend(&holes, request, window, &pieces))
    }
}

/// Whether a request is worth a window, and its addresses may be of one.
fn may_stitch(request: &Request) -> bool {
    request.size >= class::LEAST_STITCHED && request.pool.owner == 0
}
