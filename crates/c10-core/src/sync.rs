//! The only import of atomics and locks: `std`'s, or loom's under `--cfg loom`.
//!
//! Poison is ignored everywhere: what a lock guards is left whole by every critical section, since nothing
//! that may panic runs under a lock.

#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic};
