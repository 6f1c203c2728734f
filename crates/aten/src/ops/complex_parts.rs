//! Complex numbers of two real ones.

use super::dtypes::Dtypes;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::complex_parts as loops;
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, cartesian, (re: &Tensor, im: &Tensor), functional "complex", out "complex.out");
    register_triple!(lib, polar, (size: &Tensor, angle: &Tensor), functional "polar", out "polar.out");
    Ok(())
}

fn cartesian(dest: Dest<'_>, re: &Tensor, im: &Tensor) -> Result<Made> {
    of_two(dest, re, im, loops::cartesian)
}

fn polar(dest: Dest<'_>, size: &Tensor, angle: &Tensor) -> Result<Made> {
    of_two(dest, size, angle, loops::polar)
}

fn of_two(dest: Dest<'_>, a: &Tensor, b: &Tensor, kernel: fn(&TensorIter<'_>) -> Result<()>) -> Result<Made> {
    let takes = |tensor: &Tensor| {
        let dtype = tensor.dtype();
        Dtypes::WIDE_FLOATS.contains(dtype) || dtype == c10_core::ScalarType::Float16
    };
    if !takes(a) || !takes(b) {
        return Err(Error::not_implemented(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.dtype().c10_name(),
            b.dtype().c10_name()
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::dtype(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.dtype().c10_name(),
            b.dtype().c10_name()
        )));
    }
    let dtype = a.dtype().to_complex()?;
    if let Some(out) = dest.given()
        && out.dtype() != dtype
    {
        return Err(Error::dtype(format!(
            "Expected object of scalar type {} but got scalar type {} for argument 'out'",
            dtype.c10_name(),
            out.dtype().c10_name()
        )));
    }
    let iter = TensorIter::binary(dest, a, b, Config::SAME.with_output_dtype(dtype))?;
    if !iter.is_meta() {
        kernel(&iter)?;
    }
    iter.finish()
}
