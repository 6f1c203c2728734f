//! Gradients of the gradients of softmax.

use aten::{Result, Tensor};

use super::shape::total;

/// Of `y (g − Σ g y)`, for `y`.
pub(crate) fn twice(grad: &Tensor, grad_output: &Tensor, output: &Tensor, dim: i64) -> Result<Tensor> {
    let centred = (grad_output - total(&(grad_output * output)?, dim)?)?;
    (grad * centred)? - (grad_output * total(&(grad * output)?, dim)?)?
}

/// Of `g − exp(y) Σ g`, for `g`.
pub(crate) fn log_of_grad(grad: &Tensor, output: &Tensor, dim: i64) -> Result<Tensor> {
    grad - total(&(grad * output.exp()?)?, dim)
}
