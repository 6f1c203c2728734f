//! [`TensorAutograd`]: what autograd adds to a [`Tensor`].

use std::sync::Arc;

use aten::{Error, Result, Tensor};

use crate::engine::{self, BackwardOptions};
use crate::hooks::{self, HookHandle};
use crate::meta::{meta, meta_or_init, requires_grad};
use crate::node::Node;
use crate::view_track::made_by;
use crate::{accumulate, init};

mod sealed {
    pub trait Sealed {}
    impl Sealed for aten::Tensor {}
}

/// Gradients of tensors. Implemented by [`Tensor`] alone.
pub trait TensorAutograd: sealed::Sealed {
    /// Whether operators on the tensor are recorded (`requires_grad`).
    fn requires_grad(&self) -> bool;

    /// Says whether the gradient of a leaf is wanted, and returns the tensor (`requires_grad_`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a dtype without gradients, for a result of a
    /// recorded call that is to need none, and for inference tensors.
    fn requires_grad_(&self, requires_grad: bool) -> Result<Tensor>;

    /// Whether no recorded call made it (`is_leaf`).
    fn is_leaf(&self) -> bool;

    /// The node that made it; `None` for leaves (`grad_fn`).
    ///
    /// # Errors
    /// For a view whose base was changed in place in a way that autograd cannot follow.
    fn grad_fn(&self) -> Result<Option<Node>>;

    /// Which of the results of its node it is (`output_nr`).
    fn output_nr(&self) -> usize;

    /// The gradient that was accumulated (`grad`).
    fn grad(&self) -> Option<Tensor>;

    /// Sets the gradient, or takes it away.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](aten::ErrorKind::Shape), [`ErrorKind::Dtype`](aten::ErrorKind::Dtype) or
    /// [`ErrorKind::Device`](aten::ErrorKind::Device) for one that is not like the tensor.
    fn set_grad(&self, gradient: Option<&Tensor>) -> Result<()>;

    /// Computes and accumulates the gradients of the leaves below a tensor of one element.
    ///
    /// # Errors
    /// As [`backward`](crate::backward).
    fn backward(&self) -> Result<()>;

    /// As [`backward`](Self::backward), with options.
    ///
    /// # Errors
    /// As [`backward_with`](crate::backward_with).
    fn backward_with(&self, options: BackwardOptions<'_>) -> Result<()>;

    /// Has a tensor that is no leaf keep its gradient (`retain_grad`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a tensor that requires none.
    fn retain_grad(&self) -> Result<()>;

    /// Whether [`retain_grad`](Self::retain_grad) was called (`retains_grad`).
    fn retains_grad(&self) -> bool;

    /// Calls `hook` with each gradient of the tensor that is computed; what it returns takes its place
    /// (`register_hook`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a tensor that requires no gradient.
    fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle>;

    /// Calls `hook` with the leaf after its gradient was accumulated (`register_post_accumulate_grad_hook`).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) for a tensor that is no leaf that requires a
    /// gradient.
    fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle>;
}

impl TensorAutograd for Tensor {
    fn requires_grad(&self) -> bool {
        requires_grad(self)
    }

    fn requires_grad_(&self, wanted: bool) -> Result<Tensor> {
        init()?;
        if made_by(self)?.is_some() {
            if wanted {
                return Ok(self.clone());
            }
            return Err(Error::invalid_argument(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a \
                 subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            ));
        }
        if wanted && !self.dtype().is_floating_point() && !self.dtype().is_complex() {
            return Err(Error::dtype(
                "Only Tensors of floating point and complex dtype can require gradients",
            ));
        }
        if wanted && self.is_inference() && !aten::dispatch::local::is_inference_mode() {
            return Err(Error::invalid_argument(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
            ));
        }
        if wanted || meta(self).is_some() {
            meta_or_init(self).change(|state| state.is_wanted = wanted);
        }
        Ok(self.clone())
    }

    fn is_leaf(&self) -> bool {
        matches!(made_by(self), Ok(None))
    }

    fn grad_fn(&self) -> Result<Option<Node>> {
        engine::grad_fn(self)
    }

    fn output_nr(&self) -> usize {
        made_by(self).ok().flatten().map_or(0, |edge| edge.input)
    }

    fn grad(&self) -> Option<Tensor> {
        meta(self)?.state().grad.clone()
    }

    fn set_grad(&self, gradient: Option<&Tensor>) -> Result<()> {
        if gradient.is_none() && meta(self).is_none() {
            return Ok(());
        }
        accumulate::set(self, gradient)
    }

    fn backward(&self) -> Result<()> {
        engine::backward(std::slice::from_ref(self))
    }

    fn backward_with(&self, options: BackwardOptions<'_>) -> Result<()> {
        engine::backward_with(std::slice::from_ref(self), options)
    }

    fn retain_grad(&self) -> Result<()> {
        if !requires_grad(self) {
            return Err(Error::invalid_argument("can't retain_grad on Tensor that has requires_grad=False"));
        }
        let Some(edge) = made_by(self)? else { return Ok(()) };
        let was = meta_or_init(self).change(|state| std::mem::replace(&mut state.retains_grad, true));
        if !was {
            edge.node.hooks_or_init().retain_grad(edge.input, self.downgrade());
        }
        Ok(())
    }

    fn retains_grad(&self) -> bool {
        meta(self).is_some_and(|meta| meta.state().retains_grad)
    }

    fn register_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        hooks::register(self, Arc::new(hook))
    }

    fn register_post_accumulate_grad_hook(
        &self,
        hook: impl Fn(&Tensor) -> Result<()> + Send + Sync + 'static,
    ) -> Result<HookHandle> {
        hooks::register_post_accumulate(self, Arc::new(hook))
    }
}
