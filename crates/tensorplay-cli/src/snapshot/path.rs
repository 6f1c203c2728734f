//! [`Path`]: where a value stands in the file, written out only when it is needed.

use std::fmt;

use super::error::{Place, ReadError};

/// A chain of steps from the top of the file to a value, on the stack of the functions that took them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The value under a key.
    pub(crate) fn key(&'p self, key: &'p str) -> Self {
        Self::Key(self, key)
    }

    /// An item of a list.
    pub(crate) fn index(&'p self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// An error about the value.
    #[cold]
    pub(crate) fn error(&self, reason: impl Into<String>) -> ReadError {
        let place = match self {
            Self::Root => Place::Whole,
            _ => Place::Path(self.to_string()),
        };
        ReadError::new(place, reason)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Path::Root, key) => write!(f, "{}", key.escape_debug()),
            Self::Key(parent, key) => write!(f, "{parent}.{}", key.escape_debug()),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
