//! Softmax and its logarithm.

use c10_core::ScalarType;

use super::reduction::{check_out_dtype, dim_of, split_at};
use super::{Dest, Made, handles, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::kernels::cpu::softmax::{self, Kind};
use crate::tensor::{New, Tensor};

type Dtype = Option<ScalarType>;

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, softmax, (x: &Tensor, dim: i64, half_to_float: bool),
        functional "_softmax", out "_softmax.out");
    register_triple!(lib, log_softmax, (x: &Tensor, dim: i64, half_to_float: bool),
        functional "_log_softmax", out "_log_softmax.out");
    register_triple!(lib, softmax_backward, (grad: &Tensor, result: &Tensor, dim: i64, dtype: ScalarType),
        functional "_softmax_backward_data", out "_softmax_backward_data.out");
    register_triple!(lib, log_softmax_backward, (grad: &Tensor, result: &Tensor, dim: i64, dtype: ScalarType),
        functional "_log_softmax_backward_data", out "_log_softmax_backward_data.out");
    for name in ["softmax.int", "special_softmax"] {
        lib.composite(name, |x: &Tensor, dim: i64, dtype: Dtype| {
            handles::_SOFTMAX.call(&cast(x, dtype)?, dim, false)
        })?;
    }
    for name in ["log_softmax.int", "special_log_softmax"] {
        lib.composite(name, |x: &Tensor, dim: i64, dtype: Dtype| {
            handles::_LOG_SOFTMAX.call(&cast(x, dtype)?, dim, false)
        })?;
    }
    lib.all_backends("softmax.int_out", |x: &Tensor, dim: i64, dtype: Dtype, out: &Tensor| {
        handles::_SOFTMAX_OUT.call(&cast(x, dtype.or(Some(out.dtype())))?, dim, false, out)
    })?;
    lib.all_backends("log_softmax.int_out", |x: &Tensor, dim: i64, dtype: Dtype, out: &Tensor| {
        handles::_LOG_SOFTMAX_OUT.call(&cast(x, dtype.or(Some(out.dtype())))?, dim, false, out)
    })?;
    lib.cpu_meta("_safe_softmax", safe_softmax)
}

/// The tensor in a dtype, if one is asked for.
fn cast(x: &Tensor, dtype: Dtype) -> Result<Tensor> {
    match dtype {
        Some(dtype) => x.to(dtype),
        None => Ok(x.clone()),
    }
}

fn softmax(dest: Dest<'_>, x: &Tensor, dim: i64, half_to_float: bool) -> Result<Made> {
    forward(dest, x, dim, half_to_float, Kind::Softmax)
}

fn log_softmax(dest: Dest<'_>, x: &Tensor, dim: i64, half_to_float: bool) -> Result<Made> {
    forward(dest, x, dim, half_to_float, Kind::LogSoftmax)
}

fn forward(dest: Dest<'_>, x: &Tensor, dim: i64, half_to_float: bool, kind: Kind) -> Result<Made> {
    let name = if kind == Kind::Softmax { "softmax" } else { "log_softmax" };
    if half_to_float {
        return Err(Error::not_implemented(format!(
            "{name} with half to float conversion is not supported on CPU"
        )));
    }
    if !x.dtype().is_floating_point() {
        return Err(Error::not_implemented(format!(
            "\"{name}_lastdim_kernel_impl\" not implemented for '{}'",
            x.dtype().c10_name()
        )));
    }
    let dim = dim_of(x, dim)?;
    check_out_dtype(dest, x.dtype())?;
    let out = dest.output(New::contiguous(x.sizes(), x.dtype(), x.device()), &[x])?;
    if !out.is_meta() {
        softmax::forward(&x.to_contiguous()?, &out, split_at(&x.sizes(), dim), kind)?;
    }
    out.finish()
}

fn softmax_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    result: &Tensor,
    dim: i64,
    dtype: ScalarType,
) -> Result<Made> {
    backward(dest, grad, result, dim, dtype, Kind::Softmax)
}

fn log_softmax_backward(
    dest: Dest<'_>,
    grad: &Tensor,
    result: &Tensor,
    dim: i64,
    dtype: ScalarType,
) -> Result<Made> {
    backward(dest, grad, result, dim, dtype, Kind::LogSoftmax)
}

fn backward(
    dest: Dest<'_>,
    grad: &Tensor,
    result: &Tensor,
    dim: i64,
    dtype: ScalarType,
    kind: Kind,
) -> Result<Made> {
    if grad.sizes() != result.sizes() || grad.dtype() != result.dtype() {
        return Err(Error::shape(format!(
            "a gradient of sizes {:?} and dtype {} of a result of sizes {:?} and dtype {}",
            grad.sizes(),
            grad.dtype().name(),
            result.sizes(),
            result.dtype().name()
        )));
    }
    if dtype != grad.dtype() {
        return Err(Error::dtype(
            "expected input and grad types to match, or input to be at::Half and grad to be at::Float",
        ));
    }
    let dim = dim_of(grad, dim)?;
    check_out_dtype(dest, dtype)?;
    let out = dest.output(New::contiguous(grad.sizes(), dtype, grad.device()), &[grad, result])?;
    if !out.is_meta() {
        let (grad, result) = (grad.to_contiguous()?, result.to_contiguous()?);
        softmax::backward(&grad, &result, &out, split_at(&grad.sizes(), dim), kind)?;
    }
    out.finish()
}

/// Softmax is NaN for exactly the slices that have no finite element, unless one was NaN or an infinity.
fn safe_softmax(x: &Tensor, dim: i64, dtype: Dtype) -> Result<Tensor> {
    let x = cast(x, dtype)?;
    let made = forward(Dest::New, &x, dim, false, Kind::Softmax)?.new_tensor();
    if !made.is_meta() {
        let split = split_at(&x.sizes(), dim_of(&x, dim)?);
        softmax::clear_masked_slices(&x.to_contiguous()?, &made, split)?;
    }
    Ok(made)
}
