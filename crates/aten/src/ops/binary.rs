//! Operators of two tensors, element by element.

use c10_core::Scalar;

use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, add_tensor, (a: &Tensor, b: &Tensor, alpha: Scalar),
        functional "add.Tensor", inplace "add_.Tensor", out "add.out");
    register_triple!(lib, add_scalar, (a: &Tensor, b: Scalar, alpha: Scalar),
        functional "add.Scalar", inplace "add_.Scalar");
    Ok(())
}

fn add_tensor(dest: Dest<'_>, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Made> {
    add(dest, a, b.into(), alpha)
}

fn add_scalar(dest: Dest<'_>, a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Made> {
    add(dest, a, b.into(), alpha)
}

fn add(dest: Dest<'_>, a: &Tensor, b: Input<'_>, alpha: Scalar) -> Result<Made> {
    let iter = TensorIter::binary(dest, a, b, Config::PROMOTE)?;
    check_alpha(iter.common_dtype(), alpha)?;
    if !iter.is_meta() {
        cpu::binary::add(&iter, alpha)?;
    }
    iter.finish()
}

/// `alpha` must be of a category that the result has (`alpha_check`).
pub(super) fn check_alpha(dtype: c10_core::ScalarType, alpha: Scalar) -> Result<()> {
    if alpha.is_bool() && dtype != c10_core::ScalarType::Bool {
        return Err(Error::dtype("Boolean alpha only supported for Boolean results."));
    }
    if !dtype.is_floating_point() && !dtype.is_complex() && !alpha.is_integral(true) {
        return Err(Error::dtype(
            "For integral input tensors, argument alpha must not be a floating point number.",
        ));
    }
    if !dtype.is_complex() && alpha.is_complex() {
        return Err(Error::dtype(
            "For non-complex input tensors, argument alpha must not be a complex number.",
        ));
    }
    Ok(())
}
