//! [`BlockTable`]: the blocks of a device, by id.
//!
//! A block stays in its slot from the time it is made until it is part of another; the slot also holds the links
//! of the free list that the block stands in, so that it leaves the list with no search ([`size_bins`]), or those
//! among the blocks that the raw calls have handed out ([`raw_table`]).
//!
//! // Note [Slot 0]
//! Lists and segments end, and blocks come in no order, so that a look whether there is a neighbour would often be
//! guessed wrong. Slot 0 stands for the neighbour that is not there: it is never free, what is written to its links
//! is never read, and so neighbours are asked and linked with no look.
//!
//! [`size_bins`]: super::size_bins
//! [`raw_table`]: super::raw_table

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::block::Block;
use super::ids::{BlockId, PoolId};

/// No block's slot. See Note [Slot 0].
pub(crate) const NOWHERE: u32 = 0;
/// Slots are below this, so that a word has a bit left beside one.
pub(crate) const SLOTS: u32 = 1 << 31;

/// The neighbours of a block in its list, by slot; [`NOWHERE`] at the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

/// What the table keeps of a slot, beside the block in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    links: Links,
    /// The generation of the block in the slot, or of the next one to be.
    generation: NonZeroU32,
}

impl Default for Place {
    fn default() -> Self {
        Self { links: Links { prev: NOWHERE, next: NOWHERE }, generation: NonZeroU32::MIN }
    }
}

/// Slots that are used again; a stale id is caught by its generation.
#[derive(Debug)]
pub(crate) struct BlockTable {
    /// What is left of the last block where none is live: no stream uses it, and no plan and no window has it. The
    /// first is [`NOWHERE`].
    slots: Vec<Block>,
    /// The first vacant slot; the others follow by `links.next`.
    vacant: u32,
    len: usize,
}

impl Default for BlockTable {
    fn default() -> Self {
        let nowhere = Block { allocated: true, ..Block::new(0, 0, 0, 0, PoolId::SMALL) };
        Self { slots: vec![nowhere], vacant: NOWHERE, len: 0 }
    }
}

impl BlockTable {
    /// Takes a block in.
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        self.len += 1;
        let index = self.vacant;
        if index == NOWHERE {
            return self.grow(block);
        }
        let slot = &mut self.slots[index as usize];
        let Place { links, generation } = slot.place;
        self.vacant = links.next;
        *slot = Block { is_live: true, place: Place { generation, ..Place::default() }, ..block };
        BlockId { index, generation }
    }

    /// Takes in a free block of the same segment as another, which has no neighbours yet.
    #[inline]
    pub(crate) fn insert_like(&mut self, like: u32, ptr: u64, size: u64) -> BlockId {
        let Block { stream, registration, pool, mapped, expandable, .. } = self.slots[like as usize];
        let index = self.vacant;
        if index == NOWHERE {
            let block = Block { mapped, expandable, ..Block::new(ptr, size, stream, registration, pool) };
            return self.insert(block);
        }
        self.len += 1;
        let block = &mut self.slots[index as usize];
        self.vacant = block.place.links.next;
        block.is_live = true;
        (block.ptr, block.size, block.requested) = (ptr, size, 0);
        (block.stream, block.registration, block.pool) = (stream, registration, pool);
        (block.mapped, block.expandable, block.allocated) = (mapped, expandable, false);
        (block.prev, block.next, block.gc_count_base) = (NOWHERE, NOWHERE, 0);
        BlockId { index, generation: block.place.generation }
    }

    #[cold]
    fn grow(&mut self, block: Block) -> BlockId {
        let index = u32::try_from(self.slots.len()).ok().filter(|index| *index < SLOTS);
        let index = index.expect("2^31 blocks would need 250 GiB of the host");
        let place = Place::default();
        self.slots.push(Block { is_live: true, place, ..block });
        BlockId { index, generation: place.generation }
    }

    /// Takes in a free block of the bytes before another's, between that and the one before it.
    #[inline]
    pub(crate) fn insert_before(&mut self, after: u32, ptr: u64, size: u64) -> BlockId {
        let id = self.insert_like(after, ptr, size);
        self.link(self.block(after).prev, id.index);
        self.link(id.index, after);
        id
    }

    /// Makes two blocks neighbours; where one is missing the other is at its segment's end.
    #[inline]
    pub(crate) fn link(&mut self, before: u32, after: u32) {
        self.slots[before as usize].next = after;
        self.slots[after as usize].prev = before;
    }

    /// A neighbour, or what is never free where there is none.
    #[inline]
    pub(crate) fn neighbour(&self, index: u32) -> &Block {
        &self.slots[index as usize]
    }

    /// The block before another in its segment.
    pub(crate) fn prev_of(&self, block: &Block) -> Option<(BlockId, &Block)> {
        (block.prev != NOWHERE).then(|| self.at(block.prev))
    }

    /// The block behind another in its segment.
    pub(crate) fn next_of(&self, block: &Block) -> Option<(BlockId, &Block)> {
        (block.next != NOWHERE).then(|| self.at(block.next))
    }

    /// The blocks of a segment from one on.
    pub(crate) fn row_from(&self, id: BlockId) -> impl Iterator<Item = (BlockId, &Block)> {
        std::iter::successors(Some((id, &self[id])), |(_, block)| self.next_of(block))
    }

    /// Takes a block out, which no stream uses any more; its id is stale from here on.
    #[inline]
    pub(crate) fn remove(&mut self, id: BlockId) {
        let block = &mut self[id];
        debug_assert!(block.stream_uses.are_over());
        (block.placed, block.window) = (None, None);
        self.remove_plain(id.index);
    }

    /// The same for a block of its own segment, in no plan's place and no window.
    #[inline]
    pub(crate) fn remove_plain(&mut self, index: u32) {
        let vacant = self.vacant;
        let block = &mut self.slots[index as usize];
        debug_assert!(block.is_live && block.is_blank(), "a block that is taken out is of no use any more");
        let Place { links, generation } = &mut block.place;
        *generation = generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        links.next = vacant;
        block.is_live = false;
        self.vacant = index;
        self.len -= 1;
    }

    /// The id of the block in a slot, if there is one.
    #[inline]
    pub(crate) fn id_at(&self, index: u32) -> Option<BlockId> {
        let block = self.slots.get(index as usize)?;
        block.is_live.then_some(BlockId { index, generation: block.place.generation })
    }

    /// The block in a slot, which holds one, and its id.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> (BlockId, &Block) {
        let block = self.block(index);
        (BlockId { index, generation: block.place.generation }, block)
    }

    /// The id of the block in a slot, which holds one.
    #[inline]
    pub(crate) fn id_of(&self, index: u32) -> BlockId {
        self.at(index).0
    }

    /// The block in a slot, which holds one.
    #[inline]
    pub(crate) fn block(&self, index: u32) -> &Block {
        let block = &self.slots[index as usize];
        debug_assert!(block.is_live);
        block
    }

    /// The block in a slot, which holds one, to be changed.
    #[inline]
    pub(crate) fn block_mut(&mut self, index: u32) -> &mut Block {
        let block = &mut self.slots[index as usize];
        debug_assert!(block.is_live);
        block
    }

    /// The list links of a slot, to be changed.
    #[inline]
    pub(crate) fn links(&mut self, index: u32) -> &mut Links {
        &mut self.slots[index as usize].place.links
    }

    /// The list links of a slot.
    #[inline]
    pub(crate) fn links_of(&self, index: u32) -> Links {
        self.slots[index as usize].place.links
    }

    /// The slots of a list, from that of its first block on; [`NOWHERE`] for an empty one.
    pub(crate) fn list_from(&self, first: u32) -> impl Iterator<Item = u32> {
        let there = |index: u32| (index != NOWHERE).then_some(index);
        std::iter::successors(there(first), move |index| there(self.links_of(*index).next))
    }

    /// The block of an id, unless that is stale.
    pub(crate) fn get(&self, id: BlockId) -> Option<&Block> {
        self.slots.get(id.index as usize).filter(|block| block.is_there(id))
    }

    /// All blocks, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let live = self.slots.iter().zip(0..).filter(|(block, _)| block.is_live);
        live.map(|(block, index)| (BlockId { index, generation: block.place.generation }, block))
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Block {
    /// Whether the slot of an id, which this is of, holds the block of the id.
    #[inline]
    fn is_there(&self, id: BlockId) -> bool {
        self.place.generation == id.generation && self.is_live
    }
}

impl Index<BlockId> for BlockTable {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        let block = &self.slots[id.index as usize];
        assert!(block.is_there(id), "a stale block id");
        block
    }
}

impl IndexMut<BlockId> for BlockTable {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        let block = &mut self.slots[id.index as usize];
        assert!(block.is_there(id), "a stale block id");
        block
    }
}
