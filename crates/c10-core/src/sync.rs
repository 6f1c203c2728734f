//! The only import of atomics and locks: `std`'s, or loom's under `--cfg loom`.
//!
//! Poison is ignored everywhere: what a lock guards is left whole by every critical section, since nothing
//! that may panic runs under a lock.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread_local,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread_local,
};

/// For `static`s, under loom too: loom's types are not made in constants, and belong to one run of a model.
pub(crate) mod process_wide {
    #[cfg(feature = "leak-tracking")]
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic;
}

/// Locks `mutex`, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits on `condvar`, poisoned or not.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}
