#![expect(unsafe_code, reason = "launches kernels: each launch says what it reads and writes")]
//! [`Kernels`]: the kernels of the examples, on one device.
//!
//! A GPU runs PTX text, here that of the driver's tests. A simulated device runs functions of the host, and an image
//! for it names them.

use std::sync::Arc;

use c10_core::DeviceIndex;
use c10_cuda::driver::{
    DevicePtr, Driver, DriverError, FunctionHandle, LaunchConfig, ModuleHandle, Status, StreamHandle,
};

/// The kernels, for GPUs.
pub const PTX: &str = include_str!("../../../crates/c10-cuda/tests/it/kernels.ptx");

/// The kernels, for simulated devices: the functions' names, and the sizes of their parameters.
pub const HOST_IMAGE: &str = "tensorplay host kernels 1\nadd_f32 8 8 8 8\nscale_f32 8 8 4 8\nspin 8\n";

/// A thread block's threads. The kernels' loops take any number of blocks.
const THREADS: u32 = 256;

/// Loaded kernels, until they are dropped.
#[derive(Debug)]
pub struct Kernels {
    driver: Arc<dyn Driver>,
    module: ModuleHandle,
    add: FunctionHandle,
    scale: FunctionHandle,
    spin: FunctionHandle,
}

impl Kernels {
    /// Loads them on a device.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn load(driver: &Arc<dyn Driver>, device: DeviceIndex) -> Result<Self, DriverError> {
        let module = match driver.module_load(device, PTX.as_bytes()) {
            Err(DriverError { status: Status::InvalidImage, .. }) => {
                driver.module_load(device, HOST_IMAGE.as_bytes())
            }
            other => other,
        }?;
        let find = |name| driver.module_function(module, name);
        let (add, scale, spin) = (find("add_f32")?, find("scale_f32")?, find("spin")?);
        Ok(Self { driver: Arc::clone(driver), module, add, scale, spin })
    }

    /// `out = a + b`.
    ///
    /// # Safety
    /// All three are arrays of `count` numbers until the stream has run it, and nothing unordered writes them or
    /// reads `out`.
    ///
    /// # Errors
    /// What the driver reports.
    pub unsafe fn add(
        &self,
        stream: StreamHandle,
        [out, a, b]: [DevicePtr; 3],
        count: u64,
    ) -> Result<(), DriverError> {
        let params = [&out.0.to_ne_bytes()[..], &a.0.to_ne_bytes(), &b.0.to_ne_bytes(), &count.to_ne_bytes()];
        // SAFETY: these are the function's parameters; the caller answers for the memory.
        unsafe { self.driver.launch_function(stream, self.add, config(count), &params) }
    }

    /// `out = a * factor`.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    ///
    /// # Errors
    /// What the driver reports.
    pub unsafe fn scale(
        &self,
        stream: StreamHandle,
        [out, a]: [DevicePtr; 2],
        factor: f32,
        count: u64,
    ) -> Result<(), DriverError> {
        let params =
            [&out.0.to_ne_bytes()[..], &a.0.to_ne_bytes(), &factor.to_ne_bytes(), &count.to_ne_bytes()];
        // SAFETY: as above.
        unsafe { self.driver.launch_function(stream, self.scale, config(count), &params) }
    }

    /// Keeps the stream busy for so many cycles.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn spin(&self, stream: StreamHandle, cycles: u64) -> Result<(), DriverError> {
        let config = LaunchConfig { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
        // SAFETY: this is the function's parameter, and it touches no memory.
        unsafe { self.driver.launch_function(stream, self.spin, config, &[&cycles.to_ne_bytes()]) }
    }
}

fn config(count: u64) -> LaunchConfig {
    let blocks = count.div_ceil(u64::from(THREADS)).clamp(1, 1024);
    LaunchConfig { grid: [blocks as u32, 1, 1], block: [THREADS, 1, 1], shared_bytes: 0 }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // Where the device cannot be waited for, its work is lost, and so is the module.
        if self.driver.device_synchronize(self.module.device).is_ok() {
            // SAFETY: no work is under way, and the functions go with this.
            let _ = unsafe { self.driver.module_unload(self.module) };
        }
    }
}
