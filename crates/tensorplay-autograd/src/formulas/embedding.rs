//! The gradient of an embedding's gradient.

use aten::{Result, Tensor};

/// What the rows that were added up are for: those of the padding, for nothing.
pub(crate) fn dense_double_backward(grad: &Tensor, indices: &Tensor, padding_idx: i64) -> Result<Tensor> {
    let mut sizes = indices.sizes();
    sizes.push(grad.sizes()[1]);
    let rows = grad.index_select(0, &indices.reshape(&[-1])?)?.reshape(&sizes)?;
    match padding_idx >= 0 {
        true => rows.masked_fill_scalar(&indices.eq_scalar(padding_idx)?.unsqueeze(-1)?, 0),
        false => Ok(rows),
    }
}
