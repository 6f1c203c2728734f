//! Loops of three numbers, choices and limits.

use c10_core::{Complex, Scalar, ScalarType};

use crate::error::Result;
use crate::iter::TensorIter;
use crate::iter::blocks::{compute, ternary, ternary_simd, unary, unary_simd};
use crate::math::{ComplexFloat, Float};

/// `out = a + value * b * c`.
pub(crate) fn addcmul(iter: &TensorIter<'_>, value: Scalar) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(false) => compute!(dtype, "addcmul", [u8, i8, i16, i32, i64], T => {
            let value = value.to::<T>()?;
            ternary(iter, |a: T, b: T, c: T| a.wrapping_add(value.wrapping_mul(b).wrapping_mul(c)))
        }),
        dtype if dtype.is_complex() => compute!(dtype, "addcmul", [Complex<f32>, Complex<f64>], T => {
            let value = value.to::<T>()?;
            ternary(iter, |a: T, b: T, c: T| a + value * b * c)
        }),
        dtype => compute!(dtype, "addcmul", [f32, f64], T => {
            let value = value.to::<T>()?;
            ternary_simd(iter, #[inline(always)] |a: T, b: T, c: T| a + value * b * c)
        }),
    }
}

/// `out = a + value * b / c`.
pub(crate) fn addcdiv(iter: &TensorIter<'_>, value: Scalar) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "addcdiv", [Complex<f32>, Complex<f64>], T => {
            let value = value.to::<T>()?;
            ternary(iter, |a: T, b: T, c: T| a + value * b / c)
        }),
        dtype => compute!(dtype, "addcdiv", [f32, f64], T => {
            let value = value.to::<T>()?;
            ternary_simd(iter, #[inline(always)] |a: T, b: T, c: T| a + value * b / c)
        }),
    }
}

/// `out = a + weight * (b - a)`, from the nearer end.
pub(crate) fn lerp(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_complex() => compute!(dtype, "lerp", [Complex<f32>, Complex<f64>], C => {
            ternary(iter, |a: C, b: C, weight: C| {
                let step = b - a;
                let near = ComplexFloat::abs(weight) < 0.5;
                if near { a + weight * step } else { b - step * (C::ONE - weight) }
            })
        }),
        dtype => compute!(dtype, "lerp", [f32, f64], T => {
            ternary_simd(iter, #[inline(always)] |a: T, b: T, weight: T| {
                let step = b - a;
                if weight.abs() < 0.5 { a + weight * step } else { b - step * (1.0 - weight) }
            })
        }),
    }
}

/// `out = if condition { a } else { b }`.
pub(crate) fn choose(iter: &TensorIter<'_>) -> Result<()> {
    compute!(
        iter.common_dtype(),
        "where",
        [bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>],
        T => ternary(iter, |condition: bool, a: T, b: T| if condition { a } else { b })
    )
}

/// Within two limits; a NaN is beyond them, and a NaN among the limits is the result.
pub(crate) fn clamp(iter: &TensorIter<'_>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(true) => {
            compute!(dtype, "clamp", [u8, i8, u16, i16, u32, i32, u64, i64], T => {
                ternary(iter, |x: T, low: T, high: T| x.max(low).min(high))
            })
        }
        dtype => compute!(dtype, "clamp", [f32, f64], T => {
            ternary_simd(iter, #[inline(always)] |x: T, low: T, high: T| Float::minimum(Float::maximum(x, low), high))
        }),
    }
}

/// [`clamp`] by two numbers; what is not given does not limit.
pub(crate) fn clamp_numbers(iter: &TensorIter<'_>, low: Option<Scalar>, high: Option<Scalar>) -> Result<()> {
    match iter.common_dtype() {
        dtype if dtype.is_integral(true) => {
            compute!(dtype, "clamp", [u8, i8, u16, i16, u32, i32, u64, i64], T => {
                let low = low.map_or(T::MIN, |low| integer_limit(low) .clamp(T::MIN.into(), T::MAX.into()) as T);
                let high = high.map_or(T::MAX, |high| integer_limit(high).clamp(T::MIN.into(), T::MAX.into()) as T);
                unary(iter, |x: T| x.max(low).min(high))
            })
        }
        dtype => compute!(dtype, "clamp", [f32, f64], T => {
            let low = low.map_or(Ok(f64::NEG_INFINITY), Scalar::to::<f64>)? as T;
            let high = high.map_or(Ok(f64::INFINITY), Scalar::to::<f64>)? as T;
            unary_simd(iter, #[inline(always)] |x: T| Float::minimum(Float::maximum(x, low), high))
        }),
    }
}

/// A limit of integers; one beyond a dtype's range limits nothing there.
fn integer_limit(limit: Scalar) -> i128 {
    match limit {
        Scalar::Bool(limit) => limit.into(),
        Scalar::Int(limit) => limit.into(),
        Scalar::UInt(limit) => limit.into(),
        Scalar::Double(limit) => limit as i128,
        Scalar::Complex(limit) => limit.re as i128,
    }
}

/// `out = if kept { grad * scale } else { 0 }`, the mask first.
pub(crate) fn masked_scale(iter: &TensorIter<'_>, scale: f64) -> Result<()> {
    match iter.common_dtype() {
        ScalarType::Float64 => scaled::<f64>(iter, scale),
        dtype if dtype.is_complex() => compute!(dtype, "masked_scale", [Complex<f32>, Complex<f64>], C => {
            crate::iter::blocks::binary(iter, |kept: bool, grad: C| {
                let factor = if kept { scale } else { 0.0 };
                C::of(grad.wide().scale(factor))
            })
        }),
        dtype => compute!(dtype, "masked_scale", [f32], T => scaled::<T>(iter, scale)),
    }
}

fn scaled<T: Float + crate::iter::lane::Lane>(iter: &TensorIter<'_>, scale: f64) -> Result<()> {
    let scale = T::of(scale);
    crate::iter::blocks::binary(iter, |kept: bool, grad: T| grad * if kept { scale } else { T::ZERO })
}
