//! [`UnmappedSet`]: the blocks of a pool that have no memory behind them, by stream and address.

use std::collections::BTreeMap;

use crate::alloc::block::Block;
use crate::alloc::ids::BlockId;

/// Unmapped blocks of expandable segments.
#[derive(Debug, Default)]
pub(crate) struct UnmappedSet {
    by_address: BTreeMap<(u64, u64), BlockId>,
}

impl UnmappedSet {
    /// Adds a block that is not in the set.
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) {
        let before = self.by_address.insert((block.stream, block.ptr), id);
        debug_assert!(before.is_none(), "an unmapped block is inserted once");
    }

    /// Takes out a block, which is in the set as it was inserted.
    pub(crate) fn remove(&mut self, id: BlockId, block: &Block) {
        let found = self.by_address.remove(&(block.stream, block.ptr));
        debug_assert_eq!(found, Some(id), "an unmapped block is in the set under its address");
    }

    /// The blocks of a stream, lowest address first.
    pub(crate) fn of_stream(&self, stream: u64) -> impl Iterator<Item = BlockId> {
        self.by_address.range((stream, 0)..=(stream, u64::MAX)).map(|(_, id)| *id)
    }

    /// Whether a block is in the set under the address it has now.
    pub(crate) fn contains(&self, id: BlockId, block: &Block) -> bool {
        self.by_address.get(&(block.stream, block.ptr)) == Some(&id)
    }

    /// All blocks, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.by_address.values().copied()
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }
}
