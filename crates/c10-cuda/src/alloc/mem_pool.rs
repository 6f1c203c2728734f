//! [`MemPool`]: a private pool of a program (`torch.cuda.MemPool`), and [`UseMemPool`], during which a thread
//! allocates from it (`torch.cuda.use_mem_pool`).

use std::marker::PhantomData;

use c10_core::DeviceIndex;

use super::mempool_id::{MempoolId, PoolFilter};
use super::pool_allocator::PoolAllocator;
use super::{CachingAllocator, Snapshot};
use crate::error::Result;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, MutexGuard};

/// What a [`MemPool`] is like.
#[derive(Clone, Debug, Default)]
pub struct MemPoolOptions {
    /// Where its segments come from; `None` is the driver's `malloc`.
    pub allocator: Option<Arc<dyn PoolAllocator>>,
    /// Whether its free blocks serve requests outside it when memory is short.
    pub use_on_oom: bool,
    /// Whether its blocks are handed out whole.
    pub no_split: bool,
}

/// A private pool of one device. When it is dropped its free segments go back to the driver, those that are in use
/// when they are free and memory is short or the cache is emptied. Blocks of it may outlive it.
///
/// ```
/// use c10_cuda::alloc::{MemPool, MemPoolOptions};
/// use c10_cuda::driver::sim::{SimConfig, SimDriver};
/// use c10_cuda::{CachingAllocator, Config};
///
/// let driver = SimDriver::new(SimConfig::with_bytes(1 << 30));
/// let cuda = CachingAllocator::new(driver, Config::default())?;
/// let pool = MemPool::new(&cuda, 0, MemPoolOptions::default())?;
/// let inside = {
///     let _use = pool.enter()?;
///     cuda.allocate(4096)?
/// };
/// assert_eq!(pool.snapshot().segments.len(), 1);
/// drop((inside, pool));
/// assert_eq!(cuda.memory_reserved(0)?, 0);
/// # Ok::<(), c10_cuda::Error>(())
/// ```
#[derive(Debug)]
pub struct MemPool {
    allocator: CachingAllocator,
    device: DeviceIndex,
    id: MempoolId,
}

/// While it lives, what its thread allocates on the pool's device comes from the pool. Scopes nest, and the newest
/// wins; they may end in any order.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_cuda::alloc::UseMemPool<'static>>();
/// ```
#[must_use = "the thread allocates elsewhere again as soon as this is dropped"]
#[derive(Debug)]
pub struct UseMemPool<'a> {
    pool: &'a MemPool,
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl MemPool {
    /// A pool with a name of its own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such device.
    pub fn new(allocator: &CachingAllocator, device: DeviceIndex, options: MemPoolOptions) -> Result<Self> {
        let id = loop {
            let id = MempoolId::new(0, allocator.0.next_pool.fetch_add(1, Ordering::Relaxed));
            // Somebody may have made a pool of that name by hand.
            if allocator.device(device)?.lock().pools.find(id).is_none() {
                break id;
            }
        };
        let MemPoolOptions { allocator: source, use_on_oom, no_split } = options;
        allocator.create_or_incref_pool(device, id, source)?;
        let pool = Self { allocator: allocator.clone(), device, id };
        if no_split {
            allocator.set_no_split(device, id)?;
        }
        allocator.set_use_on_oom(device, id, use_on_oom)?;
        Ok(pool)
    }

    /// Its name.
    pub fn id(&self) -> MempoolId {
        self.id
    }

    pub(crate) fn allocator(&self) -> &CachingAllocator {
        &self.allocator
    }

    /// Its device.
    pub fn device(&self) -> DeviceIndex {
        self.device
    }

    /// How many uses of it there are: this, the scopes, and captures that record into it.
    pub fn use_count(&self) -> u64 {
        // It is there while this is.
        self.allocator.pool_use_count(self.device, self.id).unwrap_or_default()
    }

    /// Its segments.
    pub fn snapshot(&self) -> Snapshot {
        self.allocator.snapshot_of(self.id, false)
    }

    /// Lets this thread allocate from the pool until the guard is dropped. In a capture the graph keeps the pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when allocations go to the pool already, from whatever thread.
    pub fn enter(&self) -> Result<UseMemPool<'_>> {
        self.allocator.begin_allocate_to_pool(self.device, self.id, PoolFilter::this_thread())?;
        let scope = UseMemPool { pool: self, not_send: PhantomData };
        self.allocator.retain_in_capture(self.device, self.id)?;
        Ok(scope)
    }

    /// Runs `f` with this thread allocating from the pool.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); `f` has not run then.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        let _use = self.enter()?;
        Ok(f())
    }
}

impl Drop for UseMemPool<'_> {
    fn drop(&mut self) {
        let MemPool { allocator, device, id } = self.pool;
        // An error is of a driver that cannot say what captures; the scope has ended.
        let _ = allocator.end_allocate_to_pool(*device, *id);
        // The scope counted a use, so that there is one.
        let _ = allocator.release_pool(*device, *id);
    }
}

impl Drop for MemPool {
    fn drop(&mut self) {
        // The pool is there while this is; of what the driver reports there is nobody to tell.
        let _ = self.allocator.set_use_on_oom(self.device, self.id, false);
        let _ = self.allocator.release_pool(self.device, self.id);
        let _ = self.allocator.empty_pool_cache(self.device, self.id);
    }
}
