//! [`FewSet`]: access to few storages, for operators that write to new memory or to one storage alone.

use super::few::INLINE;
use super::held::Held;
use super::lock::Mode;
use super::{Access, HOST_READ, HOST_WRITE};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// Access to a few storages, by [`Access::try_few`], until the set is dropped. It lends nothing: it keeps others from
/// the bytes.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_core::storage::FewSet<'static>>();
/// ```
#[must_use = "access ends as soon as the set is dropped"]
#[derive(Debug)]
pub struct FewSet<'a> {
    written: Option<&'a StorageImpl>,
    /// A storage that is given twice has two readers.
    read: [Option<&'a StorageImpl>; INLINE],
    _held: Held,
}

impl Access {
    /// Access for the host to at most four storages that are read and one that is written, which may be among them, if
    /// none has to be waited for and nothing else is in the way; else nothing is locked or counted, and
    /// [`acquire_with`](Self::acquire_with) waits, clears what is in the way, or says what it is. Adds one to the
    /// version of the written one if `bump_version` says so.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let storage = Storage::from_bytes([1, 2].into())?;
    /// let set = Access::try_few([&storage], None, true);
    /// assert!(set.is_some());
    /// assert!(storage.write().is_err(), "the same thread would wait for itself");
    /// drop(set);
    /// let set = Access::try_few([&storage], Some(&storage), true);
    /// assert!(set.is_some() && storage.read().is_err() && storage.version() == 1);
    /// # drop(set);
    /// # assert!(storage.read().is_ok());
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline]
    pub fn try_few<'a>(
        read: impl IntoIterator<Item = &'a Storage>,
        written: Option<&'a Storage>,
        bump_version: bool,
    ) -> Option<FewSet<'a>> {
        let mut set = FewSet { written: None, read: [None; INLINE], _held: Held::new() };
        if let Some(written) = written.map(Storage::as_impl) {
            set.written = Some(take(written, Mode::Exclusive, HOST_WRITE)?);
        }
        let others = read.into_iter().filter(|read| !written.is_some_and(|written| written.is_same(read)));
        for (i, storage) in others.enumerate() {
            // The place first: what is locked must have one.
            let place = set.read.get_mut(i)?;
            *place = Some(take(storage.as_impl(), Mode::Shared, HOST_READ)?);
        }
        if let Some(written) = set.written.filter(|_| bump_version) {
            written.bump_version();
        }
        Some(set)
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
