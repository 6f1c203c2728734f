//! [`ReadError`]: what is wrong with a snapshot, and where.

use std::fmt;

/// Where in a file something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The file as a whole.
    Whole,
    /// A byte of the pickle, counted after decompression.
    Byte(u64),
    /// A place in a JSON text, counted from 1.
    LineColumn(usize, usize),
    /// A value, as one would write it in Python after `snapshot`: `device_traces[0][17].size`.
    Path(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the file"),
            Self::Byte(offset) => write!(f, "byte {offset}"),
            Self::LineColumn(line, column) => write!(f, "line {line}, column {column}"),
            Self::Path(path) => f.write_str(path),
        }
    }
}

/// Text from a file, in quotes, with control characters escaped, and cut when it is long.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Why a snapshot could not be read: a place and a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadError {
    /// Where.
    pub(crate) place: Place,
    /// A clause that says what is wrong there.
    pub(crate) reason: String,
}

impl ReadError {
    /// An error at `place`.
    #[cold]
    pub(crate) fn new(place: Place, reason: impl Into<String>) -> Self {
        Self { place, reason: reason.into() }
    }

    /// An error of the file as a whole.
    #[cold]
    pub(crate) fn whole(reason: impl Into<String>) -> Self {
        Self::new(Place::Whole, reason)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for ReadError {}
