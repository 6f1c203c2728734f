//! [`PendingUse`]: work of a device that still uses a storage's host memory, and the list of such uses.
//!
//! An asynchronous copy between a device and the host returns before it is done. Whoever enqueued it
//! registers a pending use while it holds access; a host guard waits for it before it looks at the bytes. The
//! waiting calls into the device's crate, so it is never done under a lock.

use std::fmt;
use std::sync::Arc;

use super::lock::{Mode, Wait};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::storage_impl::{PENDING_READ, PENDING_WRITE, StorageImpl};
use crate::sync::lock;

/// One piece of work of a device that uses host memory. Once done it stays done; other work is another value.
///
/// # Safety
/// When [`wait`](Self::wait) returns `Ok`, or [`is_done`](Self::is_done) `Ok(true)`, the device touches the
/// memory no more.
#[expect(unsafe_code, reason = "an unsafe trait: its answer lets the host touch and free the memory")]
pub unsafe trait PendingUse: fmt::Debug + Send + Sync {
    /// Whether the work has ended.
    ///
    /// # Errors
    /// What the device's driver reports.
    fn is_done(&self) -> Result<bool>;

    /// Waits until the work has ended.
    ///
    /// # Errors
    /// What the device's driver reports.
    fn wait(&self) -> Result<()>;
}

/// One use, and whether the device reads (`Shared`) or writes (`Exclusive`) the bytes.
#[derive(Clone, Debug)]
struct Pending {
    mode: Mode,
    work: Arc<dyn PendingUse>,
}

/// The uses of one storage. Almost none has any, and its end should not have to look through a list.
#[derive(Debug, Default)]
pub(crate) struct PendingList(Option<Box<Uses>>);

#[derive(Debug, Default)]
struct Uses {
    all: Vec<Pending>,
}

/// From this number of uses on, a device operator removes those that are done before it adds another.
const PRUNE_FROM: usize = 16;

impl StorageImpl {
    /// Adds a use. The caller has access of the same mode.
    pub(super) fn defer(&self, mode: Mode, work: Arc<dyn PendingUse>) {
        let mut pending = lock(&self.pending);
        pending.0.get_or_insert_default().all.push(Pending { mode, work });
        self.set_flags(if mode == Mode::Shared { PENDING_READ } else { PENDING_WRITE });
    }

    /// Waits for what must end before the host gets access: device writes for shared access, all uses for
    /// exclusive access. Nothing may be locked.
    #[cold]
    pub(super) fn wait_for_device(&self, mode: Mode, wait: Wait) -> Result<()> {
        let mut conflicting = lock(&self.pending).copied();
        conflicting.retain(|p| mode == Mode::Exclusive || p.mode == Mode::Exclusive);
        for pending in &conflicting {
            match wait {
                Wait::Block => pending.work.wait()?,
                Wait::Try if pending.work.is_done()? => {}
                Wait::Try => {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "a device still uses the storage's memory, and this thread holds access that others \
                         may wait for",
                    ));
                }
            }
        }
        self.remove_pending(&conflicting);
        Ok(())
    }

    /// Removes the uses that are done, where there are many. Nothing may be locked.
    pub(super) fn prune_pending(&self) {
        let all = lock(&self.pending).copied();
        if all.len() < PRUNE_FROM {
            return;
        }
        let done: Vec<_> = all.into_iter().filter(|p| p.work.is_done().unwrap_or(false)).collect();
        self.remove_pending(&done);
    }

    fn remove_pending(&self, done: &[Pending]) {
        let mut pending = lock(&self.pending);
        let (gone, left): (Vec<_>, Vec<_>) =
            pending.take().into_iter().partition(|p| done.iter().any(|d| Arc::ptr_eq(&d.work, &p.work)));
        let has = |mode: Mode| left.iter().any(|p| p.mode == mode);
        let (reads, writes) = (has(Mode::Shared), has(Mode::Exclusive));
        pending.0 = (!left.is_empty()).then(|| Box::new(Uses { all: left }));
        // The flags change under the list's lock, so that they say what the list holds.
        if !reads {
            self.clear_flags(PENDING_READ);
        }
        if !writes {
            self.clear_flags(PENDING_WRITE);
        }
        drop(pending);
        // Foreign values end outside the lock.
        drop(gone);
    }
}

impl PendingList {
    fn copied(&self) -> Vec<Pending> {
        self.0.as_ref().map_or_else(Vec::new, |uses| uses.all.clone())
    }

    fn take(&mut self) -> Vec<Pending> {
        self.0.take().map_or_else(Vec::new, |uses| uses.all)
    }

    /// Waits for all, for a storage that ends; says whether the memory may be freed.
    pub(crate) fn wait_at_end(mut self) -> bool {
        let all = self.take();
        // A drop never panics, and a wait is foreign code.
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            all.iter().all(|p| p.work.wait().is_ok())
        }));
        waited.unwrap_or(false)
    }
}
