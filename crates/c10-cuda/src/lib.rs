//! PyTorch's CUDA caching allocator for Rust, over one seam to the driver.
//!
//! - [`driver`]: the [`Driver`](driver::Driver) seam and the simulated device, [`driver::sim`], which needs no
//!   GPU and no CUDA.
//!
//! Nothing here needs a GPU; the real driver is another implementation of the same trait.

pub mod alloc;
pub mod driver;
pub mod error;

pub use error::{Error, ErrorKind, Result};
