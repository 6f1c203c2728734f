//! Where a storage was made, without the feature `leak-tracking`: not remembered.

use crate::shared::Shared;
use crate::storage::storage_impl::StorageImpl;

#[derive(Debug)]
pub(in crate::storage) struct Origin;

impl Origin {
    /// How many weak handles the list of live storages has to each.
    pub(in crate::storage) const WEAK_HANDLES: usize = 0;

    #[inline]
    pub(in crate::storage) fn here() -> Self {
        Self
    }

    #[inline]
    pub(in crate::storage) fn made(&self, _storage: &Shared<StorageImpl>) {}

    pub(super) fn made_at(&self) -> Option<String> {
        None
    }
}
