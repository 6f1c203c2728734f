//! [`SizeBins`]: an ordered set of free blocks whose usual operations take constant time.
//!
//! Blocks stand in *bins* by size: one for each multiple of 512 bytes up to 128 KiB, then 128 for each power of two,
//! so that a bin rarely holds two. Two levels of bits say which bins hold anything, so that the next larger block is
//! found with no search through empty ones. Within a bin blocks are sorted. A bin is a list, linked through the blocks'
//! slots, and a tree once it is long.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::block::Block;
use super::block_table::{BlockTable, Links, NOWHERE, SLOTS};
use super::size::MIN_BLOCK_SIZE;
use crate::config::OrderOfEquals;

#[cfg(test)]
mod tests;

/// The order of blocks: by size, then as the pool says, then by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    size: u64,
    tie: u64,
    ptr: u64,
}

impl Key {
    /// Whether it comes before another: what `<` says, with the fewest comparisons.
    #[inline]
    fn precedes(&self, other: &Self) -> bool {
        if self.size != other.size {
            self.size < other.size
        } else if self.tie != other.tie {
            self.tie < other.tie
        } else {
            self.ptr < other.ptr
        }
    }
}

/// Bins for each power of two units.
const STEPS: usize = 128;
/// Bins of exactly one size.
const EXACT: usize = 2 * STEPS;
/// Blocks of 2^35 units, which are 16 TiB, and larger ones share the last bin.
const BINS: usize = EXACT + (35 - EXACT.ilog2() as usize) * STEPS;
const WORDS: usize = BINS.div_ceil(64);
/// A list of which more blocks than this have to be passed by becomes a tree.
const LONG: usize = 24;

const _: () = assert!(WORDS <= 64, "one word says which words hold anything");
const _: () = assert!(BINS <= 1 << 12, "no bin has the bit that `first_from` sets");

/// Free blocks in order, by slot of their table, which every call is given.
#[derive(Debug)]
pub(crate) struct SizeBins {
    /// All ones where equals are ordered by registration, and 0 where by address alone.
    ties: u64,
    /// Which words of `words` are not 0.
    summary: u64,
    /// Which bins hold anything.
    words: [u64; WORDS],
    bins: Box<[Bin; BINS]>,
    /// The trees of long bins, and the vacant places among them.
    trees: Vec<BTreeSet<(Key, u32)>>,
    vacant_trees: Vec<u32>,
}

/// What is in a bin: the slot of its first block, or [`TREE`] and the place of its tree, which is never empty.
#[derive(Clone, Copy, Debug)]
struct Bin(u32);

const TREE: u32 = SLOTS;

impl Bin {
    const EMPTY: Self = Self(NOWHERE);

    fn tree(place: u32) -> Self {
        Self(TREE | place)
    }

    /// The place of its tree, if it has one.
    #[inline]
    fn as_tree(self) -> Option<usize> {
        (self.0 >= TREE).then_some((self.0 & !TREE) as usize)
    }
}

impl SizeBins {
    pub(crate) fn new(order: OrderOfEquals) -> Self {
        let ties = match order {
            OrderOfEquals::Registration => u64::MAX,
            OrderOfEquals::Address => 0,
        };
        Self {
            ties,
            summary: 0,
            words: [0; WORDS],
            bins: Box::new([Bin::EMPTY; BINS]),
            trees: Vec::new(),
            vacant_trees: Vec::new(),
        }
    }

    /// Adds the block of a slot, which is not there.
    #[inline]
    pub(crate) fn insert(&mut self, blocks: &mut BlockTable, index: u32) {
        self.insert_at(blocks, index, bin_of(blocks.block(index).size));
    }

    #[inline]
    fn insert_at(&mut self, blocks: &mut BlockTable, index: u32, at: usize) {
        let bin = self.bins[at];
        if bin.0 != NOWHERE {
            return self.insert_among(blocks, index, at);
        }
        *blocks.links(index) = Links { prev: NOWHERE, next: NOWHERE };
        self.bins[at] = Bin(index);
        self.words[at / 64] |= 1 << (at % 64);
        self.summary |= 1 << (at / 64);
    }

    fn insert_among(&mut self, blocks: &mut BlockTable, index: u32, at: usize) {
        let bin = self.bins[at];
        if bin.as_tree().is_some() {
            return self.insert_into_tree(blocks, index, at);
        }
        let (mut prev, mut next) = (NOWHERE, bin.0);
        let mut passed = 0;
        while next != NOWHERE && self.precedes(blocks, next, index) {
            (prev, next) = (next, blocks.links_of(next).next);
            passed += 1;
        }
        *blocks.links(index) = Links { prev, next };
        blocks.links(prev).next = index;
        blocks.links(next).prev = index;
        self.bins[at] = Bin(if prev == NOWHERE { index } else { bin.0 });
        if passed > LONG {
            self.plant(blocks, at);
        }
    }

    #[cold]
    fn insert_into_tree(&mut self, blocks: &BlockTable, index: u32, at: usize) {
        let key = self.key(blocks.block(index));
        self.tree(at).expect("the bin is a tree").insert((key, index));
    }

    /// Takes the block of a slot out, which is there under the key it was inserted with.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &mut BlockTable, index: u32) {
        let at = bin_of(blocks.block(index).size);
        let bin = self.bins[at];
        if bin.as_tree().is_some() {
            return self.remove_from_tree(blocks, index, at);
        }
        // With no branch: whether there are others is anybody's guess.
        let Links { prev, next } = blocks.links_of(index);
        debug_assert!(prev != NOWHERE || bin.0 == index, "a free block is in its bin");
        blocks.links(prev).next = next;
        blocks.links(next).prev = prev;
        let first = if prev == NOWHERE { next } else { bin.0 };
        self.bins[at] = Bin(first);
        let word = &mut self.words[at / 64];
        *word &= !(u64::from(first == NOWHERE) << (at % 64));
        self.summary &= !(u64::from(*word == 0) << (at / 64));
    }

    /// Gives the block of a slot, which is there, another place and size. Where that changes nothing in the order it
    /// stays as it stands.
    #[inline]
    pub(crate) fn resize(&mut self, blocks: &mut BlockTable, index: u32, ptr: u64, size: u64) {
        let at = bin_of(size);
        let block = blocks.block(index);
        let bin = self.bins[at];
        let stays = bin_of(block.size) == at && bin.as_tree().is_none() && {
            let key = Key { size, ptr, ..self.key(block) };
            self.is_between(blocks, index, key)
        };
        if !stays {
            self.remove(blocks, index);
        }
        let block = blocks.block_mut(index);
        (block.ptr, block.size) = (ptr, size);
        if !stays {
            self.insert_at(blocks, index, at);
        }
    }

    /// Whether the block of a slot, which is in a list, would stand there under another key too.
    fn is_between(&self, blocks: &BlockTable, index: u32, key: Key) -> bool {
        let Links { prev, next } = blocks.links_of(index);
        (prev == NOWHERE || self.key(blocks.block(prev)).precedes(&key))
            && (next == NOWHERE || key.precedes(&self.key(blocks.block(next))))
    }

    #[cold]
    fn remove_from_tree(&mut self, blocks: &mut BlockTable, index: u32, at: usize) {
        let key = self.key(blocks.block(index));
        let tree = self.tree(at).expect("the bin is a tree");
        let found = tree.remove(&(key, index));
        debug_assert!(found, "a free block is in its bin under its key");
        // Well below the other limit, so that a bin does not go to and fro.
        if tree.len() <= LONG / 4 {
            self.fell(blocks, at);
        }
    }

    /// Makes a list a tree.
    #[cold]
    fn plant(&mut self, blocks: &BlockTable, at: usize) {
        let entries = self.slots(blocks, at).into_iter().map(|index| (self.key(blocks.block(index)), index));
        let tree = entries.collect();
        let place = match self.vacant_trees.pop() {
            Some(place) => {
                self.trees[place as usize] = tree;
                place
            }
            None => {
                self.trees.push(tree);
                // One for each bin at most.
                self.trees.len() as u32 - 1
            }
        };
        self.bins[at] = Bin::tree(place);
    }

    /// Makes a tree a list.
    fn fell(&mut self, blocks: &mut BlockTable, at: usize) {
        let Some(place) = self.bins[at].as_tree() else { return };
        let tree = std::mem::take(&mut self.trees[place]);
        self.vacant_trees.push(place as u32);
        let mut after = NOWHERE;
        for (_, index) in tree.into_iter().rev() {
            *blocks.links(index) = Links { prev: NOWHERE, next: after };
            blocks.links(after).prev = index;
            after = index;
        }
        self.bins[at] = Bin(after);
    }

    /// The slot of the first block of at least `size` bytes.
    #[inline]
    pub(crate) fn first_from(&self, blocks: &BlockTable, size: u64) -> Option<u32> {
        let at = bin_of(size);
        let mut found = self.next_bin(at)?;
        // Bins of one size hold no smaller blocks. In this way there is one branch, which is seldom taken.
        if found == (at | (usize::from(at < EXACT) << 12)) {
            if let Some(found) = self.first_in(blocks, at, size) {
                return Some(found);
            }
            found = self.next_bin(at + 1)?;
        }
        Some(self.first(found))
    }

    /// The first block of a bin that has at least `size` bytes.
    fn first_in(&self, blocks: &BlockTable, at: usize, size: u64) -> Option<u32> {
        let bin = self.bins[at];
        if let Some(place) = bin.as_tree() {
            let from = (Key { size, tie: 0, ptr: 0 }, 0);
            return self.trees[place].range(from..).next().map(|(_, index)| *index);
        }
        let mut next = bin.0;
        while next != NOWHERE && blocks.at(next).1.size < size {
            next = blocks.links_of(next).next;
        }
        (next != NOWHERE).then_some(next)
    }

    /// The block that follows the one of a slot, which is there.
    pub(crate) fn next(&self, blocks: &BlockTable, index: u32) -> Option<u32> {
        let block = blocks.at(index).1;
        let at = bin_of(block.size);
        let next = if let Some(place) = self.bins[at].as_tree() {
            let behind = (Bound::Excluded((self.key(block), index)), Bound::Unbounded);
            self.trees[place].range(behind).next().map(|(_, index)| *index)
        } else {
            Some(blocks.links_of(index).next).filter(|next| *next != NOWHERE)
        };
        next.or_else(|| self.next_bin(at + 1).map(|at| self.first(at)))
    }

    /// The first block of a bin that holds any.
    #[inline]
    fn first(&self, at: usize) -> u32 {
        let bin = self.bins[at];
        let Some(place) = bin.as_tree() else { return bin.0 };
        let first = self.trees[place].first();
        first.expect("the bin holds a block").1
    }

    /// The slots of all blocks, in order.
    pub(crate) fn iter(&self, blocks: &BlockTable) -> impl DoubleEndedIterator<Item = u32> {
        let used = (0..BINS).filter(|at| self.bins[*at].0 != NOWHERE);
        used.flat_map(|at| self.slots(blocks, at))
    }

    fn slots(&self, blocks: &BlockTable, at: usize) -> Vec<u32> {
        let bin = self.bins[at];
        if let Some(place) = bin.as_tree() {
            return self.trees[place].iter().map(|(_, index)| *index).collect();
        }
        blocks.list_from(bin.0).collect()
    }

    /// The tree of a bin, if it has one.
    fn tree(&mut self, at: usize) -> Option<&mut BTreeSet<(Key, u32)>> {
        self.trees.get_mut(self.bins[at].as_tree()?)
    }

    /// Whether the block of a slot is there, under the key it has now.
    pub(crate) fn contains(&self, blocks: &BlockTable, index: u32) -> bool {
        let block = blocks.at(index).1;
        let at = bin_of(block.size);
        if let Some(place) = self.bins[at].as_tree() {
            return self.trees[place].contains(&(self.key(block), index));
        }
        self.slots(blocks, at).contains(&index)
    }

    /// The first bin from `at` on that holds anything.
    #[inline]
    fn next_bin(&self, at: usize) -> Option<usize> {
        if at >= BINS {
            return None;
        }
        let word = at / 64;
        let rest = self.words[word] >> (at % 64);
        if rest != 0 {
            return Some(at + rest.trailing_zeros() as usize);
        }
        let later = self.summary & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// Whether the block of one slot comes before that of another.
    #[inline]
    fn precedes(&self, blocks: &BlockTable, one: u32, other: u32) -> bool {
        self.key(blocks.block(one)).precedes(&self.key(blocks.block(other)))
    }

    #[inline]
    fn key(&self, block: &Block) -> Key {
        Key { size: block.size, tie: block.registration & self.ties, ptr: block.ptr }
    }
}

/// The bin of a size. It never falls as the size grows. Sizes come in no order, so that a branch here would often be
/// guessed wrong.
#[inline]
fn bin_of(size: u64) -> usize {
    let units = (size / MIN_BLOCK_SIZE) as usize;
    let shift = (units | STEPS).ilog2() - STEPS.ilog2();
    (shift as usize * STEPS + (units >> shift)).min(BINS - 1)
}
