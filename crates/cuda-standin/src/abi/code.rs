//! [`Code`]: CUDA's results, by number, with their names and texts.

use std::ffi::CStr;

use c10_cuda::driver::{DriverError, Status};

/// A `CUresult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Code(pub(crate) u32);

/// What the inside of an entry point comes to.
pub(crate) type Outcome<T = ()> = Result<T, Code>;

/// A text that ends in a zero, as C's.
const fn c_text(bytes: &'static [u8]) -> &'static CStr {
    match CStr::from_bytes_with_nul(bytes) {
        Ok(text) => text,
        Err(_) => panic!("it ends in its only zero"),
    }
}

macro_rules! codes {
    ($($name:ident $number:literal $text:literal),* $(,)?) => {
        impl Code {
            pub(crate) const SUCCESS: Self = Self(0);
            $(pub(crate) const $name: Self = Self($number);)*

            /// CUDA's name, and what it means; `None` for a number that CUDA does not have.
            pub(crate) const fn name_and_text(self) -> Option<(&'static CStr, &'static CStr)> {
                Some(match self {
                    Self::SUCCESS => (c"CUDA_SUCCESS", c"no error"),
                    $(Self::$name => (
                        const { c_text(concat!("CUDA_ERROR_", stringify!($name), "\0").as_bytes()) },
                        const { c_text(concat!($text, "\0").as_bytes()) },
                    ),)*
                    _ => return None,
                })
            }
        }
    };
}

codes! {
    INVALID_VALUE 1 "invalid argument",
    OUT_OF_MEMORY 2 "out of memory",
    NOT_INITIALIZED 3 "initialization error",
    DEINITIALIZED 4 "driver shutting down",
    NO_DEVICE 100 "no device was found",
    INVALID_DEVICE 101 "invalid device ordinal",
    INVALID_IMAGE 200 "device kernel image is invalid",
    INVALID_CONTEXT 201 "invalid device context",
    MAP_FAILED 205 "mapping failed",
    UNMAP_FAILED 206 "unmapping failed",
    ALREADY_MAPPED 208 "already mapped",
    NO_BINARY_FOR_GPU 209 "no kernel image fits the device",
    NOT_MAPPED 211 "not mapped",
    ECC_UNCORRECTABLE 214 "uncorrectable memory error",
    UNSUPPORTED_LIMIT 215 "the device does not have this limit",
    CONTEXT_ALREADY_IN_USE 216 "the context is in use by another thread",
    PEER_ACCESS_UNSUPPORTED 217 "the devices do not reach each other",
    INVALID_PTX 218 "the PTX could not be compiled",
    NVLINK_UNCORRECTABLE 220 "uncorrectable link error",
    INVALID_SOURCE 300 "the source of the kernel is invalid",
    FILE_NOT_FOUND 301 "file not found",
    OPERATING_SYSTEM 304 "a call of the operating system failed",
    INVALID_HANDLE 400 "invalid resource handle",
    ILLEGAL_STATE 401 "the operation cannot be performed in the present state",
    NOT_FOUND 500 "not found",
    NOT_READY 600 "not ready",
    ILLEGAL_ADDRESS 700 "an illegal memory access was encountered",
    LAUNCH_OUT_OF_RESOURCES 701 "too many resources requested for launch",
    LAUNCH_TIMEOUT 702 "the launch timed out",
    PEER_ACCESS_ALREADY_ENABLED 704 "peer access is already enabled",
    PEER_ACCESS_NOT_ENABLED 705 "peer access has not been enabled",
    PRIMARY_CONTEXT_ACTIVE 708 "the primary context is active",
    CONTEXT_IS_DESTROYED 709 "the context is destroyed",
    ASSERT 710 "an assertion of a kernel failed",
    HOST_MEMORY_ALREADY_REGISTERED 712 "part or all of the host memory is already registered",
    HOST_MEMORY_NOT_REGISTERED 713 "the host memory is not registered",
    HARDWARE_STACK_ERROR 714 "hardware stack error",
    ILLEGAL_INSTRUCTION 715 "an illegal instruction was encountered",
    MISALIGNED_ADDRESS 716 "misaligned address",
    INVALID_ADDRESS_SPACE 717 "the address is in the wrong address space",
    INVALID_PC 718 "invalid program counter",
    LAUNCH_FAILED 719 "unspecified launch failure",
    NOT_PERMITTED 800 "operation not permitted",
    NOT_SUPPORTED 801 "operation not supported",
    SYSTEM_NOT_READY 802 "system not yet initialized",
    SYSTEM_DRIVER_MISMATCH 803 "driver and library do not fit each other",
    STREAM_CAPTURE_UNSUPPORTED 900 "operation not permitted when stream is capturing",
    STREAM_CAPTURE_INVALIDATED 901 "operation failed due to a previous error during capture",
    STREAM_CAPTURE_MERGE 902 "operation would result in a merge of separate capture sequences",
    STREAM_CAPTURE_UNMATCHED 903 "capture was not ended in the same stream as it began",
    STREAM_CAPTURE_UNJOINED 904 "capturing stream has unjoined work",
    STREAM_CAPTURE_ISOLATION 905 "dependency created on uncaptured work in another stream",
    STREAM_CAPTURE_IMPLICIT 906 "operation would make the legacy stream depend on a capturing blocking stream",
    CAPTURED_EVENT 907 "operation not permitted on an event last recorded in a capturing stream",
    STREAM_CAPTURE_WRONG_THREAD 908 "attempt to terminate a thread-local capture sequence from another thread",
    TIMEOUT 909 "wait operation timed out",
    GRAPH_EXEC_UPDATE_FAILURE 910 "the graph update was not performed because it included changes which violated constraints",
    EXTERNAL_DEVICE 911 "an error of a device outside",
    UNKNOWN 999 "unknown error",
}

impl Code {
    /// Whether it means that the context is lost: every later call in it fails with the same.
    pub(crate) const fn is_sticky(self) -> bool {
        matches!(
            self,
            Self::ECC_UNCORRECTABLE
                | Self::NVLINK_UNCORRECTABLE
                | Self::ILLEGAL_ADDRESS
                | Self::LAUNCH_TIMEOUT
                | Self::ASSERT
                | Self::HARDWARE_STACK_ERROR
                | Self::ILLEGAL_INSTRUCTION
                | Self::MISALIGNED_ADDRESS
                | Self::INVALID_ADDRESS_SPACE
                | Self::INVALID_PC
                | Self::LAUNCH_FAILED
                | Self::EXTERNAL_DEVICE
        )
    }
}

impl From<Status> for Code {
    fn from(status: Status) -> Self {
        match status {
            Status::OutOfMemory => Self::OUT_OF_MEMORY,
            Status::InvalidValue => Self::INVALID_VALUE,
            Status::InvalidDevice => Self::INVALID_DEVICE,
            Status::InvalidHandle => Self::INVALID_HANDLE,
            Status::AlreadyMapped => Self::ALREADY_MAPPED,
            Status::NotMapped => Self::NOT_MAPPED,
            Status::NotReady => Self::NOT_READY,
            Status::CaptureUnsupported => Self::STREAM_CAPTURE_UNSUPPORTED,
            Status::CaptureInvalidated => Self::STREAM_CAPTURE_INVALIDATED,
            Status::CaptureMerge => Self::STREAM_CAPTURE_MERGE,
            Status::CaptureUnmatched => Self::STREAM_CAPTURE_UNMATCHED,
            Status::CaptureUnjoined => Self::STREAM_CAPTURE_UNJOINED,
            Status::CaptureIsolation => Self::STREAM_CAPTURE_ISOLATION,
            Status::CaptureWrongThread => Self::STREAM_CAPTURE_WRONG_THREAD,
            Status::CapturedEvent => Self::CAPTURED_EVENT,
            Status::IllegalState => Self::ILLEGAL_STATE,
            Status::NotPermitted => Self::NOT_PERMITTED,
            Status::IllegalAddress => Self::ILLEGAL_ADDRESS,
            Status::LaunchFailed => Self::LAUNCH_FAILED,
            Status::DeviceLost => Self::ECC_UNCORRECTABLE,
            Status::InvalidContext => Self::INVALID_CONTEXT,
            Status::NotFound => Self::NOT_FOUND,
            Status::InvalidImage => Self::INVALID_IMAGE,
            Status::GraphUpdateFailure => Self::GRAPH_EXEC_UPDATE_FAILURE,
            Status::PeerAccessUnsupported => Self::PEER_ACCESS_UNSUPPORTED,
            Status::NotSupported => Self::NOT_SUPPORTED,
            Status::Other(number) => Self(number),
            _ => Self::UNKNOWN,
        }
    }
}

impl From<DriverError> for Code {
    fn from(error: DriverError) -> Self {
        error.status.into()
    }
}
