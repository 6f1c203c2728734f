//! Loops of arithmetic of two numbers.

use c10_core::{Complex, Scalar, ScalarType};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{binary, binary_simd, compute};
use crate::math::{ComplexFloat, Float, Integer};

/// `out = a + alpha * b`; of `bool`s, `a || (alpha && b)`.
pub(crate) fn add(iter: &TensorIter<'_>, alpha: Scalar) -> Result<()> {
    let plain = matches!(alpha, Scalar::Int(1) | Scalar::Bool(true));
    match iter.common_dtype() {
        ScalarType::Bool => {
            let alpha = alpha.to::<bool>()?;
            binary(iter, |a: bool, b: bool| a || (alpha && b))
        }
        dtype if dtype.is_integral(false) => compute!(dtype, "add", [u8, i8, i16, i32, i64], T => {
            let alpha = alpha.to::<T>()?;
            binary(iter, |a: T, b: T| a.wrapping_add(alpha.wrapping_mul(b)))
        }),
        dtype if plain && !dtype.is_complex() => compute!(dtype, "add", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| a + b)
        }),
        dtype => compute!(dtype, "add", [f32, f64, Complex<f32>, Complex<f64>], T => {
            let alpha = alpha.to::<T>()?;
            binary(iter, |a: T, b: T| a + alpha * b)
        }),
    }
}

/// `out = a - alpha * b`.
pub(crate) fn sub(iter: &TensorIter<'_>, alpha: Scalar) -> Result<()> {
    let plain = matches!(alpha, Scalar::Int(1));
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "sub", [u8, i8, i16, i32, i64], T => {
            let alpha = alpha.to::<T>()?;
            binary(iter, |a: T, b: T| a.wrapping_sub(alpha.wrapping_mul(b)))
        }),
        dtype if plain && !dtype.is_complex() => compute!(dtype, "sub", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| a - b)
        }),
        dtype => compute!(dtype, "sub", [f32, f64, Complex<f32>, Complex<f64>], T => {
            let alpha = alpha.to::<T>()?;
            binary(iter, |a: T, b: T| a - alpha * b)
        }),
    }
}

/// `out = a * b`; of `bool`s, `a && b`.
pub(crate) fn mul(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Bool => binary(iter, |a: bool, b: bool| a && b),
        dtype if dtype.is_integral(false) => {
            compute!(dtype, "mul", [u8, i8, u16, i16, u32, i32, u64, i64], T => {
                binary(iter, |a: T, b: T| a.wrapping_mul(b))
            })
        }
        dtype if dtype.is_complex() => compute!(dtype, "mul", [Complex<f32>, Complex<f64>], T => {
            binary(iter, |a: T, b: T| a * b)
        }),
        dtype => compute!(dtype, "mul", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| a * b)
        }),
    }
}

/// `out = a / b`.
pub(crate) fn div(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "div", [Complex<f32>, Complex<f64>], T => {
            binary(iter, |a: T, b: T| a / b)
        }),
        dtype => compute!(dtype, "div", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| a / b)
        }),
    }
}

#[inline(always)]
fn trunc_quotient<T: Float>(a: T, b: T) -> T {
    (a / b).trunc()
}

/// Kernels of the rounded divisions and their rests: of integers, whose divisors are not zero, and of floats.
macro_rules! divisions {
    ($($name:ident: $integer:path, $real:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                dtype if dtype.is_integral(false) => {
                    compute!(dtype, stringify!($name), [u8, i8, i16, i32, i64], T => {
                        binary(iter, |a: T, b: T| $integer(a, b))
                    })
                }
                dtype => compute!(dtype, stringify!($name), [f32, f64], T => {
                    binary(iter, |a: T, b: T| $real(a, b))
                }),
            }
        }
    )*};
}
divisions! {
    div_trunc: Integer::trunc_divide, trunc_quotient;
    div_floor: Integer::floor_divide, Float::floor_divide;
    fmod: Integer::fmod, Float::fmod;
    remainder: Integer::remainder, Float::remainder;
}

/// Kernels of choices between two numbers.
macro_rules! choices {
    ($($name:ident: $integer:path, $boolean:expr, $real:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            match iter.common_dtype() {
                ScalarType::Bool => binary(iter, $boolean),
                dtype if dtype.is_integral(false) => {
                    compute!(dtype, stringify!($name), [u8, i8, u16, i16, u32, i32, u64, i64], T => {
                        binary(iter, |a: T, b: T| $integer(a, b))
                    })
                }
                dtype => compute!(dtype, stringify!($name), [f32, f64], T => {
                    binary_simd(iter, #[inline(always)] |a: T, b: T| $real(a, b))
                }),
            }
        }
    )*};
}
choices! {
    maximum: Ord::max, |a: bool, b: bool| a | b, Float::maximum;
    minimum: Ord::min, |a: bool, b: bool| a & b, Float::minimum;
    fmax: Ord::max, |a: bool, b: bool| a | b, Float::fmax;
    fmin: Ord::min, |a: bool, b: bool| a & b, Float::fmin;
}

/// Kernels of floats alone.
macro_rules! functions {
    ($($name:ident: $loop_:ident $real:path;)*) => {$(
        pub(crate) fn $name(iter: &TensorIter<'_>) -> Result<()> {
            compute!(iter.common_dtype(), stringify!($name), [f32, f64], T => {
                $loop_(iter, #[inline(always)] |a: T, b: T| $real(a, b))
            })
        }
    )*};
}
functions! {
    atan2: binary_simd Float::atan2;
    hypot: binary Float::hypot;
    copysign: binary_simd Float::copysign;
    logaddexp2: binary Float::logaddexp2;
}

/// The neighbour is that of the dtype itself, so the narrow floats step in their own widths.
pub(crate) fn nextafter(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::BFloat16 => crate::iter::loops::binary(iter, next_bfloat16),
        ScalarType::Float16 => crate::iter::loops::binary(iter, next_half),
        dtype => compute!(dtype, "nextafter", [f32, f64], T => {
            binary(iter, |a: T, b: T| a.nextafter(b))
        }),
    }
}

macro_rules! next_in_bits {
    ($($name:ident: $float:ty;)*) => {$(
        fn $name(from: $float, towards: $float) -> $float {
            if from.is_nan() || towards.is_nan() {
                return <$float>::NAN;
            }
            if from == towards {
                return towards;
            }
            if f32::from(from) == 0.0 {
                return <$float>::from_bits(1 | (towards.to_bits() & 0x8000));
            }
            // The bits of floats of one sign are in the order of their sizes.
            let away = (towards > from) == (f32::from(from) > 0.0);
            let bits = from.to_bits();
            <$float>::from_bits(if away { bits + 1 } else { bits - 1 })
        }
    )*};
}
next_in_bits! {
    next_half: c10_core::f16;
    next_bfloat16: c10_core::bf16;
}

pub(crate) fn logaddexp(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "logaddexp", [Complex<f32>, Complex<f64>], C => {
            binary(iter, |a: C, b: C| {
                let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
                let value = C::of(high.wide() + (low.wide() - high.wide()).exp().log1p());
                if low.re == high.re && low.re.is_infinite() { high } else { value }
            })
        }),
        dtype => compute!(dtype, "logaddexp", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| Float::logaddexp(a, b))
        }),
    }
}

/// 0 below zero, 1 above it, the second number at it.
pub(crate) fn heaviside(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Bool => binary(iter, |a: bool, b: bool| a || b),
        dtype if dtype.is_integral(false) => compute!(dtype, "heaviside", [u8, i8, i16, i32, i64], T => {
            binary(iter, |a: T, b: T| if a == 0 { b } else { T::from(a > 0) })
        }),
        dtype => compute!(dtype, "heaviside", [f32, f64], T => {
            binary_simd(iter, #[inline(always)] |a: T, b: T| {
                if a == 0.0 { b } else if a > 0.0 { 1.0 } else { 0.0 }
            })
        }),
    }
}

pub(crate) fn gcd(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "gcd", [u8, i8, i16, i32, i64], T => binary(iter, |a: T, b: T| a.gcd(b)))
}

pub(crate) fn lcm(iter: &TensorIter<'_>) -> Result<()> {
    compute!(iter.common_dtype(), "lcm", [u8, i8, i16, i32, i64], T => binary(iter, |a: T, b: T| a.lcm(b)))
}
