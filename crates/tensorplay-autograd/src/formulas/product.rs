//! Products, of all elements and running ones. A quotient `result / x` is of no use where an element is zero, so that
//! there the products of all others are made; of operators with a gradient, for gradients of the gradient.

use aten::ops::handles;
use aten::{Result, Tensor};

use super::reduce::restored;
use super::scan::reversed_cumsum;
use super::shape::{kept, ones_where, total};
use crate::mode::is_grad_enabled;

/// Whether an element may be zero: where elements cannot be looked at, it may.
fn may_have_zero(x: &Tensor) -> Result<bool> {
    if x.is_meta() {
        return Ok(true);
    }
    Ok(x.eq_scalar(0.0)?.any()?.item()?.to::<bool>()?)
}

/// Of the product of all elements.
pub(crate) fn prod(grad: &Tensor, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    if x.rank() == 0 {
        return Ok(grad.clone());
    }
    if x.numel() > 0 && may_have_zero(x)? {
        return (grad * products_of_others(&x.reshape(&[-1])?, 0)?.conj()?)?.reshape(&x.sizes());
    }
    grad * (result / x)?.conj()
}

/// Of the products along a dimension.
pub(crate) fn prod_dim(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    dim: i64,
    keepdim: bool,
) -> Result<Tensor> {
    if x.rank() == 0 {
        return Ok(grad.clone());
    }
    let dims = [dim];
    let grad = restored(grad, x.rank(), Some(&dims), keepdim)?;
    if x.numel() > 0 && may_have_zero(x)? {
        return grad * products_of_others(x, dim)?.conj();
    }
    grad * (restored(result, x.rank(), Some(&dims), keepdim)? / x)?.conj()
}

/// For each element the product of those before and behind it along a dimension.
fn products_of_others(x: &Tensor, dim: i64) -> Result<Tensor> {
    let length = x.size(dim)?;
    let one = x.narrow(dim, 0, 1)?.ones_like(aten::TensorOptions::default())?;
    if length == 1 {
        return Ok(one);
    }
    let before = joined(&[one.clone(), x.narrow(dim, 0, length - 1)?], dim)?.cumprod(dim)?;
    let flipped = x.narrow(dim, 1, length - 1)?.flip(&[dim])?;
    before * joined(&[one, flipped], dim)?.cumprod(dim)?.flip(&[dim])
}

fn joined(parts: &[Tensor], dim: i64) -> Result<Tensor> {
    handles::CAT.call(parts, dim)
}

/// Of the running product: for each element the sum of the results that it is in, each without it.
pub(crate) fn cumprod(grad: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if x.rank() == 0 || x.numel() == 0 {
        return Ok(grad.clone());
    }
    let x_conj = x.conj()?;
    if x.size(dim)? == 1 {
        return Ok(grad.clone());
    }
    let of_results = (grad * result.conj()?)?;
    if !may_have_zero(x)? {
        return reversed_cumsum(&of_results, dim)? / x_conj;
    }
    if is_grad_enabled() {
        return cumprod_with_zeros(grad, &x_conj, dim);
    }
    // Before the first zero the quotient will do; at the first zero the running product with a one in its place;
    // behind it every product has that zero.
    let zero = x.eq_scalar(0.0)?;
    let zeros = zero.cumsum(dim)?;
    let first = zero.logical_and(&zeros.eq_scalar(1.0)?)?;
    let before = (reversed_cumsum(&of_results, dim)? / ones_where(&x_conj, &zero)?)?;
    let replaced = ones_where(&x_conj, &first)?.cumprod(dim)?;
    let at = reversed_cumsum(&(grad * replaced)?, dim)?;
    zeros.eq_scalar(0.0)?.where_self(&before, &kept(&at, &first)?)
}

/// The same element by element, of operators alone that have a gradient.
fn cumprod_with_zeros(grad: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let length = x.size(dim)?;
    let mut parts = Vec::new();
    for at in 0..length {
        let behind = length - at - 1;
        let before = handles::PROD_DIM_INT.call(&x.narrow(dim, 0, at)?, dim, true, None)?;
        let grad = grad.narrow(dim, at, behind + 1)?;
        let mut others = vec![before.clone()];
        if behind > 0 {
            others.push(before.mul(&x.narrow(dim, at + 1, behind)?.cumprod(dim)?)?);
        }
        parts.push(total(&(grad * joined(&others, dim)?)?, dim)?);
    }
    joined(&parts, dim)
}
