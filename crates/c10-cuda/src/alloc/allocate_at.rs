//! Allocation at an address: what is free there is cut so that a block begins there (`allocateWithAddress`).

use c10_core::DataPtr;

use super::allocate::{Refused, Request};
use super::device::Locked;
use super::ids::BlockId;
use super::size::{MIN_BLOCK_SIZE, REQUEST_CAP};
use super::{CachingAllocator, handed_out, oom};
use crate::driver::DevicePtr;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::AsStream;

impl CachingAllocator {
    /// `bytes` bytes that begin at `address`, for a stream. For 0 bytes null. The driver is not asked: what is
    /// there must be free, of the pool that such a request goes to, and allocated on the stream.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an address that is no multiple of 512, where not all that is needed is
    /// free, with caching off, and when it is no stream of the runtime. [`ErrorKind::OutOfMemory`] for 2^60 bytes and
    /// more. What the driver reports.
    pub fn allocate_at(&self, bytes: u64, address: DevicePtr, stream: impl AsStream) -> Result<DataPtr> {
        self.supports("allocateWithAddress")?;
        let stream = self.runtime().owning_handle(stream)?;
        let device = self.device(stream.device)?;
        if bytes == 0 {
            return Ok(DataPtr::null(c10_core::Device::cuda(stream.device)));
        }
        let invalid = |text: String| Error::new(ErrorKind::InvalidArgument, text);
        if !address.0.is_multiple_of(MIN_BLOCK_SIZE) {
            return Err(invalid(format!("allocate_at: {address} is no multiple of {MIN_BLOCK_SIZE}")));
        }
        if !self.caches() {
            return Err(invalid("allocate_at: caching is off".into()));
        }
        let mut locked = device.lock();
        let id = match locked.malloc_at(bytes, address.0, stream.raw) {
            Ok(Some(id)) => id,
            Ok(None) => {
                return Err(invalid(format!("Could not allocate CUDA storage at exact address {address}")));
            }
            Err(refused) => return Err(oom::refuse(locked, refused, &self.0.callbacks)),
        };
        let (address, reported) = handed_out(&locked, id);
        let ptr = locked.own(device, id, address);
        drop(locked);
        reported.report();
        Ok(ptr)
    }
}

impl Locked<'_> {
    fn malloc_at(
        &mut self,
        requested: u64,
        address: u64,
        stream: u64,
    ) -> std::result::Result<Option<BlockId>, Refused> {
        self.housekeep(stream)?;
        if requested >= REQUEST_CAP {
            return Err(Refused::TooLarge(requested));
        }
        let request = self.request(requested, stream)?;
        self.check_awake(&request)?;
        Ok(self.free_at(address, &request).map(|free| self.hand_out_at(free, address, &request)))
    }

    /// The free block that holds all that is asked for at an address.
    fn free_at(&self, address: u64, request: &Request) -> Option<BlockId> {
        let end = address.checked_add(request.size)?;
        let mut free = self.pools[request.pool].free.iter(&self.blocks);
        free.find(|id| {
            let block = &self.blocks[*id];
            block.stream == request.stream && block.ptr <= address && end <= block.end()
        })
    }

    /// Hands out the part of a free block from an address on. What comes before it is split off whatever the pool and
    /// the split limit say of splitting, as in PyTorch; they say whether what follows is.
    fn hand_out_at(&mut self, free: BlockId, address: u64, request: &Request) -> BlockId {
        self.remove_free(free);
        let before = address - self.blocks[free].ptr;
        if before == 0 {
            return self.hand_out(free, request);
        }
        let front = Request { requested: before, size: before, ..*request };
        let front = self.hand_out_cut(free, &front, true);
        // The cut has put the rest back.
        self.remove_free(free);
        let id = self.hand_out(free, request);
        // It was never anybody's: nobody is told.
        let _ = self.free(front);
        id
    }
}
