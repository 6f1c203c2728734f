#![expect(
    unsafe_code,
    reason = "keeps free blocks of the global allocator in lists through the blocks themselves"
)]
//! Blocks for shared values: those of values that have ended are kept by the thread, some of each size, and given
//! out again with no call of the global allocator and no atomic operation.
//!
//! - B1 a shelf holds blocks of its size, which nobody uses; the first word of each points to the next.
//! - B2 a block goes to the shelves of the thread that frees it, whoever made it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

/// Sizes are multiples of this, which is also what blocks are aligned to.
const UNIT: usize = 16;
/// The largest blocks that are kept are this many units less one.
const SIZES: usize = 24;
/// How many blocks of a size a thread keeps: the nodes of a graph all end together, and those of the next one want
/// their blocks.
const KEPT: usize = 1024;

struct Free {
    next: Option<NonNull<Free>>,
}

struct Shelf {
    first: Cell<Option<NonNull<Free>>>,
    len: Cell<usize>,
}

/// The free blocks of a thread, by size in units.
struct Shelves([Shelf; SIZES]);

thread_local! {
    static SHELVES: Shelves =
        const { Shelves([const { Shelf { first: Cell::new(None), len: Cell::new(0) } }; SIZES]) };
}

/// The layout of blocks for values of this one, and their shelf if they are kept.
#[inline(always)]
const fn place(value: Layout) -> (Layout, Option<usize>) {
    let units = value.size().div_ceil(UNIT);
    if value.align() <= UNIT && units > 0 && units < SIZES {
        // It cannot fail: the size is small, and the alignment a power of two.
        if let Ok(layout) = Layout::from_size_align(units * UNIT, UNIT) {
            return (layout, Some(units));
        }
    }
    (value, None)
}

/// A block for a `T`, uninitialised.
#[inline(always)]
pub(super) fn take<T>() -> NonNull<T> {
    const { assert!(size_of::<T>() > 0) };
    let (layout, shelf) = const { place(Layout::new::<T>()) };
    let kept = shelf.and_then(|shelf| SHELVES.try_with(|shelves| shelves.0[shelf].take()).ok().flatten());
    match kept {
        Some(block) => block.cast(),
        None => fresh(layout).cast(),
    }
}

/// Takes a block back.
///
/// # Safety
/// It came from [`take`] for a type of this layout, and nobody uses it any more.
#[inline(always)]
pub(super) unsafe fn put(block: NonNull<u8>, value: Layout) {
    let (layout, shelf) = place(value);
    // Without shelves the thread is at its end.
    let is_kept = shelf.is_some_and(|shelf| {
        // SAFETY: a block of that shelf's size that nobody uses.
        SHELVES.try_with(|shelves| unsafe { shelves.0[shelf].put(block) }).unwrap_or(false)
    });
    if !is_kept {
        // SAFETY: the caller's.
        unsafe { give_back(block, layout) };
    }
}

#[cold]
fn fresh(layout: Layout) -> NonNull<u8> {
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// The block came from [`fresh`] with this layout, and nobody uses it any more.
#[cold]
unsafe fn give_back(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's.
    unsafe { dealloc(block.as_ptr(), layout) };
}

impl Shelf {
    #[inline]
    fn take(&self) -> Option<NonNull<u8>> {
        let first = self.first.get()?;
        // SAFETY: by B1 the block is nobody's, and has a `Free` in front.
        self.first.set(unsafe { first.as_ref() }.next);
        self.len.set(self.len.get() - 1);
        Some(first.cast())
    }

    /// Keeps the block if there is room, and says whether there was.
    ///
    /// # Safety
    /// It is of this shelf's size, and nobody uses it any more.
    #[inline]
    unsafe fn put(&self, block: NonNull<u8>) -> bool {
        if self.len.get() == KEPT {
            return false;
        }
        let block = block.cast::<Free>();
        // SAFETY: blocks are at least a unit large and aligned to one.
        unsafe { block.write(Free { next: self.first.get() }) };
        self.first.set(Some(block));
        self.len.set(self.len.get() + 1);
        true
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        for (units, shelf) in self.0.iter().enumerate() {
            while let Some(block) = shelf.take() {
                let layout = Layout::from_size_align(units * UNIT, UNIT).expect("blocks have this layout");
                // SAFETY: by B1 it is a block of this size, which nobody uses.
                unsafe { give_back(block, layout) };
            }
        }
    }
}
