//! [`Scope`]: what goes to which private pool (`beginAllocateToPool`), and the pool of a request.

use std::thread;

use super::device::Locked;
use super::ids::PoolId;
use super::mempool_id::PoolFilter;
use super::size::SMALL_SIZE;
use crate::driver::{CaptureState, DriverError};

/// From its beginning to its end, what the filter takes goes to the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// The pool's slot.
    pub(crate) owner: u32,
    pub(crate) filter: PoolFilter,
}

impl Locked<'_> {
    /// The pool for a block of `size` bytes: the private one of the newest scope that fits, or the device's own
    /// (`get_pool`).
    #[inline]
    pub(crate) fn choose_pool(&self, size: u64, stream: u64) -> Result<PoolId, DriverError> {
        let is_small = size <= SMALL_SIZE;
        let owner = if self.pools.scopes.is_empty() { 0 } else { self.scoped_owner(stream)? };
        Ok(PoolId { owner, is_small })
    }

    fn scoped_owner(&self, stream: u64) -> Result<u32, DriverError> {
        for scope in self.pools.scopes.iter().rev() {
            if self.takes(scope.filter, stream)? {
                return Ok(scope.owner);
            }
        }
        Ok(0)
    }

    fn takes(&self, filter: PoolFilter, stream: u64) -> Result<bool, DriverError> {
        let stream = self.stream(stream);
        Ok(match filter {
            PoolFilter::All => true,
            PoolFilter::Thread(thread) => thread::current().id() == thread,
            PoolFilter::Stream(only) => stream == only,
            PoolFilter::Capture(number) => match self.driver().capture_state(stream)? {
                CaptureState::None => false,
                CaptureState::Active { id } | CaptureState::Invalidated { id } => id == number,
            },
        })
    }
}
