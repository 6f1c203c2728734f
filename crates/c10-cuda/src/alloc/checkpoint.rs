//! Checkpoints of a private pool: which blocks its segments are cut into, and which of them are held, to be brought
//! back later (`getCheckpointState`, `setCheckpointPoolState`). Graphs that share a pool are recorded and replayed
//! in trees; each branch begins with the pool as it was at the fork.
//!
//! A restore is checked whole before it changes anything.

use std::collections::BTreeSet;

use c10_core::{DataPtr, DeviceIndex};

use super::allocate::Request;
use super::block::Block;
use super::device::{Device, DeviceState, Locked};
use super::ids::{BlockId, PoolId};
use super::mempool_id::MempoolId;
use super::private_pools::refused;
use super::report::Reported;
use super::{CachingAllocator, owner};
use crate::driver::DevicePtr;
use crate::error::Result;
use crate::sync::Arc;

/// The state of a private pool at one time.
#[derive(Clone, Debug)]
pub struct PoolCheckpoint {
    device: DeviceIndex,
    pool: MempoolId,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
struct Segment {
    stream: u64,
    is_small: bool,
    base: u64,
    is_expandable: bool,
    /// Without what had no memory behind it at the end of an expandable one.
    blocks: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    size: u64,
    allocated: bool,
    mapped: bool,
}

/// What restoring a pool's state did.
#[derive(Debug, Default)]
pub struct RestoredPool {
    /// The blocks that were held, and are not any more, by address.
    pub freed: Vec<DevicePtr>,
    /// The owners of the blocks that are held now, by address.
    pub created: Vec<DataPtr>,
}

impl PoolCheckpoint {
    /// The pool.
    pub fn pool(&self) -> MempoolId {
        self.pool
    }

    /// The addresses of the blocks that were held, in order.
    pub fn live(&self) -> Vec<DevicePtr> {
        let mut live: Vec<_> = self.segments.iter().flat_map(Segment::live).map(DevicePtr).collect();
        live.sort_unstable();
        live
    }
}

impl Segment {
    /// Its blocks by address.
    fn placed(&self) -> impl Iterator<Item = (u64, Piece)> {
        self.blocks.iter().scan(self.base, |at, piece| {
            let here = *at;
            *at += piece.size;
            Some((here, *piece))
        })
    }

    fn live(&self) -> impl Iterator<Item = u64> {
        self.placed().filter(|(_, piece)| piece.allocated).map(|(at, _)| at)
    }

    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|piece| piece.size).sum()
    }
}

impl CachingAllocator {
    /// The state of a pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such device or pool, or a block of it waits for streams or
    /// for a capture. What the driver reports of captures.
    pub fn checkpoint_pool(&self, device: DeviceIndex, id: MempoolId) -> Result<PoolCheckpoint> {
        self.supports("getCheckpointState")?;
        let mut locked = self.device(device)?.lock();
        let slot = locked.private_pool("checkpoint_pool", id)?;
        locked.resume_deferred(None)?;
        if locked.blocks.iter().any(|(_, block)| block.pool.owner == slot && waits(block)) {
            return Err(refused("checkpoint_pool", id, "has a block that waits for streams"));
        }
        let heads = locked.heads_of(slot);
        let segments = heads.into_iter().map(|head| locked.segment_state(head)).collect();
        Ok(PoolCheckpoint { device, pool: id, segments })
    }

    /// Brings a pool into a state that it had: what is held of it is freed, and the blocks that were held are held
    /// again, by new owners. Segments that have come since, and what expandable ones have
    /// grown, stay and are free.
    ///
    /// `owners` are to contain the owners of all blocks of the pool that are held now; these are taken out and
    /// ended. What a restored block was asked for is its size.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) when there is no such device or pool, or its last use is gone; when a segment
    /// of the state is not there any more; when other streams use a block in a segment of the state, which would
    /// wait for them; when a block is held by a raw call, by an adaptor, or by an owner that is not
    /// among `owners`. Nothing is changed then.
    pub fn restore_pool(
        &self,
        device: DeviceIndex,
        checkpoint: &PoolCheckpoint,
        owners: &mut Vec<DataPtr>,
    ) -> Result<RestoredPool> {
        self.supports("setCheckpointPoolState")?;
        let id = checkpoint.pool;
        let device = self.device(device)?;
        let mut locked = device.lock();
        let slot = locked.private_pool("restore_pool", id)?;
        if checkpoint.device != device.index {
            return Err(refused("restore_pool", id, "is of another device in the state"));
        }
        if locked.pools.owner(slot).asleep.is_some() {
            return Err(refused("restore_pool", id, "is suspended"));
        }
        locked.check_restorable(slot, checkpoint)?;
        let ended = take_owners(&locked, slot, owners).map_err(|why| refused("restore_pool", id, why))?;

        let mut reports = Vec::new();
        let freed = locked.free_held(slot, &mut reports);
        let held: Vec<_> = checkpoint.segments.iter().flat_map(|s| locked.restore_state(slot, s)).collect();
        let mut created: Vec<_> = held.into_iter().map(|id| locked.adopt(device, id, &mut reports)).collect();
        created.sort_by_key(|ptr| ptr.as_ptr().addr());
        // The new owners are counted before the old ones go, so that the device keeps itself.
        let last = ended.into_iter().fold(None, |last, mut ptr| {
            // Its block was freed above.
            let _ = ptr.release_context();
            locked.disown().or(last)
        });
        drop(locked);
        reports.into_iter().for_each(Reported::report);
        drop(last);
        Ok(RestoredPool { freed, created })
    }
}

/// Takes the owners of all held blocks of a pool out of a list; none where one is missing.
fn take_owners(
    locked: &Locked<'_>,
    slot: u32,
    owners: &mut Vec<DataPtr>,
) -> std::result::Result<Vec<DataPtr>, &'static str> {
    let held = locked.blocks.iter().filter(|(_, block)| block.allocated && block.pool.owner == slot);
    let mut held: BTreeSet<BlockId> = held.map(|(id, _)| id).collect();
    let block_of = |ptr: &DataPtr| {
        let (device, index) = owner::block_of(ptr).filter(|_| ptr.inner().is_none())?;
        let is_ours = std::ptr::eq(device, locked.device);
        is_ours.then(|| locked.blocks.id_at(index)).flatten()
    };
    let mut found = Vec::new();
    for (at, ptr) in owners.iter().enumerate() {
        if block_of(ptr).is_some_and(|id| held.remove(&id)) {
            found.push(at);
        }
    }
    if !held.is_empty() {
        return Err("has a block that none of the given owners holds");
    }
    Ok(found.into_iter().rev().map(|at| owners.remove(at)).collect())
}

impl Locked<'_> {
    /// Frees all blocks of a pool that are held, segment by segment. Their addresses.
    fn free_held(&mut self, slot: u32, reports: &mut Vec<Reported>) -> Vec<DevicePtr> {
        let mut freed = Vec::new();
        for head in self.heads_of(slot) {
            let held = self.blocks.row_from(head).filter(|(_, block)| block.allocated);
            let held: Vec<_> = held.map(|(id, _)| id).collect();
            // What is free may become one with its neighbours; what is held stays as it is until its turn.
            for id in held {
                freed.push(DevicePtr(self.blocks[id].ptr));
                reports.push(self.free(id));
            }
        }
        freed.sort_unstable();
        freed
    }

    /// Cuts a segment that is free into the blocks that it had. Those that were held.
    fn restore_state(&mut self, owner: u32, segment: &Segment) -> Vec<BlockId> {
        let pool = PoolId { owner, is_small: segment.is_small };
        let head = self.heads_of(owner).into_iter().find(|id| self.blocks[*id].ptr == segment.base);
        let mut at = head;
        let mut blocks = Vec::new();
        for piece in &segment.blocks {
            let free = at.expect("the segment was checked: there is as much of it as of the state");
            self.remove_free(free);
            let size = piece.size;
            let request = Request { requested: size, size, segment: 0, stream: segment.stream, pool };
            let cut = self.blocks[free].size > size;
            let id = self.hand_out_cut(free, &request, cut);
            at = self.blocks.next_of(&self.blocks[id]).map(|(next, _)| next);
            blocks.push(id);
        }
        let mut held = Vec::new();
        for (id, piece) in blocks.into_iter().zip(&segment.blocks) {
            if piece.allocated {
                held.push(id);
            } else {
                // It was never anybody's: nobody is told.
                let _ = self.free(id);
            }
        }
        held
    }

    fn adopt(&mut self, device: &Arc<Device>, id: BlockId, reports: &mut Vec<Reported>) -> DataPtr {
        let (ptr, size) = (self.blocks[id].ptr, self.blocks[id].size);
        self.tell_handed_out(id);
        reports.push(Reported::new(self, ptr, size as i64));
        self.own(device, id, ptr)
    }
}

impl DeviceState {
    /// The first blocks of a pool's segments, by address.
    fn heads_of(&self, slot: u32) -> Vec<BlockId> {
        let of_pool = |block: &Block| block.pool.owner == slot && block.is_head();
        let mut heads: Vec<_> = self.blocks.iter().filter(|(_, block)| of_pool(block)).collect();
        heads.sort_by_key(|(_, block)| block.ptr);
        heads.into_iter().map(|(id, _)| id).collect()
    }

    fn segment_state(&self, head: BlockId) -> Segment {
        let first = &self.blocks[head];
        let (base, stream, is_small) = (first.ptr, first.stream, first.pool.is_small);
        let piece = |b: &Block| Piece { size: b.size, allocated: b.allocated, mapped: b.mapped };
        let mut blocks: Vec<_> = self.chain(head).map(piece).collect();
        blocks.truncate(blocks.iter().rposition(|piece| piece.mapped).map_or(0, |last| last + 1));
        Segment { stream, is_small, base, is_expandable: first.expandable.is_some(), blocks }
    }

    /// The blocks of a segment from one on.
    fn chain(&self, from: BlockId) -> impl Iterator<Item = &Block> {
        self.blocks.row_from(from).map(|(_, block)| block)
    }

    /// Refuses a state that the pool cannot be brought into.
    fn check_restorable(&self, slot: u32, checkpoint: &PoolCheckpoint) -> Result<()> {
        let id = checkpoint.pool;
        let fail = |why: &str| Err(refused("restore_pool", id, why));
        if self.pools.owner(slot).use_count == 0 {
            return fail("has lost its last use");
        }
        let heads = self.heads_of(slot);
        for segment in &checkpoint.segments {
            let Some(head) = heads.iter().copied().find(|head| self.blocks[*head].ptr == segment.base) else {
                return fail("has lost a segment of the state");
            };
            let first = &self.blocks[head];
            let is_expandable = first.expandable.is_some();
            let bytes: u64 = self.chain(head).take_while(|block| block.mapped).map(|block| block.size).sum();
            // An expandable one may have grown since.
            let has_room = bytes == segment.bytes() || is_expandable && bytes > segment.bytes();
            let is_it = first.stream == segment.stream
                && first.pool.is_small == segment.is_small
                && is_expandable == segment.is_expandable
                && segment.blocks.iter().all(|piece| piece.mapped)
                && has_room;
            if !is_it {
                return fail("has another segment in the place of one of the state");
            }
            if self.chain(head).any(|block| waits(block) || !block.stream_uses.is_empty()) {
                return fail("has a block in the state that other streams use");
            }
        }
        Ok(())
    }
}

/// Whether a freed block waits for something.
fn waits(block: &Block) -> bool {
    !block.allocated && !block.is_free()
}
