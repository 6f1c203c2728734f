//! [`SegmentChange`] and [`Segments`]: what came from the driver and went back, and what the replay holds of it.

use std::fmt;

use crate::by_address::ByAddress;
use crate::snapshot::{Event, InitialSegment};

/// A segment that came from the driver or went back, or a row of pages of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentChange {
    /// Whether it came.
    pub(super) obtained: bool,
    /// Whether it is pages.
    pub(super) is_pages: bool,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

impl SegmentChange {
    /// What a segment event of the recording says.
    pub(super) fn recorded(event: &Event, obtained: bool) -> Self {
        Self { obtained, is_pages: event.action.is_of_maps(), address: event.address, bytes: event.size }
    }
}

impl fmt::Display for SegmentChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (self.is_pages, self.obtained) {
            (false, true) => "obtained a segment of",
            (false, false) => "gave back a segment of",
            (true, true) => "mapped",
            (true, false) => "unmapped",
        };
        write!(f, "{verb} {} bytes at {:#x}", self.bytes, self.address)
    }
}

/// The segments of fixed extent that the replay holds, and how many of their blocks are not free.
#[derive(Debug, Default)]
pub(super) struct Segments {
    by_address: ByAddress<Held>,
    /// How many are wholly free.
    idle: usize,
}

#[derive(Debug)]
struct Held {
    end: u64,
    blocks: usize,
}

impl Segments {
    /// Takes in a segment as the recording began with it.
    pub(super) fn restore(&mut self, segment: &InitialSegment) {
        if segment.is_expandable {
            return;
        }
        let blocks = segment.blocks.iter().filter(|block| block.is_active()).count();
        let held = Held { end: segment.address + segment.total_size, blocks };
        self.idle += usize::from(blocks == 0);
        self.by_address.insert(segment.address, held);
    }

    /// Takes in what came from the driver or went back.
    pub(super) fn apply(&mut self, change: &SegmentChange) {
        if change.is_pages {
            // They go back whatever else lives in the segment.
        } else if change.obtained {
            let held = Held { end: change.address + change.bytes, blocks: 0 };
            self.by_address.insert(change.address, held);
            self.idle += 1;
        } else if self.by_address.remove(change.address).is_some_and(|held| held.blocks == 0) {
            self.idle -= 1;
        }
    }

    /// Counts a block that was handed out.
    pub(super) fn add_block(&mut self, address: u64) {
        if let Some(held) = self.at(address) {
            held.blocks += 1;
            let was_idle = held.blocks == 1;
            self.idle -= usize::from(was_idle);
        }
    }

    /// Counts a block that is free again.
    pub(super) fn remove_block(&mut self, address: u64) {
        if let Some(held) = self.at(address) {
            held.blocks -= 1;
            let is_idle = held.blocks == 0;
            self.idle += usize::from(is_idle);
        }
    }

    /// Whether just these are wholly free.
    pub(super) fn are_the_idle(&self, mut addresses: impl ExactSizeIterator<Item = u64>) -> bool {
        // No address comes twice, as a segment is not given back twice in a row.
        addresses.len() == self.idle
            && addresses.all(|address| self.by_address.get(address).is_some_and(|held| held.blocks == 0))
    }

    fn at(&mut self, address: u64) -> Option<&mut Held> {
        let (_, held) = self.by_address.at_or_before_mut(address)?;
        (address < held.end).then_some(held)
    }
}
