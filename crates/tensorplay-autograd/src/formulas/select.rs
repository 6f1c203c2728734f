//! Choosing between tensors, element by element.

use aten::{Result, Tensor, TensorOptions};
use c10_core::Scalar;

use super::shape::{kept, zeros_of};

/// Of a tensor kept between two others: the gradient where it was in between.
pub(crate) fn clamp(grad: &Tensor, x: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Tensor> {
    let inside = match (min, max) {
        (Some(min), Some(max)) => x.ge(min)?.logical_and(&x.le(max)?)?,
        (Some(min), None) => x.ge(min)?,
        (None, Some(max)) => x.le(max)?,
        (None, None) => return Ok(grad.clone()),
    };
    kept(grad, &inside)
}

/// Of the lower bound: the gradient where it was chosen, which it is not where it is above the upper one.
pub(crate) fn clamp_min(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    match (min, max) {
        (Some(min), Some(max)) => kept(grad, &x.lt(min)?.logical_and(&min.le(max)?)?),
        (Some(min), None) => kept(grad, &x.lt(min)?),
        (None, _) => zeros_of(grad),
    }
}

/// Of the upper bound: the gradient where it was chosen.
pub(crate) fn clamp_max(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    match (min, max) {
        (Some(min), Some(max)) => kept(grad, &x.gt(max)?.logical_or(&max.lt(min)?)?),
        (None, Some(max)) => kept(grad, &x.gt(max)?),
        (_, None) => zeros_of(grad),
    }
}

/// Of a tensor kept between two numbers.
pub(crate) fn clamp_numbers(
    grad: &Tensor,
    x: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Tensor> {
    let inside = match (min, max) {
        (Some(min), Some(max)) => x.ge_scalar(min)?.logical_and(&x.le_scalar(max)?)?,
        (Some(min), None) => x.ge_scalar(min)?,
        (None, Some(max)) => x.le_scalar(max)?,
        (None, None) => return Ok(grad.clone()),
    };
    kept(grad, &inside)
}

/// The elements of `source`, one after another, at the places that the mask has set; zeros elsewhere.
pub(crate) fn scattered(source: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    source.new_zeros(sizes, TensorOptions::default())?.masked_scatter(mask, source)
}

/// Of what a mask selects. The mask and the tensor are broadcast against each other.
pub(crate) fn masked_select(grad: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let zeros = grad.new_zeros(&[], TensorOptions::default())?;
    let places = zeros.expand(sizes)?.add(&zeros.expand(&mask.sizes())?)?;
    places.masked_scatter(&mask.expand(&places.sizes())?, grad)
}
