//! How many guards the calling thread holds, which decides whether it may wait for another.
//!
//! // Note [Who may wait]
//! A thread that holds a guard and waits for a second one could wait for a thread that waits for the first.
//! So a thread that holds any only *tries*: contention is `ErrorKind::Busy`. A thread that holds none waits,
//! and where it needs several storages it takes them in the order of their addresses. Then whoever waits
//! while holding something waits for a higher address than all it holds, or for a thread that never waits:
//! there is no circle.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::MutexGuard;

use super::lock::Wait;
use crate::sync::thread_local;

#[cfg(loom)]
thread_local! {
    static HELD: Cell<usize> = Cell::new(0);
}
#[cfg(not(loom))]
thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The share of one guard in its thread's count. Not `Send`, so that the count it takes back is its own; a
/// guard can still be looked at from other threads.
#[derive(Debug)]
pub(super) struct Held(PhantomData<MutexGuard<'static, ()>>);

impl Held {
    #[inline]
    pub(super) fn new() -> Self {
        HELD.with(|held| held.set(held.get() + 1));
        Self(PhantomData)
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Whether this thread may wait for access now. See Note [Who may wait].
#[inline]
pub(crate) fn may_wait() -> Wait {
    if HELD.with(Cell::get) == 0 { Wait::Block } else { Wait::Try }
}
