//! Hyperbolic functions.

use super::{double, exponential, polynomial};

/// The hyperbolic tangent.
#[inline(always)]
pub(in crate::math) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let square = x * x;
    // (tanh x − x) / x³ for |x| to 5/8.
    let p = polynomial(
        square,
        [-0.333_333_3, 0.133_332_22, -0.053_948_462, 0.021_708_75, -0.008_195_086, 0.002_157_635_8],
    );
    let small = (size * square).mul_add(p, size);
    let large = 1.0 - 2.0 / (exponential::exp(2.0 * size) + 1.0);
    let value = if size < 0.625 { small } else { large };
    value.copysign(x)
}

/// The hyperbolic sine.
#[inline(always)]
pub(in crate::math) fn sinh(x: f32) -> f32 {
    let wide = f64::from(x);
    let square = wide * wide;
    // (sinh x − x) / x³ for |x| to 1.
    let p = double::polynomial(
        square,
        [
            0.166_666_666_666_984_07,
            0.008_333_333_317_464_362,
            0.000_198_412_825_301_159_9,
            2.755_377_026_364_149e-6,
            2.545_670_657_152_382e-8,
        ],
    );
    let small = (wide * square).mul_add(p, wide);
    let e = double::exp(wide.abs().clamp(0.0, 100.0));
    let large = (0.5 * e - 0.5 / e).copysign(wide);
    let value = if x.abs() < 1.0 { small } else { large } as f32;
    // Keeps −0.
    if x == 0.0 { x } else { value }
}

/// The hyperbolic cosine.
#[inline(always)]
pub(in crate::math) fn cosh(x: f32) -> f32 {
    let e = double::exp(f64::from(x).abs().clamp(0.0, 100.0));
    (0.5 * e + 0.5 / e) as f32
}
