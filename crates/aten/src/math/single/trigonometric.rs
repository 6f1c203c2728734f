//! Sine, cosine and tangent of angles that are not huge.

use super::double;
use super::{ROUNDING, polynomial};

/// Up to here the reduction by π/2 in three parts loses nothing; greater angles go through `f64`.
pub(in crate::math) const SMALL_ANGLE: f32 = 65_536.0;

/// π/2 as a sum whose first part is 24 bits, so that a multiple taken off the angle leaves no error.
const HALF_PI: [f32; 3] = [1.570_796_4, -4.371_139e-8, -1.715_124_5e-15];

/// The angle less the nearest multiple of π/2, and which quarter turn that multiple is.
#[inline(always)]
fn reduce(x: f32) -> (f32, u32) {
    let shifted = x.mul_add(std::f32::consts::FRAC_2_PI, ROUNDING);
    let count = shifted - ROUNDING;
    let rest = count.mul_add(-HALF_PI[0], x);
    let rest = count.mul_add(-HALF_PI[1], rest);
    (count.mul_add(-HALF_PI[2], rest), shifted.to_bits())
}

/// The sine of `rest` and `quarter` quarter turns, `|rest|` to π/4.
#[inline(always)]
fn sine_after(rest: f32, quarter: u32) -> f32 {
    let square = rest * rest;
    // (sin r − r) / r³ and (cos r − 1 + r²/2) / r⁴.
    let s = polynomial(square, [-0.166_666_55, 0.008_332_19, -0.000_195_183_94]);
    let c = polynomial(square, [0.041_666_646, -0.001_388_730_1, 2.443_066_3e-5]);
    let sine = (rest * square).mul_add(s, rest);
    let cosine = (square * square).mul_add(c, square.mul_add(-0.5, 1.0));
    let value = if quarter & 1 == 0 { sine } else { cosine };
    f32::from_bits(value.to_bits() ^ ((quarter & 2) << 30))
}

/// The sine of `|x|` to [`SMALL_ANGLE`].
#[inline(always)]
pub(in crate::math) fn sin(x: f32) -> f32 {
    let (rest, quarter) = reduce(x);
    let value = sine_after(rest, quarter);
    // Keeps −0.
    if x == 0.0 { x } else { value }
}

/// The cosine of `|x|` to [`SMALL_ANGLE`].
#[inline(always)]
pub(in crate::math) fn cos(x: f32) -> f32 {
    let (rest, quarter) = reduce(x);
    sine_after(rest, quarter.wrapping_add(1))
}

/// The tangent of `|x|` to [`SMALL_ANGLE`].
#[inline(always)]
pub(in crate::math) fn tan(x: f32) -> f32 {
    let wide = f64::from(x);
    let (count, quarter) = double::nearest(wide * std::f64::consts::FRAC_2_PI);
    let rest = count.mul_add(-std::f64::consts::FRAC_PI_2, wide);
    let rest = count.mul_add(-6.123_233_995_736_766e-17, rest);
    let square = rest * rest;
    // (sin r − r) / r³ and (cos r − 1 + r²/2) / r⁴.
    let s = double::polynomial(
        square,
        [
            -0.166_666_666_666_638_82,
            0.008_333_333_331_076_93,
            -0.000_198_412_669_147_564_64,
            2.755_599_025_507_050_5e-6,
            -2.480_557_377_350_488e-8,
        ],
    );
    let c = double::polynomial(
        square,
        [
            0.041_666_666_666_664_67,
            -0.001_388_888_888_727_570_3,
            2.480_158_520_939_616_2e-5,
            -2.755_636_921_322_154e-7,
            2.070_055_580_986_991e-9,
        ],
    );
    let sine = (rest * square).mul_add(s, rest);
    let cosine = (square * square).mul_add(c, square.mul_add(-0.5, 1.0));
    let (above, below) = if quarter & 1 == 0 { (sine, cosine) } else { (-cosine, sine) };
    let value = (above / below) as f32;
    if x == 0.0 { x } else { value }
}
