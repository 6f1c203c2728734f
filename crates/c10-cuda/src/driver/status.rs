//! [`Status`]: our own list of driver outcomes and their texts; [`DriverError`]: which call, on which device.

use std::fmt;

use c10_core::DeviceIndex;

/// Why a driver call failed (`CUresult`, as far as it is told apart).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// There is no memory for the call.
    OutOfMemory,
    /// An argument is out of range.
    InvalidValue,
    /// There is no such device.
    InvalidDevice,
    /// A stream, event or memory handle is not live, or belongs to another device.
    InvalidHandle,
    /// Something is mapped there already.
    AlreadyMapped,
    /// Nothing is mapped there, or not with the access.
    NotMapped,
    /// Work that the call needs complete is not.
    NotReady,
    /// The call is forbidden while a stream captures.
    CaptureUnsupported,
    /// The capture was spoilt by a forbidden call.
    CaptureInvalidated,
    /// Two captures would become one.
    CaptureMerge,
    /// A capture is ended on another stream than it began on.
    CaptureUnmatched,
    /// A capture is ended while work of other streams has not been joined.
    CaptureUnjoined,
    /// What a capture holds would depend on work outside it.
    CaptureIsolation,
    /// A capture is ended on another thread than it began on.
    CaptureWrongThread,
    /// The event was recorded in a capture, and stands for no work that runs.
    CapturedEvent,
    /// The call does not fit the state of what it is for: a capture begun twice, or ended and not begun.
    IllegalState,
    /// The call is not allowed here: a kernel's body must not call a driver.
    NotPermitted,
    /// A kernel or a copy touched memory that is not its own; the device is lost.
    IllegalAddress,
    /// A kernel failed in another way than by an address; the device is lost.
    LaunchFailed,
    /// The device stopped in a way that only a new process mends.
    DeviceLost,
    /// There is no context, or it is not the one that the call is for.
    InvalidContext,
    /// There is no function of that name.
    NotFound,
    /// The image of kernels is none, or none that the device can run.
    InvalidImage,
    /// A launchable graph cannot be made to do what another graph does: they are of different shapes.
    GraphUpdateFailure,
    /// One device cannot reach the other's memory.
    PeerAccessUnsupported,
    /// The driver does not do this.
    NotSupported,
    /// Anything else, with the driver's number.
    Other(u32),
}

impl Status {
    /// What it means, in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out of memory",
            Self::InvalidValue => "invalid argument",
            Self::InvalidDevice => "invalid device ordinal",
            Self::InvalidHandle => "invalid resource handle",
            Self::AlreadyMapped => "already mapped",
            Self::NotMapped => "not mapped",
            Self::NotReady => "not ready",
            Self::CaptureUnsupported => "operation not permitted when stream is capturing",
            Self::CaptureInvalidated => "operation failed due to a previous error during capture",
            Self::CaptureMerge => "operation would result in a merge of separate capture sequences",
            Self::CaptureUnmatched => "capture was not ended in the same stream as it began",
            Self::CaptureUnjoined => "capturing stream has unjoined work",
            Self::CaptureIsolation => "dependency created on uncaptured work in another stream",
            Self::CaptureWrongThread => "capture was ended on another thread than it began on",
            Self::CapturedEvent => "operation not permitted on an event last recorded in a capturing stream",
            Self::IllegalState => "the operation cannot be performed in the present state",
            Self::NotPermitted => "operation not permitted",
            Self::IllegalAddress => "an illegal memory access was encountered",
            Self::LaunchFailed => "unspecified launch failure",
            Self::DeviceLost => "the device is lost",
            Self::InvalidContext => "invalid device context",
            Self::NotFound => "named symbol not found",
            Self::InvalidImage => "device kernel image is invalid",
            Self::GraphUpdateFailure => "the graph update was not performed: the graphs differ in shape",
            Self::PeerAccessUnsupported => "peer access is not supported between these two devices",
            Self::NotSupported => "operation not supported",
            Self::Other(_) => "driver error",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "driver error {number}"),
            _ => f.write_str(self.text()),
        }
    }
}

/// A driver call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The call, by its name in [`Driver`](super::Driver).
    pub call: &'static str,
    /// Why it failed.
    pub status: Status,
    /// The device it was for.
    pub device: DeviceIndex,
    /// What there is to say beyond the status.
    pub detail: Option<&'static str>,
}

impl DriverError {
    /// The failure of one call.
    pub const fn new(call: &'static str, status: Status, device: DeviceIndex) -> Self {
        Self { call, status, device, detail: None }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed on device {}: {}", self.call, self.device, self.status)?;
        match self.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DriverError {}
