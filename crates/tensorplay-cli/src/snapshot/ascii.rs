//! The text forms of pickle protocol 0: numbers as digits, strings with escapes.

use super::error::quote;

/// A decimal integer, `None` when it is longer than any that matters.
pub(crate) fn int(line: &[u8]) -> Result<Option<i128>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "an integer is not text")?.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{} is not an integer", quote(text)));
    }
    Ok(text.parse().ok())
}

/// A floating-point number as Python's `repr` writes it.
pub(crate) fn float(line: &[u8]) -> Result<f64, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a number is not text")?.trim();
    text.parse().map_err(|_| format!("{} is not a number", quote(text)))
}

/// The content of a quoted string as Python 2's `repr` writes it.
pub(crate) fn quoted(line: &[u8]) -> Result<String, String> {
    let line = line.trim_ascii();
    let inner = match line {
        [open @ (b'\'' | b'"'), inner @ .., close] if open == close => inner,
        _ => return Err("a string is not in quotes".into()),
    };
    unescape(inner, |rest| {
        let (&kind, rest) = rest.split_first()?;
        let plain = |byte: u8| Some((char::from(byte), rest));
        match kind {
            b'\\' | b'\'' | b'"' => plain(kind),
            b'n' => plain(b'\n'),
            b'r' => plain(b'\r'),
            b't' => plain(b'\t'),
            b'a' => plain(7),
            b'b' => plain(8),
            b'v' => plain(11),
            b'f' => plain(12),
            b'x' => hex(rest, 2),
            b'0'..=b'3' => match rest {
                [b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                    Some((char::from((kind - b'0') * 64 + (b - b'0') * 8 + (c - b'0')), rest))
                }
                _ => None,
            },
            _ => None,
        }
    })
}

/// A string in Python's `raw-unicode-escape`.
pub(crate) fn raw_unicode(line: &[u8]) -> Result<String, String> {
    unescape(line, |rest| match rest {
        [b'u', rest @ ..] => hex(rest, 4),
        [b'U', rest @ ..] => hex(rest, 8),
        // A backslash that starts no escape stands for itself.
        _ => Some(('\\', rest)),
    })
}

/// Copies `bytes` as Latin-1, and asks `escape` what stands behind each backslash.
fn unescape(bytes: &[u8], escape: impl Fn(&[u8]) -> Option<(char, &[u8])>) -> Result<String, String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\' {
            let (character, after) = escape(after).ok_or("a string has an escape that is not one")?;
            text.push(character);
            rest = after;
        } else {
            text.push(char::from(byte));
            rest = after;
        }
    }
    Ok(text)
}

/// The character of `digits` hexadecimal digits; half of a surrogate pair becomes the replacement character.
fn hex(rest: &[u8], digits: usize) -> Option<(char, &[u8])> {
    let (number, rest) = rest.split_at_checked(digits)?;
    let mut code = 0u32;
    for &digit in number {
        code = code << 4 | char::from(digit).to_digit(16)?;
    }
    Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest))
}
