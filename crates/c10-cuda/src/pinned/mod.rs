//! [`PinnedAllocator`]: host memory that devices copy from and to without a detour, kept and reused
//! (`at::CachingHostAllocator`).
//!
//! A block that is given back serves later requests of its size class once all streams that used it have passed.
//! Streams say so themselves: whoever enqueues a copy that uses the memory calls
//! [`record_event`](PinnedAllocator::record_event), and may then give the memory back at once.
//!
//! ```
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::{PinnedAllocator, PinnedConfig, Runtime};
//!
//! let sim = SimDriver::new(SimConfig::with_bytes(1 << 30));
//! let runtime = Runtime::new(sim.clone());
//! let pinned = PinnedAllocator::new(runtime.clone(), PinnedConfig::default())?;
//! let block = pinned.allocate(5000)?;
//! let address = block.as_ptr();
//! pinned.record_event(&block, runtime.current_stream(0)?)?;
//! drop(block);
//!
//! assert_ne!(pinned.allocate(5000)?.as_ptr(), address);
//! sim.complete_all();
//! assert_eq!(pinned.allocate(5000)?.as_ptr(), address);
//! # Ok::<(), c10_cuda::Error>(())
//! ```
//!
//! # Sizes
//! A request is rounded up to a power of two, so that what it takes is less than twice what was asked for; above
//! [`max_round_threshold`](crate::PinnedConfig::max_round_threshold) it takes what it asked for. A cached block
//! serves requests of its own class, which is the next power of two: one of more than half its size. So a large
//! block never goes to a small request, and the bytes that are held are less than twice the largest sum of the bytes
//! asked for, in each class.
//!
//! # Streams
//! Each stream has a queue of events of its own: one that never gets on holds back what it uses itself, and
//! nothing else. *Differs from PyTorch*, whose one queue stops at the first event that is not ready
//! (pytorch/pytorch#183501).
//!
//! # Captures
//! What a graph copies from or to is used again at each launch: a block on which a capturing stream is recorded is
//! *withheld* when it is given back, and never reused. Calls that could disturb a capture are made in the thread's
//! relaxed mode.

mod size;
mod block;
mod classes;
mod segment;
mod pool;
mod events;
mod source;
mod release;
mod owner;
mod stats;
mod invariants;
mod c10;

pub use stats::HostStats;

use std::fmt;

use c10_core::{DataPtr, Device};

use crate::config::PinnedConfig;
use crate::driver::DriverError;
use crate::driver::StreamHandle;
use crate::error::{Error, OutOfMemory, Result};
use crate::runtime::Runtime;
use crate::stream::{AsStream, StreamUser};
use crate::sync::{Arc, Weak};

use pool::Pool;

/// A caching allocator of pinned host memory. Any number may live in a process; the handle is cheap to clone.
/// Memory outlives it: a block that is still held when the last handle goes stays valid.
#[derive(Clone)]
pub struct PinnedAllocator {
    runtime: Runtime,
    pool: Arc<Pool>,
}

impl PinnedAllocator {
    /// An allocator over the driver of a runtime.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for numbers out of range.
    pub fn new(runtime: Runtime, config: PinnedConfig) -> Result<Self> {
        config.check()?;
        let pool = Arc::new(Pool::new(&runtime, config));
        runtime.add_user(Arc::downgrade(&pool) as Weak<dyn StreamUser>);
        Ok(Self { runtime, pool })
    }

    /// The runtime whose streams it knows.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Its settings.
    pub fn config(&self) -> &PinnedConfig {
        &self.pool.config
    }

    /// `bytes` bytes of pinned memory, aligned to a page; for 0 bytes the address is null. The memory is zeroed when
    /// it comes from the driver, and holds what it last held when it is reused.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) when there is none, after what is cached has been given back (PyTorch gives
    /// up at once); [`ErrorKind::Driver`](crate::ErrorKind::Driver) for any other failure.
    pub fn allocate(&self, bytes: u64) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let size = size::round(bytes, self.config()).ok_or_else(|| self.out_of_memory(bytes, bytes))?;
        match self.pool.allocate(size)? {
            Some(at) => Ok(Pool::own(&self.pool, at)),
            None => Err(self.out_of_memory(bytes, size)),
        }
    }

    /// Says that work which the stream holds now uses the memory: it is not reused before that is done
    /// (`CachingHostAllocator_recordEvent`). `ptr` may be any adaptor's. `false` for memory that is not this
    /// allocator's.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when it is no stream of the runtime,
    /// or the per-thread default stream: the event is recorded when the memory is given back, on whatever thread; what
    /// the driver reports.
    pub fn record_event(&self, ptr: &DataPtr, stream: impl AsStream) -> Result<bool> {
        self.record_event_of(ptr, self.runtime.owning_handle(stream)?)
    }

    /// The same, by the driver's handle; of the per-thread default stream only where this thread gives the memory back.
    pub(crate) fn record_event_of(&self, ptr: &DataPtr, stream: StreamHandle) -> Result<bool> {
        match owner::block_of(ptr, &self.pool) {
            Some(at) => Ok(self.pool.record(at, stream)?),
            None => Ok(false),
        }
    }

    /// [`record_event`](Self::record_event) for the address at which a block begins. `false` for any other.
    ///
    /// # Errors
    /// As there.
    pub fn record_event_at(&self, address: *const u8, stream: impl AsStream) -> Result<bool> {
        let stream = self.runtime.owning_handle(stream)?;
        Ok(self.pool.record(address.addr(), stream)?)
    }

    /// Whether an address lies in memory of this allocator, handed out or not.
    pub fn is_pinned(&self, address: *const u8) -> bool {
        self.pool.lock().block_at(address.addr()).is_some()
    }

    /// Looks which streams have passed, and makes what they used available. Every request does that first, but
    /// where [`use_background_threads`](PinnedConfig::use_background_threads) leaves it to the program.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn process_events(&self) -> Result<()> {
        Ok(self.pool.process_events()?)
    }

    /// Gives all that is cached and that no stream uses back to the driver
    /// (`CachingHostAllocator_emptyCache`). What the driver gave of one piece in advance
    /// ([`reserve_segment_size`](PinnedConfig::reserve_segment_size)) stays.
    ///
    /// # Errors
    /// The first that the driver reports, after all that can be given back has been.
    pub fn empty_cache(&self) -> Result<()> {
        Ok(self.pool.empty_cache()?)
    }

    /// The statistics (`torch.cuda.host_memory_stats`).
    pub fn stats(&self) -> HostStats {
        self.pool.lock().stats.clone()
    }

    /// Zeroes what only grows (`torch.cuda.reset_accumulated_host_memory_stats`).
    pub fn reset_accumulated_stats(&self) {
        self.pool.lock().stats.reset_accumulated();
    }

    /// Makes every peak the current value (`torch.cuda.reset_peak_host_memory_stats`).
    pub fn reset_peak_stats(&self) {
        self.pool.lock().stats.reset_peak();
    }

    /// The clock by which the driver's calls are timed, in microseconds; without one they take 0. It is called with
    /// the allocator's lock held: it must not use the allocator.
    pub fn set_clock(&self, clock: Option<fn() -> u64>) {
        self.pool.lock().clock = clock;
    }

    /// The last driver error that a free met and could not return, and forgets it.
    pub fn take_free_error(&self) -> Option<DriverError> {
        self.pool.lock().unreported.take()
    }

    /// Stops with a message when a rule of the state does not hold. For tests: it looks at every block.
    ///
    /// # Panics
    /// When a rule does not hold, which is a fault of this crate.
    pub fn check_invariants(&self) {
        self.pool.lock().check_invariants();
    }

    fn out_of_memory(&self, requested: u64, tried: u64) -> Error {
        let stats = self.stats();
        let (held, active) = (stats.allocated_bytes.current as u64, stats.active_bytes.current as u64);
        let text = format!(
            "Pinned host memory is out. Tried to allocate {tried} bytes for a request of {requested}. {active} bytes are \
             in use, and {} are cached.",
            held - active
        );
        let numbers =
            OutOfMemory { requested, tried, allocated: active, reserved: held, ..OutOfMemory::default() };
        Error::oom(numbers, text)
    }
}

impl fmt::Debug for PinnedAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedAllocator").field("config", self.config()).finish_non_exhaustive()
    }
}
