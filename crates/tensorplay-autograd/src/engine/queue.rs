//! [`Queue`]: the nodes that wait for one thread (`ReadyQueue`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::ready::Ready;
use super::shared::Shared;
use crate::node::Node;

/// Nodes of all calls, those of inner calls first, then the newest.
#[derive(Default)]
pub(super) struct Queue {
    heap: Mutex<BinaryHeap<Item>>,
    changed: Condvar,
}

/// A node, and the call that it runs for.
pub(super) struct Item {
    pub(super) ready: Ready<Node>,
    pub(super) task: Arc<Shared>,
}

impl Queue {
    pub(super) fn push(&self, item: Item) {
        self.heap().push(item);
        self.changed.notify_one();
    }

    /// The next node; waits for one until `is_done`, which is asked again at each [`wake`](Self::wake).
    pub(super) fn pop_until(&self, is_done: impl Fn() -> bool) -> Option<Item> {
        let mut heap = self.heap();
        loop {
            if is_done() {
                return None;
            }
            match heap.pop() {
                Some(item) => return Some(item),
                None => heap = self.changed.wait(heap).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Has who waits look again.
    pub(super) fn wake(&self) {
        // Under the lock: who has just found that it is not done is waiting by then.
        let heap = self.heap();
        self.changed.notify_all();
        drop(heap);
    }

    fn heap(&self) -> MutexGuard<'_, BinaryHeap<Item>> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        self.task.depth().cmp(&other.task.depth()).then_with(|| self.ready.cmp(&other.ready))
    }
}
