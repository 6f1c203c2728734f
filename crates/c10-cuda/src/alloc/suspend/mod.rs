//! Suspending a private pool: its memory goes back to the driver, and its blocks stay where they are until it is
//! resumed (what serving engines call sleep and wake).
//!
//! The pool's memory comes from expandable segments. While it sleeps nothing is allocated from it; blocks can be
//! freed, and the pages that only they had are not had again. What the blocks hold is kept by the host, or given up.
//!
//! A sleeping pool's bytes are not reserved, while those that the program holds stay allocated: so more can be
//! allocated than is reserved.

mod contents;
mod resume;
mod sleep;

pub(crate) use contents::Kept;
pub use contents::SuspendedContents;

use c10_core::DeviceIndex;

use super::allocate::{Refused, Request};
use super::device::DeviceState;
use super::mempool_id::MempoolId;
use super::size::ROUND_LARGE;
use super::{CachingAllocator, private_pools};
use crate::error::Result;

/// # Errors
/// All calls that name a pool return [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no
/// such device, and when the pool is not there.
impl CachingAllocator {
    /// Takes the pool's memory from expandable segments from here on, whatever the settings say, so that it can be
    /// suspended.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) also for a pool that has memory already, for
    /// one with an allocator of its own, and where the settings have large segments of no whole 2 MiB.
    pub fn set_pool_expandable(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        let slot = locked.private_pool("set_pool_expandable", id)?;
        let refuse = |why| Err(private_pools::refused("set_pool_expandable", id, why));
        let owner = locked.pools.owner(slot);
        if owner.allocator.is_some() {
            return refuse("has an allocator of its own");
        }
        if owner.segments > 0 || owner.pins > 0 {
            return refuse("has memory already");
        }
        if !locked.config.large_segment_size.is_multiple_of(ROUND_LARGE) {
            return refuse("would have pages of no whole 2 MiB: large_segment_size says so");
        }
        locked.pools.owner_mut(slot).expandable = true;
        Ok(())
    }

    /// Gives a pool the name by which it is suspended and resumed with others, on all devices; none where it is empty.
    pub fn set_pool_tag(&self, device: DeviceIndex, id: MempoolId, tag: &str) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        let slot = locked.private_pool("set_pool_tag", id)?;
        locked.pools.owner_mut(slot).tag = (!tag.is_empty()).then(|| tag.to_owned());
        Ok(())
    }

    /// Whether the pool is suspended.
    pub fn is_pool_suspended(&self, device: DeviceIndex, id: MempoolId) -> Result<bool> {
        let locked = self.device(device)?.lock();
        let slot = locked.private_pool("is_pool_suspended", id)?;
        Ok(locked.pools.owner(slot).asleep.is_some())
    }

    /// The pools with a tag.
    fn tagged(&self, tag: &str) -> Vec<(DeviceIndex, MempoolId)> {
        let mut found = Vec::new();
        for device in &self.0.devices {
            let locked = device.lock();
            let pools = locked.pools.private().filter(|(_, owner)| owner.tag.as_deref() == Some(tag));
            found.extend(pools.map(|(_, owner)| (device.index, owner.id)));
        }
        found
    }
}

impl DeviceState {
    /// Refuses a request that goes to a pool which sleeps.
    #[inline]
    pub(crate) fn check_awake(&self, request: &Request) -> std::result::Result<(), Refused> {
        let owner = self.pools.owner(request.pool.owner);
        if owner.asleep.is_some() { Err(Refused::Suspended(owner.id)) } else { Ok(()) }
    }
}
