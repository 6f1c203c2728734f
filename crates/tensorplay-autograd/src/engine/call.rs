//! [`Call`]: which backward call a thread works for, and what is to be done at its end.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aten::{Error, Result};

use crate::node::Node;

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
    /// The addresses of the nodes that run, or whose gradients are results, if anybody waits for some.
    nodes: OnceLock<HashSet<usize>>,
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

/// Whether the gradients of a node are computed in the backward call that this thread works for. Calls that began
/// when nobody waited do not know.
pub(crate) fn runs_in_current(node: &Node) -> bool {
    let call = current();
    let nodes = call.as_ref().and_then(|call| call.nodes.get());
    nodes.is_some_and(|nodes| nodes.contains(&node.address()))
}

pub(super) fn current() -> Option<Arc<Call>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Call {
    /// A call inside of the one that this thread works for, if there is one.
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let depth = CURRENT.with_borrow(|outer| outer.as_ref().map_or(0, |outer| outer.depth + 1));
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            depth,
            callbacks: Mutex::default(),
            nodes: OnceLock::new(),
        })
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

    /// Says which nodes run in it.
    pub(super) fn know_nodes(&self, nodes: impl Iterator<Item = usize>) {
        self.nodes.get_or_init(|| nodes.collect());
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
