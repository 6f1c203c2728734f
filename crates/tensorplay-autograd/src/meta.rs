//! [`Meta`]: what autograd keeps with a tensor (`c10::AutogradMeta`).
//!
//! A result has the [edge that it was made with](first_edge), which never changes and is read with no lock. What comes
//! later goes to a `Meta`, under its lock, and counts from then on: the place of a leaf, a gradient, hooks, a new edge
//! after an in-place operation. Nothing is called under the lock.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use aten::Tensor;
use aten::tensor::AutogradMeta;

use crate::hooks::{PostAccumulateHook, TensorHook};
use crate::node::{Edge, Garbage, Node, WeakNode, collect};

#[derive(Debug, Default)]
pub(crate) struct Meta {
    requires_grad: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// The flag of a leaf.
    pub(crate) is_wanted: bool,
    /// The node that made it.
    pub(crate) edge: Option<Edge>,
    /// The version of a view for which `edge` is right, if it is not that of the view's making.
    pub(crate) edge_version: Option<u32>,
    /// The accumulator of a leaf; the graph has the strong handles.
    pub(crate) accumulator: WeakNode,
    pub(crate) grad: Option<Tensor>,
    pub(crate) retains_grad: bool,
    /// Of a leaf. Those of other tensors are with the node.
    pub(crate) hooks: Vec<TensorHook>,
    pub(crate) post_accumulate: Vec<PostAccumulateHook>,
}

impl Meta {
    /// Of a tensor that nothing is kept with yet.
    fn of(tensor: &Tensor) -> Self {
        let edge = made_first(tensor);
        let requires_grad = AtomicBool::new(edge.is_some());
        Self { requires_grad, state: Mutex::new(State { edge, ..State::default() }) }
    }

    #[inline]
    pub(crate) fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Acquire)
    }

    /// What may change. Drop it before anything is called.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a gradient in the place of `before`, unless another thread has put one there: then it is given back.
    pub(crate) fn replace_gradient(&self, before: Option<&Tensor>, after: Tensor) -> Result<(), Tensor> {
        let mut state = self.state();
        let is_as_before = match (&state.grad, before) {
            (None, None) => true,
            (Some(now), Some(before)) => now.is_same(before),
            _ => false,
        };
        if !is_as_before {
            return Err(after);
        }
        let old = state.grad.replace(after);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Changes the state, and with it whether the tensor requires a gradient.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let result = change(&mut state);
        self.requires_grad.store(state.is_wanted || state.edge.is_some(), Ordering::Release);
        result
    }
}

impl Drop for Meta {
    fn drop(&mut self) {
        // Hooks and gradients may hold other graphs: see Note [Graphs end without recursion].
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        collect([Garbage::Any(Box::new(state))]);
    }
}

impl AutogradMeta for Meta {
    fn requires_grad(&self) -> bool {
        self.requires_grad()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("is_wanted", &self.is_wanted)
            .field("edge", &self.edge)
            .finish_non_exhaustive()
    }
}

/// What a tensor has, if it has anything. Nothing of another autograd crate's.
#[inline]
pub(crate) fn meta(tensor: &Tensor) -> Option<&Meta> {
    tensor.autograd_meta()?.as_any().downcast_ref()
}

/// What a tensor has, made when it had none.
///
/// # Panics
/// When another autograd crate keeps something with the tensor: there is one in a process.
pub(crate) fn meta_or_init(tensor: &Tensor) -> &Meta {
    let meta = tensor.autograd_meta_or_init(|| Box::new(Meta::of(tensor))).as_any().downcast_ref();
    meta.expect("one autograd crate alone follows the tensors of a process")
}

/// The edge that the tensor was made with, whatever came later.
#[inline]
fn made_first(tensor: &Tensor) -> Option<Edge> {
    let (node, output) = tensor.made_by()?;
    Some(Edge { node: Node::from_any(node)?, input: output as usize })
}

/// The edge that the tensor was made with, while nothing has changed.
#[inline]
pub(crate) fn first_edge(tensor: &Tensor) -> Option<Edge> {
    if tensor.autograd_meta().is_some() { None } else { made_first(tensor) }
}

/// The edge, and the version of a view for which it is right, if it is not that of the view's making.
pub(crate) fn edge(tensor: &Tensor) -> (Option<Edge>, Option<u32>) {
    match meta(tensor) {
        None => (first_edge(tensor), None),
        Some(own) => {
            let state = own.state();
            (state.edge.clone(), state.edge_version)
        }
    }
}

/// Whether operators on the tensor are recorded (`requires_grad`): it is a leaf that wants its gradient, the result
/// of a recorded call, or a view of such a tensor.
#[inline]
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    tensor.is_recorded() || tensor.view_base().is_some_and(Tensor::is_recorded)
}
