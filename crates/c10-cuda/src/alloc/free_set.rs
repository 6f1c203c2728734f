//! [`FreeSet`]: the free blocks of a pool, in PyTorch's order: by stream, size, registration of the segment,
//! address.

use super::block::Block;
use super::ids::BlockId;
use super::size_bins::{Key, SizeBins};
use crate::config::OrderOfEquals;

/// Free blocks, a set for each stream.
#[derive(Debug)]
pub(crate) struct FreeSet {
    order: OrderOfEquals,
    /// Sorted by stream. Streams are few, and a program that frees on one goes on to use it: an emptied set
    /// stays.
    streams: Vec<(u64, SizeBins)>,
}

impl FreeSet {
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self { order, streams: Vec::new() }
    }

    /// Adds a block that is not in the set.
    #[inline]
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let at = match self.find(block.stream) {
            Ok(at) => at,
            Err(at) => {
                self.streams.insert(at, (block.stream, SizeBins::new()));
                at
            }
        };
        let new = self.streams[at].1.insert(key);
        debug_assert!(new, "a free block is inserted once");
    }

    /// Takes out a block, which is in the set as it was inserted.
    #[inline]
    pub(crate) fn remove(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let found = self.find(block.stream).is_ok_and(|at| self.streams[at].1.remove(&key));
        debug_assert!(found, "a free block is in the set under its key");
    }

    /// The first block of a stream that has at least `size` bytes, with its size.
    #[inline]
    pub(crate) fn best_fit(&self, stream: u64, size: u64) -> Option<(BlockId, u64)> {
        let key = self.streams[self.find(stream).ok()?].1.first_from(size)?;
        Some((key.id, key.size))
    }

    /// The block of the same stream that follows one in the order; both are in the set.
    pub(crate) fn next(&self, id: BlockId, block: &Block) -> Option<BlockId> {
        let at = self.find(block.stream).ok()?;
        Some(self.streams[at].1.first_after(&self.key(id, block))?.id)
    }

    /// Takes out the first block of a stream that has at least `size` bytes, if its size is one that `fits`.
    #[inline]
    pub(crate) fn take_best_fit(
        &mut self,
        stream: u64,
        size: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Option<BlockId> {
        let at = self.find(stream).ok()?;
        Some(self.streams[at].1.take_first_from(size, fits)?.id)
    }

    /// The blocks of a stream that are smaller than `size`, the largest first.
    pub(crate) fn smaller(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let set = self.find(stream).ok().map(|at| &self.streams[at].1);
        let keys = set.into_iter().flat_map(|set| set.iter().rev());
        keys.skip_while(move |key| key.size >= size).map(|key| key.id)
    }

    /// All blocks, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.streams.iter().flat_map(|(_, set)| set.iter().map(|key| key.id))
    }

    /// Whether a block is in the set under the key it would have now.
    pub(crate) fn contains(&self, id: BlockId, block: &Block) -> bool {
        self.find(block.stream).is_ok_and(|at| self.streams[at].1.contains(&self.key(id, block)))
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.streams.iter().map(|(_, set)| set.len()).sum()
    }

    #[inline]
    fn find(&self, stream: u64) -> Result<usize, usize> {
        match self.streams.first() {
            // The usual case: one stream.
            Some((first, _)) if *first == stream => Ok(0),
            _ => self.streams.binary_search_by_key(&stream, |(s, _)| *s),
        }
    }

    fn key(&self, id: BlockId, block: &Block) -> Key {
        let tie = match self.order {
            OrderOfEquals::Registration => block.registration,
            OrderOfEquals::Address => 0,
        };
        Key { size: block.size, tie, ptr: block.ptr, id }
    }
}
