//! [`RawTable`]: the blocks that the raw calls have handed out, by address.
//!
//! A table with open addressing: an address stands at its home or in the first vacant place behind that, and at
//! most every eighth place is taken. When one goes, those behind it that may move up do, so that there are no
//! tombstones and a program that allocates and frees for ever does not fill it. A place holds the low half of the
//! address and the block's slot, where all of it stands: so the table stays small.

use super::block_table::{BlockTable, NOWHERE};
use super::size::MIN_BLOCK_SIZE;

/// Slots of blocks, by address. Its order is never looked at. Every call is given the table that the blocks are in.
#[derive(Debug, Default)]
pub(crate) struct RawTable {
    /// A power of two of them, or none.
    places: Vec<Place>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// What [`tag`] says of the address.
    tag: u32,
    /// The block's slot; [`NOWHERE`] where the place is vacant.
    index: u32,
}

const VACANT: Place = Place { tag: 0, index: NOWHERE };

impl RawTable {
    /// Adds the block of a slot, at whose address there is none.
    #[inline]
    pub(crate) fn insert(&mut self, blocks: &BlockTable, index: u32) {
        let address = blocks.block(index).ptr;
        debug_assert!(self.get(blocks, address).is_none(), "live blocks have different addresses");
        if 8 * self.len >= self.places.len() {
            self.grow();
        }
        self.len += 1;
        self.put(Place { tag: tag(address), index });
    }

    #[inline]
    fn put(&mut self, place: Place) {
        let mask = self.places.len() - 1;
        let mut at = home(place.tag) & mask;
        while self.places[at].index != NOWHERE {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    /// The slot of the block at an address.
    #[inline]
    pub(crate) fn get(&self, blocks: &BlockTable, address: u64) -> Option<u32> {
        self.find(blocks, address).map(|(_, index)| index)
    }

    /// Takes the block at an address out.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &BlockTable, address: u64) -> Option<u32> {
        let (at, index) = self.find(blocks, address)?;
        self.vacate(at);
        Some(index)
    }

    /// Vacates a place that was just found.
    #[inline]
    pub(crate) fn vacate(&mut self, mut vacant: usize) {
        self.len -= 1;
        let mask = self.places.len() - 1;
        let mut at = (vacant + 1) & mask;
        while self.places[at].index != NOWHERE {
            // It may not stand before its home.
            let from_home = at.wrapping_sub(home(self.places[at].tag)) & mask;
            if from_home >= at.wrapping_sub(vacant) & mask {
                self.places[vacant] = self.places[at];
                vacant = at;
            }
            at = (at + 1) & mask;
        }
        self.places[vacant] = VACANT;
    }

    /// The slots of all blocks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.places.iter().filter(|place| place.index != NOWHERE).map(|place| place.index)
    }

    /// The place of an address, and the slot of its block.
    #[inline]
    pub(crate) fn find(&self, blocks: &BlockTable, address: u64) -> Option<(usize, u32)> {
        let (mask, tag) = (self.places.len().wrapping_sub(1), tag(address));
        let mut at = home(tag) & mask;
        loop {
            let place = self.places.get(at)?;
            if place.index == NOWHERE {
                return None;
            }
            if place.tag == tag && blocks.block(place.index).ptr == address {
                return Some((at, place.index));
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![VACANT; (2 * self.places.len()).max(64)];
        let old = std::mem::replace(&mut self.places, places);
        old.into_iter().filter(|place| place.index != NOWHERE).for_each(|place| self.put(place));
    }
}

/// The low half of an address, in units: of live blocks in a machine it is nearly always unlike the others'.
#[inline]
fn tag(address: u64) -> u32 {
    (address / MIN_BLOCK_SIZE) as u32
}

/// Where an address would stand, before the mask: the high bits of its tag's product with an odd number near 2^64
/// divided by the golden ratio, which neighbours spread evenly.
#[inline]
fn home(tag: u32) -> usize {
    (u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests;
