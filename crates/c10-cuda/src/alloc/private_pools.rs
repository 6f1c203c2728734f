//! Private pools: memory that is kept apart from the device's own (`createOrIncrefPool`, `beginAllocateToPool`, …).
//!
//! A pool is there from its first use until its last use is gone and its last segment has been given back; what
//! is freed of it meanwhile serves only it. [`MemPool`](super::MemPool) makes these calls for a program, and
//! [`GraphCapture`](crate::graph::GraphCapture) for a capture.

use std::collections::BTreeSet;

use c10_core::DeviceIndex;

use super::CachingAllocator;
use super::device::{DeviceState, Locked};
use super::mempool_id::{MempoolId, PoolFilter};
use super::pool_allocator::PoolAllocator;
use super::scopes::Scope;
use crate::driver::{DevicePtr, DriverError};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

/// # Errors
/// All calls return [`ErrorKind::InvalidArgument`] when there is no such device, and where they say that the pool
/// is there, when it is not.
impl CachingAllocator {
    /// A name for the pool of a graph that no pool of this allocator has (`graph_pool_handle`).
    pub fn new_graph_pool_id(&self) -> MempoolId {
        MempoolId::new(self.0.next_pool.fetch_add(1, Ordering::Relaxed), 0)
    }

    /// Makes a pool with one use, or counts one more use of it (`createOrIncrefPool`). Segments of a new pool come
    /// from `allocator`, if one is given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for the [default](MempoolId::DEFAULT) pool, for one whose last use is gone and
    /// of which blocks live on, and for another allocator than the one that the pool has.
    pub fn create_or_incref_pool(
        &self,
        device: DeviceIndex,
        id: MempoolId,
        allocator: Option<Arc<dyn PoolAllocator>>,
    ) -> Result<()> {
        self.supports("createOrIncrefPool")?;
        self.device(device)?.lock().create_or_incref(id, allocator)?;
        Ok(())
    }

    /// Lets free blocks of the pool serve requests outside it when memory is short (`setUseOnOOM`). The pool need
    /// not be there yet.
    pub fn set_use_on_oom(&self, device: DeviceIndex, id: MempoolId, use_on_oom: bool) -> Result<()> {
        self.supports("setUseOnOOM")?;
        let mut locked = self.device(device)?.lock();
        if use_on_oom && id != MempoolId::DEFAULT {
            locked.pools.use_on_oom.insert(id);
        } else {
            locked.pools.use_on_oom.remove(id);
        }
        Ok(())
    }

    /// Hands the pool's blocks out whole from here on, until its last use is gone (`setNoSplit`). The pool need not
    /// be there yet.
    pub fn set_no_split(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        self.supports("setNoSplit")?;
        if id != MempoolId::DEFAULT {
            self.device(device)?.lock().pools.set_no_split(id, true);
        }
        Ok(())
    }

    /// Sends what `filter` takes to the pool from here on, which this makes or counts a use of
    /// (`beginAllocateToPool`). Where several scopes fit, the newest decides.
    ///
    /// # Errors
    /// As [`create_or_incref_pool`](Self::create_or_incref_pool), and [`ErrorKind::InvalidArgument`] when
    /// allocations go to the pool already.
    pub fn begin_allocate_to_pool(
        &self,
        device: DeviceIndex,
        id: MempoolId,
        filter: PoolFilter,
    ) -> Result<()> {
        if let Some(pool) = &self.0.async_pool {
            self.device(device)?;
            return pool.begin_allocate_to_pool();
        }
        let mut locked = self.device(device)?.lock();
        if locked.scope_of(id).is_some() {
            return Err(refused("begin_allocate_to_pool", id, "has allocations going to it already"));
        }
        let owner = locked.create_or_incref(id, None)?;
        locked.pools.scopes.push(Scope { owner, filter });
        Ok(())
    }

    /// Ends that (`endAllocateToPool`). The use that it counted goes with
    /// [`release_pool`](Self::release_pool).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when no allocations go to the pool. What the driver reports of captures, with
    /// `graph_capture_record_stream_reuse`; the scope has ended then.
    pub fn end_allocate_to_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        if let Some(pool) = &self.0.async_pool {
            self.device(device)?;
            return pool.end_allocate_to_pool();
        }
        let mut locked = self.device(device)?.lock();
        let at = locked.scope_of(id);
        let at = at.ok_or_else(|| refused("end_allocate_to_pool", id, "has no allocations going to it"))?;
        let owner = locked.pools.scopes.remove(at).owner;
        if locked.config.graph_capture_record_stream_reuse {
            // Differs from PyTorch: only of captures that are over, which a scope may end without.
            locked.resume_deferred(Some(owner))?;
        }
        locked.end_if_over(owner);
        Ok(())
    }

    /// Takes one use of the pool back (`releasePool`). With the last its free segments can go back to the driver,
    /// which they do when memory is short or in [`empty_cache`](Self::empty_cache).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the pool has no use, or is not there.
    pub fn release_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        if self.0.async_pool.is_some() {
            return Ok(());
        }
        let slot = locked.private_pool("release_pool", id)?;
        let owner = locked.pools.owner_mut(slot);
        let left = owner.use_count.checked_sub(1);
        owner.use_count = left.ok_or_else(|| refused("release_pool", id, "has no use left"))?;
        if left == Some(0) {
            locked.pools.freeable.insert(id);
            locked.pools.set_no_split(id, false);
        }
        Ok(())
    }

    /// How many uses of the pool there are (`getPoolUseCount`). The pool is there.
    pub fn pool_use_count(&self, device: DeviceIndex, id: MempoolId) -> Result<u64> {
        self.supports("getPoolUseCount")?;
        let locked = self.device(device)?.lock();
        let slot = locked.private_pool("pool_use_count", id)?;
        Ok(locked.pools.owner(slot).use_count)
    }

    /// Gives the pool's free segments back to the driver, if its last use is gone, and the pool itself when that
    /// were all (`emptyCache` of a pool); of the default pool as [`empty_cache`](Self::empty_cache) does. In a
    /// capture it waits for the capture's end.
    ///
    /// # Errors
    /// The first that the driver reports, after all that can be given back has been.
    pub fn empty_pool_cache(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        if let Some(pool) = &self.0.async_pool {
            self.device(device)?;
            return pool.empty_cache();
        }
        let mut locked = self.device(device)?.lock();
        if id == MempoolId::DEFAULT {
            return Ok(locked.release_cached_blocks()?);
        }
        Ok(locked.empty_pool(id)?)
    }

    /// Whether these addresses, in whatever order, are those of the pool's blocks that the program holds
    /// (`checkPoolLiveAllocations`). The pool is there.
    pub fn check_pool_live_allocations(
        &self,
        device: DeviceIndex,
        id: MempoolId,
        expected: &[DevicePtr],
    ) -> Result<bool> {
        self.supports("checkPoolLiveAllocations")?;
        let locked = self.device(device)?.lock();
        let slot = locked.private_pool("check_pool_live_allocations", id)?;
        let live = locked.blocks.iter().filter(|(_, block)| block.allocated && block.pool.owner == slot);
        let live: BTreeSet<_> = live.map(|(_, block)| DevicePtr(block.ptr)).collect();
        Ok(live == expected.iter().copied().collect())
    }
}

impl Locked<'_> {
    /// [`CachingAllocator::empty_pool_cache`] of a private pool.
    pub(crate) fn empty_pool(&mut self, id: MempoolId) -> Result<(), DriverError> {
        let Some(slot) = self.pools.find(id).filter(|_| self.pools.freeable.contains(id)) else {
            return Ok(());
        };
        if self.capture_context()?.is_some() {
            self.pools.owner_mut(slot).empty_later = true;
            return Ok(());
        }
        let _relaxed = self.relaxed()?;
        let waited = self.synchronize_and_free_events(Some(slot));
        waited.and(self.release_freeable(id))
    }
}

impl DeviceState {
    /// Counts a use of a pool, which is made if it is not there. Its slot.
    fn create_or_incref(&mut self, id: MempoolId, allocator: Option<Arc<dyn PoolAllocator>>) -> Result<u32> {
        const CALL: &str = "create_or_incref_pool";
        if id == MempoolId::DEFAULT {
            return Err(refused(CALL, id, "is the device's own"));
        }
        let slot = match self.pools.find(id) {
            None => self.pools.create(id, allocator),
            Some(slot) => {
                let owner = self.pools.owner(slot);
                if owner.use_count == 0 {
                    return Err(refused(CALL, id, "has lost its last use, and blocks of it live on"));
                }
                let same =
                    |given: &Arc<_>| owner.allocator.as_ref().is_some_and(|own| Arc::ptr_eq(own, given));
                if !allocator.as_ref().is_none_or(same) {
                    return Err(refused(CALL, id, "has another allocator"));
                }
                slot
            }
        };
        let owner = self.pools.owner_mut(slot);
        owner.use_count = owner.use_count.checked_add(1).ok_or_else(|| refused(CALL, id, "has 2^64 uses"))?;
        Ok(slot)
    }

    /// Where in the list the scope of a pool is.
    fn scope_of(&self, id: MempoolId) -> Option<usize> {
        let slot = self.pools.find(id)?;
        self.pools.scopes.iter().position(|scope| scope.owner == slot)
    }

    /// The slot of a pool that is there.
    pub(crate) fn private_pool(&self, call: &str, id: MempoolId) -> Result<u32> {
        self.pools.find(id).ok_or_else(|| refused(call, id, "is not there"))
    }

    /// Ends a pool whose last use is gone, when nothing of it is left.
    pub(crate) fn end_if_over(&mut self, slot: u32) {
        let released = self.pools.freeable.contains(self.pools.owner(slot).id);
        if released && self.pools.is_unused(slot) {
            self.retire_unmapped(slot);
        }
        if released && self.pools.is_over(slot) {
            self.pools.remove(slot);
        }
    }
}

pub(crate) fn refused(call: &str, id: MempoolId, why: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{call}: the pool {id} {why}"))
}
