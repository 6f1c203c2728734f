//! Memory and devices for tensor frameworks: what `c10/core` is to PyTorch.
//!
//! - [`Device`], [`Stream`]: plain values that name where memory lives and in which order work runs.
//! - [`DataPtr`]: an address, the device it is on, and who frees it and how.
//! - [`Allocator`](allocator::Allocator): where a `DataPtr` comes from.
//! - [`ScalarType`], [`Element`]: what one element is; [`promote_types`]: what two of them give; [`Scalar`]:
//!   one number of any type.
//! - [`Layout`], [`MemoryFormat`]: how elements lie in memory; [`bytes`]: how many bytes they take.
//! - [`Storage`]: a shared handle on memory, with copy-on-write and the access lock that makes in-place writes
//!   sound.
//! - [`DeviceHooks`](hooks::DeviceHooks), [`Event`]: what upper layers may ask of a device type; [`guard`]: its
//!   current device and streams.
//! - [`reporting`]: who is told of every allocation and free.
//! - [`stat::Stat`]: the counters that every caching allocator keeps.
//!
//! Nothing here knows tensors, kernels or drivers; another crate brings a device by its hooks and its allocator.
//!
//! # Memory of a host, counted and limited
//! Adaptors wrap any allocator; who touches bytes holds access; running out is an `Err`:
//! ```
//! use std::sync::Arc;
//! use c10_core::allocator::{CachingCpuAllocator, CountingAllocator, LimitAllocator};
//! use c10_core::storage::Access;
//! use c10_core::{ErrorKind, Storage};
//!
//! let counting = Arc::new(CountingAllocator::new(Arc::new(CachingCpuAllocator::default())));
//! let limited = Arc::new(LimitAllocator::new(counting.clone(), 1 << 20));
//! let (from, to) = (Storage::new(1024, limited.clone())?, Storage::new(1024, limited.clone())?);
//! from.write()?.bytes_mut()?.fill(7);
//!
//! let mut both = Access::acquire(&[&from], &[&to])?;
//! let ([read], [written]) = both.slices()?;
//! written.copy_from_slice(read);
//! drop(both);
//!
//! assert_eq!(counting.counts().bytes.current, 2048);
//! assert_eq!(Storage::new(1 << 20, limited).unwrap_err().kind(), ErrorKind::OutOfMemory);
//! # Ok::<(), c10_core::Error>(())
//! ```
//!
//! # Threads
//! All of it may be used from any thread. A thread that holds no guard waits for access; one that holds any is
//! told [`Busy`](ErrorKind::Busy) instead, so that no two wait for each other (see [`storage::Access`]).
//!
//! # Features
//! - `mapped` (on by default): files as memory, `allocator::mapped`.
//! - `leak-tracking`: where each live storage was made, `storage::live_storages`.
//! - `tracing`: an event for each memory report.

pub mod error;
pub mod device;
pub mod stream;
pub mod event;
mod scalar_type;
mod element;
mod complex;
mod float8;
mod promote;
mod scalar;
mod layout;
mod memory_format;
pub mod bytes;
pub mod data_ptr;
pub mod allocator;
pub mod storage;
pub mod hooks;
pub mod guard;
pub mod shared;
pub mod reporting;
pub mod stat;
mod sync;

pub use complex::Complex;
pub use data_ptr::{DataPtr, Deleter, DeleterEntry};
pub use device::{Device, DeviceIndex, DeviceType};
pub use element::Element;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, EventFlags, EventId};
pub use float8::{F8E4M3Fn, F8E5M2};
pub use half::{bf16, f16};
pub use layout::Layout;
pub use memory_format::MemoryFormat;
pub use promote::{can_cast, promote_types};
pub use scalar::Scalar;
pub use scalar_type::ScalarType;
pub use storage::{Storage, WeakStorage};
pub use stream::{Stream, StreamId};
