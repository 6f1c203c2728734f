//! Every function of `f32` over all exponents and both signs, in units of the last place.

use crate::math::Float;

/// Bit patterns through the whole range of `f32`, with a prime distance between them.
pub(super) fn samples() -> impl Iterator<Item = f32> {
    (0..=u32::MAX).step_by(4099).map(f32::from_bits)
}

/// Patterns that are dense where a function turns: sizes from 2^-14 to 2^7.
fn dense_samples() -> impl Iterator<Item = f32> {
    (0x3880_0000u32..0x4300_0000).step_by(211).flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
}

/// How far `got` is from `exact`, in units of the last place of `exact` in `f32`.
fn error_in_ulps(got: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if got == nearest || (got.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !nearest.is_finite() {
        // At the end of the range infinity is the next number.
        let beyond =
            |x: f32| if x.is_infinite() { 2f64.powi(128).copysign(f64::from(x)) } else { f64::from(x) };
        return (beyond(got) - beyond(nearest)).abs() / 2f64.powi(104);
    }
    let unit = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
    let unit = if unit.is_finite() { unit } else { 2f64.powi(104) };
    (f64::from(got) - exact).abs() / unit
}

fn assert_close(name: &str, bound: f64, function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
    let (mut worst, mut at) = (0.0, 0.0);
    for x in samples().chain(dense_samples()) {
        let error = error_in_ulps(function(x), exact(f64::from(x)));
        if error > worst || error.is_nan() {
            (worst, at) = (error, x);
        }
    }
    assert!(worst <= bound, "{name}({at:e}) = {:e} is {worst} units off", function(at));
}

macro_rules! accuracy {
    ($($test:ident: $name:ident within $bound:literal of $exact:expr;)*) => {$(
        #[test]
        fn $test() {
            assert_close(stringify!($name), $bound, |x| Float::$name(x), $exact);
        }
    )*};
}

accuracy! {
    exp_is_close: exp within 1.0 of f64::exp;
    exp2_is_close: exp2 within 1.0 of f64::exp2;
    expm1_is_close: expm1 within 2.0 of f64::exp_m1;
    ln_is_close: ln within 1.0 of f64::ln;
    log2_is_close: log2 within 0.6 of f64::log2;
    log10_is_close: log10 within 0.6 of f64::log10;
    log1p_is_close: log1p within 0.6 of f64::ln_1p;
    sin_is_close: sin within 1.6 of f64::sin;
    cos_is_close: cos within 1.6 of f64::cos;
    tan_is_close: tan within 0.6 of f64::tan;
    asin_is_close: asin within 0.6 of f64::asin;
    acos_is_close: acos within 0.6 of f64::acos;
    atan_is_close: atan within 0.6 of f64::atan;
    sinh_is_close: sinh within 0.6 of f64::sinh;
    cosh_is_close: cosh within 0.6 of f64::cosh;
    tanh_is_close: tanh within 1.5 of f64::tanh;
    erf_is_close: erf within 0.6 of libm::erf;
    erfc_is_close: erfc within 0.6 of libm::erfc;
    sigmoid_is_close: sigmoid within 2.25 of |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) };
}

#[test]
fn powers_are_close() {
    let exponents = [-3.5f32, -2.0, -1.0, -0.3, 0.1, 0.5, 1.0, 1.7, 2.0, 3.0, 11.0, 1e-3, 40.0, 1e10];
    for exponent in exponents {
        assert_close("pow", 0.6, |x| Float::pow(x, exponent), |x| x.powf(f64::from(exponent)));
    }
    for base in [0.1f32, 0.9999, 1.0001, 2.0, 10.0, -2.0] {
        assert_close("pow", 0.6, |y| Float::pow(base, y), |y| f64::from(base).powf(y));
    }
}

#[test]
fn angles_of_points_are_close() {
    for y in [-3.0f32, -1.0, 1e-20, 0.5, 1.0, 7e10] {
        assert_close("atan2", 0.6, |x| Float::atan2(y, x), |x| f64::from(y).atan2(x));
    }
}
