//! [`Blocks`]: what allocators above the driver have handed out of its ranges, and what they have taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::report::Use;

/// A block that is handed out.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) bytes: u64,
    /// Tells it from what was handed out there before.
    pub(super) life: u64,
    pub(super) by: Arc<Use>,
}

/// A block that was taken back, or what later ones have left of it.
#[derive(Clone, Debug)]
struct Gone {
    end: u64,
    by: Arc<Use>,
}

/// How a use stands to the blocks.
#[derive(Debug)]
pub(super) enum Standing {
    /// In one that is handed out, or where none ever was. The number is its life, or 0.
    Inside(u64),
    /// It begins in a block, or behind one, that ends before it does.
    Beyond(Arc<Use>),
    /// In one that was taken back.
    After(Arc<Use>),
    /// Where blocks are, and in none.
    Nowhere,
}

/// The blocks by first byte.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    live: BTreeMap<u64, Block>,
    gone: BTreeMap<u64, Gone>,
    /// The driver's ranges of which a block was ever handed out.
    ranges: BTreeSet<u64>,
    lives: u64,
}

impl Blocks {
    /// Notes a block of the driver's range `range`. One that it overlaps, if there is any.
    pub(super) fn hand_out(&mut self, range: u64, at: u64, bytes: u64, by: &Arc<Use>) -> Option<Arc<Use>> {
        let end = at.saturating_add(bytes);
        let before = self.live.range(..end).next_back();
        let other = before.filter(|(start, block)| start.saturating_add(block.bytes) > at);
        let other = other.map(|(_, block)| Arc::clone(&block.by));
        self.ranges.insert(range);
        self.cut_gone(at, end);
        self.lives += 1;
        self.live.insert(at, Block { bytes, life: self.lives, by: Arc::clone(by) });
        other
    }

    /// The length of a block that is handed out.
    pub(super) fn bytes_of(&self, at: u64) -> Option<u64> {
        self.live.get(&at).map(|block| block.bytes)
    }

    /// Notes that a block was taken back.
    pub(super) fn take_back(&mut self, at: u64, by: Arc<Use>) {
        if let Some(block) = self.live.remove(&at) {
            let end = at.saturating_add(block.bytes);
            self.cut_gone(at, end);
            self.gone.insert(at, Gone { end, by });
        }
    }

    /// Forgets a range of the driver. The blocks that are still handed out there.
    pub(super) fn forget_range(&mut self, range: u64, end: u64) -> Vec<Arc<Use>> {
        self.ranges.remove(&range);
        self.cut_gone(range, end);
        let held: Vec<u64> = self.live.range(range..end).map(|(at, _)| *at).collect();
        held.iter().filter_map(|at| self.live.remove(at)).map(|block| block.by).collect()
    }

    /// How a use of `[at, end)`, which lies in the driver's range `range`, stands to the blocks.
    pub(super) fn standing(&self, range: u64, at: u64, end: u64) -> Standing {
        if !self.ranges.contains(&range) {
            return Standing::Inside(0);
        }
        let block = self.live.range(..=at).next_back().filter(|(start, _)| **start >= range);
        if let Some((start, block)) = block
            && at - start < block.bytes
        {
            let fits = end - start <= block.bytes;
            return if fits { Standing::Inside(block.life) } else { Standing::Beyond(Arc::clone(&block.by)) };
        }
        let gone = self.gone.range(..=at).next_back().filter(|(_, gone)| gone.end > at);
        match (gone, block) {
            (Some((_, gone)), _) => Standing::After(Arc::clone(&gone.by)),
            (None, Some((_, block))) => Standing::Beyond(Arc::clone(&block.by)),
            (None, None) => Standing::Nowhere,
        }
    }

    /// Takes `[at, end)` out of what is gone.
    fn cut_gone(&mut self, at: u64, end: u64) {
        if let Some((_, gone)) = self.gone.range_mut(..at).next_back()
            && gone.end > at
        {
            let rest = gone.clone();
            gone.end = at;
            if rest.end > end {
                self.gone.insert(end, rest);
            }
        }
        while let Some((&start, _)) = self.gone.range(at..end).next() {
            if let Some(gone) = self.gone.remove(&start).filter(|gone| gone.end > end) {
                self.gone.insert(end, gone);
            }
        }
    }
}
