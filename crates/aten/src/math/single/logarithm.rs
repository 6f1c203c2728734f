//! `ln` and its kin: the argument is a power of two and a factor between √½ and √2.

use super::double;
use super::polynomial;

const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
const SQRT_HALF_BITS: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32;

/// `x` as `2^exponent · factor`, the factor from √½ to √2; `x` positive and finite.
#[inline(always)]
pub(super) fn split(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let bits = (if subnormal { x * 8_388_608.0 } else { x }).to_bits() as i32;
    let exponent = bits.wrapping_sub(SQRT_HALF_BITS) >> 23;
    let factor = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32);
    (exponent as f32 - if subnormal { 23.0 } else { 0.0 }, factor)
}

/// What a logarithm of `x` is where `x` is not positive and finite; `value` elsewhere.
#[inline(always)]
pub(super) fn with_edges(x: f32, value: f32) -> f32 {
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    // Also where x is NaN.
    if x >= 0.0 { value } else { f32::NAN }
}

/// The natural logarithm.
#[inline(always)]
pub(in crate::math) fn ln(x: f32) -> f32 {
    let (exponent, factor) = split(x);
    let f = factor - 1.0;
    // (ln(1 + f) − f + f²/2) / f³ for √½ to √2.
    let p = polynomial(
        f,
        [
            0.333_333_13,
            -0.250_000_1,
            0.200_020_73,
            -0.166_679_96,
            0.142_203_27,
            -0.124_060_32,
            0.118_835_68,
            -0.116_714_49,
            0.067_509_56,
        ],
    );
    let square = f * f;
    let tail = (f * square).mul_add(p, exponent * LN_2_LOW);
    let value = exponent.mul_add(LN_2_HIGH, square.mul_add(-0.5, tail) + f);
    with_edges(x, value)
}

/// The logarithm to base 2.
#[inline(always)]
pub(in crate::math) fn log2(x: f32) -> f32 {
    let (exponent, factor) = split(x);
    let value =
        double::ln_of_factor(f64::from(factor)).mul_add(std::f64::consts::LOG2_E, f64::from(exponent));
    with_edges(x, value as f32)
}

/// The logarithm to base 10.
#[inline(always)]
pub(in crate::math) fn log10(x: f32) -> f32 {
    let (exponent, factor) = split(x);
    let tail = f64::from(exponent) * std::f64::consts::LOG10_2;
    let value = double::ln_of_factor(f64::from(factor)).mul_add(std::f64::consts::LOG10_E, tail);
    with_edges(x, value as f32)
}

/// `ln(1 + x)`, without the loss near zero.
#[inline(always)]
pub(in crate::math) fn log1p(x: f32) -> f32 {
    let wide = f64::from(x);
    let value = double::ln(1.0 + wide) as f32;
    let small = (wide * wide).mul_add(-0.5, wide) as f32;
    // There 1 + x has lost bits of x that count, and the next term of the series is below them.
    let value = if x.abs() < 1e-4 { small } else { value };
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == -1.0 { f32::NEG_INFINITY } else { value };
    let value = if x >= -1.0 { value } else { f32::NAN };
    // Keeps −0 and all subnormal numbers.
    if x.abs() < 1e-30 { x } else { value }
}
