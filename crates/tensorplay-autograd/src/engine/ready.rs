//! [`Ready`]: a node that has all its gradients, and its place in the queue.

use std::cmp::{Ordering, Reverse};

use super::buffer::InputBuffer;
use crate::node::Node;

/// The newest node is the greatest; of accumulators, which are all as new, the one that was ready first.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) node: Node,
    pub(super) buffer: InputBuffer,
    /// Counts the nodes of a task as they become ready.
    pub(super) order: u64,
    pub(super) role: Role,
}

/// What a call wants of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    /// It runs.
    pub(super) is_needed: bool,
    /// Gradients that it takes are results.
    pub(super) is_captured: bool,
}

impl Ready {
    fn key(&self) -> (u64, Reverse<u64>) {
        (self.node.sequence(), Reverse(self.order))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
