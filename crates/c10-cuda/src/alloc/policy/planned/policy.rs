//! [`Planned`]: what the plan does not serve is placed as PyTorch would.

use crate::alloc::allocate::{Refused, Request, Segment};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::BlockId;
use crate::alloc::policy::PlacementPolicy;
use crate::alloc::policy::exact::Exact;
use crate::driver::DriverError;

/// The arena's own blocks are handed out and taken back before any policy is asked (`planned_block`).
#[derive(Debug)]
pub(crate) struct Planned;

impl PlacementPolicy for Planned {
    #[inline]
    fn find(state: &mut DeviceState, request: &Request) -> Option<BlockId> {
        Exact::find(state, request)
    }

    fn obtain(locked: &mut Locked<'_>, request: &Request) -> Result<Segment, Refused> {
        Exact::obtain(locked, request)
    }

    #[inline]
    fn take_back(_state: &mut DeviceState, _id: BlockId) -> bool {
        false
    }

    fn let_go(_locked: &mut Locked<'_>) -> Result<(), DriverError> {
        Ok(())
    }
}
