//! PyTorch's CUDA caching allocator for Rust, over one seam to the driver.
//!
//! - [`CachingAllocator`]: the allocator ([`alloc`]), with [`Config`].
//! - [`Runtime`]: streams, and what is current on each thread.
//! - [`driver`]: the [`Driver`](driver::Driver) seam and the simulated device, [`driver::sim`], which needs no
//!   GPU and no CUDA.
//!
//! Nothing here needs a GPU; the real driver is another implementation of the same trait.

pub mod alloc;
mod config;
pub mod driver;
pub mod error;
mod runtime;
pub mod stream;
mod sync;

pub use alloc::{CachingAllocator, DeviceStats};
pub use config::{Backend, Config, OrderOfEquals, PinnedConfig, Reserve, RoundupPower2Divisions};
pub use error::{Error, ErrorKind, OutOfMemory, Result};
pub use runtime::Runtime;

/// Compiles the example of the workspace's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
