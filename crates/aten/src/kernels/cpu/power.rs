//! Loops of powers.

use c10_core::{Complex, Scalar};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, binary_simd, compute, unary, unary_simd};
use crate::math::{ComplexFloat, Float, Integer};

/// `out = a` to the power `b`.
pub(crate) fn pow(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "pow", [u8, i8, i16, i32, i64], T => {
            binary(iter, |a: T, b: T| Integer::pow(a, b))
        }),
        dtype if dtype.is_complex() => compute!(dtype, "pow", [Complex<f32>, Complex<f64>], C => {
            binary(iter, |a: C, b: C| a.pow(b))
        }),
        c10_core::ScalarType::Float64 => binary(iter, |a: f64, b: f64| Float::pow(a, b)),
        dtype => compute!(dtype, "pow", [f32], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| Float::pow(a, b))
        }),
    }
}

/// `out = a` to the power of one number, with the common powers by products and roots.
pub(crate) fn pow_number(iter: &TensorIter<'_>, exponent: Scalar) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "pow", [u8, i8, i16, i32, i64], T => {
            let exponent = exponent.to::<T>()?;
            unary(iter, |a: T| Integer::pow(a, exponent))
        }),
        dtype if dtype.is_complex() => compute!(dtype, "pow", [Complex<f32>, Complex<f64>], C => {
            complex_power::<C>(iter, exponent.to::<C>()?)
        }),
        dtype => compute!(dtype, "pow", [f32, f64], T => real_power::<T>(iter, exponent.to::<T>()?)),
    }
}

fn real_power<T: Float + crate::iter::lane::Lane>(iter: &TensorIter<'_>, exponent: T) -> Result<()> {
    let is = |value: f64| exponent == T::of(value);
    if is(2.0) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| x * x,
        )
    } else if is(3.0) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| x * x * x,
        )
    } else if is(0.5) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| x.sqrt(),
        )
    } else if is(-0.5) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| x.rsqrt(),
        )
    } else if is(-1.0) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| T::ONE / x,
        )
    } else if is(-2.0) {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| T::ONE / (x * x),
        )
    } else {
        unary_simd(
            iter,
            #[inline(always)]
            |x: T| x.pow(exponent),
        )
    }
}

fn complex_power<C: ComplexFloat + crate::iter::lane::Lane>(
    iter: &TensorIter<'_>,
    exponent: C,
) -> Result<()> {
    let is = |value: f64| exponent == C::of(Complex::new(value, 0.0));
    if is(2.0) {
        unary(iter, |z: C| z * z)
    } else if is(3.0) {
        unary(iter, |z: C| z * z * z)
    } else if is(0.5) {
        unary(iter, |z: C| z.sqrt())
    } else if is(-0.5) {
        unary(iter, |z: C| z.rsqrt())
    } else if is(-1.0) {
        unary(iter, |z: C| C::ONE / z)
    } else if is(-2.0) {
        unary(iter, |z: C| C::ONE / (z * z))
    } else {
        unary(iter, |z: C| z.pow(exponent))
    }
}
