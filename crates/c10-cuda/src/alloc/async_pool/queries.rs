//! What can be asked of the driver's pools, and the memory fraction.

use c10_core::DeviceIndex;

use super::state::{AsyncPool, Locked};
use crate::alloc::DeviceStats;
use crate::driver::{DevicePtr, DriverError, MemPoolInfo, StreamHandle};
use crate::error::Result;
use crate::sync::Arc;

impl AsyncPool {
    /// The pool's bytes; all other statistics are 0.
    pub(in crate::alloc) fn stats(&self, device: DeviceIndex) -> Result<DeviceStats> {
        let pool = self.driver.mem_pool_info(device)?;
        let graphs = self.driver.graph_memory_info(device)?;
        let mut stats = DeviceStats::default();
        let sum = |of: fn(&MemPoolInfo) -> u64| (of(&pool).saturating_add(of(&graphs))) as i64;
        for array in [&mut stats.allocated_bytes, &mut stats.active_bytes] {
            array.all.current = sum(|info| info.used);
            // Each had its peak at a time of its own: together they were no larger.
            array.all.peak = sum(|info| info.used_peak);
        }
        stats.reserved_bytes.all.current = sum(|info| info.reserved);
        stats.reserved_bytes.all.peak = sum(|info| info.reserved_peak);
        Ok(stats)
    }

    pub(in crate::alloc) fn reset_peak_stats(&self, device: DeviceIndex) -> Result<()> {
        self.driver.mem_pool_reset_peaks(device)?;
        Ok(self.driver.graph_memory_reset_peaks(device)?)
    }

    /// Waits for all work of the devices in use, and gives what their pools do not use back. In a capture it waits
    /// for the capture's end.
    pub(in crate::alloc) fn empty_cache(self: &Arc<Self>) -> Result<()> {
        let mut locked = self.lock();
        let Some(_quiet) = locked.quiet() else {
            let is_first = !std::mem::replace(&mut locked.empty_later, true);
            drop(locked);
            if is_first {
                self.when_over(|pool| {
                    let mut locked = pool.lock();
                    if let Some(_quiet) = locked.quiet() {
                        pool.note(locked.empty_if_waiting());
                    }
                });
            }
            return Ok(());
        };
        let waits = !locked.refused.is_empty();
        if waits {
            locked.free_waiting();
        }
        Ok(locked.trim_all()?)
    }

    /// The most bytes that one request on the stream could be served with, found by asking: what the device has
    /// free, a half of it, and so on (`cacheInfo`). In a capture it does not ask.
    ///
    /// Differs from PyTorch: what graphs hold, and what is held beyond a lowered limit, do not stop it.
    pub(in crate::alloc) fn cache_info(&self, stream: StreamHandle) -> Result<u64> {
        let mut locked = self.lock();
        locked.ready(stream.device)?;
        let free = locked.driver.memory_info(stream.device)?.free;
        let device = &locked.devices[usize::from(stream.device)];
        let allowed = device.limit.map_or(u64::MAX, |(_, limit)| limit.saturating_sub(device.used));
        let mut guess = free.min(allowed);
        if locked.is_beside_capture() {
            return Ok(guess);
        }
        while guess > 0 {
            if let Some(ptr) = locked.ask(guess, stream)? {
                locked.free_trial(ptr, guess, stream);
                break;
            }
            guess >>= 1;
        }
        Ok(guess)
    }

    pub(in crate::alloc) fn set_memory_fraction(&self, fraction: f64, device: DeviceIndex) -> Result<()> {
        let mut locked = self.lock();
        locked.ready(device)?;
        let total = locked.driver.memory_info(device)?.total;
        locked.devices[usize::from(device)].limit = Some((fraction, (fraction * total as f64) as u64));
        Ok(())
    }

    pub(in crate::alloc) fn memory_fraction(&self, device: DeviceIndex) -> f64 {
        self.lock().devices[usize::from(device)].limit.map_or(1.0, |(fraction, _)| fraction)
    }

    /// The address and the size that a block was asked for with: each is an allocation of its own.
    pub(in crate::alloc) fn base_allocation(&self, ptr: DevicePtr) -> Option<(DevicePtr, u64)> {
        let locked = self.lock();
        locked.live.get(&ptr.0).filter(|usage| !usage.freed).map(|usage| (ptr, usage.bytes))
    }

    /// The device of a block.
    pub(in crate::alloc) fn device_of(&self, ptr: DevicePtr) -> Option<DeviceIndex> {
        let locked = self.lock();
        locked.live.get(&ptr.0).filter(|usage| !usage.freed).map(|usage| usage.stream.device)
    }

    pub(in crate::alloc) fn take_free_error(&self) -> Option<DriverError> {
        self.lock().unreported.take()
    }
}

impl Locked<'_> {
    /// Empties the cache where that was to wait for the end of captures.
    pub(super) fn empty_if_waiting(&mut self) -> Result<(), DriverError> {
        if !std::mem::take(&mut self.empty_later) {
            return Ok(());
        }
        self.free_waiting();
        self.trim_all()
    }

    /// Waits for each device in use, and trims its pool. The first error, after all has been tried.
    pub(super) fn trim_all(&mut self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for (device, state) in (0..).zip(&self.devices) {
            if state.ready.is_some() {
                let trimmed = self.driver.device_synchronize(device);
                result = result.and(trimmed.and_then(|()| self.driver.mem_pool_trim(device, 0)));
            }
        }
        result
    }
}
