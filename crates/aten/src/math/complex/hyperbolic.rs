//! Circular and hyperbolic functions: the circular ones are the hyperbolic ones turned by a quarter.

use std::f64::consts::PI;

use super::{C64, over_i, times_i};

/// `size · factor`, where a factor of zero makes zero of an infinite size too.
fn times(size: f64, factor: f64) -> f64 {
    if factor == 0.0 && !size.is_nan() { factor.copysign(factor * size.signum()) } else { size * factor }
}

/// The hyperbolic sine.
pub(super) fn sinh(z: C64) -> C64 {
    if z.re == 0.0 {
        return C64::new(z.re, z.im.sin());
    }
    C64::new(times(z.re.sinh(), z.im.cos()), times(z.re.cosh(), z.im.sin()))
}

/// The hyperbolic cosine.
pub(super) fn cosh(z: C64) -> C64 {
    if z.im == 0.0 {
        return C64::new(z.re.cosh(), z.im * if z.re == 0.0 { z.re } else { z.re.signum() });
    }
    C64::new(times(z.re.cosh(), z.im.cos()), times(z.re.sinh(), z.im.sin()))
}

/// The hyperbolic tangent.
pub(super) fn tanh(z: C64) -> C64 {
    if z.re.abs() > 20.0 {
        // cosh² swamps everything else.
        let im =
            if z.im.is_finite() { 4.0 * z.im.sin() * z.im.cos() * (-2.0 * z.re.abs()).exp() } else { 0.0 };
        return C64::new(1f64.copysign(z.re), im);
    }
    let tangent = z.im.tan();
    let beta = 1.0 + tangent * tangent;
    let sinh = z.re.sinh();
    let rho = (1.0 + sinh * sinh).sqrt();
    let divisor = 1.0 + beta * sinh * sinh;
    C64::new(beta * rho * sinh / divisor, tangent / divisor)
}

/// The sine.
pub(super) fn sin(z: C64) -> C64 {
    over_i(sinh(times_i(z)))
}

/// The cosine.
pub(super) fn cos(z: C64) -> C64 {
    cosh(times_i(z))
}

/// The tangent.
pub(super) fn tan(z: C64) -> C64 {
    over_i(tanh(times_i(z)))
}

/// `sin(πz) / (πz)`, and 1 at zero.
pub(super) fn sinc(z: C64) -> C64 {
    if z.re == 0.0 && z.im == 0.0 {
        return C64::new(1.0, 0.0);
    }
    let angle = z.scale(PI);
    sin(angle) / angle
}
