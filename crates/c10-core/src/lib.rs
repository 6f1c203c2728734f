//! Memory and devices for tensor frameworks: what `c10/core` is to PyTorch.
//!
//! - [`Device`], [`Stream`]: plain values that name where memory lives and in which order work runs.
//! - [`DataPtr`]: an address, the device it is on, and who frees it and how.
//! - [`Allocator`](allocator::Allocator): where a `DataPtr` comes from.
//! - [`Layout`], [`MemoryFormat`]: how elements lie in memory; [`bytes`]: how many bytes they take.
//! - [`stat::Stat`]: the counters that every caching allocator keeps.
//!
//! ```
//! use c10_core::{Device, DeviceType};
//!
//! let device: Device = "cuda:1".parse()?;
//! assert_eq!(device.device_type(), DeviceType::Cuda);
//! assert_eq!(device.to_string(), "cuda:1");
//! # Ok::<(), c10_core::Error>(())
//! ```

pub mod allocator;
pub mod bytes;
pub mod data_ptr;
pub mod device;
pub mod error;
mod layout;
mod memory_format;
pub mod stat;
pub mod stream;
mod sync;

pub use data_ptr::{DataPtr, Deleter};
pub use device::{Device, DeviceIndex, DeviceType};
pub use error::{Error, ErrorKind, Result};
pub use layout::Layout;
pub use memory_format::MemoryFormat;
pub use stream::{Stream, StreamId};
