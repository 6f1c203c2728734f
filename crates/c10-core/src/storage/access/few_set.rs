//! [`Access::with_few`]: access to few storages, for operators that write to new memory or to one storage alone.

use super::held::Held;
use super::lock::Mode;
use super::{Access, HOST_READ, HOST_WRITE};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// What is locked, until this is dropped.
struct FewSet<'a, const N: usize> {
    /// The first is written. A storage that is read twice has two readers.
    locked: [Option<&'a StorageImpl>; N],
    _held: Held,
}

impl Access {
    /// Runs `with` under access for the host to a few storages, of which the first is written and the others are read,
    /// if none has to be waited for and nothing else is in the way; else nothing is locked, counted or run, and
    /// [`acquire_with`](Self::acquire_with) waits, clears what is in the way, or says what it is. The written one may be
    /// among those that are read. Adds one to its version if `bump_version` says so. It lends nothing: it keeps others
    /// from the bytes.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let storage = Storage::from_bytes([1, 2].into())?;
    /// let refused = Access::with_few([None, Some(&storage)], true, || storage.write().is_err());
    /// assert_eq!(refused, Some(true), "the same thread would wait for itself");
    /// let refused = Access::with_few([Some(&storage), Some(&storage)], true, || storage.read().is_err());
    /// assert_eq!((refused, storage.version()), (Some(true), 1));
    /// assert!(storage.read().is_ok());
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline(always)]
    pub fn with_few<const N: usize, R>(
        storages: [Option<&Storage>; N],
        bump_version: bool,
        with: impl FnOnce() -> R,
    ) -> Option<R> {
        // It stays where it is: what is written word by word is slow to move.
        let mut set = FewSet { locked: [None; N], _held: Held::new() };
        if !set.take_all(&storages) {
            return None;
        }
        if let Some(Some(written)) = storages.first()
            && bump_version
        {
            written.bump_version();
        }
        Some(with())
    }
}

impl<'a, const N: usize> FewSet<'a, N> {
    /// Locks storages until one is not free, and says whether all were.
    #[inline(always)]
    fn take_all(&mut self, storages: &[Option<&'a Storage>; N]) -> bool {
        for (i, (place, storage)) in self.locked.iter_mut().zip(storages).enumerate() {
            let Some(storage) = storage else { continue };
            *place = match storages[0] {
                Some(_) if i == 0 => take(storage.as_impl(), Mode::Exclusive, HOST_WRITE),
                Some(written) if written.is_same(storage) => continue,
                _ => take(storage.as_impl(), Mode::Shared, HOST_READ),
            };
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
        for (i, storage) in self.locked.iter().enumerate() {
            if let Some(storage) = storage {
                storage.access.release(if i == 0 { Mode::Exclusive } else { Mode::Shared });
            }
        }
    }
}
