#![expect(
    unsafe_code,
    reason = "the only code that touches host memory: the host ends of copies, and pinned memory"
)]
//! [`HostRange`] and the allocation of pinned memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{NonNull, copy_nonoverlapping, with_exposed_provenance_mut};

/// Where pinned memory begins: at a page, as CUDA's does.
const PAGE: usize = 4096;

/// The host end of a copy that has not run.
///
/// Invariant: until the copy has run, the host memory is valid for `bytes` bytes, for what the copy does with it.
#[derive(Debug)]
pub(super) struct HostRange {
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is used once, under the simulator's lock, by whichever thread runs the copy; that nobody
// else touches the memory meanwhile is the promise of `HostRange::new`'s caller.
unsafe impl Send for HostRange {}

impl HostRange {
    /// The range of a copy; `None` when it is no range of any memory.
    ///
    /// # Safety
    /// Until the value is dropped, the memory at `ptr` is valid for `bytes` bytes, for reads if the copy reads
    /// it and for writes if it writes it, and no other thread uses it against that.
    pub(super) unsafe fn new(ptr: *mut u8, bytes: u64) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok().filter(|&n| isize::try_from(n).is_ok())?;
        (!ptr.is_null()).then_some(Self { ptr, bytes })
    }

    /// Where it is, for a copy that may run later.
    pub(super) fn place(&self) -> HostPlace {
        HostPlace { at: self.ptr.expose_provenance(), bytes: self.bytes }
    }

    /// Where it begins.
    pub(super) fn address(&self) -> u64 {
        self.ptr.addr() as u64
    }

    /// Copies out, from `offset` on.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: `at` has checked that the bytes lie in the range, which the invariant says can be read; `out`
        // is the simulator's own and overlaps no memory that the program has.
        unsafe { copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    }

    /// Copies in, from `offset` on.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: as in `read`, for writing.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let offset = offset as usize;
        assert!(offset <= self.bytes && len <= self.bytes - offset, "a copy stays in its range");
        self.ptr.wrapping_add(offset)
    }
}

/// Where the host end of a copy would be that a graph holds. Nothing is known of the memory there.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostPlace {
    /// Its provenance is exposed.
    at: usize,
    bytes: usize,
}

impl HostPlace {
    /// The range of one run of the copy.
    ///
    /// # Safety
    /// As of [`HostRange::new`].
    pub(super) unsafe fn claim(self) -> HostRange {
        HostRange { ptr: with_exposed_provenance_mut(self.at), bytes: self.bytes }
    }

    /// Where it begins.
    pub(super) fn address(self) -> u64 {
        self.at as u64
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, PAGE).ok()
}

/// Zeroed host memory, if there is any.
pub(super) fn alloc_pinned(bytes: u64) -> Option<NonNull<u8>> {
    let layout = layout(usize::try_from(bytes).ok()?).filter(|l| l.size() != 0)?;
    // SAFETY: the layout's size is not 0.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// Gives it back.
///
/// # Safety
/// `ptr` came from [`alloc_pinned`] with these `bytes`, was not given back since, and nobody uses it.
pub(super) unsafe fn free_pinned(ptr: NonNull<u8>, bytes: u64) {
    let layout = layout(bytes as usize).expect("the layout was one when the memory was allocated");
    // SAFETY: the memory was allocated with this layout and is live and unused, as the caller promises.
    unsafe { dealloc(ptr.as_ptr(), layout) }
}
