//! `StorageImpl`: what all handles of one storage share (`c10::StorageImpl`).
//!
//! Who may touch what:
//! - S1 `address`, `size`, `capacity` and the identity of the memory change only under exclusive access *and*
//!   `owner`'s mutex, so that either of the two is enough to see them consistent. Read without both they are
//!   hints.
//! - S2 `owner.data_ptr` may change its context without changing its address: a copy-on-write layer comes or
//!   goes, under `owner`'s mutex. `COW` says that there is one whose *bytes* others may share. It is set under
//!   access of either kind and that mutex, so that no writer is at work then, and cleared under the mutex
//!   when nobody else shares them.
//! - S3 bytes are read under shared or exclusive access, and written under exclusive access while `COW` and
//!   `READ_ONLY` are clear.
//! - S4 `READ_ONLY` never changes. `RESIZABLE` and `RELEASED` change under exclusive access.
//! - S5 `PENDING_*` say what is in `pending`, under whose mutex they change; a use is added under access.
//! - S6 `WHOLE` is set when the storage is made, and cleared, for good, whenever `owner.data_ptr` changes in any way.
//!
//! Order of locks: access, then `owner` or `pending`, which are never held together. Nothing foreign runs
//! under any of them: no allocator, deleter, hook or user's closure.

use super::access::{AccessLock, PendingList};
use super::dump::Origin;
use super::source::Source;
use crate::data_ptr::DataPtr;
use crate::device::Device;
use crate::error::Error;
#[cfg(not(loom))]
use crate::shared::Shared;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// `resize` is allowed.
pub(crate) const RESIZABLE: u32 = 1;
/// Exclusive access is refused.
pub(crate) const READ_ONLY: u32 = 1 << 1;
/// Others may share the bytes, by a copy-on-write layer: materialise before writing.
pub(crate) const COW: u32 = 1 << 2;
/// The memory was given away: access is refused with a message.
pub(crate) const RELEASED: u32 = 1 << 3;
/// A device still reads the bytes.
pub(crate) const PENDING_READ: u32 = 1 << 4;
/// A device still writes the bytes.
pub(crate) const PENDING_WRITE: u32 = 1 << 5;
/// The memory is the block that the host's own allocator gave when the storage was made: see Note [Kept whole].
pub(crate) const WHOLE: u32 = 1 << 6;
/// It has ended, and is kept for the next one: see Note [Kept whole].
#[cfg(not(loom))]
pub(crate) const RESTING: u32 = 1 << 7;

#[derive(Debug)]
pub(crate) struct StorageImpl {
    pub(super) access: AccessLock,
    flags: AtomicU32,
    version: AtomicU32,
    address: AtomicPtr<u8>,
    size: AtomicUsize,
    capacity: AtomicUsize,
    device: Device,
    pub(super) owner: Mutex<Owner>,
    pub(super) pending: Mutex<PendingList>,
    pub(super) origin: Origin,
    /// Of a storage that is kept: the one that is kept behind it.
    #[cfg(not(loom))]
    pub(super) next_kept: Option<Shared<Self>>,
}

/// Who frees the memory, and where more of it comes from.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) data_ptr: DataPtr,
    pub(super) allocator: Option<Source>,
    /// What access to released memory says.
    pub(super) message: Option<Box<str>>,
}

impl StorageImpl {
    #[inline(always)]
    pub(super) fn new(
        data_ptr: DataPtr,
        (size, capacity): (usize, usize),
        allocator: Option<Source>,
        flags: u32,
        origin: Origin,
    ) -> Self {
        Self {
            access: AccessLock::default(),
            flags: AtomicU32::new(flags),
            version: AtomicU32::new(0),
            address: AtomicPtr::new(data_ptr.as_ptr()),
            size: AtomicUsize::new(size),
            capacity: AtomicUsize::new(capacity),
            device: data_ptr.device(),
            owner: Mutex::new(Owner { data_ptr, allocator, message: None }),
            pending: Mutex::new(PendingList::default()),
            origin,
            #[cfg(not(loom))]
            next_kept: None,
        }
    }

    #[inline]
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Adds one to the version; it wraps, as PyTorch's does.
    #[inline]
    pub(crate) fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    pub(super) fn set_flags(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }

    pub(super) fn clear_flags(&self, flags: u32) {
        self.flags.fetch_and(!flags, Ordering::Relaxed);
    }

    /// Puts other memory, which nobody shares, in the place of the present, which is returned. The caller has
    /// exclusive access, and `owner` locked.
    pub(super) fn install(
        &self,
        owner: &mut Owner,
        data_ptr: DataPtr,
        size: usize,
        capacity: usize,
    ) -> DataPtr {
        self.address.store(data_ptr.as_ptr(), Ordering::Relaxed);
        self.set_size(owner, size);
        self.capacity.store(capacity, Ordering::Relaxed);
        self.clear_flags(COW | WHOLE);
        std::mem::replace(&mut owner.data_ptr, data_ptr)
    }

    /// Makes these its flags, all of them.
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn put_flags(&mut self, flags: u32) {
        self.flags = AtomicU32::new(flags);
    }

    /// Makes it a new one, of so many bytes, with the memory that it has: see Note [Kept whole].
    #[cfg(not(loom))]
    #[inline]
    pub(super) fn begin_anew(&mut self, size: usize) {
        // A guard that was leaked may have left it locked.
        self.access = AccessLock::default();
        self.version = AtomicU32::new(0);
        self.size = AtomicUsize::new(size);
        self.capacity = AtomicUsize::new(size);
    }

    /// The memory, of a storage that is about to end.
    #[cfg(not(loom))]
    pub(super) fn take_data_ptr(&mut self) -> DataPtr {
        std::mem::take(&mut lock(&self.owner).data_ptr)
    }

    /// Changes the size within the capacity. The caller has exclusive access, and `owner` locked.
    pub(super) fn set_size(&self, _owner: &mut Owner, size: usize) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// The error of any access to memory that was given away.
    #[cold]
    pub(super) fn released_error(&self) -> Error {
        let message = lock(&self.owner).message.clone();
        // PyTorch's text.
        Error::invalid_argument(message.map_or_else(
            || "Cannot access data pointer of Storage that is invalid.".to_owned(),
            String::from,
        ))
    }
}

impl Drop for StorageImpl {
    #[inline]
    fn drop(&mut self) {
        // The flags of a storage that nobody else has say what the list holds (S5).
        if self.has(PENDING_READ | PENDING_WRITE) {
            self.end_pending();
        }
    }
}

impl StorageImpl {
    #[cold]
    fn end_pending(&mut self) {
        let pending = std::mem::take(&mut *lock(&self.pending));
        if !pending.wait_at_end() {
            // A device that cannot say whether it still uses the memory may do so: it is never freed.
            let owner = &mut *lock(&self.owner);
            let device = owner.data_ptr.device();
            std::mem::forget(std::mem::replace(&mut owner.data_ptr, DataPtr::null(device)));
        }
    }
}
