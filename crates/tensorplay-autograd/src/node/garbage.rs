//! The end of nodes.
//!
//! // Note [Graphs end without recursion]
//! A node holds the nodes below it: by its edges, by the tensors that it saved, by its hooks. Were it just dropped, a
//! chain of a million nodes would be a million calls deep. So the first thing that ends on a thread runs a loop, and
//! what ends meanwhile gives it what it held. What autograd keeps with a tensor does the same, for its hooks may hold
//! tensors of other graphs. Nodes that hold others by their edges alone, as most do, have a [loop](leave) of their own.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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

    /// Whether the loop of nodes runs on this thread, and what waits for it. It has no destructor either.
    static LEAVING: Cell<bool> = const { Cell::new(false) };
    static LEFT: ManuallyDrop<RefCell<Vec<Node>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
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
            self.edges.iter_mut().filter_map(Option::take).for_each(|edge| leave(edge.node));
        } else {
            let edges = std::mem::take(&mut self.edges);
            collect(garbage.into_iter().chain([Garbage::Edges(edges)]));
        }
    }
}

/// Drops a handle. If it may be the last, it is left to the loop of nodes that runs further up on this thread's stack.
fn leave(node: Node) {
    if !node.is_sole() {
        return;
    }
    if LEAVING.replace(true) {
        LEFT.with(|left| left.borrow_mut().push(node));
        return;
    }
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            LEAVING.set(false);
        }
    }
    let _end = End;
    let mut next = Some(node);
    while let Some(node) = next {
        drop(node);
        next = LEFT.with(|left| left.borrow_mut().pop());
    }
    LEFT.with(|left| left.take());
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
