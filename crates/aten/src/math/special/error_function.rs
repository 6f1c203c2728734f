//! The error function's inverse, its scaled complement, and the normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

/// The inverse of `erf`: a formula good to three digits, then Halley's steps.
pub(in crate::math) fn erfinv(x: f64) -> f64 {
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

/// `exp(x²) · erfc(x)`, without the overflow of the one and the underflow of the other.
pub(in crate::math) fn erfcx(x: f64) -> f64 {
    if x < 25.0 {
        if x < -26.7 {
            return f64::INFINITY;
        }
        if x < 2.0 {
            return exp_of_square(x) * libm::erfc(x);
        }
        return fraction_erfcx(x);
    }
    // 1/x·(1 − 1/(2x²) + …)/√π: the third term is below the last bit from 1e4 on, the fifth from 25 on.
    let inverse = 0.5 / (x * x);
    0.5 * FRAC_2_SQRT_PI / x
        * (1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse))))
}

/// `exp(x²)`, with the rounding of the square put right.
fn exp_of_square(x: f64) -> f64 {
    let square = x * x;
    square.exp() * x.mul_add(x, -square).exp()
}

/// The continued fraction of `erfcx`, from its far end; for `x` from 2 on.
fn fraction_erfcx(x: f64) -> f64 {
    let mut tail = x;
    for k in (1..=120).rev() {
        tail = x + 0.5 * f64::from(k) / tail;
    }
    0.5 * FRAC_2_SQRT_PI / tail
}

/// The share of the normal distribution below `x`.
pub(in crate::math) fn ndtr(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The logarithm of [`ndtr`].
pub(in crate::math) fn log_ndtr(x: f64) -> f64 {
    let t = x * FRAC_1_SQRT_2;
    if x < -1.0 { (0.5 * erfcx(-t)).ln() - t * t } else { (-0.5 * libm::erfc(t)).ln_1p() }
}

/// The inverse of [`ndtr`].
pub(in crate::math) fn ndtri(share: f64) -> f64 {
    if share == 0.0 {
        return f64::NEG_INFINITY;
    }
    if share == 1.0 {
        return f64::INFINITY;
    }
    if !(0.0..=1.0).contains(&share) {
        return f64::NAN;
    }
    if share > 0.1 {
        return SQRT_2 * erfinv(2.0 * share - 1.0);
    }
    // Newton's method on the logarithm, which is nearly a parabola there.
    let log = share.ln();
    let mut x = -(-2.0 * log).sqrt();
    for _ in 0..60 {
        let value = log_ndtr(x);
        let slope = (-0.5 * x * x - 0.5 * (2.0 * PI).ln() - value).exp();
        let step = (value - log) / slope;
        x -= step;
        if step.abs() <= 1e-15 * x.abs() {
            break;
        }
    }
    x
}
