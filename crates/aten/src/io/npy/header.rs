//! [`Header`]: what an npy file says about its array.

use std::io::Read;

use c10_core::ScalarType;

use crate::error::{Error, ErrorKind, Result};
use crate::io::io_error;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// So long may a header be: longer ones are attacks, as NumPy has it too.
const LONGEST_HEADER: u64 = 1 << 20;

/// NumPy's type characters and sizes.
const DTYPES: [(&str, ScalarType); 14] = [
    ("b1", ScalarType::Bool),
    ("i1", ScalarType::Int8),
    ("i2", ScalarType::Int16),
    ("i4", ScalarType::Int32),
    ("i8", ScalarType::Int64),
    ("u1", ScalarType::UInt8),
    ("u2", ScalarType::UInt16),
    ("u4", ScalarType::UInt32),
    ("u8", ScalarType::UInt64),
    ("f2", ScalarType::Float16),
    ("f4", ScalarType::Float32),
    ("f8", ScalarType::Float64),
    ("c8", ScalarType::Complex64),
    ("c16", ScalarType::Complex128),
];

/// The type, order and sizes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: ScalarType,
    pub(super) is_big_endian: bool,
    /// The first dimension is the innermost one.
    pub(super) is_fortran_order: bool,
    pub(super) sizes: Vec<i64>,
}

impl Header {
    /// Reads all that stands before the elements.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when it is no such header, [`ErrorKind::Dtype`] for a type that tensors here do
    /// not have, [`ErrorKind::Io`] when the reader fails or ends.
    pub(super) fn read(from: &mut impl Read) -> Result<Self> {
        let mut prefix = [0; 8];
        exactly(from, &mut prefix)?;
        if !prefix.starts_with(MAGIC) {
            return Err(refused(format!("it begins with {:?}", prefix[..6].escape_ascii().to_string())));
        }
        let length = match prefix[6] {
            1 => {
                let mut length = [0; 2];
                exactly(from, &mut length)?;
                u16::from_le_bytes(length).into()
            }
            2 | 3 => {
                let mut length = [0; 4];
                exactly(from, &mut length)?;
                u32::from_le_bytes(length).into()
            }
            other => return Err(refused(format!("version {other} of the format is not known"))),
        };
        if length > LONGEST_HEADER {
            return Err(refused(format!("a header of {length} bytes is longer than {LONGEST_HEADER}")));
        }
        let mut text = Vec::new();
        from.take(length).read_to_end(&mut text).map_err(unread)?;
        if (text.len() as u64) < length {
            return Err(refused(format!("it ends within the header of {length} bytes")));
        }
        // Before version 3 the text is Latin-1; what counts in it is ASCII.
        let text =
            str::from_utf8(&text).map_err(|error| refused(format!("the header is no text: {error}")))?;
        Literal { text, at: 0 }.header()
    }

    /// All that stands before the elements, a multiple of 64 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Dtype`] for a type that NumPy lacks.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let Self { dtype, is_big_endian, is_fortran_order, sizes } = self;
        let Some((name, _)) = DTYPES.iter().find(|(_, other)| other == dtype) else {
            return Err(Error::new(ErrorKind::Dtype, format!("NumPy has no type for elements of {dtype}")));
        };
        let order = match (dtype.element_size(), is_big_endian) {
            (1, _) => '|',
            (_, true) => '>',
            (_, false) => '<',
        };
        let fortran = if *is_fortran_order { "True" } else { "False" };
        let list = sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let comma = if sizes.len() == 1 { "," } else { "" };
        let mut text =
            format!("{{'descr': '{order}{name}', 'fortran_order': {fortran}, 'shape': ({list}{comma}), }}");
        // Version 1 has two bytes for the length, version 2 four.
        let version: u8 = if text.len() + 64 <= usize::from(u16::MAX) { 1 } else { 2 };
        let before = if version == 1 { 10 } else { 12 };
        let total = (before + text.len() + 1).next_multiple_of(64);
        text.push_str(&" ".repeat(total - before - text.len() - 1));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        bytes.extend(&(text.len() as u32).to_le_bytes()[..before - 8]);
        bytes.extend(text.as_bytes());
        Ok(bytes)
    }
}

/// The literal of a Python dict, read front to back.
struct Literal<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Literal<'a> {
    fn header(mut self) -> Result<Header> {
        let (mut descr, mut fortran, mut sizes) = (None, None, None);
        self.expect("{")?;
        while !self.has("}") {
            let key = self.string()?;
            self.expect(":")?;
            let is_twice = match key {
                "descr" => descr.replace(self.string()?).is_some(),
                "fortran_order" => fortran.replace(self.truth()?).is_some(),
                "shape" => sizes.replace(self.tuple()?).is_some(),
                other => return Err(refused(format!("the header has {other:?}, which the format lacks"))),
            };
            if is_twice {
                return Err(refused(format!("the header has {key:?} twice")));
            }
            if !self.has(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest().is_empty() {
            return Err(self.wrong("the end"));
        }
        let missing = |key| refused(format!("the header has no {key:?}"));
        let (dtype, is_big_endian) = dtype_of(descr.ok_or_else(|| missing("descr"))?)?;
        Ok(Header {
            dtype,
            is_big_endian,
            is_fortran_order: fortran.ok_or_else(|| missing("fortran_order"))?,
            sizes: sizes.ok_or_else(|| missing("shape"))?,
        })
    }

    /// A string without escapes, in quotes of either kind.
    fn string(&mut self) -> Result<&'a str> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
        let end = quote.and_then(|quote| rest[1..].find(quote));
        match end.map(|end| &rest[1..=end]) {
            Some(string) if !string.contains('\\') => {
                self.at += string.len() + 2;
                Ok(string)
            }
            _ => Err(self.wrong("a string")),
        }
    }

    fn truth(&mut self) -> Result<bool> {
        if self.has("True") {
            Ok(true)
        } else if self.has("False") {
            Ok(false)
        } else {
            Err(self.wrong("True or False"))
        }
    }

    fn tuple(&mut self) -> Result<Vec<i64>> {
        self.expect("(")?;
        let mut numbers = Vec::new();
        while !self.has(")") {
            let rest = self.rest();
            let len = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number = rest[..len].parse().map_err(|_| self.wrong("a size that fits 64 bits"))?;
            numbers.push(number);
            self.at += len;
            // Python 2 wrote long integers with their mark.
            self.has("L");
            if !self.has(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(numbers)
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.has(token) { Ok(()) } else { Err(self.wrong(&format!("`{token}`"))) }
    }

    /// Whether the token is next; it is passed then.
    fn has(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// The rest behind any space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    #[cold]
    fn wrong(&self, expected: &str) -> Error {
        refused(format!("the header is no dict of NumPy: byte {}: expected {expected}", self.at))
    }
}

/// The type of a `descr`, and whether it is big endian.
fn dtype_of(descr: &str) -> Result<(ScalarType, bool)> {
    let (is_big_endian, name) = match descr.as_bytes().first() {
        Some(b'<' | b'|') => (false, &descr[1..]),
        Some(b'>') => (true, &descr[1..]),
        Some(b'=') => (cfg!(target_endian = "big"), &descr[1..]),
        _ => (cfg!(target_endian = "big"), descr),
    };
    let found = DTYPES.iter().find(|(other, _)| *other == name);
    let (_, dtype) = found.ok_or_else(|| {
        Error::new(
            ErrorKind::Dtype,
            format!("the array is of NumPy's type {descr:?}, which no tensor here has"),
        )
    })?;
    Ok((*dtype, is_big_endian))
}

fn exactly(from: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(refused("it ends before its header".into()))
        }
        Err(error) => Err(unread(error)),
    }
}

#[cold]
pub(super) fn unread(error: std::io::Error) -> Error {
    io_error("the npy file cannot be read", error)
}

/// The error of a file that is no npy file.
#[cold]
pub(super) fn refused(reason: String) -> Error {
    Error::new(ErrorKind::Parse, format!("no npy file: {reason}"))
}
