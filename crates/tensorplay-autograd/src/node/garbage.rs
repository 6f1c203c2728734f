//! The end of nodes.
//!
//! // Note [Graphs end without recursion]
//! A node holds the nodes below it, by its edges and by the tensors that it saved. Were it just dropped, a chain of a
//! million nodes would be a million calls deep. So the first node that ends on a thread runs a loop, and nodes that
//! end meanwhile give it what they held.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Apply, Edge, NodeCell};
use crate::saved::Saved;

/// What may hold the last handle on a node.
#[expect(dead_code, reason = "it is held to be dropped")]
pub(crate) enum Garbage {
    Edges(SmallVec<[Option<Edge>; 2]>),
    Saved(SmallVec<[Saved; 3]>),
    Any(Box<dyn std::any::Any + Send>),
}

thread_local! {
    /// What waits for the loop of this thread, if it runs one.
    static WAITING: RefCell<Option<Vec<Garbage>>> = const { RefCell::new(None) };
}

impl<B: Apply + ?Sized> Drop for NodeCell<B> {
    fn drop(&mut self) {
        let edges = std::mem::take(&mut self.header.edges);
        let mut garbage = Vec::new();
        self.body.take_garbage(&mut garbage);
        let last = |edge: &Edge| Arc::strong_count(&edge.node.0) == 1;
        if garbage.is_empty() && !edges.iter().flatten().any(last) {
            return;
        }
        garbage.push(Garbage::Edges(edges));
        collect(garbage);
    }
}

/// Drops it now, or leaves it to the loop that runs further up on this thread's stack.
fn collect(garbage: Vec<Garbage>) {
    let mut garbage = Some(garbage);
    // While a thread ends, its list may be gone: what is left is dropped by recursion.
    let runs_elsewhere = WAITING.try_with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match &mut *waiting {
            Some(list) => {
                list.extend(garbage.take().into_iter().flatten());
                true
            }
            None => {
                *waiting = garbage.take();
                false
            }
        }
    });
    if runs_elsewhere != Ok(false) {
        return;
    }
    let next = || WAITING.with(|waiting| waiting.borrow_mut().as_mut().and_then(Vec::pop));
    while let Some(item) = next() {
        drop(item);
    }
    WAITING.with(|waiting| *waiting.borrow_mut() = None);
}
