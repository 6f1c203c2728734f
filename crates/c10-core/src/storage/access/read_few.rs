//! [`ReadSet`]: shared access to few storages, for operators that write to new memory alone.

use super::few::INLINE;
use super::held::Held;
use super::lock::Mode;
use super::{Access, HOST_READ};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;

/// Shared access to a few storages, by [`Access::try_read`], until the set is dropped. It lends nothing: it keeps
/// others from writing.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<c10_core::storage::ReadSet<'static>>();
/// ```
#[must_use = "access ends as soon as the set is dropped"]
#[derive(Debug)]
pub struct ReadSet<'a> {
    /// A storage that is given twice has two readers.
    locked: [Option<&'a StorageImpl>; INLINE],
    _held: Held,
}

impl Access {
    /// Shared access for the host to at most four storages, if none has to be waited for and nothing else is in the
    /// way; else nothing is locked, and [`acquire`](Self::acquire) waits, clears what is in the way, or says what it
    /// is.
    ///
    /// ```
    /// # use c10_core::storage::{Access, Storage};
    /// let storage = Storage::from_bytes([1, 2].into())?;
    /// let set = Access::try_read([&storage]);
    /// assert!(set.is_some());
    /// assert!(storage.write().is_err(), "the same thread would wait for itself");
    /// # drop(set);
    /// assert!(storage.write().is_ok());
    /// # Ok::<(), c10_core::Error>(())
    /// ```
    #[inline]
    pub fn try_read<'a>(storages: impl IntoIterator<Item = &'a Storage>) -> Option<ReadSet<'a>> {
        let mut set = ReadSet { locked: [None; INLINE], _held: Held::new() };
        for (i, storage) in storages.into_iter().enumerate() {
            let slot = set.locked.get_mut(i)?;
            let storage = storage.as_impl();
            if !storage.access.try_acquire(Mode::Shared) {
                return None;
            }
            *slot = Some(storage);
            if storage.has(HOST_READ) {
                return None;
            }
        }
        Some(set)
    }
}

impl Drop for ReadSet<'_> {
    #[inline]
    fn drop(&mut self) {
        self.locked.iter().flatten().for_each(|storage| storage.access.release(Mode::Shared));
    }
}
