//! Exponentials, logarithms and powers.

use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

use super::C64;

/// A size and an angle; a size of 0 or ∞ makes no NaN of an angle's zero sine.
fn polar(size: f64, angle: f64) -> C64 {
    if angle == 0.0 {
        return C64::new(size, angle);
    }
    C64::new(size * angle.cos(), size * angle.sin())
}

/// e to the power `z`.
pub(super) fn exp(z: C64) -> C64 {
    if z.re == f64::NEG_INFINITY && !z.im.is_finite() {
        return C64::new(0.0, 0.0);
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return C64::new(f64::INFINITY, f64::NAN);
    }
    if z.re > 709.0 && z.re < 1400.0 {
        // The size overflows before its product with a small sine or cosine does.
        let half = (0.5 * z.re).exp();
        let part = polar(half, z.im);
        return C64::new(part.re * half, part.im * half);
    }
    polar(z.re.exp(), z.im)
}

/// 2 to the power `z`.
pub(super) fn exp2(z: C64) -> C64 {
    exp(z.scale(LN_2))
}

/// `exp(z) − 1`, without the loss near zero.
pub(super) fn expm1(z: C64) -> C64 {
    if z.im == 0.0 {
        return C64::new(z.re.exp_m1(), z.im);
    }
    let half_sine = (0.5 * z.im).sin();
    // exp(x)·cos(y) − 1 = expm1(x)·cos(y) − 2·sin²(y/2).
    C64::new(z.re.exp_m1() * z.im.cos() - 2.0 * half_sine * half_sine, z.re.exp() * z.im.sin())
}

/// The natural logarithm.
pub(super) fn ln(z: C64) -> C64 {
    C64::new(ln_of_size(z), z.arg())
}

/// The logarithm of the size, without loss for sizes near 1 and without overflow.
fn ln_of_size(z: C64) -> f64 {
    let (low, high) = {
        let (a, b) = (z.re.abs(), z.im.abs());
        if a < b { (a, b) } else { (b, a) }
    };
    if high > 0.5 && high < 2.0 && low < 2.0 {
        return 0.5 * ((high - 1.0) * (high + 1.0) + low * low).ln_1p();
    }
    if high.is_finite() && high > 1e300 {
        return (low / 4.0).hypot(high / 4.0).ln() + 2.0 * LN_2;
    }
    z.abs().ln()
}

/// The logarithm to base 2.
pub(super) fn log2(z: C64) -> C64 {
    ln(z).scale(LOG2_E)
}

/// The logarithm to base 10.
pub(super) fn log10(z: C64) -> C64 {
    ln(z).scale(LOG10_E)
}

/// `ln(1 + z)`, without the loss near zero.
pub(super) fn log1p(z: C64) -> C64 {
    let sum = C64::new(1.0 + z.re, z.im);
    if z.re.abs() > 0.5 || z.im.abs() > 0.5 {
        return ln(sum);
    }
    // |1 + z|² − 1 = x·(2 + x) + y².
    C64::new(0.5 * (z.re * (2.0 + z.re) + z.im * z.im).ln_1p(), sum.arg())
}

/// `base` to the power `exponent`.
pub(super) fn pow(base: C64, exponent: C64) -> C64 {
    if exponent.re == 0.0 && exponent.im == 0.0 {
        return C64::new(1.0, 0.0);
    }
    if base.re == 0.0 && base.im == 0.0 && exponent.im == 0.0 && exponent.re > 0.0 {
        return C64::new(0.0, 0.0);
    }
    exp(exponent * ln(base))
}

/// `1 / (1 + exp(−z))`.
pub(super) fn sigmoid(z: C64) -> C64 {
    C64::new(1.0, 0.0) / (C64::new(1.0, 0.0) + exp(-z))
}
