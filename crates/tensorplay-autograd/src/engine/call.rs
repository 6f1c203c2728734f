//! [`Call`]: which backward call a thread works for, and what is to be done at its end.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aten::{Error, Result};

type Callback = Box<dyn FnOnce() -> Result<()> + Send>;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Call>>> = const { RefCell::new(None) };
    static LEVELS: Cell<usize> = const { Cell::new(0) };
}

/// One backward call.
pub(super) struct Call {
    id: u64,
    /// How many calls it is inside of.
    depth: u64,
    callbacks: Mutex<VecDeque<Callback>>,
}

/// The backward call that this thread works for; 0 outside of one.
pub(crate) fn current_task_id() -> u64 {
    CURRENT.with_borrow(|call| call.as_ref().map_or(0, |call| call.id))
}

/// Calls `f` when the backward call that this thread works for is done (`queue_callback`). It is not called when
/// that fails.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) outside of a backward call.
pub fn queue_callback(f: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    match current() {
        Some(call) => {
            call.callbacks().push_back(Box::new(f));
            Ok(())
        }
        None => Err(Error::invalid_argument("Final callbacks can only be installed during backward pass.")),
    }
}

pub(super) fn current() -> Option<Arc<Call>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Call {
    /// A call inside of the one that this thread works for, if there is one.
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let depth = CURRENT.with_borrow(|outer| outer.as_ref().map_or(0, |outer| outer.depth + 1));
        Arc::new(Self { id: NEXT.fetch_add(1, Ordering::Relaxed), depth, callbacks: Mutex::default() })
    }

    pub(super) fn depth(&self) -> u64 {
        self.depth
    }

    /// Whether this thread works for it.
    pub(super) fn is_current(&self) -> bool {
        current_task_id() == self.id
    }

    /// Makes it the call that this thread works for, until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Entered {
        Entered(CURRENT.replace(Some(Arc::clone(self))))
    }

    /// Does what was queued, and what that queues.
    pub(super) fn finish(&self) -> Result<()> {
        loop {
            let next = self.callbacks().pop_front();
            match next {
                Some(callback) => callback()?,
                None => return Ok(()),
            }
        }
    }

    fn callbacks(&self) -> std::sync::MutexGuard<'_, VecDeque<Callback>> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call before.
pub(super) struct Entered(Option<Arc<Call>>);

impl Drop for Entered {
    fn drop(&mut self) {
        drop(CURRENT.replace(self.0.take()));
    }
}

/// A backward call on this thread's stack.
pub(super) struct Level(());

impl Level {
    /// How many there are.
    pub(super) fn count() -> usize {
        LEVELS.get()
    }

    pub(super) fn enter() -> Self {
        LEVELS.set(LEVELS.get() + 1);
        Self(())
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}
