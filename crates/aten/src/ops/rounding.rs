//! Signs, sizes, roundings and predicates of one number, element by element.

use c10_core::ScalarType;

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::{Config, TensorIter};
use crate::kernels::cpu::rounding as loops;
use crate::tensor::Tensor;

const ROUNDED: Dtypes = Dtypes::NUMBERS.and(Dtypes::WIDE_UNSIGNED);
const SIGNED: Dtypes = Dtypes::REAL.and(Dtypes::WIDE_UNSIGNED);
const PREDICATE: Config = Config::SAME.with_output_dtype(ScalarType::Bool);

const OPERATORS: &[Pointwise] = &[
    Pointwise { name: "ceil", config: Config::SAME, takes: ROUNDED, kernel: loops::ceil },
    Pointwise { name: "floor", config: Config::SAME, takes: ROUNDED, kernel: loops::floor },
    Pointwise { name: "round", config: Config::SAME, takes: ROUNDED, kernel: loops::round },
    Pointwise { name: "trunc", config: Config::SAME, takes: ROUNDED, kernel: loops::trunc },
    Pointwise { name: "frac", config: Config::SAME, takes: Dtypes::FLOATS, kernel: loops::frac },
    Pointwise {
        name: "sgn",
        config: Config::SAME,
        takes: Dtypes::REAL.and(Dtypes::ALL_COMPLEX),
        kernel: loops::sgn,
    },
    Pointwise { name: "signbit", config: PREDICATE, takes: SIGNED, kernel: loops::signbit },
    Pointwise { name: "isnan", config: PREDICATE, takes: Dtypes::EVERY, kernel: loops::isnan },
    Pointwise { name: "isinf", config: PREDICATE, takes: Dtypes::EVERY, kernel: loops::isinf },
    Pointwise { name: "isfinite", config: PREDICATE, takes: Dtypes::EVERY, kernel: loops::isfinite },
];

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    forms::register_unary(lib, OPERATORS)?;
    forms::unary(lib, "abs", abs)?;
    forms::unary(lib, "neg", neg)?;
    forms::unary(lib, "sign", sign)?;
    forms::unary(lib, "isposinf", |dest, a| infinite(dest, a, "isposinf", loops::isposinf))?;
    forms::unary(lib, "isneginf", |dest, a| infinite(dest, a, "isneginf", loops::isneginf))?;
    register_triple!(lib, round_decimals, (a: &Tensor, decimals: i64),
        functional "round.decimals", inplace "round_.decimals", out "round.decimals_out");
    register_triple!(lib, nan_to_num, (a: &Tensor, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>),
        functional "nan_to_num", inplace "nan_to_num_", out "nan_to_num.out");
    lib.cpu_meta("frexp.Tensor", |a: &Tensor| {
        let (mantissa, exponent) = frexp(Dest::New, Dest::New, a)?;
        Ok((mantissa.new_tensor(), exponent.new_tensor()))
    })?;
    lib.cpu_meta("frexp.Tensor_out", |a: &Tensor, mantissa: &Tensor, exponent: &Tensor| {
        frexp(Dest::Out(mantissa), Dest::Out(exponent), a).map(drop)
    })
}

fn abs(dest: Dest<'_>, a: &Tensor) -> Result<Made> {
    let dtype = a.dtype();
    if dtype.is_complex() && matches!(dest, Dest::InPlace(_)) {
        return Err(Error::dtype("In-place abs is not supported for complex tensors."));
    }
    let config =
        if dtype.is_complex() { Config::SAME.with_output_dtype(dtype.to_real()) } else { Config::SAME };
    Pointwise { name: "abs", config, takes: Dtypes::NUMBERS_COMPLEX, kernel: loops::abs }.unary(dest, a)
}

fn neg(dest: Dest<'_>, a: &Tensor) -> Result<Made> {
    if a.dtype() == ScalarType::Bool {
        return Err(Error::not_implemented(
            "Negation, the `-` operator, on a bool tensor is not supported; `logical_not` inverts a mask.",
        ));
    }
    Pointwise { name: "neg", config: Config::SAME, takes: Dtypes::NUMBERS_COMPLEX, kernel: loops::neg }
        .unary(dest, a)
}

fn sign(dest: Dest<'_>, a: &Tensor) -> Result<Made> {
    if a.dtype().is_complex() {
        return Err(Error::dtype(
            "Unlike NumPy, sign is not intended to support complex numbers: see `sgn`.",
        ));
    }
    Pointwise { name: "sign", config: Config::SAME, takes: Dtypes::REAL, kernel: loops::sgn }.unary(dest, a)
}

fn infinite(
    dest: Dest<'_>,
    a: &Tensor,
    name: &'static str,
    kernel: fn(&TensorIter<'_>) -> Result<()>,
) -> Result<Made> {
    if a.dtype().is_complex() {
        return Err(Error::dtype(format!("{name} does not support complex inputs.")));
    }
    if let Some(out) = dest.given()
        && out.dtype() != ScalarType::Bool
    {
        return Err(Error::dtype(format!("{name} does not support non-boolean outputs.")));
    }
    Pointwise { name, config: PREDICATE, takes: SIGNED, kernel }.unary(dest, a)
}

fn round_decimals(dest: Dest<'_>, a: &Tensor, decimals: i64) -> Result<Made> {
    Dtypes::FLOATS.check("round", a.dtype())?;
    let iter = TensorIter::unary(dest, a, Config::SAME)?;
    if !iter.is_meta() {
        if decimals == 0 {
            loops::round(&iter)?;
        } else {
            loops::round_decimals(&iter, decimals)?;
        }
    }
    iter.finish()
}

fn nan_to_num(
    dest: Dest<'_>,
    a: &Tensor,
    nan: Option<f64>,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<Made> {
    let takes = Dtypes::REAL.and(Dtypes::WIDE_UNSIGNED).and(Dtypes::COMPLEX);
    takes.check("nan_to_num", a.dtype())?;
    let iter = TensorIter::unary(dest, a, Config::SAME)?;
    if !iter.is_meta() {
        loops::nan_to_num(&iter, nan.unwrap_or(0.0), posinf, neginf)?;
    }
    iter.finish()
}

fn frexp(mantissa: Dest<'_>, exponent: Dest<'_>, a: &Tensor) -> Result<(Made, Made)> {
    if !a.dtype().is_floating_point() {
        return Err(Error::dtype("torch.frexp() only supports floating-point dtypes"));
    }
    if let Some(out) = exponent.given()
        && out.dtype() != ScalarType::Int32
    {
        return Err(Error::dtype(format!(
            "torch.frexp() expects exponent to have int dtype but got {}",
            out.dtype().name()
        )));
    }
    Dtypes::FLOATS.check("frexp", a.dtype())?;
    let config = Config::SAME.with_output_dtype(ScalarType::Int32);
    let fractions = TensorIter::unary(mantissa, a, Config::SAME)?;
    let powers = TensorIter::unary(exponent, a, config)?;
    if !fractions.is_meta() {
        loops::exponent(&powers)?;
        loops::mantissa(&fractions)?;
    }
    Ok((fractions.finish()?, powers.finish()?))
}
