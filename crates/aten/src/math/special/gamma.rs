//! Γ's logarithm, its derivatives, and Hurwitz's zeta.

use std::f64::consts::PI;

/// The logarithm of the size of Γ: infinite at the poles and at both infinities.
pub(in crate::math) fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The derivative of `ln Γ`; NaN at the negative integers.
pub(in crate::math) fn digamma(x: f64) -> f64 {
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

/// The `n`-th derivative of `digamma`, not negative `n`.
pub(in crate::math) fn polygamma(n: i64, x: f64) -> f64 {
    if n == 0 {
        return digamma(x);
    }
    if n == 1 && x == f64::INFINITY {
        return 0.0;
    }
    let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
    if n == 1 && x < 0.5 {
        // The reflection of trigamma, which the sum of zeta does not reach.
        let sine = (PI * x).sin();
        return PI * PI / (sine * sine) - zeta(2.0, 1.0 - x);
    }
    sign * libm::lgamma(n as f64 + 1.0).exp() * zeta(n as f64 + 1.0, x)
}

/// Hurwitz's zeta, `Σ (q + k)^−s`, for `s` over 1.
pub(in crate::math) fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    if s.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    let (mut sum, mut at) = (q.powf(-s), q);
    for k in 0.. {
        if k >= 9 && at > 9.0 {
            break;
        }
        at += 1.0;
        let term = at.powf(-s);
        sum += term;
        if term.abs() < f64::EPSILON / 2.0 * sum.abs() {
            return sum;
        }
    }
    // Euler and Maclaurin's rest of the sum: B₂ₖ / (2k)! times the odd derivatives.
    const COEFFICIENTS: [f64; 9] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3617.0 / 10_670_622_842_880_000.0,
        43_867.0 / 5_109_094_217_170_944_000.0,
    ];
    let mut power = at.powf(-s);
    sum += power * at / (s - 1.0) - 0.5 * power;
    let (mut factor, mut k) = (1.0, 0.0);
    for coefficient in COEFFICIENTS {
        factor *= s + k;
        power /= at;
        sum += factor * power * coefficient;
        factor *= s + k + 1.0;
        power /= at;
        k += 2.0;
    }
    sum
}
