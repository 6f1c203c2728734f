//! [`Columns`]: numbers in few bytes, as text that stands in a page.
//!
//! Seven bits a byte, the lowest first, the eighth bit set where more follow; signed numbers as 0, -1, 1, -2, …;
//! then base64. `page/model.js` reads it.

/// Numbers in a row.
#[derive(Debug, Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    pub(super) fn number(&mut self, mut number: u64) {
        while number > 127 {
            self.bytes.push(number as u8 & 127 | 128);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A number that may be negative.
    pub(super) fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    /// The difference of two numbers.
    pub(super) fn difference(&mut self, number: u64, from: u64) {
        self.signed(number.wrapping_sub(from) as i64);
    }

    /// All of them as base64.
    pub(super) fn to_base64(&self) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(self.bytes.len().div_ceil(3) * 4);
        for chunk in self.bytes.chunks(3) {
            let bits =
                chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
            for digit in 0..4 {
                let is_there = digit <= chunk.len();
                let value = (bits >> (18 - 6 * digit) & 63) as usize;
                text.push(if is_there { char::from(DIGITS[value]) } else { '=' });
            }
        }
        text
    }
}
