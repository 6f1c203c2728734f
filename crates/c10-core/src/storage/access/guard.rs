#![expect(unsafe_code, reason = "lends the bytes of the one storage that a guard has locked")]
//! [`ReadGuard`] and [`WriteGuard`]: access to one storage.

use super::held::Held;
use super::lock::Mode;
use super::{HOST_READ, HOST_WRITE, Locked, view};
use crate::error::Result;
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// Shared access to the bytes of a storage, by [`Storage::read`].
///
/// It stays on its thread, though others may look through it:
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_core::storage::ReadGuard<'static>>();
/// ```
/// ```
/// fn sync<T: Sync>() {}
/// sync::<c10_core::storage::ReadGuard<'static>>();
/// ```
#[must_use = "access ends as soon as the guard is dropped"]
#[derive(Debug)]
pub struct ReadGuard<'a> {
    locked: Locked<'a>,
    _held: Held,
}

/// Exclusive access to the bytes of a storage, by [`Storage::write`].
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_core::storage::WriteGuard<'static>>();
/// ```
#[must_use = "access ends as soon as the guard is dropped"]
#[derive(Debug)]
pub struct WriteGuard<'a> {
    locked: Locked<'a>,
    _held: Held,
}

impl Storage {
    /// Shared access. It waits for writers, unless this thread holds a guard already.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`](crate::ErrorKind::Busy) where it may not wait;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when the memory was
    /// [released](Self::release_data); else what a device reports that was waited for.
    pub fn read(&self) -> Result<ReadGuard<'_>> {
        let locked = Locked::take(self.as_impl(), Mode::Shared, HOST_READ)?;
        Ok(ReadGuard { locked, _held: Held::new() })
    }

    /// Exclusive access, with the bytes this storage's own: a copy-on-write layer is materialised. Adds one to
    /// the version. It waits for readers and writers, unless this thread holds a guard already.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly) when the memory must not
    /// be written; [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) when there is none for the copy.
    pub fn write(&self) -> Result<WriteGuard<'_>> {
        let locked = Locked::take(self.as_impl(), Mode::Exclusive, HOST_WRITE)?;
        locked.storage().bump_version();
        Ok(WriteGuard { locked, _held: Held::new() })
    }
}

impl ReadGuard<'_> {
    /// The bytes.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the host cannot reach them.
    pub fn bytes(&self) -> Result<&[u8]> {
        // SAFETY: the guard has shared access with `HOST_READ`, and outlives the slice.
        unsafe { view::shared(self.storage()) }
    }

    /// The address, on the storage's device; null when there is no memory.
    pub fn as_ptr(&self) -> *const u8 {
        self.storage().address()
    }

    /// How many bytes there are.
    pub fn nbytes(&self) -> usize {
        self.storage().size()
    }

    fn storage(&self) -> &StorageImpl {
        self.locked.storage()
    }
}

impl WriteGuard<'_> {
    /// The bytes.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`](crate::ErrorKind::NotImplemented) when the host cannot reach them.
    pub fn bytes(&self) -> Result<&[u8]> {
        // SAFETY: the guard has exclusive access with `HOST_WRITE`, which is more than `HOST_READ`, and
        // `bytes_mut` borrows it exclusively.
        unsafe { view::shared(self.storage()) }
    }

    /// The bytes, to write.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        // SAFETY: the guard has exclusive access with `HOST_WRITE`, is borrowed exclusively for as long as the
        // slice, and gives out no other reference meanwhile.
        unsafe { view::exclusive(self.storage()) }
    }

    /// The address, on the storage's device; null when there is no memory.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.storage().address()
    }

    /// How many bytes there are.
    pub fn nbytes(&self) -> usize {
        self.storage().size()
    }

    fn storage(&self) -> &StorageImpl {
        self.locked.storage()
    }
}
