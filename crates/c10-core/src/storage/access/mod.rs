//! Access to the bytes of storages: who touches them holds shared or exclusive access, for as long as it
//! does.
//!
//! PyTorch lets two threads write one storage at once. In Rust that would make every in-place operator
//! unsound, so that each storage has an *access lock*:
//!
//! - [`Storage::read`](super::Storage::read) and [`write`](super::Storage::write) lock one storage,
//!   [`Access::acquire`] any number of them.
//! - A thread that holds no guard waits. One that holds any only tries, and meets
//!   [`ErrorKind::Busy`](crate::ErrorKind::Busy) where it would have to wait; so no two threads wait for each
//!   other (Note \[Who may wait\], in `held.rs`). A guard that is leaked counts as held for ever.
//! - Readers may pass a waiting writer.
//! - Nothing runs under the lock but the holder's own code: what stands in the way (a copy-on-write layer, a
//!   device's pending work) is cleared before the lock is taken, looked for again when it is, and if it came
//!   back in between, the lock is given back and all begins anew.

mod few;
mod few_set;
mod guard;
mod held;
mod lock;
mod pending;
mod set;
mod view;

pub use guard::{ReadGuard, WriteGuard};
pub use pending::PendingUse;
pub use set::{Access, AccessOptions, AccessSet};

pub(crate) use held::may_wait;
pub(crate) use lock::{AccessLock, Mode, Wait};
pub(crate) use pending::PendingList;
pub(crate) use view::unique;

use super::storage_impl::{COW, PENDING_READ, PENDING_WRITE, READ_ONLY, RELEASED, StorageImpl};
use crate::error::{Error, ErrorKind, Result};

/// What must not be there for the host to read the bytes.
pub(super) const HOST_READ: u32 = RELEASED | PENDING_WRITE;
/// What must not be there for the host to move or free the memory.
pub(super) const HOST_MOVE: u32 = HOST_READ | PENDING_READ;
/// What must not be there for the host to write the bytes.
pub(super) const HOST_WRITE: u32 = HOST_MOVE | READ_ONLY | COW;

/// A storage, locked until this is dropped. It does not count as held: see [`held`].
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    storage: &'a StorageImpl,
    mode: Mode,
}

impl<'a> Locked<'a> {
    /// Locks `storage` with none of `obstacles` there.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when this thread may not wait; else what clearing an obstacle reports.
    pub(crate) fn take(storage: &'a StorageImpl, mode: Mode, obstacles: u32) -> Result<Self> {
        let wait = may_wait();
        loop {
            refuse(storage, obstacles)?;
            clear(storage, mode, obstacles, wait)?;
            storage.access.acquire(mode, wait)?;
            let locked = Self { storage, mode };
            if !storage.has(obstacles) {
                return Ok(locked);
            }
        }
    }

    pub(crate) fn storage(&self) -> &'a StorageImpl {
        self.storage
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.storage.access.release(self.mode);
    }
}

/// Fails on what cannot be cleared. It has no effect.
#[inline]
fn refuse(storage: &StorageImpl, obstacles: u32) -> Result<()> {
    let found = storage.flags() & obstacles & (RELEASED | READ_ONLY);
    if found == 0 {
        return Ok(());
    }
    Err(if found & RELEASED != 0 { storage.released_error() } else { read_only() })
}

/// Clears what can be cleared. Nothing may be locked.
#[inline]
fn clear(storage: &StorageImpl, mode: Mode, obstacles: u32, wait: Wait) -> Result<()> {
    let found = storage.flags() & obstacles;
    if found & COW != 0 {
        storage.materialize()?;
    }
    if found & (PENDING_READ | PENDING_WRITE) != 0 {
        storage.wait_for_device(mode, wait)?;
    }
    Ok(())
}

#[cold]
fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the storage's memory is read-only and cannot be written")
}
