//! [`FreeSet`]: the free blocks of a pool, in PyTorch's order: by stream, size, registration of the segment,
//! address.

use super::block_table::BlockTable;
use super::ids::BlockId;
use super::size_bins::SizeBins;
use crate::config::OrderOfEquals;

/// Free blocks, a set for each stream. Every call is given the table that the blocks are in.
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
    pub(crate) fn insert(&mut self, blocks: &mut BlockTable, id: BlockId) {
        self.of(blocks[id].stream).insert(blocks, id.index);
    }

    /// The free blocks of a stream, of which there may be none.
    #[inline]
    pub(crate) fn of(&mut self, stream: u64) -> &mut SizeBins {
        let at = self.find(stream).unwrap_or_else(|at| self.add(at, stream));
        &mut self.streams[at].1
    }

    #[cold]
    fn add(&mut self, at: usize, stream: u64) -> usize {
        self.streams.insert(at, (stream, SizeBins::new(self.order)));
        at
    }

    /// The free blocks of a stream, if it ever had any.
    #[inline]
    pub(crate) fn known(&mut self, stream: u64) -> Option<&mut SizeBins> {
        let at = self.find(stream).ok()?;
        Some(&mut self.streams[at].1)
    }

    /// Takes out a block, which is in the set as it was inserted.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &mut BlockTable, id: BlockId) {
        let at = self.find(blocks[id].stream).expect("a free block is in the set");
        self.streams[at].1.remove(blocks, id.index);
    }

    /// The first block of a stream that has at least `size` bytes.
    #[inline]
    pub(crate) fn best_fit(&self, blocks: &BlockTable, stream: u64, size: u64) -> Option<BlockId> {
        let index = self.streams[self.find(stream).ok()?].1.first_from(blocks, size)?;
        Some(blocks.at(index).0)
    }

    /// The block of the same stream that follows one in the order; both are in the set.
    pub(crate) fn next(&self, blocks: &BlockTable, id: BlockId) -> Option<BlockId> {
        let at = self.find(blocks[id].stream).ok()?;
        let index = self.streams[at].1.next(blocks, id.index)?;
        Some(blocks.at(index).0)
    }

    /// Takes out the first block of a stream that has at least `size` bytes, if its size is one that `fits`.
    #[inline]
    pub(crate) fn take_best_fit(
        &mut self,
        blocks: &mut BlockTable,
        stream: u64,
        size: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Option<BlockId> {
        let bins = self.known(stream)?;
        let index = bins.first_from(blocks, size)?;
        let (id, block) = blocks.at(index);
        if !fits(block.size) {
            return None;
        }
        bins.remove(blocks, index);
        Some(id)
    }

    /// The blocks of a stream that are smaller than `size`, the largest first.
    pub(crate) fn smaller(
        &self,
        blocks: &BlockTable,
        stream: u64,
        size: u64,
    ) -> impl Iterator<Item = BlockId> {
        let set = self.find(stream).ok().map(|at| &self.streams[at].1);
        let slots = set.into_iter().flat_map(|set| set.iter(blocks).rev());
        slots.map(|index| blocks.at(index)).skip_while(move |(_, block)| block.size >= size).map(|(id, _)| id)
    }

    /// All blocks, in order.
    pub(crate) fn iter(&self, blocks: &BlockTable) -> impl Iterator<Item = BlockId> {
        let slots = self.streams.iter().flat_map(|(_, set)| set.iter(blocks));
        slots.map(|index| blocks.at(index).0)
    }

    /// Whether a block is in the set under the key it would have now.
    pub(crate) fn contains(&self, blocks: &BlockTable, id: BlockId) -> bool {
        let stream = self.find(blocks[id].stream);
        stream.is_ok_and(|at| self.streams[at].1.contains(blocks, id.index))
    }

    /// How many blocks there are.
    pub(crate) fn len(&self, blocks: &BlockTable) -> usize {
        self.iter(blocks).count()
    }

    #[inline]
    fn find(&self, stream: u64) -> Result<usize, usize> {
        match self.streams.first() {
            // The usual case: one stream.
            Some((first, _)) if *first == stream => Ok(0),
            _ => self.streams.binary_search_by_key(&stream, |(s, _)| *s),
        }
    }
}
