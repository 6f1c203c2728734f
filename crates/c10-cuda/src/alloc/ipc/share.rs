//! Sharing a block: its allocation, or the pages that it lies in.

use c10_core::DataPtr;

use super::handle::{ShareableHandle, Shared};
use crate::alloc::{CachingAllocator, private_pools};
use crate::config::Placement;
use crate::error::{Error, ErrorKind, Result};

impl CachingAllocator {
    /// What another process needs to open the memory (`shareIpcHandle`). The block is to be kept until it has closed
    /// it; how one learns of that is the program's.
    ///
    /// Where the block's segment is of the driver's malloc that is all of the segment, and where it is expandable the
    /// pages that the block lies in: other blocks there can be reached too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for memory that is not this allocator's; [`ErrorKind::NotImplemented`] for
    /// [stitched](Placement::Stitched) memory; [`ErrorKind::InvalidArgument`] also for memory of a suspended pool; what the
    /// driver reports.
    pub fn share_ipc_handle(&self, ptr: &DataPtr) -> Result<ShareableHandle> {
        self.supports("shareIpcHandle")?;
        let (device, index) = self.own_block(ptr, "share_ipc_handle")?;
        let locked = device.lock();
        let id = locked.blocks.id_at(index).expect("a context is out, so its slot holds a block");
        if locked.config.placement == Placement::Stitched {
            let text = "share_ipc_handle: another process could not reach the pieces of stitched memory";
            return Err(Error::new(ErrorKind::NotImplemented, text));
        }
        let block = &locked.blocks[id];
        let owner = locked.pools.owner(block.pool.owner);
        if owner.asleep.is_some() {
            let why = "is suspended: what it holds can be shared after `resume_pool`";
            return Err(private_pools::refused("share_ipc_handle", owner.id, why));
        }
        let (at, size) = (block.ptr, block.size);
        let driver = &*device.driver;
        let (base, shared) = match block.expandable {
            Some(expandable) => {
                let segment = &locked.expandable[expandable];
                let (base, handles) = segment.export(driver, at, size)?;
                (base, Shared::Pages { page: segment.page(), handles })
            }
            None => {
                let (base, _) = locked.segment_of(id)?;
                (base.0, Shared::Allocation(driver.ipc_export(base)?))
            }
        };
        Ok(ShareableHandle { offset: at - base, handle: shared.write() })
    }
}
