//! Functions of one `f32`, in straight lines.
//!
//! Each is a polynomial after a reduction of the argument, with selections in place of branches, so that a
//! loop over it becomes vector code wherever `simd` compiles it. Scalar and vector code give the same bits:
//! `mul_add` rounds once everywhere, and nothing else is left to the compiler's choice. The polynomials are
//! fitted to the intervals named beside them (coefficients from the lowest power up).
//!
//! The functions that loops call most (`exp`, `ln`, `sin`, `tanh` …) stay in `f32`; the rarer ones are taken
//! through [`double`], whose results have bits to spare, and rounded once.

pub(super) mod double;
mod exponential;
mod inverse;
mod logarithm;
mod error_function;
mod hyperbolic;
mod power;
mod trigonometric;

pub(super) use error_function::{erf, erfc};
pub(super) use exponential::{exp, exp2, expm1, sigmoid};
pub(super) use hyperbolic::{cosh, sinh, tanh};
pub(super) use inverse::{acos, asin, atan, atan2};
pub(super) use logarithm::{ln, log1p, log2, log10};
pub(super) use power::pow;
pub(super) use trigonometric::{SMALL_ANGLE, cos, sin, tan};

/// The polynomial with these coefficients, lowest power first, by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, coefficients[i]);
    }
    sum
}

/// 1.5 · 2^23: added to a number below 2^22, it leaves the nearest integer in the low bits of the sum.
pub(super) const ROUNDING: f32 = 12_582_912.0;

/// 2 to an integer power from −126 to 127.
#[inline(always)]
pub(super) fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}
