//! Scalar types: names, numbers, sizes and categories as PyTorch has them; elements.

use c10_core::{Complex, Element, ErrorKind, F8E4M3Fn, F8E5M2, ScalarType, bf16, f16};
use proptest::prelude::*;

/// The lines of `types.txt`, in the order of `ScalarType::ALL`.
fn recorded() -> impl Iterator<Item = (ScalarType, Vec<&'static str>)> {
    let lines = include_str!("../../testdata/types.txt").lines();
    assert_eq!(lines.clone().count(), ScalarType::ALL.len());
    ScalarType::ALL.into_iter().zip(lines.map(|line| line.split(' ').collect()))
}

#[test]
fn names_numbers_and_categories_are_pytorchs() {
    for (t, fields) in recorded() {
        let alias = t.alias().unwrap_or("-");
        let categories: String = [
            t.is_integral(false),
            t.is_integral(true),
            t.is_floating_point(),
            t.is_complex(),
            t.is_signed(),
            t.is_reduced_floating_point(),
            t.is_float8(),
        ]
        .into_iter()
        .map(|c| if c { '1' } else { '0' })
        .collect();
        let complex = t.to_complex().map_or_else(|_| "error".to_owned(), |c| c.to_string());
        assert_eq!(t.number().to_string(), fields[0]);
        assert_eq!([t.c10_name(), t.name(), alias], fields[1..4]);
        assert_eq!(t.element_size().to_string(), fields[4]);
        assert_eq!(categories, fields[5], "{t}");
        assert_eq!([t.to_real().name(), &complex], fields[6..8]);
    }
}

#[test]
fn every_name_is_read_back() {
    for t in ScalarType::ALL {
        assert_eq!(t.to_string().parse::<ScalarType>().unwrap(), t);
        assert_eq!(format!("{t:#}"), format!("torch.{t}"));
        assert_eq!(format!("{t:#}").parse::<ScalarType>().unwrap(), t);
        assert_eq!(ScalarType::from_c10_name(t.c10_name()), Some(t));
        assert_eq!(ScalarType::from_number(t.number()), Some(t));
        if let Some(alias) = t.alias() {
            assert_eq!(alias.parse::<ScalarType>().unwrap(), t);
            assert_eq!(format!("torch.{alias}").parse::<ScalarType>().unwrap(), t);
        }
    }
    assert_eq!(ScalarType::from_number(12), None);
    assert_eq!(ScalarType::from_c10_name("float32"), None);
    assert_eq!(format!("[{:>8}]", ScalarType::Bool), "[    bool]");
}

#[test]
fn refusals_are_sentences() {
    let parse = "Float".parse::<ScalarType>().unwrap_err();
    insta::assert_snapshot!(parse, @"'Float' is no scalar type; there are uint8, int8, int16, int32, int64, float16, float32, float64, complex32, complex64, complex128, bool, bfloat16, float8_e5m2, float8_e4m3fn, uint16, uint32, uint64, bcomplex32");
    assert_eq!(parse.kind(), ErrorKind::Parse);
    let complex = ScalarType::Float8E5M2.to_complex().unwrap_err();
    insta::assert_snapshot!(complex, @"no complex type has parts of type float8_e5m2; those of float16, bfloat16, float32 and float64 exist");
    assert_eq!(complex.kind(), ErrorKind::InvalidArgument);
}

fn check_element<T: Element>(seen: &mut Vec<ScalarType>) {
    assert_eq!(size_of::<T>(), T::SCALAR_TYPE.element_size());
    assert!(align_of::<T>() <= size_of::<T>());
    assert_eq!(T::from_scalar(T::default().into()).unwrap(), T::default());
    seen.push(T::SCALAR_TYPE);
}

#[test]
fn each_type_has_one_element() {
    let mut seen = Vec::new();
    check_element::<u8>(&mut seen);
    check_element::<i8>(&mut seen);
    check_element::<i16>(&mut seen);
    check_element::<i32>(&mut seen);
    check_element::<i64>(&mut seen);
    check_element::<f16>(&mut seen);
    check_element::<f32>(&mut seen);
    check_element::<f64>(&mut seen);
    check_element::<Complex<f16>>(&mut seen);
    check_element::<Complex<f32>>(&mut seen);
    check_element::<Complex<f64>>(&mut seen);
    check_element::<bool>(&mut seen);
    check_element::<bf16>(&mut seen);
    check_element::<F8E5M2>(&mut seen);
    check_element::<F8E4M3Fn>(&mut seen);
    check_element::<u16>(&mut seen);
    check_element::<u32>(&mut seen);
    check_element::<u64>(&mut seen);
    check_element::<Complex<bf16>>(&mut seen);
    assert_eq!(seen, ScalarType::ALL);
}

proptest! {
    #[test]
    fn any_text_is_a_name_or_refused(text in "(torch\\.)?[a-z]{0,8}[0-9]{0,3}|\\PC*") {
        if let Ok(t) = text.parse::<ScalarType>() {
            let name = text.strip_prefix("torch.").unwrap_or(&text);
            prop_assert!(name == t.name() || Some(name) == t.alias());
        }
    }
}
