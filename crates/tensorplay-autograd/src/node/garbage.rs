//! The end of nodes.
//!
//! // Note [Graphs end without recursion]
//! A node holds the nodes below it: by its edges, by the tensors that it saved, by its hooks. Were it just dropped, a
//! chain of a million nodes would be a million calls deep. So the first thing that ends on a thread runs a loop, and
//! what ends meanwhile gives it what it held. What autograd keeps with a tensor does the same, for its hooks may hold
//! tensors of other graphs. Nodes that hold others by their edges alone, as most do, have a [loop](leave) of their own,
//! which takes the edges of a node before it ends.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use c10_core::shared::Shared;

use super::{Body, Edges, Node, NodeCell};
use crate::saved::SavedList;

/// What may hold the last handle on a node.
#[expect(dead_code, reason = "it is held to be dropped")]
pub(crate) enum Garbage {
    Edges(Edges),
    Saved(SavedList),
    Any(Box<dyn Any + Send>),
}

thread_local! {
    /// What waits for the loop of this thread, if it runs one. It has no destructor, so that it is there until the
    /// thread's very end: graphs may end in destructors of other locals.
    static WAITING: ManuallyDrop<RefCell<Option<Vec<Garbage>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

impl Drop for NodeCell {
    #[inline]
    fn drop(&mut self) {
        let holds_more = match &mut self.body {
            Body::Formula(body) => body.may_hold_nodes(),
            Body::Other(_) => true,
        };
        if holds_more || self.hooks.get().is_some() || self.origin.is_some() {
            self.leave_all();
        } else if self.edges.iter().any(Option::is_some) {
            leave(&mut self.edges);
        }
    }
}

impl NodeCell {
    /// Leaves all that may hold nodes to the loop.
    #[inline(never)]
    fn leave_all(&mut self) {
        let mut garbage = Vec::new();
        match &mut self.body {
            Body::Formula(body) => garbage.push(Garbage::Saved(body.take_saved())),
            Body::Other(body) => body.take_garbage(&mut garbage),
        }
        garbage.extend(self.hooks.take().map(|hooks| Garbage::Any(hooks)));
        garbage.extend(self.origin.take().map(|origin| Garbage::Any(origin)));
        garbage.push(Garbage::Edges(std::mem::take(&mut self.edges)));
        collect(garbage);
    }
}

/// Drops edges, and what ends with them.
fn leave(edges: &mut Edges) {
    // It is filled where a graph branches.
    let mut rest = Vec::new();
    let mut next = take_last(edges, &mut rest);
    while let Some(mut node) = next {
        next = Shared::get_mut(&mut node.0).and_then(|cell| take_last(&mut cell.edges, &mut rest));
        drop(node);
        next = next.or_else(|| rest.pop());
    }
}

/// Takes out the nodes that end with these edges: one of them, and the others are added to `rest`.
#[inline]
fn take_last(edges: &mut Edges, rest: &mut Vec<Node>) -> Option<Node> {
    let mut last = None;
    for edge in edges.iter_mut() {
        let node = edge.take().map(|edge| edge.node).filter(Node::is_sole);
        if node.is_some() {
            rest.extend(std::mem::replace(&mut last, node));
        }
    }
    last
}

/// Drops it now, or leaves it to the loop that runs further up on this thread's stack.
pub(crate) fn collect(garbage: impl IntoIterator<Item = Garbage>) {
    let runs_elsewhere = WAITING.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match &mut *waiting {
            Some(list) => {
                list.extend(garbage);
                true
            }
            None => {
                *waiting = Some(garbage.into_iter().collect());
                false
            }
        }
    });
    if runs_elsewhere {
        return;
    }
    let next = || WAITING.with(|waiting| waiting.borrow_mut().as_mut().and_then(Vec::pop));
    let mut panic = None;
    while let Some(item) = next() {
        // What users' hooks hold may panic as it ends: the loop goes on, and the thread is left as it was.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(item))) {
            panic = Some(payload);
        }
    }
    WAITING.with(|waiting| *waiting.borrow_mut() = None);
    if let Some(payload) = panic
        && !std::thread::panicking()
    {
        resume_unwind(payload);
    }
}
