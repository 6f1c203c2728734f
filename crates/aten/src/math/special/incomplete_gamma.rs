//! The two shares of Γ's integral.

use super::gamma::lgamma;

/// The share of Γ(a)'s integral up to `x`.
pub(in crate::math) fn igamma(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if a == 0.0 {
        return if x > 0.0 { 1.0 } else { f64::NAN };
    }
    if x == 0.0 {
        return 0.0;
    }
    match (a.is_infinite(), x.is_infinite()) {
        (true, true) => f64::NAN,
        (true, false) => 0.0,
        (false, true) => 1.0,
        (false, false) if x > 1.0 && x > a => 1.0 - upper(a, x),
        (false, false) => lower(a, x),
    }
}

/// The share of Γ(a)'s integral from `x` on.
pub(in crate::math) fn igammac(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if a == 0.0 {
        return if x > 0.0 { 0.0 } else { f64::NAN };
    }
    if x == 0.0 {
        return 1.0;
    }
    match (a.is_infinite(), x.is_infinite()) {
        (true, true) => f64::NAN,
        (true, false) => 1.0,
        (false, true) => 0.0,
        (false, false) if x > 1.0 && x > a => upper(a, x),
        (false, false) => 1.0 - lower(a, x),
    }
}

/// `x^a · exp(−x) / Γ(a)`.
fn weight(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return (a * x.ln() - x - lgamma(a)).exp();
    }
    // Stirling's formula, whose large parts cancel against those of x before they are rounded.
    let excess = (x - a) / a;
    let log = if excess.abs() < 0.3 { excess.ln_1p() - excess } else { (x / a).ln() - excess };
    let inverse = 1.0 / a;
    let rest = inverse * (1.0 / 12.0 - inverse * inverse * (1.0 / 360.0 - inverse * inverse / 1260.0));
    (a / (2.0 * std::f64::consts::PI)).sqrt() * (a * log - rest).exp()
}

/// The series for `x` to about `a`.
fn lower(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, a);
    for _ in 0..100_000 {
        k += 1.0;
        term *= x / k;
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
    }
    weight(a, x) / a * sum
}

/// The continued fraction for `x` over `a`, by Lentz's method.
fn upper(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = numerator * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + numerator / c;
        c = if c.abs() < TINY { TINY } else { c };
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    weight(a, x) * fraction
}
