//! What graphs do with private pools: they use them while they are there, and what they launched may go on using the
//! memory after that.
//!
//! // Note [Launches of graphs]
//! The memory that a launch uses is free blocks, to the allocator: the graph says what uses them when. They serve
//! nobody outside the pool while the graph is there. When it is dropped, launches may be under way, on any stream; the
//! events behind them are *retired* here with the names of the pools. Before a segment of such a pool goes back to the
//! driver they are waited for, which is when memory is short and in `empty_cache`, where events are waited for anyway.

use c10_core::DeviceIndex;

use super::CachingAllocator;
use super::device::Locked;
use super::mempool_id::MempoolId;
use crate::driver::{DriverError, EventHandle, Status};
use crate::error::Result;
use crate::graph::{Launches, SeedMemory, Work};
use crate::sync::Arc;

/// Launches of a graph that is gone.
#[derive(Debug)]
pub(crate) struct RetiredLaunches {
    launches: Launches,
    pools: Vec<MempoolId>,
    /// What they do, whose random state is not to be used anew before.
    _work: Vec<Arc<Work>>,
}

impl RetiredLaunches {
    /// The events, which nobody waits for any more.
    pub(crate) fn into_events(self) -> impl Iterator<Item = EventHandle> {
        self.launches.into_events()
    }
}

impl CachingAllocator {
    /// Whether two handles are of one allocator.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(&*self.0, &*other.0)
    }

    /// Notes a graph that uses a pool, of which a use has been counted for it.
    pub(crate) fn add_graph(&self, device: DeviceIndex, id: MempoolId) {
        let Ok(device) = self.device(device) else { return };
        let mut locked = device.lock();
        if let Some(slot) = locked.pools.find(id) {
            locked.pools.owner_mut(slot).graphs += 1;
        }
    }

    /// Counts a use of a pool for another graph.
    pub(crate) fn share_graph(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        if self.0.async_pool.is_none() {
            self.create_or_incref_pool(device, id, None)?;
            self.add_graph(device, id);
        }
        Ok(())
    }

    /// Ends a graph's use of a pool, of which it has launched nothing.
    pub(crate) fn remove_graph(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        {
            let mut locked = self.device(device)?.lock();
            if let Some(slot) = locked.pools.find(id) {
                let owner = locked.pools.owner_mut(slot);
                owner.graphs = owner.graphs.saturating_sub(1);
            }
        }
        self.release_pool(device, id)?;
        // Differs from PyTorch: a pool that never had memory does not wait for the next `empty_cache`.
        let mut locked = self.device(device)?.lock();
        if let Some(slot) = locked.pools.find(id) {
            locked.end_if_over(slot);
        }
        Ok(())
    }

    /// As [`remove_graph`](Self::remove_graph), of a use that was counted a moment ago.
    pub(crate) fn drop_graph(&self, device: DeviceIndex, id: MempoolId) {
        // The use is there.
        let _ = self.remove_graph(device, id);
    }

    /// Ends a graph's use of pools. Their memory, and what its work reads seeds from, serves others when the launches
    /// are done.
    ///
    /// # Errors
    /// The first of the driver's, after all has been done that can be.
    pub(crate) fn end_graph(
        &self,
        device: DeviceIndex,
        pools: &[MempoolId],
        launches: Launches,
        work: Vec<Arc<Work>>,
    ) -> Result<()> {
        let mut result = Ok(());
        if !launches.is_empty() {
            let mut locked = self.device(device)?.lock();
            locked.retired.push(RetiredLaunches { launches, pools: pools.to_vec(), _work: work });
            result = locked.reap_launches();
        } else {
            let mut locked = self.device(device)?.lock();
            launches.into_events().for_each(|event| locked.idle_events.keep(event));
        }
        let mut result = result.map_err(crate::Error::from);
        for pool in pools {
            result = result.and(self.remove_graph(device, *pool));
        }
        result
    }

    /// Memory that a graph reads seed and offset from. What is cached goes where memory is short.
    pub(crate) fn seed_memory(&self, device: DeviceIndex) -> Result<SeedMemory> {
        let device = self.device(device)?;
        let take = || {
            let _relaxed = device.captures.relaxed(&*device.driver)?;
            device.seeds.take(&*device.driver, device.index)
        };
        match take() {
            Err(error) if error.status == Status::OutOfMemory => {
                let mut locked = device.lock();
                let _relaxed = locked.relaxed()?;
                locked.release_blocks()?;
                Ok(take()?)
            }
            taken => Ok(taken?),
        }
    }

    /// Notes that a capture which the current stream takes part in allocates from another pool: its graph keeps that
    /// (`retain_pool`).
    pub(crate) fn retain_in_capture(&self, device: DeviceIndex, id: MempoolId) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        let Some((_, capture)) = locked.capture_context()? else { return Ok(()) };
        let retained = locked.retained.entry(capture).or_default();
        if retained.contains(&id) {
            return Ok(());
        }
        retained.push(id);
        drop(locked);
        self.share_graph(device, id)
    }

    /// The pools that a capture keeps beside its own, each with a use counted.
    pub(crate) fn take_retained(&self, device: DeviceIndex, capture: u64) -> Vec<MempoolId> {
        let Ok(device) = self.device(device) else { return Vec::new() };
        device.lock().retained.remove(&capture).unwrap_or_default()
    }
}

impl Locked<'_> {
    /// Forgets the launches of graphs that are gone which are done.
    fn reap_launches(&mut self) -> Result<(), DriverError> {
        let _relaxed = self.relaxed()?;
        let mut at = 0;
        while at < self.retired.len() {
            if self.retired[at].launches.are_done(self.driver())? {
                self.forget_launches(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Waits for what graphs that are gone launched and that may use a pool's memory; of all pools where none is named.
    /// See Note [Launches of graphs].
    pub(crate) fn wait_for_launches(&mut self, id: Option<MempoolId>) -> Result<(), DriverError> {
        let mut at = 0;
        while at < self.retired.len() {
            let retired = &self.retired[at];
            if id.is_none_or(|id| retired.pools.contains(&id)) {
                let quiet = self.device.captures.quiet();
                if retired.launches.is_unknown() && quiet.is_none() {
                    let index = self.device.index;
                    return Err(DriverError::new("device_synchronize", Status::CaptureUnsupported, index));
                }
                retired.launches.wait(self.driver(), self.device.index)?;
                self.forget_launches(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Whether graphs use a pool's memory, or launches of graphs that are gone do.
    pub(crate) fn is_used_by_graphs(&self, slot: u32) -> bool {
        let owner = self.pools.owner(slot);
        owner.graphs > 0 || self.retired.iter().any(|retired| retired.pools.contains(&owner.id))
    }

    /// Gives back what graphs that are gone read seeds from, whose launches are waited for.
    pub(crate) fn release_seeds(&mut self) -> Result<(), DriverError> {
        let _relaxed = self.relaxed()?;
        let waited = self.wait_for_seeds();
        waited.and(self.device.seeds.clear(self.driver()))
    }

    /// Waits for what launches of graphs that are gone read seeds, unless a graph uses their pools still.
    fn wait_for_seeds(&mut self) -> Result<(), DriverError> {
        self.reap_launches()?;
        loop {
            let pools = &self.pools;
            let is_used =
                |id: &MempoolId| pools.find(*id).is_some_and(|slot| pools.owner(slot).use_count > 0);
            let is_over = |retired: &RetiredLaunches| !retired.pools.iter().any(is_used);
            let of = |retired: &RetiredLaunches| retired.pools.first().copied().filter(|_| is_over(retired));
            let Some(id) = self.retired.iter().find_map(of) else { return Ok(()) };
            self.wait_for_launches(Some(id))?;
        }
    }

    fn forget_launches(&mut self, at: usize) {
        for event in self.retired.swap_remove(at).into_events() {
            self.idle_events.keep(event);
        }
    }
}
