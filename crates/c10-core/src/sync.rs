//! The only import of atomics and locks: `std`'s, or loom's under `--cfg loom`.
//!
//! Poison is ignored everywhere: what a lock guards is left whole by every critical section, since nothing
//! that may panic runs under a lock.

#![allow(unused_imports, reason = "which of them a build needs depends on its features and on loom")]

#[cfg(loom)]
pub(crate) use loom::{
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread_local,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread_local,
};

/// What process-wide statics are made of: `std`'s types even under loom, whose types cannot be made in a
/// constant and must not outlive one run of a model.
pub(crate) mod global {
    pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, atomic};
}

/// Locks, whatever a panic elsewhere left.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits, whatever a panic elsewhere left.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}
