//! Bessel functions that are not in C: the modified ones of both kinds, and the spherical one of order 0.

use std::f64::consts::PI;

/// The modified Bessel function of the first kind, of order 0; NaN at infinity, as PyTorch has it.
pub(in crate::math) fn i0(x: f64) -> f64 {
    let size = x.abs();
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

/// `exp(−|x|) · i0(x)`.
pub(in crate::math) fn i0e(x: f64) -> f64 {
    let size = x.abs();
    if size <= 30.0 { series_i0(size) * (-size).exp() } else { scaled_i0(size) }
}

/// The modified Bessel function of the first kind, of order 1; NaN at infinity, as PyTorch has it.
pub(in crate::math) fn i1(x: f64) -> f64 {
    let size = x.abs();
    let half = (0.5 * size).exp();
    let value = if size <= 30.0 { series_i1(size) } else { scaled_i1(size) * half * half };
    value.copysign(x)
}

/// `exp(−|x|) · i1(x)`.
pub(in crate::math) fn i1e(x: f64) -> f64 {
    let size = x.abs();
    let value = if size <= 30.0 { series_i1(size) * (-size).exp() } else { scaled_i1(size) };
    value.copysign(x)
}

/// `x/2 · Σ (x²/4)^k / (k! (k + 1)!)`, of terms that are all positive.
fn series_i1(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= quarter / (k * (k + 1.0));
        sum += term;
        k += 1.0;
    }
    0.5 * x * sum
}

/// `exp(−x) · i1(x)` for `x` from 30 on, by the asymptotic series.
fn scaled_i1(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0f64, 1.0, 1.0);
    while k < 30.0 && term.abs() > 1e-17 {
        let odd = 2.0 * k - 1.0;
        term *= (odd * odd - 4.0) / (8.0 * k * x);
        sum += term;
        k += 1.0;
    }
    sum / (2.0 * PI * x).sqrt()
}

/// `∫ exp(−x·(cosh t − 1)) · cosh(order · t) dt` from 0 on: `exp(x) · K` of that order. The trapezoid rule
/// gains digits with the inverse of its step, which is less than the width of the integrand, 1/√x.
pub(in crate::math) fn scaled_k(order: f64, x: f64) -> f64 {
    let step = (0.6 / x.sqrt()).min(0.2);
    let (mut sum, mut t) = (0.5, step);
    loop {
        let half_sinh = (0.5 * t).sinh();
        let log = order * t - 2.0 * x * half_sinh * half_sinh;
        let term = 0.5 * log.exp() * (1.0 + (-2.0 * order * t).exp());
        sum += term;
        t += step;
        // The terms of a positive order grow before they fall.
        if (term < 1e-17 * sum && x * t.sinh() > order) || t > 1500.0 {
            return sum * step;
        }
    }
}

fn second_kind(order: f64, x: f64, scale: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY;
    }
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x.is_infinite() {
        return 0.0;
    }
    if order == 1.0 && x < 1e-8 {
        return 1.0 / x;
    }
    scale * scaled_k(order, x)
}

/// The modified Bessel function of the second kind, of order 0.
pub(in crate::math) fn k0(x: f64) -> f64 {
    second_kind(0.0, x, (-x).exp())
}

/// The modified Bessel function of the second kind, of order 1.
pub(in crate::math) fn k1(x: f64) -> f64 {
    second_kind(1.0, x, (-x).exp())
}

/// `exp(x) · k0(x)`.
pub(in crate::math) fn k0e(x: f64) -> f64 {
    second_kind(0.0, x, 1.0)
}

/// `exp(x) · k1(x)`.
pub(in crate::math) fn k1e(x: f64) -> f64 {
    second_kind(1.0, x, 1.0)
}

/// `sin(x) / x`, and 1 at zero.
pub(in crate::math) fn spherical_j0(x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

/// The Bessel functions of C, which PyTorch has as NaN at infinity.
macro_rules! not_at_infinity {
    ($($name:ident)*) => {$(
        /// C's function of this name; NaN at infinity.
        pub(in crate::math) fn $name(x: f64) -> f64 {
            if x.is_infinite() { f64::NAN } else { libm::$name(x) }
        }
    )*};
}
not_at_infinity!(j0 j1 y0 y1);
