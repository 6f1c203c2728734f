//! [`BlockTable`]: the blocks of a device, by id.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::block::Block;
use super::ids::BlockId;

/// Slots that are used again; a stale id is caught by its generation.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: NonZeroU32,
    block: Option<Block>,
}

impl BlockTable {
    /// Takes a block in.
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        if let Some(index) = self.vacant.pop() {
            let slot = &mut self.slots[index as usize];
            slot.block = Some(block);
            return BlockId { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).expect("2^32 blocks would need 200 GiB of the host");
        self.slots.push(Slot { generation: NonZeroU32::MIN, block: Some(block) });
        BlockId { index, generation: NonZeroU32::MIN }
    }

    /// Takes a block out; its id is stale from here on.
    pub(crate) fn remove(&mut self, id: BlockId) -> Block {
        let slot = &mut self.slots[id.index as usize];
        assert_eq!(slot.generation, id.generation, "a block is removed once");
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.vacant.push(id.index);
        slot.block.take().expect("a slot whose generation is current holds a block")
    }

    /// The id of the block in a slot, if there is one.
    pub(crate) fn id_at(&self, index: u32) -> Option<BlockId> {
        let slot = self.slots.get(index as usize)?;
        slot.block.as_ref().map(|_| BlockId { index, generation: slot.generation })
    }

    /// The block of an id, unless that is stale.
    pub(crate) fn get(&self, id: BlockId) -> Option<&Block> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.generation == id.generation { slot.block.as_ref() } else { None }
    }

    /// All blocks, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let block = slot.block.as_ref()?;
            Some((BlockId { index: index as u32, generation: slot.generation }, block))
        })
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }
}

impl Index<BlockId> for BlockTable {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        let slot = &self.slots[id.index as usize];
        assert_eq!(slot.generation, id.generation, "a stale block id");
        slot.block.as_ref().expect("a slot whose generation is current holds a block")
    }
}

impl IndexMut<BlockId> for BlockTable {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        let slot = &mut self.slots[id.index as usize];
        assert_eq!(slot.generation, id.generation, "a stale block id");
        slot.block.as_mut().expect("a slot whose generation is current holds a block")
    }
}
