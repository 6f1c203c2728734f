//! The books of what the driver has given out and not taken back: a table for each kind of handle.
//!
//! A call uses a handle within [`Table::with`], and ends it within [`Table::end`]: neither happens while the other
//! does, so that no call works with what another thread has ended. Calls that use one handle go on side by side, but
//! for [`Table::alone`]: CUDA asks for that with graphs.
//!
//! Locks, each taken while only those before it are held: that of captures, a handle's, a table's.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use c10_core::DeviceIndex;

use crate::driver::Status;
use crate::sync::{Arc, Mutex, lock};

/// What is live of one kind, by the driver's value.
#[derive(Debug)]
pub(super) struct Table<T>(Mutex<HashMap<u64, Arc<Entry<T>>>>);

/// One handle.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) what: T,
    /// Whether it has not been ended. Held for reading by calls that use it, for writing by the one that ends it.
    live: RwLock<bool>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Entry<T> {
    /// Calls `call` while the handle is live and stays so.
    pub(super) fn with<R>(&self, call: impl FnOnce(&T) -> Result<R, Status>) -> Result<R, Status> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        if *live { call(&self.what) } else { Err(Status::InvalidHandle) }
    }

    /// The same while nobody else uses it.
    fn alone<R>(&self, call: impl FnOnce(&T) -> Result<R, Status>) -> Result<R, Status> {
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if *live { call(&self.what) } else { Err(Status::InvalidHandle) }
    }
}

impl<T> Table<T> {
    /// Writes down what the driver gave. A value that was ended a moment ago may be given anew.
    pub(super) fn insert(&self, raw: u64, what: T) {
        lock(&self.0).insert(raw, Arc::new(Entry { what, live: RwLock::new(true) }));
    }

    /// The handle of that value, written down where it is not yet.
    pub(super) fn get_or_insert_with(&self, raw: u64, new: impl FnOnce() -> T) -> Arc<Entry<T>> {
        let mut table = lock(&self.0);
        let entry = || Arc::new(Entry { what: new(), live: RwLock::new(true) });
        Arc::clone(table.entry(raw).or_insert_with(entry))
    }

    /// The handle of that value, if one is live.
    pub(super) fn get(&self, raw: u64) -> Result<Arc<Entry<T>>, Status> {
        lock(&self.0).get(&raw).cloned().ok_or(Status::InvalidHandle)
    }

    pub(super) fn with<R>(&self, raw: u64, call: impl FnOnce(&T) -> Result<R, Status>) -> Result<R, Status> {
        self.get(raw)?.with(call)
    }

    pub(super) fn alone<R>(&self, raw: u64, call: impl FnOnce(&T) -> Result<R, Status>) -> Result<R, Status> {
        self.get(raw)?.alone(call)
    }

    /// Ends a handle by `call`, once nobody uses it; it lives on where that fails.
    pub(super) fn end(&self, raw: u64, call: impl FnOnce(&T) -> Result<(), Status>) -> Result<(), Status> {
        let entry = self.get(raw)?;
        let mut live = entry.live.write().unwrap_or_else(PoisonError::into_inner);
        if !*live {
            return Err(Status::InvalidHandle);
        }
        call(&entry.what)?;
        *live = false;
        let mut table = lock(&self.0);
        if table.get(&raw).is_some_and(|now| Arc::ptr_eq(now, &entry)) {
            table.remove(&raw);
        }
        Ok(())
    }
}

/// Whether what a book has is of the device that a handle says.
pub(super) fn same(known: DeviceIndex, device: DeviceIndex) -> Result<(), Status> {
    if known == device { Ok(()) } else { Err(Status::InvalidHandle) }
}
