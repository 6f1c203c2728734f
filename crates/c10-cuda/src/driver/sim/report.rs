//! [`WorkFault`]: what work did that it must not.

use std::fmt;

use crate::driver::{DevicePtr, StreamHandle};

/// What is wrong with an access, or with a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessFault {
    /// Not all of the range is memory that somebody holds.
    NotLive,
    /// The memory was freed after the work was issued, and the range has been given out anew.
    Replaced,
    /// The addresses are reserved, and not all are mapped.
    NotMapped,
    /// The addresses are mapped, and the device was not let in.
    NoAccess,
    /// The memory is another device's, which this one does not reach.
    NoPeerAccess,
    /// The kernel's body panicked, with this message: it left a declared range, or failed of itself.
    Panicked(String),
}

impl fmt::Display for AccessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLive => "not all of it is live memory",
            Self::Replaced => "the memory was freed after the work was issued, and is given out anew",
            Self::NotMapped => "the addresses are reserved, and not all are mapped",
            Self::NoAccess => "the addresses are mapped, and the device was not given access",
            Self::NoPeerAccess => "the memory is another device's, and peer access was not enabled",
            Self::Panicked(message) => return write!(f, "it panicked: {message}"),
        })
    }
}

/// The use that an item of work made of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Where it begins.
    pub ptr: DevicePtr,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Whether it was to be written.
    pub write: bool,
}

/// An item of work that faulted. It did nothing, but for what a kernel wrote before it panicked. The work
/// behind it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFault {
    /// The stream.
    pub stream: StreamHandle,
    /// The kernel's name, `copy` or `fill`.
    pub name: &'static str,
    /// The range, unless the kernel panicked.
    pub range: Option<Touched>,
    /// What is wrong.
    pub fault: AccessFault,
}

impl fmt::Display for WorkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamHandle { device, raw } = self.stream;
        write!(f, "{} on device {device} stream {}", self.name, super::log::Number(raw))?;
        if let Some(Touched { ptr, bytes, write }) = self.range {
            let verb = if write { "writes" } else { "reads" };
            write!(f, " {verb} {bytes} bytes at {ptr}")?;
        }
        write!(f, ": {}", self.fault)
    }
}
