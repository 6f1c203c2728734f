//! Gradients of views.

use aten::ops::handles;
use aten::{Error, Result, Tensor, TensorOptions};

use super::shape;
use crate::node::InputMeta;
use crate::saved::TensorMeta;

/// Of `permute`: the dimensions go back.
pub(crate) fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut back = vec![0; dims.len()];
    for (to, from) in dims.iter().enumerate() {
        back[shape::wrapped(*from, dims.len())] = to as i64;
    }
    grad.permute(&back)
}

/// Of what cuts a dimension into parts: they are joined, zeros for those without a gradient.
pub(crate) fn parts_backward(grads: &[Option<Tensor>], parts: &[InputMeta], dim: i64) -> Result<Tensor> {
    handles::CAT.call(&filled(grads, parts)?, dim)
}

/// Of `unbind`, likewise.
pub(crate) fn unbind_backward(grads: &[Option<Tensor>], parts: &[InputMeta], dim: i64) -> Result<Tensor> {
    handles::STACK.call(&filled(grads, parts)?, dim)
}

fn filled(grads: &[Option<Tensor>], parts: &[InputMeta]) -> Result<Vec<Tensor>> {
    grads.iter().zip(parts).map(|(grad, part)| grad.clone().map_or_else(|| part.zeros(), Ok)).collect()
}

/// Of `as_strided_scatter` for what is written into, as PyTorch has it: what `src` replaced, and zeros elsewhere.
pub(crate) fn as_strided_scatter_backward(
    grad: &Tensor,
    input: &TensorMeta,
    sizes: &[i64],
    strides: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let grad = grad.contiguous()?;
    if input.strides()[..] != grad.strides()[..] {
        return Err(Error::not_implemented(
            "the derivative of as_strided_scatter is for contiguous tensors only",
        ));
    }
    let replaced = handles::AS_STRIDED.call(&grad, sizes, strides, offset)?;
    handles::AS_STRIDED_SCATTER.call(&shape::zeros(input)?, &replaced, sizes, strides, offset)
}

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
    let memory = Tensor::zeros(&[end - base], options)?;
    if !may_overlap(sizes, strides) && !may_overlap(&in_sizes, &in_strides) {
        handles::AS_STRIDED.call(&memory, sizes, strides, Some(out_offset - base))?.copy_(grad)?;
        return handles::AS_STRIDED.call(
            &memory,
            &in_sizes,
            &in_strides,
            Some(input.storage_offset() - base),
        );
    }
    let places = |sizes: &[i64], strides: &[i64], offset: i64| -> Result<Tensor> {
        let all = Tensor::arange(end - base, TensorOptions::default().device(grad.device()))?;
        handles::AS_STRIDED.call(&all, sizes, strides, Some(offset - base))?.reshape(&[-1])
    };
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

/// Whether two elements may be in one place. Where each stride leaps over all that smaller ones reach, none are.
fn may_overlap(sizes: &[i64], strides: &[i64]) -> bool {
    let mut dims: Vec<(i64, i64)> = strides.iter().copied().zip(sizes.iter().copied()).collect();
    dims.retain(|(_, size)| *size != 1);
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|(stride, size)| {
        let is_within = *stride <= reach;
        reach += stride * (size - 1);
        is_within
    })
}
