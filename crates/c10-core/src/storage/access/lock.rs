//! [`AccessLock`]: the word behind shared and exclusive access, and where threads park.
//!
//! Who may touch what: `state` is changed by anybody, by compare-and-swap. `PARKED` is set by a thread that
//! holds `parked` and found the lock taken, right before it waits; it is cleared under `parked` too, by the
//! thread that wakes all. So a release that leaves the lock free either sees `PARKED` and wakes, or came
//! before the swap that would have set it, which then fails and looks again: no wake-up is lost.
//!
//! Readers pass a waiting writer: a thread that already reads can then always read more, whoever waits.
//! A writer may so wait for as long as readers keep overlapping.

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex, lock, wait};

/// A thread holds exclusive access.
const EXCLUSIVE: u32 = 1 << 31;
/// At least one thread may be parked.
const PARKED: u32 = 1 << 30;
/// The number of threads with shared access.
const READERS: u32 = PARKED - 1;

/// How bytes are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// What to do when the lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Block,
    Try,
}

/// Shared or exclusive access, uncontended by one atomic operation to take and one to release.
#[derive(Debug, Default)]
pub(crate) struct AccessLock {
    state: AtomicU32,
    parked: Mutex<()>,
    unparked: Condvar,
}

impl AccessLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when it is taken and `wait` says to try, or when it has all the readers that it can
    /// count, which takes leaked guards.
    #[inline]
    pub(crate) fn acquire(&self, mode: Mode, wait: Wait) -> Result<()> {
        if self.try_acquire(mode) { Ok(()) } else { self.contended(mode, wait) }
    }

    /// Takes the lock if it is free, and says whether it was.
    #[inline]
    pub(crate) fn try_acquire(&self, mode: Mode) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while let Some(taken) = taken(state, mode) {
            match self.state.compare_exchange_weak(state, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[cold]
    fn contended(&self, mode: Mode, wait: Wait) -> Result<()> {
        match wait {
            Wait::Block => self.park(mode),
            Wait::Try => {
                Err(busy("the storage is in use, and this thread holds access that others may wait for"))
            }
        }
    }

    /// Gives the lock back. The caller has taken it in this mode.
    #[inline]
    pub(crate) fn release(&self, mode: Mode) {
        let (before, free) = match mode {
            Mode::Shared => {
                let before = self.state.fetch_sub(1, Ordering::Release);
                (before, before & READERS == 1)
            }
            Mode::Exclusive => (self.state.fetch_and(!EXCLUSIVE, Ordering::Release), true),
        };
        // Hardly ever is anybody parked.
        if before & PARKED != 0 && free {
            self.unpark();
        }
    }

    #[cold]
    fn park(&self, mode: Mode) -> Result<()> {
        let mut parked = lock(&self.parked);
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let next = taken(state, mode);
            if next.is_none() && state & EXCLUSIVE == 0 && mode == Mode::Shared {
                return Err(busy("the storage has as many readers as can be counted"));
            }
            let announced = next.unwrap_or(state | PARKED);
            if announced != state
                && self
                    .state
                    .compare_exchange(state, announced, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            if next.is_some() {
                return Ok(());
            }
            parked = wait(&self.unparked, parked);
        }
    }

    #[cold]
    fn unpark(&self) {
        let parked = lock(&self.parked);
        self.state.fetch_and(!PARKED, Ordering::Relaxed);
        self.unparked.notify_all();
        drop(parked);
    }
}

/// The state after taking the lock, or `None` when it must be waited for.
#[inline]
fn taken(state: u32, mode: Mode) -> Option<u32> {
    match mode {
        // With `EXCLUSIVE`, the highest bit, it would be more.
        Mode::Shared if state & !PARKED < READERS => Some(state + 1),
        Mode::Exclusive if state & (EXCLUSIVE | READERS) == 0 => Some(state | EXCLUSIVE),
        _ => None,
    }
}

#[cold]
fn busy(why: &str) -> Error {
    Error::new(ErrorKind::Busy, why)
}
