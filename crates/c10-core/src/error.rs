//! The error type of this crate: one opaque [`Error`], its [`ErrorKind`], numbers as fields, a sentence.

use std::error::Error as StdError;
use std::fmt;

/// What a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not one that the call takes; nothing was done.
    InvalidArgument,
    /// A text is not in the form that a parser takes.
    Parse,
    /// A number does not fit where it should go: the byte count of sizes and strides, or a value in a type.
    Overflow,
    /// No memory for the request. [`Error::requested_bytes`] and [`Error::limit_bytes`] give the numbers.
    OutOfMemory,
    /// The object does not support the call.
    NotImplemented,
    /// No allocator or no device hooks are registered for the device type, or the device is not there.
    DeviceUnavailable,
    /// The memory is read-only, and exclusive access was asked for.
    ReadOnly,
    /// Access would have to wait where waiting could deadlock; try again later.
    Busy,
    /// A path leads out of the directory it is confined to.
    Confined,
    /// The operating system refused a file operation; [`StdError::source`] has its error.
    Io,
    /// The driver of a device failed.
    Driver,
}

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: a [kind](Self::kind) to act on, a sentence to read, and the numbers it speaks of.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    requested_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with its sentence.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            message: message.into(),
            requested_bytes: None,
            limit_bytes: None,
            source: None,
        }))
    }

    /// [`ErrorKind::InvalidArgument`] with its sentence.
    #[cold]
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// [`ErrorKind::OutOfMemory`] for a request of `bytes`.
    #[cold]
    pub fn out_of_memory(bytes: u64, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::OutOfMemory, message);
        error.0.requested_bytes = Some(bytes);
        error
    }

    /// [`ErrorKind::Parse`] for a text that is none of the names of a `what`.
    #[cold]
    pub(crate) fn unknown_name(what: &str, text: &str, names: impl Iterator<Item = &'static str>) -> Self {
        let names: Vec<_> = names.collect();
        Self::new(
            ErrorKind::Parse,
            format!("{} is no {what}; there are {}", Self::quoted(text), names.join(", ")),
        )
    }

    /// A text from outside as a sentence can quote it: escaped, and cut where it is long.
    pub(crate) fn quoted(text: &str) -> String {
        const SHOWN_CHARS: usize = 64;
        Self::quoted_up_to(SHOWN_CHARS, text)
    }

    /// As [`quoted`](Self::quoted), cut where it is longer than so many characters.
    pub(crate) fn quoted_up_to(chars: usize, text: &str) -> String {
        let shown: String = text.chars().take(chars).flat_map(char::escape_debug).collect();
        let more = if text.chars().nth(chars).is_some() { "…" } else { "" };
        format!("'{shown}{more}'")
    }

    /// Adds the limit, in bytes, that the request met.
    #[must_use]
    pub fn with_limit_bytes(mut self, bytes: u64) -> Self {
        self.0.limit_bytes = Some(bytes);
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The size of the request that failed, in bytes, where there was one.
    pub fn requested_bytes(&self) -> Option<u64> {
        self.0.requested_bytes
    }

    /// The limit that the request met, in bytes, where there was one.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.0.limit_bytes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Error");
        d.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(bytes) = self.0.requested_bytes {
            d.field("requested_bytes", &bytes);
        }
        if let Some(bytes) = self.0.limit_bytes {
            d.field("limit_bytes", &bytes);
        }
        if let Some(source) = &self.0.source {
            d.field("source", source);
        }
        d.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}
