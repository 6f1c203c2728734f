//! [`Json`]: a text of JSON, read front to back.
//!
//! Nothing is kept of what is read but what the caller keeps, so that a header of a hundred megabytes costs
//! no more than its names and shapes.

use std::borrow::Cow;

use super::header::refused;
use crate::error::Result;

/// What is unknown is skipped; containers in it may be so deep.
const DEEPEST: usize = 64;

/// A text and a place in it.
#[derive(Debug)]
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The members of an object: `member` is given each key, and reads its value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.expect(b'{')?;
        self.items(b'}', |json| {
            let key = json.string()?;
            json.expect(b':')?;
            member(json, key)
        })
    }

    /// The items of an array: `item` reads each.
    pub(super) fn array(&mut self, item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.expect(b'[')?;
        self.items(b']', item)
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
                }
                Some(b'\\') => return self.escaped_string(start).map(Cow::Owned),
                Some(0..0x20) | None => return Err(self.wrong("a string that ends")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// An integer that is not negative.
    pub(super) fn unsigned(&mut self) -> Result<u64> {
        self.skip_space();
        let digits = &self.text[self.at..];
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        let digits = &digits[..len];
        let is_plain = !digits.starts_with('0') || len == 1;
        let followed = self.text.as_bytes().get(self.at + len);
        match digits.parse() {
            Ok(value) if is_plain && !matches!(followed, Some(b'.' | b'e' | b'E')) => {
                self.at += len;
                Ok(value)
            }
            _ => Err(self.wrong("an integer from 0 that fits 64 bits")),
        }
    }

    /// Reads past a value of any kind.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_within(DEEPEST)
    }

    /// Nothing but space is left.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    fn skip_within(&mut self, depth: usize) -> Result<()> {
        let inner = depth.checked_sub(1).ok_or_else(|| self.wrong("fewer containers in each other"))?;
        match self.peek() {
            Some(b'{') => self.object(|json, _| json.skip_within(inner)),
            Some(b'[') => self.array(|json| json.skip_within(inner)),
            Some(b'"') => self.string().map(drop),
            _ => {
                let rest = &self.text[self.at..];
                let len = rest
                    .bytes()
                    .take_while(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'E' | b'.' | b'+' | b'-'));
                let word = &rest[..len.count()];
                // More is taken for a number than JSON has; what is skipped has no meaning here.
                let is_value = matches!(word, "true" | "false" | "null")
                    || word.parse::<f64>().is_ok_and(f64::is_finite);
                if !is_value {
                    return Err(self.wrong("a value"));
                }
                self.at += word.len();
                Ok(())
            }
        }
    }

    fn items(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong("a comma, or the end of a container")),
            }
        }
    }

    /// A string with escapes, from its first character. The place is at the first of them.
    fn escaped_string(&mut self, start: usize) -> Result<String> {
        let mut string = self.text[start..self.at].to_owned();
        let mut rest = self.text[self.at..].chars();
        loop {
            let Some(next) = rest.next() else { return Err(self.wrong("a string that ends")) };
            match next {
                '"' => break,
                '\\' => match escape(&mut rest) {
                    Some(character) => string.push(character),
                    None => return Err(self.wrong("an escape that JSON has")),
                },
                '\0'..' ' => return Err(self.wrong("a string that ends")),
                other => string.push(other),
            }
        }
        self.at = self.text.len() - rest.as_str().len();
        Ok(string)
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek() != Some(byte) {
            return Err(self.wrong(&format!("`{}`", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    #[cold]
    fn wrong(&self, expected: &str) -> crate::Error {
        refused(format!("the header is no JSON: byte {}: expected {expected}", self.at))
    }
}

/// The character behind a backslash.
fn escape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        '"' => '"',
        '\\' => '\\',
        '/' => '/',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => match code_unit(rest)? {
            high @ 0xd800..0xdc00 => {
                let low = (rest.next()? == '\\' && rest.next()? == 'u').then(|| code_unit(rest)).flatten()?;
                char::decode_utf16([high, low]).next()?.ok()?
            }
            unit => char::from_u32(unit.into())?,
        },
        _ => return None,
    })
}

/// Four hexadecimal digits.
fn code_unit(rest: &mut std::str::Chars<'_>) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| Some(unit << 4 | rest.next()?.to_digit(16)? as u16))
}

/// Writes a JSON string.
pub(super) fn write_string(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\0'..' ' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            other => text.push(other),
        }
    }
    text.push('"');
}
