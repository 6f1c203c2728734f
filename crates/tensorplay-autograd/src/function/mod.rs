//! [`Function`]: an operation with a derivative of the user's own (`torch.autograd.Function`).
//!
//! The value that implements it is the operation with what it needs besides tensors: its fields are PyTorch's
//! attributes of `ctx`. Tensors that the backward step needs go through
//! [`save_for_backward`](ForwardContext::save_for_backward), which checks that nobody changed them meanwhile.
//!
//! // Note [Results that somebody holds]
//! A result holds its node, and the node holds the function. A result that the function kept in a field would keep
//! itself alive for ever. So a result that has another handle, as one that is kept has, is returned as an alias, and
//! only the alias is made by the node. This does not help for an argument that is changed in place, which is returned
//! as the same tensor: keep such a one by `save_for_backward` alone.

mod context;
mod body;
mod results;
mod once;

use aten::dispatch::local::is_inference_mode;
use aten::{Error, Result, Tensor};

pub use context::{BackwardContext, ForwardContext, GradOutputs};

pub(crate) use body::Step;
pub(crate) use context::Marks;
pub(crate) use results::Call;

use crate::meta::requires_grad;
use crate::mode::{GradModeGuard, is_grad_enabled};
use crate::node::{Edges, next_sequence};
use crate::view_track::gradient_edge;

/// An operation with a derivative of the user's own.
///
/// ```
/// use aten::{Result, Tensor};
/// use tensorplay_autograd::{BackwardContext, ForwardContext, Function, GradOutputs, TensorAutograd};
///
/// /// The square, times a number.
/// struct ScaledSquare {
///     by: f64,
/// }
///
/// impl Function for ScaledSquare {
///     fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
///         ctx.save_for_backward([inputs[0]]);
///         Ok(vec![inputs[0].mul(inputs[0])?.mul_scalar(self.by)?])
///     }
///
///     fn backward(&self, ctx: &BackwardContext<'_>, grads: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
///         let x = ctx.saved_tensor(0)?;
///         Ok(vec![Some(grads.tensor(0)?.mul(&x)?.mul_scalar(2.0 * self.by)?)])
///     }
/// }
///
/// let x = Tensor::from_elements(&[1.0, 2.0])?.requires_grad_(true)?;
/// let y = ScaledSquare { by: 10.0 }.apply_one(&[&x])?;
/// assert_eq!(y.grad_fn()?.unwrap().name(), "ScaledSquareBackward");
/// # Ok::<(), aten::Error>(())
/// ```
pub trait Function: Send + Sync + Sized + 'static {
    /// Whether the backward step is made of something else than differentiable operators (`once_differentiable`). It
    /// runs without being recorded then, and to differentiate what it gives is an error.
    const IS_ONCE_DIFFERENTIABLE: bool = false;

    /// The results. Nothing is recorded meanwhile.
    ///
    /// An input that is returned as it is counts as a view of itself; one that was changed in place is
    /// [marked](ForwardContext::mark_dirty) and returned.
    ///
    /// # Errors
    /// [`apply`](Self::apply) returns them.
    fn forward(&mut self, ctx: &mut ForwardContext<'_>, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs, one each, from those of the results; `None` where there is none. With
    /// `create_graph` it is recorded.
    ///
    /// # Errors
    /// The backward call fails with them.
    fn backward(&self, ctx: &BackwardContext<'_>, grad_outputs: &GradOutputs) -> Result<Vec<Option<Tensor>>>;

    /// The name of the node without `Backward`: that of the type.
    fn name() -> &'static str {
        let full = std::any::type_name::<Self>();
        let path = full.split('<').next().unwrap_or(full);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// Calls it, and records the call if an input requires a gradient.
    ///
    /// # Errors
    /// What [`forward`](Self::forward) returns; [`ErrorKind::InvalidArgument`](aten::ErrorKind::InvalidArgument) when
    /// an input that was marked as changed is not among the results, or when it is a view and there are more.
    fn apply(self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        apply(self, inputs)
    }

    /// As [`apply`](Self::apply), of a function with one result.
    ///
    /// # Errors
    /// As there, and when there are none or more.
    fn apply_one(self, inputs: &[&Tensor]) -> Result<Tensor> {
        let mut results = apply(self, inputs)?;
        let count = results.len();
        match results.pop() {
            Some(result) if count == 1 => Ok(result),
            _ => Err(Error::invalid_argument(format!(
                "{} gives {count} results, and is called for one",
                Self::name()
            ))),
        }
    }
}

impl<F: Function> Step for F {
    const IS_ONCE_DIFFERENTIABLE: bool = F::IS_ONCE_DIFFERENTIABLE;

    fn backward(&self, ctx: &BackwardContext<'_>, grad_outputs: &GradOutputs) -> Result<Vec<Option<Tensor>>> {
        Function::backward(self, ctx, grad_outputs)
    }
}

fn apply<F: Function>(mut function: F, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    crate::init()?;
    let is_recorded =
        is_grad_enabled() && !is_inference_mode() && inputs.iter().any(|input| requires_grad(input));
    let edges = if is_recorded { Some(edges(inputs)?) } else { None };
    let sequence = next_sequence();
    let mut context = ForwardContext::new(inputs, is_recorded);
    let results = {
        let _no_grad = GradModeGuard::new(false);
        function.forward(&mut context, inputs)?
    };
    let name = || format!("{}Backward", F::name()).into();
    let call = Call { inputs, edges, sequence, name: &name };
    call.finish(function, context.into_marks(), results)
}

/// Where the gradients of the inputs go.
fn edges(inputs: &[&Tensor]) -> Result<Edges> {
    inputs.iter().map(|input| if requires_grad(input) { gradient_edge(input) } else { Ok(None) }).collect()
}
