//! Placement policies: where a request's block comes from, and what goes back to the driver
//! ([`Config::placement`](crate::Config::placement)).
//!
//! A policy is asked at four places: for a free block, for memory from the driver when there is none, when a block
//! has become free, and when what is cached is to go back. All else is the same under every policy: blocks, free
//! sets, `record_stream`, the ladder down to out of memory, statistics, histories.
//!
//! - `exact`: PyTorch's own decisions. The default.
//! - `stitched`: blocks out of pages from wherever they are free.
//! - `planned`: where a plan has them, which was made of what the program did before; else PyTorch's.

mod exact;
mod stitched;
pub mod planned;

pub(crate) use stitched::WindowTable;

use exact::Exact;
use planned::Planned;
use stitched::Stitched;

use super::allocate::{Refused, Request, Segment};
use super::device::{DeviceState, Locked};
use super::ids::BlockId;
use crate::config::Placement;
use crate::driver::DriverError;

/// How requests are placed. What a policy remembers stands in [`DeviceState`], so there is nothing to hold here:
/// a call goes to the policy that the configuration names by one branch.
pub(crate) trait PlacementPolicy {
    /// A free block for the request, taken out of its set, with no call of the driver that obtains memory.
    fn find(state: &mut DeviceState, request: &Request) -> Option<BlockId>;

    /// A block, in no set, out of memory that the driver gives. What was obtained in vain stays, as free memory, or
    /// is taken back.
    fn obtain(locked: &mut Locked<'_>, request: &Request) -> Result<Segment, Refused>;

    /// Takes a block that has become free, if its memory is not simply its own. Says whether it did; else it is
    /// merged with its neighbours and put into its set.
    fn take_back(state: &mut DeviceState, id: BlockId) -> bool;

    /// Lets go of what it caches beside free blocks, before those are given back.
    fn let_go(locked: &mut Locked<'_>) -> Result<(), DriverError>;
}

/// Calls a policy's function by the configuration's name for it.
macro_rules! by_placement {
    ($state:expr, $call:ident($($argument:expr),*)) => {
        match $state.config.placement {
            Placement::Exact => Exact::$call($($argument),*),
            Placement::Stitched => Stitched::$call($($argument),*),
            Placement::Planned(_) => Planned::$call($($argument),*),
        }
    };
}

impl Locked<'_> {
    /// A block out of memory that the driver gives, in no set.
    pub(crate) fn obtain_memory(&mut self, request: &Request) -> Result<Segment, Refused> {
        by_placement!(self, obtain(self, request))
    }

    /// Lets go of what the policy caches beside free blocks.
    pub(crate) fn let_go(&mut self) -> Result<(), DriverError> {
        by_placement!(self, let_go(self))
    }
}

impl DeviceState {
    /// A free block for the request, taken out of its set (`get_free_block`).
    #[inline]
    pub(crate) fn get_free_block(&mut self, request: &Request) -> Option<BlockId> {
        by_placement!(self, find(self, request))
    }

    /// Whether the policy has taken a block that has become free.
    #[inline]
    pub(crate) fn policy_takes_back(&mut self, id: BlockId) -> bool {
        if let Some(ticket) = self.blocks[id].placed {
            // Whatever the placement was, and is: plans come and go.
            self.free_planned(id, ticket);
            return true;
        }
        by_placement!(self, take_back(self, id))
    }
}
