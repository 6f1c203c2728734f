//! [`CachingAllocator`]: PyTorch's native allocator (`c10::cuda::CUDACachingAllocator`).
//!
//! Memory comes from the driver in *segments*, which are cut into *blocks*. A block that the program gives back
//! is kept, merged with free neighbours, and serves later requests on its stream with no driver call. The same
//! requests in the same order lead to the same driver calls and the same places as in PyTorch 2.15.
//!
//! A block belongs to the stream it was allocated on: it is reused there at once, in stream order. Work on
//! other streams is declared by [`record_stream`](CachingAllocator::record_stream); then a free waits for them.
//!
//! ```
//! use c10_cuda::driver::sim::{SimConfig, SimDriver};
//! use c10_cuda::{CachingAllocator, Config};
//!
//! let driver = SimDriver::new(SimConfig::with_bytes(1 << 30));
//! let allocator = CachingAllocator::new(driver, Config::default())?;
//! let block = allocator.allocate(3 << 20)?;
//! assert_eq!(allocator.memory_allocated(0)?, 3 << 20);
//! drop(block);
//! assert_eq!(allocator.memory_allocated(0)?, 0);
//! assert_eq!(allocator.memory_reserved(0)?, 20 << 20);
//! # Ok::<(), c10_cuda::Error>(())
//! ```

pub(crate) mod size;
mod ids;
mod block;
mod block_table;
mod size_bins;
mod free_set;
mod mempool_id;
mod pool_order;
mod pool_allocator;
mod pool;
mod pins;
mod scopes;
mod expandable;
mod device;
mod owner;
mod allocate;
mod allocate_at;
mod split;
mod free;
mod hot;
mod plain;
mod stream_use;
mod stream_end;
mod capture;
mod deferred;
mod graph_reuse;
mod graph_pools;
mod stream_wait;
mod reclaim;
mod private_pools;
mod checkpoint;
mod mem_pool;
mod oom;
mod callbacks;
mod report;
mod address_map;
mod raw_table;
mod raw;
mod uncached;
mod async_pool;
mod ipc;
mod suspend;
mod fraction;
mod queries;
mod stats;
mod usage;
mod uses;
mod summary;
mod memory_stats;
mod snapshot;
mod snapshot_file;
mod restore;
mod context;
mod trace;
mod trace_ring;
mod invariants;
pub(crate) mod policy;
mod c10;

pub use callbacks::{FreeMemoryCallback, OutOfMemoryObserver};
pub use checkpoint::{PoolCheckpoint, RestoredPool};
pub use context::{Context, ContextProvider, Contexts, Frame, GatheredContext, RecordContext};
pub use ipc::{IpcMemory, ShareableHandle};
pub use mem_pool::{MemPool, MemPoolOptions, UseMemPool};
pub use memory_stats::memory_stats;
pub use mempool_id::{MempoolId, PoolFilter};
pub use pool_allocator::PoolAllocator;
pub use snapshot::{BlockInfo, BlockState, SegmentInfo, Snapshot};
pub use stats::DeviceStats;
pub use summary::memory_summary;
pub use suspend::SuspendedContents;
pub use trace::{CompileContext, History, TraceAction, TraceEntry, TraceTracker};
pub(crate) use trace_ring::now as clock_now;

use std::fmt;
use std::ptr;

use c10_core::{DataPtr, DeviceIndex};

use crate::config::{Backend, Config, PinnedConfig};
use crate::driver::{DevicePtr, Driver, StreamHandle};
use crate::error::{Error, ErrorKind, Result};
use crate::pinned::PinnedAllocator;
use crate::runtime::Runtime;
use crate::stream::{AsStream, StreamUser};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock, Weak};

use address_map::AddressMap;
use async_pool::AsyncPool;
use callbacks::Callbacks;
use device::{Device, Locked};
use hot::Holder;
use ids::BlockId;
use ipc::IpcRegistry;
use report::Reported;

/// A caching allocator for all devices of a driver. Any number may live in a process; the handle is cheap to
/// clone. Memory outlives it: a block that is still held when the last handle goes stays valid, and goes back
/// to the driver with its device's last block.
#[derive(Clone)]
pub struct CachingAllocator(Arc<Inner>);

struct Inner {
    runtime: Runtime,
    config: Config,
    devices: Vec<Arc<Device>>,
    callbacks: Callbacks,
    /// What is open of other processes.
    ipc: Arc<IpcRegistry>,
    /// The devices of addresses that the raw calls gave out with caching off.
    uncached: Mutex<AddressMap<DeviceIndex>>,
    /// Whether requests are served from the cache; never with the driver's pools.
    enabled: AtomicBool,
    /// The driver's pools, where they are the backend.
    async_pool: Option<Arc<AsyncPool>>,
    /// The number of the next pool that is named here.
    next_pool: AtomicU64,
    /// Host memory that graphs' random state is copied from; made when it is first needed.
    staging: OnceLock<PinnedAllocator>,
}

impl CachingAllocator {
    /// An allocator for the devices of a driver, with a [`Runtime`] of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a configuration whose numbers are out of range; what the driver reports.
    pub fn new(driver: Arc<dyn Driver>, config: Config) -> Result<Self> {
        Self::with_runtime(Runtime::new(driver), config)
    }

    /// An allocator that uses the current devices and streams of a runtime.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_runtime(runtime: Runtime, config: Config) -> Result<Self> {
        config.check()?;
        let is_async = config.backend == Backend::CudaMallocAsync;
        let async_pool = is_async.then(|| AsyncPool::new(&runtime));
        let device = |index| Arc::new(Device::new(index, &runtime, config.clone()));
        let devices = (0..runtime.device_count()).map(device).collect();
        let inner = Inner {
            devices,
            callbacks: Callbacks::default(),
            ipc: Arc::new(IpcRegistry::new(&runtime)),
            uncached: Mutex::default(),
            enabled: AtomicBool::new(!config.no_caching && !is_async),
            async_pool,
            next_pool: AtomicU64::new(1),
            staging: OnceLock::new(),
            runtime,
            config,
        };
        let allocator = Self(Arc::new(inner));
        let fraction = allocator.config().per_process_memory_fraction;
        if fraction < 1.0 {
            for device in 0..allocator.runtime().device_count() {
                allocator.set_memory_fraction(fraction, device)?;
            }
        }
        for device in &allocator.0.devices {
            allocator.runtime().add_user(Arc::downgrade(device) as Weak<dyn StreamUser>);
        }
        if let Some(pool) = &allocator.0.async_pool {
            allocator.runtime().add_user(Arc::downgrade(pool) as Weak<dyn StreamUser>);
        }
        Ok(allocator)
    }

    /// The runtime whose current devices and streams it uses.
    pub fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Pinned memory for what graphs copy at each replay.
    pub(crate) fn staging(&self) -> Result<&PinnedAllocator> {
        if let Some(made) = self.0.staging.get() {
            return Ok(made);
        }
        let made = PinnedAllocator::new(self.runtime().clone(), PinnedConfig::default())?;
        Ok(self.0.staging.get_or_init(|| made))
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// `bytes` bytes on the current device, for the current stream. For 0 bytes the address is null.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] with PyTorch's text and the numbers, after everything cached that helps has
    /// been given back; the allocator is usable at once. [`ErrorKind::Driver`] for any other failure.
    #[inline]
    pub fn allocate(&self, bytes: u64) -> Result<DataPtr> {
        let current = self.0.runtime.current();
        self.allocate_for(bytes, current.stream)
    }

    /// `bytes` bytes on the device of a stream, for that stream.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and [`ErrorKind::InvalidArgument`] when it is no stream of the runtime.
    pub fn allocate_on(&self, bytes: u64, stream: impl AsStream) -> Result<DataPtr> {
        self.allocate_for(bytes, self.0.runtime.owning_handle(stream)?)
    }

    pub(crate) fn allocate_for(&self, bytes: u64, stream: StreamHandle) -> Result<DataPtr> {
        let device = self.device(stream.device)?;
        if bytes == 0 {
            return Ok(DataPtr::null(c10_core::Device::cuda(stream.device)));
        }
        if !self.caches() {
            return self.allocate_uncached(device, bytes, stream);
        }
        let caller = device.contexts.gather(RecordContext::State);
        let mut guard = device.lock_unsettled();
        if caller.is_none() {
            if let Some((id, address)) = guard.take_parked(bytes, stream.raw, Holder::Owner) {
                return Ok(guard.own(device, id, address));
            }
            if !guard.is_hot_waiting()
                && let Some((id, address)) = guard.take_plain(bytes, stream.raw, Holder::Owner)
            {
                return Ok(guard.own(device, id, address));
            }
        }
        self.allocate_slowly(device.unsettled(guard), device, caller, bytes, stream)
    }

    /// As [`allocate_for`](Self::allocate_for), for whatever has to look further.
    #[inline(never)]
    fn allocate_slowly<'a>(
        &self,
        mut locked: Locked<'a>,
        device: &'a Arc<Device>,
        caller: Option<Context>,
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<DataPtr> {
        if caller.is_some() {
            locked.settle();
        } else if let Some((id, address)) = locked.take_waited(bytes, stream.raw)? {
            return Ok(locked.own(device, id, address));
        }
        let (mut locked, id) = self.obtain(locked, caller, bytes, stream.raw)?;
        let (address, reported) = handed_out(&locked, id);
        let ptr = locked.own(device, id, address);
        drop(locked);
        reported.report();
        Ok(ptr)
    }

    /// As [`allocate_for`](Self::allocate_for), of the driver's pools, or with caching off of the driver.
    #[cold]
    fn allocate_uncached(&self, device: &Arc<Device>, bytes: u64, stream: StreamHandle) -> Result<DataPtr> {
        match &self.0.async_pool {
            Some(pool) => {
                let ptr = pool.malloc(bytes, stream, false, &self.0.callbacks)?;
                Ok(pool.own(ptr, stream.device))
            }
            None => uncached::allocate(device, bytes),
        }
    }

    /// A block that is handed out, and the lock under which it is still only ours.
    #[inline]
    fn obtain<'a>(
        &self,
        mut locked: Locked<'a>,
        caller: Option<Context>,
        bytes: u64,
        stream: u64,
    ) -> Result<(Locked<'a>, BlockId)> {
        if caller.is_some() {
            locked.trace.set_caller(caller);
        }
        match locked.malloc(bytes, stream, &self.0.callbacks) {
            Ok(id) => Ok((locked, id)),
            Err(refused) => Err(oom::refuse(locked, refused, &self.0.callbacks)),
        }
    }

    /// Says that work on `stream` uses the memory, so that it is not given out anew before the work that the
    /// stream holds when the memory is freed is complete (`Tensor.record_stream`). The stream that the memory
    /// was allocated on needs no saying; any other may be of another device. `ptr` may be any adaptor's, as
    /// long as its root is this allocator's.
    ///
    /// The stream is named when the memory is freed. Somebody else's stream that ends before is to be
    /// [given back](Runtime::disown_stream) first: then it is known by events from that moment, and nothing names it
    /// any more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for memory that is not this allocator's (PyTorch ignores it) or a stream
    /// that is not the runtime's; what the driver reports when asked whether this is in a capture.
    pub fn record_stream(&self, ptr: &DataPtr, stream: impl AsStream) -> Result<()> {
        // An adaptor of no memory has a context.
        if ptr.root().is_null() {
            return Ok(());
        }
        if uncached::is_own(ptr) {
            // The driver's free waits for all of the device.
            return Ok(());
        }
        let stream = self.use_of(stream)?;
        if let Some((pool, address)) = self.own_async(ptr) {
            pool.record_stream(address, stream);
            return Ok(());
        }
        let (device, index) = self.own_block(ptr, "record_stream")?;
        record_use(device, index, stream)
    }

    /// [`record_stream`](Self::record_stream) for memory of any caching allocator on the same driver; other memory
    /// is left alone, as PyTorch does.
    pub(crate) fn record_stream_of_any(&self, ptr: &DataPtr, stream: impl AsStream) -> Result<()> {
        let stream = self.use_of(stream)?;
        if let Some((pool, address)) = async_pool::pool_of(ptr) {
            if Arc::ptr_eq(pool.driver(), self.0.runtime.driver()) {
                pool.record_stream(address, stream);
            }
            return Ok(());
        }
        match owner::block_of(ptr) {
            Some((device, index)) if Arc::ptr_eq(&device.driver, self.0.runtime.driver()) => {
                record_use(device, index, stream)
            }
            _ => Ok(()),
        }
    }

    /// The handle of a stream on which memory is used. The per-thread default stream is named when the memory is freed,
    /// on whatever thread.
    fn use_of(&self, stream: impl AsStream) -> Result<StreamHandle> {
        self.0.runtime.owning_handle(stream)
    }

    /// Refuses memory that this crate's allocators got from another driver.
    pub(crate) fn check_same_driver(&self, ptr: &DataPtr) -> Result<()> {
        let cached = owner::block_of(ptr).map(|(device, _)| &device.driver);
        let pooled = async_pool::pool_of(ptr).map(|(pool, _)| pool.driver());
        let driver = cached.or(pooled).or_else(|| uncached::driver_of(ptr));
        if driver.is_none_or(|driver| Arc::ptr_eq(driver, self.0.runtime.driver())) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the memory at {:?} on {} is of another driver", ptr.as_ptr(), ptr.device()),
        ))
    }

    /// Gives every segment that is wholly free back to the driver, after waiting for all streams that blocks
    /// wait for; on every device (`torch.cuda.empty_cache`).
    ///
    /// # Errors
    /// The first that the driver reports, after all that can be given back has been.
    pub fn empty_cache(&self) -> Result<()> {
        if let Some(pool) = &self.0.async_pool {
            let result = pool.empty_cache();
            // Beside a capture the driver's pools wait too.
            let quiet = self.0.devices.iter().filter(|device| !device.captures_under_way());
            let seeds = quiet.map(|device| device.lock().release_seeds()).fold(Ok(()), Result::and);
            return result.and(seeds.map_err(Error::from));
        }
        let release = |device: &Arc<Device>| {
            let caller = device.contexts.gather(RecordContext::All);
            let mut locked = device.lock();
            locked.trace.set_caller(caller);
            locked.release_cached_blocks()
        };
        Ok(self.0.devices.iter().map(release).fold(Ok(()), Result::and)?)
    }

    /// Gives the one segment that begins at `base` back to the driver, if it is wholly free, and says whether it
    /// was. Blocks whose streams have passed are freed first. Where the current stream captures nothing is given back.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when there is no such device; what the driver reports.
    pub fn release_segment(&self, base: DevicePtr, device: DeviceIndex) -> Result<bool> {
        self.supports("releaseSegment")?;
        let mut locked = self.device(device)?.lock();
        if locked.capture_context()?.is_some() {
            return Ok(false);
        }
        let _relaxed = locked.relaxed()?;
        locked.process_events()?;
        Ok(locked.release_segment(base.0)?)
    }

    /// Calls `callback` when there is no free block for a request, before more is asked of the driver. It is
    /// called with no lock held. A request that it makes itself calls no callbacks again.
    pub fn register_free_memory_callback(&self, callback: FreeMemoryCallback) {
        self.0.callbacks.add_free_memory(callback);
    }

    /// Calls `observer` with the numbers whenever a request fails for want of memory, before the error is
    /// returned and with no lock held (`attachOutOfMemoryObserver`). It is not told of requests that observers make
    /// themselves.
    pub fn attach_out_of_memory_observer(&self, observer: OutOfMemoryObserver) {
        self.0.callbacks.add_out_of_memory(observer);
    }

    /// Whether memory is cached (`isEnabled`): always, with the driver's pools.
    pub fn is_enabled(&self) -> bool {
        self.caches() || self.0.async_pool.is_some()
    }

    /// Whether requests are served from this allocator's own cache.
    #[inline]
    pub(crate) fn caches(&self) -> bool {
        self.0.enabled.load(Ordering::Relaxed)
    }

    /// Switches caching on or off for later requests (`enable`). Where it is off each goes to the driver, and
    /// nothing is counted. The driver's pools cache whatever is said here.
    pub fn enable(&self, caching: bool) {
        self.0.enabled.store(caching && self.0.async_pool.is_none(), Ordering::Relaxed);
    }

    fn device(&self, index: DeviceIndex) -> Result<&Arc<Device>> {
        self.0.devices.get(usize::from(index)).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("Invalid device argument {index}: there are {} devices", self.0.devices.len()),
            )
        })
    }

    /// The address of memory that this allocator got from the driver's pools.
    fn own_async(&self, ptr: &DataPtr) -> Option<(&Arc<AsyncPool>, DevicePtr)> {
        let own = self.0.async_pool.as_ref()?;
        let (pool, address) = async_pool::pool_of(ptr)?;
        Arc::ptr_eq(pool, own).then_some((own, address))
    }

    /// The device and the slot of memory that this allocator handed out in a `DataPtr`.
    fn own_block<'a>(&'a self, ptr: &'a DataPtr, call: &str) -> Result<(&'a Device, u32)> {
        owner::block_of(ptr)
            .filter(|(device, _)| self.0.devices.iter().any(|ours| ptr::eq(*device, Arc::as_ptr(ours))))
            .ok_or_else(|| {
                oom::foreign(call, &format!("the memory at {:?} on {}", ptr.as_ptr(), ptr.device()))
            })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for device in std::mem::take(&mut self.devices) {
            device.close();
            device.let_go();
        }
    }
}

impl fmt::Debug for CachingAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingAllocator")
            .field("driver", &self.0.runtime.driver().name())
            .field("devices", &self.0.devices.len())
            .finish_non_exhaustive()
    }
}

/// Notes that a stream uses the block in a slot, whose context is out.
fn record_use(device: &Device, index: u32, stream: StreamHandle) -> Result<()> {
    if device.lock_unsettled().record_use_plain(index, stream) {
        return Ok(());
    }
    let mut locked = device.lock();
    let id = locked.blocks.id_at(index).expect("a context is out, so its slot holds a block");
    Ok(locked.record_stream(id, stream)?)
}

/// What observers are told of a new block, and its address.
#[inline]
fn handed_out(locked: &Locked<'_>, id: BlockId) -> (u64, Reported) {
    locked.tell_handed_out(id);
    let block = &locked.blocks[id];
    (block.ptr, Reported::new(locked, block.ptr, block.size as i64))
}
