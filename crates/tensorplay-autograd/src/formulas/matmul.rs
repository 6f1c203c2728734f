//! Gradients of matrix products.

use aten::{Result, Tensor};
use c10_core::Scalar;

use super::shape::scaled;
use crate::saved::TensorMeta;

/// Of the first factor of a product of matrices. Where its columns lie in a row, so do the gradient's.
pub(crate) fn first(grad: &Tensor, second: &Tensor, first: &TensorMeta, alpha: Scalar) -> Result<Tensor> {
    let product = match is_column_major(first) {
        true => second.conj()?.mm(&grad.t()?)?.t()?,
        false => grad.mm(&second.t()?.conj()?)?,
    };
    scaled(product, alpha)
}

/// Of the second factor, likewise.
pub(crate) fn second(grad: &Tensor, first: &Tensor, second: &TensorMeta, alpha: Scalar) -> Result<Tensor> {
    let product = match is_column_major(second) {
        true => grad.t()?.mm(&first.conj()?)?.t()?,
        false => first.t()?.conj()?.mm(grad)?,
    };
    scaled(product, alpha)
}

fn is_column_major(matrix: &TensorMeta) -> bool {
    let (sizes, strides) = (matrix.sizes(), matrix.strides());
    strides[0] == 1 && strides[1] == sizes[0]
}

/// Of the first factor of a batch of products.
pub(crate) fn batched_first(grad: &Tensor, second: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(grad.bmm(&second.transpose(1, 2)?.conj()?)?, alpha)
}

/// Of the second factor of a batch of products.
pub(crate) fn batched_second(grad: &Tensor, first: &Tensor, alpha: Scalar) -> Result<Tensor> {
    scaled(first.transpose(1, 2)?.conj()?.bmm(grad)?, alpha)
}

/// The gradient of a sum over batches, for each of them.
pub(crate) fn per_batch(grad: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes = grad.sizes();
    grad.unsqueeze(0)?.expand(&[batch[0], sizes[0], sizes[1]])
}
