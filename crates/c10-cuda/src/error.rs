//! The error type of this crate: one opaque [`Error`], its [`ErrorKind`], numbers as fields, a sentence.

use std::error::Error as StdError;
use std::fmt;

use crate::driver::{DriverError, Status};

/// What a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No memory for the request; [`Error::out_of_memory`] has the numbers. The allocator is usable at once.
    OutOfMemory,
    /// An argument is not one that the call takes; nothing was done.
    InvalidArgument,
    /// A configuration text or value is wrong; nothing was changed.
    Config,
    /// The driver refused a call; [`Error::driver`] has it.
    Driver,
    /// Work that the call needs complete is not yet: it can be waited for.
    NotReady,
    /// The call does not go with a graph capture that is under way, or the capture was spoilt by one that did not.
    Capture,
    /// The call is not one that this allocator or driver supports.
    NotImplemented,
    /// There is no CUDA driver, or it is too old, or it finds no device.
    DeviceUnavailable,
}

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The numbers of an out-of-memory error, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The device.
    pub device: u8,
    /// What the program asked for.
    pub requested: u64,
    /// What was then asked of the driver: the size of a segment.
    pub tried: u64,
    /// All memory of the device.
    pub device_total: u64,
    /// What the driver could still give out.
    pub device_free: u64,
    /// The limit that the memory fraction sets, if one is set. It counts the allocator's bytes alone.
    pub allowed: Option<u64>,
    /// Bytes that the program holds.
    pub allocated: u64,
    /// Free bytes of private pools, which serve nobody else.
    pub private: u64,
    /// Bytes that the allocator holds, handed out or not.
    pub reserved: u64,
}

/// What went wrong: a [kind](Self::kind) to act on, a sentence to read, and the numbers it speaks of.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    out_of_memory: Option<OutOfMemory>,
    driver: Option<DriverError>,
}

impl Error {
    /// An error of `kind` with its sentence.
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Repr { kind, message: message.into(), out_of_memory: None, driver: None }))
    }

    /// Out of memory with its numbers and PyTorch's text.
    #[cold]
    pub(crate) fn oom(numbers: OutOfMemory, message: String) -> Self {
        let mut error = Self::new(ErrorKind::OutOfMemory, message);
        error.0.out_of_memory = Some(numbers);
        error
    }

    /// A driver's failure with a sentence of its own.
    #[cold]
    pub(crate) fn with_driver(driver: DriverError, message: String) -> Self {
        let mut error = Self::new(ErrorKind::Driver, message);
        error.0.driver = Some(driver);
        error
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The numbers, when the kind is [`ErrorKind::OutOfMemory`].
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        self.0.out_of_memory.as_ref()
    }

    /// An error of `kind` that a driver's failure led to.
    #[cold]
    pub(crate) fn of_driver(kind: ErrorKind, driver: DriverError, message: impl Into<String>) -> Self {
        let mut error = Self::new(kind, message);
        error.0.driver = Some(driver);
        error
    }

    /// The call that failed, when the kind is [`ErrorKind::Driver`] or [`ErrorKind::Capture`].
    pub fn driver(&self) -> Option<&DriverError> {
        self.0.driver.as_ref()
    }
}

impl From<DriverError> for Error {
    #[cold]
    fn from(driver: DriverError) -> Self {
        match capture_advice(driver.status) {
            Some(advice) => Self::of_driver(ErrorKind::Capture, driver, format!("{driver}. {advice}")),
            None => Self::with_driver(driver, driver.to_string()),
        }
    }
}

/// What to do about a refusal that has to do with captures; `None` for others.
fn capture_advice(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::CaptureUnsupported => {
            "While a stream captures, nothing may wait for it, ask how far it is, or stop the device; a capture that \
             this was refused for is spoilt, and fails when it ends."
        }
        Status::CaptureInvalidated => {
            "A call that was refused before has spoilt the capture: end it, and capture again without that call."
        }
        Status::CaptureMerge => "Two captures cannot wait for each other; both are spoilt.",
        Status::CaptureUnmatched => "A capture ends on the stream on which it began.",
        Status::CaptureUnjoined => {
            "Every stream that has waited for the captured one must be waited for by it before the capture ends."
        }
        Status::CaptureIsolation => {
            "A captured stream can wait only for what the same capture recorded; the capture is spoilt."
        }
        Status::CaptureWrongThread => "A capture ends on the thread on which it began, unless it is relaxed.",
        Status::CapturedEvent => "An event of a capture stands for a place in the graph, which has not run.",
        _ => return None,
    })
}

impl From<Error> for c10_core::Error {
    /// Keeps the kind, the sentence and the numbers; the whole error is the source.
    #[cold]
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let core = match (error.kind(), error.out_of_memory()) {
            (_, Some(oom)) => {
                let core = Self::out_of_memory(oom.requested, message);
                match oom.allowed {
                    Some(allowed) => core.with_limit_bytes(allowed),
                    None => core,
                }
            }
            // A stream or an event that is not there, or not any more, is the caller's to know.
            (ErrorKind::Driver, _) if error.driver().is_some_and(|e| e.status == Status::InvalidHandle) => {
                Self::invalid_argument(message)
            }
            (ErrorKind::InvalidArgument | ErrorKind::Config, _) => Self::invalid_argument(message),
            (ErrorKind::NotReady, _) => Self::new(c10_core::ErrorKind::Busy, message),
            (ErrorKind::DeviceUnavailable, _) => Self::new(c10_core::ErrorKind::DeviceUnavailable, message),
            (ErrorKind::NotImplemented, _) => Self::new(c10_core::ErrorKind::NotImplemented, message),
            _ => Self::new(c10_core::ErrorKind::Driver, message),
        };
        core.with_source(error)
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
        if let Some(oom) = &self.0.out_of_memory {
            d.field("out_of_memory", oom);
        }
        d.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.driver.as_ref().map(|e| e as &(dyn StdError + 'static))
    }
}
