//! Memory and devices for tensor frameworks: what `c10/core` is to PyTorch.
//!
//! - [`Device`], [`Stream`]: plain values that name where memory lives and in which order work runs.
//! - [`DataPtr`]: an address, the device it is on, and who frees it and how.
//! - [`Allocator`](allocator::Allocator): where a `DataPtr` comes from.
//! - [`Storage`]: a shared handle on memory, with copy-on-write and the access lock that makes in-place writes
//!   sound.
//! - [`DeviceHooks`](hooks::DeviceHooks), [`Event`]: what upper layers may ask of a device type; [`guard`]: its
//!   current device and streams.
//! - [`reporting`]: who is told of every allocation and free.
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
pub mod data_ptr;
pub mod device;
pub mod error;
pub mod event;
pub mod guard;
pub mod hooks;
pub mod reporting;
pub mod stat;
pub mod storage;
pub mod stream;
mod sync;

pub use data_ptr::{DataPtr, Deleter, DeleterEntry};
pub use device::{Device, DeviceIndex, DeviceType};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventFlags, EventId};
pub use storage::{Storage, WeakStorage};
pub use stream::{Stream, StreamId};
