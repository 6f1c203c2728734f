//! The eight-bit floats against a search of the nearest value, and against PyTorch's conversions.

use c10_core::{F8E4M3Fn, F8E5M2};
use proptest::prelude::*;

fn file() -> (&'static str, impl Iterator<Item = [u32; 3]>) {
    let (first, rest) = include_str!("../../testdata/float8.txt").split_once('\n').unwrap();
    let number = |field: &str| u32::from_str_radix(field, 16).unwrap();
    (first, rest.lines().map(move |line| std::array::from_fn(|i| number(line.split(' ').nth(i).unwrap()))))
}

/// The same bits, or NaNs of the same sign: their payload does not count.
fn assert_same(ours: f32, bits: u32) {
    let recorded = f32::from_bits(bits);
    let same = ours.to_bits() == bits
        || (ours.is_nan() && recorded.is_nan() && ours.is_sign_negative() == recorded.is_sign_negative());
    assert!(same, "{ours:?} is not {recorded:?}");
}

#[test]
fn each_value_is_the_float_that_pytorch_says() {
    let mut lines = 0;
    for [bits, e5m2, e4m3] in file().1 {
        let bits = bits as u8;
        assert_same(F8E5M2::from_bits(bits).to_f32(), e5m2);
        assert_same(F8E4M3Fn::from_bits(bits).to_f32(), e4m3);
        lines += 1;
    }
    assert_eq!(lines, 256);
}

#[test]
fn each_value_comes_back() {
    for bits in 0..=u8::MAX {
        let (e5m2, e4m3) = (F8E5M2::from_bits(bits), F8E4M3Fn::from_bits(bits));
        let same = F8E5M2::from_f32(e5m2.to_f32());
        assert!(same.to_bits() == bits || (same.is_nan() && e5m2.is_nan()));
        assert_eq!(F8E4M3Fn::from_f32(e4m3.to_f32()).to_bits(), bits);
    }
}

/// As `checksum` of `testdata/oracle.cpp`.
fn checksum(convert: impl Fn(f32) -> u8) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for high in 0..0x1_0000_u32 {
        for low in [0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let byte = convert(f32::from_bits(high << 16 | low));
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:x}")
}

#[test]
fn rounding_is_pytorchs() {
    let e5m2 = checksum(|value| F8E5M2::from_f32(value).to_bits());
    let e4m3 = checksum(|value| F8E4M3Fn::from_f32(value).to_bits());
    assert_eq!(format!("checksum {e5m2} {e4m3}"), file().0);
}

#[test]
fn what_is_out_of_range_goes_where_pytorch_puts_it() {
    for beyond in [449.0, 464.0, 480.0, 1e30, f32::INFINITY] {
        assert_eq!(F8E4M3Fn::from_f32(beyond), F8E4M3Fn::MAX);
        assert_eq!(F8E4M3Fn::from_f32(-beyond), F8E4M3Fn::MIN);
    }
    assert_eq!(F8E5M2::from_f32(61439.0), F8E5M2::MAX);
    for beyond in [61440.0, 65536.0, 1e30, f32::INFINITY] {
        assert_eq!(F8E5M2::from_f32(beyond), F8E5M2::INFINITY);
        assert_eq!(F8E5M2::from_f32(-beyond), F8E5M2::NEG_INFINITY);
    }
    assert!(F8E4M3Fn::from_f32(f32::NAN).is_nan() && F8E4M3Fn::NAN.to_f32().is_nan());
    assert!(F8E5M2::from_f32(f32::NAN).is_nan() && F8E5M2::NAN.to_f32().is_nan());
    assert_ne!(F8E4M3Fn::NAN, F8E4M3Fn::NAN);
}

#[test]
fn constants_are_the_values_they_name() {
    assert_eq!((F8E4M3Fn::MAX.to_f32(), F8E4M3Fn::MIN.to_f32()), (448.0, -448.0));
    assert_eq!((F8E5M2::MAX.to_f32(), F8E5M2::MIN.to_f32()), (57344.0, -57344.0));
    assert_eq!(F8E4M3Fn::MIN_POSITIVE.to_f32(), 2_f32.powi(-6));
    assert_eq!(F8E5M2::MIN_POSITIVE.to_f32(), 2_f32.powi(-14));
    assert_eq!(
        (F8E5M2::INFINITY.to_f32(), F8E5M2::NEG_INFINITY.to_f32()),
        (f32::INFINITY, f32::NEG_INFINITY)
    );
    assert!(F8E5M2::INFINITY.is_infinite() && !F8E5M2::MAX.is_infinite());
}

#[test]
fn comparison_and_text_are_the_values() {
    assert_eq!(F8E4M3Fn::from_bits(0x80), F8E4M3Fn::from_bits(0));
    assert!(F8E5M2::from_f32(-2.0) < F8E5M2::from_f32(1.5));
    assert_eq!(F8E4M3Fn::from_f32(0.3).to_string(), "0.3125");
    assert_eq!(format!("{:?}", F8E5M2::from_f32(2.0)), "2.0");
}

/// The nearest of the finite values, the one with even bits where two are equally near.
fn nearest(value: f32, finite: impl Iterator<Item = (u8, f32)>) -> u8 {
    let distance = |candidate: f32| (f64::from(candidate) - f64::from(value)).abs();
    finite
        .min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)).then((a.0 & 1).cmp(&(b.0 & 1))))
        .map(|(bits, _)| bits)
        .unwrap()
}

proptest! {
    #[test]
    fn rounding_finds_the_nearest_value(value in prop_oneof![-460_f32..460.0, -0.05_f32..0.05]) {
        let e4m3 = (0..=u8::MAX).map(|b| (b, F8E4M3Fn::from_bits(b).to_f32())).filter(|v| v.1.is_finite());
        let e5m2 = (0..=u8::MAX).map(|b| (b, F8E5M2::from_bits(b).to_f32())).filter(|v| v.1.is_finite());
        prop_assert_eq!(F8E4M3Fn::from_f32(value).to_f32(), F8E4M3Fn::from_bits(nearest(value, e4m3)).to_f32());
        prop_assert_eq!(F8E5M2::from_f32(value).to_f32(), F8E5M2::from_bits(nearest(value, e5m2)).to_f32());
    }
}
