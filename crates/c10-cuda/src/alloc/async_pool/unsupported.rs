//! The calls that this backend does not have, with PyTorch's words.

use crate::alloc::CachingAllocator;
use crate::config::Backend;
use crate::error::{Error, ErrorKind, Result};

/// What the driver's pools have no answer to, by their names in PyTorch.
const UNSUPPORTED: &[&str] = &[
    "recordHistory",
    "createOrIncrefPool",
    "setUseOnOOM",
    "setNoSplit",
    "getPoolUseCount",
    "checkPoolLiveAllocations",
    "getCheckpointState",
    "setCheckpointPoolState",
    "allocateWithAddress",
    "releaseSegment",
    "suspendPool",
    "attachAllocatorTraceTracker",
    "annotateMemory",
    "setUserMetadata",
    "streamWaited",
    "shareIpcHandle",
    "setPlan",
    "beginRecording",
    "restore",
];

impl CachingAllocator {
    /// Whether the allocator's backend has a call, by PyTorch's name for it (`snapshot`, `recordHistory`,
    /// `createOrIncrefPool`, …). Calls that return no error themselves have nothing to show where it has not.
    ///
    /// # Errors
    /// [`ErrorKind::NotImplemented`] with PyTorch's words, when it has not.
    pub fn supports(&self, call: &str) -> Result<()> {
        if self.config().backend == Backend::Native {
            return Ok(());
        }
        let text = match call {
            "snapshot" => "Calling snapshot with backend:cudaMallocAsync is not meaningful. (For backend:native, snapshot \
                returns a detailed summary of all blocks tracked by the allocator, but the cudaMallocAsync backend \
                does not track individual blocks.)"
                .to_owned(),
            call if UNSUPPORTED.contains(&call) => format!(
                "cudaMallocAsync does not yet support {call}. If you need it, please file an issue describing your \
                 use case."
            ),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::NotImplemented, text))
    }
}
