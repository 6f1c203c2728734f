//! Copies between tensors of one shape, of any strides, dtypes and devices.

use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::{cpu, hooked};
use crate::ops::Dest;
use crate::tensor::Tensor;
use crate::view::Strided;

/// Copies the elements of `src`, broadcast, to `dest`, converted to its dtype.
pub(crate) fn copy(dest: &Tensor, src: &Tensor) -> Result<()> {
    if dest.is_meta() || dest.is_same(src) {
        return Ok(());
    }
    if src.is_meta() {
        // PyTorch's text.
        return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!"));
    }
    let broadcast;
    let src = if dest.sizes() == src.sizes() {
        src
    } else {
        broadcast = Strided::of(src).expand(&dest.sizes())?.view(src)?;
        &broadcast
    };
    if !dest.device().is_cpu() || !src.device().is_cpu() {
        return hooked::copy(dest, src);
    }
    if let Some(dtype) = cpu::copy::way_between(src.dtype(), dest.dtype()) {
        return copy(dest, &src.to_dtype(dtype)?);
    }
    let iter = TensorIter::unary(Dest::InPlace(dest), src, Config::OWN_DTYPES)?;
    cpu::copy::convert(&iter)?;
    iter.finish().map(drop)
}

/// As [`copy`], to a tensor that was just made.
pub(crate) fn copy_fresh(dest: &Tensor, src: &Tensor) -> Result<()> {
    copy(dest, src)
}
