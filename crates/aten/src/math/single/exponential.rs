//! `exp` and its kin: the argument is an integer number of doublings and a rest near zero.

use super::{ROUNDING, polynomial, power_of_two};

const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// The nearest integer to `x`, as a float and as an integer; `|x|` below 2^22.
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    let shifted = x + ROUNDING;
    (shifted - ROUNDING, (shifted.to_bits() as i32).wrapping_sub(ROUNDING.to_bits() as i32))
}

/// `y · 2^doublings`, rounded once even where the result is subnormal; `|doublings|` to 252.
#[inline(always)]
fn doubled(y: f32, doublings: i32) -> f32 {
    let half = doublings >> 1;
    y * power_of_two(half) * power_of_two(doublings.wrapping_sub(half))
}

/// `x` as `doublings · ln 2 + rest`.
#[inline(always)]
fn reduce(x: f32) -> (f32, i32) {
    let (count, doublings) = nearest(x * std::f32::consts::LOG2_E);
    (count.mul_add(-LN_2_LOW, count.mul_add(-LN_2_HIGH, x)), doublings)
}

/// e to the power `x`.
#[inline(always)]
pub(in crate::math) fn exp(x: f32) -> f32 {
    // Beyond these the result is infinite or zero; a NaN stays what it is.
    let (rest, doublings) = reduce(x.clamp(-104.5, 89.0));
    // (e^r − 1 − r) / r² for |r| to ln 2 / 2.
    let p = polynomial(rest, [0.499_999_94, 0.166_665_21, 0.041_668_28, 0.008_368_694, 0.001_381_954_1]);
    doubled((rest * rest).mul_add(p, rest) + 1.0, doublings)
}

/// 2 to the power `x`.
#[inline(always)]
pub(in crate::math) fn exp2(x: f32) -> f32 {
    let x = x.clamp(-151.0, 129.0);
    let (count, doublings) = nearest(x);
    // (2^r − 1) / r for |r| to 1/2.
    let p = polynomial(
        x - count,
        [
            std::f32::consts::LN_2,
            0.240_226_48,
            0.055_503_596,
            0.009_618_499,
            0.001_339_097_2,
            0.000_153_293_32,
        ],
    );
    doubled((x - count).mul_add(p, 1.0), doublings)
}

/// `exp(x) − 1`, without the loss near zero.
#[inline(always)]
pub(in crate::math) fn expm1(x: f32) -> f32 {
    let (rest, doublings) = reduce(x.clamp(-20.0, 89.0));
    // (e^r − 1 − r) / r² for |r| to ln 2 / 2.
    let p =
        polynomial(rest, [0.5, 0.166_666_67, 0.041_666_49, 0.008_333_208, 0.001_393_269_5, 0.000_199_442_7]);
    let fraction = (rest * rest).mul_add(p, rest);
    // One doubling is kept back, since 2^128 is no f32; from 2^25 on the −1 no longer shows.
    let scale = power_of_two(doublings.wrapping_sub(1));
    let value = 2.0 * fraction.mul_add(scale, scale - 0.5);
    // Keeps −0, and subnormal numbers whatever their square rounds to.
    if doublings == 0 { if rest == 0.0 { x } else { fraction } } else { value }
}

/// `1 / (1 + exp(−x))`.
#[inline(always)]
pub(in crate::math) fn sigmoid(x: f32) -> f32 {
    // e^−|x| cannot overflow, and for negative x it is the small result's own scale.
    let e = exp(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}
