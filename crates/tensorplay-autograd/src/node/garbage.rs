//! The end of nodes.
//!
//! // Note [Graphs end without recursion]
//! A node holds the nodes below it: by its edges, by the tensors that it saved, by its hooks. Were it just dropped, a
//! chain of a million nodes would be a million calls deep. So the first thing that ends on a thread runs a loop, and
//! what ends meanwhile gives it what it held. What autograd keeps with a tensor does the same, for its hooks may hold
//! tensors of other graphs.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Apply, Edge, NodeCell};
use crate::saved::SavedList;

/// What may hold the last handle on a node.
#[expect(dead_code, reason = "it is held to be dropped")]
pub(crate) enum Garbage {
    Edges(SmallVec<[Option<Edge>; 2]>),
    Saved(SavedList),
    Any(Box<dyn Any + Send>),
}

thread_local! {
    /// What waits for the loop of this thread, if it runs one. It has no destructor, so that it is there until the
    /// thread's very end: graphs may end in destructors of other locals.
    static WAITING: ManuallyDrop<RefCell<Option<Vec<Garbage>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

impl<B: Apply + ?Sized> Drop for NodeCell<B> {
    fn drop(&mut self) {
        let edges = std::mem::take(&mut self.header.edges);
        let mut garbage = Vec::new();
        self.body.take_garbage(&mut garbage);
        if let Some(hooks) = self.header.hooks.take() {
            garbage.push(Garbage::Any(hooks));
        }
        if let Some(origin) = self.header.origin.take() {
            garbage.push(Garbage::Any(origin));
        }
        // Several edges may lead to one node, and be its last handles together.
        let may_be_last = |edge: &Edge| Arc::strong_count(&edge.node.0) <= edges.len();
        match garbage.is_empty() {
            true if edges.iter().flatten().any(may_be_last) => collect([Garbage::Edges(edges)]),
            true => {}
            false => collect(garbage.into_iter().chain([Garbage::Edges(edges)])),
        }
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
