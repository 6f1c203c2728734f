//! [`AccumulateGrad`]: where the gradients of a leaf end (`torch::autograd::AccumulateGrad`).
//!
//! // Note [Stealing gradients]
//! The first gradient becomes the leaf's own without a copy when nobody else holds it or its storage, nothing is
//! recorded, and its strides are those that the leaf's gradient should have. A view may be all that is left of what it
//! is a view of, as the transpose of a product: it is stolen too, unless it would keep more memory than it has elements
//! for. A gradient whose storage is shared is copied: a write to one would be seen in the other.
//!
//! // Note [Gradients from several threads]
//! No lock is held while a gradient is added, since operators may run anything. An addition in place has the storage
//! alone for itself. What takes the place of a gradient does so only if nobody else has put one there meanwhile;
//! otherwise it is added to that one.

use aten::tensor::DeepCloneOptions;
use aten::{Error, Result, Tensor};
use c10_core::MemoryFormat;
use smallvec::smallvec;

use crate::gradients::Gradients;
use crate::meta::{Meta, meta_or_init, requires_grad};
use crate::mode::is_grad_enabled;
use crate::node::{Apply, Edges, FIRST_IN_LINE, Garbage, InputMeta, Inputs, NewNode, Node};

pub(crate) struct AccumulateGrad {
    variable: Option<Tensor>,
}

/// The accumulator of a leaf, made when it has none.
pub(crate) fn accumulator(tensor: &Tensor) -> Node {
    let meta = meta_or_init(tensor);
    if let Some(node) = meta.state().accumulator.upgrade() {
        return node;
    }
    let made = NewNode {
        sequence: FIRST_IN_LINE,
        edges: Edges::None,
        inputs: Inputs::One(InputMeta::of(tensor)),
        body: AccumulateGrad { variable: Some(tensor.clone()) },
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
    fn name(&self) -> &str {
        "AccumulateGrad"
    }

    fn apply(&self, node: &Node, mut gradients: Gradients, _: bool) -> Result<Gradients> {
        let Some(variable) = &self.variable else { return Ok(smallvec![]) };
        let Some(gradient) = gradients.pop().flatten() else { return Ok(smallvec![]) };
        drop(gradients);
        // A leaf may have been told meanwhile that its gradient is not wanted.
        if !requires_grad(variable) {
            return Ok(smallvec![]);
        }
        let meta = meta_or_init(variable);
        // Hooks that are called afterwards hold it too.
        let holders = 1 + usize::from(node.hooks().is_some_and(crate::node::NodeHooks::has_post));
        accumulate(variable, meta, gradient, holders)?;
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

/// Adds a gradient, of which there are `holders` handles, to that of a tensor.
fn accumulate(variable: &Tensor, meta: &Meta, mut gradient: Tensor, holders: usize) -> Result<()> {
    // See Note [Gradients from several threads].
    loop {
        let before = meta.state().grad.clone();
        let after = match &before {
            None => first(variable, &gradient, holders)?,
            Some(before) if !is_grad_enabled() => {
                before.add_(&gradient)?;
                return Ok(());
            }
            Some(before) => before.add(&gradient)?,
        };
        match meta.replace_gradient(before.as_ref(), after) {
            Ok(()) => return Ok(()),
            Err(own) if before.is_none() => gradient = own,
            Err(_) => {}
        }
    }
}

/// The first gradient: see Note [Stealing gradients].
fn first(variable: &Tensor, gradient: &Tensor, holders: usize) -> Result<Tensor> {
    let obeys = obeys_layout(variable, gradient);
    if !is_grad_enabled() && obeys && is_held_by(gradient, holders) && fills_storage(gradient) {
        return gradient.detach();
    }
    if obeys {
        return gradient.deep_clone();
    }
    if !variable.is_non_overlapping_and_dense() {
        return contiguous_copy(gradient);
    }
    let copy = Tensor::empty_strided(&variable.sizes(), &variable.strides(), options(gradient))?;
    copy.copy_(gradient)?;
    Ok(copy)
}

fn contiguous_copy(of: &Tensor) -> Result<Tensor> {
    of.deep_clone_with(DeepCloneOptions { memory_format: Some(MemoryFormat::Contiguous) })
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
    is_held_by(tensor, 1)
}

fn is_held_by(tensor: &Tensor, holders: usize) -> bool {
    let bases = match tensor.view_base() {
        None => 0,
        Some(base) if base.use_count() == 1 => 1,
        Some(_) => return false,
    };
    // The handle that is asked for is one more on the storage.
    tensor.use_count() <= holders && tensor.storage().use_count() == 2 + bases
}

/// The storage has no elements but the tensor's, of which none overlap.
fn fills_storage(tensor: &Tensor) -> bool {
    tensor.storage().nbytes() == tensor.numel() as usize * tensor.dtype().element_size()
}

/// Puts the gradient of a result where it is asked for (`retain_grad`): it accumulates over backward calls.
pub(crate) fn retain(meta: &Meta, gradient: &Tensor) -> Result<()> {
    loop {
        let before = meta.state().grad.clone();
        let after = match &before {
            None => contiguous_copy(gradient)?,
            Some(before) => before.add(gradient)?,
        };
        if meta.replace_gradient(before.as_ref(), after).is_ok() {
            return Ok(());
        }
    }
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
