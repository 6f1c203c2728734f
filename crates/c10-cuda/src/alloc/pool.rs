//! [`BlockPool`]: the free blocks of one class of requests; [`PoolTable`]: a device's pools.

use std::ops::{Index, IndexMut};

use super::free_set::FreeSet;
use super::ids::PoolId;
use crate::config::OrderOfEquals;

/// A pool's free blocks, and how often it was searched.
#[derive(Debug)]
pub(crate) struct BlockPool {
    pub(crate) free: FreeSet,
    /// Searches so far; counted only where old blocks are collected. A block's age is counted in them.
    pub(crate) get_free_blocks_call_count: u64,
}

impl BlockPool {
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self { free: FreeSet::new(order), get_free_blocks_call_count: 0 }
    }
}

/// The pools of a device. Each owner has one of small blocks and one of large.
#[derive(Debug)]
pub(crate) struct PoolTable {
    owners: Vec<PoolPair>,
}

#[derive(Debug)]
struct PoolPair {
    small: BlockPool,
    large: BlockPool,
}

impl PoolTable {
    /// The device's own.
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        Self { owners: vec![PoolPair { small: BlockPool::new(order), large: BlockPool::new(order) }] }
    }

    /// All pools, the large one of each owner first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BlockPool> {
        self.owners.iter().flat_map(|pair| [&pair.large, &pair.small])
    }
}

impl Index<PoolId> for PoolTable {
    type Output = BlockPool;

    #[inline]
    fn index(&self, id: PoolId) -> &BlockPool {
        let pair = &self.owners[id.owner as usize];
        if id.is_small { &pair.small } else { &pair.large }
    }
}

impl IndexMut<PoolId> for PoolTable {
    #[inline]
    fn index_mut(&mut self, id: PoolId) -> &mut BlockPool {
        let pair = &mut self.owners[id.owner as usize];
        if id.is_small { &mut pair.small } else { &mut pair.large }
    }
}
