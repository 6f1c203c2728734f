//! Scalars: conversions against PyTorch's, equality, texts.

use c10_core::{Complex, Element, ErrorKind, F8E4M3Fn, F8E5M2, Scalar, ScalarType, bf16, f16};
use proptest::prelude::*;

/// The scalar of a line of `scalar.txt`.
fn scalar(text: &str) -> Scalar {
    let double = |hex: &str| f64::from_bits(u64::from_str_radix(hex, 16).unwrap());
    match text.split_once(':').unwrap() {
        ("b", digit) => Scalar::from(digit == "1"),
        ("i", digits) => Scalar::from(digits.parse::<i64>().unwrap()),
        ("u", digits) => Scalar::from(digits.parse::<u64>().unwrap()),
        ("d", "nan") => Scalar::from(f64::NAN),
        ("d", hex) => Scalar::from(double(hex)),
        ("z", parts) => {
            let (re, im) = parts.split_once(',').unwrap();
            Scalar::from(Complex::new(double(re), double(im)))
        }
        other => panic!("{other:?}"),
    }
}

/// The conversion in hexadecimal, as `scalar.txt` has it.
fn converted(scalar: Scalar, scalar_type: ScalarType) -> String {
    fn hex<T: Element>(scalar: Scalar, digits: impl Fn(T) -> String) -> String {
        scalar.to::<T>().map_or_else(
            |error| {
                assert_eq!(error.kind(), ErrorKind::Overflow);
                "error".to_owned()
            },
            digits,
        )
    }
    match scalar_type {
        ScalarType::UInt8 => hex::<u8>(scalar, |v| format!("{v:02x}")),
        ScalarType::Int8 => hex::<i8>(scalar, |v| format!("{v:02x}")),
        ScalarType::Int16 => hex::<i16>(scalar, |v| format!("{v:04x}")),
        ScalarType::Int32 => hex::<i32>(scalar, |v| format!("{v:08x}")),
        ScalarType::Int64 => hex::<i64>(scalar, |v| format!("{v:016x}")),
        ScalarType::UInt16 => hex::<u16>(scalar, |v| format!("{v:04x}")),
        ScalarType::UInt32 => hex::<u32>(scalar, |v| format!("{v:08x}")),
        ScalarType::UInt64 => hex::<u64>(scalar, |v| format!("{v:016x}")),
        ScalarType::Bool => hex::<bool>(scalar, |v| format!("{:02x}", u8::from(v))),
        ScalarType::Float16 => hex::<f16>(scalar, |v| format!("{:04x}", v.to_bits())),
        ScalarType::BFloat16 => hex::<bf16>(scalar, |v| format!("{:04x}", v.to_bits())),
        ScalarType::Float32 => hex::<f32>(scalar, |v| format!("{:08x}", v.to_bits())),
        ScalarType::Float64 => hex::<f64>(scalar, |v| format!("{:016x}", v.to_bits())),
        ScalarType::Float8E5M2 => hex::<F8E5M2>(scalar, |v| format!("{:02x}", v.to_bits())),
        ScalarType::Float8E4M3Fn => hex::<F8E4M3Fn>(scalar, |v| format!("{:02x}", v.to_bits())),
        // The low byte comes last, so the imaginary part comes first.
        ScalarType::Complex32 => {
            hex::<Complex<f16>>(scalar, |v| format!("{:04x}{:04x}", v.im.to_bits(), v.re.to_bits()))
        }
        ScalarType::BComplex32 => {
            hex::<Complex<bf16>>(scalar, |v| format!("{:04x}{:04x}", v.im.to_bits(), v.re.to_bits()))
        }
        ScalarType::Complex64 => {
            hex::<Complex<f32>>(scalar, |v| format!("{:08x}{:08x}", v.im.to_bits(), v.re.to_bits()))
        }
        ScalarType::Complex128 => {
            hex::<Complex<f64>>(scalar, |v| format!("{:016x}{:016x}", v.im.to_bits(), v.re.to_bits()))
        }
    }
}

#[test]
fn conversions_are_pytorchs() {
    for line in include_str!("../../testdata/scalar.txt").lines() {
        let (text, recorded) = line.split_once(' ').unwrap();
        let ours: Vec<_> = ScalarType::ALL.map(|t| converted(scalar(text), t)).into();
        for ((ours, recorded), t) in ours.iter().zip(recorded.split(' ')).zip(ScalarType::ALL) {
            assert_eq!(ours, recorded, "{text} to {t}");
        }
    }
}

#[test]
fn a_number_that_does_not_fit_is_named() {
    insta::assert_snapshot!(Scalar::from(300).to::<u8>().unwrap_err(), @"the value 300 does not fit uint8: the range is 0 to 255");
    insta::assert_snapshot!(Scalar::from(-0.5).to::<u16>().unwrap_err(), @"the value -0.5 does not fit uint16: the range is 0 to 65535");
    insta::assert_snapshot!(Scalar::from(1e6).to::<f16>().unwrap_err(), @"the value 1000000.0 does not fit float16: the range is -65504.0 to 65504.0");
    insta::assert_snapshot!(Scalar::from(f64::NAN).to::<i64>().unwrap_err(), @"the value nan does not fit int64: the range is -9223372036854775808 to 9223372036854775807");
    insta::assert_snapshot!(Scalar::from(Complex::new(1.0, 2.0)).to::<f32>().unwrap_err(), @"the value 1.0+2.0j does not fit float32: the imaginary part is not zero");
    insta::assert_snapshot!(Scalar::from(Complex::new(1e39, 2.0)).to::<Complex<f32>>().unwrap_err(), @"the value 1e39+2.0j does not fit complex64: the range is -3.4028235e38 to 3.4028235e38 in each part");
}

#[test]
fn kinds_are_c10s() {
    let kinds = |s: Scalar| (s.scalar_type(), s.is_integral(false), s.is_integral(true));
    assert_eq!(kinds(true.into()), (ScalarType::Bool, false, true));
    assert_eq!(kinds(1_u8.into()), (ScalarType::Int64, true, true));
    assert_eq!(kinds((i64::MAX as u64).into()), (ScalarType::Int64, true, true));
    assert_eq!(kinds(u64::MAX.into()), (ScalarType::UInt64, true, true));
    assert_eq!(kinds(Scalar::UInt(7)), (ScalarType::Int64, true, true));
    assert_eq!(kinds(f16::ONE.into()), (ScalarType::Float64, false, false));
    assert_eq!(kinds(Complex::new(1_f32, 0.0).into()), (ScalarType::Complex128, false, false));
    assert!(Scalar::from(1.0).is_floating_point() && !Scalar::from(1).is_floating_point());
    assert!(Scalar::from(Complex::from(1.0)).is_complex() && Scalar::from(false).is_bool());
    assert_eq!(Scalar::default(), Scalar::Int(0));
    assert!(matches!(Scalar::from(5_u64), Scalar::Int(5)));
}

#[test]
fn equality_is_by_value() {
    assert_eq!(Scalar::from(5), Scalar::from(5.0));
    assert_eq!(Scalar::from(5), Scalar::from(Complex::from(5.0)));
    assert_eq!(Scalar::from(5.0), 5_u8);
    assert_eq!(Scalar::UInt(5), 5);
    assert_eq!(Scalar::from(u64::MAX), u64::MAX);
    assert_ne!(Scalar::from(-1), u64::MAX);
    assert_ne!(Scalar::from(5), Scalar::from(Complex::new(5.0, 1.0)));
    assert_ne!(Scalar::from(5), 5.5);
    assert_eq!(Scalar::from(0.0), -0.0);
    assert_ne!(Scalar::from(f64::NAN), f64::NAN);
    assert_ne!(Scalar::from(i64::MAX), f64::INFINITY);
    assert_eq!(Scalar::from(true), true);
    assert_ne!(Scalar::from(true), 1);
    assert_ne!(Scalar::from(0.0), false);
    // Not after rounding: 2^53 + 1 is no double.
    assert_ne!(Scalar::from((1_i64 << 53) + 1), (1_i64 << 53) as f64);
    assert_ne!(Scalar::from(i64::MAX), 2_f64.powi(63));
}

#[test]
fn texts_show_the_kind() {
    let texts = [
        Scalar::from(true),
        Scalar::from(-3),
        Scalar::from(u64::MAX),
        Scalar::from(2.0),
        Scalar::from(1e300),
        Scalar::from(f64::NAN),
        Scalar::from(f64::NEG_INFINITY),
        Scalar::from(Complex::new(1.5, -2.0)),
        Scalar::from(Complex::new(-0.0, f64::NAN)),
    ];
    insta::assert_snapshot!(texts.map(|s| s.to_string()).join(" "), @"true -3 18446744073709551615 2.0 1e300 nan -inf 1.5-2.0j -0.0+nanj");
    assert_eq!(format!("[{:>5}][{:.2}]", Scalar::from(2.5), Scalar::from(2.5)), "[  2.5][2.50]");
    assert_eq!(format!("[{:.1}]", Scalar::from(Complex::new(0.25, -0.75))), "[0.2-0.8j]");
    assert_eq!(Complex::new(f16::ONE, f16::NEG_INFINITY).to_string(), "1.0-infj");
}

#[test]
fn texts_that_are_no_numbers_are_refused() {
    for text in ["", "-", "+", "1x", "j", "1+j", "1+2", "--1", "1e", "0x10", "tRue", " 1", "1+2jj", "é"] {
        assert_eq!(text.parse::<Scalar>().expect_err(text).kind(), ErrorKind::Parse);
    }
    insta::assert_snapshot!("1+x2j".parse::<Scalar>().unwrap_err(), @"'1+x2j' is no complex number");
    let above = "18446744073709551616".parse::<Scalar>().unwrap_err();
    insta::assert_snapshot!(above, @"'18446744073709551616' fits no integer of 64 bits");
    assert_eq!(above.kind(), ErrorKind::Overflow);
    assert_eq!("-2j".parse::<Scalar>().unwrap(), Complex::new(0.0, -2.0));
    assert_eq!("1e-5-2E+3j".parse::<Scalar>().unwrap(), Complex::new(1e-5, -2e3));
    assert_eq!("2.5".parse::<Complex<f32>>().unwrap(), Complex::from(2.5));
}

fn any_scalar() -> impl Strategy<Value = Scalar> {
    let double = || prop_oneof![any::<f64>(), any::<u64>().prop_map(f64::from_bits)];
    prop_oneof![
        any::<bool>().prop_map(Scalar::from),
        any::<i64>().prop_map(Scalar::from),
        any::<u64>().prop_map(Scalar::from),
        double().prop_map(Scalar::from),
        (double(), double()).prop_map(|(re, im)| Scalar::from(Complex::new(re, im))),
    ]
}

proptest! {
    #[test]
    fn texts_are_read_back(scalar in any_scalar()) {
        let back = scalar.to_string().parse::<Scalar>().unwrap();
        // Debug tells apart what equality does not: kinds, the sign of a zero, and NaNs from nothing.
        prop_assert_eq!(format!("{back:?}"), format!("{scalar:?}"));
    }

    #[test]
    fn no_text_panics(text in "[-+0-9.eEjinfa]{0,12}|\\PC*") {
        if let Ok(scalar) = text.parse::<Scalar>() {
            prop_assert!(scalar.to_string().parse::<Scalar>().is_ok());
        }
    }

    #[test]
    fn no_conversion_panics(scalar in any_scalar()) {
        for t in ScalarType::ALL {
            converted(scalar, t);
        }
    }

    #[test]
    fn integers_come_back(value in any::<i64>()) {
        prop_assert_eq!(Scalar::from(value).to::<i64>().unwrap(), value);
        prop_assert_eq!(i8::try_from(value).ok(), Scalar::from(value).to::<i8>().ok());
        prop_assert_eq!(i32::try_from(value).ok(), Scalar::from(value).to::<i32>().ok());
    }
}
