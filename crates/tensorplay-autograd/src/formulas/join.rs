//! Gradients of tensors that are joined and repeated.

use aten::{Result, Tensor};

use super::shape;
use crate::saved::TensorMeta;

/// Of `cat`: to each tensor its part. Tensors of sizes `[0]` take part in no other rank's `cat`.
pub(crate) fn cat_backward(
    grad: &Tensor,
    tensors: &[TensorMeta],
    dim: i64,
    wants: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let dim = shape::wrapped(dim, grad.rank());
    let mut start = 0;
    let part = |(tensor, is_wanted): (&TensorMeta, &bool)| {
        let sizes = tensor.sizes();
        if sizes[..] == [0] {
            return is_wanted.then(|| shape::zeros(tensor)).transpose();
        }
        let at = start;
        start += sizes[dim];
        is_wanted.then(|| grad.narrow(dim as i64, at, sizes[dim])).transpose()
    };
    tensors.iter().zip(wants).map(part).collect()
}

/// Of `stack`: to each tensor its place.
pub(crate) fn stack_backward(grad: &Tensor, dim: i64, wants: &[bool]) -> Result<Vec<Option<Tensor>>> {
    let part = |(at, is_wanted): (i64, &bool)| is_wanted.then(|| grad.select(dim, at)).transpose();
    (0..).zip(wants).map(part).collect()
}

/// Of `block_diag`: to each tensor its block.
pub(crate) fn block_diag_backward(
    grad: &Tensor,
    tensors: &[TensorMeta],
    wants: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let (mut row, mut column) = (0, 0);
    let part = |(tensor, is_wanted): (&TensorMeta, &bool)| {
        let sizes = tensor.sizes();
        let (rows, columns) = match sizes[..] {
            [] => (1, 1),
            [columns] => (1, columns),
            [rows, columns, ..] => (rows, columns),
        };
        let (at_row, at_column) = (row, column);
        (row, column) = (row + rows, column + columns);
        let block = || grad.narrow(0, at_row, rows)?.narrow(1, at_column, columns)?.reshape(&sizes);
        is_wanted.then(block).transpose()
    };
    tensors.iter().zip(wants).map(part).collect()
}

/// Of `repeat`: the sum over all repetitions.
pub(crate) fn repeat_backward(grad: &Tensor, sizes: &[i64], repeats: &[i64]) -> Result<Tensor> {
    if repeats.is_empty() {
        return Ok(grad.clone());
    }
    let new = repeats.len() - sizes.len();
    let mut parts = Vec::with_capacity(repeats.len() + sizes.len());
    let mut repetitions = Vec::with_capacity(repeats.len());
    for (at, times) in repeats.iter().enumerate() {
        repetitions.push(parts.len() as i64);
        parts.push(*times);
        if at >= new {
            parts.push(sizes[at - new]);
        }
    }
    grad.reshape(&parts)?.sum_dim(Some(&repetitions))
}

/// The shifts back.
pub(crate) fn negated(shifts: &[i64]) -> Vec<i64> {
    shifts.iter().map(|shift| shift.wrapping_neg()).collect()
}
