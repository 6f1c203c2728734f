//! Loops of functions of one number.

use c10_core::{Complex, Scalar, ScalarType};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{compute, unary, unary_blocks, unary_simd};
use crate::iter::lane::Lane;
use crate::math::{ComplexFloat, Float};
use crate::simd;

/// Kernels of floats, and of complex numbers where there is a second function. Those of `f32` are vector code;
/// those of `f64` are where the standard library is not called.
macro_rules! kernels {
    ($($name:ident: $kind:ident $real:expr $(, $complex:expr)?;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                ScalarType::Float64 => kernels!(@f64 $kind iter, $real),
                $(dtype if dtype.is_complex() => {
                    compute!(dtype, stringify!($name), [Complex<f32>, Complex<f64>], C => {
                        let function: fn(C) -> C = $complex;
                        unary(iter, function)
                    })
                })?
                dtype => compute!(dtype, stringify!($name), [f32], T => kernels!(@f32 $kind iter, T, $real)),
            }
        }
    )*};
    (@f64 straight $iter:ident, $real:expr) => {
        unary_simd($iter, #[inline(always)] |x: f64| ($real)(x))
    };
    (@f64 $kind:ident $iter:ident, $real:expr) => {
        unary($iter, |x: f64| ($real)(x))
    };
    (@f32 slow $iter:ident, $T:ty, $real:expr) => {
        unary($iter, |x: $T| ($real)(x))
    };
    (@f32 $kind:ident $iter:ident, $T:ty, $real:expr) => {
        unary_simd($iter, #[inline(always)] |x: $T| ($real)(x))
    };
}

// `straight`: both widths are straight-line code. `single`: that of `f32` is. `slow`: neither.
kernels! {
    sqrt: straight Float::sqrt, ComplexFloat::sqrt;
    rsqrt: straight Float::rsqrt, ComplexFloat::rsqrt;
    reciprocal: straight recip, ComplexFloat::reciprocal;
    exp: single Float::exp, ComplexFloat::exp;
    exp2: single Float::exp2, ComplexFloat::exp2;
    expm1: single Float::expm1, ComplexFloat::expm1;
    log: single Float::ln, ComplexFloat::ln;
    log2: single Float::log2, ComplexFloat::log2;
    log10: single Float::log10, ComplexFloat::log10;
    log1p: single Float::log1p, ComplexFloat::log1p;
    sinh: single Float::sinh, ComplexFloat::sinh;
    cosh: single Float::cosh, ComplexFloat::cosh;
    tanh: single Float::tanh, ComplexFloat::tanh;
    asin: single Float::asin, ComplexFloat::asin;
    acos: single Float::acos, ComplexFloat::acos;
    atan: single Float::atan, ComplexFloat::atan;
    asinh: slow Float::asinh, ComplexFloat::asinh;
    acosh: slow Float::acosh, ComplexFloat::acosh;
    atanh: slow Float::atanh, ComplexFloat::atanh;
    sigmoid: single Float::sigmoid, ComplexFloat::sigmoid;
    sinc: slow Float::sinc, ComplexFloat::sinc;
    erf: single Float::erf;
    erfc: single Float::erfc;
    erfinv: slow Float::erfinv;
    lgamma: slow Float::lgamma;
    digamma: slow Float::digamma;
    i0: slow Float::i0;
    deg2rad: straight radians;
    rad2deg: straight degrees;
}

#[inline(always)]
fn recip<T: Float>(x: T) -> T {
    T::ONE / x
}

#[inline(always)]
fn radians<T: Float>(x: T) -> T {
    x * T::of(std::f64::consts::PI / 180.0)
}

#[inline(always)]
fn degrees<T: Float>(x: T) -> T {
    x * T::of(180.0 / std::f64::consts::PI)
}

/// Kernels of functions that are straight-line code for small angles alone.
macro_rules! angle_kernels {
    ($($name:ident: $small:path, $any:path, $complex:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                ScalarType::Float64 => unary(iter, |x: f64| $any(x)),
                dtype if dtype.is_complex() => {
                    compute!(dtype, stringify!($name), [Complex<f32>, Complex<f64>], C => {
                        unary(iter, |z: C| $complex(z))
                    })
                }
                dtype => compute!(dtype, stringify!($name), [f32], T => {
                    angles(iter, #[inline(always)] |x: T| $small(x), |x: T| $any(x))
                }),
            }
        }
    )*};
}
angle_kernels! {
    sin: Float::small_sin, Float::sin, ComplexFloat::sin;
    cos: Float::small_cos, Float::cos, ComplexFloat::cos;
    tan: Float::small_tan, Float::tan, ComplexFloat::tan;
}

/// `small` of every element, then `any` of those that are not small, if there are any.
#[inline]
fn angles<T: Float + Lane>(
    iter: &TensorIter<'_>,
    small: impl Fn(T) -> T + Sync,
    any: impl Fn(T) -> T + Sync,
) -> Result<()> {
    unary_blocks(iter, &|a: &[T], out: &mut [T]| {
        let all_small = simd::dispatch(
            #[inline(always)]
            || {
                let mut all_small = true;
                for (&x, out) in a.iter().zip(&mut *out) {
                    *out = small(x);
                    all_small &= x.is_small_angle();
                }
                all_small
            },
        );
        if !all_small {
            for (&x, out) in a.iter().zip(out).filter(|(x, _)| !x.is_small_angle()) {
                *out = any(x);
            }
        }
    })
}

/// Of `bool`s, which are squared as integers, `iter` has integers.
pub(crate) fn square(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "square", [u8, i8, i16, i32, i64], T => {
            unary(iter, |x: T| x.wrapping_mul(x))
        }),
        dtype => compute!(dtype, "square", [f32, f64, Complex<f32>, Complex<f64>], T => {
            unary(iter, |x: T| x * x)
        }),
    }
}

/// The angle of real numbers is 0 or π, and NaN of NaN.
pub(crate) fn angle(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Complex64 => unary(iter, |z: Complex<f32>| z.arg()),
        ScalarType::Complex128 => unary(iter, |z: Complex<f64>| z.arg()),
        dtype => compute!(dtype, "angle", [f32, f64], T => unary(iter, |x: T| {
            if x.is_nan() {
                x
            } else if x < 0.0 {
                <T as Float>::of(std::f64::consts::PI)
            } else {
                0.0
            }
        })),
    }
}

/// `ln(x / (1 − x))`, `x` kept from `eps` to `1 − eps` where `eps` is given.
pub(crate) fn logit(iter: &TensorIter<'_>, eps: Option<f64>) -> Result<()> {
    compute!(iter.common_dtype(), "logit", [f32, f64], T => match eps {
        None => unary(iter, |x: T| x.logit()),
        Some(eps) => {
            let low = <T as Float>::of(eps);
            let high = 1.0 - low;
            unary(iter, |x: T| (if x < low { low } else if x > high { high } else { x }).logit())
        }
    })
}

/// The `n`-th derivative of `digamma`.
pub(crate) fn polygamma(iter: &TensorIter<'_>, n: i64) -> Result<()> {
    compute!(iter.common_dtype(), "polygamma", [f32, f64], T => {
        unary(iter, |x: T| crate::math::Special::polygamma(x, n))
    })
}

/// `p (p − 1) / 4 · ln π + Σ ln Γ(x − j / 2)` for `j` below `p`.
pub(crate) fn mvlgamma(iter: &TensorIter<'_>, p: i64) -> Result<()> {
    let constant = (p as f64) * (p as f64 - 1.0) / 4.0 * std::f64::consts::PI.ln();
    compute!(iter.common_dtype(), "mvlgamma", [f32, f64], T => unary(iter, |x: T| {
        let sum: f64 = (0..p).map(|j| Float::lgamma(Float::wide(x) - 0.5 * j as f64)).sum();
        <T as Float>::of(sum + constant)
    }))
}

/// Every element is the number.
pub(crate) fn number<T: Lane>(iter: &TensorIter<'_>, value: Scalar) -> Result<()> {
    let value = value.to::<T>()?;
    unary(iter, |_: T| value)
}
