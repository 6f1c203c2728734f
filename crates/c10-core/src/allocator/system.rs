#![expect(unsafe_code, reason = "owns blocks of the system's memory by a header in front of each")]
//! [`SystemBlock`]: host memory from the global allocator, aligned and zeroed, which remembers in a header what
//! it takes to free it by its address alone.
//!
//! ```text
//!   base (16-aligned)      header (32 bytes)   data (64-aligned)
//!   |  0, 16, 32 or 48 ... | owner bytes       | capacity bytes ...
//!   |                      | capacity offset   |
//! ```
//!
//! A deleter gets one pointer, and raw calls need that pointer to be the memory's own address, so that the
//! size that the global allocator wants back has to lie beside the memory. It lies in front. The base is only
//! 16-aligned, and the rest of the alignment is done here: the system then takes its path for zeroed memory
//! (`calloc`), which leaves fresh pages untouched, where a request for 64-aligned zeroes makes it write them
//! all. Blocks of 2 MiB and more begin 64 bytes into a huge page: see Note [Huge pages].

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};

/// The alignment of all host memory, in bytes (`c10::gAlignment`).
pub(super) const ALIGNMENT: usize = 64;
/// The most that the standard library passes to `calloc`.
const BASE_ALIGNMENT: usize = 16;
const HEADER: usize = size_of::<Header>();
/// What a block takes beyond its capacity: the header, and the way to the next multiple of the alignment.
const EXTRA: usize = HEADER + ALIGNMENT - BASE_ALIGNMENT;
/// A huge page, and the least capacity of blocks that should lie in such pages.
///
/// // Note [Huge pages]
/// Operators walk large blocks from end to end, or across rows: in pages of 4 KiB the second misses the translation
/// cache at every step. Large blocks begin at a huge page, and the system is asked to use such pages, which Linux
/// does for memory that asks alone. They are kept and used again, so that the clearing of a page is paid once.
const HUGE: usize = 2 << 20;

const _: () = assert!(HEADER == 32 && align_of::<Header>() <= BASE_ALIGNMENT);

struct Header {
    /// What the allocator that owns the block left here.
    owner: *const (),
    /// How many bytes the block's present user asked for.
    bytes: usize,
    capacity: usize,
    /// From the base to the data.
    offset: usize,
}

/// Sole ownership of a block. It has no destructor: [`free`](Self::free) it, or pass it on by its address.
#[must_use = "the block leaks"]
pub(super) struct SystemBlock(NonNull<u8>);

// SAFETY: it is the only handle on its memory, and the owner field is given out as a raw pointer.
unsafe impl Send for SystemBlock {}

impl SystemBlock {
    /// `capacity` zeroed bytes; `None` if there is no such memory.
    pub(super) fn allocate(capacity: usize) -> Option<Self> {
        let layout = layout(capacity)?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let data = if capacity >= HUGE {
            // The header is in front of the data, in the same page.
            base.addr().get().next_multiple_of(HUGE) + ALIGNMENT
        } else {
            (base.addr().get() + HEADER).next_multiple_of(ALIGNMENT)
        };
        let offset = data - base.addr().get();
        if capacity >= HUGE {
            // SAFETY: the page boundary is in the block, in front of the data.
            let pages = unsafe { base.add(offset - ALIGNMENT) };
            huge_pages::advise(pages, capacity);
        }
        // SAFETY: the offset is at most what `layout` adds, so that `offset + capacity` bytes are in the block.
        let block = Self(unsafe { base.add(offset) });
        let header = Header { owner: ptr::null(), bytes: capacity, capacity, offset };
        // SAFETY: the header's place is in the block, between base and data, and aligned as the data is.
        unsafe { block.header().write(header) };
        Some(block)
    }

    /// Takes a block back from the address that [`into_address`](Self::into_address) gave.
    ///
    /// # Safety
    /// The address came from `into_address`, once for each time it is taken back.
    #[inline]
    pub(super) unsafe fn from_address(address: NonNull<u8>) -> Self {
        Self(address)
    }

    /// Gives the block away as the address of its data.
    #[inline]
    pub(super) fn into_address(self) -> NonNull<u8> {
        self.0
    }

    /// The address of its data.
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.0.addr().get()
    }

    #[inline]
    pub(super) fn owner(&self) -> *const () {
        // SAFETY: the header was written when the block was made.
        unsafe { (*self.header().as_ptr()).owner }
    }

    pub(super) fn set_owner(&mut self, owner: *const ()) {
        // SAFETY: as in `owner`; `self` is the sole handle.
        unsafe { (*self.header().as_ptr()).owner = owner };
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        // SAFETY: as in `owner`.
        unsafe { (*self.header().as_ptr()).capacity }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        // SAFETY: as in `owner`.
        unsafe { (*self.header().as_ptr()).bytes }
    }

    pub(super) fn set_bytes(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.capacity());
        // SAFETY: as in `owner`; `self` is the sole handle.
        unsafe { (*self.header().as_ptr()).bytes = bytes };
    }

    /// Gives the memory back to the system.
    #[inline(never)]
    pub(super) fn free(self) {
        // SAFETY: as in `owner`.
        let offset = unsafe { (*self.header().as_ptr()).offset };
        let layout = layout(self.capacity()).expect("it was valid when the block was made");
        // SAFETY: the base is `offset` bytes in front of the data, in the same allocation.
        let base = unsafe { self.0.sub(offset) };
        // SAFETY: the base came from `alloc_zeroed` with this layout, and `self` was the only handle.
        unsafe { dealloc(base.as_ptr(), layout) };
    }

    #[inline]
    fn header(&self) -> NonNull<Header> {
        // SAFETY: the header is right in front of the data, in the same allocation.
        unsafe { self.0.cast::<Header>().sub(1) }
    }
}

fn layout(capacity: usize) -> Option<Layout> {
    let extra = if capacity >= HUGE { HUGE + ALIGNMENT } else { EXTRA };
    Layout::from_size_align(capacity.checked_add(extra)?, BASE_ALIGNMENT).ok()
}

#[cfg(target_os = "linux")]
mod huge_pages {
    use std::ptr::NonNull;

    use rustix::mm::{Advice, madvise};

    /// Asks for huge pages for the whole ones in a range. That it may be refused changes nothing but the speed.
    pub(super) fn advise(first: NonNull<u8>, bytes: usize) {
        let whole = bytes & !(super::HUGE - 1);
        // SAFETY: the range is allocated memory, and the advice does not change what is in it.
        let _ = unsafe { madvise(first.as_ptr().cast(), whole, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
mod huge_pages {
    use std::ptr::NonNull;

    pub(super) fn advise(_: NonNull<u8>, _: usize) {}
}
