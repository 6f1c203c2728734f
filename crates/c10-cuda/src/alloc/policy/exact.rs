//! [`Exact`]: PyTorch's decisions, call by call.

use super::PlacementPolicy;
use crate::alloc::allocate::{Refused, Request, Segment};
use crate::alloc::device::{DeviceState, Locked};
use crate::alloc::ids::BlockId;
use crate::driver::DriverError;

/// The smallest free block that fits, else a segment, or pages of an expandable one.
#[derive(Debug)]
pub(crate) struct Exact;

impl PlacementPolicy for Exact {
    #[inline]
    fn find(state: &mut DeviceState, request: &Request) -> Option<BlockId> {
        state.take_best_fit(request)
    }

    fn obtain(locked: &mut Locked<'_>, request: &Request) -> Result<Segment, Refused> {
        locked.obtain_segment(request)
    }

    #[inline]
    fn take_back(_state: &mut DeviceState, _id: BlockId) -> bool {
        false
    }

    fn let_go(_locked: &mut Locked<'_>) -> Result<(), DriverError> {
        Ok(())
    }
}
