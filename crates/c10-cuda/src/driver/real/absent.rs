//! What is found in a build without the feature `cuda`: nothing.

use std::sync::Arc;

use c10_core::DeviceIndex;

use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};

pub(super) fn load() -> Result<Arc<dyn Driver>> {
    Err(Error::new(
        ErrorKind::NotImplemented,
        "this build talks to no CUDA driver (feature `cuda` of c10-cuda); the simulated device is there",
    ))
}

pub(super) fn device_count() -> DeviceIndex {
    0
}
