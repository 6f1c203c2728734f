//! [`RawTable`]: the blocks that the raw calls have handed out, by address.
//!
//! A table with open addressing: an address stands at its home or in the first vacant place behind that, and at
//! most every fourth place is taken. When one goes, those behind it that may move up do, so that there are no
//! tombstones and a program that allocates and frees for ever does not fill it.

use std::num::NonZeroU32;

use super::ids::BlockId;
use super::size::MIN_BLOCK_SIZE;

/// Blocks by address. Its order is never looked at.
#[derive(Debug, Default)]
pub(crate) struct RawTable {
    /// A power of two of them, or none.
    places: Vec<Place>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// 0, which no block has, where it is vacant.
    address: u64,
    id: BlockId,
}

const VACANT: Place = Place { address: 0, id: BlockId { index: 0, generation: NonZeroU32::MIN } };

impl RawTable {
    /// Adds a block, at whose address there is none.
    #[inline]
    pub(crate) fn insert(&mut self, address: u64, id: BlockId) {
        debug_assert!(address != 0 && self.get(address).is_none(), "live blocks have different addresses");
        if 4 * self.len >= self.places.len() {
            self.grow();
        }
        self.len += 1;
        let mask = self.places.len() - 1;
        let mut at = home(address) & mask;
        while self.places[at].address != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = Place { address, id };
    }

    /// The block at an address.
    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<BlockId> {
        self.find(address).map(|at| self.places[at].id)
    }

    /// Takes the block at an address out.
    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<BlockId> {
        let mut vacant = self.find(address)?;
        let id = self.places[vacant].id;
        self.len -= 1;
        let mask = self.places.len() - 1;
        let mut at = (vacant + 1) & mask;
        while self.places[at].address != 0 {
            // It may not stand before its home.
            let from_home = at.wrapping_sub(home(self.places[at].address)) & mask;
            if from_home >= at.wrapping_sub(vacant) & mask {
                self.places[vacant] = self.places[at];
                vacant = at;
            }
            at = (at + 1) & mask;
        }
        self.places[vacant] = VACANT;
        Some(id)
    }

    /// All blocks, with their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, BlockId)> {
        self.places.iter().filter(|place| place.address != 0).map(|place| (place.address, place.id))
    }

    #[inline]
    fn find(&self, address: u64) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = home(address) & mask;
        loop {
            match self.places.get(at)?.address {
                0 => return None,
                there if there == address => return Some(at),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![VACANT; (2 * self.places.len()).max(64)];
        let old = std::mem::replace(self, Self { places, len: 0 });
        for (address, id) in old.iter() {
            self.insert(address, id);
        }
    }
}

/// Where an address would stand, before the mask: the high bits of its product with an odd number near 2^64 divided
/// by the golden ratio, which neighbours spread evenly.
#[inline]
fn home(address: u64) -> usize {
    ((address / MIN_BLOCK_SIZE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests;
