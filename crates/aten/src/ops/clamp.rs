//! Choices between elements, and limits on them.

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::forms::{self, dtype_after};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::dispatch;
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::{binary, pointwise as loops};
use crate::tensor::Tensor;

const LIMITED: Dtypes = Dtypes::NUMBERS.and(Dtypes::WIDE_UNSIGNED);

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, clamp, (a: &Tensor, min: Option<Scalar>, max: Option<Scalar>),
        functional "clamp", inplace "clamp_", out "clamp.out");
    register_triple!(lib, clamp_tensors, (a: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>),
        functional "clamp.Tensor", inplace "clamp_.Tensor", out "clamp.Tensor_out");
    register_triple!(lib, clamp_min, (a: &Tensor, min: Scalar),
        functional "clamp_min", inplace "clamp_min_", out "clamp_min.out");
    register_triple!(lib, clamp_max, (a: &Tensor, max: Scalar),
        functional "clamp_max", inplace "clamp_max_", out "clamp_max.out");
    register_triple!(lib, clamp_min_tensor, (a: &Tensor, min: &Tensor),
        functional "clamp_min.Tensor", inplace "clamp_min_.Tensor", out "clamp_min.Tensor_out");
    register_triple!(lib, clamp_max_tensor, (a: &Tensor, max: &Tensor),
        functional "clamp_max.Tensor", inplace "clamp_max_.Tensor", out "clamp_max.Tensor_out");
    register_triple!(lib, where_tensors, (condition: &Tensor, a: &Tensor, b: &Tensor),
        functional "where.self", out "where.self_out");
    register_triple!(lib, where_other, (condition: &Tensor, a: &Tensor, b: Scalar), functional "where.ScalarOther");
    register_triple!(lib, where_self, (condition: &Tensor, a: Scalar, b: &Tensor), functional "where.ScalarSelf");
    register_triple!(lib, where_numbers, (condition: &Tensor, a: Scalar, b: Scalar), functional "where.Scalar");
    Ok(())
}

fn clamp_min(dest: Dest<'_>, a: &Tensor, min: Scalar) -> Result<Made> {
    clamp(dest, a, Some(min), None)
}

fn clamp_max(dest: Dest<'_>, a: &Tensor, max: Scalar) -> Result<Made> {
    clamp(dest, a, None, Some(max))
}

fn clamp(dest: Dest<'_>, a: &Tensor, min: Option<Scalar>, max: Option<Scalar>) -> Result<Made> {
    if min.is_none() && max.is_none() {
        return Err(Error::invalid_argument("torch.clamp: At least one of 'min' or 'max' must not be None"));
    }
    let limits = [min, max];
    let complex = limits.iter().flatten().any(|limit| limit.is_complex());
    if a.dtype().is_complex() || complex {
        return Err(Error::not_implemented("clamp is not supported for complex types"));
    }
    let mut inputs: Vec<Input<'_>> = vec![a.into()];
    inputs.extend(limits.into_iter().flatten().map(Input::Number));
    let dtype = dtype_after(&inputs, Config::PROMOTE)?;
    LIMITED.check("clamp_scalar_cpu", dtype)?;
    if matches!(dest, Dest::InPlace(_)) && !c10_core::can_cast(dtype, a.dtype()) {
        return Err(Error::dtype(format!(
            "result type {} can't be cast to the desired output type {}",
            dtype.c10_name(),
            a.dtype().c10_name()
        )));
    }
    // A NaN limit is every element.
    let nan = limits.into_iter().flatten().find(|limit| matches!(limit, Scalar::Double(x) if x.is_nan()));
    let (min, max) = if nan.is_some() { (nan, nan) } else { (min, max) };
    if dtype == a.dtype() {
        return limit_in_own_dtype(dest, a, min, max);
    }
    let wide = a.to_dtype(dtype)?;
    limit_in_own_dtype(dest, &wide, min, max)
}

/// [`clamp`] in the dtype of the tensor.
pub(super) fn limit_in_own_dtype(
    dest: Dest<'_>,
    a: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<Made> {
    LIMITED.check("clamp_scalar_cpu", a.dtype())?;
    let iter = TensorIter::unary(dest, a, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::clamp_numbers(&iter, min, max)?;
    }
    iter.finish()
}

fn clamp_tensors(dest: Dest<'_>, a: &Tensor, min: Option<&Tensor>, max: Option<&Tensor>) -> Result<Made> {
    let (min, max) = match (min, max) {
        (Some(min), Some(max)) => (min, max),
        (Some(min), None) => return clamp_min_tensor(dest, a, min),
        (None, Some(max)) => return clamp_max_tensor(dest, a, max),
        (None, None) => {
            return Err(Error::invalid_argument(
                "torch.clamp: At least one of 'min' or 'max' must not be None",
            ));
        }
    };
    let inputs = [a.into(), min.into(), max.into()];
    check_limits(&inputs, "clamp")?;
    let iter = TensorIter::new(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::clamp(&iter)?;
    }
    iter.finish()
}

fn clamp_min_tensor(dest: Dest<'_>, a: &Tensor, min: &Tensor) -> Result<Made> {
    one_limit(dest, a, min, "maximum", binary::maximum)
}

fn clamp_max_tensor(dest: Dest<'_>, a: &Tensor, max: &Tensor) -> Result<Made> {
    one_limit(dest, a, max, "minimum", binary::minimum)
}

fn one_limit(
    dest: Dest<'_>,
    a: &Tensor,
    limit: &Tensor,
    name: &'static str,
    kernel: fn(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    let takes = LIMITED.and(Dtypes::BOOL);
    forms::Pointwise { name, config: Config::PROMOTE, takes, kernel }.binary(dest, a.into(), limit.into())
}

fn check_limits(inputs: &[Input<'_>], name: &str) -> Result<()> {
    let dtype = dtype_after(inputs, Config::PROMOTE)?;
    if dtype.is_complex() {
        return Err(Error::not_implemented("clamp is not supported for complex types"));
    }
    LIMITED.check(name, dtype)
}

fn where_tensors(dest: Dest<'_>, condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Made> {
    choose(dest, condition, a.into(), b.into())
}

fn where_other(dest: Dest<'_>, condition: &Tensor, a: &Tensor, b: Scalar) -> Result<Made> {
    choose(dest, condition, a.into(), b.into())
}

fn where_self(dest: Dest<'_>, condition: &Tensor, a: Scalar, b: &Tensor) -> Result<Made> {
    choose(dest, condition, a.into(), b.into())
}

fn where_numbers(dest: Dest<'_>, condition: &Tensor, a: Scalar, b: Scalar) -> Result<Made> {
    choose(dest, condition, a.into(), b.into())
}

fn choose(dest: Dest<'_>, condition: &Tensor, a: Input<'_>, b: Input<'_>) -> Result<Made> {
    let bytes;
    let condition = match condition.dtype() {
        ScalarType::Bool => condition,
        ScalarType::UInt8 => {
            bytes = condition.to_dtype(ScalarType::Bool)?;
            &bytes
        }
        other => {
            return Err(Error::dtype(format!(
                "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
                other.c10_name()
            )));
        }
    };
    let dtype = dtype_after(&[a, b], Config::PROMOTE)?;
    Dtypes::EVERY.check("where_cpu", dtype)?;
    for input in [a, b] {
        if let Input::Number(number) = input {
            check_fits(number, dtype)?;
        }
    }
    if let Some(out) = dest.given()
        && out.dtype() != dtype
    {
        return Err(Error::dtype(format!(
            "Expected out type to be {} but got {}",
            dtype.c10_name(),
            out.dtype().c10_name()
        )));
    }
    let iter = TensorIter::new(&[dest], &[Input::Uncast(condition), a, b], Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::choose(&iter)?;
    }
    iter.finish()
}

/// Refuses a number that the dtype of the result does not hold.
fn check_fits(number: Scalar, dtype: ScalarType) -> Result<()> {
    if !dtype.is_integral(false) {
        return Ok(());
    }
    dispatch!(dtype, "where_cpu", [u8, i8, u16, i16, u32, i32, u64, i64], T => {
        number.to::<T>()?;
        Ok(())
    })
}
