//! Functions of `f64` that neither the standard library nor `libm` has as PyTorch means them.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// The logarithm of the size of Γ: infinite at the poles and at both infinities.
pub(super) fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The inverse of `sinh`, odd to the last bit.
pub(super) fn asinh(x: f64) -> f64 {
    let size = x.abs();
    // Beyond this the 1 under the root no longer shows, and the square would overflow.
    let value = if size > 1e9 {
        size.ln() + std::f64::consts::LN_2
    } else {
        (size + size * size / (1.0 + size.hypot(1.0))).ln_1p()
    };
    value.copysign(x)
}

/// The inverse of `tanh`, odd to the last bit.
pub(super) fn atanh(x: f64) -> f64 {
    let size = x.abs();
    (0.5 * (2.0 * size / (1.0 - size)).ln_1p()).copysign(x)
}

/// The inverse of `erf`: a formula good to three digits, then Halley's steps.
pub(super) fn erfinv(x: f64) -> f64 {
    let size = x.abs();
    if size == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if size.is_nan() || size > 1.0 {
        return f64::NAN;
    }
    if size == 0.0 {
        return x;
    }
    const SHAPE: f64 = 0.147;
    let log = (-size * size).ln_1p();
    let half = 2.0 / (PI * SHAPE) + 0.5 * log;
    let mut y = ((half * half - log / SHAPE).sqrt() - half).sqrt();
    if size < 1e-3 {
        y = size / FRAC_2_SQRT_PI;
    }
    for _ in 0..3 {
        // Near 1 the complement keeps the digits that the difference to 1 has.
        let excess = if size < 0.5 { libm::erf(y) - size } else { (1.0 - size) - libm::erfc(y) };
        let step = excess / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

/// The derivative of `ln Γ`; NaN at the negative integers.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x.trunc() == x {
            return f64::NAN;
        }
        // The part after the point alone, since π·x would lose it for large x.
        return digamma(1.0 - x) - PI / (PI * (x - x.trunc())).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    if x == f64::INFINITY {
        return x;
    }
    // Bernoulli numbers over twice their index.
    let square = 1.0 / (x * x);
    let tail =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32_760.0, 1.0 / 12.0];
    let series = tail.iter().rev().fold(0.0, |sum, coefficient| sum * square + coefficient) * square;
    sum + x.ln() - 0.5 / x - series
}

/// The modified Bessel function of the first kind, of order 0.
pub(super) fn i0(x: f64) -> f64 {
    let size = x.abs();
    if size.is_infinite() {
        return size;
    }
    if size <= 30.0 { series_i0(size) } else { scaled_i0(size) * (0.5 * size).exp() * (0.5 * size).exp() }
}

/// `Σ (x²/4)^k / k!²`, of terms that are all positive.
fn series_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    if x.is_nan() { x } else { sum }
}

/// `exp(−x) · i0(x)` for `x` from 30 on, by the asymptotic series.
fn scaled_i0(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while k < 30.0 && term > 1e-17 {
        let odd = 2.0 * k - 1.0;
        term *= odd * odd / (8.0 * k * x);
        sum += term;
        k += 1.0;
    }
    sum / (2.0 * PI * x).sqrt()
}
