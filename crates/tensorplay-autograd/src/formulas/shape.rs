//! Zeros and other tensors like what was kept.

use aten::{Result, Tensor, TensorOptions};

use crate::saved::TensorMeta;

/// Zeros of the sizes, dtype and device of a tensor.
pub(crate) fn zeros(like: &TensorMeta) -> Result<Tensor> {
    Tensor::zeros(&like.sizes(), TensorOptions::default().dtype(like.dtype()).device(like.device()))
}

/// `alpha` times the gradient; the gradient itself for one.
pub(crate) fn scaled(grad: &Tensor, alpha: c10_core::Scalar) -> Result<Tensor> {
    if alpha == c10_core::Scalar::Int(1) { Ok(grad.clone()) } else { grad.mul_scalar(alpha) }
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
