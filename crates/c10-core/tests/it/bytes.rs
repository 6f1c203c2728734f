//! Size arithmetic: the rules, the limits, and a model with unbounded integers.

use c10_core::bytes::{
    BYTES_MAX, align_up, checked_mul, contiguous_bytes, format_size, numel, strided_bytes,
};
use c10_core::{ErrorKind, Result};
use proptest::prelude::*;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("must be refused").kind()
}

#[test]
fn bytes_of_contiguous_elements() {
    assert_eq!(contiguous_bytes(&[2, 3], 4, 0).unwrap(), 24);
    assert_eq!(contiguous_bytes(&[2, 3], 4, 5).unwrap(), 44);
    assert_eq!(contiguous_bytes(&[], 8, 0).unwrap(), 8);
    // Without elements the offset still counts.
    assert_eq!(contiguous_bytes(&[2, 0], 4, 5).unwrap(), 20);
    assert_eq!(contiguous_bytes(&[i64::MAX, i64::MAX, 0], 4, 0).unwrap(), 0);
}

#[test]
fn bytes_of_strided_elements() {
    assert_eq!(strided_bytes(&[3, 5], &[4, 1], 4, 0).unwrap(), 52);
    assert_eq!(strided_bytes(&[3, 4], &[0, 1], 4, 2).unwrap(), 24);
    assert_eq!(strided_bytes(&[], &[], 2, 3).unwrap(), 8);
    assert_eq!(strided_bytes(&[5, 0], &[i64::MAX, 1], 4, i64::MAX).unwrap(), 0);
    assert_eq!(strided_bytes(&[1], &[i64::MAX], 16, 0).unwrap(), 16);
}

#[test]
fn overflow_is_refused_with_the_numbers() {
    let contiguous = contiguous_bytes(&[1 << 40, 1 << 40], 4, 0).unwrap_err();
    insta::assert_snapshot!(contiguous, @"Storage size calculation overflowed with sizes=[1099511627776, 1099511627776] (storage offset 0, element size 4, at most 9223372036854775807 bytes)");
    let strided = strided_bytes(&[2, 3], &[i64::MAX, 1], 8, 1).unwrap_err();
    insta::assert_snapshot!(strided, @"Storage size calculation overflowed with sizes=[2, 3] and strides=[9223372036854775807, 1] (storage offset 1, element size 8, at most 9223372036854775807 bytes)");
    insta::assert_snapshot!(numel(&[i64::MAX, 2]).unwrap_err(), @"the number of elements of sizes=[9223372036854775807, 2] does not fit 64 bits");
    assert_eq!((contiguous.kind(), strided.kind()), (ErrorKind::Overflow, ErrorKind::Overflow));
    assert_eq!(kind(contiguous_bytes(&[i64::MAX], 2, 0)), ErrorKind::Overflow);
    assert_eq!(kind(contiguous_bytes(&[i64::MAX], 1, 1)), ErrorKind::Overflow);
    assert_eq!(kind(strided_bytes(&[i64::MAX, i64::MAX], &[1, 1], 1, 0)), ErrorKind::Overflow);
}

#[test]
fn negative_numbers_and_unequal_ranks_are_refused() {
    insta::assert_snapshot!(contiguous_bytes(&[2, -3], 4, 0).unwrap_err(), @"negative size -3 in [2, -3]");
    insta::assert_snapshot!(strided_bytes(&[2, 3], &[1], 4, 0).unwrap_err(), @"dimensionality of sizes (2) must match dimensionality of strides (1)");
    assert_eq!(kind(contiguous_bytes(&[2], 4, -1)), ErrorKind::InvalidArgument);
    assert_eq!(kind(strided_bytes(&[0], &[-1], 4, 0)), ErrorKind::InvalidArgument);
    assert_eq!(kind(strided_bytes(&[2], &[1], 4, -1)), ErrorKind::InvalidArgument);
    assert_eq!(kind(numel(&[0, -1])), ErrorKind::InvalidArgument);
}

#[test]
fn rounding_up_and_multiplying() {
    assert_eq!(align_up(0, 512).unwrap(), 0);
    assert_eq!(align_up(1, 512).unwrap(), 512);
    assert_eq!(align_up(512, 512).unwrap(), 512);
    assert_eq!(align_up(7, 3).unwrap(), 9);
    assert_eq!(align_up(BYTES_MAX, 1).unwrap(), BYTES_MAX);
    assert_eq!(kind(align_up(BYTES_MAX, 2)), ErrorKind::Overflow);
    assert_eq!(kind(align_up(usize::MAX, 512)), ErrorKind::Overflow);
    assert_eq!(kind(align_up(1, 0)), ErrorKind::InvalidArgument);
    assert_eq!(checked_mul(BYTES_MAX / 2, 2).unwrap(), BYTES_MAX - 1);
    assert_eq!(kind(checked_mul(BYTES_MAX / 2 + 1, 2)), ErrorKind::Overflow);
    assert_eq!(kind(checked_mul(usize::MAX, usize::MAX)), ErrorKind::Overflow);
}

#[test]
fn sizes_in_words_are_pytorchs() {
    let cases = [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (1024, "1024 bytes"),
        (1025, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1 << 20, "1024.00 KiB"),
        ((1 << 20) + 1, "1.00 MiB"),
        (20 << 20, "20.00 MiB"),
        (1 << 30, "1024.00 MiB"),
        ((1 << 30) + (1 << 29), "1.50 GiB"),
        (u64::MAX, "17179869184.00 GiB"),
    ];
    for (bytes, text) in cases {
        assert_eq!(format_size(bytes), text);
    }
}

/// Sizes, strides and offsets from small to such that products are near the limits.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0..5_i64, 1 => (0..63_u32).prop_map(|bit| 1_i64 << bit), 1 => Just(i64::MAX)]
}

fn within_limits(bytes: Option<u128>) -> Option<usize> {
    bytes.filter(|&b| b <= BYTES_MAX as u128).map(|b| b as usize)
}

proptest! {
    #[test]
    fn bytes_are_those_of_unbounded_integers(
        geometry in prop::collection::vec((number(), number()), 0..4),
        offset in number(),
        element_size in 1..17_usize,
    ) {
        let (sizes, strides): (Vec<_>, Vec<_>) = geometry.into_iter().unzip();
        let numel = if sizes.contains(&0) {
            Some(0)
        } else {
            sizes.iter().try_fold(1_u128, |n, &size| n.checked_mul(size as u128))
        };
        let contiguous = numel
            .and_then(|n| n.checked_add(offset as u128))
            .and_then(|n| n.checked_mul(element_size as u128));
        prop_assert_eq!(contiguous_bytes(&sizes, element_size, offset).ok(), within_limits(contiguous));

        // Three products below 2^126 and an offset have room in 128 bits.
        let last: u128 = sizes.iter().zip(&strides).map(|(n, s)| (*n as u128).saturating_sub(1) * *s as u128).sum();
        let strided = if sizes.contains(&0) { Some(0) } else { (last + offset as u128 + 1).checked_mul(element_size as u128) };
        prop_assert_eq!(strided_bytes(&sizes, &strides, element_size, offset).ok(), within_limits(strided));
    }
}
