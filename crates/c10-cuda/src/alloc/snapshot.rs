//! [`Snapshot`]: all segments and blocks as data, with what was recorded (`torch.cuda.memory_snapshot`).

use super::block::Block;
use super::context::Context;
use super::device::DeviceState;
use super::ids::BlockId;
use super::mempool_id::MempoolId;
use super::trace::{TraceAction, TraceEntry};
use crate::config::Config;
use crate::driver::{DevicePtr, StreamHandle};

/// The memory of all devices at one time each.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By device and address.
    pub segments: Vec<SegmentInfo>,
    /// What was recorded of each device, oldest first; by device.
    pub device_traces: Vec<Vec<TraceEntry>>,
    /// The allocator's settings.
    pub config: Config,
}

/// One allocation of the driver, or one row of mapped pages of an expandable segment. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its stream, and by that its device.
    pub stream: StreamHandle,
    /// The private pool that it is of; the [default](MempoolId::DEFAULT) for the device's own.
    pub pool: MempoolId,
    /// Its first address.
    pub address: DevicePtr,
    /// When it came from the driver, among all segments of its device.
    pub registration_counter: u64,
    /// Its size.
    pub total_size: u64,
    /// What the program asked for, of active blocks.
    pub requested_size: u64,
    /// What the program holds.
    pub allocated_size: u64,
    /// What the program holds or other streams may still use.
    pub active_size: u64,
    /// Whether it serves requests above 1 MiB.
    pub is_large: bool,
    /// Whether it is a part of an expandable segment.
    pub is_expandable: bool,
    /// In order of addresses, without gaps.
    pub blocks: Vec<BlockInfo>,
    /// Where the program was when it came from the driver, if that was gathered.
    pub context: Option<Context>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its size.
    pub size: u64,
    /// What the program asked for; 0 for a free block, where PyTorch has what is left of an earlier use.
    pub requested_size: u64,
    /// For how many searches of its pool it has been free; counted where old blocks are collected.
    pub gc_counter: u64,
    /// What it is doing.
    pub state: BlockState,
    /// Where the program was when it asked for it, if that was gathered; free blocks have none.
    pub context: Option<Context>,
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// The program holds it.
    ActiveAllocated,
    /// The program has given it back, and other streams may still use it.
    ActivePendingFree,
    /// It is free.
    Inactive,
}

impl BlockState {
    /// PyTorch's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ActiveAllocated => "active_allocated",
            Self::ActivePendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}

impl DeviceState {
    /// The device's segments by address; of one private pool, if one is named.
    pub(crate) fn segments(&self, pool: MempoolId) -> Vec<SegmentInfo> {
        let is_of = |block: &Block| pool == MempoolId::DEFAULT || self.pools.id_of(block.pool) == pool;
        let follows = |block: &Block| self.blocks.prev_of(block).is_some_and(|(_, prev)| prev.mapped);
        // What is in a window shows as the memory that is lent to it.
        let stands_alone = |block: &Block| block.is_in_window() || block.placed.is_some();
        let is_head = |block: &Block| block.mapped && !stands_alone(block) && !follows(block) && is_of(block);
        let heads = self.blocks.iter().filter(|(_, block)| is_head(block));
        let mut segments: Vec<_> = heads.map(|(id, head)| self.segment(id, head)).collect();
        if pool == MempoolId::DEFAULT {
            segments.extend(self.arena_segments());
        }
        segments.sort_by_key(|segment| segment.address);
        segments
    }

    /// Records that a snapshot was taken, of so many active bytes; later snapshots show it.
    pub(crate) fn record_snapshot(&mut self, pool: MempoolId, active: u64) {
        if self.trace.is_on() {
            self.record_of(TraceAction::Snapshot, pool, 0, active, 0);
        }
    }

    /// The parts of the arena, each as a segment.
    fn arena_segments(&self) -> Vec<SegmentInfo> {
        let Some(arena) = &self.arena else { return Vec::new() };
        let (Some((start, _)), Some((registration, parts))) = (arena.range(), arena.parts()) else {
            return Vec::new();
        };
        let mut placed: Vec<_> =
            self.blocks.iter().map(|(_, block)| block).filter(|block| block.placed.is_some()).collect();
        placed.sort_unstable_by_key(|block| block.ptr);
        let mut placed = placed.into_iter().peekable();
        let mut at = start;
        let part = |(stream, end): (u64, u64)| {
            let mut segment = SegmentInfo {
                stream: self.stream(stream),
                pool: MempoolId::DEFAULT,
                address: DevicePtr(at),
                registration_counter: registration,
                total_size: end - at,
                requested_size: 0,
                allocated_size: 0,
                active_size: 0,
                is_large: true,
                is_expandable: false,
                blocks: Vec::new(),
                context: self.trace.segment_context(start).cloned(),
            };
            while let Some(block) = placed.next_if(|block| block.ptr < end) {
                segment.blocks.extend(gap(at, block.ptr));
                segment.push(self.block(block));
                at = block.end();
            }
            segment.blocks.extend(gap(at, end));
            at = end;
            segment
        };
        parts.into_iter().map(part).filter(|segment| segment.total_size > 0).collect()
    }

    fn segment(&self, id: BlockId, head: &Block) -> SegmentInfo {
        let mut segment = SegmentInfo {
            stream: self.stream(head.stream),
            pool: self.pools.id_of(head.pool),
            address: DevicePtr(head.ptr),
            registration_counter: head.registration,
            total_size: 0,
            requested_size: 0,
            allocated_size: 0,
            active_size: 0,
            is_large: !head.pool.is_small,
            is_expandable: head.expandable.is_some(),
            blocks: Vec::new(),
            context: self.trace.segment_context(head.ptr).cloned(),
        };
        for (_, block) in self.blocks.row_from(id).take_while(|(_, block)| block.mapped) {
            let info = self.block(block);
            segment.total_size += info.size;
            segment.push(info);
        }
        segment
    }

    fn block(&self, block: &Block) -> BlockInfo {
        let user = block.window.and_then(|window| self.windows[window].block());
        let user = user.map_or(block, |user| &self.blocks[user]);
        let state = match (user.allocated, user.is_free()) {
            (true, _) => BlockState::ActiveAllocated,
            (false, false) => BlockState::ActivePendingFree,
            (false, true) => BlockState::Inactive,
        };
        let pool = &self.pools[block.pool];
        let gc_counter = pool.get_free_blocks_call_count - block.gc_count_base;
        let context = self.trace.block_context(block.ptr).cloned();
        BlockInfo { size: block.size, requested_size: block.requested, gc_counter, state, context }
    }
}

impl SegmentInfo {
    /// Adds a block, which lies in its range.
    fn push(&mut self, info: BlockInfo) {
        if info.state != BlockState::Inactive {
            self.active_size += info.size;
            self.requested_size += info.requested_size;
        }
        if info.state == BlockState::ActiveAllocated {
            self.allocated_size += info.size;
        }
        self.blocks.push(info);
    }
}

/// What is free between two addresses of an arena.
fn gap(from: u64, to: u64) -> Option<BlockInfo> {
    (from < to).then(|| BlockInfo::new(to - from, 0, BlockState::Inactive))
}
