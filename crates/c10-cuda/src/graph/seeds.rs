#![expect(unsafe_code, reason = "frees memory that no work uses any more")]
//! [`SeedMemory`]: the 16 bytes of the device that a graph reads a generator's seed and offset from.
//!
//! They come straight from the driver's `malloc`: each replay writes them before it launches the graph, so that they
//! cannot be memory of the graph (`backend:cudaMallocAsync`), and they are nothing of its pool that a checkpoint would
//! have to know. Those that no graph and no launch uses any more serve the next ones, and go back with `empty_cache`
//! and where memory is short.

use c10_core::DeviceIndex;

use crate::driver::{DevicePtr, Driver, DriverError};
use crate::sync::{Arc, Mutex, lock};

/// How many bytes a graph reads of a generator.
pub(crate) const SEED_BYTES: u64 = 16;

/// What nobody uses of a device.
#[derive(Debug, Default)]
pub(crate) struct SeedStore(Mutex<Vec<DevicePtr>>);

/// Seed and offset of one generator, for one graph. Dropped, when its launches are done, it serves another.
#[derive(Debug)]
pub(crate) struct SeedMemory {
    seed: DevicePtr,
    store: Arc<SeedStore>,
}

impl SeedStore {
    /// Memory for a graph. A capture that is under way is not disturbed where the thread's mode is relaxed.
    pub(crate) fn take(
        self: &Arc<Self>,
        driver: &dyn Driver,
        device: DeviceIndex,
    ) -> Result<SeedMemory, DriverError> {
        let idle = lock(&self.0).pop();
        let seed = idle.map_or_else(|| driver.malloc(device, SEED_BYTES), Ok)?;
        Ok(SeedMemory { seed, store: Arc::clone(self) })
    }

    /// Gives what nobody uses back to the driver. The first error, after all has been tried; what the driver refuses
    /// is kept.
    pub(crate) fn clear(&self, driver: &dyn Driver) -> Result<(), DriverError> {
        let idle = std::mem::take(&mut *lock(&self.0));
        let mut result = Ok(());
        for seed in idle {
            // SAFETY: its graphs are gone, and what they launched is done.
            let freed = unsafe { driver.free(seed) };
            if freed.is_err() {
                lock(&self.0).push(seed);
            }
            result = result.and(freed);
        }
        result
    }
}

impl SeedMemory {
    /// Where the seed is, 8 bytes.
    pub(crate) fn seed(&self) -> DevicePtr {
        self.seed
    }

    /// Where the offset is, 8 bytes.
    pub(crate) fn offset(&self) -> DevicePtr {
        self.seed.offset(8)
    }
}

impl Drop for SeedMemory {
    fn drop(&mut self) {
        lock(&self.store.0).push(self.seed);
    }
}
