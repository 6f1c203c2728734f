//! [`Access::with_few`]: access to few storages, for operators that write to new memory or to one storage alone.

use super::few::INLINE;
use super::held::Held;
use super::lock::Mode;
use super::{Access, HOST_READ, HOST_WRITE};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// What is locked, until this is dropped.
struct FewSet<'a> {
    written: Option<&'a StorageImpl>,
    /// A storage that is given twice has two readers.
    read: [Option<&'a StorageImpl>; INLINE],
    _held: Held,
}

impl Access {
    /// Runs `with` under access for the host to at most four storages that are read and one that is written, which may
    /// be among them, if none has to be waited for and nothing else is in the way; else nothing is locked, counted or
    /// run, and [`acquire_with`](Self::acquire_with) waits, clears what is in the way, or says what it is. Adds one to
    /// the version of the written one if `bump_version` says so. It lends nothing: it keeps others from the bytes.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let storage = Storage::from_bytes([1, 2].into())?;
    /// let refused = Access::with_few([&storage], None, true, || storage.write().is_err());
    /// assert_eq!(refused, Some(true), "the same thread would wait for itself");
    /// let refused = Access::with_few([&storage], Some(&storage), true, || storage.read().is_err());
    /// assert_eq!((refused, storage.version()), (Some(true), 1));
    /// assert!(storage.read().is_ok());
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline]
    pub fn with_few<'a, R>(
        read: impl IntoIterator<Item = &'a Storage>,
        written: Option<&'a Storage>,
        bump_version: bool,
        with: impl FnOnce() -> R,
    ) -> Option<R> {
        // It stays where it is: what is written word by word is slow to move.
        let mut set = FewSet { written: None, read: [None; INLINE], _held: Held::new() };
        if let Some(written) = written {
            set.written = Some(take(written.as_impl(), Mode::Exclusive, HOST_WRITE)?);
        }
        let mut places = set.read.iter_mut();
        for storage in read {
            if written.is_some_and(|written| written.is_same(storage)) {
                continue;
            }
            // The place first: what is locked must have one.
            let place = places.next()?;
            *place = Some(take(storage.as_impl(), Mode::Shared, HOST_READ)?);
        }
        if let Some(written) = written.filter(|_| bump_version) {
            written.bump_version();
        }
        Some(with())
    }
}

/// Locks a storage, if it is free and none of `obstacles` is there.
#[inline]
fn take(storage: &StorageImpl, mode: Mode, obstacles: u32) -> Option<&StorageImpl> {
    if !storage.access.try_acquire(mode) {
        return None;
    }
    if storage.has(obstacles) {
        storage.access.release(mode);
        return None;
    }
    Some(storage)
}

impl Drop for FewSet<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(written) = self.written {
            written.access.release(Mode::Exclusive);
        }
        for storage in self.read.into_iter().map_while(|storage| storage) {
            storage.access.release(Mode::Shared);
        }
    }
}
