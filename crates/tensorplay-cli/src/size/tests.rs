//! Sizes both ways.

use super::*;

#[test]
fn sizes_are_read_exactly() {
    for (text, bytes) in [
        ("0", 0),
        ("0.0GiB", 0),
        ("1", 1),
        ("512B", 512),
        ("24GiB", 24 << 30),
        (" 24 gib ", 24 << 30),
        ("80GB", 80_000_000_000),
        ("1.5KiB", 1536),
        ("79.15GiB", 84_986_665_369),
        ("0.000000001GB", 1),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused() {
    let texts = [
        "",
        "GiB",
        "24G",
        "-1",
        "+1",
        "1e9",
        "1.GiB",
        ".5GiB",
        "1.2.3",
        "0.1B",
        "18446744073709551616",
        "17179869184GiB",
        "0.1234567890GiB",
        "24 parsecs",
    ];
    for text in texts {
        assert!(text.parse::<ByteSize>().is_err(), "{text}");
    }
    let complaint = |text: &str| text.parse::<ByteSize>().unwrap_err();
    insta::assert_snapshot!(complaint("-5"), @"`-5` does not begin with a number; write for example 24GiB");
    insta::assert_snapshot!(complaint("5Q"), @"`Q` is no unit of size; write bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB");
}

#[test]
fn sizes_are_shown_in_a_unit_that_suits() {
    let shown: Vec<_> =
        [1, 1023, 1024, 1536, 20 << 20, 24 << 30, 3 << 50].map(|n| ByteSize(n).to_string()).into();
    assert_eq!(shown, ["1 B", "1023 B", "1.00 KiB", "1.50 KiB", "20.00 MiB", "24.00 GiB", "3072.00 TiB"]);
    assert_eq!(format!("{:>10}", ByteSize(1)), "       1 B");
}
