//! Views in new memory, where the view is not simply copied, and what all of them share.

use super::Dest;
use super::view::{split, split_with_sizes, unbind};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels;
use crate::tensor::{New, Tensor};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("view_copy", view_copy)?;
    lib.all_backends("view_copy.out", |x: &Tensor, size: &[i64], out: &Tensor| -> Result<()> {
        copy_out(&view_copy(x, size)?, out)
    })?;
    lib.all_backends("narrow_copy", |x: &Tensor, dim: i64, start: i64, length: i64| -> Result<Tensor> {
        copied(&x.part(|place| place.narrow(dim, start, length))?)
    })?;
    lib.all_backends("narrow_copy.out", |x: &Tensor, dim: i64, start: i64, length: i64, out: &Tensor| {
        copy_out(&x.part(|place| place.narrow(dim, start, length))?, out)
    })?;
    lib.all_backends("split_copy.Tensor", |x: &Tensor, size: i64, dim: i64| {
        all_copied(&split(x, size, dim)?)
    })?;
    lib.all_backends("split_copy.Tensor_out", |x: &Tensor, size: i64, dim: i64, out: &[Tensor]| {
        copy_all_out(&split(x, size, dim)?, out)
    })?;
    lib.all_backends("split_with_sizes_copy", |x: &Tensor, sizes: &[i64], dim: i64| {
        all_copied(&split_with_sizes(x, sizes, dim)?)
    })?;
    lib.all_backends("split_with_sizes_copy.out", |x: &Tensor, sizes: &[i64], dim: i64, out: &[Tensor]| {
        copy_all_out(&split_with_sizes(x, sizes, dim)?, out)
    })?;
    lib.all_backends("unbind_copy.int", |x: &Tensor, dim: i64| all_copied(&unbind(x, dim)?))?;
    lib.all_backends("unbind_copy.int_out", |x: &Tensor, dim: i64, out: &[Tensor]| {
        copy_all_out(&unbind(x, dim)?, out)
    })
}

/// A row-major copy.
pub(super) fn copied(view: &Tensor) -> Result<Tensor> {
    let copy = New::contiguous(view.sizes(), view.dtype(), view.device()).make()?;
    kernels::copy_fresh(&copy, view)?;
    Ok(copy)
}

/// Copies a view into a tensor that is given, and resized where it must be.
pub(super) fn copy_out(view: &Tensor, out: &Tensor) -> Result<()> {
    let new = New::contiguous(view.sizes(), view.dtype(), view.device());
    let output = Dest::Out(out).output(new, &[view])?;
    if !output.is_meta() {
        output.copy_from(view)?;
    }
    output.finish().map(drop)
}

/// Unlike the other copies, this one takes every shape with as many elements.
fn view_copy(x: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = crate::shape::infer_size(size, x.numel())?;
    let copy = copied(x)?;
    copy.rearranged(|geometry, own| geometry.reshaped(own, &sizes, copy.dtype()))
}

fn all_copied(views: &[Tensor]) -> Result<Vec<Tensor>> {
    views.iter().map(copied).collect()
}

fn copy_all_out(views: &[Tensor], out: &[Tensor]) -> Result<()> {
    if views.len() != out.len() {
        return Err(Error::invalid_argument(format!(
            "expected a list of {} tensors for out, but got {}",
            views.len(),
            out.len()
        )));
    }
    views.iter().zip(out).try_for_each(|(view, out)| copy_out(view, out))
}
