//! [`Stitched`]: blocks out of pages from wherever they are free (`placement:stitched`).
//!
//! Requests of a class of sizes on a stream are served from one expandable segment, their *home*, in pages of 2 MiB
//! whose physical handles have one page or several. Each physical handle has its place there for good, so that free
//! memory is where its neighbours are, and no decision depends on what was mapped before. A request takes
//!
//! 1. a free block at home; then one of the homes of larger classes, then of smaller ones;
//! 2. a *window*: a range of addresses behind which handles are mapped a second time, in another order, so that free
//!    pieces from several places are one block. The pieces are *lent* to the block: at home they are in use. A window
//!    stays mapped when its block is freed, and serves later requests, oldest first, whenever all that it needs is
//!    free again: a loop that repeats itself maps nothing new;
//! 3. a new window, when what is free in pieces is enough. A piece is whole handles, but for the first, which may
//!    begin within a handle, and the last, which may end within one;
//! 4. pages of the driver: as few as will do, or somewhat more where requests are small, for the calls' sake.
//!
//! Windows are made of pieces on the request's own stream, in whose order frees and uses are. A page reaches another
//! stream only through the driver: the ladder down to out of memory waits for its stream, unmaps and releases it. In
//! private pools there are no windows: a graph holds on to addresses.
//!
//! - **S1.** A window's block is alone at its addresses, and is not at home. It has the sizes of its pieces together;
//!   they are handed out, lent to the window, and in its order the memory behind its addresses.
//! - **S2.** What a window maps is at home too, whole. What is unmapped at home is in no window.

mod class;
mod holes;
mod growth;
mod lending;
mod stitch;
mod window;

pub(crate) use window::WindowTable;

use super::PlacementPolicy;
use crate::alloc::allocate::{Refused, Request, Segment};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::{BlockId, PoolId};
use crate::driver::DriverError;
use class::CLASSES;
use holes::Holes;
use stitch::stitch;

/// A page, in bytes.
const PAGE: u64 = 2 << 20;

/// How often a request may grow its home before it takes what it needs in one piece.
const TRIES: usize = 8;

/// Few pages, and few calls of the driver.
#[derive(Debug)]
pub(crate) struct Stitched;

impl PlacementPolicy for Stitched {
    fn find(state: &mut DeviceState, request: &Request) -> Option<BlockId> {
        state.find_at_home(request).or_else(|| state.find_in_windows(request))
    }

    fn obtain(locked: &mut Locked<'_>, request: &Request) -> Result<Segment, Refused> {
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
        let is_in_window = state.blocks[id].window.is_some();
        if is_in_window {
            state.take_back_lent(id);
        }
        is_in_window
    }

    fn let_go(locked: &mut Locked<'_>) -> Result<(), DriverError> {
        locked.unmap_windows()
    }
}

impl Locked<'_> {
    /// A block out of free pieces, or how many bytes they lack.
    fn stitch_or_miss(&mut self, request: &Request) -> Result<Result<BlockId, u64>, Refused> {
        if !may_stitch(request) {
            return Ok(Err(request.size));
        }
        let mut holes = Holes::of(self, request.stream);
        let pieces = match stitch(&holes.with_cuts(self), request.size) {
            Ok(pieces) => pieces,
            Err(missing) => return Ok(Err(missing)),
        };
        if let [piece] = pieces[..] {
            return Ok(Ok(self.carve(&mut holes, piece)));
        }
        Ok(match self.new_window(request, &pieces)? {
            Some(window) => Ok(self.lend(&mut holes, request, window, &pieces)),
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
        let id = std::iter::once(own).chain(others).find_map(|class| self.best_of_class(request, class))?;
        self.remove_free(id);
        Some(id)
    }

    fn best_of_class(&self, request: &Request, class: usize) -> Option<BlockId> {
        let pool = PoolId { is_small: class == 0, ..request.pool };
        let free = &self.pools[pool].free;
        let first = free.best_fit(&self.blocks, request.stream, request.size);
        let fitting = std::iter::successors(first, |id| free.next(&self.blocks, *id));
        let mut fitting = fitting.filter(|id| self.class_of(*id) == class);
        let best = fitting.next()?;
        if CLASSES[class].best_fit || self.blocks[best].size == request.size {
            return Some(best);
        }
        std::iter::once(best).chain(fitting).min_by_key(|id| self.blocks[*id].ptr)
    }

    fn class_of(&self, id: BlockId) -> usize {
        let block = &self.blocks[id];
        let of_pool = usize::from(!block.pool.is_small);
        block.expandable.map_or(of_pool, |segment| self.expandable[segment].class())
    }

    /// The block of the first window whose memory is free as far as the request needs it.
    fn find_in_windows(&mut self, request: &Request) -> Option<BlockId> {
        if !may_stitch(request) || self.windows.is_empty() {
            return None;
        }
        let mut holes = Holes::of(self, request.stream);
        let (window, place) = self.windows.first_fit(request, &holes)?;
        Some(self.lend_at(&mut holes, request, window, place))
    }
}

/// Whether a request is worth a window and its addresses may be of one.
fn may_stitch(request: &Request) -> bool {
    request.size >= class::LEAST_STITCHED && request.pool.owner == 0
}
