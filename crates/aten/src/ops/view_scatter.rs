//! A copy of a tensor with a view of it replaced, and gradients of views.

use super::handles;
use super::new_options::{checked_sizes, fill_fresh};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::combine::{Reduction, for_combination};
use crate::kernels::cpu::strided;
use crate::shape;
use crate::tensor::{Dims, Fresh, New, Tensor, access};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_scatters(lib)?;
    register_backward(lib)
}

fn register_scatters(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("select_scatter", |this: &Tensor, src: &Tensor, dim: i64, index: i64| {
        replaced(this, src, |copy| handles::SELECT_INT.call(copy, dim, index))
    })?;
    lib.all_backends(
        "slice_scatter",
        |this: &Tensor, src: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64| {
            replaced(this, src, |copy| handles::SLICE_TENSOR.call(copy, dim, start, end, step))
        },
    )?;
    lib.all_backends(
        "diagonal_scatter",
        |this: &Tensor, src: &Tensor, offset: i64, dim1: i64, dim2: i64| {
            replaced(this, src, |copy| handles::DIAGONAL.call(copy, offset, dim1, dim2))
        },
    )?;
    lib.all_backends(
        "as_strided_scatter",
        |this: &Tensor, src: &Tensor, size: &[i64], stride: &[i64], offset: Option<i64>| {
            as_strided_scatter(this, src, size, stride, offset)
        },
    )
}

fn register_backward(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("select_backward", |grad: &Tensor, sizes: &[i64], dim: i64, index: i64| {
        embedded(grad, sizes, |zeros| handles::SELECT_INT.call(zeros, dim, index))
    })?;
    lib.all_backends(
        "slice_backward",
        |grad: &Tensor, sizes: &[i64], dim: i64, start: i64, end: i64, step: i64| {
            embedded(grad, sizes, |zeros| {
                handles::SLICE_TENSOR.call(zeros, dim, Some(start), Some(end), step)
            })
        },
    )?;
    lib.all_backends(
        "diagonal_backward",
        |grad: &Tensor, sizes: &[i64], offset: i64, dim1: i64, dim2: i64| {
            embedded(grad, sizes, |zeros| handles::DIAGONAL.call(zeros, offset, dim1, dim2))
        },
    )?;
    lib.cpu_meta("unfold_backward", unfold_backward)
}

/// A copy with the strides of `this`, in which `src` stands where `view` says.
fn replaced(this: &Tensor, src: &Tensor, view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (sizes, strides) = (this.sizes(), this.strides());
    // Elements that share a place cannot be written one by one.
    let overlaps = sizes.iter().zip(&strides).any(|(&size, &stride)| size > 1 && stride == 0);
    let strides = if overlaps { shape::dense_strides_like(&sizes, &strides)? } else { strides };
    let copy = New::strided(sizes, strides, this.dtype(), this.device()).make()?;
    let part = view(&copy)?;
    check_part(&part, src)?;
    if !copy.is_meta() {
        crate::kernels::copy_fresh(&copy, this)?;
        crate::kernels::copy_fresh(&part, src)?;
    }
    Ok(copy)
}

fn check_part(part: &Tensor, src: &Tensor) -> Result<()> {
    if part.sizes() == src.sizes() {
        return Ok(());
    }
    Err(Error::shape(format!(
        "expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
        src.sizes(),
        part.sizes()
    )))
}

/// The view may be of elements that `this` is not: the copy is one of the whole storage.
fn as_strided_scatter(
    this: &Tensor,
    src: &Tensor,
    size: &[i64],
    stride: &[i64],
    offset: Option<i64>,
) -> Result<Tensor> {
    let (storage, dtype) = (this.storage(), this.dtype());
    let numel = (storage.nbytes() / dtype.element_size()) as i64;
    let whole = Tensor::from_storage(storage, dtype, &[numel], &[1], 0)?;
    let copy = New::contiguous([numel], dtype, this.device()).make()?;
    let result = copy.view_of(this.sizes(), this.strides(), this.storage_offset())?;
    let part = handles::AS_STRIDED.call(&result, size, stride, offset)?;
    check_part(&part, src)?;
    if !copy.is_meta() {
        crate::kernels::copy_fresh(&copy, &whole)?;
        crate::kernels::copy_fresh(&part, src)?;
    }
    Ok(result)
}

/// Zeros, in which the gradient stands where `view` says.
fn embedded(grad: &Tensor, sizes: &[i64], view: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let zeros = New::contiguous(checked_sizes(sizes)?, grad.dtype(), grad.device()).make()?;
    fill_fresh(&zeros, 0.into())?;
    let part = view(&zeros)?;
    shape::broadcast(&part.sizes(), &grad.sizes())?;
    if !zeros.is_meta() {
        crate::kernels::copy_fresh(&part, grad)?;
    }
    Ok(zeros)
}

/// The sum of the gradients of all windows that an element is in.
fn unfold_backward(grad: &Tensor, sizes: &[i64], dim: i64, size: i64, step: i64) -> Result<Tensor> {
    let sizes = checked_sizes(sizes)?;
    let out = New::contiguous(sizes.clone(), grad.dtype(), grad.device()).make()?;
    fill_fresh(&out, 0.into())?;
    if sizes.is_empty() {
        crate::kernels::copy_fresh(&out, &grad.view_of(Dims::new(), Dims::new(), grad.storage_offset())?)?;
        return Ok(out);
    }
    let dim = shape::wrap_dim(dim, sizes.len())?;
    let unfolded = handles::UNFOLD.call(&out, dim as i64, size, step)?;
    if unfolded.sizes() != grad.sizes() {
        return Err(Error::shape(format!(
            "the gradient of windows {:?} is not of sizes {:?}",
            unfolded.sizes(),
            grad.sizes()
        )));
    }
    if out.is_meta() {
        return Ok(out);
    }
    let strides = unfolded.strides();
    for_combination!(grad.dtype(), "unfold_backward", Reduction::Sum, T, f => {
        access([grad], [&out], Fresh::Yes, |[src], [to]| {
            let (elements, to) = (src.elements::<T>()?, to.elements::<T>()?);
            strided::for_each(src.sizes(), [&strides, src.strides()], |[o, s]| to[o] = f(to[o], elements[s]));
            Ok(())
        })
    })?;
    Ok(out)
}
