//! The least and the greatest elements, and where they are.

use c10_core::ScalarType;

use super::reduction::{Reduction, check_out_dtype};
use super::{Dest, Made, Output, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::{self, dispatch};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::reduce::{self, Ordered, Side};
use crate::tensor::Tensor;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, amax, (x: &Tensor, dims: &[i64], keepdim: bool), functional "amax", out "amax.out");
    register_triple!(lib, amin, (x: &Tensor, dims: &[i64], keepdim: bool), functional "amin", out "amin.out");
    register_triple!(lib, argmax, (x: &Tensor, dim: Option<i64>, keepdim: bool),
        functional "argmax", out "argmax.out");
    register_triple!(lib, argmin, (x: &Tensor, dim: Option<i64>, keepdim: bool),
        functional "argmin", out "argmin.out");
    register_triple!(lib, max, (x: &Tensor), functional "max", out "max.unary_out");
    register_triple!(lib, min, (x: &Tensor), functional "min", out "min.unary_out");
    register_triple!(lib, max_other, (a: &Tensor, b: &Tensor), functional "max.other", out "max.out");
    register_triple!(lib, min_other, (a: &Tensor, b: &Tensor), functional "min.other", out "min.out");
    for (side, name, out_name) in
        [(Side::Greatest, "max.dim", "max.dim_max"), (Side::Least, "min.dim", "min.dim_min")]
    {
        lib.cpu_meta(name, move |x: &Tensor, dim: i64, keepdim: bool| -> Result<(Tensor, Tensor)> {
            let (values, indices) = with_index([Dest::New; 2], x, dim, keepdim, side)?;
            Ok((values.new_tensor(), indices.new_tensor()))
        })?;
        lib.cpu_meta(
            out_name,
            move |x: &Tensor, dim: i64, keepdim: bool, values: &Tensor, indices: &Tensor| -> Result<()> {
                with_index([Dest::Out(values), Dest::Out(indices)], x, dim, keepdim, side).map(drop)
            },
        )?;
    }
    lib.cpu_meta("aminmax", |x: &Tensor, dim: Option<i64>, keepdim: bool| -> Result<(Tensor, Tensor)> {
        let (min, max) = aminmax([Dest::New; 2], x, dim, keepdim)?;
        Ok((min.new_tensor(), max.new_tensor()))
    })?;
    lib.cpu_meta(
        "aminmax.out",
        |x: &Tensor, dim: Option<i64>, keepdim: bool, min: &Tensor, max: &Tensor| -> Result<()> {
            aminmax([Dest::Out(min), Dest::Out(max)], x, dim, keepdim).map(drop)
        },
    )
}

fn amax(dest: Dest<'_>, x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Made> {
    extremum(dest, x, dims, keepdim, Side::Greatest, "amax")
}

fn amin(dest: Dest<'_>, x: &Tensor, dims: &[i64], keepdim: bool) -> Result<Made> {
    extremum(dest, x, dims, keepdim, Side::Least, "amin")
}

fn max(dest: Dest<'_>, x: &Tensor) -> Result<Made> {
    extremum(dest, x, &[], false, Side::Greatest, "max")
}

fn min(dest: Dest<'_>, x: &Tensor) -> Result<Made> {
    extremum(dest, x, &[], false, Side::Least, "min")
}

fn extremum(dest: Dest<'_>, x: &Tensor, dims: &[i64], keepdim: bool, side: Side, name: &str) -> Result<Made> {
    check_real(x, name)?;
    let reduction = Reduction::dims_or_all(x, Some(dims), keepdim)?;
    reduction.check_not_empty(x, name, dims.is_empty())?;
    check_out_dtype(dest, x.dtype())?;
    reduction.run(dest, x.dtype(), kernel_dtype(x), x, |out| reduce::extremum(x, out, &reduction.mask, side))
}

/// Truth values are compared as bytes.
fn kernel_dtype(x: &Tensor) -> ScalarType {
    if x.dtype() == ScalarType::Bool { ScalarType::UInt8 } else { x.dtype() }
}

fn check_real(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_complex() {
        return Err(Error::dtype(format!("{name}(): does not support complex input")));
    }
    Ok(())
}

fn argmax(dest: Dest<'_>, x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Made> {
    arg(dest, x, dim, keepdim, Side::Greatest, "argmax")
}

fn argmin(dest: Dest<'_>, x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<Made> {
    arg(dest, x, dim, keepdim, Side::Least, "argmin")
}

fn arg(dest: Dest<'_>, x: &Tensor, dim: Option<i64>, keepdim: bool, side: Side, name: &str) -> Result<Made> {
    check_real(x, name)?;
    let reduction = Reduction::dim_or_all(x, dim, keepdim)?;
    reduction.check_not_empty(x, name, dim.is_none())?;
    if x.dtype() == ScalarType::Bool {
        return Err(Error::not_implemented(format!("\"{name}_cpu\" not implemented for 'Bool'")));
    }
    let dtype = ScalarType::Int64;
    check_out_dtype(dest, dtype)?;
    reduction.run(dest, dtype, dtype, x, |out| reduce::arg_extremum(x, out, &reduction.mask, side))
}

fn with_index(
    [values, indices]: [Dest<'_>; 2],
    x: &Tensor,
    dim: i64,
    keepdim: bool,
    side: Side,
) -> Result<(Made, Made)> {
    let name = if side == Side::Greatest { "max" } else { "min" };
    check_real(x, name)?;
    let reduction = Reduction::dim(x, dim, keepdim)?;
    reduction.check_not_empty(x, name, false)?;
    check_out_dtype(values, x.dtype())?;
    check_out_dtype(indices, ScalarType::Int64)?;
    let indices = reduction.output(indices, ScalarType::Int64, x)?;
    run_two(&reduction, values, x, |values| {
        reduce::extremum_with_index(x, [values, &indices], &reduction.mask, side)
    })
    .and_then(|values| Ok((values, indices.finish()?)))
}

fn aminmax([min, max]: [Dest<'_>; 2], x: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(Made, Made)> {
    check_real(x, "aminmax")?;
    let reduction = Reduction::dim_or_all(x, dim, keepdim)?;
    if x.numel() == 0 && dim.is_none() {
        return Err(Error::invalid_argument(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
        ));
    }
    reduction.check_not_empty(x, "aminmax", false)?;
    check_out_dtype(min, x.dtype())?;
    check_out_dtype(max, x.dtype())?;
    let (made_max, dtype) = (reduction.output(Dest::New, kernel_dtype(x), x)?, x.dtype());
    let min = run_two(&reduction, min, x, |min| reduce::min_and_max(x, [min, &made_max], &reduction.mask))?;
    let max = reduction.run(max, dtype, dtype, x, |out| out.copy_from(made_max.tensor()))?;
    Ok((min, max))
}

/// The first of two results, which are made together.
fn run_two(
    reduction: &Reduction,
    dest: Dest<'_>,
    x: &Tensor,
    kernel: impl FnOnce(&Output<'_>) -> Result<()>,
) -> Result<Made> {
    reduction.run(dest, x.dtype(), kernel_dtype(x), x, kernel)
}

fn max_other(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    of_two(dest, a, b, Side::Greatest)
}

fn min_other(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    of_two(dest, a, b, Side::Least)
}

fn of_two(dest: Dest<'_>, a: &Tensor, b: &Tensor, side: Side) -> Result<Made> {
    let greatest = side == Side::Greatest;
    let name = if greatest { "maximum" } else { "minimum" };
    if a.dtype().is_complex() || b.dtype().is_complex() {
        return Err(Error::not_implemented(format!("{name} not implemented for complex tensors.")));
    }
    let iter = TensorIter::binary(dest, a, b, Config::PROMOTE)?;
    if !iter.is_meta() {
        if iter.common_dtype() == ScalarType::Bool {
            loops::binary(&iter, |a: bool, b: bool| if greatest { a || b } else { a && b })?;
        } else {
            dispatch!(
                iter.common_dtype(),
                name,
                [u8, i8, i16, i32, i64, c10_core::f16, c10_core::bf16, f32, f64],
                T => loops::binary(&iter, |a: T, b: T| {
                    let beyond = if greatest { b > a } else { b < a };
                    if Ordered::is_nan(b) || (beyond && !Ordered::is_nan(a)) { b } else { a }
                })
            )?;
        }
    }
    iter.finish()
}
