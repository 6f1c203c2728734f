//! Choosing between tensors, element by element.

use aten::{Result, Tensor, TensorOptions};
use c10_core::Scalar;

use super::pointwise::chosen;
use super::shape::{kept, masked, zeros_of};

/// Of a tensor kept between two others: the gradient where it was in between, half where it is a bound.
pub(crate) fn clamp(grad: &Tensor, x: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Tensor> {
    match (min, max) {
        (Some(min), Some(max)) => {
            let outside = x.lt(min)?.logical_or(&x.gt(max)?)?.logical_or(&min.gt(max)?)?;
            let is_bound = x.eq(min)?.logical_xor(&x.eq(max)?)?;
            masked(&is_bound.where_self(&(grad / 2.0)?, grad)?, &outside)
        }
        (Some(min), None) => chosen(grad, x, min, &x.lt(min)?),
        (None, Some(max)) => chosen(grad, x, max, &x.gt(max)?),
        (None, None) => Ok(grad.clone()),
    }
}

/// Of the lower bound: the gradient where it was chosen, which it is not where it is above the upper one.
pub(crate) fn clamp_min(
    grad: &Tensor,
    x: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<Tensor> {
    match (min, max) {
        (Some(min), Some(max)) => {
            let half = kept(&(grad / 2.0)?, &x.eq(min)?.logical_and(&min.lt(max)?)?)?;
            x.lt(min)?.logical_and(&min.le(max)?)?.where_self(grad, &half)
        }
        (Some(min), None) => chosen(grad, x, min, &x.gt(min)?),
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
        (Some(min), Some(max)) => {
            let half = kept(&(grad / 2.0)?, &x.eq(max)?.logical_and(&min.lt(max)?)?)?;
            x.gt(max)?.logical_or(&max.lt(min)?)?.where_self(grad, &half)
        }
        (None, Some(max)) => chosen(grad, x, max, &x.lt(max)?),
        (_, None) => zeros_of(grad),
    }
}

/// Of a tensor kept between two numbers: the gradient where it was in between, and nothing at the bounds.
pub(crate) fn clamp_numbers(
    grad: &Tensor,
    x: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Tensor> {
    let inside = match (min, max) {
        (Some(min), Some(max)) => x.gt_scalar(min)?.logical_and(&x.lt_scalar(max)?)?,
        (Some(min), None) => x.gt_scalar(min)?,
        (None, Some(max)) => x.lt_scalar(max)?,
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
