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
use smallvec::SmallVec;

use super::{Apply, Body, Edges, Node, NodeCell};
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
    fn drop(&mut self) {
        let mut garbage = Vec::new();
        match &mut self.body {
            Body::Formula(body) => body.take_garbage(&mut garbage),
            Body::Other(body) => body.take_garbage(&mut garbage),
        }
        if self.hooks.get().is_some()
            && let Some(hooks) = self.hooks.take()
        {
            garbage.push(Garbage::Any(hooks));
        }
        if let Some(origin) = self.origin.take() {
            garbage.push(Garbage::Any(origin));
        }
        if garbage.is_empty() {
            leave(&mut self.edges);
        } else {
            let edges = std::mem::take(&mut self.edges);
            collect(garbage.into_iter().chain([Garbage::Edges(edges)]));
        }
    }
}

/// Drops edges, and what ends with them.
fn leave(edges: &mut Edges) {
    // It grows where a graph branches.
    let mut ending: SmallVec<[Node; 4]> = SmallVec::new();
    let take = |edges: &mut Edges, ending: &mut SmallVec<_>| {
        let nodes = edges.iter_mut().filter_map(|edge| Some(edge.take()?.node));
        ending.extend(nodes.filter(Node::is_sole));
    };
    take(edges, &mut ending);
    while let Some(mut node) = ending.pop() {
        if let Some(cell) = Shared::get_mut(&mut node.0) {
            take(&mut cell.edges, &mut ending);
        }
        drop(node);
    }
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
