//! [`Ready`]: a node that has all its gradients, and its place in the queue.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};

use super::buffer::InputBuffer;
use crate::node::Node;

/// The newest node is the greatest; of accumulators, which are all as new, the one that was ready first. `N` holds the
/// node: a handle, or a reference where the whole graph is held.
#[derive(Debug)]
pub(super) struct Ready<N> {
    pub(super) node: N,
    pub(super) turn: Turn,
}

/// What a node runs with.
#[derive(Debug)]
pub(super) struct Turn {
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

impl<N: Borrow<Node>> Ready<N> {
    fn key(&self) -> (u64, Reverse<u64>) {
        (self.node.borrow().sequence(), Reverse(self.turn.order))
    }
}

impl<N: Borrow<Node>> PartialEq for Ready<N> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<N: Borrow<Node>> Eq for Ready<N> {}

impl<N: Borrow<Node>> PartialOrd for Ready<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<N: Borrow<Node>> Ord for Ready<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
