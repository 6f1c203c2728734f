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

impl CachingAllocator {
    /// Takes the segments of a snapshot from the driver, in the given order, and cuts them into their blocks.
    /// Returns the owners of the allocated ones, by segment and address.
    ///
    /// Private pools that the segments name are made with one use each.
    ///
    /// The device must hold no segment yet, and its driver must give each segment the address that it had, as a
    /// simulated one does that was told to
    /// ([`script_malloc_addresses`](crate::driver::sim::SimDriver::script_malloc_addresses), and
    /// [`script_reserve_addresses`](crate::driver::sim::SimDriver::script_reserve_addresses) for the first range of
    /// each stream and pool that is [expandable](SegmentInfo::is_expandable)). The statistics are those of a
    /// program that has allocated just these blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when the blocks of a segment do not tile it, are not multiples of 512
    /// bytes, are smaller than what was asked for, wait for streams, or two free ones are neighbours; when
    /// all segments are more than 2^60 bytes, the device is in use, or the driver gave another address. What
    /// the driver reports. Nothing is left behind then.
    pub fn restore(&self, device: DeviceIndex, segments: &[SegmentInfo]) -> Result<Vec<DataPtr>> {
        self.supports("restore")?;
        let device = self.device(device)?;
        for segment in segments {
            check(device, segment)?;
        }
        check_sum(segments)?;
        let mut locked = device.lock();
        if locked.blocks.len() > 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "restore: the device holds segments already"));
        }
        let growable = locked.take_expandable(segments)?;
        if let Err(error) = take(device, segments) {
            locked.give_back_expandable(growable);
            return Err(error);
        }
        // By segment, so that the owners come in the order of the segments.
        let mut allocated = vec![Vec::new(); segments.len()];
        for (segment, place) in segments.iter().zip(0..).filter(|(segment, _)| !segment.is_expandable) {
            allocated[place] = locked.restore_segment(segment);
        }
        for taken in growable {
            locked.restore_expandable(taken, segments, &mut allocated);
        }
        let mut owners = Vec::new();
        for (id, address) in allocated.into_iter().flatten() {
            locked.tell_handed_out(id);
            owners.push(locked.own(device, id, address));
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

/// All segments from the driver that it gives whole, or none.
fn take(device: &Device, segments: &[SegmentInfo]) -> Result<()> {
    let mut taken = Vec::with_capacity(segments.len());
    for segment in segments.iter().filter(|segment| !segment.is_expandable) {
        let failure = match device.driver.malloc(device.index, segment.total_size) {
            Ok(ptr) => {
                taken.push(ptr);
                if ptr == segment.address {
                    continue;
                }
                misplaced(ptr, segment.address)
            }
            Err(error) => error.into(),
        };
        give_back(device, &taken);
        return Err(failure);
    }
    Ok(())
}

/// The error of a driver that has put a segment elsewhere.
pub(crate) fn misplaced(got: DevicePtr, wanted: DevicePtr) -> Error {
    let text = format!("restore: the driver gave {got} for the segment at {wanted}");
    Error::new(ErrorKind::InvalidArgument, text)
}

fn give_back(device: &Device, taken: &[DevicePtr]) {
    for ptr in taken {
        // SAFETY: nobody else has seen the address. Nor is there anybody to tell of an error.
        let _ = unsafe { device.driver.free(*ptr) };
    }
}

impl DeviceState {
    /// The pool of a segment. A private one that is not there yet is made.
    pub(crate) fn pool_for(&mut self, segment: &SegmentInfo) -> PoolId {
        let owner = match segment.pool {
            MempoolId::DEFAULT => 0,
            id => self.pools.find(id).unwrap_or_else(|| {
                let slot = self.pools.create(id, None);
                self.pools.owner_mut(slot).use_count = 1;
                slot
            }),
        };
        PoolId { owner, is_small: !segment.is_large }
    }

    /// Takes in a checked segment that the driver has given. Returns its allocated blocks.
    fn restore_segment(&mut self, segment: &SegmentInfo) -> Vec<(BlockId, u64)> {
        let pool = self.pool_for(segment);
        let registration = self.count_segment(pool, segment.total_size);
        let like = Block::new(segment.address.0, 0, segment.stream.raw, registration, pool);
        let mut allocated = Vec::new();
        let last = self.restore_row(segment, &like, None, &mut allocated);
        self.restore_free(last);
        allocated
    }

    /// Takes in the blocks of a row, otherwise like one, behind another. Gives the last, and adds those that are
    /// allocated.
    pub(crate) fn restore_row(
        &mut self,
        row: &SegmentInfo,
        like: &Block,
        mut prev: Option<BlockId>,
        allocated: &mut Vec<(BlockId, u64)>,
    ) -> Option<BlockId> {
        let mut address = row.address.0;
        for info in &row.blocks {
            let is_allocated = info.state == BlockState::ActiveAllocated;
            let (requested, size) = (info.requested_size, info.size);
            let block = Block { ptr: address, size, requested, allocated: is_allocated, ..like.clone() };
            let id = self.append(block, prev);
            if is_allocated {
                self.count_allocation(like.pool, size, requested);
                allocated.push((id, address));
            }
            prev = Some(id);
            address += size;
        }
        prev
    }

    /// Takes a block in behind another.
    pub(crate) fn append(&mut self, block: Block, prev: Option<BlockId>) -> BlockId {
        let id = self.blocks.insert(block);
        if let Some(prev) = prev {
            self.blocks.link(prev.index, id.index);
        }
        id
    }

    /// Puts the free blocks up to one into their sets, and counts them if their segment is split.
    pub(crate) fn restore_free(&mut self, last: Option<BlockId>) {
        let mut at = last;
        while let Some(id) = at {
            let block = &self.blocks[id];
            at = self.blocks.prev_of(block).map(|(prev, _)| prev);
            match (block.is_free(), block.mapped) {
                (true, true) => self.restore_free_block(id),
                (true, false) => self.insert_unmapped(id),
                (false, _) => {}
            }
        }
    }

    fn restore_free_block(&mut self, id: BlockId) {
        let block = &self.blocks[id];
        let (is_split, is_small, size) = (block.is_split(), block.pool.is_small, block.size as i64);
        if is_split && block.expandable.is_none() {
            self.usage.change_split(is_small, (1, size));
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
