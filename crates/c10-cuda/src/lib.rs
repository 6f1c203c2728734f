//! PyTorch's CUDA caching allocator for Rust, over one seam to the driver.
//!
//! - [`CachingAllocator`]: the allocator ([`alloc`]), with [`Config`].
//! - [`Runtime`]: the devices, their streams, and what is current on each thread; [`CudaGuard`] and
//!   [`CudaStreamGuard`] change that for a while.
//! - [`CudaStream`]: a stream that knows its runtime; [`CudaEvent`]: a place in the work of a stream.
//! - [`CudaGraph`]: work that is captured once and replayed ([`graph`]), with [`CudaGenerator`]s whose numbers move on.
//! - [`PinnedAllocator`]: host memory that devices copy from and to ([`pinned`]).
//! - [`PluggableAllocator`]: one made of C functions ([`pluggable`]).
//! - [`CudaHooks`]: how `c10_core`'s storages and guards come to CUDA devices.
//! - [`driver`]: the [`Driver`](driver::Driver) seam and the simulated device, [`driver::sim`], which needs no
//!   GPU and no CUDA.
//!
//! Nothing here needs a GPU. The driver of real ones, [`driver::real`], is another implementation of the same trait;
//! the feature `cuda` builds it, with no CUDA toolkit.
//!
//! # An allocator, a second stream
//! A block that another stream uses is not given out anew before that stream is done with it:
//! ```
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::{CachingAllocator, Config, CudaStream};
//!
//! let sim = SimDriver::new(SimConfig::with_bytes(1 << 30));
//! let allocator = CachingAllocator::new(sim.clone(), Config::default())?;
//! let runtime = allocator.runtime();
//! let block = allocator.allocate(4096)?;
//! let address = block.as_ptr();
//!
//! let side = CudaStream::from_pool(runtime, 0, 0)?;
//! side.wait_stream(runtime.current_stream(0)?)?; // … and launch on `side` what uses the block.
//! allocator.record_stream(&block, &side)?;
//! drop(block);
//!
//! assert_ne!(allocator.allocate(4096)?.as_ptr(), address);
//! sim.complete_all();
//! assert_eq!(allocator.allocate(4096)?.as_ptr(), address);
//! # Ok::<(), c10_cuda::Error>(())
//! ```
//!
//! # Storages on `cuda:0`
//! Register the hooks once, and whatever is built on `c10_core` has CUDA devices:
//! ```
//! use c10_core::{Device, DeviceType, Storage, allocator::get_allocator};
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::{CachingAllocator, Config, CudaHooks};
//!
//! # fn main() -> c10_core::Result<()> {
//! let driver = SimDriver::new(SimConfig::with_bytes(1 << 30));
//! CudaHooks::new(CachingAllocator::new(driver, Config::default())?).register();
//!
//! let host = Storage::from_bytes(Box::from(*b"weights"))?;
//! let there = host.to_device(Device::cuda(0))?;
//! let scratch = Storage::new(1 << 20, get_allocator(DeviceType::Cuda)?.clone())?;
//! assert_eq!(scratch.device(), there.device());
//!
//! let back = there.to_device(Device::CPU)?;
//! assert_eq!(back.read()?.bytes()?, b"weights");
//! # Ok(())
//! # }
//! ```

pub mod alloc;
mod config;
pub mod driver;
pub mod error;
mod drop_errors;
mod captures;
mod devices;
mod runtime;
pub mod stream;
mod event;
mod event_queues;
mod guard;
mod generator;
pub mod graph;
mod hooks;
pub mod pinned;
pub mod pluggable;
mod rng;
mod sync;

pub use alloc::policy::planned as plan;
pub use alloc::{CachingAllocator, DeviceStats};
pub use config::{Backend, Config, OrderOfEquals, PinnedConfig, Placement, Reserve, RoundupPower2Divisions};
pub use error::{Error, ErrorKind, OutOfMemory, Result};
pub use event::CudaEvent;
pub use generator::{CudaGenerator, DEFAULT_SEED, PhiloxState};
pub use graph::{CaptureOptions, CudaGraph, GraphCapture};
pub use guard::{CudaGuard, CudaMultiStreamGuard, CudaStreamGuard};
pub use hooks::CudaHooks;
pub use pinned::{HostStats, PinnedAllocator};
pub use pluggable::PluggableAllocator;
pub use runtime::Runtime;
pub use stream::{AsStream, CudaStream};

/// Compiles the examples of the guide to the allocator.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/allocator.md")]
struct AllocatorGuide;

/// Compiles the examples of the guide to streams.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
struct StreamsGuide;

/// Compiles the examples of the guide to the race detector.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/races.md")]
struct RacesGuide;
