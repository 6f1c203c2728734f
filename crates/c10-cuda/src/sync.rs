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

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak, atomic};

/// Locks, whether or not a panic was met under the lock: critical sections leave their data whole, and the
/// invariants are checked in debug.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
