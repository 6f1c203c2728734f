//! Airy's function.

use std::f64::consts::{FRAC_PI_4, PI};

use super::bessel::scaled_k;

/// Airy's function of the first kind.
pub(in crate::math) fn airy_ai(x: f64) -> f64 {
    // As PyTorch has it.
    if x.is_infinite() {
        return f64::NAN;
    }
    // Below every number from 110 on.
    if x > 110.0 {
        return 0.0;
    }
    let zeta = 2.0 / 3.0 * x.abs() * x.abs().sqrt();
    if x > 1.0 {
        return (x / 3.0).sqrt() / PI * scaled_k(1.0 / 3.0, zeta) * (-zeta).exp();
    }
    if x < -7.0 { oscillating(x, zeta) } else { series(x) }
}

/// `Σ` of the two solutions' powers about zero; from −7 to 1 the terms stay below 1e6.
fn series(x: f64) -> f64 {
    // Ai(0) and −Ai′(0).
    const AT_ZERO: f64 = 0.355_028_053_887_817_2;
    const SLOPE: f64 = 0.258_819_403_792_806_8;
    let cube = x * x * x;
    let (mut even, mut odd) = (AT_ZERO, SLOPE * x);
    let (mut sum, mut k) = (even - odd, 0.0);
    while even.abs() + odd.abs() > 1e-20 && k < 600.0 {
        k += 3.0;
        even *= cube / (k * (k - 1.0));
        odd *= cube / (k * (k + 1.0));
        sum += even - odd;
    }
    if x.is_nan() { x } else { sum }
}

/// The asymptotic series for `x` well below zero.
fn oscillating(x: f64, zeta: f64) -> f64 {
    let (mut term, mut k) = (1.0, 0.0);
    let mut sums = [0.0, 0.0];
    while k < 24.0 {
        // Every second term belongs to the sine; each pair changes its sign.
        let sign = if (k as i32 / 2) % 2 == 0 { 1.0 } else { -1.0 };
        sums[k as usize % 2] += sign * term;
        let next: f64 = k + 1.0;
        let factor = (6.0 * next - 5.0) * (6.0 * next - 1.0) / (72.0 * next) / zeta;
        if factor >= 1.0 {
            break;
        }
        term *= factor;
        k = next;
    }
    let angle = zeta - FRAC_PI_4;
    (angle.cos() * sums[0] + angle.sin() * sums[1]) / (PI.sqrt() * x.abs().sqrt().sqrt())
}
