//! Which gradients of the node that runs lead to nothing that the call wants (`task_should_compute_output`).

use std::cell::Cell;

use crate::node::Node;

thread_local! {
    /// The address of the node that runs, and a bit for each of its edges.
    static RUNNING: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// A bit for each edge of a node whose gradient need not be computed: of the first 64.
#[inline]
pub(crate) fn unwanted(node: &Node) -> u64 {
    let (address, edges) = RUNNING.get();
    if edges != 0 && address == node.address() { edges } else { 0 }
}

/// Says so of `node`, until the guard is dropped.
pub(super) fn enter(node: &Node, edges: u64) -> Entered {
    Entered(RUNNING.replace((node.address(), edges)))
}

/// Says so of no node, until the guard is dropped: for a call inside of another, which may run the same node and want
/// more of it.
pub(super) fn enter_none() -> Entered {
    Entered(RUNNING.replace((0, 0)))
}

/// The node before.
pub(super) struct Entered((usize, u64));

impl Drop for Entered {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}
