#![expect(
    unsafe_code,
    reason = "pairs cached blocks with a deleter that finds the books in the block's header"
)]
//! [`CachingCpuAllocator`]: host memory that is kept, by size class, for the next request of its size.
//!
//! A large block from the system costs a system call and a fault for each page; a block from the cache costs
//! one short lock. Recycled memory holds what was last written to it.
//!
//! Who may touch what: `State` only under its lock, held for a few loads and stores; the system is asked, and
//! observers are called, with the lock free.
//!
//! // Note [Books outlive their allocator]
//! The header of a block that is given out points to the `Books` it is written in, and the block may outlive the
//! allocator. Counting those references would cost as much as the lock does. So books are never freed: when
//! the allocator is gone and the last of its blocks came back, they wait for the next allocator to be made.
//! What this keeps is one table for each allocator that was ever alive at one time with the others.
//!
//! - I1: `cached_bytes` is the sum of the capacities of the cached blocks.
//! - I2: it is at most `max_cached_bytes`, and zero once the allocator itself is gone.
//! - I3: reserved bytes are allocated bytes and cached bytes together, except while a block is under way back.
//! - I4: `outstanding` is how many blocks point to the books; books that wait for an allocator have none.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};

use super::cpu::host_out_of_memory;
use super::size_class::{CLASSES, SizeClass};
use super::system::SystemBlock;
use super::{Allocator, default_copy_data};
use crate::data_ptr::{DataPtr, Deleter, DeleterEntry};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::reporting::{MemoryEvent, OutOfMemoryEvent, is_observed, report, report_out_of_memory};
use crate::stat::{Stat, StatArray};
#[cfg(not(loom))]
use crate::sync::global::{Mutex as GlobalMutex, MutexGuard as GlobalGuard, PoisonError};
use crate::sync::{Mutex, MutexGuard, lock};

/// Blocks up to this size count as the small pool in the statistics (PyTorch's `kSmallSize`).
const SMALL_BYTES: usize = 1 << 20;

/// How much a [`CachingCpuAllocator`] may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachingCpuConfig {
    /// The most bytes that are kept for reuse. Beyond it the sizes that were not asked for lately go back to the
    /// system first. 512 MiB unless said otherwise; 0 keeps nothing.
    pub max_cached_bytes: usize,
}

impl Default for CachingCpuConfig {
    fn default() -> Self {
        Self { max_cached_bytes: 512 << 20 }
    }
}

/// What a [`CachingCpuAllocator`] counts. Small blocks are those up to 1 MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachingCpuStats {
    /// Blocks given out.
    pub allocation: StatArray,
    /// Their bytes, with what their size classes add.
    pub allocated_bytes: StatArray,
    /// The bytes that were asked for.
    pub requested_bytes: StatArray,
    /// Blocks held of the system, given out or cached.
    pub segment: StatArray,
    /// Their bytes.
    pub reserved_bytes: StatArray,
    /// How many requests the cache served.
    pub cache_hits: u64,
    /// How many blocks went back to the system to keep the cache in its bound.
    pub evictions: u64,
    /// How many requests the system refused at first, so that the cache was emptied for them.
    pub alloc_retries: u64,
    /// How many requests failed.
    pub ooms: u64,
}

/// Keeps freed host memory for reuse. Any number in a process; shared by any number of threads.
///
/// Memory may outlive its allocator: it then goes back to the system when it is freed.
pub struct CachingCpuAllocator {
    books: &'static Books,
}

/// See Note [Books outlive their allocator].
struct Books {
    state: Mutex<State>,
}

struct State {
    config: CachingCpuConfig,
    classes: Box<[FreeList]>,
    cached_bytes: usize,
    /// Counts requests; the clock of `FreeList::last_use`.
    requests: u64,
    outstanding: usize,
    /// The allocator itself is gone: nothing will be asked for again.
    closed: bool,
    stats: CachingCpuStats,
}

#[derive(Default)]
struct FreeList {
    blocks: Vec<SystemBlock>,
    last_use: u64,
}

/// What is given out and what is held, at one moment.
#[derive(Clone, Copy)]
struct Totals {
    allocated: u64,
    reserved: u64,
}

/// The deleter of this allocator's memory, and of [`HostAllocator`](super::HostAllocator)'s.
pub(super) static FREE: DeleterEntry = DeleterEntry::new("caching_cpu_allocator", free);

impl CachingCpuAllocator {
    /// An allocator with an empty cache.
    pub fn new(config: CachingCpuConfig) -> Self {
        Self { books: Books::open(config) }
    }

    /// Gives all cached memory back to the system.
    pub fn empty_cache(&self) {
        self.books.empty_cache();
    }

    /// The bytes that are kept for reuse now.
    pub fn cached_bytes(&self) -> usize {
        lock(&self.books.state).cached_bytes
    }

    /// The counters.
    pub fn stats(&self) -> CachingCpuStats {
        lock(&self.books.state).stats
    }

    /// Makes each peak the current value (`resetPeakStats`).
    pub fn reset_peak_stats(&self) {
        lock(&self.books.state).stats.each(StatArray::reset_peak);
    }

    /// Forgets what was counted up so far; current values and peaks stay (`resetAccumulatedStats`).
    pub fn reset_accumulated_stats(&self) {
        let mut state = lock(&self.books.state);
        let stats = &mut state.stats;
        stats.each(StatArray::reset_accumulated);
        (stats.cache_hits, stats.evictions, stats.alloc_retries, stats.ooms) = (0, 0, 0, 0);
    }
}

// SAFETY: a block has at least as many bytes as were asked for, 64-aligned and initialised since it came zeroed
// from the system. It is in no free list while it is given out, and `free` takes it by its address, which is
// the context.
unsafe impl Allocator for CachingCpuAllocator {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let Some(class) = SizeClass::of(bytes) else { return Err(self.books.no_memory(bytes)) };
        let cached = self.books.take_cached(class, bytes);
        let Some((mut block, totals)) = cached.or_else(|| self.books.take_fresh(class, bytes)) else {
            return Err(self.books.no_memory(bytes));
        };
        block.set_bytes(bytes);
        block.set_owner(ptr::from_ref(self.books).cast());
        report(|| totals.event(&block, class.capacity as i64));
        let address = block.into_address().as_ptr();
        // SAFETY: the block is nobody else's until `free` takes it back by its address, on whatever thread.
        Ok(unsafe { DataPtr::new(address, address.cast(), &FREE, Device::CPU) })
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { default_copy_data(dst, src, bytes) };
        Ok(())
    }

    fn raw_deleter(&self) -> Option<Deleter> {
        Some(&FREE)
    }
}

impl Drop for CachingCpuAllocator {
    fn drop(&mut self) {
        self.books.close();
    }
}

unsafe fn free(context: *mut c_void) {
    let address = NonNull::new(context.cast()).expect("a deleter is not run on null");
    // SAFETY: the context is the address of a block that `allocate` gave away, and comes back once.
    let block = unsafe { SystemBlock::from_address(address) };
    // SAFETY: `allocate` put its books there, which are never freed; a small block of `HostAllocator` has null.
    let books: Option<&'static Books> = unsafe { block.owner().cast::<Books>().as_ref() };
    match books {
        Some(books) => books.give_back(block),
        #[cfg(not(loom))]
        None => super::host::give_back(block),
        #[cfg(loom)]
        None => unreachable!("there is no `HostAllocator` under loom"),
    }
}

impl Books {
    fn open(config: CachingCpuConfig) -> &'static Self {
        let waiting = waiting_books().pop();
        let books = waiting.unwrap_or_else(|| Box::leak(Box::new(Self { state: Mutex::new(State::new()) })));
        lock(&books.state).reopen(config);
        books
    }

    fn close(&'static self) {
        let (blocks, is_last) = {
            let mut state = lock(&self.state);
            state.closed = true;
            (state.take_all(), state.outstanding == 0)
        };
        blocks.into_iter().for_each(SystemBlock::free);
        if is_last {
            waiting_books().push(self);
        }
    }

    fn take_cached(&self, class: SizeClass, bytes: usize) -> Option<(SystemBlock, Totals)> {
        let mut state = lock(&self.state);
        state.requests += 1;
        let now = state.requests;
        let list = &mut state.classes[class.index];
        list.last_use = now;
        let block = list.blocks.pop()?;
        state.cached_bytes -= class.capacity;
        state.stats.cache_hits += 1;
        state.given_out(class.capacity, bytes);
        Some((block, state.totals()))
    }

    fn take_fresh(&self, class: SizeClass, bytes: usize) -> Option<(SystemBlock, Totals)> {
        let block = self.obtain(class.capacity)?;
        let is_small = is_small(class.capacity);
        let mut state = lock(&self.state);
        state.stats.segment.increase(is_small, 1);
        state.stats.reserved_bytes.increase(is_small, class.capacity as i64);
        state.given_out(class.capacity, bytes);
        Some((block, state.totals()))
    }

    /// A block from the system, which gets the cache back if it has none to give.
    fn obtain(&self, capacity: usize) -> Option<SystemBlock> {
        SystemBlock::allocate(capacity).or_else(|| {
            lock(&self.state).stats.alloc_retries += 1;
            self.empty_cache();
            SystemBlock::allocate(capacity)
        })
    }

    // Not part of the deleter, which small blocks go through too.
    #[inline(never)]
    fn give_back(&'static self, block: SystemBlock) {
        if is_observed() {
            // Before anybody else can be given the block, so that an observer hears of the free first.
            let totals = lock(&self.state).taken_back(&block);
            report(|| totals.event(&block, -(block.capacity() as i64)));
            self.keep_or_free(lock(&self.state), block);
        } else {
            let mut state = lock(&self.state);
            state.taken_back(&block);
            self.keep_or_free(state, block);
        }
    }

    fn keep_or_free(&'static self, mut state: MutexGuard<'_, State>, block: SystemBlock) {
        let limit = state.config.max_cached_bytes;
        let capacity = block.capacity();
        state.outstanding -= 1;
        if state.closed || capacity > limit {
            let is_last = state.closed && state.outstanding == 0;
            state.released(capacity);
            drop(state);
            block.free();
            if is_last {
                waiting_books().push(self);
            }
            return;
        }
        let evicted = state.make_room(limit - capacity);
        let class = SizeClass::of(capacity).expect("every capacity is its class's");
        state.classes[class.index].blocks.push(block);
        state.cached_bytes += capacity;
        debug_assert!(state.cached_bytes <= limit, "I2");
        drop(state);
        evicted.into_iter().for_each(SystemBlock::free);
    }

    fn empty_cache(&self) {
        let blocks = {
            let mut state = lock(&self.state);
            state.take_all()
        };
        blocks.into_iter().for_each(SystemBlock::free);
    }

    #[cold]
    fn no_memory(&self, bytes: usize) -> Error {
        let totals = {
            let mut state = lock(&self.state);
            state.stats.ooms += 1;
            state.totals()
        };
        report_out_of_memory(|| OutOfMemoryEvent {
            requested: bytes as u64,
            total_allocated: totals.allocated,
            total_reserved: totals.reserved,
            device: Device::CPU,
        });
        host_out_of_memory(bytes)
    }
}

/// The books that no allocator keeps and no block points to.
#[cfg(not(loom))]
fn waiting_books() -> GlobalGuard<'static, Vec<&'static Books>> {
    static WAITING: GlobalMutex<Vec<&'static Books>> = GlobalMutex::new(Vec::new());
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loom's locks do not outlast one run of a model, so that there each allocator has new books.
#[cfg(loom)]
fn waiting_books() -> Vec<&'static Books> {
    Vec::new()
}

impl State {
    fn new() -> Self {
        Self {
            config: CachingCpuConfig::default(),
            classes: (0..CLASSES).map(|_| FreeList::default()).collect(),
            cached_bytes: 0,
            requests: 0,
            outstanding: 0,
            closed: true,
            stats: CachingCpuStats::default(),
        }
    }

    fn reopen(&mut self, config: CachingCpuConfig) {
        debug_assert!(self.closed && self.outstanding == 0 && self.cached_bytes == 0, "I2, I4");
        self.classes.iter_mut().for_each(|list| *list = FreeList::default());
        (self.config, self.stats, self.requests) = (config, CachingCpuStats::default(), 0);
        self.closed = false;
    }

    fn given_out(&mut self, capacity: usize, bytes: usize) {
        let is_small = is_small(capacity);
        self.outstanding += 1;
        self.stats.allocation.increase(is_small, 1);
        self.stats.allocated_bytes.increase(is_small, capacity as i64);
        self.stats.requested_bytes.increase(is_small, bytes as i64);
    }

    fn taken_back(&mut self, block: &SystemBlock) -> Totals {
        let is_small = is_small(block.capacity());
        self.stats.allocation.decrease(is_small, 1);
        self.stats.allocated_bytes.decrease(is_small, block.capacity() as i64);
        self.stats.requested_bytes.decrease(is_small, block.bytes() as i64);
        self.totals()
    }

    fn released(&mut self, capacity: usize) {
        let is_small = is_small(capacity);
        self.stats.segment.decrease(is_small, 1);
        self.stats.reserved_bytes.decrease(is_small, capacity as i64);
    }

    fn totals(&self) -> Totals {
        let bytes = |stat: &Stat| stat.current as u64;
        Totals {
            allocated: bytes(&self.stats.allocated_bytes.all),
            reserved: bytes(&self.stats.reserved_bytes.all),
        }
    }

    /// Takes blocks out of the cache until it has at most `limit` bytes: those first whose size was asked for
    /// longest ago.
    fn make_room(&mut self, limit: usize) -> Vec<SystemBlock> {
        let mut evicted = Vec::new();
        while self.cached_bytes > limit {
            let used = self.classes.iter_mut().filter(|list| !list.blocks.is_empty());
            let oldest = used.min_by_key(|list| list.last_use).expect("I1: the cache has bytes");
            let block = oldest.blocks.pop().expect("it is not empty");
            self.cached_bytes -= block.capacity();
            self.released(block.capacity());
            self.stats.evictions += 1;
            evicted.push(block);
        }
        evicted
    }

    fn take_all(&mut self) -> Vec<SystemBlock> {
        let blocks: Vec<_> = self.classes.iter_mut().flat_map(|list| list.blocks.drain(..)).collect();
        let bytes: usize = blocks.iter().map(SystemBlock::capacity).sum();
        debug_assert_eq!(bytes, self.cached_bytes, "I1");
        self.cached_bytes = 0;
        blocks.iter().for_each(|block| self.released(block.capacity()));
        blocks
    }
}

impl CachingCpuStats {
    fn each(&mut self, change: impl Fn(&mut StatArray)) {
        let Self { allocation, allocated_bytes, requested_bytes, segment, reserved_bytes, .. } = self;
        [allocation, allocated_bytes, requested_bytes, segment, reserved_bytes].into_iter().for_each(change);
    }
}

impl Totals {
    fn event(self, block: &SystemBlock, bytes: i64) -> MemoryEvent {
        MemoryEvent {
            address: block.address(),
            bytes,
            total_allocated: self.allocated,
            total_reserved: self.reserved,
            device: Device::CPU,
        }
    }
}

fn is_small(capacity: usize) -> bool {
    capacity <= SMALL_BYTES
}

impl Default for CachingCpuAllocator {
    fn default() -> Self {
        Self::new(CachingCpuConfig::default())
    }
}

impl fmt::Debug for CachingCpuAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.books.state);
        f.debug_struct("CachingCpuAllocator")
            .field("max_cached_bytes", &state.config.max_cached_bytes)
            .field("cached_bytes", &state.cached_bytes)
            .field("allocated_bytes", &state.stats.allocated_bytes.all.current)
            .finish()
    }
}
