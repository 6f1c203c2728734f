//! Inverse trigonometric functions, through `f64`.

use std::f64::consts::{FRAC_PI_2, PI};

use super::double::polynomial;

/// The angle whose tangent is `low / high`, for `0 ≤ low ≤ high`.
#[inline(always)]
fn angle_of_ratio(ratio: f64) -> f64 {
    let square = ratio * ratio;
    // (atan t − t) / t³ for t to 1.
    let p = polynomial(
        square,
        [
            -0.333_333_333_269_441_4,
            0.199_999_981_540_862_15,
            -0.142_856_248_914_835_25,
            0.111_093_923_083_222_23,
            -0.090_735_531_189_764_09,
            0.075_866_528_336_466_7,
            -0.062_463_151_941_283_17,
            0.047_294_798_621_813_336,
            -0.029_913_111_945_516_96,
            0.014_072_923_344_697_239,
            -0.004_221_657_990_929_648,
            0.000_593_043_755_636_538_2,
        ],
    );
    (ratio * square).mul_add(p, ratio)
}

/// The angle between −π/2 and π/2 whose tangent is `x`.
#[inline(always)]
pub(in crate::math) fn atan(x: f32) -> f32 {
    let size = f64::from(x).abs();
    let steep = size > 1.0;
    let angle = angle_of_ratio(if steep { 1.0 / size } else { size });
    let value = if steep { FRAC_PI_2 - angle } else { angle };
    // By way of f32 first: a subnormal angle keeps its bits, and a zero its sign.
    (value as f32).copysign(x)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub(in crate::math) fn atan2(y: f32, x: f32) -> f32 {
    let (high, wide) = (f64::from(y).abs(), f64::from(x).abs());
    let steep = high > wide;
    let (low, top) = if steep { (wide, high) } else { (high, wide) };
    let ratio = low / top;
    // 0 / 0 is the direction of the positive axis, inf / inf the diagonal; a NaN stays.
    let ratio = if top == 0.0 { 0.0 } else { ratio };
    let ratio = if low == f64::INFINITY { 1.0 } else { ratio };
    let angle = angle_of_ratio(ratio);
    let angle = if steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    let angle = if x.is_nan() || y.is_nan() { f64::NAN } else { angle };
    (angle as f32).copysign(y)
}

/// `asin` of a size to 1/2: (asin s − s) / s³ is the polynomial.
#[inline(always)]
fn small_asin(size: f64) -> f64 {
    let square = size * size;
    let p = polynomial(
        square,
        [
            0.166_666_666_667_386_33,
            0.074_999_999_534_297_12,
            0.044_642_906_474_584_965,
            0.030_379_945_210_024_933,
            0.022_412_417_726_695_433,
            0.016_902_683_886_393_575,
            0.016_864_090_273_960_12,
            0.001_067_506_315_036_312,
            0.028_346_745_231_833_34,
        ],
    );
    (size * square).mul_add(p, size)
}

/// The angle whose sine is `size` (not negative), and the rest to π/2.
#[inline(always)]
fn asin_and_rest(size: f64) -> (f64, f64) {
    let steep = size > 0.5;
    let angle = small_asin(if steep { (0.5 - 0.5 * size).sqrt() } else { size });
    if steep { (FRAC_PI_2 - 2.0 * angle, 2.0 * angle) } else { (angle, FRAC_PI_2 - angle) }
}

/// The angle between −π/2 and π/2 whose sine is `x`.
#[inline(always)]
pub(in crate::math) fn asin(x: f32) -> f32 {
    let (angle, _) = asin_and_rest(f64::from(x).abs());
    (angle as f32).copysign(x)
}

/// The angle between 0 and π whose cosine is `x`.
#[inline(always)]
pub(in crate::math) fn acos(x: f32) -> f32 {
    let (_, rest) = asin_and_rest(f64::from(x).abs());
    if x < 0.0 { (PI - rest) as f32 } else { rest as f32 }
}
