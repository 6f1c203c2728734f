#![expect(unsafe_code, reason = "copies blocks to the host and back, and waits for each copy")]
//! What the blocks of a sleeping pool held, kept by the host.

use crate::alloc::device::Locked;
use crate::alloc::ids::BlockId;
use crate::driver::{CopyEnd, DevicePtr, DriverError, StreamHandle};

/// What becomes of what the blocks of a suspended pool hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuspendedContents {
    /// It is lost: after the resumption the blocks hold anything.
    Discarded,
    /// The host keeps a copy, in its own memory, and the resumption copies it back.
    Kept,
}

/// The contents of blocks.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    blocks: Vec<(BlockId, Vec<u8>)>,
}

impl Locked<'_> {
    /// Copies what the program holds of a pool to the host.
    pub(super) fn keep_contents(&self, slot: u32) -> Result<Kept, DriverError> {
        let mut held: Vec<_> = self
            .blocks
            .iter()
            .filter(|(_, block)| block.pool.owner == slot && block.allocated)
            .map(|(id, block)| (block.ptr, id))
            .collect();
        held.sort_unstable();
        let mut kept = Kept::default();
        for (ptr, id) in held {
            let block = &self.blocks[id];
            // What the program asked for is what it can have written.
            let mut bytes = vec![0; block.requested as usize];
            let ends = (CopyEnd::Host(bytes.as_mut_ptr()), CopyEnd::Device(DevicePtr(ptr)));
            let copied = self.copy(ends, block.requested, self.stream(block.stream));
            if let Err(error) = copied {
                // The copy may be under way.
                std::mem::forget(bytes);
                return Err(error);
            }
            kept.blocks.push((id, bytes));
        }
        Ok(kept)
    }

    /// Copies what was kept back, of blocks that the program still holds.
    pub(super) fn put_contents_back(&self, kept: &mut Kept) -> Result<(), DriverError> {
        for (id, bytes) in &mut kept.blocks {
            let Some(block) = self.blocks.get(*id).filter(|block| block.allocated) else { continue };
            let ends = (CopyEnd::Device(DevicePtr(block.ptr)), CopyEnd::Host(bytes.as_mut_ptr()));
            let copied = self.copy(ends, bytes.len() as u64, self.stream(block.stream));
            if let Err(error) = copied {
                // The copy may be under way: what it reads stays, and another is kept.
                let read = std::mem::replace(bytes, bytes.clone());
                std::mem::forget(read);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies, and waits for it.
    fn copy(
        &self,
        (dst, src): (CopyEnd, CopyEnd),
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let _relaxed = self.relaxed()?;
        // SAFETY: the block is held and mapped, and as long as the host's memory, which the caller leaves alone unless
        // this says that the copy is done; all work that used the block is complete.
        unsafe { self.driver().copy(dst, src, bytes, stream) }?;
        self.driver().stream_synchronize(stream)
    }
}
