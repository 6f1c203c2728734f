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
