//! Arithmetic of two operands, element by element.

use std::sync::atomic::{AtomicBool, Ordering};

use c10_core::{Scalar, ScalarType};

use super::dtypes::Dtypes;
use super::forms::{self, Pointwise, dtype_after};
use super::{Dest, Made, register_triple};
use crate::dispatch::Library;
use crate::error::{Error, Result};
use crate::iter::loops::{self, dispatch};
use crate::iter::{Config, Input, TensorIter};
use crate::kernels::cpu::binary as kernels;
use crate::tensor::Tensor;

const CHOSEN: Dtypes = Dtypes::REAL.and(Dtypes::WIDE_UNSIGNED);

const OPERATORS: &[Pointwise] = &[
    Pointwise { name: "mul", config: Config::PROMOTE, takes: Dtypes::ALL, kernel: kernels::mul },
    Pointwise { name: "div", config: Config::FLOAT, takes: Dtypes::FLOATS_COMPLEX, kernel: kernels::div },
    Pointwise { name: "maximum", config: Config::PROMOTE, takes: CHOSEN, kernel: kernels::maximum },
    Pointwise { name: "minimum", config: Config::PROMOTE, takes: CHOSEN, kernel: kernels::minimum },
    Pointwise { name: "fmax", config: Config::PROMOTE, takes: CHOSEN, kernel: kernels::fmax },
    Pointwise { name: "fmin", config: Config::PROMOTE, takes: CHOSEN, kernel: kernels::fmin },
    Pointwise { name: "atan2", config: Config::FLOAT, takes: Dtypes::FLOATS, kernel: kernels::atan2 },
    Pointwise { name: "hypot", config: Config::PROMOTE, takes: Dtypes::FLOATS, kernel: kernels::hypot },
    Pointwise {
        name: "nextafter",
        config: Config::PROMOTE,
        takes: Dtypes::FLOATS,
        kernel: kernels::nextafter,
    },
    Pointwise { name: "copysign", config: Config::FLOAT, takes: Dtypes::FLOATS, kernel: kernels::copysign },
    Pointwise { name: "gcd", config: Config::PROMOTE, takes: Dtypes::INTEGERS, kernel: kernels::gcd },
    Pointwise { name: "lcm", config: Config::PROMOTE, takes: Dtypes::INTEGERS, kernel: kernels::lcm },
    Pointwise {
        name: "logaddexp",
        config: Config::PROMOTE,
        takes: Dtypes::FLOATS_COMPLEX,
        kernel: kernels::logaddexp,
    },
    Pointwise {
        name: "logaddexp2",
        config: Config::PROMOTE,
        takes: Dtypes::FLOATS,
        kernel: kernels::logaddexp2,
    },
];

const DIV_TRUNC: Pointwise = Pointwise {
    name: "div_trunc",
    config: Config::PROMOTE,
    takes: Dtypes::NUMBERS,
    kernel: kernels::div_trunc,
};
const DIV_FLOOR: Pointwise = Pointwise {
    name: "div_floor",
    config: Config::PROMOTE,
    takes: Dtypes::NUMBERS,
    kernel: kernels::div_floor,
};
const DIV_TRUE: Pointwise =
    Pointwise { name: "div", config: Config::FLOAT, takes: Dtypes::FLOATS_COMPLEX, kernel: kernels::div };
const FMOD: Pointwise =
    Pointwise { name: "fmod", config: Config::PROMOTE, takes: Dtypes::NUMBERS, kernel: kernels::fmod };
const REMAINDER: Pointwise = Pointwise {
    name: "remainder",
    config: Config::PROMOTE,
    takes: Dtypes::NUMBERS,
    kernel: kernels::remainder,
};

pub(super) fn register(lib: &mut Library<'_>) -> Result<()> {
    forms::register_binary(lib, OPERATORS)?;
    forms::binary(lib, "floor_divide", |dest, a, b| divide(dest, a, b, DIV_FLOOR))?;
    forms::binary(lib, "fmod", |dest, a, b| divide(dest, a, b, FMOD))?;
    forms::binary(lib, "remainder", |dest, a, b| divide(dest, a, b, REMAINDER))?;
    forms::binary(lib, "heaviside", heaviside)?;
    register_triple!(lib, add_tensor, (a: &Tensor, b: &Tensor, alpha: Scalar),
        functional "add.Tensor", inplace "add_.Tensor", out "add.out");
    register_triple!(lib, add_scalar, (a: &Tensor, b: Scalar, alpha: Scalar),
        functional "add.Scalar", inplace "add_.Scalar");
    register_triple!(lib, sub_tensor, (a: &Tensor, b: &Tensor, alpha: Scalar),
        functional "sub.Tensor", inplace "sub_.Tensor", out "sub.out");
    register_triple!(lib, sub_scalar, (a: &Tensor, b: Scalar, alpha: Scalar),
        functional "sub.Scalar", inplace "sub_.Scalar");
    register_triple!(lib, rsub_tensor, (a: &Tensor, b: &Tensor, alpha: Scalar), functional "rsub.Tensor");
    register_triple!(lib, rsub_scalar, (a: &Tensor, b: Scalar, alpha: Scalar), functional "rsub.Scalar");
    register_triple!(lib, div_tensor_mode, (a: &Tensor, b: &Tensor, mode: Option<&str>),
        functional "div.Tensor_mode", inplace "div_.Tensor_mode", out "div.out_mode");
    register_triple!(lib, div_scalar_mode, (a: &Tensor, b: Scalar, mode: Option<&str>),
        functional "div.Scalar_mode", inplace "div_.Scalar_mode");
    Ok(())
}

fn add_tensor(dest: Dest<'_>, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Made> {
    add(dest, a.into(), b.into(), alpha)
}

fn add_scalar(dest: Dest<'_>, a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Made> {
    add(dest, a.into(), b.into(), alpha)
}

/// It is part of each of its forms, as the other pointwise operators are.
#[inline(always)]
fn add(dest: Dest<'_>, a: Input<'_>, b: Input<'_>, alpha: Scalar) -> Result<Made> {
    let inputs = [a, b];
    let dtype = dtype_after(&inputs, Config::PROMOTE)?;
    check_alpha(dtype, alpha)?;
    Dtypes::REAL.and(Dtypes::ALL_COMPLEX).check("add", dtype)?;
    let mut iter = TensorIter::unplanned();
    iter.plan(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        kernels::add(&iter, alpha)?;
    }
    iter.finish_first()
}

fn sub_tensor(dest: Dest<'_>, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Made> {
    sub(dest, a.into(), b.into(), alpha)
}

fn sub_scalar(dest: Dest<'_>, a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Made> {
    sub(dest, a.into(), b.into(), alpha)
}

fn rsub_tensor(dest: Dest<'_>, a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Made> {
    sub(dest, b.into(), a.into(), alpha)
}

fn rsub_scalar(dest: Dest<'_>, a: &Tensor, b: Scalar, alpha: Scalar) -> Result<Made> {
    sub(dest, b.into(), a.into(), alpha)
}

#[inline(always)]
fn sub(dest: Dest<'_>, a: Input<'_>, b: Input<'_>, alpha: Scalar) -> Result<Made> {
    let is_bool = |input: &Input<'_>| match input {
        Input::Tensor(tensor) | Input::Uncast(tensor) => tensor.dtype() == ScalarType::Bool,
        Input::Number(number) => number.is_bool(),
    };
    if is_bool(&a) || is_bool(&b) {
        return Err(Error::dtype(
            "Subtraction, the `-` operator, with a bool tensor is not supported; `bitwise_xor` and `logical_xor` \
             compare, and `logical_not` inverts a mask.",
        ));
    }
    let inputs = [a, b];
    let dtype = dtype_after(&inputs, Config::PROMOTE)?;
    check_alpha(dtype, alpha)?;
    Dtypes::NUMBERS_COMPLEX.check("sub", dtype)?;
    let mut iter = TensorIter::unplanned();
    iter.plan(&[dest], &inputs, Config::PROMOTE)?;
    if !iter.is_meta() {
        kernels::sub(&iter, alpha)?;
    }
    iter.finish_first()
}

/// `alpha` must be of a category that the result has (`alpha_check`).
#[inline]
pub(super) fn check_alpha(dtype: ScalarType, alpha: Scalar) -> Result<()> {
    if alpha.is_integral(false) { Ok(()) } else { check_other_alpha(dtype, alpha) }
}

fn check_other_alpha(dtype: ScalarType, alpha: Scalar) -> Result<()> {
    if alpha.is_bool() && dtype != ScalarType::Bool {
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

fn div_tensor_mode(dest: Dest<'_>, a: &Tensor, b: &Tensor, mode: Option<&str>) -> Result<Made> {
    div_mode(dest, a.into(), b.into(), mode)
}

fn div_scalar_mode(dest: Dest<'_>, a: &Tensor, b: Scalar, mode: Option<&str>) -> Result<Made> {
    div_mode(dest, a.into(), b.into(), mode)
}

fn div_mode(dest: Dest<'_>, a: Input<'_>, b: Input<'_>, mode: Option<&str>) -> Result<Made> {
    match mode {
        None => DIV_TRUE.binary(dest, a, b),
        Some("trunc") => divide(dest, a, b, DIV_TRUNC),
        Some("floor") => divide(dest, a, b, DIV_FLOOR),
        Some(mode) => Err(Error::invalid_argument(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        ))),
    }
}

/// A division or its rest. An integer divisor of zero is refused before anything is written.
fn divide(dest: Dest<'_>, a: Input<'_>, b: Input<'_>, operator: Pointwise) -> Result<Made> {
    let dtype = dtype_after(&[a, b], operator.config)?;
    operator.takes.check(operator.name, dtype)?;
    if dtype.is_integral(false) && has_zero(b, dtype)? {
        return Err(Error::invalid_argument("ZeroDivisionError: an integer is divided by zero"));
    }
    operator.binary(dest, a, b)
}

/// Whether an integer operand, once it is of `dtype`, has a zero.
fn has_zero(input: Input<'_>, dtype: ScalarType) -> Result<bool> {
    let tensor = match input {
        Input::Number(number) => {
            return dispatch!(dtype, "div", [u8, i8, i16, i32, i64], T => {
                Ok(loops::converted::<T>(number) == 0)
            });
        }
        Input::Tensor(tensor) | Input::Uncast(tensor) => tensor.to_dtype(dtype)?,
    };
    let iter = TensorIter::new(&[], &[Input::Uncast(&tensor)], Config::OWN_DTYPES)?;
    if iter.is_meta() {
        return Ok(false);
    }
    let found = AtomicBool::new(false);
    dispatch!(dtype, "div", [u8, i8, i16, i32, i64], T => loops::each(&iter, |x: T| {
        if x == 0 {
            found.store(true, Ordering::Relaxed);
        }
    }))?;
    Ok(found.into_inner())
}

fn heaviside(dest: Dest<'_>, a: Input<'_>, b: Input<'_>) -> Result<Made> {
    let dtype = |input: Input<'_>| match input {
        Input::Tensor(tensor) | Input::Uncast(tensor) => tensor.dtype(),
        Input::Number(number) => number.scalar_type(),
    };
    if dtype(a) != dtype(b) || dest.given().is_some_and(|out| out.dtype() != dtype(a)) {
        return Err(Error::dtype("heaviside is not yet implemented for tensors with different dtypes."));
    }
    if dtype(a).is_complex() {
        return Err(Error::dtype("heaviside is not yet implemented for complex tensors."));
    }
    let operator = Pointwise {
        name: "heaviside",
        config: Config::PROMOTE,
        takes: Dtypes::REAL,
        kernel: kernels::heaviside,
    };
    operator.binary(dest, a, b)
}
