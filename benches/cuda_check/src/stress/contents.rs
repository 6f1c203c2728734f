#![expect(unsafe_code, reason = "fills and copies blocks whose sizes it knows")]
//! [`Block`]: memory with contents that follow from a tag: one byte all over, and the tag at both ends.

use c10_core::{DataPtr, Stream};
use c10_cuda::driver::{CopyEnd, DevicePtr};

use super::worker::{Failure, Shared};

/// Memory of the device, and what is in it once its stream has come so far.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) memory: DataPtr,
    pub(super) bytes: u64,
    pub(super) tag: u64,
    /// On which it was allocated.
    pub(super) stream: Stream,
}

impl Block {
    fn ptr(&self) -> DevicePtr {
        DevicePtr(self.memory.as_ptr().addr() as u64)
    }

    /// The tag, as much of it as there is room for.
    fn mark(&self) -> &[u8] {
        // SAFETY: a number is eight bytes.
        unsafe { std::slice::from_raw_parts((&raw const self.tag).cast::<u8>(), self.mark_bytes()) }
    }

    fn mark_bytes(&self) -> usize {
        (self.bytes / 2).min(8) as usize
    }

    /// Writes the contents, behind what its stream holds.
    pub(super) fn write(&self, shared: &Shared) -> Result<(), Failure> {
        let runtime = shared.cuda.runtime();
        let (driver, on) = (runtime.driver(), runtime.handle(self.stream)?);
        // SAFETY: the block has as many bytes, and is freed in the order of its stream.
        unsafe { driver.fill(self.ptr(), self.tag as u8, self.bytes, on) }?;
        let mark = self.mark();
        if mark.is_empty() {
            return Ok(());
        }
        let staged = shared.pinned.allocate(mark.len() as u64)?;
        // SAFETY: nobody else has the pinned block, which has as many bytes.
        unsafe { staged.as_ptr().copy_from_nonoverlapping(mark.as_ptr(), mark.len()) };
        for at in [0, self.bytes - mark.len() as u64] {
            let (to, from) = (CopyEnd::Device(self.ptr().offset(at)), CopyEnd::Host(staged.as_ptr()));
            // SAFETY: the place is in the block; the pinned block is kept for the stream.
            unsafe { driver.copy(to, from, mark.len() as u64, on) }?;
        }
        shared.pinned.record_event(&staged, self.stream)?;
        Ok(())
    }

    /// Copies another block's contents here, behind what this block's stream holds.
    pub(super) fn copy_from(&self, from: &Self, shared: &Shared) -> Result<(), Failure> {
        let runtime = shared.cuda.runtime();
        let (to, from) = (CopyEnd::Device(self.ptr()), CopyEnd::Device(from.ptr()));
        // SAFETY: both have as many bytes; the allocator has been told of the other's use here, or is next.
        Ok(unsafe { runtime.driver().copy(to, from, self.bytes, runtime.handle(self.stream)?) }?)
    }

    /// Waits for its stream, and looks at every byte.
    pub(super) fn check(&self, shared: &Shared) -> Result<(), Failure> {
        let runtime = shared.cuda.runtime();
        let on = runtime.handle(self.stream)?;
        let staged = shared.pinned.allocate(self.bytes)?;
        let (to, from) = (CopyEnd::Host(staged.as_ptr()), CopyEnd::Device(self.ptr()));
        // SAFETY: both have as many bytes, and are here until the stream has been waited for.
        unsafe { runtime.driver().copy(to, from, self.bytes, on) }?;
        runtime.driver().stream_synchronize(on)?;
        // SAFETY: the copy has written so many bytes, and nobody else has the pinned block.
        let found = unsafe { std::slice::from_raw_parts(staged.as_ptr(), self.bytes as usize) };
        let mark = self.mark();
        let (head, tail) = (mark.len(), found.len() - mark.len());
        let expected = |at: usize| match at {
            _ if at < head => mark[at],
            _ if at >= tail => mark[at - tail],
            _ => self.tag as u8,
        };
        match found.iter().enumerate().find(|(at, byte)| **byte != expected(*at)) {
            None => Ok(()),
            Some((at, byte)) => Err(Failure::Contents(format!(
                "byte {at} of {} at {} is {byte:#04x}, and not {:#04x} of tag {:#x}",
                self.bytes,
                self.ptr(),
                expected(at),
                self.tag,
            ))),
        }
    }
}
