//! Loops of signs, sizes, roundings and predicates of one number.

use c10_core::{Complex, ScalarType};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{compute, unary, unary_simd};
use crate::math::{ComplexFloat, Float, Integer};

/// The size; of complex numbers a real output.
pub(crate) fn abs(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "abs", [u8, i8, i16, i32, i64], T => {
            unary(iter, |x: T| Integer::abs(x))
        }),
        ScalarType::Complex128 => unary(iter, |z: Complex<f64>| z.abs()),
        dtype if dtype.is_complex() => unary(iter, |z: Complex<f32>| z.abs()),
        dtype => compute!(dtype, "abs", [f32, f64], T => {
            unary_simd(iter, #[inline(always)] |x: T| x.abs())
        }),
    }
}

pub(crate) fn neg(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "neg", [u8, i8, i16, i32, i64], T => {
            unary(iter, |x: T| x.wrapping_neg())
        }),
        dtype => compute!(dtype, "neg", [f32, f64, Complex<f32>, Complex<f64>], T => {
            unary(iter, |x: T| -x)
        }),
    }
}

/// `sign`, and of complex numbers their direction.
pub(crate) fn sgn(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Bool => unary(iter, |x: bool| x),
        dtype if dtype.is_integral(false) => compute!(dtype, "sign", [u8, i8, i16, i32, i64], T => {
            unary(iter, |x: T| Integer::sign(x))
        }),
        dtype if dtype.is_complex() => compute!(dtype, "sgn", [Complex<f32>, Complex<f64>], C => {
            unary(iter, |z: C| ComplexFloat::sgn(z))
        }),
        dtype => compute!(dtype, "sign", [f32, f64], T => {
            unary_simd(iter, #[inline(always)] |x: T| Float::sign(x))
        }),
    }
}

/// Kernels of roundings, which leave integers as they are.
macro_rules! roundings {
    ($($name:ident: $function:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                dtype if dtype.is_integral(false) => identity(iter),
                dtype => compute!(dtype, stringify!($name), [f32, f64], T => {
                    unary_simd(iter, #[inline(always)] |x: T| $function(x))
                }),
            }
        }
    )*};
}
roundings! {
    ceil: Float::ceil;
    floor: Float::floor;
    round: Float::round;
    trunc: Float::trunc;
    frac: fraction;
}

#[inline(always)]
fn fraction<T: Float>(x: T) -> T {
    x - x.trunc()
}

/// `out = a`, of one dtype.
pub(crate) fn identity(iter: &TensorIter<'_>) -> Result<()> {
    compute!(
        iter.common_dtype(),
        "copy",
        [bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>],
        T => unary(iter, |x: T| x)
    )
}

/// Rounded to a number of decimals.
pub(crate) fn round_decimals(iter: &TensorIter<'_>, decimals: i64) -> Result<()> {
    compute!(iter.common_dtype(), "round", [f32, f64], T => {
        let scale = <T as Float>::of(10f64.powi(decimals.unsigned_abs().min(400) as i32));
        if decimals < 0 {
            unary(iter, |x: T| Float::round(x / scale) * scale)
        } else {
            unary(iter, |x: T| Float::round(x * scale) / scale)
        }
    })
}

/// NaN and infinities replaced; `None` stands for the end of the range.
pub(crate) fn nan_to_num(
    iter: &TensorIter<'_>,
    nan: f64,
    posinf: Option<f64>,
    neginf: Option<f64>,
) -> Result<()> {
    let dtype = iter.common_dtype();
    let most = match dtype {
        ScalarType::Float16 => f64::from(f32::from(c10_core::f16::MAX)),
        ScalarType::BFloat16 => f64::from(f32::from(c10_core::bf16::MAX)),
        ScalarType::Float32 | ScalarType::Complex64 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    let (posinf, neginf) = (posinf.unwrap_or(most), neginf.unwrap_or(-most));
    match dtype {
        dtype if dtype.is_integral(true) => identity(iter),
        dtype if dtype.is_complex() => compute!(dtype, "nan_to_num", [Complex<f32>, Complex<f64>], C => {
            unary(iter, |z: C| z.map(|x| replaced(x, nan, posinf, neginf)))
        }),
        dtype => compute!(dtype, "nan_to_num", [f32, f64], T => {
            unary(iter, |x: T| replaced(x, nan, posinf, neginf))
        }),
    }
}

fn replaced<T: Float>(x: T, nan: f64, posinf: f64, neginf: f64) -> T {
    if x.is_nan() {
        T::of(nan)
    } else if x == T::INFINITY {
        T::of(posinf)
    } else if x == -T::INFINITY {
        T::of(neginf)
    } else {
        x
    }
}

/// Kernels of predicates: what holds of floats, of the parts of complex numbers, and of integers.
macro_rules! predicates {
    ($($name:ident: $real:expr, $complex:expr, integer $integer:expr;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                dtype if dtype.is_integral(true) => compute!(
                    dtype,
                    stringify!($name),
                    [bool, u8, i8, u16, i16, u32, i32, u64, i64],
                    T => unary(iter, |_: T| $integer)
                ),
                dtype if dtype.is_complex() => {
                    compute!(dtype, stringify!($name), [Complex<f32>, Complex<f64>], C => {
                        unary(iter, |z: C| ($complex)(($real)(z.re), ($real)(z.im)))
                    })
                }
                dtype => compute!(dtype, stringify!($name), [f32, f64], T => {
                    unary_simd(iter, #[inline(always)] |x: T| ($real)(x))
                }),
            }
        }
    )*};
}
predicates! {
    isnan: is_nan, |re: bool, im: bool| re || im, integer false;
    isinf: is_inf, |re: bool, im: bool| re || im, integer false;
    isposinf: is_positive_inf, |re: bool, im: bool| re || im, integer false;
    isneginf: is_negative_inf, |re: bool, im: bool| re || im, integer false;
    isfinite: is_finite, |re: bool, im: bool| re && im, integer true;
}

#[inline(always)]
fn is_nan<T: Float>(x: T) -> bool {
    x.is_nan()
}

#[inline(always)]
fn is_inf<T: Float>(x: T) -> bool {
    x.abs() == T::INFINITY
}

#[inline(always)]
fn is_positive_inf<T: Float>(x: T) -> bool {
    x == T::INFINITY
}

#[inline(always)]
fn is_negative_inf<T: Float>(x: T) -> bool {
    x == -T::INFINITY
}

#[inline(always)]
fn is_finite<T: Float>(x: T) -> bool {
    x.abs() <= T::MAX
}

pub(crate) fn signbit(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Bool => unary(iter, |_: bool| false),
        dtype if dtype.is_integral(false) => {
            compute!(dtype, "signbit", [u8, i8, u16, i16, u32, i32, u64, i64], T => {
                unary(iter, |x: T| i128::from(x) < 0)
            })
        }
        dtype => compute!(dtype, "signbit", [f32, f64], T => {
            unary_simd(iter, #[inline(always)] |x: T| x.is_sign_negative())
        }),
    }
}

/// The fraction of `frexp`, from 1/2 to 1.
pub(crate) fn mantissa(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "frexp", [f32, f64], T => {
        unary(iter, |x: T| <T as Float>::of(libm::frexp(Float::wide(x)).0))
    })
}

/// The power of two of `frexp`.
pub(crate) fn exponent(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "frexp", [f32, f64], T => {
        unary(iter, |x: T| if x.is_finite() { libm::frexp(Float::wide(x)).1 } else { 0 })
    })
}
