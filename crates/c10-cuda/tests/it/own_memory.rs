//! [`OwnMemory`]: a pool's own source of memory, for tests.
#![expect(unsafe_code, reason = "implements the unsafe trait with memory of the driver")]

use std::sync::{Arc, Mutex};

use c10_core::DeviceIndex;
use c10_cuda::alloc::PoolAllocator;
use c10_cuda::driver::{DevicePtr, Driver, StreamHandle};

/// The driver's memory, with a line for each call.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    driver: Arc<dyn Driver>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl OwnMemory {
    pub(crate) fn logged(driver: Arc<dyn Driver>, log: Arc<Mutex<Vec<String>>>) -> Self {
        Self { driver, log }
    }
}

// SAFETY: the driver's ranges are at multiples of 2 MiB, and nobody else's until they are freed.
unsafe impl PoolAllocator for OwnMemory {
    fn alloc(&self, bytes: u64, device: DeviceIndex, _: StreamHandle) -> Option<DevicePtr> {
        self.log.lock().unwrap().push(format!("own alloc {bytes}"));
        self.driver.malloc(device, bytes).ok()
    }

    fn free(&self, ptr: DevicePtr, _: u64, _: DeviceIndex, _: StreamHandle) {
        self.log.lock().unwrap().push("own free".to_owned());
        // SAFETY: it came from `alloc`, and the allocator has given it up.
        let freed = unsafe { self.driver.free(ptr) };
        freed.unwrap();
    }
}
