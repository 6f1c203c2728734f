//! [`FreeSet`]: the free blocks of a pool, in PyTorch's order: by stream, size, registration of the segment,
//! address.

use std::collections::BTreeSet;

use super::block::Block;
use super::ids::BlockId;
use crate::config::OrderOfEquals;

/// Free blocks, a set for each stream.
#[derive(Debug)]
pub(crate) struct FreeSet {
    order: OrderOfEquals,
    /// Sorted by stream. Streams are few, and a program that frees on one goes on to use it: an emptied set
    /// stays.
    streams: Vec<(u64, BTreeSet<Key>)>,
}

/// The order within a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    size: u64,
    registration: u64,
    ptr: u64,
    id: BlockId,
}

impl FreeSet {
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self { order, streams: Vec::new() }
    }

    /// Adds a block that is not in the set.
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let at = match self.find(block.stream) {
            Ok(at) => at,
            Err(at) => {
                self.streams.insert(at, (block.stream, BTreeSet::new()));
                at
            }
        };
        let new = self.streams[at].1.insert(key);
        debug_assert!(new, "a free block is inserted once");
    }

    /// Takes out a block, which is in the set as it was inserted.
    pub(crate) fn remove(&mut self, id: BlockId, block: &Block) {
        let key = self.key(id, block);
        let found = self.find(block.stream).is_ok_and(|at| self.streams[at].1.remove(&key));
        debug_assert!(found, "a free block is in the set under its key");
    }

    /// The first block of a stream that has at least `size` bytes, with its size.
    pub(crate) fn best_fit(&self, stream: u64, size: u64) -> Option<(BlockId, u64)> {
        let set = &self.streams[self.find(stream).ok()?].1;
        set.range(lower_bound(size)..).next().map(|key| (key.id, key.size))
    }

    /// The blocks of a stream that are smaller than `size`, the largest first.
    pub(crate) fn smaller(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let set = self.find(stream).ok().map(|at| &self.streams[at].1);
        set.into_iter().flat_map(move |set| set.range(..lower_bound(size)).rev().map(|key| key.id))
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

    fn find(&self, stream: u64) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&stream, |(s, _)| *s)
    }

    fn key(&self, id: BlockId, block: &Block) -> Key {
        let registration = match self.order {
            OrderOfEquals::Registration => block.registration,
            OrderOfEquals::Address => 0,
        };
        Key { size: block.size, registration, ptr: block.ptr, id }
    }
}

/// Comes before every block of `size` bytes.
fn lower_bound(size: u64) -> Key {
    let id = BlockId { index: 0, generation: std::num::NonZeroU32::MIN };
    Key { size, registration: 0, ptr: 0, id }
}
