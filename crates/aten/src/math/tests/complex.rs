//! Complex functions: what breaks when a size overflows, a sum cancels or a zero has a sign.

use c10_core::Complex;

use crate::math::ComplexFloat;

type C64 = Complex<f64>;

#[track_caller]
fn assert_near(got: C64, right: C64) {
    let near = |a: f64, b: f64| {
        a == b || (a - b).abs() <= 1e-14 * right.abs().min(1e300) || (a.is_nan() && b.is_nan())
    };
    assert!(near(got.re, right.re) && near(got.im, right.im), "{got}, not {right}");
}

#[test]
fn roots_neither_overflow_nor_cancel() {
    let root = ComplexFloat::sqrt(Complex::new(0.0f32, -1e20));
    assert_eq!(root, Complex::new(7.071_067_6e9, -7.071_067_6e9));
    let root = ComplexFloat::sqrt(C64::new(-1e20, -4_988_429.2));
    assert!((root.re / 2.494_214_6e-4 - 1.0).abs() < 1e-7 && root.im == -1e10);
    let root = ComplexFloat::sqrt(C64::new(1.7e308, 1.7e308));
    assert!((root.scale(1e-154) * root.scale(1e-154)).re / 1.7 - 1.0 < 1e-14);
    assert_eq!(ComplexFloat::sqrt(C64::new(-4.0, 0.0)), C64::new(0.0, 2.0));
    assert_eq!(ComplexFloat::sqrt(C64::new(-4.0, -0.0)), C64::new(0.0, -2.0));
}

#[test]
fn sizes_are_hypotenuses() {
    assert_eq!(ComplexFloat::abs(Complex::new(0.0f32, -1e20)), 1e20);
    assert_eq!(ComplexFloat::abs(C64::new(1.0, 1.797e308)), 1.797e308);
    assert!((ComplexFloat::abs(Complex::new(1e-30f32, 1e-30)) / 1.414_213_5e-30 - 1.0).abs() < 1e-6);
}

#[test]
fn inverses_undo() {
    let values = [-3.0, -1.0, -0.25, -1e-8, 1e-8, 0.7, 2.5];
    for re in values {
        for im in values {
            let z = C64::new(re, im);
            assert_near(z.asin().sin(), z);
            assert_near(z.atan().tan(), z);
            assert_near(z.asinh().sinh(), z);
            assert_near(z.atanh().tanh(), z);
            // Near a quarter turn the digits of a small cosine are gone.
            let off = |back: C64| ComplexFloat::abs(back - z);
            assert!(off(z.acos().cos()) < 2e-15 && off(z.acosh().cosh()) < 2e-15, "{z}");
            assert_near(z.ln().exp(), z);
            assert_near(z.log1p().expm1(), z);
            assert_near(z.log2().exp2(), z);
            assert_near(z.reciprocal() * z, C64::ONE);
            assert_near(z.rsqrt() * z.sqrt(), C64::ONE);
            assert_near(z.pow(C64::new(3.0, 0.0)), z * z * z);
            assert_near(z.sgn().scale(ComplexFloat::abs(z)), z);
        }
    }
}

#[test]
fn huge_arguments_stay_finite() {
    let z = C64::new(-1e200, 1e200);
    for value in [z.asin(), z.acos(), z.atan(), z.asinh(), z.acosh(), z.atanh(), z.ln(), z.tanh(), z.tan()] {
        assert!(value.re.is_finite() && value.im.is_finite(), "{value}");
    }
    assert_near(C64::new(1e200, 1e200).tanh(), C64::new(1.0, 0.0));
    assert!((z.atan().re + std::f64::consts::FRAC_PI_2).abs() < 1e-15);
}

#[test]
fn the_sign_of_a_zero_picks_the_side_of_a_cut() {
    assert!(C64::new(2.0, 0.0).asin().im > 0.0 && C64::new(2.0, -0.0).asin().im < 0.0);
    assert!(C64::new(2.0, 0.0).acos().im < 0.0 && C64::new(2.0, -0.0).acos().im > 0.0);
    assert!(C64::new(-2.0, 0.0).ln().im > 0.0 && C64::new(-2.0, -0.0).ln().im < 0.0);
    assert!(C64::new(2.0, 0.0).atanh().im > 0.0 && C64::new(2.0, -0.0).atanh().im < 0.0);
    assert!(C64::new(-2.0, 0.0).acosh().im > 0.0 && C64::new(-2.0, -0.0).acosh().im < 0.0);
}

#[test]
fn powers_of_zero() {
    assert_eq!(C64::ZERO.pow(C64::ZERO), C64::ONE);
    assert_eq!(C64::ZERO.pow(C64::new(2.0, 0.0)), C64::ZERO);
}
