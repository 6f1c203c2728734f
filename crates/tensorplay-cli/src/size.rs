//! [`ByteSize`]: sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, at least one.
///
/// Read from `24GiB`, `80 GB`, `79.15GiB` or plain bytes. `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024, and
/// `KB`, `MB`, `GB`, `TB` of 1000; the case of letters does not matter. `24G` is refused, because programs
/// disagree on which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) u64);

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim_start().to_ascii_lowercase();
        let bytes = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes).ok_or_else(|| {
            format!("`{unit}` is no unit of size; write bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB")
        })?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
            return Err(format!("`{number}` is not a number; write for example 24GiB"));
        }
        let too_large = || format!("{text} does not fit in 64 bits");
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let whole = whole.checked_mul(bytes).ok_or_else(too_large)?;
        let total = whole.checked_add(part(fraction, bytes)?).ok_or_else(too_large)?;
        if total == 0 {
            return Err("a size of 0 bytes holds nothing".into());
        }
        Ok(Self(total))
    }
}

/// The bytes of the digits behind the point, rounded down.
fn part(fraction: &str, unit: u64) -> Result<u64, String> {
    const DIGITS: usize = 9;
    if fraction.len() > DIGITS {
        return Err(format!("more than {DIGITS} digits behind the point"));
    }
    let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| "not a number")? };
    let scale = 10u128.pow(fraction.len() as u32);
    // Below `unit`, because the digits are below the scale.
    Ok((digits * u128::from(unit) / scale) as u64)
}

impl fmt::Display for ByteSize {
    /// As `23.65 GiB`: two decimals of the largest power of 1024 that is not above it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = (self.0.max(1).ilog2() / 10).min(4);
        let text = match power {
            0 => format!("{} B", self.0),
            _ => {
                let unit = ["KiB", "MiB", "GiB", "TiB"][power as usize - 1];
                format!("{:.2} {unit}", self.0 as f64 / (1u64 << (10 * power)) as f64)
            }
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        for (text, bytes) in [
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
            "0",
            "0.1B",
            "18446744073709551616",
            "17179869184GiB",
            "0.1234567890GiB",
            "24 parsecs",
        ];
        for text in texts {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_a_unit_that_suits() {
        let shown: Vec<_> =
            [1, 1023, 1024, 1536, 20 << 20, 24 << 30, 3 << 50].map(|n| ByteSize(n).to_string()).into();
        assert_eq!(shown, ["1 B", "1023 B", "1.00 KiB", "1.50 KiB", "20.00 MiB", "24.00 GiB", "3072.00 TiB"]);
        assert_eq!(format!("{:>10}", ByteSize(1)), "       1 B");
    }
}
