//! Zeros, infinities and NaN.

use crate::math::Float;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// The same bits, or both NaN.
#[track_caller]
fn assert_same(got: f32, right: f32, what: &str) {
    assert!(
        got.to_bits() == right.to_bits() || (got.is_nan() && right.is_nan()),
        "{what}: {got:?}, not {right:?}"
    );
}

#[test]
fn functions_of_one_number() {
    type Function = fn(f32) -> f32;
    // At −inf, −0, +0, inf.
    let table: &[(&str, Function, [f32; 4])] = &[
        ("exp", Float::exp, [0.0, 1.0, 1.0, INF]),
        ("exp2", Float::exp2, [0.0, 1.0, 1.0, INF]),
        ("expm1", Float::expm1, [-1.0, -0.0, 0.0, INF]),
        ("ln", Float::ln, [NAN, -INF, -INF, INF]),
        ("log2", Float::log2, [NAN, -INF, -INF, INF]),
        ("log10", Float::log10, [NAN, -INF, -INF, INF]),
        ("log1p", Float::log1p, [NAN, -0.0, 0.0, INF]),
        ("sin", Float::sin, [NAN, -0.0, 0.0, NAN]),
        ("cos", Float::cos, [NAN, 1.0, 1.0, NAN]),
        ("tan", Float::tan, [NAN, -0.0, 0.0, NAN]),
        ("asin", Float::asin, [NAN, -0.0, 0.0, NAN]),
        ("acos", Float::acos, [NAN, std::f32::consts::FRAC_PI_2, std::f32::consts::FRAC_PI_2, NAN]),
        ("atan", Float::atan, [-std::f32::consts::FRAC_PI_2, -0.0, 0.0, std::f32::consts::FRAC_PI_2]),
        ("sinh", Float::sinh, [-INF, -0.0, 0.0, INF]),
        ("cosh", Float::cosh, [INF, 1.0, 1.0, INF]),
        ("tanh", Float::tanh, [-1.0, -0.0, 0.0, 1.0]),
        ("asinh", Float::asinh, [-INF, -0.0, 0.0, INF]),
        ("acosh", Float::acosh, [NAN, NAN, NAN, INF]),
        ("atanh", Float::atanh, [NAN, -0.0, 0.0, NAN]),
        ("sqrt", Float::sqrt, [NAN, -0.0, 0.0, INF]),
        ("rsqrt", Float::rsqrt, [NAN, -INF, INF, 0.0]),
        ("erf", Float::erf, [-1.0, -0.0, 0.0, 1.0]),
        ("erfc", Float::erfc, [2.0, 1.0, 1.0, 0.0]),
        ("erfinv", Float::erfinv, [NAN, -0.0, 0.0, NAN]),
        ("sigmoid", Float::sigmoid, [0.0, 0.5, 0.5, 1.0]),
        ("lgamma", Float::lgamma, [INF, INF, INF, INF]),
        ("digamma", Float::digamma, [NAN, INF, -INF, INF]),
        ("i0", Float::i0, [NAN, 1.0, 1.0, NAN]),
        ("round", Float::round, [-INF, -0.0, 0.0, INF]),
    ];
    for (name, function, right) in table {
        for (x, right) in [-INF, -0.0, 0.0, INF].into_iter().zip(*right) {
            assert_same(function(x), right, &format!("{name}({x:?})"));
        }
        assert!(function(NAN).is_nan(), "{name}(NaN)");
    }
}

#[test]
fn a_half_is_rounded_to_the_even_integer() {
    for (x, right) in
        [(0.5f32, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (8_388_609.0, 8_388_609.0)]
    {
        assert_same(Float::round(x), right, "round");
    }
}

#[test]
fn powers_at_the_edges() {
    let table = [
        (1.0, NAN, 1.0),
        (NAN, 0.0, 1.0),
        (NAN, 1.0, NAN),
        (0.0, -1.0, INF),
        (-0.0, -1.0, -INF),
        (-0.0, -2.0, INF),
        (-0.0, 3.0, -0.0),
        (-0.0, 0.5, 0.0),
        (-0.0, -INF, INF),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (0.5, INF, 0.0),
        (0.5, -INF, INF),
        (-2.0, INF, INF),
        (-2.0, 3.0, -8.0),
        (-2.0, 0.5, NAN),
        (-INF, 3.0, -INF),
        (-INF, -3.0, -0.0),
        (-INF, 0.5, INF),
        (-INF, -0.5, 0.0),
        (INF, -1.0, 0.0),
        (2.0, 127.0, 1.701_411_8e38),
        (2.0, -149.0, 1e-45),
        (2.0, 128.0, INF),
    ];
    for (base, exponent, right) in table {
        assert_same(Float::pow(base, exponent), right, &format!("{base:?} to the {exponent:?}"));
    }
}

#[test]
fn angles_at_the_edges() {
    let values = [-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN];
    for y in values {
        for x in values {
            let right = f64::from(y).atan2(f64::from(x)) as f32;
            assert_same(Float::atan2(y, x), right, &format!("atan2({y:?}, {x:?})"));
        }
    }
}

#[test]
fn a_remainder_has_the_sign_of_its_divisor() {
    for (a, b, right) in [
        (-1.0f32, 1.0, 0.0),
        (2.0, -1.0, -0.0),
        (-7.0, 3.0, 2.0),
        (7.0, -3.0, -2.0),
        (-1.0, INF, INF),
        (1.0, 0.0, NAN),
        (INF, 2.0, NAN),
        (NAN, 2.0, NAN),
    ] {
        assert_same(Float::remainder(a, b), right, &format!("remainder({a:?}, {b:?})"));
    }
    assert_same(Float::fmod(-7.0f32, 3.0), -1.0, "fmod");
    assert_same(Float::fmod(7.0f32, -3.0), 1.0, "fmod");
}

#[test]
fn floor_division_is_pythons() {
    for (a, b, right) in [
        (-1.0f32, 0.0, -INF),
        (0.0, 0.0, NAN),
        (1.0, 0.0, INF),
        (1.0, -0.0, -INF),
        (7.0, 2.0, 3.0),
        (-7.0, 2.0, -4.0),
        (7.0, -2.0, -4.0),
        (-0.0, 2.0, -0.0),
        (1.0, INF, 0.0),
        (-1.0, INF, -1.0),
        (INF, 2.0, NAN),
    ] {
        assert_same(Float::floor_divide(a, b), right, &format!("{a:?} // {b:?}"));
    }
    // 0.1 in binary is a little more than a tenth.
    assert_eq!(Float::floor_divide(1.0f64, 0.1), 9.0);
}

#[test]
fn greater_and_lesser_treat_nan_as_their_names_say() {
    assert!(Float::maximum(1.0f32, NAN).is_nan() && Float::maximum(NAN, 1.0f32).is_nan());
    assert!(Float::minimum(1.0f32, NAN).is_nan() && Float::minimum(NAN, 1.0f32).is_nan());
    assert_eq!(Float::fmax(1.0f32, NAN), 1.0);
    assert_eq!(Float::fmax(NAN, 1.0f32), 1.0);
    assert_eq!(Float::fmin(NAN, 1.0f32), 1.0);
    assert_eq!(Float::maximum(1.0f32, 2.0), 2.0);
    assert_eq!(Float::minimum(1.0f32, 2.0), 1.0);
    assert_eq!(Float::sign(NAN), 0.0);
    assert_eq!(Float::sign(-3.0f32), -1.0);
}

#[test]
fn sums_of_exponentials_do_not_overflow() {
    assert_eq!(Float::logaddexp(1e4f64, 1e4), 1e4 + std::f64::consts::LN_2);
    assert_eq!(Float::logaddexp(f64::INFINITY, f64::INFINITY), f64::INFINITY);
    assert_eq!(Float::logaddexp(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
    assert_eq!(Float::logaddexp(f64::NEG_INFINITY, 3.0), 3.0);
    assert!(Float::logaddexp(f64::NAN, 3.0).is_nan() && Float::logaddexp(3.0, f64::NAN).is_nan());
    assert_eq!(Float::logaddexp2(5.0f64, 5.0), 6.0);
}

#[test]
fn neighbours() {
    assert_eq!(Float::nextafter(0.0f32, 1.0), f32::from_bits(1));
    assert_eq!(Float::nextafter(0.0f32, -1.0), -f32::from_bits(1));
    assert_eq!(Float::nextafter(1.0f32, 1.0), 1.0);
    assert_eq!(Float::nextafter(f32::MAX, INF), INF);
    assert!(Float::nextafter(NAN, 1.0).is_nan());
}
