//! [`AccumulateGrad`]: where the gradients of a leaf end (`torch::autograd::AccumulateGrad`).
//!
//! // Note [Stealing gradients]
//! The first gradient becomes the leaf's own without a copy when nobody else holds it or its storage, nothing is
//! recorded, and its strides are those that the leaf's gradient should have. A gradient whose storage is shared,
//! as a view of another's is, is copied: a write to one would be seen in the other.

use std::sync::{Mutex, PoisonError};

use aten::{Error, Result, Tensor};
use smallvec::smallvec;

use crate::gradients::Gradients;
use crate::meta::{Meta, meta_or_init};
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::node::{Apply, FIRST_IN_LINE, Garbage, InputMeta, NewNode, Node, NodeName};

pub(crate) struct AccumulateGrad {
    variable: Option<Tensor>,
    /// Held while a gradient is added, so that of two threads neither is lost.
    adding: Mutex<()>,
}

/// The accumulator of a leaf, made when it has none.
pub(crate) fn accumulator(tensor: &Tensor) -> Node {
    let meta = meta_or_init(tensor);
    if let Some(node) = meta.state().accumulator.upgrade() {
        return node;
    }
    let made = NewNode {
        name: NodeName::Static("AccumulateGrad"),
        sequence: FIRST_IN_LINE,
        edges: smallvec![],
        inputs: smallvec![InputMeta::of(tensor)],
        body: AccumulateGrad { variable: Some(tensor.clone()), adding: Mutex::new(()) },
    }
    .make();
    let mut state = meta.state();
    // Another thread may have been faster.
    if let Some(node) = state.accumulator.upgrade() {
        drop(state);
        return node;
    }
    state.accumulator = made.downgrade();
    made
}

impl AccumulateGrad {
    pub(crate) fn variable(&self) -> Option<&Tensor> {
        self.variable.as_ref()
    }
}

impl Apply for AccumulateGrad {
    fn apply(&self, _: &Node, mut gradients: Gradients, _: bool) -> Result<Gradients> {
        let Some(variable) = &self.variable else { return Ok(smallvec![]) };
        let Some(gradient) = gradients.pop().flatten() else { return Ok(smallvec![]) };
        drop(gradients);
        let meta = meta_or_init(variable);
        let adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        accumulate(variable, meta, gradient)?;
        drop(adding);
        let hooks = meta.state().post_accumulate.clone();
        hooks.iter().try_for_each(|hook| (hook.function)(variable))?;
        Ok(smallvec![])
    }

    fn take_garbage(&mut self, garbage: &mut Vec<Garbage>) {
        // A leaf holds no node but by views and hooks of its own, which the list takes care of.
        if let Some(variable) = self.variable.take() {
            garbage.push(Garbage::Any(Box::new(variable)));
        }
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// Adds a gradient to that of a tensor.
pub(crate) fn accumulate(variable: &Tensor, meta: &Meta, gradient: Tensor) -> Result<()> {
    let before = meta.state().grad.clone();
    let after = match before {
        None => first(variable, gradient)?,
        Some(before) if !is_grad_enabled() => {
            before.add_(&gradient)?;
            return Ok(());
        }
        Some(before) => before.add(&gradient)?,
    };
    let old = meta.state().grad.replace(after);
    drop(old);
    Ok(())
}

/// The first gradient: see Note [Stealing gradients].
fn first(variable: &Tensor, gradient: Tensor) -> Result<Tensor> {
    if !is_grad_enabled() && obeys_layout(variable, &gradient) && is_sole(&gradient) {
        return gradient.detach();
    }
    if is_grad_enabled() {
        return gradient.deep_clone();
    }
    let _no_grad = GradModeGuard::new(false);
    let copy = if variable.is_non_overlapping_and_dense() {
        Tensor::empty_strided(&variable.sizes(), &variable.strides(), options(&gradient))?
    } else {
        Tensor::empty(&gradient.sizes(), options(&gradient))?
    };
    copy.copy_(&gradient)?;
    Ok(copy)
}

fn options(of: &Tensor) -> aten::TensorOptions {
    aten::TensorOptions::default().dtype(of.dtype()).device(of.device())
}

/// The strides are those that the gradient of the variable should have (`obeys_layout_contract`).
fn obeys_layout(variable: &Tensor, gradient: &Tensor) -> bool {
    if !variable.is_non_overlapping_and_dense() {
        return gradient.is_contiguous();
    }
    let (sizes, own, given) = (variable.sizes(), variable.strides(), gradient.strides());
    own.len() == given.len() && (0..own.len()).all(|dim| sizes[dim] == 1 || own[dim] == given[dim])
}

/// Nobody else holds the tensor or its storage.
pub(crate) fn is_sole(tensor: &Tensor) -> bool {
    // The handle that is asked for is the second.
    tensor.use_count() == 1 && tensor.view_base().is_none() && tensor.storage().use_count() == 2
}

/// Puts the gradient of a result where it is asked for (`retain_grad`): it accumulates over backward calls.
pub(crate) fn retain(meta: &Meta, gradient: &Tensor) -> Result<()> {
    let before = meta.state().grad.clone();
    let after = match before {
        None => gradient.deep_clone()?,
        Some(before) => before.add(gradient)?,
    };
    let old = meta.state().grad.replace(after);
    drop(old);
    Ok(())
}

/// Sets the gradient of a tensor by hand.
pub(crate) fn set(variable: &Tensor, gradient: Option<&Tensor>) -> Result<()> {
    if let Some(gradient) = gradient {
        check_assigned(variable, gradient)?;
    }
    let meta = meta_or_init(variable);
    let old = std::mem::replace(&mut meta.state().grad, gradient.cloned());
    drop(old);
    Ok(())
}

fn check_assigned(variable: &Tensor, gradient: &Tensor) -> Result<()> {
    if gradient.is_same(variable) {
        return Err(Error::invalid_argument("can't assign Variable as its own grad"));
    }
    if gradient.device() != variable.device() {
        return Err(Error::new(
            aten::ErrorKind::Device,
            format!(
                "attempting to assign a gradient with device type '{}' to a tensor with device type '{}'. Please ensure \
                 that the gradient and the tensor are on the same device",
                gradient.device().device_type(),
                variable.device().device_type()
            ),
        ));
    }
    if gradient.dtype() != variable.dtype() {
        return Err(Error::dtype(format!(
            "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient must match \
             the tensor's grad_dtype (defaults to the tensor's dtype).",
            gradient.dtype().name(),
            variable.dtype().name()
        )));
    }
    if gradient.sizes() != variable.sizes() {
        return Err(Error::shape(format!(
            "attempting to assign a gradient of size '{:?}' to a tensor of size '{:?}'. Please ensure that the gradient \
             and the tensor are the same size",
            gradient.sizes(),
            variable.sizes()
        )));
    }
    Ok(())
}
