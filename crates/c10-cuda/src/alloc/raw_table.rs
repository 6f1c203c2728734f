//! [`RawTable`]: the blocks that the raw calls have handed out, by address.
//!
//! An address leads to one of many lists of blocks, nearly all of which hold one or none. They are linked through the
//! blocks' slots, as free blocks are, which these are not: so there is nothing to move when one comes or goes, and a
//! list's head is all the memory that it takes.

use super::block_table::{BlockTable, Links, NOWHERE};
use super::size::MIN_BLOCK_SIZE;

/// As many lists as this for each block, or more.
const SPARSE: usize = 4;

/// Slots of blocks, by address. Its order is never looked at. Every call is given the table that the blocks are in.
#[derive(Debug, Default)]
pub(crate) struct RawTable {
    /// The slots that the lists begin with, [`NOWHERE`] for an empty one: a power of two of them, or none.
    heads: Vec<u32>,
    len: usize,
}

/// Where a block was found: its list, and the slot before it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    list: usize,
    before: u32,
}

impl RawTable {
    /// Adds the block of a slot, at whose address there is none.
    #[inline]
    pub(crate) fn insert(&mut self, blocks: &mut BlockTable, index: u32) {
        let address = blocks.block(index).ptr;
        debug_assert!(self.get(blocks, address).is_none(), "live blocks have different addresses");
        if SPARSE * self.len >= self.heads.len() {
            self.grow(blocks);
        }
        self.len += 1;
        self.put(blocks, index, address);
    }

    #[inline]
    fn put(&mut self, blocks: &mut BlockTable, index: u32, address: u64) {
        let list = self.list(address);
        *blocks.links(index) = Links { prev: NOWHERE, next: self.heads[list] };
        self.heads[list] = index;
    }

    /// The slot of the block at an address.
    #[inline]
    pub(crate) fn get(&self, blocks: &BlockTable, address: u64) -> Option<u32> {
        self.find(blocks, address).map(|(_, index)| index)
    }

    /// Takes the block at an address out.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &mut BlockTable, address: u64) -> Option<u32> {
        let (place, index) = self.find(blocks, address)?;
        self.vacate(blocks, place, index);
        Some(index)
    }

    /// Takes out the block that was just found at a place.
    #[inline]
    pub(crate) fn vacate(&mut self, blocks: &mut BlockTable, place: Place, index: u32) {
        self.len -= 1;
        let next = blocks.links_of(index).next;
        match place.before {
            NOWHERE => self.heads[place.list] = next,
            before => blocks.links(before).next = next,
        }
    }

    /// The slots of all blocks.
    pub(crate) fn iter(&self, blocks: &BlockTable) -> impl Iterator<Item = u32> {
        self.heads.iter().flat_map(|head| blocks.list_from(*head))
    }

    /// The place of an address, and the slot of its block.
    #[inline]
    pub(crate) fn find(&self, blocks: &BlockTable, address: u64) -> Option<(Place, u32)> {
        let list = self.list(address);
        let (mut before, mut at) = (NOWHERE, *self.heads.get(list)?);
        while at != NOWHERE {
            if blocks.block(at).ptr == address {
                return Some((Place { list, before }, at));
            }
            (before, at) = (at, blocks.links_of(at).next);
        }
        None
    }

    /// The list of an address: the high bits of the product of its units with an odd number near 2^64 divided by the
    /// golden ratio, which neighbours spread evenly.
    #[inline]
    fn list(&self, address: u64) -> usize {
        let spread = (address / MIN_BLOCK_SIZE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize & self.heads.len().wrapping_sub(1)
    }

    #[cold]
    fn grow(&mut self, blocks: &mut BlockTable) {
        let heads = vec![NOWHERE; (2 * self.heads.len()).max(64)];
        for head in std::mem::replace(&mut self.heads, heads) {
            for index in blocks.list_from(head).collect::<Vec<_>>() {
                self.put(blocks, index, blocks.block(index).ptr);
            }
        }
    }
}

#[cfg(test)]
mod tests;
