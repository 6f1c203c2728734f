//! Copy-on-write: [`Storage::lazy_clone`] shares the memory until one of the sharers writes
//! (`c10::impl::cow`).
//!
//! Reading never copies. The first exclusive access to a sharer *materialises* it: it gets a copy of its own,
//! from its allocator (or that of its type of device), or, when it is the last owner, the original without
//! its layer and no copy. A failure leaves it as it was.
//!
//! // Note [Pinned bytes]
//! The same layer serves this crate's own long operations, which must not hold the access lock while they
//! call an allocator or hooks. A [`Pin`] is a share in the storage's memory: it keeps it alive. As long as a
//! pin on the *bytes* lives, a writer materialises a copy and leaves the pinned bytes alone. The layer goes
//! with the pin if nobody else shares.

use super::access::{HOST_MOVE, HOST_READ, Locked, Mode};
use super::dump::Origin;
use super::source::Source;
use super::storage_impl::{COW, Owner, READ_ONLY, RESIZABLE, StorageImpl, WHOLE};
use super::{Storage, fresh};
use crate::data_ptr::DataPtr;
use crate::error::Result;
use crate::sync::lock;

mod context;

use context::{Context, Kind, Share, is_sole, strip};

impl Storage {
    /// Another storage with the same bytes, which shares the memory until one of the two is written
    /// (`lazy_clone_storage`). It has the same size, allocator and resizable flag, and is never read-only.
    ///
    /// Differs from PyTorch: memory with a context of any kind can be shared, so that this never declines.
    ///
    /// # Errors
    /// As [`read`](Self::read): it waits for a writer to end, unless this thread holds a guard.
    #[track_caller]
    pub fn lazy_clone(&self) -> Result<Self> {
        let origin = Origin::here();
        let storage = self.as_impl();
        // Locked shared, no writer is at work on the bytes (S2).
        let locked = Locked::take(storage, Mode::Shared, HOST_READ)?;
        let (share, size) = storage.share(Kind::Bytes);
        let sizes = (size, storage.capacity());
        let allocator = lock(&storage.owner).allocator.clone();
        drop(locked);
        let flags = COW | (storage.flags() & RESIZABLE);
        Ok(Self::from_parts(share.into_data_ptr(), sizes, allocator, flags, origin))
    }

    /// Whether a copy-on-write layer is around the memory, so that the next exclusive access materialises it
    /// (`_is_cow`).
    ///
    /// So it is after a lazy clone, also when the other sharers have gone.
    pub fn is_cow(&self) -> bool {
        self.as_impl().has(COW)
    }
}

impl StorageImpl {
    /// A share in the memory, around which a layer is put if it has none, and the size of the storage. For a
    /// share of bytes the caller has access.
    fn share(&self, kind: Kind) -> (Share, usize) {
        let room = Context::room();
        let mut owner = lock(&self.owner);
        // A layer is around the memory from now on.
        self.clear_flags(WHOLE);
        if kind == Kind::Bytes {
            self.set_flags(COW);
        }
        (Share::wrap(&mut owner.data_ptr, room, !self.has(READ_ONLY), kind), self.size())
    }

    /// Makes the memory this storage's own. Nothing may be locked by this thread in the same call.
    #[cold]
    pub(super) fn materialize(&self) -> Result<()> {
        while let Some(shared) = self.unshare()? {
            let block = shared.copy()?;
            if self.settle(shared, block)? {
                break;
            }
        }
        Ok(())
    }

    /// Ends the sharing if nobody else shares; else says what there is to copy.
    fn unshare(&self) -> Result<Option<Shared>> {
        let _locked = Locked::take(self, Mode::Exclusive, HOST_READ)?;
        let mut owner = lock(&self.owner);
        if !self.has(COW) {
            return Ok(None);
        }
        if is_sole(&mut owner.data_ptr, false) {
            self.clear_flags(COW);
            strip(&mut owner.data_ptr);
            return Ok(None);
        }
        let allocator = owner.allocator.clone();
        Ok(Share::of(&owner.data_ptr, Kind::Bytes).map(|share| Shared {
            share,
            size: self.size(),
            allocator,
        }))
    }

    /// Puts the copy in the place of what is shared, if nothing changed since; says whether that was so.
    fn settle(&self, shared: Shared, block: DataPtr) -> Result<bool> {
        // Declared first, so that it ends after the locks. So do the arguments.
        let _old;
        let _locked = Locked::take(self, Mode::Exclusive, HOST_MOVE)?;
        let mut owner = lock(&self.owner);
        let unchanged = self.has(COW) && shared.share.is_of(&owner.data_ptr) && shared.size == self.size();
        if unchanged {
            _old = self.install(&mut owner, block, shared.size, shared.size);
        }
        Ok(unchanged)
    }

    /// A pin on the bytes. It waits for a writer to end, unless this thread holds a guard.
    pub(super) fn pin_bytes(&self) -> Result<Pin<'_>> {
        // Locked shared, no writer is at work on the bytes (S2).
        let _locked = Locked::take(self, Mode::Shared, HOST_READ)?;
        Ok(self.pin(Kind::Bytes))
    }

    /// A pin that keeps the memory alive, and lets writers write it.
    pub(super) fn pin_owner(&self) -> Pin<'_> {
        self.pin(Kind::Owner)
    }

    fn pin(&self, kind: Kind) -> Pin<'_> {
        let (share, size) = self.share(kind);
        Pin { storage: self, share: Some(share), size }
    }
}

/// Shared bytes, and a share that keeps them as they are.
struct Shared {
    share: Share,
    size: usize,
    allocator: Option<Source>,
}

impl Shared {
    fn copy(&self) -> Result<DataPtr> {
        let original = self.share.original();
        let allocator = match &self.allocator {
            Some(allocator) => allocator.clone(),
            None => fresh::default_allocator(original.device().device_type())?.into(),
        };
        let block = fresh::allocate(&*allocator, original.device(), self.size)?;
        // Done before the share is given back: whoever is left alone with the original may write it at once, on a
        // stream that knows nothing of this one.
        fresh::copy_now(&*allocator, &block, original, self.size)?;
        Ok(block)
    }
}

/// Keeps a storage's memory alive with no lock. See Note [Pinned bytes].
#[derive(Debug)]
pub(crate) struct Pin<'a> {
    storage: &'a StorageImpl,
    /// Taken by the drop alone.
    share: Option<Share>,
    size: usize,
}

impl Pin<'_> {
    /// The memory as its owner made it, without the copy-on-write layer.
    pub(super) fn original(&self) -> &DataPtr {
        self.share.as_ref().expect("a pin has its share until it is dropped").original()
    }

    /// The size of the storage when it was pinned, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Whether the storage, whose owner is locked, still has the memory and the size that were pinned.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.size == self.storage.size() && self.share.as_ref().is_some_and(|s| s.is_of(&owner.data_ptr))
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let Some(share) = self.share.take() else { return };
        let mut owner = lock(&self.storage.owner);
        if share.is_of(&owner.data_ptr) {
            // Not the last share, which would call a deleter: the storage has one.
            drop(share);
            if is_sole(&mut owner.data_ptr, self.storage.has(READ_ONLY)) {
                self.storage.clear_flags(COW);
            }
            if !self.storage.has(COW) {
                strip(&mut owner.data_ptr);
            }
            return;
        }
        drop(owner);
        drop(share);
    }
}
