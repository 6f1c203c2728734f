//! [`DeviceStats`]: what the allocator counts for a device (`c10::CachingDeviceAllocator::DeviceStats`).

use std::collections::BTreeMap;

use c10_core::stat::{Stat, StatArray};

use super::mempool_id::MempoolId;

/// The statistics of one device. Sizes are in bytes; what moves each value, and when, is PyTorch's
/// (`torch.cuda.memory_stats`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Blocks that the program holds.
    pub allocation: StatArray,
    /// Segments from the driver's malloc. Expandable segments are not counted.
    pub segment: StatArray,
    /// Blocks that the program holds or that wait for other streams.
    pub active: StatArray,
    /// Free blocks of segments that are in use in part.
    pub inactive_split: StatArray,
    /// Bytes of the blocks that the program holds.
    pub allocated_bytes: StatArray,
    /// Bytes from the driver.
    pub reserved_bytes: StatArray,
    /// Bytes of active blocks.
    pub active_bytes: StatArray,
    /// Bytes of the blocks that `inactive_split` counts.
    pub inactive_split_bytes: StatArray,
    /// Bytes from the driver of each private pool that has had any.
    pub reserved_bytes_by_private_pools: BTreeMap<MempoolId, StatArray>,
    /// Bytes that the program asked for, before rounding, of active blocks.
    pub requested_bytes: StatArray,
    /// Mallocs that were tried again after everything cached had been freed.
    pub num_alloc_retries: i64,
    /// Out-of-memory errors returned.
    pub num_ooms: i64,
    /// How often the events of all streams were waited for.
    pub num_sync_all_streams: i64,
    /// Successful mallocs and mappings.
    pub num_device_alloc: i64,
    /// Frees and unmappings.
    pub num_device_free: i64,
    /// Requests rejected because of `throw_on_cudamalloc_oom`.
    pub num_oom_rejections: i64,
    /// Blocks of at least `max_split_size` that the program holds.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// The configured `max_split_size` in bytes; -1 without one.
    pub max_split_size: i64,
}

impl DeviceStats {
    /// Zeroes everything that only grows (`resetAccumulatedStats`).
    pub fn reset_accumulated(&mut self) {
        self.arrays_mut().for_each(StatArray::reset_accumulated);
        self.oversize_allocations.reset_accumulated();
        self.oversize_segments.reset_accumulated();
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_sync_all_streams = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
        self.num_oom_rejections = 0;
    }

    /// Makes every peak the current value (`resetPeakStats`).
    pub fn reset_peak(&mut self) {
        self.arrays_mut().for_each(StatArray::reset_peak);
        self.oversize_allocations.reset_peak();
        self.oversize_segments.reset_peak();
    }

    /// The statistics by pool, with PyTorch's names.
    pub fn arrays(&self) -> [(&'static str, &StatArray); 9] {
        [
            ("allocation", &self.allocation),
            ("segment", &self.segment),
            ("active", &self.active),
            ("inactive_split", &self.inactive_split),
            ("allocated_bytes", &self.allocated_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("active_bytes", &self.active_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("requested_bytes", &self.requested_bytes),
        ]
    }

    /// What is counted for the whole device, with PyTorch's names.
    pub fn counters(&self) -> [(&'static str, i64); 6] {
        [
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_ooms", self.num_ooms),
            ("num_sync_all_streams", self.num_sync_all_streams),
            ("num_device_alloc", self.num_device_alloc),
            ("num_device_free", self.num_device_free),
            ("num_oom_rejections", self.num_oom_rejections),
        ]
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut StatArray> {
        let arrays = [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ];
        arrays.into_iter().chain(self.reserved_bytes_by_private_pools.values_mut())
    }
}
