//! [`Access::with_few`]: access to few storages, for operators that write to new memory or to one storage alone.

use super::held::Held;
use super::lock::Mode;
use super::{Access, HOST_READ, HOST_WRITE};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// What is locked, until this is dropped.
struct FewSet<'a, const N: usize> {
    written: Option<&'a StorageImpl>,
    /// A storage that is given twice has two readers.
    read: [Option<&'a StorageImpl>; N],
    _held: Held,
}

impl Access {
    /// Runs `with` under access for the host to a few storages that are read and one that is written, which may be
    /// among them, if none has to be waited for and nothing else is in the way; else nothing is locked, counted or
    /// run, and [`acquire_with`](Self::acquire_with) waits, clears what is in the way, or says what it is. Adds one to
    /// the version of the written one if `bump_version` says so. It lends nothing: it keeps others from the bytes.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let storage = Storage::from_bytes([1, 2].into())?;
    /// let refused = Access::with_few([Some(&storage)], None, true, || storage.write().is_err());
    /// assert_eq!(refused, Some(true), "the same thread would wait for itself");
    /// let refused = Access::with_few([Some(&storage)], Some(&storage), true, || storage.read().is_err());
    /// assert_eq!((refused, storage.version()), (Some(true), 1));
    /// assert!(storage.read().is_ok());
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline]
    pub fn with_few<'a, const N: usize, R>(
        read: [Option<&'a Storage>; N],
        written: Option<&'a Storage>,
        bump_version: bool,
        with: impl FnOnce() -> R,
    ) -> Option<R> {
        // It stays where it is: what is written word by word is slow to move.
        let mut set = FewSet { written: None, read: [None; N], _held: Held::new() };
        if !set.take_all(read, written) {
            return None;
        }
        if let Some(written) = written.filter(|_| bump_version) {
            written.bump_version();
        }
        Some(with())
    }
}

impl<'a, const N: usize> FewSet<'a, N> {
    /// Locks storages until one is not free, and says whether all were.
    #[inline(always)]
    fn take_all(&mut self, read: [Option<&'a Storage>; N], written: Option<&'a Storage>) -> bool {
        if let Some(written) = written {
            self.written = take(written.as_impl(), Mode::Exclusive, HOST_WRITE);
            if self.written.is_none() {
                return false;
            }
        }
        for (place, storage) in self.read.iter_mut().zip(read) {
            let Some(storage) = storage else { continue };
            if written.is_some_and(|written| written.is_same(storage)) {
                continue;
            }
            *place = take(storage.as_impl(), Mode::Shared, HOST_READ);
            if place.is_none() {
                return false;
            }
        }
        true
    }
}

/// Locks a storage, if it is free and none of `obstacles` is there.
#[inline(always)]
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

impl<const N: usize> Drop for FewSet<'_, N> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(written) = self.written {
            written.access.release(Mode::Exclusive);
        }
        for storage in self.read.into_iter().flatten() {
            storage.access.release(Mode::Shared);
        }
    }
}
