//! Integers wrap and never panic.

use crate::math::Integer;
use proptest::prelude::*;

#[test]
fn the_least_number_over_minus_one() {
    assert_eq!(Integer::remainder(i64::MIN, -1), 0);
    assert_eq!(Integer::fmod(i32::MIN, -1), 0);
    assert_eq!(Integer::floor_divide(i8::MIN, -1), i8::MIN);
    assert_eq!(Integer::abs(i16::MIN), i16::MIN);
    assert_eq!(Integer::neg(1u8), 255);
}

#[test]
fn negative_powers() {
    for (base, right) in [(0, 0), (1, 1), (2, 0), (-1, -1)] {
        assert_eq!(Integer::pow(base, -1i32), right);
    }
    assert_eq!(Integer::pow(-1i64, -2), 1);
    assert_eq!(Integer::pow(2u8, 17), 0);
    assert_eq!(Integer::pow(3i8, 5), 243u8 as i8);
}

#[test]
fn shifts_beyond_the_width() {
    assert_eq!(Integer::shift_left(1i32, 31), i32::MIN);
    assert_eq!(Integer::shift_left(1i32, 32), 0);
    assert_eq!(Integer::shift_left(1i32, -1), 0);
    assert_eq!(Integer::shift_right(-8i32, 1), -4);
    assert_eq!(Integer::shift_right(-8i32, 99), -1);
    assert_eq!(Integer::shift_right(-8i32, -1), -1);
    assert_eq!(Integer::shift_right(8u8, 9), 0);
}

#[test]
fn divisors_and_multiples() {
    assert_eq!(Integer::gcd(-12i32, 18), 6);
    assert_eq!(Integer::gcd(0i32, 0), 0);
    assert_eq!(Integer::lcm(-4i32, 6), 12);
    assert_eq!(Integer::lcm(0i32, 6), 0);
    assert_eq!(Integer::gcd(i32::MIN, -1), 1);
}

proptest! {
    #[test]
    fn division_is_python_s(a: i16, b: i16) {
        prop_assume!(b != 0);
        let floor = (f64::from(a) / f64::from(b)).floor();
        prop_assert_eq!(Integer::floor_divide(a, b), floor as i64 as i16);
        prop_assert_eq!(i64::from(Integer::remainder(a, b)), i64::from(a) - floor as i64 * i64::from(b));
    }

    #[test]
    fn nothing_panics(a: i64, b: i64) {
        for (a, b) in [(a, b), (a, 0), (i64::MIN, b), (i64::MIN, -1)] {
            let _ = (a.floor_divide(b), a.remainder(b), Integer::fmod(a, b), a.trunc_divide(b));
            let _ = (Integer::pow(a, b), a.shift_left(b), a.shift_right(b), a.gcd(b), a.lcm(b));
        }
    }
}
