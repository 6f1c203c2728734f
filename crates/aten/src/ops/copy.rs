//! Copies: of a tensor as it is, converted, or into another.

use c10_core::MemoryFormat;

use super::Dest;
use super::view_copy::copy_out;
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::tensor::{Dims, New, Tensor};
use crate::view::Strided;
use crate::{kernels, shape};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    lib.all_backends("clone", clone)?;
    lib.all_backends("clone.out", |x: &Tensor, format: Option<MemoryFormat>, out: &Tensor| -> Result<()> {
        strides_in(x, format)?;
        copy_out(x, out)
    })?;
    lib.all_backends("copy_", |x: &Tensor, src: &Tensor, _non_blocking: bool| copy_(x, src))?;
    lib.all_backends("copy_.Tensor", copy_)?;
    lib.all_backends("copy", |x: &Tensor, src: &Tensor, _non_blocking: bool| copied_from(x, src))?;
    lib.all_backends(
        "copy.out",
        |x: &Tensor, src: &Tensor, _non_blocking: bool, out: &Tensor| -> Result<()> {
            copy_out(&copied_from(x, src)?, out)
        },
    )?;
    lib.composite("contiguous", contiguous)?;
    lib.composite("lift_fresh", |x: &Tensor| -> Result<Tensor> { Ok(x.clone()) })?;
    lib.all_backends("lift", |x: &Tensor| -> Result<Tensor> { Ok(x.clone()) })?;
    lib.all_backends("lift_fresh_copy", |x: &Tensor| clone(x, None))?;
    lib.all_backends("lift_fresh_copy.out", copy_out)?;
    lib.all_backends("_local_scalar_dense", Tensor::item)?;
    lib.composite("item", |x: &Tensor| -> Result<c10_core::Scalar> {
        match x.numel() {
            1 => super::handles::_LOCAL_SCALAR_DENSE.call(x),
            numel => {
                Err(Error::shape(format!("a Tensor with {numel} elements cannot be converted to Scalar")))
            }
        }
    })
}

/// The strides of a copy in a memory format. Without one, and in `Preserve`, those of the tensor where they are
/// dense, else dense ones in the same order.
pub(super) fn strides_in(x: &Tensor, format: Option<MemoryFormat>) -> Result<Dims> {
    match format {
        None | Some(MemoryFormat::Preserve) => x.dense_strides(),
        Some(format) => shape::strides_of_format(&x.sizes(), format),
    }
}

pub(super) fn clone(x: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    let copy = New::strided(x.sizes(), strides_in(x, format)?, x.dtype(), x.device()).make()?;
    kernels::copy_fresh(&copy, x)?;
    Ok(copy)
}

fn contiguous(x: &Tensor, format: MemoryFormat) -> Result<Tensor> {
    if format == MemoryFormat::Preserve {
        return Err(Error::invalid_argument(
            "preserve memory format is unsupported by the contiguous operator",
        ));
    }
    if x.is_contiguous_in(format) {
        return Ok(x.clone());
    }
    x.deep_clone_with(crate::tensor::DeepCloneOptions { memory_format: Some(format) })
}

fn copy_(x: &Tensor, src: &Tensor) -> Result<()> {
    check_broadcast(x, src)?;
    if x.is_meta() {
        return crate::iter::overlap::check_no_internal_overlap(x);
    }
    kernels::copy(x, src)
}

/// `src` broadcasts to `x`, which keeps its sizes.
fn check_broadcast(x: &Tensor, src: &Tensor) -> Result<()> {
    let (sizes, wanted) = (x.sizes(), src.sizes());
    let broadcast = shape::broadcast(&sizes, &wanted)?;
    if broadcast == sizes {
        return Ok(());
    }
    Err(Error::shape(format!("output with shape {sizes:?} doesn't match the broadcast shape {broadcast:?}")))
}

/// `copy`: the tensor with its strides, and all that its storage holds, in new memory, then written by `src`.
fn copied_from(x: &Tensor, src: &Tensor) -> Result<Tensor> {
    let copy = clone_with_storage(x)?;
    copy_(&copy, src)?;
    Ok(copy)
}

/// `clone_preserve_strides`: the same place in a copy of the storage.
fn clone_with_storage(x: &Tensor) -> Result<Tensor> {
    let geometry = x.geometry();
    let elements = geometry.storage.nbytes() / x.dtype().element_size();
    let overlaps =
        geometry.sizes.iter().zip(&geometry.strides).any(|(&size, &stride)| size > 1 && stride == 0);
    if overlaps {
        return clone(x, None);
    }
    if elements == 0 {
        return New::strided(x.sizes(), x.strides(), x.dtype(), x.device()).make();
    }
    let place = Strided::of(x);
    let whole = x.viewed(|place| place.restrided(&[elements as i64], &[1], Some(0)))?;
    place.view(&clone(&whole, None)?)
}

/// A copy of `x` of another dtype, device and memory format.
pub(super) fn converted(
    x: &Tensor,
    dtype: c10_core::ScalarType,
    device: c10_core::Device,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let copy = New::strided(x.sizes(), strides_in(x, format)?, dtype, device).make()?;
    if !copy.is_meta() {
        kernels::copy_fresh(&copy, x)?;
    }
    Ok(copy)
}

/// As [`converted`], to a tensor that is given.
pub(super) fn converted_out(x: &Tensor, out: &Tensor) -> Result<()> {
    let new = New::contiguous(x.sizes(), out.dtype(), x.device());
    let output = Dest::Out(out).output(new, &[x])?;
    if !output.is_meta() {
        output.copy_from(x)?;
    }
    output.finish().map(drop)
}
