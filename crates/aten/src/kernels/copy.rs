//! Copies between tensors of one shape, of any strides, dtypes and devices.

use std::borrow::Cow;

use c10_core::Device;

use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::{cpu, hooked};
use crate::ops::Dest;
use crate::tensor::{Fresh, New, Tensor};

/// Copies the elements of `src`, broadcast, to `dest`, converted to its dtype. It counts a write.
pub(crate) fn copy(dest: &Tensor, src: &Tensor) -> Result<()> {
    copy_as(dest, src, Fresh::No)
}

/// As [`copy`], to a tensor that was just made, or a view of it: its version stays.
pub(crate) fn copy_fresh(dest: &Tensor, src: &Tensor) -> Result<()> {
    copy_as(dest, src, Fresh::Yes)
}

fn copy_as(dest: &Tensor, src: &Tensor, fresh: Fresh) -> Result<()> {
    if dest.is_meta() || dest.is_same(src) {
        return Ok(());
    }
    if dest.has_math_bits() || src.has_math_bits() {
        return copy_with_bits(dest, src, fresh);
    }
    if src.is_meta() {
        // PyTorch's text.
        return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!"));
    }
    let src = &*broadcast(src, dest)?;
    if !dest.device().is_cpu() || !src.device().is_cpu() {
        return hooked::copy(dest, src);
    }
    if let Some(dtype) = cpu::copy::way_between(src.dtype(), dest.dtype()) {
        return copy_as(dest, &src.to_dtype(dtype)?, fresh);
    }
    apply(dest, src, fresh, cpu::copy::convert)
}

/// `dest = kernel(src)`, each in its own dtype.
fn apply(
    dest: &Tensor,
    src: &Tensor,
    fresh: Fresh,
    kernel: impl FnOnce(&TensorIter<'_>) -> Result<()>,
) -> Result<()> {
    let config = Config { fresh_outputs: fresh == Fresh::Yes, ..Config::OWN_DTYPES };
    let iter = TensorIter::unary(Dest::InPlace(dest), src, config)?;
    kernel(&iter)?;
    iter.finish().map(drop)
}

fn broadcast<'a>(src: &'a Tensor, dest: &Tensor) -> Result<Cow<'a, Tensor>> {
    if dest.sizes() == src.sizes() {
        return Ok(Cow::Borrowed(src));
    }
    Ok(Cow::Owned(src.viewed(|place| place.expand(&dest.sizes()))?))
}

/// [`copy`] of stored elements to stored elements, conjugated and negated where the bits of both differ: after the
/// conversion, as in PyTorch.
fn copy_with_bits(dest: &Tensor, src: &Tensor, fresh: Fresh) -> Result<()> {
    let is_conj = dest.dtype().is_complex() && dest.is_conj() != src.is_conj();
    let is_neg = dest.is_neg() != src.is_neg();
    let (dest, src) = (dest.as_stored(), src.as_stored());
    let kernel = match (is_conj, is_neg) {
        (false, false) => return copy_as(&dest, &src, fresh),
        (true, false) => cpu::conj::conj,
        (false, true) => cpu::rounding::neg,
        (true, true) => cpu::conj::negated_conj,
    };
    if dest.dtype() == src.dtype() && dest.device().is_cpu() && src.device().is_cpu() {
        return apply(&dest, &*broadcast(&src, &dest)?, fresh, kernel);
    }
    let staged = New::contiguous(dest.sizes(), dest.dtype(), Device::CPU).make()?;
    copy_fresh(&staged, &src)?;
    apply(&staged, &staged, Fresh::Yes, kernel)?;
    copy_as(&dest, &staged, fresh)
}
