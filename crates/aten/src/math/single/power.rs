//! Powers, through `f64` logarithms to base 2.

use super::{double, logarithm};

/// `base` to the power `exponent`, with C99's answers at the edges.
#[inline(always)]
pub(in crate::math) fn pow(base: f32, exponent: f32) -> f32 {
    let size = base.abs();
    let (doublings, factor) = logarithm::split(size);
    let log = double::ln_of_factor(f64::from(factor)).mul_add(std::f64::consts::LOG2_E, f64::from(doublings));
    let log = if size == f32::INFINITY { f64::INFINITY } else { log };
    let log = if size == 0.0 { f64::NEG_INFINITY } else { log };
    // Beyond these the result is infinite or zero; inf · 0 becomes a NaN that only 1 and x⁰ replace below.
    let value = double::exp2((log * f64::from(exponent)).clamp(-400.0, 400.0)) as f32;
    // An integer is even when its half is one too; every f32 from 2^24 on is even.
    let whole = exponent.trunc() == exponent;
    let half = 0.5 * exponent;
    let odd = whole && half.trunc() != half;
    let signed = if odd { value.copysign(base) } else { value };
    // A negative base has real powers only at integers; infinity counts as one, and so does a base of −inf.
    let real = base >= 0.0 || whole || base == 0.0 || base == f32::NEG_INFINITY;
    let signed = if real { signed } else { f32::NAN };
    let signed = if base.is_nan() || exponent.is_nan() { f32::NAN } else { signed };
    let one = base == 1.0 || exponent == 0.0 || (base == -1.0 && exponent.abs() == f32::INFINITY);
    if one { 1.0 } else { signed }
}
