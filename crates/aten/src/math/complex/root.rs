//! Roots, reciprocals and directions.

use super::C64;

/// The root whose real part is not negative; its imaginary part has the sign of `z`'s.
pub(super) fn sqrt(z: C64) -> C64 {
    if z.re == 0.0 && z.im == 0.0 {
        return C64::new(0.0, z.im);
    }
    if z.im.is_infinite() {
        return C64::new(f64::INFINITY, z.im);
    }
    if z.re.is_infinite() {
        let other = if z.im.is_nan() { f64::NAN } else { 0.0 };
        return match z.re > 0.0 {
            true => C64::new(z.re, other.copysign(z.im)),
            false => C64::new(other, f64::INFINITY.copysign(z.im)),
        };
    }
    // By a power of four, so that half the size neither overflows nor loses bits to subnormal numbers.
    let largest = z.re.abs().max(z.im.abs());
    let (factor, back) = if largest > 1e300 {
        (0.0625, 4.0)
    } else if largest < 1e-290 {
        (2f64.powi(108), 2f64.powi(-54))
    } else {
        (1.0, 1.0)
    };
    let (re, im) = (z.re * factor, z.im * factor);
    let part = (0.5 * (re.abs() + re.hypot(im))).sqrt();
    let rest = im.abs() / (2.0 * part);
    let (re, im) = if re >= 0.0 { (part, rest) } else { (rest, part) };
    C64::new(re * back, (im * back).copysign(z.im))
}

/// `1 / √z`.
pub(super) fn rsqrt(z: C64) -> C64 {
    C64::new(1.0, 0.0) / sqrt(z)
}

/// `1 / z`; of an infinite number, zero.
pub(super) fn reciprocal(z: C64) -> C64 {
    if z.re.is_infinite() || z.im.is_infinite() {
        return C64::new(0.0, 0.0);
    }
    C64::new(1.0, 0.0) / z
}

/// The number of size 1 in the same direction, or 0.
pub(super) fn sgn(z: C64) -> C64 {
    let size = z.abs();
    if size == 0.0 { C64::new(0.0, 0.0) } else { C64::new(z.re / size, z.im / size) }
}
