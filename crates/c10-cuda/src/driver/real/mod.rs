//! The driver of real GPUs, found when the program runs (feature `cuda`).
//!
//! [`load`] looks for the CUDA driver's library, sees whether it is new enough, and takes from it every function that
//! is used here, each under the name whose meaning never changes. Nothing is called that was not found, and what is
//! called does not depend on the CUDA version that cudarc was built for: of cudarc there are its types and its
//! numbers, and nobody outside this module sees those.
//!
//! - **Contexts** (`context.rs`): a device's primary context, retained when the device is first used, and released
//!   with the driver. Each call makes the right one current and leaves the thread as it was.
//! - **Handles** (`books.rs`): the driver's own pointers as numbers. A handle that is in no book is refused and never
//!   reaches the driver, which would follow it. Streams that somebody else made are put in the book by
//!   [`stream_adopt`](super::Driver::stream_adopt). A handle is ended when no call uses it, whichever threads call.
//! - **Errors** (`status.rs`): what CUDA calls unrecoverable is remembered, and answers every later call for the device.
//!   Every other failure leaves things as they were.
//!
//! Device addresses are another matter: CUDA checks those itself, and does no harm on the host with them.

#[cfg(feature = "cuda")]
mod library;
#[cfg(feature = "cuda")]
mod symbols;
#[cfg(feature = "cuda")]
mod abi;
#[cfg(feature = "cuda")]
mod status;
#[cfg(feature = "cuda")]
mod books;
#[cfg(feature = "cuda")]
mod context;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod memory;
#[cfg(feature = "cuda")]
mod vmm;
#[cfg(feature = "cuda")]
mod mem_pool;
#[cfg(feature = "cuda")]
mod stream;
#[cfg(feature = "cuda")]
mod event;
#[cfg(feature = "cuda")]
mod copy;
#[cfg(feature = "cuda")]
mod host;
#[cfg(feature = "cuda")]
mod capture;
#[cfg(feature = "cuda")]
mod graph;
#[cfg(feature = "cuda")]
mod peer;
#[cfg(feature = "cuda")]
mod ipc;
#[cfg(feature = "cuda")]
mod image;
#[cfg(feature = "cuda")]
mod module;
#[cfg(feature = "cuda")]
mod forward;
#[cfg(not(feature = "cuda"))]
mod absent;

#[cfg(not(feature = "cuda"))]
use absent as found;
#[cfg(feature = "cuda")]
use driver as found;

use std::sync::Arc;

use c10_core::DeviceIndex;

use super::Driver;
use crate::error::Result;

/// The machine's CUDA driver. Each call makes a driver of its own, which knows its own handles alone; the library is
/// loaded once and stays.
///
/// # Errors
/// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented): this build has no feature `cuda`; the
/// [simulated device](super::sim) is always there.
/// [`ErrorKind::DeviceUnavailable`](crate::ErrorKind::DeviceUnavailable): there is no CUDA driver, or it is too old or
/// finds no device; the text says what was looked for.
pub fn load() -> Result<Arc<dyn Driver>> {
    found::load()
}

/// How many CUDA devices there are; 0 also where there is no driver, or this build has no feature `cuda`. Makes no
/// context.
pub fn device_count() -> DeviceIndex {
    found::device_count()
}
