//! The only import of atomics and locks.
//!
//! Order of locks, each taken while only those before it may be held:
//! 1. a device's state (`alloc::device`), or the hooks' table of events (`hooks::events`);
//! 2. an event's state (`event`);
//! 3. a driver's own lock.
//!
//! A pool of streams, and the table of other processes' memory, have a lock under which the driver is called. The addresses given out with caching off, the
//! observers and the callbacks have locks of their own, under which nothing else is locked or called; so have what
//! waits for captures and the errors met in drops.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak, atomic};
pub(crate) use std::thread_local;

use std::sync::TryLockError;
use std::{hint, thread};

/// Locks, whether or not a panic was met under the lock: critical sections leave their data whole, and the
/// invariants are checked in debug.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whoever finds a busy lock taken stays away for `2^0`, `2^1`, … `2^LONGEST` pauses of the processor,
const LONGEST: u32 = 7;
/// so often for the longest time,
const TRIES: u32 = 16;
/// then so often for as long as the system gives its processor to others, and then sleeps until it is woken.
const YIELDS: u32 = 8;

/// As [`lock`], for a lock that threads take again and again for a short time each.
///
/// // Note [Busy locks]
/// Where two threads allocate without a pause, the lock is taken whenever one looks. Who sleeps has to be woken by the
/// other with a call of the system, for a lock that it takes again at once; and who gets the lock finds all that it
/// guards in the other processor's cache. So who comes second stays away, longer each time, while the other does many
/// calls at its full speed, and nobody need wake anybody. Only a holder that does not come back in some tens of
/// microseconds, because it waits for the driver or has lost its processor, is waited for asleep.
#[inline]
pub(crate) fn lock_busy<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    try_lock(mutex).unwrap_or_else(|| wait_for(mutex))
}

#[inline]
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cold]
fn wait_for<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for round in 0..LONGEST + TRIES {
        (0..1_u32 << round.min(LONGEST)).for_each(|_| hint::spin_loop());
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
    }
    for _ in 0..YIELDS {
        thread::yield_now();
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
    }
    lock(mutex)
}
