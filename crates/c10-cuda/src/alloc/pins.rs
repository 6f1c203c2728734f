//! [`Pinned`]: a pool that stays while a call is under way for which the lock is given up.

use super::device::Locked;

/// A pool with a pin, until this is dropped, which is also while a program's callback that panicked unwinds.
pub(crate) struct Pinned<'p, 'a> {
    pub(crate) locked: &'p mut Locked<'a>,
    slot: u32,
}

impl<'a> Locked<'a> {
    /// Keeps a pool for a while. Whether it [is over](Self::end_if_over) is for the caller to ask behind it.
    pub(crate) fn pin(&mut self, slot: u32) -> Pinned<'_, 'a> {
        self.pools.owner_mut(slot).pins += 1;
        Pinned { locked: self, slot }
    }
}

impl Drop for Pinned<'_, '_> {
    fn drop(&mut self) {
        self.locked.lock_again();
        self.locked.pools.owner_mut(self.slot).pins -= 1;
    }
}
