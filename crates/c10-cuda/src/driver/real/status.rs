//! What the driver's numbers mean ([`Status`]), and which of them the device does not recover from.

use cudarc::driver::sys::CUresult as R;

use super::abi::RawResult;
use crate::driver::Status;

pub(super) const NOT_READY: RawResult = R::CUDA_ERROR_NOT_READY as RawResult;
pub(super) const NO_DEVICE: RawResult = R::CUDA_ERROR_NO_DEVICE as RawResult;
pub(super) const STUB_LIBRARY: RawResult = R::CUDA_ERROR_STUB_LIBRARY as RawResult;
/// `CUDA_ERROR_CONTAINED`, which old headers do not have.
const CONTAINED: RawResult = 721;
pub(super) const PEER_ACCESS_ALREADY_ENABLED: RawResult =
    R::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as RawResult;

/// What the driver answered, as a result.
pub(super) fn check(result: RawResult) -> Result<(), Status> {
    if result == R::CUDA_SUCCESS as RawResult { Ok(()) } else { Err(meaning(result)) }
}

/// Names the driver's numbers.
macro_rules! meanings {
    ($($status:expr => $($name:ident)|+;)*) => {
        /// What a number means.
        fn meaning(result: RawResult) -> Status {
            $($(if result == R::$name as RawResult {
                return $status;
            })+)*
            if result == CONTAINED { Status::DeviceLost } else { Status::Other(result) }
        }
    };
}

meanings! {
    Status::OutOfMemory => CUDA_ERROR_OUT_OF_MEMORY;
    Status::InvalidValue => CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    Status::InvalidDevice => CUDA_ERROR_INVALID_DEVICE;
    Status::InvalidHandle => CUDA_ERROR_INVALID_HANDLE;
    Status::NotReady => CUDA_ERROR_NOT_READY;
    Status::AlreadyMapped => CUDA_ERROR_ALREADY_MAPPED | CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    Status::NotMapped => CUDA_ERROR_NOT_MAPPED;
    Status::CaptureUnsupported => CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED | CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    Status::CaptureInvalidated => CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    Status::CaptureMerge => CUDA_ERROR_STREAM_CAPTURE_MERGE;
    Status::CaptureUnmatched => CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    Status::CaptureUnjoined => CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    Status::CaptureIsolation => CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    Status::CaptureWrongThread => CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    Status::CapturedEvent => CUDA_ERROR_CAPTURED_EVENT;
    Status::IllegalState => CUDA_ERROR_ILLEGAL_STATE;
    Status::NotPermitted => CUDA_ERROR_NOT_PERMITTED;
    Status::NotSupported => CUDA_ERROR_NOT_SUPPORTED;
    Status::NotFound => CUDA_ERROR_NOT_FOUND;
    Status::InvalidContext => CUDA_ERROR_INVALID_CONTEXT | CUDA_ERROR_CONTEXT_IS_DESTROYED;
    Status::InvalidImage => CUDA_ERROR_INVALID_IMAGE | CUDA_ERROR_INVALID_PTX | CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUDA_ERROR_UNSUPPORTED_PTX_VERSION | CUDA_ERROR_INVALID_SOURCE;
    Status::GraphUpdateFailure => CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    Status::PeerAccessUnsupported => CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    Status::IllegalAddress => CUDA_ERROR_ILLEGAL_ADDRESS;
    Status::LaunchFailed => CUDA_ERROR_LAUNCH_FAILED;
    Status::DeviceLost => CUDA_ERROR_ECC_UNCORRECTABLE | CUDA_ERROR_NVLINK_UNCORRECTABLE
        | CUDA_ERROR_LAUNCH_TIMEOUT | CUDA_ERROR_ASSERT | CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUDA_ERROR_ILLEGAL_INSTRUCTION | CUDA_ERROR_MISALIGNED_ADDRESS | CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUDA_ERROR_INVALID_PC | CUDA_ERROR_EXTERNAL_DEVICE;
}

/// Whether the device answers with nothing else from then on.
pub(super) const fn is_sticky(status: Status) -> bool {
    matches!(status, Status::IllegalAddress | Status::LaunchFailed | Status::DeviceLost)
}
