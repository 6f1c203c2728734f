#![expect(unsafe_code, reason = "takes the memory away from blocks whose owners have agreed to it")]
//! Going to sleep.

use std::collections::BTreeSet;

use c10_core::DeviceIndex;

use super::{Kept, SuspendedContents};
use crate::alloc::device::Locked;
use crate::alloc::expandable::Row;
use crate::alloc::ids::{ExpandableId, PoolId};
use crate::alloc::trace::TraceAction;
use crate::alloc::{CachingAllocator, MempoolId, private_pools};
use crate::driver::DriverError;
use crate::error::Result;

/// A segment of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) id: ExpandableId,
    pub(super) pool: PoolId,
    pub(super) stream: u64,
}

impl CachingAllocator {
    /// Gives the pool's memory back to the driver, once all work of the device is complete, and keeps its blocks and
    /// their addresses until [`resume_pool`](Self::resume_pool). Again is no error.
    ///
    /// # Safety
    /// Nobody uses the pool's blocks before it is resumed, nor reads what they held before then where that is
    /// [discarded](SuspendedContents::Discarded).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) also for a pool whose memory is not of
    /// expandable segments ([`set_pool_expandable`](Self::set_pool_expandable)), and while a capture is under way. What
    /// the driver reports: where [`is_pool_suspended`](Self::is_pool_suspended) then says so, the pool sleeps and a
    /// part of its memory has not gone back yet, which this called again tries; else nothing was done.
    pub unsafe fn suspend_pool(
        &self,
        device: DeviceIndex,
        id: MempoolId,
        contents: SuspendedContents,
    ) -> Result<()> {
        let device = self.device(device)?;
        let mut locked = device.lock();
        let slot = locked.private_pool("suspend_pool", id)?;
        let refuse = |why| Err(private_pools::refused("suspend_pool", id, why));
        if !locked.is_expandable(PoolId { owner: slot, is_small: false }) {
            return refuse("has memory that is not of expandable segments");
        }
        if locked.pools.owner(slot).pins > 0 {
            return refuse("has an allocation under way");
        }
        let Some(_quiet) = device.captures.quiet() else {
            return refuse("cannot be waited for while a capture is under way");
        };
        Ok(locked.suspend(slot, contents)?)
    }

    /// [`suspend_pool`](Self::suspend_pool) for all pools with a tag ([`set_pool_tag`](Self::set_pool_tag)). How many
    /// there are.
    ///
    /// # Safety
    /// As there, for each of them.
    ///
    /// # Errors
    /// As there: the first, after all have been tried.
    pub unsafe fn suspend_tagged(&self, tag: &str, contents: SuspendedContents) -> Result<usize> {
        let pools = self.tagged(tag);
        let mut result = Ok(pools.len());
        for (device, id) in pools {
            // SAFETY: the caller answers for each.
            let suspended = unsafe { self.suspend_pool(device, id, contents) };
            result = result.and_then(|count| suspended.map(|()| count));
        }
        result
    }
}

impl Locked<'_> {
    fn suspend(&mut self, slot: u32, contents: SuspendedContents) -> std::result::Result<(), DriverError> {
        self.wait_for_pool(slot)?;
        if self.pools.owner(slot).asleep.is_none() {
            let kept = match contents {
                SuspendedContents::Discarded => Kept::default(),
                SuspendedContents::Kept => self.keep_contents(slot)?,
            };
            self.pools.owner_mut(slot).asleep = Some(kept);
        }
        self.sleep_all(slot)
    }

    /// Gives the memory of all pages of a pool that sleeps back; the first error, after all has been tried. No work uses
    /// it.
    pub(super) fn sleep_all(&mut self, slot: u32) -> std::result::Result<(), DriverError> {
        let device = self.device;
        let mut result = Ok(());
        for segment in self.segments_of(slot) {
            let (growable, unreleased) = self.expandable.with_unreleased(segment.id);
            // SAFETY: the caller has agreed to it, and all work of the device is complete.
            let (rows, slept) = unsafe { growable.sleep(&*device.driver, unreleased) };
            result = result.and(slept);
            for (at, bytes) in rows {
                self.count_unmapping(segment.pool, bytes);
                self.record(TraceAction::SegmentUnmap, segment.pool, at, bytes, segment.stream);
            }
        }
        result
    }

    /// Waits for all that uses the pool's blocks, and frees those that waited for it.
    fn wait_for_pool(&mut self, slot: u32) -> std::result::Result<(), DriverError> {
        self.synchronize_and_free_events(Some(slot))?;
        let blocks = self.blocks.iter().filter(|(_, block)| block.pool.owner == slot);
        let used_on = blocks.flat_map(|(_, block)| block.stream_uses.iter()).map(|stream| stream.device);
        let peers = self.expandable.peers.iter().copied();
        let devices: BTreeSet<_> = used_on.chain(peers).chain([self.device.index]).collect();
        devices.into_iter().try_for_each(|device| self.driver().device_synchronize(device))
    }

    /// The pool's segments by address.
    pub(super) fn segments_of(&self, slot: u32) -> Vec<Segment> {
        let heads = self.blocks.iter().filter(|(_, b)| b.is_head() && b.pool.owner == slot);
        let mut found: Vec<_> = heads
            .filter_map(|(_, head)| {
                let segment = Segment { id: head.expandable?, pool: head.pool, stream: head.stream };
                Some((head.ptr, segment))
            })
            .collect();
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, segment)| segment).collect()
    }

    /// Counts rows of pages that have memory again.
    pub(super) fn count_woken(&mut self, segment: Segment, rows: Vec<Row>) {
        for (at, bytes) in rows {
            self.count_mapping(segment.pool, bytes);
            self.record(TraceAction::SegmentMap, segment.pool, at, bytes, segment.stream);
        }
    }
}
