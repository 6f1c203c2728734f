//! What can be asked: statistics, memory in use, the cache, snapshots, what was recorded.

use c10_core::{DataPtr, DeviceIndex};

use super::device::DeviceState;
use super::ids::BlockId;
use super::policy::planned::Arena;
use super::{CachingAllocator, DeviceStats, History, MempoolId, Snapshot, TraceTracker, memory_summary, oom};
use crate::driver::{DevicePtr, DriverError, MemoryInfo, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

/// # Errors
/// All calls that name a device return [`ErrorKind::InvalidArgument`] when
/// there is no such device.
impl CachingAllocator {
    /// All statistics of a device (`torch.cuda.memory_stats`).
    pub fn device_stats(&self, device: DeviceIndex) -> Result<DeviceStats> {
        self.with_stats(device, DeviceStats::clone)
    }

    /// The statistics of a device as a table (`torch.cuda.memory_summary`).
    pub fn memory_summary(&self, device: DeviceIndex) -> Result<String> {
        Ok(memory_summary(&self.device_stats(device)?, device, false))
    }

    /// Zeroes what only grows (`torch.cuda.reset_accumulated_memory_stats`).
    pub fn reset_accumulated_stats(&self, device: DeviceIndex) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        locked.stats.reset_accumulated();
        locked.usage.reset_accumulated();
        Ok(())
    }

    /// Makes every peak the current value (`torch.cuda.reset_peak_memory_stats`).
    pub fn reset_peak_stats(&self, device: DeviceIndex) -> Result<()> {
        let own = self.device(device)?;
        match &self.0.async_pool {
            Some(pool) => pool.reset_peak_stats(device)?,
            None => {
                let mut locked = own.lock();
                locked.stats.reset_peak();
                locked.usage.reset_peak();
            }
        }
        Ok(())
    }

    /// Bytes of the blocks that the program holds (`torch.cuda.memory_allocated`).
    pub fn memory_allocated(&self, device: DeviceIndex) -> Result<u64> {
        self.with_stats(device, |stats| stats.allocated_bytes.all.current as u64)
    }

    /// Their largest sum (`torch.cuda.max_memory_allocated`).
    pub fn max_memory_allocated(&self, device: DeviceIndex) -> Result<u64> {
        self.with_stats(device, |stats| stats.allocated_bytes.all.peak as u64)
    }

    /// Bytes from the driver (`torch.cuda.memory_reserved`).
    pub fn memory_reserved(&self, device: DeviceIndex) -> Result<u64> {
        self.with_stats(device, |stats| stats.reserved_bytes.all.current as u64)
    }

    /// Their largest sum (`torch.cuda.max_memory_reserved`).
    pub fn max_memory_reserved(&self, device: DeviceIndex) -> Result<u64> {
        self.with_stats(device, |stats| stats.reserved_bytes.all.peak as u64)
    }

    /// [`memory_allocated`](Self::memory_allocated) and [`memory_reserved`](Self::memory_reserved) at one time.
    pub fn memory_in_use(&self, device: DeviceIndex) -> Result<(u64, u64)> {
        let locked = self.device(device)?.lock();
        Ok((locked.usage.allocated_bytes(), locked.stats.reserved_bytes.all.current as u64))
    }

    /// What the driver says of the device's memory (`torch.cuda.mem_get_info`). What is in use and not
    /// [reserved](Self::memory_reserved) belongs to contexts, libraries and other processes.
    pub fn mem_get_info(&self, device: DeviceIndex) -> Result<MemoryInfo> {
        let device = self.device(device)?;
        Ok(device.driver.memory_info(device.index)?)
    }

    /// The most bytes that one request could be served with: the largest free block, or what the driver has free
    /// (`cacheInfo`).
    pub fn cache_info(&self, device: DeviceIndex) -> Result<u64> {
        let device = self.device(device)?;
        if let Some(pool) = &self.0.async_pool {
            return pool.cache_info(current_stream_of(self, device.index)?);
        }
        let driver_free = device.driver.memory_info(device.index)?.free;
        let locked = device.lock();
        let free = locked.pools.iter().flat_map(|pool| pool.free.iter(&locked.blocks));
        let free = free.filter(|id| locked.pools.owner(locked.blocks[*id].pool.owner).asleep.is_none());
        Ok(free.map(|id| locked.blocks[id].size).max().unwrap_or(0).max(driver_free))
    }

    /// The first address and the size in bytes of the segment that holds the memory (`getBaseAllocation`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for memory that is not this allocator's;
    /// [`ErrorKind::NotImplemented`] for memory of an expandable segment, which
    /// is no one allocation of the driver.
    pub fn base_allocation(&self, ptr: &DataPtr) -> Result<(DevicePtr, u64)> {
        if let Some((pool, address)) = self.own_async(ptr)
            && let Some(base) = pool.base_allocation(address)
        {
            return Ok(base);
        }
        let (device, index) = self.own_block(ptr, "base_allocation")?;
        let locked = device.lock();
        let id = locked.blocks.id_at(index).expect("a context is out, so its slot holds a block");
        locked.segment_of(id)
    }

    /// [`base_allocation`](Self::base_allocation) for memory of a raw call.
    ///
    /// # Errors
    /// As there.
    pub fn base_allocation_raw(&self, ptr: DevicePtr) -> Result<(DevicePtr, u64)> {
        if let Some(base) = self.0.async_pool.as_ref().and_then(|pool| pool.base_allocation(ptr)) {
            return Ok(base);
        }
        let found = self.find_raw(ptr);
        let (locked, id) = found.ok_or_else(|| oom::foreign("base_allocation_raw", &ptr.to_string()))?;
        locked.segment_of(id)
    }

    /// The device of memory of a raw call.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an address that no raw call gave out, or that has been given back.
    pub fn device_of_raw(&self, ptr: DevicePtr) -> Result<DeviceIndex> {
        let of_pool = self.0.async_pool.as_ref().and_then(|pool| pool.device_of(ptr));
        let cached = || self.find_raw(ptr).map(|(locked, _)| locked.device.index);
        let uncached = || lock(&self.0.uncached).get(&ptr.0).copied();
        let found = of_pool.or_else(cached).or_else(uncached);
        found.ok_or_else(|| oom::foreign("device_of_raw", &ptr.to_string()))
    }

    /// All segments and blocks, and what was recorded, if that is asked for; the devices one after the other.
    pub fn snapshot(&self, include_traces: bool) -> Snapshot {
        self.snapshot_of(MempoolId::DEFAULT, include_traces)
    }

    /// The segments and blocks of one private pool, or with the [default](MempoolId::DEFAULT) of all, and what was
    /// recorded of all, if that is asked for.
    pub fn snapshot_of(&self, pool: MempoolId, include_traces: bool) -> Snapshot {
        let mut snapshot =
            Snapshot { segments: Vec::new(), device_traces: Vec::new(), config: self.config().clone() };
        for device in &self.0.devices {
            let mut locked = device.lock();
            let segments = locked.segments(pool);
            snapshot.device_traces.push(if include_traces { locked.trace.entries() } else { Vec::new() });
            locked.record_snapshot(pool, segments.iter().map(|segment| segment.active_size).sum());
            snapshot.segments.extend(segments);
        }
        snapshot
    }

    /// Records what happens from here on, or with `None` stops and forgets
    /// (`torch.cuda.memory._record_memory_history`).
    pub fn record_history(&self, history: Option<History>) {
        for device in &self.0.devices {
            device.contexts.set(history.as_ref().and_then(|h| h.contexts.as_ref()));
            device.lock().trace.set(history.clone());
        }
    }

    /// Puts a remark into what is recorded of a device, as an entry of its own.
    pub fn annotate(&self, text: &str, device: DeviceIndex) -> Result<()> {
        let mut locked = self.device(device)?.lock();
        let stream = locked.stream(0);
        locked.trace.annotate(text, stream);
        Ok(())
    }

    /// What later entries of a device carry, until it is set anew (`torch.cuda.memory._set_memory_metadata`).
    pub fn set_user_metadata(&self, metadata: Option<&str>, device: DeviceIndex) -> Result<()> {
        self.device(device)?.lock().trace.set_user_metadata(metadata.map(Into::into));
        Ok(())
    }

    /// Tells `tracker` of every entry from here on, on all devices (`attachAllocatorTraceTracker`).
    pub fn attach_trace_tracker(&self, tracker: TraceTracker) {
        for device in &self.0.devices {
            device.lock().trace.attach(TraceTracker::clone(&tracker));
        }
    }

    /// Tells `tracker` of the entries about [segments](super::TraceAction::is_of_segments) alone, from here on, on all
    /// devices: requests that cached memory serves take as long as with no tracker.
    pub fn attach_segment_tracker(&self, tracker: TraceTracker) {
        for device in &self.0.devices {
            device.lock().trace.attach_to_segments(TraceTracker::clone(&tracker));
        }
    }

    /// The last driver error that a free met and could not return, and forgets it. The block it concerns is tried
    /// again, or, where the stream that used it is gone, waits until all of the device has been waited for.
    pub fn take_free_error(&self, device: DeviceIndex) -> Result<Option<DriverError>> {
        let own = self.device(device)?;
        let pool = self.0.async_pool.as_ref();
        Ok(pool.map_or_else(|| own.lock().unreported.take(), |pool| pool.take_free_error()))
    }

    /// Stops with a message when a device's state breaks one of its rules. For tests: it looks at every block.
    ///
    /// # Panics
    /// When a rule does not hold, which is a fault of this crate.
    pub fn check_invariants(&self) {
        for device in &self.0.devices {
            device.lock().check_invariants();
        }
        if let Some(pool) = &self.0.async_pool {
            pool.check_invariants();
        }
    }

    /// Looks at the statistics of a device.
    fn with_stats<R>(&self, device: DeviceIndex, look: impl FnOnce(&DeviceStats) -> R) -> Result<R> {
        let own = self.device(device)?;
        match &self.0.async_pool {
            Some(pool) => Ok(look(&pool.stats(device)?)),
            None => Ok(look(&own.lock().device_stats())),
        }
    }
}

/// The calling thread's current stream of a device.
fn current_stream_of(allocator: &CachingAllocator, device: DeviceIndex) -> Result<StreamHandle> {
    let runtime = allocator.runtime();
    runtime.handle(runtime.current_stream(device)?)
}

impl DeviceState {
    /// The segment of a block: its first address and its size.
    pub(crate) fn segment_of(&self, id: BlockId) -> Result<(DevicePtr, u64)> {
        let mut first = &self.blocks[id];
        if let (Some(_), Some((start, end))) = (first.placed, self.arena.as_ref().and_then(Arena::range)) {
            return Ok((DevicePtr(start), end - start));
        }
        if first.expandable.is_some() || first.window.is_some() {
            return Err(Error::new(
                ErrorKind::NotImplemented,
                format!("base_allocation: the memory at {:#x} is of an expandable segment", first.ptr),
            ));
        }
        while let Some((_, prev)) = self.blocks.prev_of(first) {
            first = prev;
        }
        let mut last = first;
        while let Some((_, next)) = self.blocks.next_of(last) {
            last = next;
        }
        Ok((DevicePtr(first.ptr), last.end() - first.ptr))
    }
}
