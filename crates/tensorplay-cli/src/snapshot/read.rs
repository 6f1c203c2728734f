//! From a file to a [`Snapshot`]: decompression, and whether the content is a pickle or JSON.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::error::{Place, ReadError};
use super::limits::Limits;
use super::values::{ValueId, Values};
use super::{Snapshot, check, decode, json, unpickle};

/// Why an input file is no use: the file, the place in it, and the reason.
#[derive(Debug)]
pub(crate) struct InputError {
    file: PathBuf,
    reason: ReadError,
}

impl InputError {
    /// An error about `file`.
    pub(crate) fn new(file: &Path, reason: ReadError) -> Self {
        Self { file: file.to_owned(), reason }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match self.reason.place {
            Place::Whole => f.write_str(&self.reason.reason),
            _ => self.reason.fmt(f),
        }
    }
}

impl std::error::Error for InputError {}

/// What is read of a file beyond what a replay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Memory,
    /// Stack frames too.
    Stacks,
}

/// Reads a snapshot file: a pickle or JSON, gzip'd or not, told apart by content.
///
/// # Errors
/// The file cannot be read, is beyond the limits, or is not a snapshot.
pub(crate) fn read_file(file: &Path, limits: Limits, wanted: Wanted) -> Result<Snapshot, InputError> {
    let whole = |error: io::Error| ReadError::new(Place::Whole, error.to_string());
    let read = || {
        let metadata = std::fs::metadata(file).map_err(whole)?;
        if metadata.is_dir() {
            return Err(ReadError::new(Place::Whole, "is a directory, not a snapshot"));
        }
        let bytes = read_limited(File::open(file).map_err(whole)?, limits).map_err(whole)?;
        read_snapshot(&bytes, limits, wanted)
    };
    read().map_err(|reason| InputError::new(file, reason))
}

/// Reads the bytes of a snapshot file.
///
/// # Errors
/// They are beyond the limits, or not a snapshot.
pub(crate) fn read_snapshot(bytes: &[u8], limits: Limits, wanted: Wanted) -> Result<Snapshot, ReadError> {
    let unpacked;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        unpacked = read_limited(MultiGzDecoder::new(bytes), limits)
            .map_err(|error| ReadError::new(Place::Whole, format!("is not whole as gzip: {error}")))?;
        unpacked.as_slice()
    } else {
        bytes
    };
    let (values, root) = parse(bytes, limits, wanted)?;
    let mut snapshot = decode::decode(&values, root, limits.memory_bytes, wanted)?;
    check::check(&mut snapshot)?;
    Ok(snapshot)
}

fn parse(bytes: &[u8], limits: Limits, wanted: Wanted) -> Result<(Values<'_>, ValueId), ReadError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    match (bytes.first(), text.first()) {
        // No pickle starts with one of these, and no JSON with what a pickle starts with.
        (_, Some(b'{' | b'[')) => json::parse(text, limits, wanted),
        (Some(0x80 | b'(' | b'}' | b']'), _) => unpickle::unpickle(bytes, limits),
        (None, _) => Err(ReadError::new(Place::Whole, "is empty")),
        (_, Some(b'<')) => Err(ReadError::new(
            Place::Whole,
            "looks like a web page; the replay needs the snapshot that `torch.cuda.memory._dump_snapshot` writes",
        )),
        _ => Err(ReadError::new(Place::Whole, "is neither a pickle nor JSON, gzip'd or not")),
    }
}

fn read_limited(source: impl Read, limits: Limits) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(limits.input_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits.input_bytes {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than the {} bytes that are read at most", limits.input_bytes),
        ));
    }
    Ok(bytes)
}
