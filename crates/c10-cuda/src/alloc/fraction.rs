//! The memory fraction: a cap on the allocator's own bytes (`set_per_process_memory_fraction`).

use c10_core::DeviceIndex;

use super::CachingAllocator;
use crate::error::{Error, ErrorKind, Result};

impl CachingAllocator {
    /// Caps the allocator's bytes on a device at a part of the device's memory, in [0, 1]; 1 lifts the cap. What
    /// the context and libraries hold is not counted. What is held already stays.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a number outside [0, 1] or when there is no such device.
    pub fn set_memory_fraction(&self, fraction: f64, device: DeviceIndex) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("invalid fraction:{fraction}. Please set within [0, 1]."),
            ));
        }
        if let Some(pool) = &self.0.async_pool {
            self.device(device)?;
            return pool.set_memory_fraction(fraction, device);
        }
        let device = self.device(device)?;
        let total = device.driver.device_props(device.index)?.total_memory;
        let mut locked = device.lock();
        locked.fraction = fraction;
        locked.limit = (fraction < 1.0).then_some((fraction * total as f64).round() as u64);
        Ok(())
    }

    /// The fraction that is set; 1 without a cap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device.
    pub fn memory_fraction(&self, device: DeviceIndex) -> Result<f64> {
        let own = self.device(device)?;
        let pool = self.0.async_pool.as_ref();
        Ok(pool.map_or_else(|| own.lock().fraction, |pool| pool.memory_fraction(device)))
    }
}
