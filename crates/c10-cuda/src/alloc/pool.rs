//! [`BlockPool`]: the free blocks of one class of requests.

use super::free_set::FreeSet;
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
