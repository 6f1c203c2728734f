//! The driver of a real GPU, found when the program runs.

use std::sync::Arc;

use super::Driver;
use crate::error::{Error, ErrorKind, Result};

/// The machine's CUDA driver.
///
/// # Errors
/// [`ErrorKind::NotImplemented`]: this build talks to no CUDA driver. The [simulated device](super::sim) is
/// always there.
pub fn load() -> Result<Arc<dyn Driver>> {
    Err(Error::new(ErrorKind::NotImplemented, "this build has no CUDA driver; the simulated device is there"))
}
