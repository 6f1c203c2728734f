//! The error type of this crate: one opaque [`Error`], its [`ErrorKind`], the operator, shapes and dtypes it
//! speaks of, a sentence.

use std::error::Error as StdError;
use std::fmt;

use c10_core::ScalarType;

use crate::tensor::{Dims, Tensor};

/// What a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is not one that the operator takes; nothing was done.
    InvalidArgument,
    /// An index or a dimension is out of range.
    Index,
    /// Sizes or strides do not go together.
    Shape,
    /// A dtype is not one that the operator takes there, or two of them do not go together.
    Dtype,
    /// Tensors are on devices that do not go together.
    Device,
    /// Elements that are written share memory with each other or with what is read.
    Overlap,
    /// There is no kernel for this operator on this backend or dtype.
    NotImplemented,
    /// A number does not fit where it should go: a count of elements or bytes, or a value in a dtype.
    Overflow,
    /// No memory for the request.
    OutOfMemory,
    /// A text is not in the form that a parser takes.
    Parse,
    /// A registration contradicts another one.
    Registration,
    /// The device type has no allocator or hooks, or the device is not there.
    DeviceUnavailable,
    /// The memory is read-only.
    ReadOnly,
    /// Access would have to wait where waiting could deadlock; try again later.
    Busy,
    /// The operating system refused a file operation; [`StdError::source`] has its error.
    Io,
    /// The driver of a device failed.
    Driver,
}

impl ErrorKind {
    fn of_core(kind: c10_core::ErrorKind) -> Self {
        use c10_core::ErrorKind as Core;
        match kind {
            Core::Parse => Self::Parse,
            Core::Overflow => Self::Overflow,
            Core::OutOfMemory => Self::OutOfMemory,
            Core::NotImplemented => Self::NotImplemented,
            Core::DeviceUnavailable => Self::DeviceUnavailable,
            Core::ReadOnly => Self::ReadOnly,
            Core::Busy => Self::Busy,
            Core::Io | Core::Confined => Self::Io,
            Core::Driver => Self::Driver,
            _ => Self::InvalidArgument,
        }
    }
}

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: a [kind](Self::kind) to act on, a sentence to read, and what it speaks of.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    operator: Option<String>,
    tensors: Vec<(Dims, ScalarType)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with its sentence.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            message: message.into(),
            operator: None,
            tensors: Vec::new(),
            source: None,
        }))
    }

    /// [`ErrorKind::InvalidArgument`] with its sentence.
    #[cold]
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// [`ErrorKind::Index`] with its sentence.
    #[cold]
    pub fn index(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Index, message)
    }

    /// [`ErrorKind::Shape`] with its sentence.
    #[cold]
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Shape, message)
    }

    /// [`ErrorKind::Dtype`] with its sentence.
    #[cold]
    pub fn dtype(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Dtype, message)
    }

    /// [`ErrorKind::NotImplemented`] with its sentence.
    #[cold]
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotImplemented, message)
    }

    /// Names the operator, unless an inner one is named already.
    #[cold]
    #[must_use]
    pub fn with_operator(mut self, name: impl Into<String>) -> Self {
        self.0.operator.get_or_insert_with(|| name.into());
        self
    }

    /// Adds sizes and dtypes of the tensors that the operator was called with, unless they are there already.
    #[cold]
    #[must_use]
    pub fn with_tensors<'a>(mut self, tensors: impl IntoIterator<Item = &'a Tensor>) -> Self {
        if self.0.tensors.is_empty() {
            self.0.tensors = tensors.into_iter().map(|t| (t.sizes(), t.dtype())).collect();
        }
        self
    }

    /// Adds the error that caused this one.
    #[cold]
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operator that refused, as `aten::add.Tensor`.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// The sentence alone, without operator, shapes and dtypes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Sizes and dtype of each tensor that the operator was called with.
    pub fn tensors(&self) -> impl Iterator<Item = (&[i64], ScalarType)> {
        self.0.tensors.iter().map(|(sizes, dtype)| (&**sizes, *dtype))
    }
}

impl From<c10_core::Error> for Error {
    #[cold]
    fn from(error: c10_core::Error) -> Self {
        Self::new(ErrorKind::of_core(error.kind()), error.to_string()).with_source(error)
    }
}

impl fmt::Display for Error {
    /// `aten::add.Tensor: … (float32[2, 3], int64[4])`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operator) = &self.0.operator {
            write!(f, "{operator}: ")?;
        }
        f.write_str(&self.0.message)?;
        for (i, (sizes, dtype)) in self.0.tensors.iter().enumerate() {
            write!(f, "{}{}{sizes:?}", if i == 0 { " (" } else { ", " }, dtype.name())?;
        }
        f.write_str(if self.0.tensors.is_empty() { "" } else { ")" })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("operator", &self.0.operator)
            .field("tensors", &self.0.tensors)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}
