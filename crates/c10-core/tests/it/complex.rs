//! Arithmetic of complex numbers.

use c10_core::Complex;
use proptest::prelude::*;

#[test]
fn sums_products_and_signs() {
    let (a, b) = (Complex::new(1.0f32, 2.0), Complex::new(3.0, -4.0));
    assert_eq!(a + b, Complex::new(4.0, -2.0));
    assert_eq!(a - b, Complex::new(-2.0, 6.0));
    assert_eq!(a * b, Complex::new(11.0, 2.0));
    assert_eq!(-a, Complex::new(-1.0, -2.0));
    assert_eq!(a.conj(), Complex::new(1.0, -2.0));
    assert_eq!(b.scale(0.5), Complex::new(1.5, -2.0));
    let mut sum = a;
    sum += b;
    sum *= a;
    sum -= b;
    sum /= Complex::new(0.0, 1.0);
    assert_eq!(sum, ((a + b) * a - b) / Complex::new(0.0, 1.0));
}

#[test]
fn a_quotient_of_far_numbers_neither_overflows_nor_vanishes() {
    let huge = Complex::new(1e300f64, 1e300);
    assert_eq!(huge / huge, Complex::new(1.0, 0.0));
    let tiny = Complex::new(1e-300f64, -1e-300);
    assert_eq!(tiny / tiny, Complex::new(1.0, 0.0));
    assert_eq!(Complex::new(3e38f32, 0.0) / Complex::new(0.0, 3e38), Complex::new(0.0, -1.0));
}

#[test]
fn a_quotient_by_zero_is_not_finite() {
    let quotient = Complex::new(1.0f32, -2.0) / Complex::new(0.0, 0.0);
    assert_eq!(quotient, Complex::new(f32::INFINITY, f32::NEG_INFINITY));
    let nothing = Complex::new(0.0f32, 0.0) / Complex::new(0.0, 0.0);
    assert!(nothing.re.is_nan() && nothing.im.is_nan());
}

#[test]
fn the_distance_from_zero_does_not_overflow() {
    assert_eq!(Complex::new(0.0f32, -1e20).abs(), 1e20);
    assert_eq!(Complex::new(1.0f64, 1.797e308).abs(), 1.797e308);
    assert!((Complex::new(1e-30f32, 1e-30).abs() / 1.414_213_5e-30 - 1.0).abs() < 1e-6);
    assert_eq!(Complex::new(-1.0f64, 0.0).arg(), std::f64::consts::PI);
    assert_eq!(Complex::new(-1.0f64, -0.0).arg(), -std::f64::consts::PI);
}

proptest! {
    #[test]
    fn a_quotient_times_its_divisor_is_the_dividend(
        a in (-1e3f64..1e3, -1e3f64..1e3),
        b in (-1e3f64..1e3, -1e3f64..1e3),
    ) {
        let (a, b) = (Complex::new(a.0, a.1), Complex::new(b.0, b.1));
        prop_assume!(b.abs() > 1e-3);
        prop_assert!((a / b * b - a).abs() <= 1e-12 * a.abs());
    }
}
