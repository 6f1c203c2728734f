//! Storages of few bytes that have ended and are kept by their thread, each with its memory, for the next ones.
//!
//! // Note [Kept whole]
//! An operator on few elements makes a storage and a block of the host's allocator, and mostly both are those that
//! such an operator's result had a moment ago. So they stay together, and if the tensor ends with them, with the tensor:
//! what is made anew is what differs, and nothing is asked for, checked or freed piece by piece. Such a storage *rests*.
//! Observers and counters see what they would see without that.
//!
//! - K1 of a storage whose flags are `WHOLE_FLAGS` or `RESTING_FLAGS` the memory is the block that the host's allocator
//!   gave when it was made. Who changes that clears `WHOLE` for good.
//! - K2 a storage that rests has one handle, which nobody uses but to wake it, and its block counts as given back.

use std::cell::Cell;

use super::Storage;
use super::storage_impl::{RESIZABLE, RESTING, StorageImpl, WHOLE};
use crate::allocator::{default_host_allocator, host};
use crate::shared::{Keep, Shared};

/// How many a thread keeps: the results along a chain end together, and those of the next one follow.
const KEPT: usize = 1024;

/// The flags of a storage that may be kept, all of them.
pub(super) const WHOLE_FLAGS: u32 = RESIZABLE | WHOLE;
const RESTING_FLAGS: u32 = WHOLE_FLAGS | RESTING;

struct List {
    first: Cell<Option<Shared<StorageImpl>>>,
    len: Cell<usize>,
}

thread_local! {
    static LIST: List = const { List { first: Cell::new(None), len: Cell::new(0) } };
}

impl Storage {
    // For tensors, which are kept with their storages.

    /// Whether storages of so many bytes of the host may [rest](Self::rest), as things are.
    #[doc(hidden)]
    #[inline]
    pub fn may_rest(size: usize) -> bool {
        is_small(size) && default_host_allocator().is_some()
    }

    /// Ends a storage of few bytes, if this is the only handle, of either kind, and nothing about it was changed, and says
    /// whether it did. Whoever has the handle may [wake](Self::wake) the storage as a new one, or drop it, and do nothing
    /// else: its bytes count as given back, and would be counted once more.
    #[doc(hidden)]
    #[inline(always)]
    pub fn rest(&mut self) -> bool {
        match Shared::get_mut(&mut self.0) {
            Some(storage) if storage.flags() == WHOLE_FLAGS => {
                storage.rest();
                true
            }
            _ => false,
        }
    }

    /// Makes a storage that [rests](Self::rest) a new one of `size` bytes, with unspecified values, if these are few enough;
    /// says whether it did. Ask first whether such storages [may rest](Self::may_rest) still.
    #[doc(hidden)]
    #[inline(always)]
    pub fn wake(&mut self, size: usize) -> bool {
        match Shared::get_mut(&mut self.0) {
            Some(storage) if storage.flags() == RESTING_FLAGS && is_small(size) => {
                storage.wake(size);
                true
            }
            _ => false,
        }
    }
}

/// Whether a storage of so many bytes may be kept when it ends, with a block of the host's allocator.
#[inline]
pub(super) fn is_small(size: usize) -> bool {
    size.wrapping_sub(1) < host::WHOLE_BYTES
}

/// A storage of `size` bytes, which are [few](is_small), if one is kept.
#[inline]
pub(super) fn take(size: usize) -> Option<Shared<StorageImpl>> {
    LIST.try_with(|list| list.take(size)).ok().flatten()
}

/// Gives all that this thread keeps back to the system.
pub(crate) fn empty() {
    // Where the thread is at its end there is nothing left.
    let _ = LIST.try_with(List::empty);
}

impl StorageImpl {
    #[inline]
    fn rest(&mut self) {
        // Before anybody else can be given it, so that an observer hears of the free first.
        host::keep_with_storage(self.address());
        self.put_flags(RESTING_FLAGS);
    }

    #[inline]
    fn wake(&mut self, size: usize) {
        self.begin_anew(size);
        self.put_flags(WHOLE_FLAGS);
        host::hand_out_again(self.address());
    }
}

impl Keep for StorageImpl {
    #[inline]
    fn may_be_kept(&self) -> bool {
        self.flags() & WHOLE != 0
    }

    #[inline(never)]
    fn keep(mut last: Shared<Self>) {
        let Some(storage) = Shared::get_mut(&mut last) else { return };
        match storage.flags() {
            // Where the thread is at its end, or has enough of them, it ends.
            WHOLE_FLAGS => _ = LIST.try_with(|list| list.put(last)),
            RESTING_FLAGS => host::free_kept(storage.take_data_ptr()),
            _ => {}
        }
    }
}

impl List {
    #[inline]
    fn take(&self, size: usize) -> Option<Shared<StorageImpl>> {
        let mut first = self.first.take()?;
        let storage = Shared::get_mut(&mut first)?;
        // What was there was just taken.
        std::mem::forget(self.first.replace(storage.next_kept.take()));
        self.len.set(self.len.get() - 1);
        storage.wake(size);
        Some(first)
    }

    #[inline]
    fn put(&self, mut last: Shared<StorageImpl>) {
        if self.len.get() >= KEPT {
            return;
        }
        let Some(storage) = Shared::get_mut(&mut last) else { return };
        // An observer may end another meanwhile, so that there may be one more than there should.
        storage.rest();
        storage.next_kept = self.first.take();
        std::mem::forget(self.first.replace(Some(last)));
        self.len.set(self.len.get() + 1);
    }

    #[cold]
    fn empty(&self) {
        let mut next = self.first.take();
        self.len.set(0);
        while let Some(mut first) = next {
            next = Shared::get_mut(&mut first).and_then(|storage| storage.next_kept.take());
            StorageImpl::keep(first);
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        self.empty();
    }
}
