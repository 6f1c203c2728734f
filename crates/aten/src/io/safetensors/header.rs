//! [`Header`]: what a safetensors file says about its tensors.

use std::collections::BTreeMap;

use c10_core::ScalarType;

use super::json::{Json, write_string};
use crate::error::{Error, ErrorKind, Result};

/// The bytes before the header, which hold its length.
pub(super) const LENGTH_BYTES: usize = 8;

/// So long may a header be.
const LONGEST_HEADER: u64 = 100_000_000;

/// The key that is no tensor.
pub(super) const METADATA: &str = "__metadata__";

/// The types of the format in the order in which tensors are written, last to first.
///
/// The 4-bit, 6-bit and `e8m0`, `fnuz` types of the format are not among the types of tensors here.
const DTYPES: [(&str, ScalarType); 16] = [
    ("BOOL", ScalarType::Bool),
    ("U8", ScalarType::UInt8),
    ("I8", ScalarType::Int8),
    ("F8_E5M2", ScalarType::Float8E5M2),
    ("F8_E4M3", ScalarType::Float8E4M3Fn),
    ("I16", ScalarType::Int16),
    ("U16", ScalarType::UInt16),
    ("F16", ScalarType::Float16),
    ("BF16", ScalarType::BFloat16),
    ("I32", ScalarType::Int32),
    ("U32", ScalarType::UInt32),
    ("F32", ScalarType::Float32),
    ("C64", ScalarType::Complex64),
    ("F64", ScalarType::Float64),
    ("I64", ScalarType::Int64),
    ("U64", ScalarType::UInt64),
];

/// The tensors of a file in the order of their bytes, and what the file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) entries: Vec<Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// One tensor. Its bytes lie in the buffer behind the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: ScalarType,
    pub(super) sizes: Vec<i64>,
    /// The first byte in the buffer, and the one behind the last.
    pub(super) begin: usize,
    pub(super) end: usize,
}

impl Header {
    /// Where the buffer begins in a file that begins with these bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when the header is longer than one may be, or than the file of `file_bytes`.
    pub(super) fn buffer_at(prefix: &[u8], file_bytes: usize) -> Result<usize> {
        let Some(length) = prefix.first_chunk::<LENGTH_BYTES>() else {
            return Err(refused(format!("{file_bytes} bytes have no room for a header's length")));
        };
        let length = u64::from_le_bytes(*length);
        if length > LONGEST_HEADER {
            return Err(refused(format!("a header of {length} bytes is longer than {LONGEST_HEADER}")));
        }
        let end = LENGTH_BYTES + length as usize;
        if end > file_bytes {
            return Err(refused(format!("a header of {length} bytes does not fit a file of {file_bytes}")));
        }
        Ok(end)
    }

    /// Reads the header's text, which has a buffer of `buffer_bytes` behind it.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`] when it is none: no JSON, names twice, tensors that overlap or leave gaps, or
    /// whose bytes are not as many as their sizes need. [`ErrorKind::Dtype`] for a type that tensors here do
    /// not have, [`ErrorKind::Overflow`] for sizes beyond 64 bits.
    pub(super) fn parse(text: &[u8], buffer_bytes: usize) -> Result<Self> {
        let text =
            str::from_utf8(text).map_err(|error| refused(format!("the header is no UTF-8: {error}")))?;
        if !text.starts_with('{') {
            return Err(refused("the header does not begin with `{`".into()));
        }
        let mut header = Self::default();
        let mut json = Json::new(text);
        let mut has_metadata = false;
        json.object(|json, key| {
            if key != METADATA {
                header.entries.push(Entry::read(json, key.into_owned())?);
                return Ok(());
            }
            if std::mem::replace(&mut has_metadata, true) {
                return Err(refused(format!("`{METADATA}` is there twice")));
            }
            json.object(|json, key| {
                let value = json.string()?;
                header.metadata.insert(key.into_owned(), value.into_owned());
                Ok(())
            })
        })?;
        json.end()?;
        header.entries.sort_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
        header.check(buffer_bytes)?;
        Ok(header)
    }

    /// The bytes before the buffer: the length, the text, and spaces up to a multiple of eight.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::from("{");
        if !self.metadata.is_empty() {
            write_string(METADATA, &mut text);
            text.push_str(":{");
            for (key, value) in &self.metadata {
                write_string(key, &mut text);
                text.push(':');
                write_string(value, &mut text);
                text.push(',');
            }
            text.pop();
            text.push_str("},");
        }
        for Entry { name, dtype, sizes, begin, end } in &self.entries {
            write_string(name, &mut text);
            let sizes = sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            let dtype = dtype_name(*dtype).expect("checked when the header was made");
            text.push_str(&format!(
                r#":{{"dtype":"{dtype}","shape":[{sizes}],"data_offsets":[{begin},{end}]}},"#
            ));
        }
        if text.ends_with(',') {
            text.pop();
        }
        text.push('}');
        let length = text.len().next_multiple_of(8);
        let mut bytes = (length as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(LENGTH_BYTES + length, b' ');
        bytes
    }

    /// Whether the entries, which are in order, tile the buffer and have names of their own.
    fn check(&self, buffer_bytes: usize) -> Result<()> {
        let mut end = 0;
        for entry in &self.entries {
            if entry.begin != end {
                return Err(refused(format!(
                    "tensor {:?} begins at byte {} of the buffer, where {end} is due",
                    entry.name, entry.begin
                )));
            }
            end = entry.end;
        }
        if end != buffer_bytes {
            return Err(refused(format!("the tensors have {end} bytes, and the buffer has {buffer_bytes}")));
        }
        let mut names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(refused(format!("tensor {:?} is there twice", pair[0]))),
            None => Ok(()),
        }
    }
}

impl Entry {
    fn read(json: &mut Json<'_>, name: String) -> Result<Self> {
        let (mut dtype, mut sizes, mut offsets) = (None, None, None);
        json.object(|json, key| match &*key {
            "dtype" => once(&mut dtype, &name, &key, json.string()?.into_owned()),
            "shape" => once(&mut sizes, &name, &key, numbers(json)?),
            "data_offsets" => once(&mut offsets, &name, &key, numbers(json)?),
            _ => json.skip(),
        })?;
        let missing = |what: &str| refused(format!("tensor {name:?} has no `{what}`"));
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        let sizes = sizes.ok_or_else(|| missing("shape"))?;
        let offsets = offsets.ok_or_else(|| missing("data_offsets"))?;
        let &[begin, end] = offsets.as_slice() else {
            return Err(refused(format!("tensor {name:?} has {} `data_offsets`, not two", offsets.len())));
        };
        let dtype = dtype_named(&dtype).ok_or_else(|| {
            Error::new(
                ErrorKind::Dtype,
                format!("tensor {name:?} is of type {dtype:?}, which no tensor here has"),
            )
        })?;
        let overflow = || {
            Error::new(ErrorKind::Overflow, format!("tensor {name:?} of sizes {sizes:?} has too many bytes"))
        };
        let sizes: Vec<i64> =
            sizes.iter().map(|&size| size.try_into()).collect::<Result<_, _>>().map_err(|_| overflow())?;
        let size = dtype.element_size() as u64;
        let bytes = sizes.iter().try_fold(size, |bytes, &size| bytes.checked_mul(size as u64));
        let bytes = bytes.ok_or_else(overflow)?;
        if end.checked_sub(begin) != Some(bytes) {
            return Err(refused(format!(
                "tensor {name:?} of {dtype} and sizes {sizes:?} has {bytes} bytes, and stands at {begin} to {end}"
            )));
        }
        let place = |byte: u64| usize::try_from(byte).map_err(|_| overflow());
        Ok(Self { dtype, begin: place(begin)?, end: place(end)?, name, sizes })
    }
}

fn once<T>(slot: &mut Option<T>, name: &str, key: &str, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(refused(format!("tensor {name:?} has `{key}` twice"))),
    }
}

fn numbers(json: &mut Json<'_>) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    json.array(|json| {
        numbers.push(json.unsigned()?);
        Ok(())
    })?;
    Ok(numbers)
}

/// The format's name of a type.
pub(super) fn dtype_name(dtype: ScalarType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, other)| *other == dtype).map(|(name, _)| *name)
}

/// The place of a type in the order in which tensors are written, which is from the highest.
pub(super) fn dtype_rank(dtype: ScalarType) -> Option<usize> {
    DTYPES.iter().position(|(_, other)| *other == dtype)
}

fn dtype_named(name: &str) -> Option<ScalarType> {
    DTYPES.iter().find(|(other, _)| *other == name).map(|(_, dtype)| *dtype)
}

/// The error of a file that is no safetensors file.
#[cold]
pub(super) fn refused(reason: String) -> Error {
    Error::new(ErrorKind::Parse, format!("no safetensors file: {reason}"))
}
