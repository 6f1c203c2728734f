//! Files in the idx format, which the MNIST digits come in: a header that names type and sizes, then the elements,
//! most significant byte first. A file packed by gzip is unpacked on the way.
//!
//! Nothing is believed of the header: memory is taken as the elements come.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use aten::{Error, ErrorKind, Result, Tensor};
use c10_core::Element;
use flate2::bufread::MultiGzDecoder;

/// What a file packed by gzip begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// More than tensors have.
const MAX_RANK: u8 = 64;

/// Reads a file.
///
/// # Errors
/// [`ErrorKind::Io`] when it cannot be read, and as [`read`].
pub fn open(path: &Path) -> Result<Tensor> {
    let file = File::open(path).map_err(|error| {
        Error::new(ErrorKind::Io, format!("{} cannot be read: {error}", path.display())).with_source(error)
    })?;
    read(file)
}

/// Reads a tensor of `uint8`, `int8`, `int16`, `int32`, `float32` or `float64`.
///
/// # Errors
/// [`ErrorKind::Parse`] when it is no such file, too short or too long; [`ErrorKind::Io`] when the reader fails;
/// [`ErrorKind::OutOfMemory`].
pub fn read(reader: impl Read) -> Result<Tensor> {
    let mut reader = BufReader::new(reader);
    let begin = reader.fill_buf().map_err(failed)?;
    if begin.starts_with(&GZIP_MAGIC) { read_plain(MultiGzDecoder::new(reader)) } else { read_plain(reader) }
}

fn read_plain(mut reader: impl Read) -> Result<Tensor> {
    let mut magic = [0; 4];
    reader.read_exact(&mut magic).map_err(failed)?;
    let [0, 0, dtype, rank] = magic else {
        return Err(malformed(format!("it begins with {magic:02x?}")));
    };
    if rank > MAX_RANK {
        return Err(malformed(format!("it has {rank} dimensions")));
    }
    let mut sizes = Vec::with_capacity(usize::from(rank));
    for _ in 0..rank {
        let mut size = [0; 4];
        reader.read_exact(&mut size).map_err(failed)?;
        sizes.push(i64::from(u32::from_be_bytes(size)));
    }
    match dtype {
        0x08 => elements(reader, &sizes, u8::from_be_bytes),
        0x09 => elements(reader, &sizes, i8::from_be_bytes),
        0x0b => elements(reader, &sizes, i16::from_be_bytes),
        0x0c => elements(reader, &sizes, i32::from_be_bytes),
        0x0d => elements(reader, &sizes, f32::from_be_bytes),
        0x0e => elements(reader, &sizes, f64::from_be_bytes),
        other => Err(malformed(format!("its elements are of unknown type {other:#04x}"))),
    }
}

fn elements<T: Element, const BYTES: usize>(
    mut reader: impl Read,
    sizes: &[i64],
    of_bytes: fn([u8; BYTES]) -> T,
) -> Result<Tensor> {
    let wanted = sizes
        .iter()
        .try_fold(BYTES as u64, |product, &size| product.checked_mul(size.unsigned_abs()))
        .filter(|bytes| *bytes < u64::MAX)
        .ok_or_else(|| malformed(format!("sizes {sizes:?} have more bytes than can be counted")))?;
    let mut bytes = Vec::new();
    // One byte more, to see whether the file ends there.
    reader.by_ref().take(wanted + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 != wanted {
        let what = if bytes.len() as u64 > wanted { "more".to_owned() } else { bytes.len().to_string() };
        return Err(malformed(format!("sizes {sizes:?} need {wanted} bytes, and there are {what}")));
    }
    let (elements, _) = bytes.as_chunks::<BYTES>();
    let elements: Vec<T> = elements.iter().map(|element| of_bytes(*element)).collect();
    Tensor::from_slice(&elements, sizes)
}

#[cold]
fn malformed(what: String) -> Error {
    Error::new(ErrorKind::Parse, format!("this is no idx file: {what}"))
}

#[cold]
fn failed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => malformed("it ends in its header".to_owned()),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => malformed(error.to_string()),
        _ => Error::new(ErrorKind::Io, format!("the idx file cannot be read: {error}")).with_source(error),
    }
}
