//! [`Growable`]: what a recording shows of the addresses of expandable segments.
//!
//! It shows rows of mapped pages, and neither where a segment's addresses end nor which rows are of one. A stream has
//! one segment in a pool, as long as that does not run out of addresses; so each is taken to begin with its first
//! row and to end where the next can begin.

use std::collections::BTreeMap;

use super::lane::{Lane, Lanes};
use super::pools::SMALL_BUFFER;
use crate::snapshot::{Action, InitialState, Snapshot};

/// The most addresses that a segment takes, in bytes: so many that none runs out.
pub(super) const MOST_ADDRESSES: u64 = 1 << 40;

/// The expandable segments of a device's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Growable {
    /// Rows that were mapped at any time, by first byte: whether they are of a small pool.
    rows: BTreeMap<u64, bool>,
    /// The first row of each segment when the recording began, in the order of the rows.
    bases: Vec<u64>,
    /// The least distance from one segment's first row to another's.
    apart: Option<u64>,
}

impl Growable {
    pub(super) fn new(snapshot: &Snapshot, initial: &InitialState, lanes: &Lanes) -> Self {
        let mut growable = Self::default();
        let mut first: BTreeMap<(Lane, bool), u64> = BTreeMap::new();
        let mut note = |lane: Lane, is_small: bool, address: u64| {
            growable.rows.insert(address, is_small);
            let first = first.entry((lane, is_small)).or_insert(address);
            *first = address.min(*first);
        };
        for row in initial.segments.iter().filter(|segment| segment.is_expandable) {
            note(Lane { pool: row.pool_id, stream: row.stream }, row.is_small, row.address);
        }
        for event in snapshot.trace(initial.device).iter().filter(|event| event.action == Action::SegmentMap)
        {
            // A request of a small pool needs one page at most.
            note(lanes.of(event), event.size <= SMALL_BUFFER, event.address);
        }
        for row in snapshot.segments_of(initial.device).filter(|segment| segment.is_expandable) {
            note(Lane { pool: row.pool_id, stream: row.stream }, row.is_small, row.address);
        }
        let mut seen = Vec::new();
        for row in initial.segments.iter().filter(|segment| segment.is_expandable) {
            let of = (row.pool_id, row.stream, row.is_small);
            if !seen.contains(&of) {
                seen.push(of);
                growable.bases.push(row.address);
            }
        }
        let mut firsts: Vec<_> = first.into_values().collect();
        firsts.sort_unstable();
        growable.apart = firsts.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0).min();
        growable
    }

    /// Whether the page at an address is of a small pool.
    pub(super) fn is_small(&self, address: u64) -> bool {
        self.rows.range(..=address).next_back().is_some_and(|(_, is_small)| *is_small)
    }

    /// Where the segments begin that there were at first.
    pub(super) fn bases(&self) -> &[u64] {
        &self.bases
    }

    /// How many addresses a segment takes, in bytes.
    pub(super) fn addresses(&self) -> u64 {
        self.apart.unwrap_or(MOST_ADDRESSES).min(MOST_ADDRESSES)
    }
}
