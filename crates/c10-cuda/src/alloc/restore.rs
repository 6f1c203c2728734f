#![expect(unsafe_code, reason = "frees segments that nobody has seen")]
//! Rebuilding the state of a snapshot: the same segments at the same addresses, cut into the same blocks.

use c10_core::{DataPtr, DeviceIndex};

use super::block::Block;
use super::device::{Device, DeviceState};
use super::ids::{BlockId, PoolId};
use super::mempool_id::MempoolId;
use super::size::{MIN_BLOCK_SIZE, REQUEST_CAP};
use super::{BlockInfo, BlockState, CachingAllocator, SegmentInfo};
use crate::driver::DevicePtr;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;

impl CachingAllocator {
    /// Takes the segments of a snapshot from the driver, in the given order, and cuts them into their blocks.
    /// Returns the owners of the allocated ones, by segment and address.
    ///
    /// Private pools that the segments name are made with one use each.
    ///
    /// The device must hold no segment yet, and its driver must give each segment the address that it had, as a
    /// simulated one does that was told to
    /// ([`script_malloc_addresses`](crate::driver::sim::SimDriver::script_malloc_addresses)). The statistics are
    /// those of a program that has allocated just these blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the blocks of a segment do not tile it, are not multiples of 512
    /// bytes, are smaller than what was asked for, wait for streams, or two free ones are neighbours; when
    /// all segments are more than 2^60 bytes, the device is in use, or the driver gave another address. What
    /// the driver reports. Nothing is left behind then.
    pub fn restore(&self, device: DeviceIndex, segments: &[SegmentInfo]) -> Result<Vec<DataPtr>> {
        let device = self.device(device)?;
        for segment in segments {
            check(device, segment)?;
        }
        check_sum(segments)?;
        let taken = take(device, segments)?;
        let mut locked = device.lock();
        if locked.blocks.len() > 0 {
            drop(locked);
            give_back(device, &taken);
            return Err(Error::new(ErrorKind::InvalidArgument, "restore: the device holds segments already"));
        }
        let mut owners = Vec::new();
        for segment in segments {
            for (id, address) in locked.restore_segment(segment) {
                locked.tell_handed_out(id);
                owners.push(locked.own(device, id, address));
            }
        }
        Ok(owners)
    }
}

fn check(device: &Device, segment: &SegmentInfo) -> Result<()> {
    let fail = |why: &str| {
        let place = segment.address;
        Err(Error::new(ErrorKind::InvalidArgument, format!("restore: the segment at {place} {why}")))
    };
    if segment.stream.device != device.index {
        return fail("is of another device");
    }
    let mut end = segment.address.0;
    let mut last = None;
    for block in &segment.blocks {
        if block.size == 0 || !block.size.is_multiple_of(MIN_BLOCK_SIZE) {
            return fail("has a block that is no multiple of 512 bytes");
        }
        if block.state == BlockState::ActivePendingFree {
            return fail("has a block that waits for streams");
        }
        if block.state == BlockState::ActiveAllocated && block.requested_size > block.size {
            return fail("has a block that is smaller than what was asked for");
        }
        if last == Some(BlockState::Inactive) && block.state == BlockState::Inactive {
            return fail("has two free blocks side by side");
        }
        last = Some(block.state);
        match end.checked_add(block.size) {
            Some(next) => end = next,
            None => return fail("ends beyond the address space"),
        }
    }
    if segment.blocks.is_empty() || end - segment.address.0 != segment.total_size {
        return fail("is not the sum of its blocks");
    }
    Ok(())
}

/// Refuses segments that no memory could hold, whatever a driver says.
fn check_sum(segments: &[SegmentInfo]) -> Result<()> {
    let add = |sum: u64, segment: &SegmentInfo| sum.checked_add(segment.total_size);
    match segments.iter().try_fold(0, add).filter(|sum| *sum <= REQUEST_CAP) {
        Some(_) => Ok(()),
        None => {
            Err(Error::new(ErrorKind::InvalidArgument, "restore: the segments are more than 1 EB together"))
        }
    }
}

/// All segments from the driver, or none.
fn take(device: &Arc<Device>, segments: &[SegmentInfo]) -> Result<Vec<DevicePtr>> {
    let mut taken = Vec::with_capacity(segments.len());
    for segment in segments {
        let failure = match device.driver.malloc(device.index, segment.total_size) {
            Ok(ptr) => {
                taken.push(ptr);
                if ptr == segment.address {
                    continue;
                }
                let wanted = segment.address;
                let text = format!("restore: the driver gave {ptr} for the segment at {wanted}");
                Error::new(ErrorKind::InvalidArgument, text)
            }
            Err(error) => error.into(),
        };
        give_back(device, &taken);
        return Err(failure);
    }
    Ok(taken)
}

fn give_back(device: &Device, taken: &[DevicePtr]) {
    for ptr in taken {
        // SAFETY: nobody else has seen the address. Nor is there anybody to tell of an error.
        let _ = unsafe { device.driver.free(*ptr) };
    }
}

impl DeviceState {
    /// Takes in a checked segment that the driver has given. Returns its allocated blocks.
    fn restore_segment(&mut self, segment: &SegmentInfo) -> Vec<(BlockId, u64)> {
        let owner = match segment.pool {
            MempoolId::DEFAULT => 0,
            id => self.pools.find(id).unwrap_or_else(|| {
                let slot = self.pools.create(id, None);
                self.pools.owner_mut(slot).use_count = 1;
                slot
            }),
        };
        let pool = PoolId { owner, is_small: !segment.is_large };
        let registration = self.count_segment(pool, segment.total_size);
        let mut address = segment.address.0;
        let mut prev = None;
        let mut allocated = Vec::new();
        for info in &segment.blocks {
            let id = self.blocks.insert(Block {
                requested: info.requested_size,
                prev,
                allocated: info.state == BlockState::ActiveAllocated,
                ..Block::new(address, info.size, segment.stream.raw, registration, pool)
            });
            if let Some(prev) = prev {
                self.blocks[prev].next = Some(id);
            }
            if info.state == BlockState::ActiveAllocated {
                self.count_allocation(pool, info.size, info.requested_size);
                allocated.push((id, address));
            }
            prev = Some(id);
            address += info.size;
        }
        let mut at = prev;
        while let Some(id) = at {
            at = self.blocks[id].prev;
            self.restore_free(id);
        }
        allocated
    }

    /// Puts a block that is free into its set, and counts it if its segment is split.
    fn restore_free(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        if !block.is_free() {
            return;
        }
        let (is_split, is_small, size) = (block.is_split(), block.pool.is_small, block.size as i64);
        if is_split {
            self.stats.inactive_split.increase(is_small, 1);
            self.stats.inactive_split_bytes.increase(is_small, size);
        }
        self.insert_free(id);
    }
}

impl BlockInfo {
    /// A block to be restored, that the program holds or that is free.
    pub fn new(size: u64, requested_size: u64, state: BlockState) -> Self {
        Self { size, requested_size, gc_counter: 0, state, context: None }
    }
}
