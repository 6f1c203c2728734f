//! [`ByteSize`]: sizes as people write them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
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
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || number.ends_with('.') || fraction.contains('.') {
            return Err(format!("`{text}` does not begin with a number; write for example 24GiB"));
        }
        let unit = unit.trim_start();
        let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let (_, bytes) = *known.ok_or_else(|| {
            format!("`{unit}` is no unit of size; write bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB")
        })?;
        let too_large = || format!("{text} does not fit in 64 bits");
        let whole: u64 = whole.parse().map_err(|_| too_large())?;
        let whole = whole.checked_mul(bytes).ok_or_else(too_large)?;
        let total = whole.checked_add(part(fraction, bytes)?).ok_or_else(too_large)?;
        if total == 0 && number.contains(|digit| matches!(digit, '1'..='9')) {
            return Err(format!("`{text}` is less than a byte"));
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
