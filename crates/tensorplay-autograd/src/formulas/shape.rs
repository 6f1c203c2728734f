//! What the formulas of all groups are made of: zeros, masks, scaled gradients.

use aten::ops::handles;
use aten::{Error, Result, Tensor, TensorOptions};
use c10_core::Scalar;

use crate::saved::TensorMeta;

/// Zeros of the sizes, dtype and device of a tensor.
pub(crate) fn zeros(like: &TensorMeta) -> Result<Tensor> {
    Tensor::zeros(&like.sizes(), TensorOptions::default().dtype(like.dtype()).device(like.device()))
}

/// The conjugate of `alpha` times the gradient; the gradient itself for one.
pub(crate) fn scaled(grad: Tensor, alpha: Scalar) -> Result<Tensor> {
    // Not by equality of scalars, which looks at all pairs of kinds.
    if matches!(alpha, Scalar::Int(1) | Scalar::Double(1.0)) {
        Ok(grad)
    } else {
        grad.into_mul_scalar(conj(alpha))
    }
}

/// The conjugate of a number.
pub(crate) fn conj(number: Scalar) -> Scalar {
    match number {
        Scalar::Complex(value) => Scalar::Complex(value.conj()),
        number => number,
    }
}

/// Zeros like a gradient.
pub(crate) fn zeros_of(grad: &Tensor) -> Result<Tensor> {
    grad.zeros_like(TensorOptions::default())
}

/// The gradient with zeros where the mask is set.
pub(crate) fn masked(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    handles::MASKED_FILL_SCALAR.call(grad, mask, Scalar::Int(0))
}

/// The gradient with zeros where the mask is not set.
pub(crate) fn kept(grad: &Tensor, mask: &Tensor) -> Result<Tensor> {
    handles::WHERE_SCALAROTHER.call(mask, grad, Scalar::Int(0))
}

/// `x` with ones where the mask is set: a divisor that is not zero, also for gradients of the gradient.
pub(crate) fn ones_where(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    handles::MASKED_FILL_SCALAR.call(x, mask, Scalar::Int(1))
}

/// The sum along a dimension, which stays.
pub(crate) fn total(x: &Tensor, dim: i64) -> Result<Tensor> {
    total_of(x, &[dim])
}

/// The sum along dimensions, which stay.
pub(crate) fn total_of(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    handles::SUM_DIM_INTLIST.call(x, Some(dims), true, None)
}

/// The mean along dimensions, which stay.
pub(crate) fn mean_of(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    handles::MEAN_DIM.call(x, Some(dims), true, None)
}

/// What stands for the gradient of an argument that has none that anybody knows: nothing is missing in silence.
pub(crate) fn no_derivative(of: &str) -> Result<Tensor> {
    Err(Error::not_implemented(format!("the derivative for '{of}' is not implemented")))
}

/// A dimension counted from the front.
pub(crate) fn wrapped(dim: i64, rank: usize) -> usize {
    if dim < 0 { (dim + rank.max(1) as i64) as usize } else { dim as usize }
}

/// A zero without dimensions, of the dtype and device of a tensor.
pub(crate) fn zero_of(like: &Tensor) -> Result<Tensor> {
    Tensor::zeros(&[], TensorOptions::default().dtype(like.dtype()).device(like.device()))
}

/// The last `count` sizes.
pub(crate) fn last(sizes: &[i64], count: usize) -> Vec<i64> {
    sizes[sizes.len().saturating_sub(count)..].to_vec()
}
