#![expect(unsafe_code, reason = "pairs blocks of system memory with the deleter that takes them back")]
//! [`HostAllocator`]: the process's allocator of host memory, until another one is set.
//!
//! Operators ask for memory all the time, mostly for sizes that were given back a moment ago. Small blocks lie
//! ready in the thread that freed them, a few of each size class, and are given out with no lock. Larger ones
//! come from a [`CachingCpuAllocator`], so that their pages are not cleared and faulted in for each request.
//!
//! - I1: a shelf of class `i` holds blocks of that class's capacity, which nobody uses.
//! - I2: the counters of all threads and `ENDED` together are the capacities of the small blocks that are given
//!   out. One of them may be below zero: a block is often freed by another thread than the one that asked for it.
//!   Each is written by the one thread that has it, and so with no locked instruction; it outlives the thread, and
//!   the next one goes on with it.
//!
//! A small block has no owner in its header, which is how the deleter that it shares with the larger ones
//! knows it.

use std::cell::Cell;
use std::ptr::NonNull;

use super::caching::{CachingCpuAllocator, FREE};
use super::cpu::host_out_of_memory;
use super::size_class::SizeClass;
use super::system::SystemBlock;
use super::{Allocator, default_copy_data};
use crate::data_ptr::{DataPtr, Deleter, same_deleter};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::reporting::{MemoryEvent, OutOfMemoryEvent, report, report_out_of_memory};
use crate::sync::global::atomic::{AtomicI64, Ordering};
use crate::sync::global::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Host memory for operators: recycled, by size class, within the thread where it is small (up to 4 KiB), and
/// in the process where it is larger. Its bytes are those that were last written to it, or zero.
///
/// It keeps up to 16 small blocks a class and thread, of 64 bytes 1,024 more with the storages that had them and as many
/// with tensors, and up to 512 MiB of larger ones; [`empty_cache`](Self::empty_cache) gives these back. All values of this
/// type are the same allocator.
/// PyTorch's counterpart keeps nothing, and leaves recycling to the C library, which returns what is large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostAllocator;

/// The most bytes of a small block.
const SMALL_BYTES: usize = 4096;
/// The most bytes of a block that is kept with its storage when both end: those of the smallest class. See Note
/// \[Kept whole\] in `storage/kept.rs`.
pub(crate) const WHOLE_BYTES: usize = 64;
/// The classes up to there.
const SMALL_CLASSES: usize = 32;
/// How many blocks of a class a thread keeps.
const KEPT: usize = 16;

static LARGE: LazyLock<CachingCpuAllocator> = LazyLock::new(CachingCpuAllocator::default);

static COUNTERS: Mutex<Counters> = Mutex::new(Counters { all: Vec::new(), idle: Vec::new() });
/// What threads counted after their counters were gone.
static ENDED: AtomicI64 = AtomicI64::new(0);

/// What gives back the blocks that others keep for a thread.
static KEEPERS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// What one thread has given out of small blocks, less what it has taken back.
#[repr(align(64))]
struct Counter(AtomicI64);

struct Counters {
    all: Vec<&'static Counter>,
    /// Those whose threads have ended.
    idle: Vec<&'static Counter>,
}

thread_local! {
    static SHELVES: Shelves = const { Shelves::new() };
}

/// The free small blocks of a thread.
struct Shelves {
    of_class: [Shelf; SMALL_CLASSES],
    /// Where this thread counts; none before it first does.
    counter: Cell<Option<&'static Counter>>,
}

struct Shelf {
    blocks: [Cell<Option<SystemBlock>>; KEPT],
    len: Cell<usize>,
}

impl HostAllocator {
    /// The bytes that are given out now, in the whole process, with what their size classes add.
    pub fn live_bytes() -> u64 {
        let counted = counters().all.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum::<i64>();
        let small = counted + ENDED.load(Ordering::Relaxed);
        let large = LARGE.stats().allocated_bytes.all.current;
        (small + large).max(0) as u64
    }

    /// The bytes of large blocks that are kept for reuse now.
    pub fn cached_bytes() -> usize {
        LARGE.cached_bytes()
    }

    /// Gives the large blocks that are kept, and the small ones of this thread, back to the system.
    pub fn empty_cache() {
        // They have no lock: what they end may end others.
        let keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        keepers.into_iter().for_each(|empty| empty());
        // Where the thread is at its end there is nothing left.
        crate::storage::kept::empty();
        let _ = SHELVES.try_with(Shelves::empty);
        LARGE.empty_cache();
    }

    /// Has a function called wherever the cache is emptied, on that thread, which gives back what is kept with blocks
    /// of this allocator.
    #[doc(hidden)]
    pub fn empty_with(keeper: fn()) {
        KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).push(keeper);
    }
}

// SAFETY: a small block has at least as many bytes as were asked for, 64-aligned and initialised since it came
// zeroed from the system. It is on no shelf while it is given out, and the deleter takes it by its address,
// which is the context. Of larger ones `CachingCpuAllocator` promises the same.
unsafe impl Allocator for HostAllocator {
    fn device(&self) -> Device {
        Device::CPU
    }

    #[inline]
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes > SMALL_BYTES {
            return allocate_large(bytes);
        }
        if bytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        let class = SizeClass::of(bytes).expect("a small size has a class");
        let kept = SHELVES.try_with(|shelves| shelves.take(class)).ok().flatten();
        let block = match kept {
            Some(block) => block,
            None => obtain(class, bytes)?,
        };
        report(|| event(block.address(), class.capacity as i64));
        let address = block.into_address().as_ptr();
        // SAFETY: the block is nobody else's until the deleter takes it back by its address, on whatever thread.
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

/// Not part of the way of small blocks, which is short.
#[inline(never)]
fn allocate_large(bytes: usize) -> Result<DataPtr> {
    LARGE.allocate(bytes)
}

/// Takes back a small block, on whatever thread.
#[inline]
pub(super) fn give_back(block: SystemBlock) {
    // Before anybody else can be given it, so that an observer hears of the free first.
    report(|| event(block.address(), -(block.capacity() as i64)));
    let mut back = Some(block);
    let kept = SHELVES.try_with(|shelves| shelves.put(&mut back));
    if kept.is_err() {
        // The thread is at its end.
        let capacity = back.as_ref().map_or(0, SystemBlock::capacity);
        ENDED.fetch_sub(capacity as i64, Ordering::Relaxed);
    }
    if let Some(block) = back {
        block.free();
    }
}

/// A block from the system, which gets the cache back if it has none to give.
#[cold]
fn obtain(class: SizeClass, bytes: usize) -> Result<SystemBlock> {
    let block = SystemBlock::allocate(class.capacity).or_else(|| {
        HostAllocator::empty_cache();
        SystemBlock::allocate(class.capacity)
    });
    let block = block.ok_or_else(|| no_memory(bytes))?;
    count(class.capacity as i64);
    Ok(block)
}

/// Counts bytes that are given out, or, below zero, come back.
#[inline]
fn count(bytes: i64) {
    if SHELVES.try_with(|shelves| shelves.count(bytes)).is_err() {
        // The thread is at its end.
        ENDED.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Says that the storage that a block of the smallest class was given to has ended, and is kept with it.
#[inline]
pub(crate) fn keep_with_storage(address: *mut u8) {
    report(|| event(address.addr(), -(WHOLE_BYTES as i64)));
    count(-(WHOLE_BYTES as i64));
}

/// Says that a block that was [kept](keep_with_storage) is in use again.
#[inline]
pub(crate) fn hand_out_again(address: *mut u8) {
    count(WHOLE_BYTES as i64);
    report(|| event(address.addr(), WHOLE_BYTES as i64));
}

/// Gives a block that was [kept](keep_with_storage) back to the system.
pub(crate) fn free_kept(mut memory: DataPtr) {
    if !same_deleter(memory.deleter(), &FREE) {
        return;
    }
    let Some(address) = NonNull::new(memory.release_context().cast()) else { return };
    // SAFETY: the deleter of that name takes the address of a block, once, and its context was just taken away.
    let block = unsafe { SystemBlock::from_address(address) };
    debug_assert!(block.owner().is_null() && block.capacity() == WHOLE_BYTES, "it is no block of a storage");
    block.free();
}

#[cold]
fn no_memory(bytes: usize) -> Error {
    let live = HostAllocator::live_bytes();
    report_out_of_memory(|| OutOfMemoryEvent {
        requested: bytes as u64,
        total_allocated: live,
        total_reserved: live + HostAllocator::cached_bytes() as u64,
        device: Device::CPU,
    });
    host_out_of_memory(bytes)
}

#[cold]
fn event(address: usize, bytes: i64) -> MemoryEvent {
    // What is counted after the report, at a free, and before it otherwise.
    let live = HostAllocator::live_bytes().saturating_add_signed(bytes.min(0));
    MemoryEvent {
        address,
        bytes,
        total_allocated: live,
        total_reserved: live + HostAllocator::cached_bytes() as u64,
        device: Device::CPU,
    }
}

impl Shelves {
    const fn new() -> Self {
        Self {
            of_class: [const { Shelf { blocks: [const { Cell::new(None) }; KEPT], len: Cell::new(0) } };
                SMALL_CLASSES],
            counter: Cell::new(None),
        }
    }

    #[inline]
    fn take(&self, class: SizeClass) -> Option<SystemBlock> {
        let shelf = &self.of_class[class.index];
        let len = shelf.len.get().checked_sub(1)?;
        shelf.len.set(len);
        self.count(class.capacity as i64);
        shelf.blocks[len].take()
    }

    /// Puts the block away if there is room.
    #[inline]
    fn put(&self, block: &mut Option<SystemBlock>) {
        let capacity = block.as_ref().map_or(1, SystemBlock::capacity);
        self.count(-(capacity as i64));
        let class = SizeClass::of(capacity).expect("a small size has a class");
        let shelf = &self.of_class[class.index];
        if let Some(place) = shelf.blocks.get(shelf.len.get()) {
            place.set(block.take());
            shelf.len.set(shelf.len.get() + 1);
        }
    }

    #[inline]
    fn count(&self, bytes: i64) {
        let counter = &self.counter.get().unwrap_or_else(|| self.choose_counter()).0;
        counter.store(counter.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    #[cold]
    fn choose_counter(&self) -> &'static Counter {
        let mut counters = counters();
        let counter = counters.idle.pop().unwrap_or_else(|| {
            let new: &Counter = Box::leak(Box::new(Counter(AtomicI64::new(0))));
            counters.all.push(new);
            new
        });
        self.counter.set(Some(counter));
        counter
    }

    /// Gives the blocks back to the system.
    fn empty(&self) {
        for shelf in &self.of_class {
            shelf.len.set(0);
            shelf.blocks.iter().filter_map(Cell::take).for_each(SystemBlock::free);
        }
    }
}

fn counters() -> MutexGuard<'static, Counters> {
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Shelves {
    fn drop(&mut self) {
        self.empty();
        counters().idle.extend(self.counter.take());
    }
}
