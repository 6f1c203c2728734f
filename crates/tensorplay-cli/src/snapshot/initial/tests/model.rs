//! A small caching allocator that follows PyTorch's rules and writes its history: what it held at any time is
//! the truth that the reconstruction must find.

use std::collections::BTreeMap;

use crate::snapshot::segment::{Block, BlockState, Segment};
use crate::snapshot::{Action, Event};

const MIB: u64 = 1 << 20;
/// Streams 0 and 1 use plain segments, stream 2 expandable ones.
const EXPANDABLE: u64 = 2;

/// The allocator. Blocks tile the mapped memory.
pub(super) struct Model {
    pub(super) events: Vec<Event>,
    blocks: BTreeMap<u64, ModelBlock>,
    next_segment: u64,
    random: u64,
}

#[derive(Clone, Copy)]
struct ModelBlock {
    size: u64,
    requested_size: u64,
    state: BlockState,
    stream: u64,
    is_small: bool,
    /// The first byte of its segment, or of the address range of its expandable segment.
    home: u64,
}

impl Model {
    pub(super) fn new(seed: u64) -> Self {
        Self { events: Vec::new(), blocks: BTreeMap::new(), next_segment: 1 << 40, random: seed }
    }

    /// Runs that many random calls.
    pub(super) fn run(&mut self, calls: usize) {
        for _ in 0..calls {
            match self.below(20) {
                0..=9 => self.alloc(),
                10..=14 => self.free(true),
                15..=16 => self.free(false),
                17..=18 => self.complete(),
                _ => self.empty_cache(),
            }
        }
    }

    /// The segments as a snapshot shows them.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut home = None;
        for (&address, block) in &self.blocks {
            let shown = Block {
                address,
                size: block.size,
                requested_size: block.requested_size,
                state: block.state,
                stack: None,
            };
            match segments.last_mut() {
                Some(last) if last.end() == address && home == Some(block.home) => {
                    last.total_size += block.size;
                    last.blocks.push(shown);
                }
                _ => segments.push(Segment {
                    device: 0,
                    address,
                    total_size: block.size,
                    stream: block.stream,
                    is_small: block.is_small,
                    pool_id: (0, 0),
                    is_expandable: block.stream == EXPANDABLE,
                    blocks: vec![shown],
                }),
            }
            home = Some(block.home);
        }
        segments
    }

    fn alloc(&mut self) {
        let stream = self.below(3);
        let requested_size = match self.below(4) {
            0 => 1 + self.below(2000),
            1 => 1 + self.below(MIB),
            2 => MIB + 1 + self.below(9 * MIB),
            _ => MIB + 1 + self.below(30 * MIB),
        };
        let size = requested_size.next_multiple_of(512);
        let is_small = size <= MIB;
        let fits = |block: &ModelBlock| {
            block.state == BlockState::Inactive
                && block.stream == stream
                && block.is_small == is_small
                && block.size >= size
        };
        let best =
            self.blocks.iter().filter(|(_, block)| fits(block)).min_by_key(|(at, block)| (block.size, **at));
        let address = match best.map(|(&address, _)| address) {
            Some(address) => address,
            None if stream == EXPANDABLE => match self.map(size, is_small) {
                Some(address) => address,
                None => return,
            },
            None => self.segment_alloc(size, stream, is_small),
        };
        let block = self.blocks[&address];
        let rest = block.size - size;
        let split = if is_small || stream == EXPANDABLE { rest >= 512 } else { rest > MIB };
        let taken = if split { size } else { block.size };
        if split {
            self.blocks.insert(address + size, ModelBlock { size: rest, ..block });
        }
        let state = BlockState::Allocated;
        self.blocks.insert(address, ModelBlock { size: taken, requested_size, state, ..block });
        self.event(Action::Alloc, address, requested_size, stream);
    }

    fn segment_alloc(&mut self, size: u64, stream: u64, is_small: bool) -> u64 {
        let bytes = match size {
            _ if is_small => 2 * MIB,
            ..0xa0_0000 => 20 * MIB,
            _ => size.next_multiple_of(2 * MIB),
        };
        let address = self.next_segment;
        // Neighbouring segments, now and then.
        self.next_segment += bytes + self.below(2) * 2 * MIB;
        self.event(Action::SegmentAlloc, address, bytes, stream);
        self.insert_free(address, bytes, stream, is_small, address);
        address
    }

    /// Maps as much behind the last block of the expandable segment as `size` needs.
    fn map(&mut self, size: u64, is_small: bool) -> Option<u64> {
        let home = if is_small { 1 << 44 } else { 1 << 45 };
        let chunk = if is_small { 2 * MIB } else { 20 * MIB };
        let last = self.blocks.range(home..home + (1 << 44)).next_back();
        let last = last.filter(|(_, block)| block.home == home).map(|(&at, &block)| (at, block));
        let end = last.map_or(home, |(at, block)| at + block.size);
        let free = last.filter(|(_, block)| block.state == BlockState::Inactive);
        let bytes = (size - free.map_or(0, |(_, block)| block.size)).next_multiple_of(chunk);
        // The small pool stays below the step of the large one, by which an unmapped range tells its pool.
        if is_small && end + bytes - home >= 20 * MIB {
            return None;
        }
        self.event(Action::SegmentMap, end, bytes, EXPANDABLE);
        self.insert_free(end, bytes, EXPANDABLE, is_small, home);
        Some(self.merge(end))
    }

    fn insert_free(&mut self, address: u64, size: u64, stream: u64, is_small: bool, home: u64) {
        let state = BlockState::Inactive;
        self.blocks.insert(address, ModelBlock { size, requested_size: 0, state, stream, is_small, home });
    }

    fn free(&mut self, at_once: bool) {
        let Some((address, block)) = self.pick(BlockState::Allocated) else { return };
        self.event(Action::FreeRequested, address, block.requested_size, block.stream);
        self.blocks.insert(address, ModelBlock { state: BlockState::PendingFree, ..block });
        if at_once {
            self.finish(address);
        }
    }

    fn complete(&mut self) {
        if let Some((address, _)) = self.pick(BlockState::PendingFree) {
            self.finish(address);
        }
    }

    fn finish(&mut self, address: u64) {
        let block = self.blocks[&address];
        self.event(Action::FreeCompleted, address, block.requested_size, block.stream);
        self.blocks.insert(address, ModelBlock { state: BlockState::Inactive, requested_size: 0, ..block });
        self.merge(address);
    }

    /// Joins a free block with its free neighbours.
    fn merge(&mut self, address: u64) -> u64 {
        let mut block = self.blocks[&address];
        let joins = |other: &ModelBlock| other.state == BlockState::Inactive && other.home == block.home;
        let behind = self.blocks.get(&(address + block.size)).copied().filter(joins);
        let before = self.blocks.range(..address).next_back().map(|(&at, &other)| (at, other));
        let before = before.filter(|(at, other)| at + other.size == address && joins(other));
        if let Some(behind) = behind {
            self.blocks.remove(&(address + block.size));
            block.size += behind.size;
        }
        let start = before.map_or(address, |(at, _)| at);
        if let Some((_, before)) = before {
            self.blocks.remove(&address);
            block.size += before.size;
        }
        self.blocks.insert(start, block);
        start
    }

    fn empty_cache(&mut self) {
        for segment in self.segments() {
            for block in segment.blocks.iter().filter(|block| block.state == BlockState::Inactive) {
                if segment.is_expandable {
                    self.unmap(block.address);
                } else if segment.blocks.len() == 1 {
                    self.event(Action::SegmentFree, segment.address, segment.total_size, segment.stream);
                    self.blocks.remove(&segment.address);
                    // The driver may give the same addresses again.
                    if self.below(3) == 0 {
                        self.next_segment = self.next_segment.max(segment.end());
                        if self.blocks.range(segment.address..).next().is_none_or(|(&at, _)| at >= 1 << 44) {
                            self.next_segment = segment.address;
                        }
                    }
                }
            }
        }
    }

    /// Unmaps the whole chunks inside a free block.
    fn unmap(&mut self, address: u64) {
        let block = self.blocks[&address];
        let chunk = if block.is_small { 2 * MIB } else { 20 * MIB };
        let from = block.home + (address - block.home).next_multiple_of(chunk);
        let to = block.home + (address + block.size - block.home) / chunk * chunk;
        if from >= to {
            return;
        }
        self.event(Action::SegmentUnmap, from, to - from, block.stream);
        self.blocks.remove(&address);
        if address < from {
            self.blocks.insert(address, ModelBlock { size: from - address, ..block });
        }
        if to < address + block.size {
            self.blocks.insert(to, ModelBlock { size: address + block.size - to, ..block });
        }
    }

    fn pick(&mut self, state: BlockState) -> Option<(u64, ModelBlock)> {
        let count = self.blocks.values().filter(|block| block.state == state).count() as u64;
        let index = self.below(count.max(1)) as usize;
        let mut of_state = self.blocks.iter().filter(|(_, block)| block.state == state);
        of_state.nth(index).map(|(&address, &block)| (address, block))
    }

    fn event(&mut self, action: Action, address: u64, size: u64, stream: u64) {
        self.events.push(Event { action, address, size, stream, time_us: None, pool_id: None, stack: None });
    }

    /// A number below `bound` (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
