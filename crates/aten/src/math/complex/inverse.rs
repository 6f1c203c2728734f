//! Inverse circular and hyperbolic functions, by Kahan's formulas: every sum under a root keeps the sign of a
//! zero, so each side of a branch cut is continuous with its own half of the plane.

use std::f64::consts::{FRAC_PI_2, LN_2};

use super::root::sqrt;
use super::{C64, over_i, times_i};
use crate::math::special;

/// Beyond this size the 1 that the formulas add to a square no longer shows.
const HUGE: f64 = 1e150;

/// `√(1 − z)` and `√(1 + z)`.
fn roots(z: C64) -> (C64, C64) {
    (sqrt(C64::new(1.0 - z.re, -z.im)), sqrt(C64::new(1.0 + z.re, z.im)))
}

/// The inverse of `sin`.
pub(super) fn asin(z: C64) -> C64 {
    if is_huge(z) {
        return C64::new(z.re.atan2(z.im.abs()), ln_of_double_size(z).copysign(z.im));
    }
    let (minus, plus) = roots(z);
    C64::new(z.re.atan2((minus * plus).re), special::asinh((minus.conj() * plus).im))
}

/// The inverse of `cos`.
pub(super) fn acos(z: C64) -> C64 {
    if is_huge(z) {
        return C64::new(z.im.abs().atan2(z.re), -ln_of_double_size(z).copysign(z.im));
    }
    let (minus, plus) = roots(z);
    C64::new(2.0 * minus.re.atan2(plus.re), special::asinh((plus.conj() * minus).im))
}

/// The inverse of `sinh`.
pub(super) fn asinh(z: C64) -> C64 {
    over_i(asin(times_i(z)))
}

/// The inverse of `cosh`: the real part is not negative.
pub(super) fn acosh(z: C64) -> C64 {
    let angle = acos(z);
    // acosh z = ±i·acos z, whichever has the real part that is not negative.
    C64::new(angle.im.abs(), angle.re.copysign(z.im))
}

/// The inverse of `tanh`.
pub(super) fn atanh(z: C64) -> C64 {
    if is_huge(z) {
        let size = z.re.abs().max(z.im.abs());
        let (re, im) = (z.re / size, z.im / size);
        let re = if size.is_infinite() { 0.0f64.copysign(z.re) } else { re / (re * re + im * im) / size };
        return C64::new(re, FRAC_PI_2.copysign(z.im));
    }
    let (x, y) = (z.re.abs(), z.im);
    let away = 1.0 - x;
    let re = 0.25 * (4.0 * x / (away * away + y * y)).ln_1p();
    let im = 0.5 * (2.0 * y).atan2(away * (1.0 + x) - y * y);
    C64::new(re.copysign(z.re), im)
}

/// The inverse of `tan`.
pub(super) fn atan(z: C64) -> C64 {
    over_i(atanh(times_i(z)))
}

fn is_huge(z: C64) -> bool {
    !z.re.is_nan() && !z.im.is_nan() && (z.re.abs() > HUGE || z.im.abs() > HUGE)
}

/// `ln(2·|z|)`, without overflow.
fn ln_of_double_size(z: C64) -> f64 {
    (z.re / 4.0).hypot(z.im / 4.0).ln() + 3.0 * LN_2
}
