//! Scans along a dimension.

use aten::ops::handles;
use aten::{Result, Tensor, TensorOptions};
use c10_core::Scalar;

use super::shape::masked;

/// The sum from each element to the end.
pub(crate) fn reversed_cumsum(x: &Tensor, dim: i64) -> Result<Tensor> {
    if x.rank() == 0 || x.numel() <= 1 || x.size(dim)? == 1 {
        return Ok(x.clone());
    }
    x.flip(&[dim])?.cumsum(dim)?.flip(&[dim])
}

/// The logarithm of the sum of exponentials from each element to the end.
fn reversed_logcumsumexp(x: &Tensor, dim: i64) -> Result<Tensor> {
    handles::LOGCUMSUMEXP.call(&x.flip(&[dim])?, dim)?.flip(&[dim])
}

/// Of the running logarithm of a sum of exponentials: `exp(x) · Σ grad / exp(result)` from each element on, in
/// logarithms, for what of the gradient is above zero and what is below. Where the result is of nothing, nothing is
/// handed on.
pub(crate) fn logcumsumexp(grad: &Tensor, x: &Tensor, result: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.rank() == 0 || grad.numel() == 0 {
        return Ok(grad.clone());
    }
    let of_nothing = result.eq_scalar(f64::NEG_INFINITY)?;
    let result = masked(result, &of_nothing)?;
    let lowest = Scalar::Double(f64::NEG_INFINITY);
    let fill = |x: &Tensor, mask: &Tensor| handles::MASKED_FILL_SCALAR.call(x, mask, lowest);
    if grad.dtype().is_complex() {
        let log = (grad.conj()?.log()? - result)?;
        let sum = (reversed_logcumsumexp(&fill(&log, &of_nothing)?, dim)? + x)?;
        return sum.exp()?.conj();
    }
    let zero = grad.eq_scalar(0.0)?;
    let log = (handles::MASKED_FILL_SCALAR.call(&grad.abs()?, &zero, Scalar::Int(1))?.log()? - result)?;
    let log = fill(&log, &zero.logical_or(&of_nothing)?)?;
    let part = |other_sign: &Tensor| -> Result<Tensor> {
        (reversed_logcumsumexp(&fill(&log, other_sign)?, dim)? + x)?.exp()
    };
    let (above, below) = (part(&grad.lt_scalar(0.0)?)?, part(&grad.gt_scalar(0.0)?)?);
    above.sub(&below)
}

/// Of a running extremum: to each element what was made of it.
pub(crate) fn scattered(grad: &Tensor, sizes: &[i64], indices: &Tensor, dim: i64) -> Result<Tensor> {
    if grad.numel() == 0 || sizes.is_empty() {
        return Ok(grad.clone());
    }
    grad.new_zeros(sizes, TensorOptions::default())?.scatter_add(dim, indices, grad)
}
