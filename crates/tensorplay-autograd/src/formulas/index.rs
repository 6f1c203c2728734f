//! Gradients of what reads and writes elements by index.

use aten::ops::handles;
use aten::{Result, Tensor};

use super::shape;
use crate::saved::TensorMeta;

/// Of `gather`: each element's gradient goes back, and those of one element are added.
pub(crate) fn gather_backward(grad: &Tensor, input: &TensorMeta, dim: i64, index: &Tensor) -> Result<Tensor> {
    shape::zeros(input)?.scatter_add(dim, index, grad)
}

/// Of `index`.
pub(crate) fn index_backward(
    grad: &Tensor,
    input: &TensorMeta,
    indices: &[Option<Tensor>],
) -> Result<Tensor> {
    handles::INDEX_PUT.call(&shape::zeros(input)?, indices, grad, true)
}

/// Of `index_put` for what is written into: zeros at what was overwritten.
pub(crate) fn overwritten(grad: &Tensor, indices: &[Option<Tensor>], accumulate: bool) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    handles::INDEX_PUT.call(grad, indices, &shape::zero_of(grad)?, false)
}

/// Of `index_select`.
pub(crate) fn index_select_backward(
    grad: &Tensor,
    input: &TensorMeta,
    dim: i64,
    index: &Tensor,
) -> Result<Tensor> {
    shape::zeros(input)?.index_add(dim, index, grad)
}

/// Of `index_add` and `index_copy` for what they write.
pub(crate) fn source_backward(grad: &Tensor, source: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    match source.is_empty() {
        true => grad.index_select(dim, &index.squeeze_dim(0)?),
        false => grad.index_select(dim, index)?.expand(source),
    }
}

/// Of `index_fill` for the value: the sum at the places that it went to, each once.
pub(crate) fn filled_backward(grad: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let (once, _) = handles::_UNIQUE.call(index, false, false)?;
    grad.index_select(dim, &once)?.sum()
}

/// Of `put` for what is written into.
pub(crate) fn put_backward(
    grad: &Tensor,
    source: &TensorMeta,
    index: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    if accumulate {
        return Ok(grad.clone());
    }
    handles::PUT.call(grad, index, &shape::zeros(source)?, false)
}

/// Of what gives elements of each line and their places in it.
pub(crate) fn selected_backward(
    grad: &Tensor,
    input: &TensorMeta,
    dim: i64,
    places: &Tensor,
    keepdim: bool,
) -> Result<Tensor> {
    let zeros = shape::zeros(input)?;
    match keepdim || input.rank() == 0 {
        true => zeros.scatter_src(dim, places, grad),
        false => zeros.scatter_src(dim, &places.unsqueeze(dim)?, &grad.unsqueeze(dim)?),
    }
}
