//! Type promotion against PyTorch's answers for every pair.

use c10_core::{ErrorKind, ScalarType, can_cast, promote_types};

fn promoted(a: ScalarType, b: ScalarType) -> String {
    promote_types(a, b).map_or_else(|_| "error".to_owned(), |t| t.to_string())
}

#[test]
fn every_pair_promotes_and_casts_as_in_pytorch() {
    let lines = include_str!("../../testdata/promote.txt").lines();
    assert_eq!(lines.clone().count(), ScalarType::ALL.len().pow(2));
    for line in lines {
        let fields: Vec<_> = line.split(' ').collect();
        let (a, b) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
        assert_eq!(promoted(a, b), fields[2], "{a} and {b}");
        assert_eq!(can_cast(a, b), fields[3] == "1", "{a} to {b}");
    }
}

#[test]
fn recorded_operators_agree() {
    for line in include_str!("../../testdata/promotion.txt").lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let (a, b) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let result = match fields[0] {
            "promote" => promoted(a, b),
            // The result goes to the first operand.
            "inplace" if can_cast(promote_types(a, b).unwrap(), a) => a.to_string(),
            "inplace" => "error".to_owned(),
            other => panic!("{other}"),
        };
        assert_eq!(result, fields[3], "{line}");
    }
}

#[test]
fn refusals_are_sentences() {
    let float8 = promote_types(ScalarType::Float8E4M3Fn, ScalarType::Float32).unwrap_err();
    insta::assert_snapshot!(float8, @"float8_e4m3fn and float32 have no common type (the eight-bit floats promote with no other type); cast one of them first");
    let unsigned = promote_types(ScalarType::Int64, ScalarType::UInt16).unwrap_err();
    insta::assert_snapshot!(unsigned, @"int64 and uint16 have no common type (uint16, uint32 and uint64 promote with real floating-point types alone); cast one of them first");
    assert_eq!(float8.kind(), ErrorKind::InvalidArgument);
    assert_eq!(unsigned.kind(), ErrorKind::InvalidArgument);
}
