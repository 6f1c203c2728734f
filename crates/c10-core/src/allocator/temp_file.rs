#![expect(unsafe_code, reason = "promises that mappings of unlinked files are memory of its own")]
//! [`TempFileAllocator`]: host memory that the system can write out to a disk.

use std::sync::Arc;

use super::mapped::MappedFile;
use super::{Allocator, ConfinedRoot, default_copy_data};
use crate::data_ptr::DataPtr;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::reporting::{OutOfMemoryEvent, report_out_of_memory};

/// Each allocation is a temporary file without a name, mapped: memory in the page cache, that goes to the disk
/// when it is short. For what is large and seldom touched; an allocation costs several system calls and at least
/// one page.
///
/// The memory can be taken back as a [`MappedFile`], and then grows without a copy. Other than memory of the
/// system, it stays one and the same after a `fork`: what the child writes, the parent reads.
#[derive(Clone, Debug)]
pub struct TempFileAllocator {
    root: Arc<ConfinedRoot>,
}

impl TempFileAllocator {
    /// Puts the files in the directory `root`.
    pub fn new(root: Arc<ConfinedRoot>) -> Self {
        Self { root }
    }
}

// SAFETY: a mapping of a file without a name has the bytes that were asked for, zeroed and page-aligned, and is
// nobody else's until its deleter unmaps it.
unsafe impl Allocator for TempFileAllocator {
    fn device(&self) -> Device {
        Device::CPU
    }

    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        if bytes == 0 {
            return Ok(DataPtr::null(Device::CPU));
        }
        MappedFile::temporary(&self.root, bytes)
            .map(|file| file.into_mapped().into_data_ptr())
            .inspect_err(|error| report_failure(bytes, error))
    }

    unsafe fn copy_data(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's duty is the same.
        unsafe { default_copy_data(dst, src, bytes) };
        Ok(())
    }
}

#[cold]
fn report_failure(bytes: usize, error: &Error) {
    if error.kind() == ErrorKind::OutOfMemory {
        let live = MappedFile::live_bytes();
        report_out_of_memory(|| OutOfMemoryEvent {
            requested: bytes as u64,
            total_allocated: live,
            total_reserved: live,
            device: Device::CPU,
        });
    }
}
