//! Gradients of views.

use aten::{Result, Tensor, TensorOptions};

use super::shape;
use crate::saved::TensorMeta;

/// Of `as_strided`: each element of the gradient goes to the places of the argument's storage that it came from.
///
/// The memory that either geometry spans is laid out, the gradient is added to it, and what the argument sees of it is
/// taken out. Where the argument sees a place more than once, each sight gets its part, so that the sum is right.
pub(crate) fn as_strided_backward(
    grad: &Tensor,
    input: &TensorMeta,
    sizes: &[i64],
    strides: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let out_offset = offset.unwrap_or(input.storage_offset());
    let span = |sizes: &[i64], strides: &[i64]| -> i64 {
        if sizes.contains(&0) {
            return 0;
        }
        1 + sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>()
    };
    let (in_sizes, in_strides) = (input.sizes(), input.strides());
    if grad.numel() == 0 || input.numel() == 0 {
        return shape::zeros(input);
    }
    let base = input.storage_offset().min(out_offset);
    let end = (input.storage_offset() + span(&in_sizes, &in_strides)).max(out_offset + span(sizes, strides));
    let options = TensorOptions::default().dtype(grad.dtype()).device(grad.device());
    let places = |sizes: &[i64], strides: &[i64], offset: i64| -> Result<Tensor> {
        let all = Tensor::arange(end - base, TensorOptions::default().device(grad.device()))?;
        aten::ops::handles::AS_STRIDED.call(&all, sizes, strides, Some(offset - base))?.reshape(&[-1])
    };
    let memory = Tensor::zeros(&[end - base], options)?;
    let memory = memory.index_add(0, &places(sizes, strides, out_offset)?, &grad.reshape(&[-1])?)?;
    let seen = places(&in_sizes, &in_strides, input.storage_offset())?;
    let counts = Tensor::zeros(&[end - base], options)?.index_add(
        0,
        &seen,
        &Tensor::ones(&[seen.numel()], options)?,
    )?;
    let given = memory.index_select(0, &seen)?;
    given.div(&counts.index_select(0, &seen)?)?.reshape(&in_sizes)
}
