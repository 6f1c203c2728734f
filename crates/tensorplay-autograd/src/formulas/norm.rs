//! Norms of vectors.

use aten::ops::handles;
use aten::{Result, Tensor};
use c10_core::Scalar;

use super::reduce::{dims_of, restored};
use super::shape::{kept, masked, ones_where, total_of, zeros_of};

/// Of the `ord`-norm along dimensions. Where it is zero it has a corner, and hands nothing back; the greatest and the
/// least size hand back to all that are it, in equal parts.
pub(crate) fn vector_norm(
    grad: &Tensor,
    x: &Tensor,
    result: &Tensor,
    ord: Scalar,
    dims: Option<&[i64]>,
    keepdim: bool,
) -> Result<Tensor> {
    let rank = x.rank();
    let grad = restored(grad, rank, dims, keepdim)?;
    let norm = restored(result, rank, dims, keepdim)?;
    let ord = ord.to::<f64>()?;
    if ord == 0.0 {
        return zeros_of(&grad.expand(&x.sizes())?);
    }
    if ord == 1.0 {
        return x.sgn()? * grad;
    }
    if ord.is_infinite() {
        let size = x.abs()?;
        let found = size.eq(&norm)?.logical_or(&size.isnan()?.logical_and(&norm.isnan()?)?)?;
        let parts = total_of(&found, &dims_of(rank, dims))?;
        return x.sgn()? * kept(&(grad / parts)?, &found)?;
    }
    let zero = norm.eq_scalar(0.0)?;
    let divisor = ones_where(&norm, &zero)?;
    if ord == 2.0 {
        return grad * masked(&(x / divisor)?, &zero)?;
    }
    let scale = masked(&(grad / divisor.pow_scalar(ord - 1.0)?)?, &zero)?;
    let none = x.eq_scalar(0.0)?;
    let size = masked(&ones_where(&x.abs()?, &none)?.pow_scalar(ord - 1.0)?, &none)?;
    (x.sgn()? * size)? * scale
}

/// Of slices that were scaled to a norm of at most `limit`.
pub(crate) fn renorm(grad: &Tensor, x: &Tensor, p: Scalar, dim: i64, limit: Scalar) -> Result<Tensor> {
    let rank = x.rank() as i64;
    let own = if dim < 0 { dim + rank } else { dim };
    let dims: Vec<i64> = (0..rank).filter(|dim| *dim != own).collect();
    let norm = handles::LINALG_VECTOR_NORM.call(x, p, Some(&dims), true, None)?;
    let along = total_of(&(x.conj()? * grad)?, &dims)?;
    let along = if along.dtype().is_complex() { along.real()? } else { along };
    let of_norm = vector_norm(&along, x, &norm, p, Some(&dims), true)?;
    let inverse = norm.add_scalar(1e-7)?.reciprocal()?;
    let scaled = (inverse.mul_scalar(limit)? * (grad - (&inverse * of_norm)?)?)?;
    norm.gt_scalar(limit)?.where_self(&scaled, grad)
}
