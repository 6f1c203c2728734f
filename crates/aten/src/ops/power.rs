//! Powers, element by element.

use c10_core::Scalar;

use super::dtypes::Dtypes;
use super::forms::dtype_after;
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::{power, rounding, unary};
use crate::tensor::{New, Tensor};

const TAKES: Dtypes = Dtypes::NUMBERS.and(Dtypes::COMPLEX);

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    register_triple!(lib, pow_tensors, (a: &Tensor, b: &Tensor),
        functional "pow.Tensor_Tensor", inplace "pow_.Tensor", out "pow.Tensor_Tensor_out");
    register_triple!(lib, pow_number, (a: &Tensor, b: Scalar),
        functional "pow.Tensor_Scalar", inplace "pow_.Scalar", out "pow.Tensor_Scalar_out");
    register_triple!(lib, pow_of_number, (a: Scalar, b: &Tensor), functional "pow.Scalar", out "pow.Scalar_out");
    Ok(())
}

fn pow_tensors(dest: Dest<'_>, a: &Tensor, b: &Tensor) -> Result<Made> {
    pow(dest, a.into(), b.into())
}

fn pow(dest: Dest<'_>, a: Input<'_>, b: Input<'_>) -> Result<Made> {
    TAKES.check("pow", dtype_after(&[a, b], Config::PROMOTE)?)?;
    let iter = TensorIter::binary(dest, a, b, Config::PROMOTE)?;
    if !iter.is_meta() {
        power::pow(&iter)?;
    }
    iter.finish()
}

fn pow_number(dest: Dest<'_>, a: &Tensor, exponent: Scalar) -> Result<Made> {
    let dtype = dtype_after(&[a.into(), exponent.into()], Config::PROMOTE)?;
    let negative = match exponent {
        Scalar::Int(exponent) => exponent < 0,
        _ => false,
    };
    if dtype.is_integral(true) && negative {
        return Err(Error::invalid_argument("Integers to negative integer powers are not allowed."));
    }
    // Whatever the number, powers 0 and 1 need no loop for the dtype.
    let is = |value: bool| exponent == Scalar::Bool(value) || is_number(exponent, f64::from(u8::from(value)));
    let (zeroth, first) = (is(false), is(true));
    if !(zeroth || first) {
        TAKES.check("pow", dtype)?;
    }
    // The exponent takes part in the dtype alone.
    let wide = a.to_dtype(dtype)?;
    let input = if wide.is_same(a) { a } else { &wide };
    let iter = TensorIter::unary(dest, input, Config::PROMOTE)?;
    if !iter.is_meta() {
        if zeroth {
            ones(&iter)?;
        } else if first {
            rounding::identity(&iter)?;
        } else {
            power::pow_number(&iter, exponent)?;
        }
    }
    iter.finish()
}

fn pow_of_number(dest: Dest<'_>, base: Scalar, exponent: &Tensor) -> Result<Made> {
    if matches!(dest, Dest::New) {
        // The result is contiguous whatever the exponents' strides.
        let dtype = dtype_after(&[base.into(), exponent.into()], Config::PROMOTE)?;
        let made = New::contiguous(exponent.sizes(), dtype, exponent.device()).make()?;
        pow_of_number(Dest::Out(&made), base, exponent)?;
        return Ok(Made::new(made));
    }
    let dtype = dtype_after(&[base.into(), exponent.into()], Config::PROMOTE)?;
    if is_number(base, 1.0) {
        let wide = exponent.to_dtype(dtype)?;
        let iter = TensorIter::unary(dest, &wide, Config::PROMOTE)?;
        if !iter.is_meta() {
            ones(&iter)?;
        }
        return iter.finish();
    }
    pow(dest, base.into(), exponent.into())
}

/// Whether the number is `value`; `true` is none.
fn is_number(number: Scalar, value: f64) -> bool {
    number == Scalar::Double(value)
}

fn ones(iter: &TensorIter<'_>) -> Result<()> {
    use c10_core::Complex;
    crate::iter::blocks::compute!(
        iter.common_dtype(),
        "pow",
        [bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>],
        T => unary::number::<T>(iter, Scalar::Int(1))
    )
}
