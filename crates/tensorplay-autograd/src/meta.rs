//! [`Meta`]: what autograd keeps with a tensor (`c10::AutogradMeta`).
//!
//! A result has the edge that it was made with, which never changes and is read with no lock. What comes later goes
//! to `state`, under its lock, and counts from then on: the place of a leaf, a gradient, hooks, a new edge after an
//! in-place operation. Nothing is called under the lock.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use aten::Tensor;
use aten::tensor::AutogradMeta;

use crate::hooks::{PostAccumulateHook, TensorHook};
use crate::node::{Edge, Garbage, WeakNode, collect};

#[derive(Debug, Default)]
pub(crate) struct Meta {
    requires_grad: AtomicBool,
    first: Option<Edge>,
    state: OnceLock<Box<Mutex<State>>>,
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
    /// Of a result that a node made.
    #[inline]
    pub(crate) fn of_result(edge: Option<Edge>) -> Self {
        Self { requires_grad: AtomicBool::new(true), first: edge, state: OnceLock::new() }
    }

    #[inline]
    pub(crate) fn requires_grad(&self) -> bool {
        self.requires_grad.load(Ordering::Acquire)
    }

    /// The edge it was made with, while nothing changed.
    #[inline]
    pub(crate) fn unchanged_edge(&self) -> Option<&Edge> {
        if self.state.get().is_some() { None } else { self.first.as_ref() }
    }

    /// What may change. Drop it before anything is called.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let first = || Box::new(Mutex::new(State { edge: self.first.clone(), ..State::default() }));
        self.state.get_or_init(first).lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The edge, and the version of a view for which it is right, if it is not that of the view's making.
    pub(crate) fn edge(&self) -> (Option<Edge>, Option<u32>) {
        match (self.unchanged_edge(), self.state_if_any()) {
            (Some(edge), _) => (Some(edge.clone()), None),
            (None, Some(state)) => (state.edge.clone(), state.edge_version),
            (None, None) => (None, None),
        }
    }

    /// The state, if there is any.
    pub(crate) fn state_if_any(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.get()?.lock().unwrap_or_else(PoisonError::into_inner))
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
        if self.state.get().is_some()
            && let Some(state) = self.state.take()
        {
            collect([Garbage::Any(state)]);
        }
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
    let meta = tensor.autograd_meta_or_init(|| Box::new(Meta::default())).as_any().downcast_ref();
    meta.expect("one autograd crate alone follows the tensors of a process")
}

/// Whether operators on the tensor are recorded (`requires_grad`): it is a leaf that wants its gradient, the result
/// of a recorded call, or a view of such a tensor.
#[inline]
pub(crate) fn requires_grad(tensor: &Tensor) -> bool {
    meta(tensor).is_some_and(Meta::requires_grad)
        || tensor.view_base().is_some_and(|base| meta(base).is_some_and(Meta::requires_grad))
}
