//! Where a storage was made, and the list of the live ones: the feature `leak-tracking`.

use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::PoisonError;

use super::StorageDump;
use crate::shared::{Shared, WeakShared};
use crate::storage::Storage;
use crate::storage::storage_impl::StorageImpl;
use crate::sync::global::Mutex;
use crate::sync::global::atomic::{AtomicBool, AtomicU64, Ordering};

static LIVE: Mutex<BTreeMap<u64, WeakShared<StorageImpl>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
static BACKTRACES: AtomicBool = AtomicBool::new(false);

/// Captures a backtrace of each storage that is made from now on, or no more. It is off at first: it costs
/// microseconds a storage.
pub fn capture_backtraces(capture: bool) {
    BACKTRACES.store(capture, Ordering::Relaxed);
}

/// All live storages, the oldest first.
pub fn live_storages() -> Vec<StorageDump> {
    // Handles are upgraded under the lock and dropped after it: the last one frees memory.
    let live: Vec<_> = {
        let list = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        list.values().filter_map(WeakShared::upgrade).map(|handle| Storage(handle.into())).collect()
    };
    live.iter()
        .map(|storage| {
            let mut dump = storage.dump();
            // Not counting the handle in `live`.
            dump.use_count -= 1;
            dump
        })
        .collect()
}

/// Where a storage was made. It takes the storage off the list when it is dropped.
#[derive(Debug)]
pub(in crate::storage) struct Origin {
    id: u64,
    place: &'static Location<'static>,
    backtrace: Option<Backtrace>,
}

impl Origin {
    /// How many weak handles the list of live storages has to each.
    pub(in crate::storage) const WEAK_HANDLES: usize = 1;

    #[track_caller]
    pub(in crate::storage) fn here() -> Self {
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            place: Location::caller(),
            backtrace: BACKTRACES.load(Ordering::Relaxed).then(Backtrace::force_capture),
        }
    }

    pub(in crate::storage) fn made(&self, storage: &Shared<StorageImpl>) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(self.id, Shared::downgrade(storage));
    }

    pub(super) fn made_at(&self) -> Option<String> {
        let place = self.place.to_string();
        Some(match &self.backtrace {
            Some(backtrace) => format!("{place}\n{backtrace}"),
            None => place,
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let removed = LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        drop(removed);
    }
}
